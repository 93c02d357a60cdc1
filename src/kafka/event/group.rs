//! What happened at a group coordinator.

use super::reason::{ConsumerGroupState, GroupState, MemberRemoval, RebalanceReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{
    BrokerId, ClientName, Generation, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset, TopicPartition,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupEvent {
    CoordinatorElected {
        broker: BrokerId,
        partition: i32,
        leader_epoch: LeaderEpoch,
    },
    /// The replay of a `__consumer_offsets` partition ended; `records` were read.
    CoordinatorLoaded {
        broker: BrokerId,
        partition: i32,
        records: i64,
        groups: Vec<GroupId>,
    },
    CoordinatorResigned {
        broker: BrokerId,
        partition: i32,
    },
    MemberAdded {
        group: GroupId,
        member: MemberId,
        client: ClientName,
        leader: bool,
    },
    MemberRemoved {
        group: GroupId,
        member: MemberId,
        client: ClientName,
        reason: MemberRemoval,
    },
    /// What was to be written of a removal could not be: it is a member still. Who did not do something in time is tried
    /// again a moment later; who left is, but for the last one of its protocol, waited for by no timer any more (R-CG8-14).
    MemberKept {
        group: GroupId,
        member: MemberId,
        client: ClientName,
        reason: MemberRemoval,
        error: ErrorCode,
    },
    GroupStateChanged {
        group: GroupId,
        from: GroupState,
        to: GroupState,
        generation: Generation,
    },
    RebalanceStarted {
        group: GroupId,
        generation: Generation,
        reason: RebalanceReason,
        client: ClientName,
    },
    /// The join phase waits for further members (R-GRP-12).
    JoinExtended {
        group: GroupId,
        wait_ms: i64,
    },
    /// The leader's plan was stored: each member's client and its partitions.
    AssignmentStored {
        group: GroupId,
        generation: Generation,
        plan: Vec<(ClientName, Vec<TopicPartition>)>,
    },
    /// A group that had members or none changed its protocol (R-CG8-25).
    GroupConverted {
        group: GroupId,
        /// To the classic one.
        classic: bool,
    },
    /// A group of the newer protocol (R-CG8-6).
    ConsumerGroupStateChanged {
        group: GroupId,
        from: ConsumerGroupState,
        to: ConsumerGroupState,
        epoch: GroupEpoch,
    },
    /// The coordinator computed a target: each member's client and its partitions (R-CG8-8).
    TargetAssigned {
        group: GroupId,
        epoch: GroupEpoch,
        plan: Vec<(ClientName, Vec<TopicPartition>)>,
    },
    /// A member is told to give up partitions before it may go on (R-CG8-11).
    RevocationAsked {
        group: GroupId,
        client: ClientName,
        epoch: GroupEpoch,
        partitions: Vec<TopicPartition>,
    },
    /// A member has entered the target's epoch, or got what it had waited for there (R-CG8-11).
    MemberReconciled {
        group: GroupId,
        client: ClientName,
        epoch: GroupEpoch,
        given: Vec<TopicPartition>,
        /// It waits for partitions that others have not given up yet.
        waits: bool,
    },
    OffsetCommitted {
        group: GroupId,
        tp: TopicPartition,
        offset: Offset,
        client: ClientName,
    },
    /// Nobody had used a committed offset for offsets.retention.minutes (R-GRP-40).
    OffsetExpired {
        group: GroupId,
        tp: TopicPartition,
    },
    /// An administrator had a group forget a committed offset (R-GRP-41).
    OffsetDeleted {
        group: GroupId,
        tp: TopicPartition,
        client: ClientName,
    },
    /// A committed offset went with its topic (R-PLACE-9) or with its group (R-GRP-41).
    OffsetDropped {
        group: GroupId,
        tp: TopicPartition,
    },
    CommitRefused {
        group: GroupId,
        error: ErrorCode,
        client: ClientName,
    },
}
