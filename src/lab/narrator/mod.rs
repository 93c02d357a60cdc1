//! The narrator: one plain sentence for each thing that changed state, made of the trace's events.
//!
//! It tells changes and not packets: a batch that is sent, stored, copied, polled or committed as it should be is no
//! news. What repeats (retries, lost connections) is told once, or once a minute with how often it was, and what happens to many partitions in one moment is
//! one sentence ([`moment`]). It reads events only and knows no world.
//!
//! **Invariant:** sentences come in the order of virtual time, and the same events give the same sentences.

mod application;
mod client;
mod cluster;
mod folded;
mod group;
mod group_admin;
mod moment;
mod partition;
mod producer;
mod share;
mod storage;
mod transaction;
mod transaction_admin;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::kafka::event::{Act, Event};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, NodeId, Topic, TopicPartition};

/// What a sentence means to the person who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tone {
    Info,
    /// Something recovered or came to its goal.
    Good,
    /// Something waits, moved or is at risk.
    Warn,
    /// Something failed or is lost.
    Bad,
}

/// The object a sentence is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Cluster,
    Controller(ControllerId),
    Broker(BrokerId),
    Topic(Topic),
    Partition(TopicPartition),
    Group(GroupId),
    Client(ClientName),
    Link(NodeId, NodeId),
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub time: Time,
    /// The event that it tells, by its number in the trace; of several the first.
    pub event: u64,
    pub tone: Tone,
    pub about: Subject,
    /// What happened, complete in itself.
    pub title: String,
    /// Why, or what follows; may be empty.
    pub detail: String,
    /// Ids of the rules it rests on.
    pub rules: &'static [&'static str],
}

impl Sentence {
    /// Whether the other says the same of the same moment, whatever else happened in its run before.
    pub fn is_same_as(&self, other: &Sentence) -> bool {
        let said = |of: &Sentence| Sentence { event: 0, ..of.clone() };
        said(self) == said(other)
    }

    fn new(time: Time, tone: Tone, about: Subject, title: impl Into<String>) -> Sentence {
        Sentence { time, event: 0, tone, about, title: title.into(), detail: String::new(), rules: &[] }
    }

    fn of(self, event: u64) -> Sentence {
        Sentence { event, ..self }
    }

    fn detail(self, detail: impl Into<String>) -> Sentence {
        Sentence { detail: detail.into(), ..self }
    }

    fn rules(self, rules: &'static [&'static str]) -> Sentence {
        Sentence { rules, ..self }
    }
}

impl fmt::Display for Sentence {
    /// A line of the narrative: `00:39.118  broker 3 fenced: no heartbeat for 9 s (R-REPL-52)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.time, self.title)?;
        if !self.rules.is_empty() {
            write!(f, " ({})", self.rules.join(", "))?;
        }
        Ok(())
    }
}

/// Tells a run, event by event.
#[derive(Clone, Debug, Default)]
pub struct Narrator {
    processes: cluster::Processes,
    partitions: partition::Partitions,
    groups: group::Groups,
    clients: client::Clients,
    shares: share::Shares,
    /// Events of the moment `gathered_at` that are told together, with their numbers.
    gathered: Vec<(u64, Event)>,
    gathered_at: Time,
    /// Events heard.
    heard: u64,
}

impl Narrator {
    /// Takes the next event; gives what can be told by now.
    pub fn tell(&mut self, time: Time, event: &Event) -> Vec<Sentence> {
        let mut told = self.settle(time);
        let number = self.heard;
        told.extend(self.tell_now(time, event).map(|sentence| sentence.of(number)));
        self.heard += 1;
        told
    }

    /// One event alone, whether or not the likes of it were told before; `None` of what is routine.
    pub fn tell_alone(&self, time: Time, event: &Event) -> Option<Sentence> {
        let mut alone = Narrator {
            processes: self.processes.clone(),
            groups: self.groups.knowing_members(),
            shares: self.shares.knowing_members(),
            ..Narrator::default()
        };
        let told = alone.tell_now(time, event);
        told.or_else(|| moment::tell(time, &alone.gathered).pop())
    }

    /// Tells what was gathered before `now`, when nothing more can belong to its moment.
    pub fn settle(&mut self, now: Time) -> Vec<Sentence> {
        if now <= self.gathered_at || self.gathered.is_empty() {
            return Vec::new();
        }
        moment::tell(self.gathered_at, &std::mem::take(&mut self.gathered))
    }

    fn tell_now(&mut self, time: Time, event: &Event) -> Option<Sentence> {
        match event {
            Event::Process { node, name, act } => {
                self.processes.on_act(*node, name, act);
                self.clients.on_act(*node, act);
                match act {
                    Act::Started => self.gather(time, event),
                    _ => Some(self.processes.tell(time, *node, name, act, self.groups.of(name))),
                }
            }
            Event::LinkCut { .. }
            | Event::LinkHealed { .. }
            | Event::LinkSlowed { .. }
            | Event::ClockSet { .. }
            | Event::CommandRefused { .. }
            | Event::QuorumCandidate { .. }
            | Event::QuorumLeaderElected { .. }
            | Event::QuorumLeaderResigned { .. }
            | Event::MetadataTruncated { .. }
            | Event::SnapshotWritten { .. }
            | Event::SnapshotFetched { .. }
            | Event::MetadataLogCleaned { .. }
            | Event::BrokerRegistered { .. }
            | Event::BrokerFenced { .. }
            | Event::BrokerUnfenced { .. }
            | Event::ShutdownBegun { .. }
            | Event::ShutdownGranted { .. }
            | Event::TopicCreated { .. }
            | Event::PartitionsAdded { .. }
            | Event::TopicDeleted { .. }
            | Event::ConfigChanged { .. }
            | Event::BrokerConfigChanged { .. }
            | Event::FeatureUpdated { .. }
            | Event::GroupConfigChanged { .. }
            | Event::ConfigsDescribed { .. }
            | Event::FeaturesDescribed { .. }
            | Event::QuorumDescribed { .. } => cluster::tell(&self.processes, time, event),

            Event::LeaderElected { .. }
            | Event::ReplicasChanged { .. }
            | Event::IsrShrunk { .. }
            | Event::IsrExpanded { .. }
            | Event::ElrChanged { .. }
            | Event::IsrChangeRefused { .. }
            | Event::LogStartMoved { .. }
            | Event::PositionSet { .. } => self.gather(time, event),

            Event::Appended { .. }
            | Event::HighWatermarkAdvanced { .. }
            | Event::Truncated { .. }
            | Event::DuplicateBatch { .. }
            | Event::ProduceRefused { .. } => self.partitions.tell(time, event),

            Event::SegmentsDeleted { .. }
            | Event::LogCleaned { .. }
            | Event::LogsRecovered { .. }
            | Event::UnflushedLost { .. }
            | Event::DiskWiped { .. } => storage::tell(time, event),

            Event::Group(_)
            | Event::GroupsTold { .. }
            | Event::CoordinatorFound { .. }
            | Event::CoordinatorLost { .. }
            | Event::CommitConfirmed { .. }
            | Event::JoinSent { .. }
            | Event::PartitionsAssigned { .. }
            | Event::PartitionsRevoked { .. } => self.groups.tell(time, event),

            Event::ConnectionLost { .. }
            | Event::RequestTimedOut { .. }
            | Event::ProducerIdGiven { .. }
            | Event::BatchAcknowledged { .. }
            | Event::BatchRetried { .. }
            | Event::BatchFailed { .. }
            | Event::Producer(_)
            | Event::ProducerPaused { .. }
            | Event::ProducerResumed { .. }
            | Event::CommitFailed { .. }
            | Event::CommitCalledBack { .. }
            | Event::SubscriptionChanged { .. }
            | Event::PartitionsPaused { .. }
            | Event::PartitionsResumed { .. }
            | Event::CallRefused { .. }
            | Event::NoOffsetForPartitions { .. }
            | Event::RecordUnreadable { .. }
            | Event::PositionOutOfRange { .. }
            | Event::TruncationDetected { .. }
            | Event::AbortedPassedOver { .. }
            | Event::ReadReplicaChosen { .. }
            | Event::ClientFailed { .. } => self.clients.tell(&self.processes, time, event),

            Event::Application(event) => application::tell(time, event),
            Event::Share(event) => self.shares.tell(time, event),
            Event::Transaction(event) => transaction::tell(time, event),
            Event::TransactionsTold { told } => Some(transaction_admin::tell(time, told)),

            // What the command did is told; the controller's decisions are told, not each broker's obedience.
            Event::CommandGiven { .. }
            | Event::BecameLeader { .. }
            | Event::BecameFollower { .. }
            | Event::IsrChangeProposed { .. }
            | Event::ReplicaDeleted { .. }
            // Packets and routine.
            | Event::QuorumVoted { .. }
            | Event::RecordBatched { .. }
            | Event::BatchSent { .. }
            | Event::BatchSplit { .. }
            | Event::Replicated { .. }
            | Event::Polled { .. }
            | Event::Processed { .. } => None,
        }
    }

    fn gather(&mut self, time: Time, event: &Event) -> Option<Sentence> {
        self.gathered_at = time;
        self.gathered.push((self.heard, event.clone()));
        None
    }
}
