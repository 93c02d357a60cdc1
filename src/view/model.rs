//! The view model: everything a page or a text rendering shows, as plain data with the words already chosen.
//!
//! It is a tree of reference-counted slices. The builder keeps a slice's pointer while its content is the same, so a
//! reader that compares pointers redraws only what changed.
//!
//! **Invariant:** no type of a browser occurs here, and no text is left for the reader to invent.

use std::rc::Rc;

use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, GroupId, LeaderEpoch, NodeId, Offset, TopicPartition};

/// A list whose elements keep their pointers.
pub type List<T> = Rc<[Rc<T>]>;

/// One moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub now: Time,
    /// Entries taken from the event queue so far.
    pub events_done: u64,
    pub scenario: Rc<ScenarioView>,
    pub controllers: List<ControllerView>,
    pub brokers: List<BrokerView>,
    pub producers: List<ProducerView>,
    pub groups: List<GroupView>,
    /// What is between two processes just now.
    pub flights: Rc<[Flight]>,
    /// The newest part of the narrative, oldest first.
    pub sentences: List<Sentence>,
    /// What is known of the chosen object.
    pub inspected: Option<Rc<Inspected>>,
}

/// What a scenario says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioView {
    pub seed: u64,
    /// One way, in words: "20 ms to 60 ms".
    pub latency: Rc<str>,
    pub topics: Rc<[Rc<str>]>,
    pub settings: Rc<[Setting]>,
    /// Commands given so far, in their text form, with the time of each.
    pub journal: Rc<[(Time, Rc<str>)]>,
}

/// A value that departs from Kafka's default: a classroom setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: Rc<str>,
    pub value: Rc<str>,
    pub kafka_default: Rc<str>,
    /// What it belongs to: "all brokers", "topic orders", "consumer-a".
    pub scope: Rc<str>,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Running,
    /// Runs, and is not taken for a working part of the cluster (a fenced broker, a member that is joining).
    Waiting,
    /// Stands still with its connections open.
    Frozen,
    Dead,
}

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
    pub offsets_topic: Option<Rc<OffsetsTopicView>>,
}

/// A broker's part of `__consumer_offsets`, folded into one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsTopicView {
    pub partitions: i32,
    pub leads: i32,
    /// Groups whose coordinator this broker is.
    pub coordinates: Rc<[GroupId]>,
    /// Partitions that hold records, or are led here: what unfolding shows.
    pub rows: Rc<[OffsetsTopicRow]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetsTopicRow {
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
    pub log_end: Offset,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlagKind {
    /// The offset a group has committed.
    Committed,
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
    pub sent: i64,
    pub acknowledged: i64,
    pub failed: i64,
    pub waiting: Option<Rc<str>>,
    /// As a broker's.
    pub faults: Rc<[Rc<str>]>,
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
    pub waiting: Option<Rc<str>>,
    /// As a broker's.
    pub faults: Rc<[Rc<str>]>,
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
    pub committed: Option<Offset>,
    pub paused: bool,
    /// Records from the committed offset, or the position before any commit, to the high watermark.
    pub lag: i64,
}

/// What a flight is to the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlightKind {
    /// Records on their way: to the leader, to a follower, to a consumer.
    Records,
    /// An answer that confirms records or a commit.
    Confirmation,
    /// OffsetCommit.
    Commit,
    /// JoinGroup, SyncGroup, LeaveGroup and FindCoordinator.
    Group,
    /// News between controllers, and between them and brokers.
    Control,
    /// Heartbeats, empty fetches, metadata.
    Background,
}

/// A request or an answer between two processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    pub from: NodeId,
    pub to: NodeId,
    pub kind: FlightKind,
    /// Kafka's name of the request, or what it carries.
    pub label: &'static str,
    /// The first partition that it carries records of.
    pub tp: Option<TopicPartition>,
    /// Key colour of its first record.
    pub colour: Option<u8>,
    /// Records that it carries.
    pub records: i64,
    pub sent_at: Time,
    pub arrives_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    Neutral,
    Info,
    Good,
    Warning,
    Bad,
}

/// One thing that changed, told in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Counts the sentences of a run.
    pub number: u64,
    pub time: Time,
    pub title: Rc<str>,
    pub detail: Rc<str>,
    /// Ids of the rules of Kafka that it rests on.
    pub rules: Rc<[Rc<str>]>,
    pub tone: Tone,
    /// The object to show when it is chosen.
    pub about: Option<Focus>,
}

/// An object that a person chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Focus {
    Broker(BrokerId),
    Controller(ControllerId),
    Replica { broker: BrokerId, tp: TopicPartition },
    Record { broker: BrokerId, tp: TopicPartition, offset: Offset },
}

/// Everything about the chosen object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    pub focus: Focus,
    pub title: Rc<str>,
    pub facts: Rc<[Fact]>,
    /// What became of a record.
    pub story: Option<StoryView>,
    /// The batch's bytes as a hex dump.
    pub bytes: Option<Rc<str>>,
}

/// What became of a record of a producer, whichever replica it was chosen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryView {
    /// "record 17 of checkout-api, key cart-3"
    pub title: Rc<str>,
    /// What happened, in order, each with its time.
    pub lines: Rc<[(Time, Rc<str>)]>,
    /// How things stand.
    pub now: Rc<[Rc<str>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: Rc<str>,
    pub value: Rc<str>,
    pub tone: Tone,
}
