//! The narrative: one sentence for each thing that changed, newest first.

use yew::prelude::*;

use super::reason::Why;
use crate::ui::shared::Shared;
use crate::ui::store::{use_slice, use_store};
use crate::ui::widget::rules::Rules;
use crate::view::model::{Sentence, Tone};

/// The class of a tone's colour.
pub fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Neutral => "neutral",
        Tone::Info => "info",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

/// What the colour says, for everyone who does not see it.
fn word(tone: Tone) -> &'static str {
    match tone {
        Tone::Neutral | Tone::Info => "",
        Tone::Good => "ok",
        Tone::Warning => "notice",
        Tone::Bad => "fault",
    }
}

#[component]
pub fn Events() -> Html {
    let sentences = use_slice(|shown| Shared::new(&shown.model.sentences));
    html! {
        <ol class="events" reversed={true}>
            { for sentences.iter().rev().map(|sentence| html! {
                <Event key={sentence.number} view={Shared::new(sentence)} />
            }) }
        </ol>
    }
}

#[derive(PartialEq, Properties)]
struct EventProps {
    view: Shared<Sentence>,
}

#[component]
fn Event(props: &EventProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let title = match view.about.clone() {
        None => html! { <b>{ view.title.as_ref() }</b> },
        Some(about) => {
            let onclick = move |_: MouseEvent| store.choose(Some(about.clone()));
            html! { <button type="button" class="plain" {onclick}>{ view.title.as_ref() }</button> }
        }
    };
    html! {
        <li class={tone(view.tone)}>
            <p key="time" class="when">
                <time>{ view.time.to_string() }</time>
                <span class="word">{ word(view.tone) }</span>
            </p>
            <div key="title" class="title">{ title }</div>
            <p key="detail" class="detail">{ view.detail.as_ref() }</p>
            <Why key="why" question={format!("why event {}", view.number)} name={format!("Why? {}", view.title)} />
            <Rules key="rules" ids={view.rules.clone()} sentence={view.number} />
        </li>
    }
}
