//! The card that a failed program leaves: the message, and what is needed to see the failure again.
//!
//! **Invariant:** it needs neither Yew nor the run; both may be what failed.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use web_sys::{Document, Element};

const CARD_ID: &str = "crash";

thread_local! {
    static RUN: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Remembers the seed and the commands so far.
pub fn note(seed: u64, journal: &str) {
    RUN.with_borrow_mut(|run| *run = (seed, journal.to_owned()));
}

/// Shows the card when the program fails.
pub fn install() {
    // Yew would set a hook of its own after this one.
    yew::set_custom_panic_hook(Box::new(|info| {
        web_sys::console::error_1(&info.to_string().into());
        show(info);
    }));
}

fn show(info: &PanicHookInfo) -> Option<()> {
    let document = web_sys::window()?.document()?;
    let body = document.body()?;
    if document.get_element_by_id(CARD_ID).is_some() {
        // What fails after the first failure is its consequence.
        return None;
    }
    let (seed, journal) = RUN.try_with(|run| run.try_borrow().ok().map(|run| run.clone())).ok().flatten()?;
    let card = document.create_element("section").ok()?;
    card.set_id(CARD_ID);
    card.set_attribute("role", "alert").ok()?;
    add(&document, &card, "h2", "The program stopped at a fault of its own")?;
    add(&document, &card, "p", "What you see is the last picture. Reload the page to start again.")?;
    add(&document, &card, "pre", &info.to_string())?;
    add(&document, &card, "p", &format!("To see it again: seed {seed}, with these commands."))?;
    add(&document, &card, "pre", if journal.is_empty() { "(no command was given)" } else { &journal })?;
    body.append_child(&card).ok()?;
    Some(())
}

fn add(document: &Document, parent: &Element, tag: &str, text: &str) -> Option<()> {
    let element = document.create_element(tag).ok()?;
    element.set_text_content(Some(text));
    parent.append_child(&element).ok()?;
    Some(())
}
