//! Keyboard shortcuts of the whole page.
//!
//! **Invariant:** a key that a focused control or an open dialog needs for itself is left to it.

use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    PlayOrPause,
    Step,
    StepBack,
    MarkBefore,
    MarkAfter,
    NextChange,
    CommandField,
    Help,
    Theme,
    Measure,
    CloseDrawer,
}

/// What the help dialog lists.
pub const LIST: [(&str, &str); 12] = [
    ("Space", "play or pause"),
    (".", "step one event"),
    (",", "step one event back"),
    ("[ and ]", "go to the mark before or after this moment"),
    ("n", "run to the next change"),
    ("Ctrl or Cmd + K", "go to the command field"),
    ("t", "dark or light"),
    ("Arrow keys", "walk from replica to replica; Enter inspects"),
    ("Shift + arrows", "walk left and right from record to record of a replica"),
    ("Shift + B", "measure how many events a second this browser carries out"),
    ("Escape", "close the events drawer, or end a comparison"),
    ("?", "this list"),
];

/// The shortcut that `event` stands for.
pub fn shortcut(event: &KeyboardEvent) -> Option<Shortcut> {
    let key = event.key();
    let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
    let inside = |selector: &str| {
        target.as_ref().is_some_and(|element| element.closest(selector).ok().flatten().is_some())
    };
    if (event.ctrl_key() || event.meta_key()) && key.eq_ignore_ascii_case("k") && !inside("dialog[open]") {
        return Some(Shortcut::CommandField);
    }
    if event.ctrl_key() || event.meta_key() || event.alt_key() {
        return None;
    }
    if inside("dialog[open], input:not([type=range]), textarea, select") {
        return None;
    }
    match key.as_str() {
        " " if inside("button, summary, a, [role=button]") => None,
        " " => Some(Shortcut::PlayOrPause),
        "." => Some(Shortcut::Step),
        "," => Some(Shortcut::StepBack),
        "[" => Some(Shortcut::MarkBefore),
        "]" => Some(Shortcut::MarkAfter),
        "n" => Some(Shortcut::NextChange),
        "t" => Some(Shortcut::Theme),
        "B" => Some(Shortcut::Measure),
        "?" => Some(Shortcut::Help),
        "Escape" => Some(Shortcut::CloseDrawer),
        _ => None,
    }
}
