//! The JavaScript class.

use glassbroker::api::Sandbox;
use js_sys::{Array, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_test::wasm_bindgen_test;

const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");

fn get(object: &JsValue, path: &[&str]) -> JsValue {
    path.iter().fold(object.clone(), |value, key| {
        let key = key.parse::<u32>().map_or_else(|_| JsValue::from_str(key), JsValue::from);
        Reflect::get(&value, &key).expect("an object")
    })
}

#[wasm_bindgen_test]
fn a_sandbox_runs_takes_commands_and_shows_what_it_holds() {
    let mut sandbox = Sandbox::new(SCENARIO).expect("the default scenario is right");
    sandbox.run(10_000.0).expect("ten seconds");
    let snapshot = sandbox.snapshot().expect("a snapshot");
    assert_eq!(get(&snapshot, &["now"]), JsValue::from(10_000));
    assert_eq!(get(&snapshot, &["partitions", "0", "leader"]), JsValue::from(1));
    sandbox.command("kill broker 1").expect("it runs");
    sandbox.run(15_000.0).expect("fifteen seconds");
    let snapshot = sandbox.snapshot().expect("a snapshot");
    assert_eq!(get(&snapshot, &["brokers", "0", "state"]), JsValue::from("dead"));
    assert_eq!(get(&snapshot, &["partitions", "0", "leader"]), JsValue::from(2));
    let members: Array = get(&snapshot, &["groups", "0", "members"]).dyn_into().expect("a list");
    assert_eq!(members.length(), 2);
    assert_eq!(sandbox.digest().len(), 16);
}

#[wasm_bindgen_test]
fn what_is_refused_throws_and_changes_nothing() {
    assert!(Sandbox::new("format = 1\nseed = \"x\"").is_err());
    let mut sandbox = Sandbox::new(SCENARIO).expect("the default scenario is right");
    sandbox.run(5_000.0).expect("five seconds");
    let digest = sandbox.digest();
    assert!(sandbox.command("kill broker 9").is_err());
    assert!(sandbox.command("open the pod bay doors").is_err());
    assert!(sandbox.run(-1.0).is_err());
    assert!(sandbox.run(f64::NAN).is_err());
    assert_eq!(sandbox.digest(), digest);
}

#[wasm_bindgen_test]
fn a_sandbox_goes_back_parts_and_comes_again_from_its_link() {
    let mut sandbox = Sandbox::new(SCENARIO).expect("the default scenario is right");
    sandbox.run(14_000.0).expect("fourteen seconds");
    let straight = sandbox.digest();
    sandbox.seek(13_000.0).expect("a second back");
    assert_eq!(sandbox.now(), 13_000.0);
    sandbox.run(1_000.0).expect("on again");
    assert_eq!(sandbox.digest(), straight);
    assert!(sandbox.step_back());

    sandbox.seek(13_000.0).expect("a second back");
    sandbox.command("kill broker 3").expect("it runs");
    sandbox.run(2_000.0).expect("two seconds");
    let branches = sandbox.branches().expect("a list");
    assert_eq!(get(&branches, &["0", "name"]), JsValue::from("main"));
    assert_eq!(get(&branches, &["0", "end"]), JsValue::from(14_000));
    assert_eq!(get(&branches, &["1", "name"]), JsValue::from("kill broker 3 at 00:13.000"));
    assert_eq!(get(&branches, &["1", "current"]), JsValue::TRUE);

    let again = Sandbox::open_link(&sandbox.link("demo")).expect("its own link");
    assert_eq!((again.now(), again.digest()), (15_000.0, sandbox.digest()));
    sandbox.switch_to(0).expect("there are two");
    assert_eq!((sandbox.now(), sandbox.digest()), (14_000.0, straight));
    assert!(sandbox.switch_to(2).is_err());
    assert!(sandbox.seek(-1.0).is_err());
    assert!(Sandbox::open_link("2.nothing").is_err());
}

#[wasm_bindgen_test]
fn a_sandbox_says_what_would_be_otherwise() {
    let mut sandbox = Sandbox::new(SCENARIO).expect("the default scenario is right");
    sandbox.run(13_000.0).expect("thirteen seconds");
    let digest = sandbox.digest();
    let compared = sandbox.compare("consumers group.protocol=consumer").expect("it can be");
    assert_eq!(get(&compared, &["sides", "1"]), JsValue::from("consumers group.protocol=consumer"));
    assert_eq!(get(&compared, &["now"]), JsValue::from(13_000));
    assert!(get(&compared, &["parting", "time"]).as_f64().is_some_and(|time| time > 0.0));
    let rows: Array = get(&compared, &["rows"]).dyn_into().expect("a list");
    assert!(rows.length() > 10);
    assert_eq!(get(&compared, &["rows", "0", "name"]), JsValue::from("partition time without an owner"));
    assert!(sandbox.compare("producers acks=all").is_err(), "nothing would be otherwise");
    assert!(sandbox.compare("everything").is_err());
    assert_eq!(sandbox.digest(), digest);
}
