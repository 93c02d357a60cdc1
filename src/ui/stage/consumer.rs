//! A consumer's card: what it owns, where its program stands, how far it has come. An application's card has its producer too.

use yew::prelude::*;

use super::faults::Faults;
use super::sending::Sending;
use super::{anchor, light};
use crate::kafka::types::{ClientName, GroupId, Offset};
use crate::lab::command::{self, quote};
use crate::ui::panel::reason::{Why, asked, lag};
use crate::ui::shared::Shared;
use crate::ui::widget::button::CommandButton;
use crate::ui::widget::choose::Choose;
use crate::view::act;
use crate::view::model::{ConsumedView, ConsumerView, Focus, Health, ProducingView};
use crate::view::sentences;

/// Width of the lag bar at its full length, in CSS pixels and in records.
const BAR_WIDTH: i64 = 72;
const BAR_RECORDS: i64 = 24;

#[derive(PartialEq, Properties)]
pub struct ConsumerProps {
    pub view: Shared<ConsumerView>,
    /// `None` of one that is in no group.
    #[prop_or_default]
    pub group: Option<GroupId>,
}

#[component]
pub fn Consumer(props: &ConsumerProps) -> Html {
    let view = &props.view;
    let lives = view.health != Health::Dead;
    html! {
        <article class={classes!("client", "consumer", light(view.health), view.producing.is_some().then_some("application"))}
            data-node={anchor(view.node)}
            aria-label={sentences::consumer(view)}>
            <div key="head" class="client-head">
                <span class="light" aria-hidden="true"></span>
                <h4><Choose focus={Focus::Client(ClientName::new(&view.name))} name={view.name.to_string()} /></h4>
                <span class="grow"></span>
                if view.health == Health::Frozen {
                    <CommandButton command={act::thaw(quote(&view.name))} label="thaw" class="small" />
                } else if lives {
                    <CommandButton command={act::freeze(quote(&view.name))} label="freeze" class="small" />
                }
                if lives {
                    <CommandButton command={act::close(&view.name)} label="close" class="small" />
                    <CommandButton command={act::crash(&view.name)} label="crash" class="small danger" />
                }
            </div>
            <div key="owned" class="owned">
                { for view.owned.iter().map(|tp| html! {
                    <span key={tp.to_string()} class="chip" title={tp.to_string()}>{ tp.to_string() }</span>
                }) }
                if lives && props.group.is_some() && view.owned.is_empty() {
                    <Why key="why" question={command::Why::OwnsNothing(ClientName::new(&view.name)).to_string()}
                        name={format!("{} owns nothing: why?", view.name)} label="owns nothing: why?" />
                }
                <span key="badge" class="badge">{ sentences::badge(view) }</span>
                <span key="state" class="state">{ view.state.as_ref() }</span>
                <span key="waiting" class="waiting">{ view.waiting.as_deref().unwrap_or("").to_owned() }</span>
            </div>
            <Faults key="faults" faults={view.faults.clone()} />
            <div key="sides" class="sides">
                <Program key="program" view={view.clone()} />
                <div key="partitions" class="consumed">
                    if !view.partitions.is_empty() {
                        { consumed_table(view, props.group.as_ref()) }
                    }
                </div>
                if let Some(producing) = &view.producing {
                    { self::producing(producing) }
                }
            </div>
        </article>
    }
}

/// The application's other client.
fn producing(view: &ProducingView) -> Html {
    html! {
        <div key="producing" class="producing" role="group" aria-label={format!("its producer to {}", view.output)}>
            <p key="output" class="dim">{ format!("its producer, to {}", view.output) }</p>
            <Sending key="sending" view={Shared::new(&view.sending)} waiting="" />
        </div>
    }
}

/// The poll loop with its program counter.
#[component]
fn Program(props: &ConsumerProps) -> Html {
    let view = &props.view;
    html! {
        <ol class="program" aria-label="program">
            { for view.program.iter().enumerate().map(|(index, text)| {
                let here = view.line.is_some_and(|line| usize::from(line) == index);
                let progress = view.progress.filter(|_| here);
                let record = view.record.as_ref().filter(|_| here);
                html! {
                    <li key={index} class={classes!(here.then_some("here"))} aria-current={here.then_some("step")}>
                        <svg class="counter" viewBox="0 0 10 10" aria-hidden="true"><path d="M1 0l8 5-8 5z" /></svg>
                        <code>{ text.as_ref() }</code>
                        if let Some((tp, offset)) = record {
                            <span class="in-hand" title="the record in hand">{ format!("{tp} @ {offset}") }</span>
                        }
                        if let Some(percent) = progress {
                            <progress max="100" value={percent.to_string()} aria-label="progress"></progress>
                        }
                    </li>
                }
            }) }
        </ol>
    }
}

fn consumed_table(view: &ConsumerView, group: Option<&GroupId>) -> Html {
    let is_application = view.producing.is_some();
    html! {
        <table>
            <thead>
                <tr>
                    <th scope="col"><span class="unseen">{ "partition" }</span></th>
                    <th scope="col">{ "position" }</th><th scope="col">{ "committed" }</th>
                    if is_application {
                        <th scope="col" title="committed if its transaction is">{ "pending" }</th>
                    }
                    <th scope="col">{ "lag" }</th><td class="bar"></td>
                </tr>
            </thead>
            <tbody>{ for view.partitions.iter().map(|partition| consumed(partition, group, is_application)) }</tbody>
        </table>
    }
}

fn consumed(view: &ConsumedView, group: Option<&GroupId>, is_application: bool) -> Html {
    let offset = |offset: Option<Offset>| offset.map_or("–".to_owned(), |offset| offset.to_string());
    let width = view.lag.clamp(0, BAR_RECORDS) * BAR_WIDTH / BAR_RECORDS;
    html! {
        <tr key={view.tp.to_string()}>
            <th scope="row">
                { view.tp.to_string() }
                if view.paused { <span class="dim">{ " paused" }</span> }
            </th>
            <td>{ offset(view.position) }</td>
            <td>{ asked(offset(view.committed), group.filter(|_| view.committed.is_some()), |group| {
                let what = format!("why has {group} committed that of {}?", view.tp);
                (command::Why::Committed { group: group.clone(), tp: view.tp.clone() }, what)
            }) }</td>
            if is_application {
                <td class="pending" title="committed if its transaction is">{ offset(view.pending) }</td>
            }
            <td>{ lag(view.lag, group, &view.tp) }</td>
            <td class="bar" aria-hidden="true">
                <svg width={BAR_WIDTH.to_string()} height="6">
                    <rect class="bed" width={BAR_WIDTH.to_string()} height="6" rx="3" />
                    <rect class="lag" width={width.to_string()} height="6" rx="3" />
                </svg>
            </td>
        </tr>
    }
}
