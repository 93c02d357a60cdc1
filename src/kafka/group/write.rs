//! What a handler wants written to `__consumer_offsets`, and what follows once that is safe (R-GRP-4).
//!
//! Mirrors `CoordinatorResult` with its append future, and `CoordinatorOperationExceptionHelper`.
//!
//! **Invariant:** what follows happens once: when the records are below the high watermark, or when that failed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;

use super::StateAsk;
use super::classic::{Member, join_error, sync_error};
use super::modern::TopicIdPartition;
use super::offsets::{Author, OffsetChange};
use super::shard::Group;
use super::transactional::WriterOf;
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent, MemberRemoval};
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, OffsetCommitValue};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::types::{ClientName, Generation, GroupEpoch, GroupId, MemberId, TopicPartition};

#[derive(Debug)]
#[must_use]
pub(super) struct Write {
    pub records: Vec<CoordinatorRecord>,
    pub applied: Applied,
    pub then: Then,
}

/// What was done already in the expectation that the write succeeds; taken back if the append fails.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    pub changes: Vec<OffsetChange>,
    pub created: Option<GroupId>,
    pub removed: Vec<(GroupId, Group)>,
    pub modern: Vec<ModernChange>,
    /// Who is a member no more.
    pub gone: Vec<Gone>,
    /// What is told once the records are in the log.
    pub events: Vec<Event>,
    pub transaction: Option<InTransaction>,
}

/// Somebody who left or was removed.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    pub group: GroupId,
    pub member: MemberId,
    pub client: ClientName,
    pub reason: MemberRemoval,
}

/// Offsets that are pending once their records are in the log.
#[derive(Clone, Debug)]
pub(super) struct InTransaction {
    pub writer: WriterOf,
    pub offsets: Vec<((GroupId, TopicPartition), OffsetCommitValue)>,
    pub author: Author,
}

/// A group of one of the newer protocols before and after its records.
#[derive(Clone, Debug)]
pub(super) struct ModernChange {
    pub id: GroupId,
    pub before: Option<Group>,
    pub after: Group,
}

impl Gone {
    pub fn told(&self) -> Event {
        let Gone { group, member, client, reason } = self.clone();
        Event::Group(GroupEvent::MemberRemoved { group, member, client, reason })
    }
}

/// Who is a member no more by what is to be told.
pub(super) fn gone_by(events: &[Event]) -> Vec<Gone> {
    let gone = events.iter().filter_map(|event| match event {
        Event::Group(GroupEvent::MemberRemoved { group, member, client, reason }) => Some(Gone {
            group: group.clone(),
            member: member.clone(),
            client: client.clone(),
            reason: *reason,
        }),
        _ => None,
    });
    gone.collect()
}

impl Write {
    pub fn new(record: CoordinatorRecord, then: Then) -> Write {
        Write { records: vec![record], applied: Applied::default(), then }
    }
}

/// What waits for a write.
#[derive(Clone, Debug)]
pub(super) enum Then {
    Nothing,
    Answer {
        to: RequestId,
        response: Response,
    },
    /// A member's time has run out in a group of one of the newer protocols. If the write fails, it does so again a moment
    /// later (`CoordinatorTimerImpl.schedule` with retry).
    Retried {
        group: GroupId,
        timer: MemberTimer,
    },
    /// One group's part of an OffsetFetch answer.
    Fetched {
        to: RequestId,
        index: i32,
        group: OffsetFetchResponseGroup,
    },
    /// One partition's part of a DeleteGroups answer.
    Deleted {
        to: RequestId,
        index: i32,
        results: Vec<DeletableGroupResult>,
        /// What was decided before.
        refused: Vec<DeletableGroupResult>,
    },
    /// A member of a share group is answered, and states that it needs are to begin.
    ShareHeartbeat {
        to: RequestId,
        response: Response,
        begin: Option<StateAsk>,
    },
    /// It is answered once the share coordinators have done what is asked of them, or at once.
    StatesAsked {
        to: RequestId,
        response: Response,
        ask: Option<StateAsk>,
    },
    /// States of a share group have begun.
    StatesBegun {
        group: GroupId,
        states: Vec<TopicIdPartition>,
    },
    /// States of share groups are to be deleted, and their groups after that.
    StatesDeleting {
        deletion: Deletion,
        asks: Vec<StateAsk>,
    },
    /// The leader's plan: the group becomes Stable with it (R-GRP-18).
    AssignmentStored {
        group: GroupId,
        generation: Generation,
        plan: BTreeMap<MemberId, Bytes>,
    },
    /// A static member came back under a new id (R-GRP-25).
    StaticReplaced {
        group: GroupId,
        new: MemberId,
        old: Member,
        /// A leader that comes back can be told to compute nothing.
        skips: bool,
    },
}

/// What a member of a group of one of the newer protocols did not do in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberTimer {
    /// It was not heard from.
    Session(MemberId),
    /// It has not left this epoch.
    Rebalance(MemberId, GroupEpoch),
    /// It did not join again.
    Join(MemberId),
    /// It did not ask for its assignment.
    Sync(MemberId),
}

/// The groups of one partition of the topic that a DeleteGroups names, as long as states of theirs are being deleted.
#[derive(Clone, Debug)]
pub(super) struct Deletion {
    pub to: RequestId,
    pub index: i32,
    pub groups: Vec<GroupId>,
    /// Those that stay, and why.
    pub refused: BTreeMap<GroupId, ErrorCode>,
    /// Those whose states are being deleted.
    pub waits_for: BTreeSet<GroupId>,
}

/// The error that a client sees when a write failed with `error` (R-GRP-3).
pub fn coordinator_error(error: ErrorCode) -> ErrorCode {
    use ErrorCode::*;
    match error {
        UnknownTopicOrPartition | NotEnoughReplicas | RequestTimedOut => CoordinatorNotAvailable,
        NotLeaderOrFollower | KafkaStorageError => NotCoordinator,
        MessageTooLarge | RecordListTooLarge | InvalidFetchSize => UnknownServerError,
        other => other,
    }
}

/// The same for OffsetFetch: older consumers do not know COORDINATOR_NOT_AVAILABLE as its answer.
pub fn offset_fetch_error(error: ErrorCode) -> ErrorCode {
    use ErrorCode::*;
    match error {
        UnknownTopicOrPartition | NotEnoughReplicas | RequestTimedOut => NotCoordinator,
        other => coordinator_error(other),
    }
}

/// `response` turned into the refusal of the same request.
pub(super) fn refused(response: Response, error: ErrorCode) -> Response {
    let code = error.code();
    match response {
        Response::JoinGroup(_) => join_error("", error).into(),
        Response::SyncGroup(_) => sync_error(error).into(),
        Response::Heartbeat(body) => body.with_error_code(code).into(),
        Response::OffsetDelete(body) => body.with_error_code(code).with_topics(Vec::new()).into(),
        Response::LeaveGroup(body) => body.with_error_code(code).with_members(Vec::new()).into(),
        Response::ConsumerGroupHeartbeat(_) => {
            m::ConsumerGroupHeartbeatResponse::default().with_error_code(code).into()
        }
        Response::ShareGroupHeartbeat(_) => {
            m::ShareGroupHeartbeatResponse::default().with_error_code(code).into()
        }
        Response::AlterShareGroupOffsets(_) => {
            m::AlterShareGroupOffsetsResponse::default().with_error_code(code).into()
        }
        Response::DeleteShareGroupOffsets(_) => {
            m::DeleteShareGroupOffsetsResponse::default().with_error_code(code).into()
        }
        Response::OffsetCommit(mut body) => {
            let partitions = body.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            partitions.filter(|partition| partition.error_code == 0).for_each(|p| p.error_code = code);
            body.into()
        }
        Response::TxnOffsetCommit(mut body) => {
            let partitions = body.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
            partitions.filter(|partition| partition.error_code == 0).for_each(|p| p.error_code = code);
            body.into()
        }
        other => unreachable!("{:?} does not wait for a write by itself", other.api()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_is_told_as_a_coordinator_error_r_grp_3() {
        use ErrorCode::*;
        let check = |append, commit, fetch| {
            assert_eq!((coordinator_error(append), offset_fetch_error(append)), (commit, fetch), "{append}");
        };
        check(UnknownTopicOrPartition, CoordinatorNotAvailable, NotCoordinator);
        check(NotEnoughReplicas, CoordinatorNotAvailable, NotCoordinator);
        check(RequestTimedOut, CoordinatorNotAvailable, NotCoordinator);
        check(NotLeaderOrFollower, NotCoordinator, NotCoordinator);
        check(KafkaStorageError, NotCoordinator, NotCoordinator);
        check(MessageTooLarge, UnknownServerError, UnknownServerError);
        check(RecordListTooLarge, UnknownServerError, UnknownServerError);
        check(CoordinatorLoadInProgress, CoordinatorLoadInProgress, CoordinatorLoadInProgress);
    }
}
