//! What goes on in share groups (KIP-932): at the leaders of their partitions, and in their consumers.

use super::{OffsetRun, RevokeReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::share::{AcknowledgeType, OffsetRange};
use crate::kafka::types::{
    BrokerId, ClientName, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset, TopicPartition,
};

/// What became of records that somebody held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShareChange {
    pub range: OffsetRange,
    pub outcome: ShareOutcome,
    pub delivery_count: i16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareOutcome {
    Accepted,
    /// They can be handed out again.
    Available,
    /// Rejected, or no records at all.
    Rejected,
    /// They came back and had been delivered as often as they may be (R-SHARE-8).
    Worn,
    /// The lock begins anew.
    Renewed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShareEvent {
    /// A leader has read back what was persisted, or found that nothing was, and hands records out from now on.
    Begun {
        broker: BrokerId,
        group: GroupId,
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
    },
    /// Records were handed out, each batch for the so many-th time.
    Acquired {
        broker: BrokerId,
        group: GroupId,
        tp: TopicPartition,
        member: MemberId,
        records: Vec<(OffsetRange, i16)>,
    },
    /// What a member has said of records; it is in effect once it is persisted.
    Acknowledged {
        broker: BrokerId,
        group: GroupId,
        tp: TopicPartition,
        member: MemberId,
        changes: Vec<ShareChange>,
    },
    /// A member's session ended, and what it held is given back (R-SHARE-14).
    GivenBack {
        broker: BrokerId,
        group: GroupId,
        tp: TopicPartition,
        member: MemberId,
        changes: Vec<ShareChange>,
    },
    /// Nothing was said of records in time (R-SHARE-7).
    LocksEnded {
        broker: BrokerId,
        group: GroupId,
        tp: TopicPartition,
        changes: Vec<ShareChange>,
        /// It does not hand out records any more: whoever leads by now learns of it from what is persisted.
        fenced: bool,
    },
    /// Everything below `to` is done (R-SHARE-11).
    StartMoved { broker: BrokerId, group: GroupId, tp: TopicPartition, from: Offset, to: Offset },

    /// The group is forgotten by its coordinator, with the states of its partitions: an administrator deleted it.
    GroupDeleted { group: GroupId },

    // Consumers.
    /// A consumer asks to be a member, under an id of its own.
    Joins { client: ClientName, group: GroupId, member: MemberId },
    /// All that a consumer reads from now on, with whoever else reads it.
    Assigned { client: ClientName, group: GroupId, epoch: GroupEpoch, partitions: Vec<TopicPartition> },
    /// A consumer reads nothing any more.
    Left { client: ClientName, group: GroupId, partitions: Vec<TopicPartition>, reason: RevokeReason },
    /// poll() returned records, with how often each has been delivered.
    Delivered {
        client: ClientName,
        group: GroupId,
        tp: TopicPartition,
        records: Vec<(Offset, i16)>,
        runs: Vec<OffsetRun>,
    },
    /// A consumer heard what became of its acknowledgements: `None`, they are in effect.
    Heard {
        client: ClientName,
        group: GroupId,
        tp: TopicPartition,
        said: Vec<(Offset, AcknowledgeType)>,
        error: Option<ErrorCode>,
    },
}
