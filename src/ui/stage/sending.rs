//! How far a producer is: its records, its accumulator, its transaction. Of a producer alone, or of an application's.

use yew::prelude::*;

use crate::ui::panel::events::tone;
use crate::ui::shared::Shared;
use crate::ui::widget::button::CommandButton;
use crate::view::model::{SendingView, TransactionView};
use crate::view::sentences;

#[derive(PartialEq, Properties)]
pub struct SendingProps {
    pub view: Shared<SendingView>,
    /// What holds it up; stands in the place of what the first batch waits for.
    pub waiting: AttrValue,
}

#[component]
pub fn Sending(props: &SendingProps) -> Html {
    let view = &props.view;
    html! {
        <div class="sending">
            <p key="counts" class="counts">
                <span>{ format!("{} sent", view.sent) }</span>
                <span class="good">{ format!("{} acknowledged", view.acknowledged) }</span>
                if view.failed > 0 {
                    <span class="bad">{ format!("{} failed", view.failed) }</span>
                }
            </p>
            <p key="accumulator" class="counts accumulator" title="the accumulator, requests without an answer, buffer.memory">
                <span>{ format!("{} in flight", view.requests_in_flight) }</span>
                <span>{ sentences::accumulated(view) }</span>
                <span>{ format!("buffer {}% free", view.buffer_free_percent) }</span>
            </p>
            if let Some(sticky) = &view.sticky {
                <p key="sticky" class="dim">{ format!("sticky {sticky}") }</p>
            }
            if props.waiting.is_empty() {
                <p key="waits" class="waits dim">{ view.first.as_deref().unwrap_or("").to_owned() }</p>
            } else {
                <p key="waits" class="waits waiting" title={&props.waiting}>{ &props.waiting }</p>
            }
            if let Some(transaction) = &view.transaction {
                { self::transaction(transaction) }
            }
        </div>
    }
}

fn transaction(view: &TransactionView) -> Html {
    let calling = view.calling.as_ref().map(|call| format!("in {call}"));
    html! {
        <div key="transaction" class="transaction" role="group" aria-label={sentences::transaction(view)}>
            <p key="client" class="transaction-head">
                <b title="transactional.id">{ view.id.as_ref() }</b>
                <span class={classes!("pill", tone(view.tone))}>{ view.state }</span>
                <span class="dim">{ calling.unwrap_or_default() }</span>
                <span class="grow"></span>
                { for view.offers.iter().map(|(command, label)| html! {
                    <CommandButton key={*label} command={command.to_string()} label={*label} class="small" />
                }) }
            </p>
            <p key="coordinator" class="dim">
                { match &view.coordinated {
                    Some(coordinated) => format!("broker {}: {}", coordinated.broker, sentences::coordinated(coordinated)),
                    None => "no coordinator has it now".to_owned(),
                } }
            </p>
            if let Some(error) = &view.error {
                <p key="error" class="bad">{ error.as_ref() }</p>
            }
        </div>
    }
}
