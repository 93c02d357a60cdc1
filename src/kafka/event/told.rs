//! What an administrator is told of groups.

use crate::kafka::types::{BrokerId, GroupEpoch, GroupId, MemberId, Offset, Topic, TopicPartition};

/// What an administrator was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupsTold {
    /// The groups there are.
    List(Vec<ListedGroup>),
    Group(DescribedGroup),
    /// How far a group is.
    Offsets {
        group: GroupId,
        positions: Vec<GroupPosition>,
    },
    /// How far a share group is.
    ShareOffsets {
        group: GroupId,
        positions: Vec<SharePosition>,
    },
    /// What a share group has done of these topics is forgotten.
    ShareOffsetsForgotten {
        group: GroupId,
        topics: Vec<Topic>,
    },
    /// Where a group is to read from, or would be.
    Reset {
        group: GroupId,
        offsets: Vec<OffsetReset>,
        executed: bool,
        /// Whether it is a share group.
        is_shared: bool,
    },
}

/// One line of a list of groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListedGroup {
    pub group: GroupId,
    /// Of a group that only keeps offsets it is empty.
    pub protocol_type: String,
    pub state: String,
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedGroup {
    pub group: GroupId,
    pub coordinator: BrokerId,
    pub state: String,
    /// The assignor; of a classic group it is empty unless the group is stable.
    pub protocol: String,
    /// Of a group of the newer protocol: its epoch, and that of its target assignment.
    pub epochs: Option<(GroupEpoch, GroupEpoch)>,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedMember {
    pub member: MemberId,
    /// `group.instance.id`
    pub instance_id: Option<String>,
    pub client: String,
    pub host: String,
    /// Of a classic group it is empty unless the group is stable.
    pub owned: Vec<TopicPartition>,
    /// Of a group of the newer protocol: its epoch, and what it is to own.
    pub target: Option<(GroupEpoch, Vec<TopicPartition>)>,
}

/// How far a group is in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupPosition {
    pub tp: TopicPartition,
    pub committed: Option<Offset>,
    /// Where the partition's committed records end, the high watermark; none while it has no leader (R-OBS-4, R-OBS-7).
    pub end: Option<Offset>,
    /// The client that reads it.
    pub client: Option<String>,
}

impl GroupPosition {
    /// In offsets, which is more than the records that will be read where some are gone or are markers (R-OBS-6).
    pub fn lag(&self) -> Option<i64> {
        Some(self.end? - self.committed?)
    }
}

/// How far a share group is in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharePosition {
    pub tp: TopicPartition,
    /// Everything below is done; none as long as no leader has begun.
    pub start: Option<Offset>,
    /// How many records from there on are not done (KIP-1226).
    pub lag: Option<i64>,
}

/// Where a group is to read a partition from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetReset {
    pub tp: TopicPartition,
    pub to: Offset,
    pub note: ResetNote,
}

/// What a person should know of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetNote {
    /// It is as it was asked for.
    AsAsked,
    /// This offset was asked for, which lies outside the log (R-CLI-10).
    Clamped(Offset),
    /// No record is that new, or nothing was committed: the log's end it is (R-CLI-10).
    End,
}
