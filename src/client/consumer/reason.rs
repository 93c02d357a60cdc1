//! Why a member joins again or leaves, as it tells the coordinator (KIP-800), in Kafka's words.
//!
//! **Invariant:** a reason is for people; nothing is decided by it.

use std::fmt;

use kafka_protocol::protocol::StrBytes;

use super::membership::Identity;
use crate::kafka::group::assignor::ClientAssignor;
use crate::kafka::protocol::ErrorCode;

/// The reason of the next JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RejoinReason {
    /// Of the first one.
    None,
    /// MEMBER_ID_REQUIRED; the identity that was given.
    MemberIdGiven(Identity),
    /// The last try ended with this exception.
    RebalanceFailed(&'static str),
    /// The member is reset: an answer to this api had the error.
    ErrorOf { error: ErrorCode, api: &'static str },
    /// The member was reset between SyncGroup's answer and the next poll().
    ResetMeanwhile(Identity),
    /// A heartbeat told it.
    GroupRebalancing,
    /// A commit told it.
    CommitMetRebalance,
    /// The leader's plan is out of date (R-GRP-34).
    MetadataChanged,
    /// The application has subscribed to something else.
    SubscriptionChanged,
    /// R-GRP-33.
    AssignmentMismatch,
    /// What a cooperative member has given up may be given to others now (R-GRP-30).
    Revoked,
    /// The member has left.
    Left,
}

impl RejoinReason {
    pub(super) fn to_wire(&self) -> StrBytes {
        /// The coordinator keeps no more of it.
        const MAX_CHARS: usize = 255;
        StrBytes::from_string(self.to_string().chars().take(MAX_CHARS).collect())
    }
}

impl fmt::Display for RejoinReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RejoinReason::None => Ok(()),
            RejoinReason::MemberIdGiven(identity) => {
                write!(f, "need to re-join with the given member-id: {}", identity.member)
            }
            RejoinReason::RebalanceFailed(exception) => write!(f, "rebalance failed due to {exception}"),
            RejoinReason::ErrorOf { error, api } => write!(f, "encountered {error} from {api} response"),
            RejoinReason::ResetMeanwhile(identity) => {
                let protocol = identity.assignor.map_or("null", ClientAssignor::name);
                write!(
                    f,
                    "rebalance failed since the generation/state was modified by heartbeat thread to \
                     Generation{{generationId={}, memberId='{}', protocol='{protocol}'}}/UNJOINED before the \
                     rebalance callback triggered",
                    identity.generation, identity.member
                )
            }
            RejoinReason::GroupRebalancing => f.write_str("group is already rebalancing"),
            RejoinReason::CommitMetRebalance => {
                f.write_str("offset commit failed since group is already rebalancing")
            }
            RejoinReason::MetadataChanged => f.write_str("cached metadata has changed"),
            RejoinReason::SubscriptionChanged => f.write_str("subscription has changed"),
            RejoinReason::AssignmentMismatch => {
                f.write_str("received assignment does not match the current subscription")
            }
            RejoinReason::Revoked => f.write_str("need to revoke partitions and re-join"),
            RejoinReason::Left => f.write_str("consumer pro-actively leaving the group"),
        }
    }
}

/// Why a LeaveGroup is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveReason {
    Closing,
    Unsubscribed,
    /// max.poll.interval.ms went by without a poll() (R-CONS-25).
    PollTooLate,
}

impl LeaveReason {
    pub(super) fn to_wire(self) -> StrBytes {
        StrBytes::from_static_str(match self {
            LeaveReason::Closing => "the consumer is being closed",
            LeaveReason::Unsubscribed => "the consumer unsubscribed from all topics",
            LeaveReason::PollTooLate => "consumer poll timeout has expired.",
        })
    }
}
