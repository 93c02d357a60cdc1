//! Who may commit and read offsets in a consumer group (R-CG8-19, R-CG8-20).
//!
//! Mirrors `ConsumerGroup.validateOffsetCommit` and `validateOffsetFetch`.
//!
//! **Invariant:** a member behind its epoch commits only for partitions that nobody else had since.

use std::rc::Rc;

use super::{ConsumerGroup, ConsumerMember};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{GroupEpoch, MemberId};

/// What a commit is allowed to change.
#[derive(Clone, Debug)]
pub enum CommitScope {
    Anything,
    /// What the member has had since this epoch.
    Since(Rc<ConsumerMember>, GroupEpoch),
}

impl CommitScope {
    /// # Errors
    /// STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION in the classic protocol.
    pub fn check(&self, partition: &TopicIdPartition) -> Result<(), ErrorCode> {
        let CommitScope::Since(member, received) = self else { return Ok(()) };
        let given = member.assigned.epoch_of(partition);
        let given = given.or_else(|| member.pending_revocation.epoch_of(partition));
        if given.is_some_and(|given| given <= *received) { Ok(()) } else { Err(stale(member)) }
    }
}

fn stale(member: &ConsumerMember) -> ErrorCode {
    if member.is_classic() { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch }
}

impl ConsumerGroup {
    /// # Errors
    /// UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION in the classic protocol.
    pub fn validate_commit(&self, member: &MemberId, epoch: GroupEpoch) -> Result<CommitScope, ErrorCode> {
        // An administrator, or a consumer without a membership.
        if epoch < GroupEpoch::JOINING && self.base.members.is_empty() {
            return Ok(CommitScope::Anything);
        }
        let member = self.base.members.get(member).ok_or(ErrorCode::UnknownMemberId)?;
        match epoch.cmp(&member.epoch) {
            std::cmp::Ordering::Equal => Ok(CommitScope::Anything),
            std::cmp::Ordering::Greater => Err(stale(member)),
            std::cmp::Ordering::Less => Ok(CommitScope::Since(member.clone(), epoch)),
        }
    }

    /// Anyone may read who does not say that it is a member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION in the classic protocol.
    pub fn validate_fetch(&self, member: Option<&MemberId>, epoch: GroupEpoch) -> Result<(), ErrorCode> {
        if member.is_none() && epoch < GroupEpoch::JOINING {
            return Ok(());
        }
        let member =
            member.and_then(|member| self.base.members.get(member)).ok_or(ErrorCode::UnknownMemberId)?;
        if epoch == member.epoch { Ok(()) } else { Err(stale(member)) }
    }
}
