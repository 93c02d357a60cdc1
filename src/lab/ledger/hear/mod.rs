//! How the ledger takes in events.
//!
//! - [`producer`]: records, the batches that they travel in, what applications are told
//! - [`broker`]: what logs have, and who leads
//! - [`reader`]: what consumers and their groups do with records

mod broker;
mod producer;
mod reader;

use super::group::Stuck;
use super::{KEPT_ENDED, Ledger, Moment};
use crate::kafka::event::{Act, Event, GroupEvent, ProducerEvent, ShareEvent, TransactionEvent};
use crate::kafka::types::{ClientName, GroupId, NodeId};

/// The group of a client that is in none.
fn alone(client: &ClientName) -> GroupId {
    GroupId::new(&format!("({client})"))
}

impl Ledger {
    pub(super) fn hear(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Process { node, name, act } => self.on_act(at, *node, name, act),
            Event::RecordBatched { .. }
            | Event::BatchSent { .. }
            | Event::BatchAcknowledged { .. }
            | Event::BatchSplit { .. }
            | Event::BatchFailed { .. }
            | Event::Producer(ProducerEvent::Abandoned { .. }) => self.hear_producer(at, event),
            Event::Appended { .. }
            | Event::DuplicateBatch { .. }
            | Event::ProduceRefused { .. }
            | Event::Replicated { .. }
            | Event::HighWatermarkAdvanced { .. }
            | Event::BecameLeader { .. }
            | Event::Truncated { .. }
            | Event::UnflushedLost { .. }
            | Event::DiskWiped { .. }
            | Event::LogStartMoved { .. }
            | Event::LogCleaned { .. }
            | Event::ReplicaDeleted { .. }
            | Event::TopicDeleted { .. } => self.hear_broker(at, event),
            Event::ConnectionLost { client, node: NodeId::Broker(broker), .. } => {
                self.on_connection_lost(at, client, *broker);
            }
            Event::PartitionsAssigned { client, group, .. } => {
                self.join(client, group);
            }
            Event::PositionSet { client, tp, offset, .. } => self.on_position(at, client, tp, *offset),
            Event::Polled { client, group, tp, runs, .. } => self.on_polled(at, client, group, tp, runs),
            Event::Processed { client, tp, offset } => self.on_processed(at, client, tp, *offset),
            Event::Share(ShareEvent::Delivered { client, group, tp, runs, .. }) => {
                self.on_polled(at, client, group, tp, runs);
                let progress = self.groups.get_mut(group).and_then(|partitions| partitions.get_mut(tp));
                if let Some(progress) = progress {
                    progress.is_shared = true;
                }
            }
            Event::Transaction(TransactionEvent::Marked { broker, tp, producer, committed, offset }) => {
                self.partition(tp).marked(*broker, (*producer, *committed), *offset, at);
            }
            Event::Application(event) => self.hear_application(at, event),
            Event::Group(GroupEvent::OffsetCommitted { group, tp, offset, client }) => {
                self.on_committed(at, group, tp, *offset, client);
            }
            Event::Group(
                GroupEvent::OffsetExpired { group, tp }
                | GroupEvent::OffsetDeleted { group, tp, .. }
                | GroupEvent::OffsetDropped { group, tp },
            ) => {
                if let Some(progress) = self.groups.get_mut(group).and_then(|group| group.get_mut(tp)) {
                    progress.committed = None;
                }
            }
            _ => {}
        }
    }

    /// A client ends, and of those that ended before the one that did so first is let go where they are too many.
    fn forget_ended(&mut self, node: NodeId) {
        self.ended.push_back(node);
        while self.ended.len() > KEPT_ENDED {
            let Some(first) = self.ended.pop_front() else { return };
            self.producers.remove(&first);
            self.readers.remove(&first);
            let name = self.nodes.iter().find(|(_, node)| **node == first).map(|(name, _)| name.clone());
            if let Some(name) = name {
                self.groups.remove(&alone(&name));
                self.nodes.remove(&name);
            }
            self.dropped.clients += 1;
        }
    }

    fn on_act(&mut self, at: Moment, node: NodeId, name: &ClientName, act: &Act) {
        match act {
            Act::Started => {
                self.nodes.insert(name.clone(), node);
            }
            Act::Killed | Act::PowerCut | Act::Ended => {
                if let Some(reader) = self.readers.get_mut(&node) {
                    reader.ended = Some((at, act.clone()));
                }
                if let NodeId::Client(_) = node {
                    self.forget_ended(node);
                }
            }
            Act::Frozen => {
                let stuck = Some(Stuck { since: at, how: "stands still".into() });
                self.readers.entry(node).or_default().stuck = stuck;
            }
            Act::Thawed => {
                if let Some(reader) = self.readers.get_mut(&node) {
                    reader.stuck = None;
                }
            }
        }
    }
}
