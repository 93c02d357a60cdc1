//! In the browser: the same run as natively, the JavaScript class, the page itself.
#![cfg(target_arch = "wasm32")]

#[path = "web/build.rs"]
mod build;
#[path = "web/compare.rs"]
mod compare;
#[path = "web/digest.rs"]
mod digest;
#[path = "web/page.rs"]
mod page;
#[path = "web/sandbox.rs"]
mod sandbox;
#[path = "web/time.rs"]
mod time;
#[path = "web/why.rs"]
mod why;

wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
