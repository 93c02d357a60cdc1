//! In the browser: the same figures as natively, printed by `cargo xtask bench-web`.
#![cfg(target_arch = "wasm32")]

use std::io;
use std::time::Duration;

use glassbroker::bench::{assign, engine, history, speed};
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

fn clock() -> Duration {
    let performance = web_sys::window().and_then(|window| window.performance());
    Duration::from_secs_f64(performance.expect("a page has a clock").now() / 1000.0)
}

/// A wasm memory only grows.
fn memory() -> u64 {
    const PAGE_BYTES: u64 = 65_536;
    core::arch::wasm32::memory_size::<0>() as u64 * PAGE_BYTES
}

fn print(measure: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
    let mut told = Vec::new();
    measure(&mut told).expect("memory takes what is written");
    console_log!("{}", String::from_utf8(told).expect("figures are text"));
}

/// Before all else, as what others took is never given back.
#[wasm_bindgen_test]
fn a_default_cluster() {
    print(|out| speed::default_cluster(clock, memory, out));
}

#[wasm_bindgen_test]
fn b_assignors() {
    print(|out| assign::run(clock, out));
}

#[wasm_bindgen_test]
fn c_engine() {
    print(|out| engine::engine(clock, out));
}

#[wasm_bindgen_test]
fn d_history() {
    print(|out| history::history(clock, out));
}
