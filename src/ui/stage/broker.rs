//! A broker as a column of replicas, and a controller's strip.

use yew::prelude::*;

use super::faults::Faults;
use super::replica::Replica;
use super::{anchor, light};
use crate::kafka::types::NodeId;
use crate::ui::shared::Shared;
use crate::ui::widget::button::CommandButton;
use crate::ui::widget::choose::Choose;
use crate::view::act;
use crate::view::model::{BrokerView, ControllerView, CoordinatedView, Focus, Health, InternalTopicView};
use crate::view::sentences;

#[derive(PartialEq, Properties)]
pub struct BrokerProps {
    pub view: Shared<BrokerView>,
    /// Record cells that fit into a row.
    pub slots: u16,
}

#[component]
pub fn Broker(props: &BrokerProps) -> Html {
    let view = &props.view;
    html! {
        <article class={classes!("broker", light(view.health))} data-node={anchor(NodeId::Broker(view.id))}
            aria-label={sentences::broker(view)}>
            <div key="head" class="broker-head">
                <span class="light" aria-hidden="true"></span>
                <h3><Choose focus={Focus::Broker(view.id)} name={format!("broker {}", view.id)} /></h3>
                <span class="dim" title={view.rack.as_deref().map(str::to_owned)}>
                    { view.rack.as_ref().map(|rack| format!("rack {rack}")).unwrap_or_default() }
                </span>
                <span class="state">{ view.state.as_ref() }</span>
                <span class="grow"></span>
                <ProcessButtons health={view.health} target={format!("broker {}", view.id)} />
            </div>
            <div key="replicas" class="replicas">
                { for view.replicas.iter().map(|replica| html! {
                    <Replica key={replica.tp.to_string()} view={Shared::new(replica)} slots={props.slots} />
                }) }
            </div>
            <p key="waiting" class="waiting">{ view.waiting.as_deref().unwrap_or("").to_owned() }</p>
            <Faults key="faults" faults={view.faults.clone()} />
            <div key="internal" class="internal">
                { for view.internal.iter().map(|topic| html! {
                    <InternalTopic key={topic.name.to_string()} view={Shared::new(topic)} />
                }) }
            </div>
        </article>
    }
}

#[derive(PartialEq, Properties)]
pub struct ProcessButtonsProps {
    pub health: Health,
    /// As commands name it: "broker 3".
    pub target: AttrValue,
}

/// What can be done to a server process now.
#[component]
pub fn ProcessButtons(props: &ProcessButtonsProps) -> Html {
    let target = &props.target;
    let button = |command: String, label: &'static str, class: &'static str| {
        html! { <CommandButton key={label} {command} {label} class={classes!("small", class)} /> }
    };
    let buttons = match props.health {
        Health::Dead => vec![button(act::start(target), "start", "go")],
        Health::Frozen => {
            vec![button(act::thaw(target), "thaw", "go"), button(act::kill(target), "kill", "danger")]
        }
        Health::Running | Health::Waiting => {
            let freeze = button(act::freeze(target), "freeze", "");
            let stop = button(act::stop(target), "stop", "");
            vec![freeze, stop, button(act::kill(target), "kill", "danger")]
        }
    };
    html! { <span class="process-buttons">{ for buttons }</span> }
}

#[derive(PartialEq, Properties)]
pub struct InternalTopicProps {
    view: Shared<InternalTopicView>,
}

/// The line of a coordinators' topic, which unfolds into what is coordinated and the topic's partitions.
#[component]
fn InternalTopic(props: &InternalTopicProps) -> Html {
    let view = &props.view;
    let summary = sentences::internal_topic(view);
    html! {
        <details>
            <summary title={summary.clone()}>{ summary }</summary>
            <ul class="coordinated">
                { for view.transactions.iter().map(|transaction| coordinated(transaction)) }
            </ul>
            <table>
                <thead>
                    <tr><th scope="col">{ "partition" }</th><th scope="col">{ "role" }</th><th scope="col">{ "HW" }</th><th scope="col">{ "LEO" }</th></tr>
                </thead>
                <tbody>
                    { for view.rows.iter().map(|row| html! {
                        <tr key={row.partition}>
                            <td>{ row.partition }</td>
                            <td>{ format!("{} e{}", if row.leads { "leader" } else { "follower" }, row.leader_epoch) }</td>
                            <td>{ row.high_watermark.0 }</td>
                            <td>{ row.log_end.0 }</td>
                        </tr>
                    }) }
                </tbody>
            </table>
        </details>
    }
}

fn coordinated(view: &CoordinatedView) -> Html {
    html! {
        <li key={view.id.to_string()}>
            <b>{ view.id.as_ref() }</b>{ format!(" {}", sentences::coordinated(view)) }
        </li>
    }
}

#[derive(PartialEq, Properties)]
pub struct ControllerProps {
    pub view: Shared<ControllerView>,
}

#[component]
pub fn Controller(props: &ControllerProps) -> Html {
    let view = &props.view;
    html! {
        <article class={classes!("client", "controller", light(view.health))}
            data-node={anchor(NodeId::Controller(view.id))} aria-label={sentences::controller(view)}>
            <div key="head" class="client-head">
                <span class="light" aria-hidden="true"></span>
                <h3><Choose focus={Focus::Controller(view.id)} name={format!("controller {}", view.id)} /></h3>
                <span class="state">{ view.state.as_ref() }</span>
                <span class="grow"></span>
                <ProcessButtons health={view.health} target={format!("controller {}", view.id)} />
            </div>
            <p key="brokers" class="counts">
                if !view.unfenced.is_empty() {
                    <span>{ format!("brokers in service {}", sentences::list(&view.unfenced)) }</span>
                }
                if !view.fenced.is_empty() {
                    <span class="bad">{ format!("fenced {}", sentences::list(&view.fenced)) }</span>
                }
            </p>
            <Faults key="faults" faults={view.faults.clone()} />
        </article>
    }
}
