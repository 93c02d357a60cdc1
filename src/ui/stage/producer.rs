//! A producer's card.

use yew::prelude::*;

use super::faults::Faults;
use super::sending::Sending;
use super::{anchor, light};
use crate::kafka::types::ClientName;
use crate::ui::shared::Shared;
use crate::ui::widget::button::CommandButton;
use crate::ui::widget::choose::Choose;
use crate::view::act;
use crate::view::model::{Focus, Health, ProducerView};
use crate::view::sentences;

#[derive(PartialEq, Properties)]
pub struct ProducerProps {
    pub view: Shared<ProducerView>,
}

#[component]
pub fn Producer(props: &ProducerProps) -> Html {
    let view = &props.view;
    let (command, label) =
        if view.paused { (act::resume(&view.name), "resume") } else { (act::pause(&view.name), "pause") };
    html! {
        <article class={classes!("client", "producer", light(view.health), view.paused.then_some("paused"))}
            data-node={anchor(view.node)} aria-label={sentences::producer(view)}>
            <div key="head" class="client-head">
                <span class="light" aria-hidden="true"></span>
                <h3><Choose focus={Focus::Client(ClientName::new(&view.name))} name={view.name.to_string()} /></h3>
                <span class="state">{ sentences::producer_state(view) }</span>
                <span class="grow"></span>
                if view.health != Health::Dead {
                    <CommandButton {command} {label} class="small" />
                }
            </div>
            <p key="how" class="dim">{ sentences::producer_manner(view) }</p>
            <Sending key="sending" view={Shared::new(&view.sending)}
                waiting={view.waiting.as_deref().unwrap_or("").to_owned()} />
            <Faults key="faults" faults={view.faults.clone()} />
        </article>
    }
}
