//! The screen's frames: requestAnimationFrame, once asked for, until dropped.
//!
//! **Invariant:** the run goes on only here, never in an effect of Yew; the browser stops the frames of a hidden tab,
//! and with them virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;

type Tick = Closure<dyn FnMut(f64)>;

pub struct FrameLoop {
    request: Rc<Cell<i32>>,
    tick: Rc<RefCell<Option<Tick>>>,
}

impl FrameLoop {
    /// Calls `frame` with the reader's time in milliseconds at each frame.
    pub fn start(mut frame: impl FnMut(f64) + 'static) -> FrameLoop {
        let request = Rc::new(Cell::new(0));
        let tick: Rc<RefCell<Option<Tick>>> = Rc::default();
        let (again, asked) = (Rc::downgrade(&tick), request.clone());
        *tick.borrow_mut() = Some(Closure::new(move |real_ms| {
            frame(real_ms);
            if let Some(tick) = again.upgrade() {
                asked.set(ask(tick.borrow().as_ref()));
            }
        }));
        request.set(ask(tick.borrow().as_ref()));
        FrameLoop { request, tick }
    }
}

fn ask(tick: Option<&Tick>) -> i32 {
    let callback = tick.map(|tick| tick.as_ref().unchecked_ref());
    match (web_sys::window(), callback) {
        (Some(window), Some(callback)) => window.request_animation_frame(callback).unwrap_or(0),
        _ => 0,
    }
}

impl Drop for FrameLoop {
    fn drop(&mut self) {
        if let Some(window) = web_sys::window() {
            // A frame that cannot be taken back finds no closure and ends.
            let _ = window.cancel_animation_frame(self.request.get());
        }
        self.tick.borrow_mut().take();
    }
}
