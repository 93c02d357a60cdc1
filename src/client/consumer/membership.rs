//! A member's view of its group: who coordinates it, which generation it is in, how a rebalance stands (the state of
//! Kafka's `AbstractCoordinator`, with its `Heartbeat`, and of the assignors).
//!
//! **Invariant:** heartbeats are sent from the answer to JoinGroup until the next JoinGroup or until the member is out of
//! its generation, and at no other time.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::plan::Snapshot;
use super::reason::RejoinReason;
use crate::client::coordinator::Coordinator;
use crate::client::member::Member;
use crate::kafka::group::assignor::{ClientAssignor, Subscription};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Generation, MemberId, Topic, TopicPartition};

/// Kafka's `MemberState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    Unjoined,
    /// JoinGroup is on its way.
    PreparingRebalance,
    /// SyncGroup is on its way.
    CompletingRebalance,
    Stable,
}

/// Under which id and in which generation a request is sent (Kafka's `Generation`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub member: MemberId,
    pub generation: Generation,
    /// The one that the coordinator chose for the generation.
    pub assignor: Option<ClientAssignor>,
}

impl Identity {
    pub(super) fn none() -> Identity {
        Identity::of_no_generation(MemberId::unknown())
    }

    pub(super) fn of_no_generation(member: MemberId) -> Identity {
        Identity { member, generation: Generation::NONE, assignor: None }
    }
}

/// How far the member is with joining; it moves on only inside poll().
#[derive(Clone, Debug, PartialEq)]
pub enum Join {
    /// No join is on its way; none is begun before `not_before`.
    Idle {
        not_before: Time,
    },
    /// JoinGroup waits at the coordinator (R-GRP-11).
    Joining {
        since: Time,
    },
    /// The leader waits for metadata, which was to be asked for anew.
    AwaitingMetadata {
        since: Time,
        /// The version of what it knew.
        version: u32,
        /// `None`: a leader that returned as a static member, whose group goes on with the plan that it has (R-GRP-25).
        members: Option<Rc<[Subscription]>>,
    },
    Syncing {
        since: Time,
    },
    /// The assignment is there, in the order of the plan, and is taken over by the next poll().
    Synced {
        assignment: Rc<[TopicPartition]>,
    },
}

impl Join {
    pub const IDLE: Join = Join::Idle { not_before: Time::ZERO };
}

/// The commit before partitions are given up (R-GRP-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinPrepare {
    /// To be done before the next join.
    Needed,
    /// The commit is on its way; the join goes on without it from `until` on.
    Committing { until: Time },
    /// The commit failed and is tried again.
    Retrying { at: Time, until: Time },
    /// The commit is over, done or not.
    Committed,
    /// Partitions were given up.
    Done,
}

/// What an assignor last heard of (`onAssignment`), for the user data of the next subscription (R-ASG-7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAssignment {
    pub partitions: Rc<[TopicPartition]>,
    pub generation: Generation,
}

/// When the background thread acts (Kafka's `Heartbeat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    pub due_at: Time,
    /// Without an answer until then the coordinator is taken for lost.
    pub session_until: Time,
    /// Without a poll() until then the member leaves (R-CONS-25).
    pub poll_until: Time,
    /// Failures in a row.
    pub failures: i32,
}

#[derive(Clone, Debug)]
pub struct Membership {
    pub coordinator: Coordinator,
    pub state: MemberState,
    pub identity: Identity,
    pub rejoin_needed: bool,
    /// Passed on to the coordinator with the next JoinGroup.
    pub rejoin_reason: RejoinReason,
    pub join: Join,
    pub prepare: JoinPrepare,
    /// The topics that the last JoinGroup subscribed to.
    pub joined_with: Option<BTreeSet<Topic>>,
    pub is_leader: bool,
    /// Topics that the leader watches for the whole group.
    pub group_topics: BTreeSet<Topic>,
    /// What the leader's plan was made for (R-GRP-34).
    pub planned_for: Option<Snapshot>,
    /// Of each assignor that was ever chosen.
    pub last_assignments: BTreeMap<ClientAssignor, LastAssignment>,
    /// What the next poll() throws.
    pub fatal: Option<ErrorCode>,
    pub heartbeat: Heartbeat,
    /// With group.protocol=consumer, where `state`, `identity` and `fatal` follow it, and what is of joins has no use.
    pub modern: Option<Member>,
}

impl Membership {
    pub(super) fn new(modern: Option<Member>) -> Membership {
        Membership {
            coordinator: Coordinator::UNKNOWN,
            state: MemberState::Unjoined,
            identity: Identity::none(),
            rejoin_needed: modern.is_none(),
            rejoin_reason: RejoinReason::None,
            join: Join::IDLE,
            prepare: JoinPrepare::Needed,
            joined_with: None,
            is_leader: false,
            group_topics: BTreeSet::new(),
            planned_for: None,
            last_assignments: BTreeMap::new(),
            fatal: None,
            heartbeat: Heartbeat {
                due_at: Time::ZERO,
                session_until: Time::ZERO,
                poll_until: Time::ZERO,
                failures: 0,
            },
            modern,
        }
    }

    pub fn coordinator(&self) -> Option<BrokerId> {
        self.coordinator.broker()
    }

    /// Whether the background thread sends the classic protocol's heartbeats.
    pub fn sends_heartbeats(&self) -> bool {
        let joined = matches!(self.state, MemberState::CompletingRebalance | MemberState::Stable);
        joined && self.modern.is_none()
    }

    pub fn is_rebalancing(&self) -> bool {
        matches!(self.state, MemberState::PreparingRebalance | MemberState::CompletingRebalance)
    }

    /// Whether the next poll() has to join.
    pub(super) fn rejoin_needed_or_pending(&self) -> bool {
        self.rejoin_needed || !matches!(self.join, Join::Idle { .. })
    }

    pub(super) fn request_rejoin(&mut self, reason: RejoinReason) {
        self.rejoin_needed = true;
        self.rejoin_reason = reason;
    }

    /// The member is out of its generation, and of the group if its id is reset too (R-GRP-35).
    pub(super) fn reset(&mut self, reset_member_id: bool, reason: RejoinReason) {
        self.state = MemberState::Unjoined;
        let member = if reset_member_id { MemberId::unknown() } else { self.identity.member.clone() };
        self.identity = Identity::of_no_generation(member);
        self.prepare = JoinPrepare::Needed;
        self.request_rejoin(reason);
    }
}
