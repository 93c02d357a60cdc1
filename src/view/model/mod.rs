//! The view model: everything a page or a text rendering shows, as plain data with the words already chosen.
//!
//! It is a tree of reference-counted slices. The builder keeps a slice's pointer while its content is the same, so a
//! reader that compares pointers redraws only what changed.
//!
//! - this file: a moment of a run, its scenario, narrative, flights, and the chosen object
//! - [`server`]: controllers, brokers, replicas; [`client`]: producers, groups, consumers
//! - [`transaction`]: transactions as the client, the coordinator and the partitions have them
//!
//! **Invariant:** no type of a browser occurs here, and no text is left for the reader to invent.

pub mod client;
pub mod server;
pub mod transaction;

use std::rc::Rc;

pub use self::client::*;
pub use self::server::*;
pub use self::transaction::*;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, NodeId, Offset, TopicPartition};

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
    Replica {
        broker: BrokerId,
        tp: TopicPartition,
    },
    Record {
        broker: BrokerId,
        tp: TopicPartition,
        offset: Offset,
    },
    /// A producer, a consumer or an application.
    Client(ClientName),
    /// A record wherever it is or was, as the question names it: "story checkout-api 40".
    Story(Rc<str>),
}

/// Everything about the chosen object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    pub focus: Focus,
    pub title: Rc<str>,
    pub facts: Rc<[Fact]>,
    /// The question why nothing happens there, where there is one.
    pub idle: Option<Rc<str>>,
    /// More facts, under headings.
    pub sections: Rc<[Section]>,
    /// What became of a record.
    pub story: Option<StoryView>,
    /// The batch's bytes as a hex dump.
    pub bytes: Option<Rc<str>>,
}

/// Facts about one side of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub title: &'static str,
    pub facts: Rc<[Fact]>,
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
    /// The question why it is so, where there is one.
    pub why: Option<Rc<str>>,
}
