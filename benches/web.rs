//! In the browser: the same figures as natively, printed by `cargo xtask bench-web`.
#![cfg(target_arch = "wasm32")]

use std::io;
use std::time::Duration;

use glassbroker::bench::{assign, engine};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

fn clock() -> Duration {
    let performance = web_sys::window().and_then(|window| window.performance());
    Duration::from_secs_f64(performance.expect("a page has a clock").now() / 1000.0)
}

fn print(measure: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
    let mut told = Vec::new();
    measure(&mut told).expect("memory takes what is written");
    console_log!("{}", String::from_utf8(told).expect("figures are text"));
}

#[wasm_bindgen_test]
fn a_assignors() {
    print(|out| assign::run(clock, out));
}

#[wasm_bindgen_test]
fn b_engine() {
    print(|out| engine::engine(clock, out));
}
