//! What an administrator is told of groups.

use crate::kafka::types::{BrokerId, GroupId, MemberId, Offset, TopicPartition};

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
    /// The assignor; empty unless the group is stable.
    pub protocol: String,
    pub members: Vec<DescribedMember>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedMember {
    pub member: MemberId,
    /// `group.instance.id`
    pub instance_id: Option<String>,
    pub client: String,
    pub host: String,
    /// Empty unless the group is stable.
    pub owned: Vec<TopicPartition>,
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
