//! A link to the present moment, or a file where it is too long for one.

use js_sys::futures::JsFuture;
use wasm_bindgen::JsCast;
use web_sys::{Blob, HtmlAnchorElement, HtmlInputElement, Url};
use yew::platform::spawn_local;
use yew::prelude::*;

use super::store::use_store;
use crate::lab::link::text::{encode, encode_saved};

/// What a page's address holds before a link's text.
pub const ROUTE: &str = "#/s/";
/// Chats and mail programs cut longer addresses.
const MOST_CHARACTERS: usize = 2_000;

/// The link in the page's address, if there is one.
pub fn in_address() -> Option<String> {
    let hash = web_sys::window()?.location().hash().ok()?;
    hash.strip_prefix(ROUTE).map(str::to_owned)
}

/// The page's address with this link.
fn address(link: &str) -> Option<String> {
    let here = web_sys::window()?.location().href().ok()?;
    let page = here.split('#').next().unwrap_or_default();
    Some(format!("{page}{ROUTE}{link}"))
}

#[component]
pub fn Share() -> Html {
    let store = use_store();
    // The moment at which the dialog opened, however long it stays open.
    let address = use_memo((), |()| address(&encode(&store.link().without_comments())).unwrap_or_default());
    let said = use_state_eq(|| "");
    let field = use_node_ref();
    let on_copy = {
        let (address, said, field) = (address.clone(), said.setter(), field.clone());
        Callback::from(move |_: MouseEvent| copy(&address, &field, said.clone()))
    };
    let on_save = {
        let said = said.setter();
        Callback::from(move |_: MouseEvent| {
            said.set(if save(&encode_saved(&store.saved())).is_some() {
                "Saved."
            } else {
                "The browser did not save the file."
            });
        })
    };
    let is_short = address.len() <= MOST_CHARACTERS;
    html! {
        <div class="share">
            <p key="lead">
                { "Scenario, commands and this moment. Who opens it lives the run again and lands on the same digest. \
                    A file has the other branches and the scenario's comments too." }
            </p>
            if is_short {
                <label key="link">{ "Link" }
                    <input ref={field} type="text" readonly=true value={address.to_string()} />
                </label>
            } else {
                <p key="link" class="refusal">
                    { format!("The link would have {} characters, and many programs cut one off after {MOST_CHARACTERS}. \
                        Save it as a file, which Open reads.", address.len()) }
                </p>
            }
            <div key="buttons" class="dialog-buttons">
                <button key="copy" type="button" class={is_short.then_some("primary")} disabled={!is_short} onclick={on_copy}>
                    { "Copy the link" }
                </button>
                <button key="save" type="button" class={(!is_short).then_some("primary")} onclick={on_save}>
                    { "Save as a file" }
                </button>
            </div>
            <p key="said" role="status">{ *said }</p>
        </div>
    }
}

/// Where the browser has no clipboard to give, the link is marked, to be copied by hand.
fn copy(address: &str, field: &NodeRef, said: UseStateSetter<&'static str>) {
    let Some(window) = web_sys::window() else { return };
    let (address, field) = (address.to_owned(), field.clone());
    spawn_local(async move {
        let clipboard = window.navigator().clipboard();
        let copied =
            !clipboard.is_undefined() && JsFuture::from(clipboard.write_text(&address)).await.is_ok();
        if !copied && let Some(field) = field.cast::<HtmlInputElement>() {
            field.select();
        }
        said.set(if copied { "Copied." } else { "The link is marked: copy it with Ctrl or Cmd + C." });
    });
}

/// Hands a file to the browser.
fn save(link: &str) -> Option<()> {
    let parts = js_sys::Array::of1(&format!("{ROUTE}{link}").into());
    let url = Url::create_object_url_with_blob(&Blob::new_with_str_sequence(&parts).ok()?).ok()?;
    let document = web_sys::window()?.document()?;
    let anchor: HtmlAnchorElement = document.create_element("a").ok()?.dyn_into().ok()?;
    anchor.set_href(&url);
    anchor.set_download("run.glassbroker");
    anchor.click();
    Url::revoke_object_url(&url).ok()
}
