//! The native half of the digest test; the browser's half is in `web.rs`.
#![cfg(not(target_arch = "wasm32"))]

#[path = "web/digest.rs"]
mod digest;
