//! Forgetting offsets that nobody needs or whose topic is gone, and groups that have none (R-GRP-40, R-PLACE-9,
//! KIP-211).
//!
//! Mirrors `GroupCoordinatorShard.cleanupGroupMetadata`, `OffsetMetadataManager.onTopicsDeleted` and `ClassicGroup.offsetExpirationCondition`.
//!
//! **Invariant:** an offset of a topic that a member consumes never expires.

use std::collections::BTreeMap;

use super::{Group, Shard};
use crate::kafka::event::{ConsumerGroupState, Event, GroupEvent, GroupState, ShareEvent};
use crate::kafka::group::GroupTimer;
use crate::kafka::group::context::Context;
use crate::kafka::group::offsets::{Author, OffsetChange};
use crate::kafka::group::write::{Applied, Then, Write};
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, OffsetCommitValue, RecordKey};
use crate::kafka::types::{GroupId, Topic, TopicId, TopicPartition};

impl Shard {
    pub(super) fn schedule_expiration(&self, cx: &mut Context<'_>) {
        let at = cx.now.plus_ms(cx.config.offsets_retention_check_interval_ms);
        cx.set_timer(GroupTimer::Expiration { partition: cx.partition }, at);
    }

    pub(super) fn expire(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        self.schedule_expiration(cx);
        let mut write = Write { records: Vec::new(), applied: Applied::default(), then: Then::Nothing };
        // A share group stays until somebody deletes it (`ShareGroup.shouldExpire`).
        let expiring = self.groups.iter().filter(|(_, group)| group.share().is_none());
        let ids: Vec<GroupId> = expiring.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let none_left = self.expire_offsets(&id, &mut write, cx);
            let is_open = self.pending.of_group(&id).next().is_some();
            if none_left && !is_open && self.groups[&id].is_empty() {
                self.delete(&id, &mut write, cx);
            }
        }
        if write.records.is_empty() { None } else { Some(write) }
    }

    /// True if the group has no offsets left.
    fn expire_offsets(&mut self, id: &GroupId, write: &mut Write, cx: &Context<'_>) -> bool {
        let Some(offsets) = self.newest.of(id).cloned() else { return true };
        let expired = |(tp, value): &(&TopicPartition, &OffsetCommitValue)| {
            is_expired(&self.groups[id], tp, value, cx.config.offsets_retention_ms, cx.now.wall_ms())
                && !self.pending.has(id, tp)
        };
        let gone: Vec<TopicPartition> = offsets.iter().filter(expired).map(|(tp, _)| tp.clone()).collect();
        let none_left = gone.len() == offsets.len();
        gone.into_iter().for_each(|tp| self.remove_offset(id, tp, Author::Expiry, write));
        none_left
    }

    /// R-PLACE-9: what was committed for a topic that is deleted; its id tells it from one of the same name.
    pub(in crate::kafka::group) fn on_topics_deleted(
        &mut self,
        deleted: &BTreeMap<TopicId, Topic>,
        cx: &mut Context<'_>,
    ) {
        let mut write = Write { records: Vec::new(), applied: Applied::default(), then: Then::Nothing };
        let ids: Vec<GroupId> = self.groups.keys().cloned().collect();
        for id in ids {
            let Some(offsets) = self.newest.of(&id).cloned() else { continue };
            let concerned = |(tp, value): &(&TopicPartition, &OffsetCommitValue)| match &value.topic_id {
                Some(id) => deleted.contains_key(id),
                None => deleted.values().any(|name| *name == tp.topic),
            };
            let gone = offsets.iter().filter(concerned).map(|(tp, _)| tp.clone());
            gone.for_each(|tp| self.remove_offset(&id, tp, Author::Deletion, &mut write));
        }
        if !write.records.is_empty() {
            self.submit(Some(write), cx);
        }
        self.forget_states(deleted, cx);
    }

    pub(super) fn remove_offset(
        &mut self,
        group: &GroupId,
        tp: TopicPartition,
        author: Author,
        write: &mut Write,
    ) {
        let before = self.newest.set(group, &tp, None);
        let change = OffsetChange { group: group.clone(), tp, before, after: None, author };
        write.records.push(change.to_record());
        write.applied.changes.push(change);
    }

    pub(super) fn delete(&mut self, id: &GroupId, write: &mut Write, cx: &mut Context<'_>) {
        let Some(group) = self.groups.remove(id) else { return };
        match &group {
            Group::Classic(group) => {
                write.records.push(classic_tombstone(id));
                cx.event(Event::Group(GroupEvent::GroupStateChanged {
                    group: id.clone(),
                    from: group.state,
                    to: GroupState::Dead,
                    generation: group.generation,
                }));
            }
            Group::Consumer(group) => {
                write.records.extend(group.tombstones());
                cx.event(Event::Group(GroupEvent::ConsumerGroupStateChanged {
                    group: id.clone(),
                    from: group.state(),
                    to: ConsumerGroupState::Dead,
                    epoch: group.base.epoch,
                }));
            }
            Group::Share(group) => {
                write.records.extend(group.tombstones());
                cx.event(Event::Share(ShareEvent::GroupDeleted { group: id.clone() }));
            }
        }
        write.applied.removed.push((id.clone(), group));
    }
}

/// The tombstone of a classic group.
pub(super) fn classic_tombstone(id: &GroupId) -> CoordinatorRecord {
    CoordinatorRecord { key: RecordKey::GroupMetadata(id.clone()).encode(), value: None }
}

/// Without members the time since the group became Empty counts, and for a group that never had any, the time since the
/// commit; with members, only topics that none of them consumes are forgotten, and in a classic group only while it is
/// stable. In a group of the newer protocol the time since the commit counts (A52).
fn is_expired(
    group: &Group,
    tp: &TopicPartition,
    value: &OffsetCommitValue,
    retention_ms: i64,
    now_ms: i64,
) -> bool {
    let since_ms = match group {
        // It has no offsets.
        Group::Share(_) => return false,
        Group::Consumer(group) if group.subscribed_topics().contains(&tp.topic) => return false,
        Group::Consumer(_) => value.commit_timestamp_ms,
        Group::Classic(group) => match group.state {
            GroupState::Empty if group.protocol_type.is_some() => {
                group.state_since_ms.unwrap_or(value.commit_timestamp_ms)
            }
            GroupState::Empty => value.commit_timestamp_ms,
            GroupState::Stable => match &group.subscribed_topics {
                Some(topics) if !topics.contains(&tp.topic) => value.commit_timestamp_ms,
                _ => return false,
            },
            _ => return false,
        },
    };
    match value.expire_timestamp_ms {
        Some(expire_ms) => now_ms >= expire_ms,
        None => now_ms - since_ms >= retention_ms,
    }
}
