//! The builder: a scenario from a few fields, shown as the file that it is.

use std::str::FromStr;

use web_sys::HtmlElement;
use yew::prelude::*;

use super::add::field;
use super::store::use_store;
use crate::kafka::time::Time;
use crate::lab::scenario::Plan;

/// When a cluster of a builder opens: it is up by then.
const START: Time = Time::from_ms(12_000);

#[derive(PartialEq, Properties)]
pub struct BuildProps {
    pub on_done: Callback<()>,
}

/// **Invariant:** what is started is the file that is shown.
#[component]
pub fn Build(props: &BuildProps) -> Html {
    let store = use_store();
    let form = use_node_ref();
    let file = use_state(|| None::<Result<String, String>>);
    let write = {
        let (form, file) = (form.clone(), file.setter());
        move || {
            let form = form.cast::<HtmlElement>();
            file.set(
                form.map(|form| plan(&form).and_then(|plan| plan.to_toml().map_err(|error| error.reason))),
            );
        }
    };
    use_effect_with((), {
        let write = write.clone();
        move |()| write()
    });
    let oninput = Callback::from(move |_: InputEvent| write());
    let onsubmit = {
        let (file, on_done) = (file.clone(), props.on_done.clone());
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            if let Some(Ok(text)) = &*file
                && store.open("Built scenario", text).is_ok()
            {
                on_done.emit(());
            }
        })
    };
    let (text, refusal) = match &*file {
        Some(Ok(text)) => (text.clone(), String::new()),
        Some(Err(reason)) => (String::new(), reason.clone()),
        None => (String::new(), String::new()),
    };
    html! {
        <form ref={form} class="build-form" {onsubmit} {oninput}>
            <Fields key="fields" />
            <label key="file" class="build-file"><span>{ "The file" }</span>
                <textarea rows="10" readonly=true spellcheck="false" value={text.clone()} />
            </label>
            <p key="refusal" class="refusal" role="alert">{ refusal }</p>
            <div key="buttons" class="dialog-buttons">
                <button type="submit" class="primary" disabled={text.is_empty()}>{ "Start this cluster" }</button>
            </div>
        </form>
    }
}

/// Draws them once: what a person writes into them stays.
#[component]
fn Fields() -> Html {
    html! {
        <div class="build-fields">
            { number("brokers", "brokers", 3, 1, 100) }
            { number("controllers", "controllers", 3, 1, 5) }
            { words("topic", "topic", "orders") }
            { number("partitions", "partitions", 3, 1, 1_000) }
            { number("replication-factor", "replication", 3, 1, 100) }
            { number("min.insync.replicas", "min-insync", 2, 1, 100) }
            { number("producers", "producers", 1, 0, 100) }
            { words("records of each", "rate", "12/s") }
            { words("keys", "keys", "cart-{0..7}") }
            { choice("acks", "acks", &["all", "1", "0"]) }
            { words("group", "group", "billing") }
            { number("consumers", "consumers", 2, 0, 100) }
            { choice("group.protocol", "protocol", &["classic", "consumer"]) }
            { number("seed", "seed", 42, 0, i64::from(i32::MAX)) }
        </div>
    }
}

fn number(label: &'static str, name: &'static str, value: i64, min: i64, max: i64) -> Html {
    html! {
        <label key={name}><span>{ label }</span>
            <input type="number" {name} value={value.to_string()} min={min.to_string()} max={max.to_string()} required=true />
        </label>
    }
}

fn words(label: &'static str, name: &'static str, value: &'static str) -> Html {
    html! {
        <label key={name}><span>{ label }</span><input type="text" {name} {value} spellcheck="false" required=true /></label>
    }
}

fn choice(label: &'static str, name: &'static str, values: &[&'static str]) -> Html {
    html! {
        <label key={name}><span>{ label }</span>
            <select {name}>
                { for values.iter().enumerate().map(|(index, value)| html! {
                    <option value={*value} selected={index == 0}>{ *value }</option>
                }) }
            </select>
        </label>
    }
}

/// What the form's fields say.
fn plan(form: &HtmlElement) -> Result<Plan, String> {
    Ok(Plan {
        seed: parsed(form, "seed", "a seed")?,
        controllers: parsed(form, "controllers", "a number of controllers")?,
        brokers: parsed(form, "brokers", "a number of brokers")?,
        topic: field(form, "topic"),
        partitions: parsed(form, "partitions", "a number of partitions")?,
        replication_factor: parsed(form, "replication", "a replication factor")?,
        min_insync_replicas: parsed(form, "min-insync", "a number of replicas")?,
        producers: parsed(form, "producers", "a number of producers")?,
        rate: parsed(form, "rate", "a rate such as 12/s, 1/5s or 300/min")?,
        keys: parsed(form, "keys", "keys such as cart-{0..7}, or none")?,
        acks: field(form, "acks"),
        group: field(form, "group"),
        consumers: parsed(form, "consumers", "a number of consumers")?,
        group_protocol: field(form, "protocol"),
        start: START,
    })
}

fn parsed<T: FromStr>(form: &HtmlElement, name: &str, what: &str) -> Result<T, String> {
    let text = field(form, name);
    text.trim().parse().map_err(|_| format!("{name}: expected {what}, not {text:?}"))
}
