//! The same scenario, the same digest, natively and in the browser.

use glassbroker::kafka::time::Time;
use glassbroker::lab::session::{Options, Session};

const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");
/// What the run below comes to, on every machine. `UPDATE_EXPECT=1 cargo test --test digest` writes it anew.
const EXPECTED: &str = include_str!("digest.txt");

/// Sixty seconds of the default cluster with a broker's death, its return and another consumer, step by step in
/// strict mode: a line for each stage.
pub fn stages() -> String {
    let options = Options { seed: Some(7), strict: true };
    let mut session = Session::open(SCENARIO, options).expect("the default scenario is right");
    let mut text = String::new();
    let acts = [
        (20, "kill broker 1"),
        (35, "start broker 1"),
        (45, "add consumer consumer-c to billing"),
        (60, "crash consumer-a"),
        (60, "pause checkout-api"),
    ];
    for (at_s, act) in acts {
        session.run_until(Time::from_ms(at_s * 1000), u64::MAX);
        text.push_str(&format!("{:016x} at {at_s} s, then {act}\n", session.digest()));
        session.command(act).expect(act);
    }
    session.run_until(Time::from_ms(120_000), u64::MAX);
    text.push_str(&format!("{:016x} at 120 s, after {} events\n", session.digest(), session.events_done()));
    text
}

#[cfg(target_arch = "wasm32")]
#[wasm_bindgen_test::wasm_bindgen_test]
fn the_browser_comes_to_the_digests_of_the_native_run() {
    assert_eq!(stages(), EXPECTED);
}

#[cfg(not(target_arch = "wasm32"))]
#[test]
fn the_default_run_comes_to_the_digests_on_record() {
    // expect-test compares and, when asked, updates; the constant is what the browser compares with.
    expect_test::expect_file!["./digest.txt"].assert_eq(&stages());
    assert!(!EXPECTED.is_empty());
}
