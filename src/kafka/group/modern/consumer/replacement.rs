//! A classic static member takes the place of the last member of the newer protocol: the group goes back with it (R-CG8-25).
//!
//! Mirrors `validateOnlineDowngradeWithReplacedMember` and what `classicGroupJoinToConsumerGroup` does then.
//!
//! **Invariant:** no target is computed any more; if there is none for the newest epoch, the classic group rebalances.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;

use super::{ConsumerGroup, ConsumerMember, Outcome};
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::types::MemberId;

/// Who takes whose place.
#[derive(Clone, Debug)]
pub(in crate::kafka::group) struct Replacement {
    pub(in crate::kafka::group) old: MemberId,
    /// As its JoinGroup makes it.
    pub(in crate::kafka::group) new: ConsumerMember,
}

/// A JoinGroup with which the group goes back.
#[derive(Clone, Debug)]
pub(in crate::kafka::group) struct Return {
    pub(in crate::kafka::group) replacement: Replacement,
    /// What the member is told; the records come before those of the group's end.
    pub(in crate::kafka::group) outcome: Outcome<m::JoinGroupResponse>,
    /// The group's target is of an older epoch.
    pub(in crate::kafka::group) rebalances: bool,
}

impl Replacement {
    /// Who has the place of `id` now.
    pub(in crate::kafka::group) fn newest<'a>(
        this: Option<&'a Replacement>,
        id: &'a MemberId,
    ) -> &'a MemberId {
        this.filter(|replacement| replacement.old == *id).map_or(id, |replacement| &replacement.new.id)
    }

    /// Who had the place of `id` as the group's records tell it.
    pub(in crate::kafka::group) fn former<'a>(
        this: Option<&'a Replacement>,
        id: &'a MemberId,
    ) -> &'a MemberId {
        this.filter(|replacement| replacement.new.id == *id).map_or(id, |replacement| &replacement.old)
    }
}

impl ConsumerGroup {
    /// Whether all but `holder`, who is to be replaced, are classic members, and may be a classic group.
    pub(super) fn goes_back_without(
        &self,
        holder: &ConsumerMember,
        config: &ConsumerGroupConfig,
        classic_max_size: i32,
    ) -> bool {
        let members: &BTreeMap<_, _> = &self.base.members;
        let modern = members.values().filter(|member| !member.is_classic()).count();
        modern == 1
            && !holder.is_classic()
            && config.migration_policy.downgrades()
            && members.len() as i64 <= i64::from(classic_max_size)
    }
}
