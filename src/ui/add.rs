//! The dialogs that ask what to add: a producer, a topic.

use std::rc::Rc;

use js_sys::Reflect;
use web_sys::HtmlElement;
use yew::prelude::*;

use super::answer::Answer;
use super::store::{use_slice, use_store};
use crate::view::act::{self, NewProducer, NewTopic};

#[derive(PartialEq, Properties)]
pub struct AddProps {
    pub on_done: Callback<()>,
}

/// A form's field by name; empty when there is none.
pub fn field(form: &HtmlElement, name: &str) -> String {
    let element = form.query_selector(&format!("[name={name}]")).ok().flatten();
    // Inputs, selections and text areas are three types with the same property.
    element
        .and_then(|element| Reflect::get(&element, &"value".into()).ok())
        .and_then(|value| value.as_string())
        .unwrap_or_default()
}

/// Gives the command that `compose` makes of a form; the form stays while the command is refused.
#[hook]
fn use_submit(on_done: Callback<()>, compose: fn(&HtmlElement) -> String) -> (Callback<SubmitEvent>, Html) {
    let store = use_store();
    let given = use_state(|| None::<Rc<str>>);
    let answer = use_slice(|shown| shown.answer.clone());
    let mine =
        given.as_ref().and_then(|given| answer.filter(|answer: &Rc<Answer>| answer.command() == Some(given)));
    let done = mine.as_ref().is_some_and(|answer| answer.refusal().is_none());
    use_effect_with(done, move |done| {
        if *done {
            on_done.emit(());
        }
    });
    let onsubmit = Callback::from(move |event: SubmitEvent| {
        event.prevent_default();
        let text = compose(&event.target_unchecked_into());
        store.command(&text);
        given.set(Some(Rc::from(text)));
    });
    let refusal = mine.and_then(|answer| answer.refusal().cloned());
    let refusal =
        html! { <p key="refusal" class="refusal" role="alert">{ refusal.as_deref().unwrap_or("") }</p> };
    (onsubmit, refusal)
}

#[component]
pub fn AddProducer(props: &AddProps) -> Html {
    let name = use_slice(|shown| act::free_producer_name(&shown.model));
    let topics = use_slice(|shown| shown.model.scenario.topics.clone());
    let (onsubmit, refusal) = use_submit(props.on_done.clone(), |form| {
        act::add_producer(&NewProducer {
            name: field(form, "name"),
            topic: field(form, "topic"),
            rate: field(form, "rate"),
            acks: field(form, "acks"),
        })
    });
    html! {
        <form class="fields" {onsubmit}>
            <label key="name">{ "Name" }<input name="name" required={true} value={name} /></label>
            <label key="topic">{ "Topic" }
                <select name="topic">
                    { for topics.iter().enumerate().map(|(index, topic)| html! {
                        <option key={&**topic} selected={index == 0}>{ topic.as_ref() }</option>
                    }) }
                </select>
            </label>
            <label key="rate">{ "Rate" }<input name="rate" required={true} value="4/s" /></label>
            <label key="acks">{ "acks" }
                <select name="acks"><option selected={true}>{ "all" }</option><option>{ "1" }</option><option>{ "0" }</option></select>
            </label>
            { refusal }
            <div key="buttons" class="dialog-buttons">
                <button type="submit" class="primary">{ "Add producer" }</button>
            </div>
        </form>
    }
}

#[component]
pub fn AddTopic(props: &AddProps) -> Html {
    let (onsubmit, refusal) = use_submit(props.on_done.clone(), |form| {
        act::create_topic(&NewTopic {
            name: field(form, "name"),
            partitions: field(form, "partitions"),
            replication_factor: field(form, "replication-factor"),
            config: field(form, "config"),
        })
    });
    html! {
        <form class="fields" {onsubmit}>
            <label key="name">{ "Name" }<input name="name" required={true} value="payments" /></label>
            <label key="partitions">{ "Partitions" }
                <input name="partitions" type="number" required={true} value="3" />
            </label>
            <label key="rf">{ "Replication factor" }
                <input name="replication-factor" type="number" required={true} value="3" />
            </label>
            <label key="config">{ "Configs" }
                <textarea name="config" rows="3" spellcheck="false" placeholder="min.insync.replicas=2"/>
            </label>
            { refusal }
            <div key="buttons" class="dialog-buttons">
                <button type="submit" class="primary">{ "Create topic" }</button>
            </div>
        </form>
    }
}
