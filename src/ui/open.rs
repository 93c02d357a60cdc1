//! Opening a scenario file, a saved run or a link, from the disk or from the clipboard.

use std::rc::Rc;

use js_sys::futures::JsFuture;
use web_sys::{File, HtmlInputElement, HtmlTextAreaElement};
use yew::platform::spawn_local;
use yew::prelude::*;

use super::keep;
use super::run::{DEFAULT_NAME, DEFAULT_SCENARIO};
use super::share::ROUTE;
use super::store::use_store;

#[derive(PartialEq, Properties)]
pub struct OpenProps {
    pub on_done: Callback<()>,
    pub on_build: Callback<()>,
}

/// **Invariant:** a text that is refused changes nothing but the sentence below the field.
#[component]
pub fn Open(props: &OpenProps) -> Html {
    let store = use_store();
    let text = use_state(String::new);
    let name = use_state(|| Rc::<str>::from("Pasted scenario"));
    let refusal = use_state(|| None::<String>);

    let on_file = use_callback(
        (name.setter(), text.setter(), refusal.setter()),
        |event: Event, (name, text, refusal)| {
            let input: HtmlInputElement = event.target_unchecked_into();
            if let Some(file) = input.files().and_then(|files| files.get(0)) {
                let (text, refusal) = (text.clone(), refusal.clone());
                name.set(Rc::from(file.name()));
                spawn_local(async move {
                    match read(&file).await {
                        Some(content) => {
                            refusal.set(None);
                            text.set(content);
                        }
                        None => refusal.set(Some("The browser could not read the file.".to_owned())),
                    }
                });
            }
        },
    );
    let oninput = use_callback(text.setter(), |event: InputEvent, text| {
        let area: HtmlTextAreaElement = event.target_unchecked_into();
        text.set(area.value());
    });
    let onsubmit = {
        let (store, on_done) = (store.clone(), props.on_done.clone());
        let (name, text, refusal) = (name.clone(), text.clone(), refusal.setter());
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            // A saved run is a link's text; everything else is a scenario.
            let opened = match text.trim().split_once(ROUTE) {
                Some((_, link)) if !text.trim().contains('\n') => {
                    store.open_link(link).map_err(|error| error.to_string())
                }
                _ => store.open(&name, &text).map_err(|error| error.to_string()),
            };
            match opened {
                Ok(()) => on_done.emit(()),
                Err(error) => refusal.set(Some(error)),
            }
        })
    };
    let on_default = {
        let on_done = props.on_done.clone();
        Callback::from(move |_: MouseEvent| {
            store.open(DEFAULT_NAME, DEFAULT_SCENARIO).expect("the default scenario is right");
            on_done.emit(());
        })
    };
    html! {
        <form class="open-form" {onsubmit}>
            <p key="intro">{ "A scenario is a TOML or JSON file: seed, network, brokers, topics, clients and timed commands. A saved run or a link opens here too." }</p>
            <label key="file">{ "File" }<input type="file" accept=".toml,.json,.glassbroker,text/plain" onchange={on_file} /></label>
            <label key="text">{ "or its text" }
                <textarea rows="14" spellcheck="false" value={(*text).clone()} {oninput}/>
            </label>
            <KeptRuns key="kept" on_done={props.on_done.clone()} refusal={refusal.setter()} />
            <p key="refusal" class="refusal" role="alert">
                { refusal.as_deref().unwrap_or("").to_owned() }
            </p>
            <div key="buttons" class="dialog-buttons">
                <button key="default" type="button" onclick={on_default}>{ "The default cluster" }</button>
                <button key="build" type="button" onclick={props.on_build.reform(|_| ())}>{ "Build one" }</button>
                <button key="open" type="submit" class="primary" disabled={text.trim().is_empty()}>{ "Open" }</button>
            </div>
        </form>
    }
}

#[derive(PartialEq, Properties)]
struct KeptRunsProps {
    on_done: Callback<()>,
    refusal: UseStateSetter<Option<String>>,
}

/// The runs that this browser keeps.
#[component]
fn KeptRuns(props: &KeptRunsProps) -> Html {
    let store = use_store();
    let kept = use_state(keep::list);
    if kept.is_empty() {
        return Html::default();
    }
    html! {
        <fieldset class="kept-runs">
            <legend>{ format!("or one of the runs that this browser keeps, the newest {} of them", keep::MOST) }</legend>
            <ul>
                { for kept.iter().map(|run| {
                    let name = format!("{} at {}, kept {}", run.name, run.clock, run.date());
                    let on_open = {
                        let (store, id, on_done, refusal) =
                            (store.clone(), run.id.clone(), props.on_done.clone(), props.refusal.clone());
                        Callback::from(move |_: MouseEvent| {
                            let opened = keep::read(&id).map(|text| store.open_kept(&id, &text));
                            match opened {
                                Some(Ok(())) => on_done.emit(()),
                                Some(Err(error)) => refusal.set(Some(error.to_string())),
                                None => refusal.set(Some("This browser does not keep the run any more.".to_owned())),
                            }
                        })
                    };
                    let on_forget = {
                        let (kept, id) = (kept.setter(), run.id.clone());
                        Callback::from(move |_: MouseEvent| {
                            keep::forget(&id);
                            kept.set(keep::list());
                        })
                    };
                    html! {
                        <li key={run.id.clone()}>
                            <span>{ name.clone() }</span>
                            <button type="button" aria-label={format!("Open {name}")} onclick={on_open}>{ "Open" }</button>
                            <button type="button" aria-label={format!("Forget {name}")} onclick={on_forget}>{ "Forget" }</button>
                        </li>
                    }
                }) }
            </ul>
        </fieldset>
    }
}

/// A file's text; `None` when the browser cannot read it.
async fn read(file: &File) -> Option<String> {
    JsFuture::from(file.text()).await.ok()?.as_string()
}
