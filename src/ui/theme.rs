//! Dark or light: an attribute of the document, remembered by the browser.
//!
//! **Invariant:** the key is the one that `static/boot.js` reads before the program runs.

use web_sys::Element;

const KEY: &str = "glassbroker.theme";

fn root() -> Option<Element> {
    web_sys::window()?.document()?.document_element()
}

pub fn is_light() -> bool {
    root().and_then(|root| root.get_attribute("data-theme")).is_some_and(|theme| theme == "light")
}

/// Changes the theme; a browser that keeps nothing changes it until the page is closed.
pub fn toggle() {
    let theme = if is_light() { "dark" } else { "light" };
    if let Some(root) = root() {
        let _ = root.set_attribute("data-theme", theme);
    }
    if let Some(storage) = web_sys::window().and_then(|window| window.local_storage().ok().flatten()) {
        let _ = storage.set_item(KEY, theme);
    }
}
