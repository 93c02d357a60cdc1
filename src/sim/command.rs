//! Everything that can be done to a running cluster from outside, as data.
//!
//! The page, a scenario file, a link and a test all end here; `lab::command` gives each its text form.
//!
//! **Invariant:** a command that [`World::check`](super::World::check) refuses changes nothing.

use std::collections::BTreeMap;

use crate::client::admin::{GroupOperation, TransactionOperation};
use crate::client::application::ApplicationSpec;
use crate::client::consumer::{Ask, CloseOptions, ConsumerSpec};
use crate::client::group_metadata::GroupMetadata;
use crate::client::producer::{ProducerSpec, Wish};
use crate::client::program::Order;
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, Offset, Topic, TopicPartition};

/// A process as a command names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    Broker(BrokerId),
    Controller(ControllerId),
    Client(ClientName),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A new broker joins the cluster.
    AddBroker {
        broker: BrokerId,
        rack: Option<String>,
    },
    /// kill -9.
    Kill(Target),
    /// The machine's power fails: the process ends, its page cache is gone, and its connections say nothing more.
    CutPower(Target),
    /// Everything on a dead broker's disk is deleted, but for who it is.
    WipeDisk(BrokerId),
    /// SIGTERM: the broker gives its leaderships away and ends when the controller lets it.
    Stop(BrokerId),
    /// SIGTERM to a controller: one that is active gives its place to another first.
    StopController(ControllerId),
    /// Starts a dead broker again with the data it had.
    Start(Target),
    /// The process stands still and its connections stay open (SIGSTOP, a long GC pause).
    Freeze(Target),
    Thaw(Target),
    /// Packets between the two wait, without a sign, until the link heals.
    Cut {
        a: Target,
        b: Target,
    },
    Heal {
        a: Target,
        b: Target,
    },
    /// Each packet between the two takes so much longer, from now on; 0 for the link's own pace.
    Slow {
        a: Target,
        b: Target,
        by_us: i64,
    },
    /// The clock that a process reads for timestamps and retention is ahead by so much, negative for behind. Timers and
    /// sessions are not touched: they run by a monotonic clock.
    SetClock {
        target: Target,
        ahead_ms: i64,
    },
    AddProducer(ProducerSpec),
    /// The application stops sending; what it has sent goes on.
    Pause(ClientName),
    Resume(ClientName),
    /// The application calls flush() and waits for it.
    Flush(ClientName),
    /// The application of a transactional producer begins or ends a transaction.
    Transaction {
        client: ClientName,
        wish: Wish,
    },
    /// It calls sendOffsetsToTransaction(), in the name of whatever member of the group.
    SendOffsets {
        client: ClientName,
        offsets: BTreeMap<TopicPartition, Offset>,
        group: GroupMetadata,
    },
    AddConsumer(ConsumerSpec),
    /// An application that consumes, processes and produces.
    AddApplication(ApplicationSpec),
    /// A member of a share group.
    AddShareConsumer(ShareConsumerSpec),
    /// The client's close(): it says goodbye and ends.
    Close(ClientName),
    /// A close() with options: a producer's knows a time limit only.
    CloseWith {
        client: ClientName,
        options: CloseOptions,
    },
    /// The application calls its consumer, between two polls.
    Ask {
        client: ClientName,
        ask: Ask,
    },
    /// What is done to the program of a client's application.
    Program {
        client: ClientName,
        order: Order,
    },
    /// The client's process ends without a word.
    Crash(ClientName),
    CreateTopic {
        topic: Topic,
        partitions: i32,
        replication_factor: i16,
        config: BTreeMap<String, String>,
    },
    /// New partitions beside those there are.
    AddPartitions {
        topic: Topic,
        /// How many there are then.
        count: i32,
    },
    DeleteTopic(Topic),
    /// Lets a partition's log begin later.
    DeleteRecords {
        partition: TopicPartition,
        /// `None`: everything that is committed goes.
        before: Option<i64>,
    },
    ElectLeader {
        kind: ElectionType,
        /// `None`: of every partition.
        partition: Option<TopicPartition>,
    },
    /// Moves a partition to other brokers, the first of them preferred as leader.
    Reassign {
        partition: TopicPartition,
        replicas: Vec<BrokerId>,
    },
    /// Back to the replicas there were before.
    CancelReassignment(TopicPartition),
    /// Raises or lowers the level of a feature in the whole cluster.
    UpdateFeature {
        feature: String,
        level: i16,
        upgrade: UpgradeType,
    },
    /// `None` deletes the topic's own value.
    SetTopicConfig {
        topic: Topic,
        key: String,
        value: Option<String>,
    },
    /// A config of one running broker, or the default of all; `None` deletes the value.
    SetBrokerConfig {
        broker: Option<BrokerId>,
        key: String,
        value: Option<String>,
    },
    /// A config of one group; `None` deletes the value.
    SetGroupConfig {
        group: GroupId,
        key: String,
        value: Option<String>,
    },
    /// What configs a topic, a broker, a group or the cluster was given.
    Describe(Resource),
    /// What `kafka-consumer-groups.sh` does.
    Groups(GroupOperation),
    /// What `kafka-transactions.sh` does.
    Transactions(TransactionOperation),
    /// How the controllers' quorum stands, and how far brokers follow it.
    DescribeQuorum,
    /// Which levels of features the nodes support, and which hold.
    DescribeFeatures,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Kafka's error, where Kafka has one.
    pub error: Option<ErrorCode>,
    pub reason: String,
}
