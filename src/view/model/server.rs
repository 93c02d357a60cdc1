//! Controllers and brokers with their replicas.
//!
//! **Invariant:** what is open in a log is said of each replica as its own log has it.

use std::rc::Rc;

use super::{CoordinatedView, Health, List, OpenView};
use crate::kafka::types::{BrokerId, ControllerId, LeaderEpoch, Offset, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerView {
    pub id: ControllerId,
    pub health: Health,
    /// "active, epoch 3", "follower", "candidate, epoch 4", "dead".
    pub state: Rc<str>,
    /// Brokers that the active controller counts as unfenced; the others count none.
    pub unfenced: Rc<[BrokerId]>,
    pub fenced: Rc<[BrokerId]>,
    /// As a broker's.
    pub faults: Rc<[Rc<str>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerView {
    pub id: BrokerId,
    pub rack: Option<Rc<str>>,
    pub health: Health,
    /// Empty while it serves; else "fenced", "dead", "stands still", "starting", "stopping".
    pub state: Rc<str>,
    /// The first thing that it waits for, as one sentence.
    pub waiting: Option<Rc<str>>,
    /// A wrong clock, slow and cut links, in words: "clock 5 min ahead", "200 ms slower to broker 3".
    pub faults: Rc<[Rc<str>]>,
    /// Replicas of topics that people made, in the same order on every broker.
    pub replicas: List<ReplicaView>,
    /// Topics that coordinators keep their state in.
    pub internal: List<InternalTopicView>,
}

/// A broker's part of a coordinators' topic, folded into one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopicView {
    pub name: Rc<str>,
    pub partitions: i32,
    pub leads: i32,
    /// Groups or transactional ids whose coordinator this broker is.
    pub coordinates: Rc<[Rc<str>]>,
    /// The transactions among them.
    pub transactions: Rc<[Rc<CoordinatedView>]>,
    /// Partitions that hold records, or are led here: what unfolding shows.
    pub rows: Rc<[InternalTopicRow]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopicRow {
    pub partition: i32,
    pub leads: bool,
    pub leader_epoch: LeaderEpoch,
    pub high_watermark: Offset,
    pub log_end: Offset,
}

/// What a broker is to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
}

/// How a replica stands to the in-sync set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    InSync,
    OutOfSync,
    /// Its broker is down.
    Offline,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    pub tp: TopicPartition,
    pub broker: BrokerId,
    pub role: Role,
    pub leader_epoch: LeaderEpoch,
    pub standing: Standing,
    /// Why it is not in sync, in words: "behind 31 s", "fenced", "broker down".
    pub why_out: Option<Rc<str>>,
    pub log_start: Offset,
    pub high_watermark: Offset,
    /// The LSO, up to which readers of committed data come; `None` where nobody ever wrote in a transaction.
    pub last_stable: Option<Offset>,
    pub log_end: Offset,
    /// Transactions that are open in this log, by where they begin.
    pub open: Rc<[OpenView]>,
    /// Of all batches; it tells a compacted log from what it was.
    pub size_bytes: i64,
    /// The largest log end among the partition's replicas: all of them are drawn on one axis that ends here.
    pub axis_end: Offset,
    /// The log's newest records, oldest first.
    pub cells: Rc<[Cell]>,
    /// Committed offsets and positions; empty except on the leader.
    pub flags: Rc<[Flag]>,
    /// The in-sync set as the controller has it; empty except on the leader.
    pub in_sync: Rc<[BrokerId]>,
}

impl ReplicaView {
    /// Whether consumers can see the record at `offset`.
    pub fn committed(&self, offset: Offset) -> bool {
        offset < self.high_watermark
    }
}

/// One record of a log's tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub offset: Offset,
    /// Index into the eight key colours.
    pub colour: u8,
    pub key: Rc<str>,
    pub kind: CellKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellKind {
    /// A record of no transaction, or of one that was committed.
    Record,
    /// A record of a transaction that is open.
    Open,
    /// A record of a transaction that was aborted.
    Aborted,
    /// The control record that committed a transaction.
    Commit,
    /// The control record that aborted one.
    Abort,
    /// Another control record.
    Control,
}

impl CellKind {
    /// Whether it stands for a control record, which no consumer gets.
    pub fn is_control(self) -> bool {
        matches!(self, CellKind::Commit | CellKind::Abort | CellKind::Control)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlagKind {
    /// The offset a group has committed.
    Committed,
    /// The offset that becomes a group's if its transaction is committed.
    Pending,
    /// The offset a consumer asks for next.
    Position,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub kind: FlagKind,
    pub offset: Offset,
    /// The group's or the consumer's name.
    pub owner: Rc<str>,
}
