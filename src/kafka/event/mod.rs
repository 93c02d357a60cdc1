//! What happened, as data: the trace's vocabulary.
//!
//! Every domain event names the objects it is about and the numbers a person needs to understand it. Narrator, view,
//! tests and metrics read these; nothing parses text.
//!
//! **Invariant:** an event is pushed by the state machine that changed, in the step in which it changed.

mod application;
mod group;
mod marks;
mod producer;
mod reason;
mod share;
mod told;
mod transaction;
mod transactions_told;

use std::rc::Rc;

use super::api_versions::FeatureStatus;
use super::controller::configs::Resource;
use super::log::Contents;
use super::protocol::{ApiKey, ErrorCode};
use super::raft::QuorumStatus;
use super::types::{
    BatchId, BrokerEpoch, BrokerId, ClientName, ControllerId, Generation, GroupId, LeaderEpoch, NodeId,
    Offset, PartitionEpoch, ProducerEpoch, ProducerId, Topic, TopicId, TopicPartition,
};

pub use application::ApplicationEvent;
pub use group::GroupEvent;
pub use marks::{OffsetRun, RequestMark};
pub use producer::ProducerEvent;
pub use reason::{
    Act, ChangeReason, CommitOutcome, ConsumerGroupState, GroupState, Halt, LogStartReason, MemberRemoval,
    PositionSource, RebalanceReason, RecordPart, RevokeReason, TruncationReason,
};
pub use share::{ShareChange, ShareEvent, ShareOutcome};
pub use told::{
    DescribedGroup, DescribedMember, GroupPosition, GroupsTold, ListedGroup, OffsetReset, ResetNote,
    SharePosition,
};
pub use transaction::{EndReason, TransactionEvent};
pub use transactions_told::{
    ActiveProducer, DescribedTransaction, HangingTransaction, ListedTransaction, TransactionsTold,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    // Processes and commands.
    Process {
        node: super::types::NodeId,
        name: ClientName,
        act: Act,
    },
    LinkCut {
        a: super::types::NodeId,
        b: super::types::NodeId,
    },
    LinkHealed {
        a: super::types::NodeId,
        b: super::types::NodeId,
    },
    /// Packets between the two take longer from now on.
    LinkSlowed {
        a: super::types::NodeId,
        b: super::types::NodeId,
        by_us: i64,
    },
    /// A process' clock is wrong from now on, or right again.
    ClockSet {
        node: super::types::NodeId,
        ahead_ms: i64,
    },
    /// A command as a person wrote it was carried out.
    CommandGiven {
        text: String,
    },
    /// Kafka refused what a command asked for.
    CommandRefused {
        text: String,
        error: ErrorCode,
        message: String,
    },

    // Quorum.
    /// A controller stands for election.
    QuorumCandidate {
        controller: ControllerId,
        epoch: LeaderEpoch,
    },
    QuorumVoted {
        voter: ControllerId,
        candidate: ControllerId,
        epoch: LeaderEpoch,
    },
    QuorumLeaderElected {
        controller: ControllerId,
        epoch: LeaderEpoch,
        votes: Vec<ControllerId>,
        voters: i32,
    },
    /// A leader gives up: no majority has fetched from it for so long (R-CTRL-6); `None`: it stops in order (R-CTRL-2).
    QuorumLeaderResigned {
        controller: ControllerId,
        epoch: LeaderEpoch,
        silent_ms: Option<i64>,
    },
    /// Metadata records that no majority had are gone from a replica.
    MetadataTruncated {
        node: super::types::NodeId,
        from: Offset,
        to: Offset,
    },

    // Controller.
    BrokerRegistered {
        broker: BrokerId,
        epoch: BrokerEpoch,
        rack: Option<String>,
    },
    BrokerFenced {
        broker: BrokerId,
        silent_ms: i64,
    },
    BrokerUnfenced {
        broker: BrokerId,
    },
    /// A broker is about to stop and gives its leaderships away (R-REPL-55).
    ShutdownBegun {
        broker: BrokerId,
    },
    /// A broker that wants to stop is fenced and may end its process (R-REPL-54).
    ShutdownGranted {
        broker: BrokerId,
    },
    TopicCreated {
        topic: Topic,
        partitions: i32,
        replication_factor: i32,
    },
    /// A topic has `to` partitions where it had `from` (R-PLACE-7).
    PartitionsAdded {
        topic: Topic,
        from: i32,
        to: i32,
    },
    TopicDeleted {
        topic: Topic,
    },
    ConfigChanged {
        topic: Topic,
        key: String,
        value: Option<String>,
    },
    /// A node has written a snapshot of everything that the metadata log says below `end_offset`.
    SnapshotWritten {
        node: NodeId,
        end_offset: Offset,
        size_bytes: i64,
    },
    /// A node lacked records that its leader has no more, and has taken the leader's snapshot over.
    SnapshotFetched {
        node: NodeId,
        end_offset: Offset,
        size_bytes: i64,
    },
    /// A node's metadata log starts later: what is below is in a snapshot.
    MetadataLogCleaned {
        node: NodeId,
        start_offset: Offset,
    },
    /// What an administrator was told of the controllers' quorum.
    QuorumDescribed {
        status: QuorumStatus,
    },
    /// What an administrator was told of a resource's own configs.
    ConfigsDescribed {
        resource: Resource,
        configs: Vec<(String, String)>,
    },
    /// What an administrator was told of groups.
    GroupsTold {
        told: GroupsTold,
    },
    /// A dynamic config of one broker, or with `None` the default of all.
    BrokerConfigChanged {
        broker: Option<BrokerId>,
        key: String,
        value: Option<String>,
    },
    /// The level of a feature, which the whole cluster goes by.
    FeatureUpdated {
        feature: Rc<str>,
        level: i16,
    },
    /// A dynamic config of a group.
    GroupConfigChanged {
        group: GroupId,
        key: String,
        value: Option<String>,
    },
    LeaderElected {
        tp: TopicPartition,
        from: BrokerId,
        /// NONE: the partition has no leader.
        to: BrokerId,
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
        isr: Vec<BrokerId>,
        /// It may lack records that were committed (R-REPL-43).
        unclean: bool,
        reason: ChangeReason,
    },
    /// A reassignment begins, changes or ends (R-REPL-58, 59).
    ReplicasChanged {
        tp: TopicPartition,
        replicas: Vec<BrokerId>,
        adding: Vec<BrokerId>,
        removing: Vec<BrokerId>,
    },
    IsrShrunk {
        tp: TopicPartition,
        removed: Vec<BrokerId>,
        isr: Vec<BrokerId>,
        partition_epoch: PartitionEpoch,
        reason: ChangeReason,
    },
    IsrExpanded {
        tp: TopicPartition,
        added: Vec<BrokerId>,
        isr: Vec<BrokerId>,
        partition_epoch: PartitionEpoch,
    },
    ElrChanged {
        tp: TopicPartition,
        elr: Vec<BrokerId>,
        last_known_elr: Vec<BrokerId>,
    },
    IsrChangeRefused {
        tp: TopicPartition,
        broker: BrokerId,
        error: ErrorCode,
    },

    // Replication on a broker.
    BecameLeader {
        broker: BrokerId,
        tp: TopicPartition,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        /// Whose transactions it knows to be open though they begin below its log's start, of which the log says nothing.
        open_below: Vec<ProducerId>,
    },
    BecameFollower {
        broker: BrokerId,
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
        leader: BrokerId,
    },
    /// A replica is not on this broker any more: its topic was deleted, or it moved (R-PLACE-9, R-REPL-59).
    ReplicaDeleted {
        broker: BrokerId,
        tp: TopicPartition,
    },
    /// The leader took a batch into its log.
    Appended {
        broker: BrokerId,
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
        base_offset: Offset,
        last_offset: Offset,
        producer: ProducerId,
        base_sequence: i32,
        /// It is of a transaction.
        transactional: bool,
        /// The request that it came with; `None` for what a broker writes itself.
        request: Option<RequestMark>,
    },
    /// A follower took batches into its log; `to` is its new log end.
    Replicated {
        broker: BrokerId,
        tp: TopicPartition,
        from: Offset,
        to: Offset,
        /// The leader epochs in which they were written, each with the first offset that is of it.
        epochs: Vec<(LeaderEpoch, Offset)>,
    },
    HighWatermarkAdvanced {
        broker: BrokerId,
        tp: TopicPartition,
        leader: bool,
        from: Offset,
        to: Offset,
    },
    Truncated {
        broker: BrokerId,
        tp: TopicPartition,
        from: Offset,
        to: Offset,
        reason: TruncationReason,
    },
    /// A broker that had stopped without warning has read its logs again from their recovery points.
    LogsRecovered {
        broker: BrokerId,
        logs: i32,
        segments: i32,
    },
    /// The power failed, and with the page cache went what a broker had not flushed.
    UnflushedLost {
        broker: BrokerId,
        /// What was cut, and where each log ends now.
        ends: Vec<(TopicPartition, Offset)>,
        offsets: i64,
    },
    /// Everything on a broker's disk is gone.
    DiskWiped {
        broker: BrokerId,
    },
    /// A replica's log begins later than before (R-LOG-30).
    LogStartMoved {
        broker: BrokerId,
        tp: TopicPartition,
        leader: bool,
        from: Offset,
        to: Offset,
        reason: LogStartReason,
    },
    /// Segments that lay wholly below the log start are gone (R-LOG-31).
    SegmentsDeleted {
        broker: BrokerId,
        tp: TopicPartition,
        leader: bool,
        segments: i32,
        log_start_offset: Offset,
    },
    /// A replica's log was compacted; `[from, to)` had not been before (R-LOG-41).
    LogCleaned {
        broker: BrokerId,
        tp: TopicPartition,
        leader: bool,
        from: Offset,
        to: Offset,
        before: Contents,
        after: Contents,
        /// The records that went.
        gone: Vec<Offset>,
    },
    /// A repeated batch was answered with its first offset and not stored again (R-PROD-25).
    DuplicateBatch {
        broker: BrokerId,
        tp: TopicPartition,
        producer: ProducerId,
        base_sequence: i32,
        base_offset: Offset,
        request: RequestMark,
    },
    ProduceRefused {
        broker: BrokerId,
        tp: TopicPartition,
        error: ErrorCode,
        request: RequestMark,
    },
    /// A leader asks the controller for a smaller or larger in-sync set.
    IsrChangeProposed {
        broker: BrokerId,
        tp: TopicPartition,
        isr: Vec<BrokerId>,
        out_of_sync: Vec<BrokerId>,
    },

    /// What happened at a group coordinator.
    Group(GroupEvent),
    /// Share groups, at leaders of partitions and in consumers.
    Share(ShareEvent),
    /// Transactions, at their coordinators and at the leaders of their partitions.
    Transaction(TransactionEvent),

    // Clients.
    ConnectionLost {
        client: ClientName,
        node: super::types::NodeId,
        requests: i32,
    },
    RequestTimedOut {
        client: ClientName,
        node: super::types::NodeId,
        api: ApiKey,
    },
    ProducerIdGiven {
        client: ClientName,
        producer: ProducerId,
        epoch: ProducerEpoch,
    },
    /// The application's send() put a record into a batch.
    RecordBatched {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        key: Option<Rc<[u8]>>,
    },
    BatchSent {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        records: i64,
        base_sequence: i32,
        attempt: i32,
        to: BrokerId,
        /// Of the request; the broker names it in what it does with the batch.
        correlation: i32,
    },
    BatchAcknowledged {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        /// UNKNOWN with acks=0.
        base_offset: Offset,
        records: i64,
        /// Since the batch was created.
        latency_ms: i64,
    },
    BatchRetried {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        error: ErrorCode,
        attempt: i32,
    },
    /// A batch was too large and goes on as smaller ones, each with how many of its records (R-PROD-19).
    BatchSplit {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        parts: Vec<(BatchId, i64)>,
    },
    BatchFailed {
        client: ClientName,
        tp: TopicPartition,
        /// `None` for a record that never came into one.
        batch: Option<BatchId>,
        records: i64,
        error: ErrorCode,
    },
    Producer(ProducerEvent),
    ProducerPaused {
        client: ClientName,
    },
    ProducerResumed {
        client: ClientName,
    },
    CoordinatorFound {
        client: ClientName,
        group: GroupId,
        broker: BrokerId,
    },
    CoordinatorLost {
        client: ClientName,
        group: GroupId,
        error: ErrorCode,
    },
    /// With what the member keeps meanwhile, nothing if it is an eager one, and why it says it joins (KIP-800).
    JoinSent {
        client: ClientName,
        group: GroupId,
        owned: Vec<TopicPartition>,
        reason: Rc<str>,
    },
    /// All that the member owns now, and in the same order what it did not own before (onPartitionsAssigned).
    PartitionsAssigned {
        client: ClientName,
        group: GroupId,
        generation: Generation,
        partitions: Vec<TopicPartition>,
        added: Vec<TopicPartition>,
    },
    PartitionsRevoked {
        client: ClientName,
        group: GroupId,
        partitions: Vec<TopicPartition>,
        reason: RevokeReason,
    },
    /// The leader has no such offset: it lies below the log start or behind the log end (R-CONS-13).
    PositionOutOfRange {
        client: ClientName,
        tp: TopicPartition,
        offset: Offset,
    },
    PositionSet {
        client: ClientName,
        tp: TopicPartition,
        offset: Offset,
        source: PositionSource,
    },
    /// A consumer reads from a follower in its own rack, as the leader told it to.
    ReadReplicaChosen {
        client: ClientName,
        tp: TopicPartition,
        replica: BrokerId,
        rack: Rc<str>,
    },
    /// A consumer found that the log was cut before its position; `end`: where the epoch of its last record ends now, if
    /// the leader can tell.
    TruncationDetected {
        client: ClientName,
        tp: TopicPartition,
        position: Offset,
        end: Option<Offset>,
    },
    /// poll() passed over so many records of aborted transactions, all of which lie in `[from, to)` (R-CONS-30).
    AbortedPassedOver {
        client: ClientName,
        tp: TopicPartition,
        from: Offset,
        to: Offset,
        records: i64,
    },
    /// poll() returned records of a partition; `[from, to)` is how its position moved.
    Polled {
        client: ClientName,
        /// Empty without a group.id.
        group: GroupId,
        tp: TopicPartition,
        from: Offset,
        to: Offset,
        records: i64,
        /// Which they were.
        runs: Vec<OffsetRun>,
    },
    /// The application finished one record.
    Processed {
        client: ClientName,
        tp: TopicPartition,
        offset: Offset,
    },
    /// A commit that the client sent in this generation, so long ago, was confirmed to it.
    CommitConfirmed {
        client: ClientName,
        offsets: Vec<(TopicPartition, Offset)>,
        automatic: bool,
        generation: Generation,
        latency_ms: i64,
    },
    CommitFailed {
        client: ClientName,
        error: ErrorCode,
    },
    /// The callback of a commitAsync() ran.
    CommitCalledBack {
        client: ClientName,
        outcome: CommitOutcome,
    },
    /// subscribe(), assign() or, with nothing to read, unsubscribe() while the program runs.
    SubscriptionChanged {
        client: ClientName,
        to: Option<Rc<str>>,
    },
    PartitionsPaused {
        client: ClientName,
        partitions: Vec<TopicPartition>,
    },
    PartitionsResumed {
        client: ClientName,
        partitions: Vec<TopicPartition>,
    },
    /// A call that was asked for could not be done when its turn came: the client threw this.
    CallRefused {
        client: ClientName,
        reason: String,
    },
    /// poll() threw NoOffsetForPartitionException, which has no error code and ends the program.
    NoOffsetForPartitions {
        client: ClientName,
        partitions: Vec<TopicPartition>,
    },
    /// poll() threw RecordDeserializationException, which has no error code and ends the program (R-CONS-34).
    RecordUnreadable {
        client: ClientName,
        tp: TopicPartition,
        offset: Offset,
        part: RecordPart,
    },
    /// An error that ends the client's program.
    ClientFailed {
        client: ClientName,
        error: ErrorCode,
    },
    Application(ApplicationEvent),
    /// What an administrator was told of transactions.
    TransactionsTold {
        told: TransactionsTold,
    },
    /// What an administrator was told of the features, and of which epoch their levels are.
    FeaturesDescribed {
        features: Vec<FeatureStatus>,
        epoch: Option<i64>,
    },
}
