//! The region beside the stage: what happened, what is chosen, what the run is made of.

pub mod events;
pub mod inspect;
pub mod run;

use yew::prelude::*;

use self::events::Events;
use self::inspect::Inspect;
use self::run::Run;
use super::store::use_slice;
use super::widget::button::IconButton;
use super::widget::icon::Icon;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Events,
    Inspect,
    Run,
}

impl Tab {
    const ALL: [(Tab, &str); 3] = [(Tab::Events, "Events"), (Tab::Inspect, "Inspect"), (Tab::Run, "Run")];
}

#[derive(PartialEq, Properties)]
pub struct PanelProps {
    /// For the narrow page, where the region is a drawer.
    pub on_close: Callback<()>,
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
            <div key="tabs" class="tabs" role="tablist">
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
                <span key="grow" class="grow"></span>
                <IconButton key="close" class="panel-close" icon={Icon::Close} name="Close this region"
                    onclick={props.on_close.clone()} />
            </div>
            <div key="body" class="panel-body" role="tabpanel" tabindex="0" aria-label="Events and details">
                <h2 key="name" class="unseen">{ "Events and details" }</h2>
                { match *tab {
                    Tab::Events => html! { <Events key="events" /> },
                    Tab::Inspect => html! { <Inspect key="inspect" /> },
                    Tab::Run => html! { <Run key="run" /> },
                } }
            </div>
        </aside>
    }
}
