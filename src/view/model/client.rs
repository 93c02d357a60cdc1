//! Producers, groups and consumers.
//!
//! **Invariant:** an application is one member of its group: its consumer, its program, and its producer's side beside them.

use std::rc::Rc;

use super::{Health, List, Tone, TransactionView};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, NodeId, Offset, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerView {
    pub name: Rc<str>,
    pub node: NodeId,
    pub health: Health,
    pub paused: bool,
    pub topic: Rc<str>,
    /// "12/s".
    pub rate: Rc<str>,
    /// "0", "1", "all".
    pub acks: Rc<str>,
    pub idempotent: bool,
    /// "librdkafka"; `None` of Kafka's Java client.
    pub profile: Option<&'static str>,
    pub sending: Rc<SendingView>,
    pub waiting: Option<Rc<str>>,
    /// As a broker's.
    pub faults: Rc<[Rc<str>]>,
}

/// How far a producer is with what it was handed, whoever drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendingView {
    pub sent: i64,
    pub acknowledged: i64,
    pub failed: i64,
    /// "producer id 4, epoch 2"; `None` without idempotence, and before it has one.
    pub identity: Option<Rc<str>>,
    /// Where records without a key go now, and until when.
    pub sticky: Option<Rc<str>>,
    /// In the accumulator, without what is in flight.
    pub waiting_batches: i64,
    pub waiting_records: i64,
    pub waiting_bytes: i64,
    pub requests_in_flight: i32,
    /// What is left of buffer.memory, in percent, rounded down.
    pub buffer_free_percent: i64,
    /// What the oldest batch waits for, and how long it may: "orders-1 lingers 3 ms".
    pub first: Option<Rc<str>>,
    pub transaction: Option<Rc<TransactionView>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Empty for consumers without group.id.
    pub id: GroupId,
    /// Kafka's name of the state, or "no coordinator" while nobody has it.
    pub state: Rc<str>,
    pub tone: Tone,
    pub generation: i32,
    /// What `generation` is: "generation", or "epoch" with the newer protocol.
    pub counted: &'static str,
    /// "range", "consumer protocol, uniform".
    pub protocol: Rc<str>,
    pub coordinator: Option<BrokerId>,
    pub waiting: Option<Rc<str>>,
    pub members: List<ConsumerView>,
    /// Its members read the same partitions, record by record.
    pub is_share: bool,
    /// Of a share group, the partitions whose leaders hand out records to it.
    pub shared: Rc<[SharedView]>,
}

impl GroupView {
    /// Whether it is more than a place for consumers that are in none.
    pub fn is_group(&self) -> bool {
        !self.id.as_str().is_empty()
    }

    pub fn title(&self) -> String {
        match self.is_group() {
            true => format!("group {}", self.id),
            false => "in no group".to_owned(),
        }
    }

    /// What it is in: its coordinator, protocol and generation; nothing of no group.
    pub fn standing(&self) -> String {
        let coordinator = match self.coordinator {
            Some(broker) => format!("coordinator broker {broker}"),
            None => "no coordinator known".to_owned(),
        };
        match self.is_group() {
            true => format!("{} · {} {} · {coordinator}", self.protocol, self.counted, self.generation),
            false => "partitions by assign()".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerView {
    pub name: Rc<str>,
    pub node: NodeId,
    pub health: Health,
    /// Empty while it is a working member; else "joining", "not in the group", "by assign()", "unsubscribed", "stands still", "closing", "gone".
    pub state: Rc<str>,
    /// It is the one that computes the assignment.
    pub group_leader: bool,
    /// Of a static member.
    pub instance_id: Option<Rc<str>>,
    pub owned: Rc<[TopicPartition]>,
    pub program: Rc<[Rc<str>]>,
    /// Index of the program's line that is being carried out.
    pub line: Option<u8>,
    /// How far that line is, in percent; `None` where it has no length of its own.
    pub progress: Option<u8>,
    /// The record that this line is done with.
    pub record: Option<(TopicPartition, Offset)>,
    /// Since when the program is in that line, with that record.
    pub in_line_since: Option<Time>,
    pub partitions: Rc<[ConsumedView]>,
    /// "librdkafka", "java-hand-off"; `None` of Kafka's Java client with its poll loop.
    pub profile: Option<&'static str>,
    /// Of an application that produces too.
    pub producing: Option<Rc<ProducingView>>,
    pub waiting: Option<Rc<str>>,
    /// As a broker's.
    pub faults: Rc<[Rc<str>]>,
}

/// The producer of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducingView {
    /// Where the results go.
    pub output: Rc<str>,
    pub sending: Rc<SendingView>,
}

/// A partition as a share group reads it, at its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedView {
    pub tp: TopicPartition,
    /// The SPSO: everything below is done.
    pub start: Offset,
    /// The SPEO: nobody has had what lies from here on.
    pub end: Offset,
    /// Records up to the high watermark that are not done.
    pub lag: i64,
    pub runs: Rc<[RunView]>,
}

/// Records in a row that are in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    pub first: Offset,
    pub last: Offset,
    /// "available", "acquired", "accepted", "archived".
    pub state: &'static str,
    /// How often they have been handed out.
    pub deliveries: i16,
    /// Who has them.
    pub holder: Option<Rc<str>>,
    /// How long their lock still runs: "29 s".
    pub lock: Option<Rc<str>>,
}

impl RunView {
    pub fn is_like(&self, other: &RunView) -> bool {
        let shape = |run: &RunView| (run.state, run.deliveries, run.holder.clone(), run.lock.clone());
        shape(self) == shape(other)
    }
}

/// One partition as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedView {
    pub tp: TopicPartition,
    pub position: Option<Offset>,
    /// As the group's coordinator has it.
    pub committed: Option<Offset>,
    /// What is committed if the transaction is that is open.
    pub pending: Option<Offset>,
    pub paused: bool,
    /// Records from the committed offset, or the position before any commit, to the high watermark.
    pub lag: i64,
}
