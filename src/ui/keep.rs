//! Runs that this browser keeps, so that closing the tab loses nothing.
//!
//! Each run has a number of its own, so that two tabs do not write over each other; a tab that is loaded again goes on with
//! its own. The newest [`MOST`] are kept, fewer if the browser has no room.
//!
//! **Invariant:** what is kept is whole: a run is written at once or not at all.

use js_sys::{Date, Math};
use wasm_bindgen::JsValue;
use web_sys::Storage;

use crate::lab::link::saved::Saved;
use crate::lab::link::text::encode_saved;

/// So many are kept.
pub const MOST: usize = 8;
const PREFIX: &str = "glassbroker.run.";
/// Where a tab keeps the number of its run.
const OF_TAB: &str = "glassbroker.tab";

/// Why a run is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    #[error(
        "this browser keeps nothing here (a private window or a setting): save the run as a file with Share"
    )]
    Forbidden,
    #[error("this browser has no room for the run: save it as a file with Share")]
    Full,
}

/// A run that is kept, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub id: String,
    pub name: String,
    /// Where it stood.
    pub clock: String,
    /// When it was kept, in milliseconds of the reader's clock.
    pub kept_ms: i64,
}

impl Kept {
    /// When it was kept, as the reader writes dates.
    pub fn date(&self) -> String {
        let date = Date::new(&JsValue::from_f64(self.kept_ms as f64));
        date.to_locale_string("default", &JsValue::UNDEFINED).into()
    }
}

fn storage() -> Option<Storage> {
    web_sys::window()?.local_storage().ok()?
}

fn of_tab() -> Option<Storage> {
    web_sys::window()?.session_storage().ok()?
}

/// A number for a new run of this tab.
pub fn new_id() -> String {
    format!("{:.0}-{:.0}", Date::now(), Math::random() * 1e9)
}

/// Notes that this tab shows the run of this number.
pub fn note_tab(id: &str) {
    if let Some(storage) = of_tab() {
        // A browser that keeps nothing says so when the run itself is kept.
        let _ = storage.set_item(OF_TAB, id);
    }
}

/// What this tab shows from now on need not be kept.
pub fn forget_tab() {
    if let Some(storage) = of_tab() {
        let _ = storage.remove_item(OF_TAB);
    }
}

/// The run that this tab showed before it was loaded again, and its text. The tab forgets it until it is noted anew, so that
/// a run that cannot be shown is not tried again and again.
pub fn take_of_tab() -> Option<(String, String)> {
    let id = of_tab()?.get_item(OF_TAB).ok()??;
    forget_tab();
    let text = read(&id)?;
    Some((id, text))
}

/// Keeps a run under its number, in place of what was kept under it before; the oldest others make room if there is none.
///
/// # Errors
///
/// The browser keeps nothing, or has no room even so.
pub fn keep(id: &str, saved: &Saved) -> Result<(), KeepError> {
    let storage = storage().ok_or(KeepError::Forbidden)?;
    let clock = saved.present.position().time;
    let name = saved.name.replace(['\n', '\t'], " ");
    let value = format!("{:.0}\t{clock}\t{name}\n{}", Date::now(), encode_saved(saved));
    let mut others: Vec<Kept> = list().into_iter().filter(|kept| kept.id != id).collect();
    while others.len() >= MOST {
        others.pop().iter().for_each(|oldest| forget(&oldest.id));
    }
    while storage.set_item(&format!("{PREFIX}{id}"), &value).is_err() {
        let oldest = others.pop().ok_or(KeepError::Full)?;
        forget(&oldest.id);
    }
    Ok(())
}

/// All that are kept, the newest first. What is no run under such a name is passed over and left alone.
pub fn list() -> Vec<Kept> {
    let Some(storage) = storage() else { return Vec::new() };
    let keys = (0..storage.length().unwrap_or(0)).filter_map(|index| storage.key(index).ok()?);
    let ids = keys.filter_map(|key| key.strip_prefix(PREFIX).map(str::to_owned));
    let mut kept: Vec<Kept> = ids
        .filter_map(|id| {
            let value = storage.get_item(&format!("{PREFIX}{id}")).ok()??;
            let mut head = value.lines().next()?.splitn(3, '\t');
            let kept_ms = head.next()?.parse().ok()?;
            let (clock, name) = (head.next()?.to_owned(), head.next()?.to_owned());
            Some(Kept { id, name, clock, kept_ms })
        })
        .collect();
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.kept_ms));
    kept
}

/// The text of a kept run.
pub fn read(id: &str) -> Option<String> {
    let value = storage()?.get_item(&format!("{PREFIX}{id}")).ok()??;
    value.split_once('\n').map(|(_, text)| text.to_owned())
}

pub fn forget(id: &str) {
    if let Some(storage) = storage() {
        // What is not there any more is forgotten too.
        let _ = storage.remove_item(&format!("{PREFIX}{id}"));
    }
}
