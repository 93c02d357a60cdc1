//! What a consumer's requests are sent for.

use std::rc::Rc;

use super::commits::CommitCall;
use super::config::OffsetReset;
use super::membership::Identity;
use super::modern::HeartbeatKind;
use super::subscription::Validation;
use crate::kafka::types::{BrokerId, TopicPartition};

/// With what is needed to judge the answer.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Metadata,
    FindCoordinator,
    JoinGroup { sent_as: Identity },
    SyncGroup { sent_as: Identity },
    Heartbeat { sent_as: Identity },
    LeaveGroup,
    ConsumerHeartbeat(HeartbeatKind),
    OffsetCommit(Rc<CommitCall>),
    OffsetFetch { attempt: i32 },
    ListOffsets(Rc<[(TopicPartition, OffsetReset)]>),
    Look(Rc<[TopicPartition]>),
    OffsetForLeaderEpoch(Rc<[Validation]>),
    Fetch { broker: BrokerId },
    CloseFetchSession,
}
