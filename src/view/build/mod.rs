//! The world as a view model, each slice kept from the model before while it says the same.
//!
//! **Invariant:** the model is a function of the session and the chosen object; the model before decides only which
//! pointers are kept.

mod broker;
mod client;
mod faults;
mod flight;
mod group;
mod inspect;
mod inspect_client;
mod internal;
mod log;
mod narrative;
mod offsets;
mod producer;
pub(super) mod reuse;
mod server;
mod share;
mod sources;
mod transaction;

use std::rc::Rc;

use self::broker::{Cluster, broker_view, controller_view};
use self::client::{Around, group_view};
use self::faults::Faults;
use self::internal::is_internal;
use self::offsets::{CommittedOffsets, flags};
use self::producer::producer_view;
use self::reuse::{keep, keep_array, keep_list};
use self::share::{Shown, share_group_view};
use self::sources::Sources;
use self::transaction::Transactions;
use super::model::{Flight, Focus, Model, ScenarioView, Setting};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::types::{Offset, TopicPartition};
use crate::lab::scenario::{Scope, classroom_settings};
use crate::lab::session::Session;
use crate::sim::{Packet, World};

/// What a session looks like now.
pub fn model(session: &Session, focus: Option<&Focus>, before: Option<&Model>) -> Model {
    let (world, now) = (session.world(), session.now());
    let nothing = ClusterImage::default();
    let sources = Sources::of(world, &nothing);
    let committed = CommittedOffsets::at(&sources.brokers);
    let flags = flags(&committed, &sources.consumers);
    let faults = Faults::of(world);
    let transactions = Transactions::of(now, sources.image, &sources.brokers, before);
    let cluster = Cluster::new(now, sources.image, &sources.brokers, &flags, &faults, &transactions);
    let ends = |tp: &TopicPartition| high_watermark(&cluster, tp);

    let brokers = sources.brokers.iter().map(|source| {
        let before = before.and_then(|model| model.brokers.iter().find(|broker| broker.id == source.id));
        broker_view(source, &cluster, before.map(|view| &**view))
    });
    let around = Around {
        now,
        ends: &ends,
        faults: &faults,
        committed: &committed,
        transactions: &transactions,
        applications: &sources.applications,
    };
    let groups = sources.groups().into_iter().map(|(id, coordinator, members)| {
        let before = before.and_then(|model| model.groups.iter().find(|group| group.id == id));
        group_view(&id, coordinator, &members, &around, before.map(|view| &**view))
    });
    let shown = Shown { brokers: &sources.brokers, image: sources.image, ends: &ends, faults: &faults, now };
    let share_groups = sources.share_groups();
    let share_groups = share_groups.iter().map(|group| {
        let before = before.and_then(|model| model.groups.iter().find(|view| view.id == group.0));
        share_group_view(group, &shown, before.map(|view| &**view))
    });
    let groups = groups.chain(share_groups);
    let controllers = sources
        .controllers
        .iter()
        .map(|(id, controller, health)| controller_view(*id, *controller, *health, &faults));
    let producers = sources.producers.iter().map(|source| {
        let before = before.and_then(|model| model.producers.iter().find(|view| view.node == source.node));
        producer_view(source, now, &faults, &transactions, before.map(|view| &**view))
    });
    let brokers = keep_list(before.map(|model| &model.brokers), brokers, |a, b| a.id == b.id);
    let inspected =
        focus.and_then(|focus| inspect::inspect(focus, session, &sources, &transactions, &brokers));
    Model {
        now,
        events_done: session.events_done(),
        scenario: keep(before.map(|model| &model.scenario), scenario_view(session, &cluster, before)),
        controllers: keep_list(before.map(|model| &model.controllers), controllers, |a, b| a.id == b.id),
        producers: keep_list(before.map(|model| &model.producers), producers, |a, b| a.node == b.node),
        groups: keep_list(before.map(|model| &model.groups), groups, |a, b| a.id == b.id),
        flights: keep_array(before.map(|model| &model.flights), flights(world, &sources)),
        sentences: narrative::tail(session, &brokers, before),
        inspected: inspected
            .map(|inspected| keep(before.and_then(|model| model.inspected.as_ref()), inspected)),
        brokers,
    }
}

/// The end of what consumers can read.
fn high_watermark(cluster: &Cluster<'_>, tp: &TopicPartition) -> Option<Offset> {
    Some(cluster.led_log(tp)?.high_watermark())
}

fn flights(world: &World, sources: &Sources<'_>) -> Vec<Flight> {
    let topics = |id| sources.image.topic_name(id).cloned();
    let flights = world.flights().filter_map(|flight| {
        let cargo = match &flight.packet {
            Packet::Request { request, .. } => flight::of_request(request, &topics),
            Packet::Response { response, .. } => flight::of_response(response, &topics),
            Packet::Connect
            | Packet::Accepted
            | Packet::Refused
            | Packet::ClosedByClient
            | Packet::ClosedByServer => {
                return None;
            }
        };
        Some(Flight {
            from: flight.from,
            to: flight.to,
            kind: cargo.kind,
            label: cargo.label,
            tp: cargo.tp,
            colour: cargo.colour,
            records: cargo.records,
            sent_at: flight.sent_at,
            arrives_at: flight.arrives_at,
        })
    });
    flights.collect()
}

fn scenario_view(session: &Session, cluster: &Cluster<'_>, before: Option<&Model>) -> ScenarioView {
    let before = before.map(|model| &model.scenario);
    let scenario = session.scenario();
    let topics = cluster.image.topics().map(|topic| topic.name.as_str()).filter(|name| !is_internal(name));
    let (least, most) = scenario.latency_us.clone().into_inner();
    let journal = session.journal().entries();
    ScenarioView {
        seed: session.seed(),
        latency: Rc::from(format!("{} to {} one way", milliseconds(least), milliseconds(most))),
        topics: keep_array(before.map(|view| &view.topics), topics.map(Rc::from).collect()),
        // A scenario's settings never change.
        settings: match before {
            Some(before) => before.settings.clone(),
            None => classroom_settings(scenario).iter().map(setting).collect(),
        },
        journal: match before {
            Some(before) if before.journal.len() == journal.len() => before.journal.clone(),
            _ => journal.iter().map(|entry| (entry.place.time, Rc::from(entry.text.as_str()))).collect(),
        },
    }
}

fn milliseconds(us: i64) -> String {
    if us % 1000 == 0 { format!("{} ms", us / 1000) } else { format!("{us} us") }
}

fn setting(setting: &crate::lab::scenario::Setting) -> Setting {
    Setting {
        key: Rc::from(setting.key.as_str()),
        value: Rc::from(setting.value.as_str()),
        kafka_default: Rc::from(setting.default.unwrap_or("another")),
        scope: match &setting.scope {
            Scope::Brokers => Rc::from("all brokers"),
            Scope::Topic(topic) => Rc::from(format!("topic {topic}")),
            Scope::Client(name) => Rc::from(name.as_str()),
        },
    }
}
