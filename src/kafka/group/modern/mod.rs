//! Groups of the newer protocols: one request, epochs, and assignments that the coordinator computes (section 7 of the
//! reference).
//!
//! [`ModernGroup`] is what consumer groups and share groups have in common and mirrors `ModernGroup` and
//! `ModernGroupMember`; [`consumer`] mirrors the rest of `modern.consumer` and its part of `GroupMetadataManager`, [`share`]
//! that of `modern.share`.
//!
//! A handler looks at a group, answers, and says which records follow; the group changes by these records alone, be they new
//! or read from the log. So a coordinator that takes over knows what the one before it knew.
//!
//! **Invariant:** nothing but a record changes what a group is; deadlines, which no record holds, are begun anew after a load.

mod partitions;
mod subscription;
mod metadata_hash;
mod target;
pub mod consumer;
pub mod share;

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::protocol::StrBytes;

use crate::kafka::controller::image::ClusterImage;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{GroupEpoch, GroupId, MemberId, Offset, TopicId};

pub use partitions::Partitions;
pub use subscription::SubscriptionType;
pub use target::Target;

use subscription::Subscribed;

/// How far a member is on its way to its target (R-CG8-10). A share group's member is always stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// It has what it is to have in its epoch.
    Stable,
    /// It has to give up partitions before it may go on to the next epoch.
    UnrevokedPartitions,
    /// It is in the newest epoch and waits for partitions that others have not given up.
    UnreleasedPartitions,
    /// Written by a newer coordinator.
    Unknown,
}

impl MemberState {
    /// The number in a record.
    pub fn number(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown => 127,
        }
    }

    pub fn of_number(number: i8) -> MemberState {
        match number {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            _ => MemberState::Unknown,
        }
    }
}

/// One member, as far as the kinds of groups have it in common.
pub trait ModernMember {
    fn id(&self) -> &MemberId;
    fn instance_id(&self) -> Option<&str>;
    fn epoch(&self) -> GroupEpoch;
    fn state(&self) -> MemberState;
    fn subscribed(&self) -> Subscribed<'_>;

    /// It has all that the target of this epoch gives it.
    fn is_reconciled_to(&self, epoch: GroupEpoch) -> bool {
        self.state() == MemberState::Stable && self.epoch() == epoch
    }
}

/// What consumer groups and share groups have in common.
#[derive(Clone, Debug)]
pub struct ModernGroup<M> {
    pub id: GroupId,
    /// Raised whenever a new target assignment is needed (R-CG8-7).
    pub epoch: GroupEpoch,
    /// Of the topics that it subscribes to, as of `epoch`.
    pub metadata_hash: i64,
    pub members: BTreeMap<MemberId, Rc<M>>,
    pub target: Target,
    /// Until then, and in no later epoch, nobody needs to look at the topics again.
    pub(super) fresh_until: Freshness,
}

/// When a group's topics were looked at, in a form that a write which failed makes stale (`DeadlineAndEpoch`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freshness {
    deadline: Time,
    epoch: GroupEpoch,
}

/// METADATA_REFRESH_INTERVAL_MS: groups are told of changes, so this matters to no one.
const METADATA_REFRESH_INTERVAL_MS: i64 = i32::MAX as i64;

impl Freshness {
    pub(super) fn from(now: Time, epoch: GroupEpoch) -> Freshness {
        Freshness { deadline: now.plus_ms(METADATA_REFRESH_INTERVAL_MS), epoch }
    }
}

impl<M: ModernMember> ModernGroup<M> {
    pub(super) fn new(id: GroupId) -> ModernGroup<M> {
        ModernGroup {
            id,
            epoch: GroupEpoch(1),
            metadata_hash: 0,
            members: BTreeMap::new(),
            target: Target::default(),
            fresh_until: Freshness::default(),
        }
    }

    /// Whether the topics that it subscribes to may be other than they were.
    pub(super) fn has_metadata_expired(&self, now: Time) -> bool {
        now >= self.fresh_until.deadline || self.epoch < self.fresh_until.epoch
    }

    /// A topic that it subscribes to was created, changed or deleted.
    pub fn request_metadata_refresh(&mut self) {
        self.fresh_until = Freshness::default();
    }

    /// UNKNOWN_MEMBER_ID for anyone else.
    pub(super) fn member(&self, id: &MemberId) -> Result<&Rc<M>, Refusal> {
        self.members.get(id).ok_or_else(|| {
            let text = format!("Member {id} is not a member of group {}.", self.id);
            Refusal::new(ErrorCode::UnknownMemberId, text)
        })
    }
}

/// An error with Kafka's sentence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: ErrorCode,
    pub message: String,
}

impl Refusal {
    /// As the answer to a ConsumerGroupHeartbeat.
    pub(in crate::kafka::group) fn to_heartbeat(&self) -> m::ConsumerGroupHeartbeatResponse {
        m::ConsumerGroupHeartbeatResponse::default()
            .with_error_code(self.error.code())
            .with_error_message(Some(StrBytes::from_string(self.message.clone())))
    }

    /// As the answer to a ShareGroupHeartbeat.
    pub(in crate::kafka::group) fn to_share_heartbeat(&self) -> m::ShareGroupHeartbeatResponse {
        m::ShareGroupHeartbeatResponse::default()
            .with_error_code(self.error.code())
            .with_error_message(Some(StrBytes::from_string(self.message.clone())))
    }

    pub fn new(error: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { error, message: message.into() }
    }
}

/// What a handler looks at besides its group.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    pub now: Time,
    pub image: &'a ClusterImage,
    /// The metadata offset at which topics were last created.
    pub topics_created_at: Offset,
}

/// A topic's partition by the topic's id.
pub type TopicIdPartition = (TopicId, i32);
