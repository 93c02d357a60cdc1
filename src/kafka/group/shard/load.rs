//! A coordinator taking over a partition of `__consumer_offsets`, and giving it up (R-GRP-3, R-GRP-4).
//!
//! Mirrors `CoordinatorLoaderImpl` and the replay of `GroupCoordinatorShard`.
//!
//! **Invariant:** after loading, the state is what the log says and nothing else.

use std::rc::Rc;

use super::consumer::end_timers;
use super::share::{end_sessions, refuse_all};
use super::waiting::Waiting;
use super::{Group, LogRecord, RecordOf, Shard};
use crate::kafka::event::{Event, GroupEvent, RebalanceReason};
use crate::kafka::group::GroupTimer;
use crate::kafka::group::classic::{ClassicGroup, join_error, sync_error};
use crate::kafka::group::context::Context;
use crate::kafka::group::offsets::{Author, OffsetChange};
use crate::kafka::group::write::{Applied, Then};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{
    ConsumerRecord, GroupMetadataValue, OffsetCommitValue, RecordKey, ShareGroupRecord,
};
use crate::kafka::protocol::wire::WireError;
use crate::kafka::types::{GroupId, MemberId, Offset};

impl Shard {
    /// Replays the log; members get a full session timeout (R-GRP-4). Records of streams groups are skipped.
    pub(in crate::kafka::group) fn on_loaded(
        &mut self,
        records: impl Iterator<Item = LogRecord>,
        log_end: Offset,
        cx: &mut Context<'_>,
    ) -> Result<(), WireError> {
        let mut count = 0;
        let mut safe = true;
        for record in records {
            count += 1;
            if safe && record.offset >= self.high_watermark {
                safe = false;
                self.committed_groups = self.newest_modern_groups();
            }
            self.replay(record, cx)?;
        }
        if safe {
            self.committed_groups = self.newest_modern_groups();
        } else {
            self.commit_modern_groups_later(log_end);
        }
        self.log_end = log_end;
        self.loading = false;
        let ids: Vec<GroupId> = self.groups.keys().cloned().collect();
        cx.event(Event::Group(GroupEvent::CoordinatorLoaded {
            broker: cx.broker,
            partition: cx.partition,
            records: count,
            groups: ids.clone(),
        }));
        for id in &ids {
            self.expect_consumer_group(id, cx);
            self.expect_share_group(id, cx);
            let Some(group) = self.group_mut(id) else { continue };
            for member in group.members.keys().cloned().collect::<Vec<_>>() {
                group.renew_session(&member, cx);
            }
            if group.members.len() as i64 > i64::from(cx.config.max_size) {
                let leader = group.leader.clone().unwrap_or_else(MemberId::unknown);
                let leader = group.client_of(&leader);
                let write = group.prepare_rebalance(RebalanceReason::GroupTooLarge, &leader, cx);
                self.submit(write, cx);
            }
        }
        self.schedule_expiration(cx);
        self.settle(cx);
        Ok(())
    }

    fn replay(&mut self, record: LogRecord, cx: &Context<'_>) -> Result<(), WireError> {
        if let RecordOf::Marker { producer, committed } = record.of {
            let applied = self.end_transaction(producer, committed);
            self.replayed(record.offset, applied);
            return Ok(());
        }
        match RecordKey::decode(&record.key)? {
            RecordKey::GroupMetadata(id) => match record.value {
                Some(value) => {
                    let group = ClassicGroup::from_record(id.clone(), GroupMetadataValue::decode(&value)?);
                    let known = self.groups.insert(id.clone(), Group::Classic(Rc::new(group))).is_some();
                    let created = (!known).then_some(id);
                    self.replayed(record.offset, Applied { created, ..Applied::default() });
                }
                None => {
                    let removed = self.groups.remove(&id).map(|group| (id, group)).into_iter().collect();
                    self.replayed(record.offset, Applied { removed, ..Applied::default() });
                }
            },
            RecordKey::OffsetCommit(id, tp) => {
                let value = record.value.as_deref().map(OffsetCommitValue::decode).transpose()?;
                if plant::is(Plant::OffsetsNotLoaded)
                    || (value.is_none() && plant::is(Plant::OffsetTombstoneIgnored))
                {
                    return Ok(());
                }
                let creates = value.is_some() && !self.groups.contains_key(&id);
                let created = creates.then(|| id.clone());
                if creates {
                    let group = Rc::new(ClassicGroup::new(id.clone(), cx.now));
                    self.groups.insert(id.clone(), Group::Classic(group));
                }
                if let (RecordOf::Transaction(producer), Some(value)) = (record.of, &value) {
                    self.pending.add(producer, (id, tp), value.clone(), Author::Log);
                    self.replayed(record.offset, Applied { created, ..Applied::default() });
                    return Ok(());
                }
                self.pending.on_plain(&id, &tp, value.is_none());
                self.newest.set(&id, &tp, value.clone());
                let change = OffsetChange { group: id, tp, before: None, after: value, author: Author::Log };
                self.replayed(
                    record.offset,
                    Applied { changes: vec![change], created, ..Applied::default() },
                );
            }
            RecordKey::Consumer(id, key) => {
                let value = record.value.as_deref();
                self.replay_consumer(id, &ConsumerRecord::decode(key, value)?, value.is_some());
            }
            RecordKey::Share(id, key) => {
                let value = record.value.as_deref();
                self.replay_share(id, &ShareGroupRecord::decode(key, value)?, value.is_some(), cx);
            }
            RecordKey::Other(_) => {}
        }
        Ok(())
    }

    /// A record was taken in, which may not be below the high watermark yet.
    fn replayed(&mut self, offset: Offset, applied: Applied) {
        self.tokens += 1;
        let last_offset = Some(offset);
        self.waiting.push_back(Waiting { token: self.tokens, last_offset, applied, then: Then::Nothing });
    }

    /// Another broker leads the partition: whoever waits is sent there, and all timers end.
    pub(in crate::kafka::group) fn on_resigned(mut self, cx: &mut Context<'_>) {
        for waiting in std::mem::take(&mut self.waiting) {
            // A plan or a replacement that waits is answered below, at the members whose requests are parked.
            let answer = !matches!(
                waiting.then,
                Then::AssignmentStored { .. } | Then::StaticReplaced { .. } | Then::StatesBegun { .. }
            );
            let then = if answer { waiting.then } else { Then::Nothing };
            cx.cancel_timer(GroupTimer::Write { partition: cx.partition, token: waiting.token });
            self.finish(then, Err(ErrorCode::NotCoordinator), cx);
        }
        for deletion in std::mem::take(&mut self.deletions).into_values() {
            refuse_all(deletion, ErrorCode::NotCoordinator, cx);
        }
        for group in std::mem::take(&mut self.groups).into_values() {
            let group = match group {
                Group::Classic(group) => group,
                Group::Consumer(group) => {
                    end_timers(&group, cx);
                    continue;
                }
                Group::Share(group) => {
                    end_sessions(&group, cx);
                    continue;
                }
            };
            for (id, member) in &group.members {
                if let Some(to) = member.parked_join {
                    cx.respond(to, join_error(id.as_str(), ErrorCode::NotCoordinator));
                }
                if let Some(to) = member.parked_sync {
                    cx.respond(to, sync_error(ErrorCode::NotCoordinator));
                }
            }
            for member in group.members.keys().chain(group.pending.keys()) {
                cx.cancel_timer(cx.session_timer(&group.id, member));
            }
            cx.cancel_timer(cx.join_timer(&group.id));
            cx.cancel_timer(cx.sync_timer(&group.id));
        }
        cx.cancel_timer(GroupTimer::Expiration { partition: cx.partition });
        cx.event(Event::Group(GroupEvent::CoordinatorResigned {
            broker: cx.broker,
            partition: cx.partition,
        }));
    }
}
