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
