//! The stage **By broker**: producers above, brokers as columns, groups below, and what flies between them.

pub mod broker;
pub mod consumer;
pub mod faults;
pub mod flights;
pub mod group;
pub mod paths;
pub mod producer;
pub mod replica;
pub mod sending;
mod shared;

use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{Element, HtmlElement, KeyboardEvent, ResizeObserver};
use yew::prelude::*;

use self::broker::{Broker, Controller};
use self::flights::Flights;
use self::group::Group;
use self::producer::Producer;
use super::shared::Shared;
use super::store::{use_slice, use_store};
use crate::kafka::types::NodeId;
use crate::view::act;
use crate::view::model::{Health, Model};
use crate::view::{row, sentences};

#[derive(PartialEq, Properties)]
pub struct StageProps {
    pub on_add_producer: Callback<()>,
    pub on_add_topic: Callback<()>,
}

#[component]
pub fn Stage(props: &StageProps) -> Html {
    let summary = use_slice(|shown| sentences::stage(&shown.model));
    let has_transactions = use_slice(|shown| has_transactions(&shown.model));
    let of_transactions: &[(&str, &str)] = if has_transactions { &TRANSACTION_MARKS } else { &[] };
    let store = use_store();
    let on_add_broker = use_callback(store, |_: MouseEvent, store| {
        store.command(&act::add_broker(&store.shown().model));
    });
    html! {
        <section class="stage" aria-label="Cluster by broker">
            <h2 key="name" class="unseen">{ "By broker" }</h2>
            <div key="bar" class="stage-bar">
                <ul key="marks" class="marks">
                    { for MARKS.iter().chain(of_transactions).map(|(class, text)| html! {
                        <li key={*class}><i class={classes!("sample", *class)}></i>{ *text }</li>
                    }) }
                </ul>
                <div key="add" class="add-buttons">
                    <button type="button" class="quiet" onclick={on_add_broker}>{ "+ broker" }</button>
                    <button type="button" class="quiet" onclick={props.on_add_topic.reform(|_| ())}>
                        { "+ topic" }
                    </button>
                </div>
            </div>
            <div key="scene" class="scene">
                <p key="summary" class="unseen">{ summary }</p>
                <Top key="top" on_add={props.on_add_producer.clone()} />
                <Brokers key="brokers" />
                <Groups key="groups" />
                <Flights key="flights" />
            </div>
        </section>
    }
}

/// The stage's marks: the class of each sample and what it means.
const MARKS: [(&str, &str); 6] = [
    ("filled", "committed"),
    ("outlined", "not committed yet"),
    ("hw", "HW: high watermark"),
    ("leo", "LEO: log end"),
    ("flag", "committed offset"),
    ("position", "position"),
];

/// Those that there are only where somebody writes in transactions.
const TRANSACTION_MARKS: [(&str, &str); 6] = [
    ("lso", "LSO: last stable offset"),
    ("open", "open transaction"),
    ("commit-marker", "commit marker"),
    ("abort-marker", "abort marker"),
    ("aborted", "aborted"),
    ("pending-offset", "pending offset"),
];

#[derive(PartialEq, Properties)]
struct TopProps {
    on_add: Callback<()>,
}

/// Producers, and at the right end the controllers.
#[component]
fn Top(props: &TopProps) -> Html {
    let producers = use_slice(|shown| Shared::new(&shown.model.producers));
    let controllers = use_slice(|shown| Shared::new(&shown.model.controllers));
    html! {
        <div class="producers" role="group" aria-label="Producers and controllers">
            { for producers.iter().map(|producer| html! {
                <Producer key={producer.name.to_string()} view={Shared::new(producer)} />
            }) }
            <button key="+" type="button" class="add-card" onclick={props.on_add.reform(|_| ())}>{ "+ producer" }</button>
            <div key="controllers" class="controllers">
                { for controllers.iter().map(|controller| html! {
                    <Controller key={format!("controller {}", controller.id)} view={Shared::new(controller)} />
                }) }
            </div>
        </div>
    }
}

#[component]
fn Brokers() -> Html {
    let brokers = use_slice(|shown| Shared::new(&shown.model.brokers));
    let node = use_node_ref();
    let slots = use_slots(node.clone(), brokers.len());
    html! {
        <div ref={node} class="brokers" role="group" aria-label="Brokers" onkeydown={walk}>
            { for brokers.iter().map(|broker| html! {
                <Broker key={broker.id.0} view={Shared::new(broker)} {slots} />
            }) }
        </div>
    }
}

#[component]
fn Groups() -> Html {
    let groups = use_slice(|shown| Shared::new(&shown.model.groups));
    html! {
        <div class="groups" role="group" aria-label="Consumer groups">
            { for groups.iter().map(|group| html! {
                <Group key={group.id.to_string()} view={Shared::new(group)} />
            }) }
        </div>
    }
}

/// How many record cells fit into a replica's row, measured whenever the brokers' region changes its size.
#[hook]
fn use_slots(region: NodeRef, columns: usize) -> u16 {
    let slots = use_state_eq(|| 12);
    use_effect_with((region, columns), {
        let slots = slots.setter();
        move |(region, _)| {
            let element = region.cast::<Element>();
            let measured = element.clone();
            let measure = Closure::<dyn Fn()>::new(move || {
                let tail = measured.as_ref().and_then(|region| region.query_selector(".tail").ok().flatten());
                if let Some(tail) = tail {
                    slots.set(row::slots(tail.client_width()));
                }
            });
            // The observer calls once at the start too.
            let observer = ResizeObserver::new(measure.as_ref().unchecked_ref()).ok();
            if let (Some(observer), Some(element)) = (&observer, &element) {
                observer.observe(element);
            }
            move || {
                if let Some(observer) = observer {
                    observer.disconnect();
                }
                drop(measure);
            }
        }
    });
    *slots
}

/// Arrow keys walk over the replicas as over a grid: columns are brokers, rows are replicas.
fn walk(event: KeyboardEvent) {
    let (across, down) = match event.key().as_str() {
        "ArrowLeft" => (-1, 0),
        "ArrowRight" => (1, 0),
        "ArrowUp" => (0, -1),
        "ArrowDown" => (0, 1),
        _ => return,
    };
    // With shift they walk from record to record, which is the replica's own.
    if event.shift_key() {
        return;
    }
    let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
    if let Some(next) = target.and_then(|target| neighbour(&target, across, down)) {
        event.prevent_default();
        // An element that cannot take the focus leaves it where it is.
        let _ = next.focus();
    }
}

fn neighbour(target: &Element, across: i32, down: i32) -> Option<HtmlElement> {
    let replica = target.closest(".replica").ok()??;
    let column = replica.closest(".broker").ok()??;
    let row = index(&replica)?;
    let column = nth(&column.parent_element()?, index(&column)? + across)?;
    nth(&column.query_selector(".replicas").ok()??, row + down)?.dyn_into().ok()
}

/// An element's place among its siblings.
fn index(element: &Element) -> Option<i32> {
    let siblings = element.parent_element()?.children();
    let index = (0..siblings.length()).find(|index| siblings.item(*index).as_ref() == Some(element))?;
    i32::try_from(index).ok()
}

fn nth(parent: &Element, index: i32) -> Option<Element> {
    parent.children().item(u32::try_from(index).ok()?)
}

/// The value of `data-node`, by which the flights find a process's card.
fn anchor(node: NodeId) -> String {
    match node {
        NodeId::Broker(id) => format!("broker-{id}"),
        NodeId::Controller(id) => format!("controller-{id}"),
        NodeId::Client(number) => format!("client-{number}"),
    }
}

/// Whether somebody writes in transactions.
fn has_transactions(model: &Model) -> bool {
    let mut replicas = model.brokers.iter().flat_map(|broker| broker.replicas.iter());
    replicas.any(|replica| replica.last_stable.is_some())
}

/// The class that colours a process's light.
fn light(health: Health) -> &'static str {
    match health {
        Health::Running => "running",
        Health::Waiting => "waiting",
        Health::Frozen => "frozen",
        Health::Dead => "dead",
    }
}
