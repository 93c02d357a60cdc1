//! The region beside the stage: what happened, what is chosen, what became of the records, what the run is made of.

pub mod events;
pub mod inspect;
pub mod ledger;
pub mod reason;
pub mod run;

use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, KeyboardEvent};
use yew::prelude::*;

use self::events::Events;
use self::inspect::Inspect;
use self::ledger::Ledger;
use self::reason::Reason;
use self::run::Run;
use super::store::use_slice;
use super::widget::button::IconButton;
use super::widget::icon::Icon;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Events,
    Inspect,
    Ledger,
    Run,
}

impl Tab {
    const ALL: [(Tab, &str); 4] =
        [(Tab::Events, "Events"), (Tab::Inspect, "Inspect"), (Tab::Ledger, "Ledger"), (Tab::Run, "Run")];
}

#[derive(PartialEq, Properties)]
pub struct PanelProps {
    /// For the narrow page, where the region is a drawer.
    pub on_close: Callback<()>,
}

/// Arrow keys go from tab to tab and open it.
fn walk(event: KeyboardEvent) {
    let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
    let next = target.and_then(|tab| match event.key().as_str() {
        "ArrowLeft" => tab.previous_element_sibling(),
        "ArrowRight" => tab.next_element_sibling(),
        _ => None,
    });
    if let Some(tab) = next.and_then(|tab| tab.dyn_into::<HtmlElement>().ok()) {
        // A tab that cannot take the focus opens all the same.
        let _ = tab.focus();
        tab.click();
    }
}

#[component]
pub fn Panel(props: &PanelProps) -> Html {
    let tab = use_state_eq(|| Tab::Events);
    let focus = use_slice(|shown| shown.focus.clone());
    use_effect_with(focus, {
        let tab = tab.setter();
        move |focus| {
            if focus.is_some() {
                tab.set(Tab::Inspect);
            }
        }
    });
    html! {
        <aside class="panel" aria-label="Events and details">
            <div key="tabs" class="tabs">
                <div key="list" class="tab-list" role="tablist" aria-label="Events and details" onkeydown={walk}>
                { for Tab::ALL.iter().map(|(each, name)| {
                    let (each, tab) = (*each, tab.clone());
                    let selected = *tab == each;
                    let onclick = move |_: MouseEvent| tab.set(each);
                    html! {
                        <button key={*name} type="button" role="tab" aria-selected={selected.to_string()} {onclick}>
                            { *name }
                        </button>
                    }
                }) }
                </div>
                <IconButton key="close" class="panel-close" icon={Icon::Close} name="Close this region"
                    onclick={props.on_close.clone()} />
            </div>
            <div key="body" class="panel-body" role="tabpanel" tabindex="0" aria-label="Events and details">
                <h2 key="name" class="unseen">{ "Events and details" }</h2>
                <Reason key="reason" />
                { match *tab {
                    Tab::Events => html! { <Events key="events" /> },
                    Tab::Inspect => html! { <Inspect key="inspect" /> },
                    Tab::Ledger => html! { <Ledger key="ledger" /> },
                    Tab::Run => html! { <Run key="run" /> },
                } }
            </div>
        </aside>
    }
}
