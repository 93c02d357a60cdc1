//! A producer's card.

use yew::prelude::*;

use super::faults::Faults;
use super::{anchor, light};
use crate::ui::shared::Shared;
use crate::ui::widget::button::CommandButton;
use crate::view::act;
use crate::view::model::{Health, ProducerView};
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
                <h3 title={view.name.to_string()}>{ view.name.as_ref() }</h3>
                <span class="state">{ sentences::producer_state(view) }</span>
                <span class="grow"></span>
                if view.health != Health::Dead {
                    <CommandButton {command} {label} class="small" />
                }
            </div>
            <p key="how" class="dim">
                { format!("{} to {} · acks={}", view.rate, view.topic, view.acks) }{ if view.idempotent { " · idempotent" } else { "" } }
            </p>
            <p key="counts" class="counts">
                <span>{ format!("{} sent", view.sent) }</span>
                <span class="good">{ format!("{} acknowledged", view.acknowledged) }</span>
                if view.failed > 0 {
                    <span class="bad">{ format!("{} failed", view.failed) }</span>
                }
            </p>
            <p key="waiting" class="waiting" title={view.waiting.as_deref().map(str::to_owned)}>{ view.waiting.as_deref().unwrap_or("").to_owned() }</p>
            <Faults key="faults" faults={view.faults.clone()} />
        </article>
    }
}
