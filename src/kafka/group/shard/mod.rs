//! One partition of `__consumer_offsets` at its coordinator: groups, offsets, and who waits for its log (R-GRP-4).
//!
//! Mirrors `CoordinatorRuntime` with its deferred events, and `GroupCoordinatorShard`.
//!
//! **Invariant:** waiting answers are given in log order, and none before everything written earlier is below the high
//! watermark.

mod group;
mod consumer;
mod share;
mod migration;
mod load;
mod expiry;
mod admin;
mod waiting;
mod transactional;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;

use super::GroupTimer;
use super::classic::{ClassicGroup, Join, join_error, leave_result, sync_error};
use super::commit::Commit;
use super::context::{Context, Part};
use super::modern::consumer::CommitScope;
use super::offsets::{self, Author, GroupOffsets, OffsetChange, Offsets};
use super::transactional::PendingOffsets;
use super::write::{Applied, Deletion, MemberTimer, Then, Write};
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent, GroupState};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{
    ClientName, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset, ProducerId, TopicPartition,
};
use waiting::Waiting;

pub use group::Group;

pub(super) use admin::split_existing;

/// A record of the partition's log, as it is read back.
#[derive(Clone, Debug)]
pub struct LogRecord {
    pub offset: Offset,
    pub of: RecordOf,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// Who wrote a record, as far as transactions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOf {
    NoTransaction,
    Transaction(ProducerId),
    /// It is the end of a transaction.
    Marker {
        producer: ProducerId,
        committed: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Shard {
    pub leader_epoch: LeaderEpoch,
    /// The log is still being replayed; requests are answered COORDINATOR_LOAD_IN_PROGRESS.
    pub loading: bool,
    groups: BTreeMap<GroupId, Group>,
    /// Those of the newer protocols, without what is not below the high watermark.
    committed_groups: BTreeMap<GroupId, Group>,
    /// With what is written but not yet below the high watermark.
    newest: Offsets,
    /// Without it.
    committed: Offsets,
    /// Of transactions that are open.
    pending: PendingOffsets,
    log_end: Offset,
    high_watermark: Offset,
    waiting: VecDeque<Waiting>,
    tokens: u64,
    /// DeleteGroups requests, by request and part, that wait for states of share groups.
    deletions: BTreeMap<(RequestId, i32), Deletion>,
}

impl Shard {
    pub(super) fn new(leader_epoch: LeaderEpoch) -> Shard {
        Shard {
            leader_epoch,
            loading: true,
            groups: BTreeMap::new(),
            committed_groups: BTreeMap::new(),
            newest: Offsets::default(),
            committed: Offsets::default(),
            pending: PendingOffsets::default(),
            log_end: Offset::ZERO,
            high_watermark: Offset::ZERO,
            waiting: VecDeque::new(),
            tokens: 0,
            deletions: BTreeMap::new(),
        }
    }

    /// The classic groups.
    pub fn groups(&self) -> impl Iterator<Item = &Rc<ClassicGroup>> {
        self.groups.values().filter_map(Group::classic)
    }

    /// A classic group.
    pub fn group(&self, id: &GroupId) -> Option<&Rc<ClassicGroup>> {
        self.groups.get(id)?.classic()
    }

    /// A group's offsets below the high watermark.
    pub fn committed_offsets(&self, id: &GroupId) -> Option<&Rc<GroupOffsets>> {
        self.committed.of(id)
    }

    /// Groups' offsets in open transactions: they count once those are committed (R-TXN-33).
    pub fn pending_offsets(&self) -> impl Iterator<Item = (&GroupId, &TopicPartition, Offset)> {
        self.pending.iter()
    }

    /// All groups' offsets below the high watermark.
    pub fn all_committed_offsets(&self) -> impl Iterator<Item = (&GroupId, &Rc<GroupOffsets>)> {
        self.committed.iter()
    }

    /// How many answers and writes wait for the high watermark.
    pub fn waiting(&self) -> i64 {
        self.waiting.len() as i64
    }

    fn group_mut(&mut self, id: &GroupId) -> Option<&mut ClassicGroup> {
        match self.groups.get_mut(id)? {
            Group::Classic(group) => Some(Rc::make_mut(group)),
            Group::Consumer(_) | Group::Share(_) => None,
        }
    }

    // Requests.

    pub(super) fn join(&mut self, join: &Join<'_>, cx: &mut Context<'_>) {
        let id = GroupId::new(&join.request.group_id);
        let known = self.groups.get(&id);
        if known.is_some_and(|group| group.share().is_some()) {
            return cx.respond(join.id, join_error("", ErrorCode::InconsistentGroupProtocol));
        }
        let consumer = known.and_then(Group::consumer);
        if consumer.is_some_and(|group| !group.base.members.is_empty()) {
            return self.join_consumer_group(&id, join, cx);
        }
        let created = self.group(&id).is_none();
        if created && !join.request.member_id.is_empty() {
            cx.respond(join.id, join_error(&join.request.member_id, ErrorCode::UnknownMemberId));
            return;
        }
        // An empty group of the newer protocol makes way.
        let tombstones = consumer.map(|group| group.tombstones()).unwrap_or_default();
        let removed = if created { self.groups.remove(&id) } else { None };
        if removed.is_some() {
            cx.event(Event::Group(GroupEvent::GroupConverted { group: id.clone(), classic: true }));
        }
        let removed = removed.map(|group| (id.clone(), group)).into_iter().collect();
        let group = Rc::new(ClassicGroup::new(id.clone(), cx.now));
        let group = self.groups.entry(id.clone()).or_insert(Group::Classic(group));
        let Group::Classic(group) = group else { unreachable!("{id} is no group of the newer protocol") };
        let group = Rc::make_mut(group);
        let empty = created.then(|| group.to_record(&Default::default()));
        let write = group.join(join, cx);
        let write = write.or_else(|| empty.map(|record| Write::new(record, Then::Nothing)));
        self.submit(
            write.map(|write| Write {
                records: tombstones.into_iter().chain(write.records).collect(),
                applied: Applied { created: created.then_some(id), removed, ..Applied::default() },
                ..write
            }),
            cx,
        );
    }

    pub(super) fn sync(&mut self, id: RequestId, request: &m::SyncGroupRequest, cx: &mut Context<'_>) {
        let group = GroupId::new(&request.group_id);
        if self.consumer_group(&group).is_some() {
            return self.sync_consumer_group(id, &group, request, cx);
        }
        match self.group_mut(&group) {
            Some(group) => {
                let write = group.sync(id, request, cx);
                self.submit(write, cx);
            }
            None => cx.respond(id, sync_error(ErrorCode::UnknownMemberId)),
        }
    }

    pub(super) fn heartbeat(&mut self, id: RequestId, request: &m::HeartbeatRequest, cx: &mut Context<'_>) {
        let group = GroupId::new(&request.group_id);
        if self.consumer_group(&group).is_some() {
            return self.heartbeat_consumer_group(id, &group, request, cx);
        }
        let group = self.group_mut(&group);
        let answer = |error: ErrorCode| m::HeartbeatResponse::default().with_error_code(error.code());
        match group.ok_or(ErrorCode::UnknownMemberId).and_then(|group| group.heartbeat(request, cx)) {
            Ok(error) => self.after_writes(Then::Answer { to: id, response: answer(error).into() }, cx),
            Err(error) => cx.respond(id, answer(error)),
        }
    }

    pub(super) fn leave(
        &mut self,
        id: RequestId,
        client: &ClientName,
        request: &m::LeaveGroupRequest,
        cx: &mut Context<'_>,
    ) {
        let group = GroupId::new(&request.group_id);
        if self.consumer_group(&group).is_some() {
            return self.leave_consumer_group(id, &group, request, cx);
        }
        let Some(group) = self.group_mut(&group) else {
            let unknown =
                request.members.iter().map(|member| leave_result(member, ErrorCode::UnknownMemberId));
            cx.respond(id, m::LeaveGroupResponse::default().with_members(unknown.collect()));
            return;
        };
        let (response, write) = group.leave(client, request, cx);
        let then = Then::Answer { to: id, response: response.into() };
        match write {
            Some(write) => self.submit(Some(Write { then, ..write }), cx),
            None => self.after_writes(then, cx),
        }
    }

    pub(super) fn commit(
        &mut self,
        id: RequestId,
        client: &ClientName,
        request: &m::OffsetCommitRequest,
        mut commit: Commit,
        cx: &mut Context<'_>,
    ) {
        let group = GroupId::new(&request.group_id);
        let created = !self.groups.contains_key(&group);
        let scope = match self.admit_commit(&group, request, cx) {
            Ok(scope) => scope,
            Err(error) => {
                cx.event(Event::Group(GroupEvent::CommitRefused { group, error, client: client.clone() }));
                return cx.respond(id, commit.refused(error));
            }
        };
        // That of another member by now is refused alone (R-CG8-19).
        let values = commit.take_values(cx, |asked| scope.check(&(asked.topic_id, asked.tp.partition)));
        let change = |(tp, value)| {
            let after = Some(value);
            let before = self.newest.set(&group, &tp, after.clone());
            OffsetChange { group: group.clone(), tp, before, after, author: Author::Client(client.clone()) }
        };
        let changes: Vec<OffsetChange> = values.into_iter().map(change).collect();
        let records = changes.iter().map(OffsetChange::to_record).collect();
        let then = Then::Answer { to: id, response: commit.response() };
        let applied = Applied { changes, created: created.then_some(group), ..Applied::default() };
        self.submit(Some(Write { records, applied, then }), cx);
    }

    /// Checks a commit, makes the group of one that uses no membership, and keeps the member's session (R-GRP-21).
    fn admit_commit(
        &mut self,
        id: &GroupId,
        request: &m::OffsetCommitRequest,
        cx: &mut Context<'_>,
    ) -> Result<CommitScope, ErrorCode> {
        if let Some(group) = self.consumer_group(id) {
            let epoch = GroupEpoch(request.generation_id_or_member_epoch);
            return group.validate_commit(&MemberId::new(&request.member_id), epoch);
        }
        if self.share_group(id).is_some() {
            return Err(ErrorCode::GroupIdNotFound);
        }
        let Some(group) = self.group_mut(id) else {
            if request.generation_id_or_member_epoch >= 0 {
                return Err(ErrorCode::GroupIdNotFound);
            }
            let group = Rc::new(ClassicGroup::new(id.clone(), cx.now));
            self.groups.insert(id.clone(), Group::Classic(group));
            return Ok(CommitScope::Anything);
        };
        group.validate_commit(request)?;
        if matches!(group.state, GroupState::Stable | GroupState::PreparingRebalance) {
            group.renew_session(&MemberId::new(&request.member_id), cx);
        }
        Ok(CommitScope::Anything)
    }

    /// With `stable` the newest offsets, as soon as they are safe; otherwise those that are safe now (R-GRP-39).
    pub(super) fn fetch(
        &mut self,
        to: RequestId,
        index: i32,
        request: &OffsetFetchRequestGroup,
        stable: bool,
        cx: &mut Context<'_>,
    ) {
        let id = GroupId::new(&request.group_id);
        let safe = self.committed_groups.get(&id).and_then(Group::consumer).filter(|_| !stable);
        if let Some(group) = safe.or(self.consumer_group(&id).filter(|_| stable)) {
            let member = request.member_id.as_deref().map(MemberId::new);
            if let Err(error) = group.validate_fetch(member.as_ref(), GroupEpoch(request.member_epoch)) {
                let refused = offsets::fetch_error(&request.group_id, error);
                return cx.gather(to, index, Part::Fetched(refused));
            }
        }
        if stable {
            let unstable = |tp: &TopicPartition| self.pending.has(&id, tp);
            let group = offsets::read(self.newest.of(&id), request, &unstable);
            self.after_writes(Then::Fetched { to, index, group }, cx);
        } else {
            let group = offsets::read(self.committed.of(&id), request, &|_| false);
            cx.gather(to, index, Part::Fetched(group));
        }
    }

    // Timers.

    pub(super) fn on_timer(&mut self, timer: &GroupTimer, cx: &mut Context<'_>) {
        let write = match timer {
            GroupTimer::MemberJoin { group, member, .. } => {
                return self.on_member_timer(group, MemberTimer::Join(member.clone()), cx);
            }
            GroupTimer::MemberSync { group, member, .. } => {
                return self.on_member_timer(group, MemberTimer::Sync(member.clone()), cx);
            }
            GroupTimer::Session { group, .. }
                if plant::is(Plant::MemberNeverExpires) && self.consumer_group(group).is_some() =>
            {
                None
            }
            GroupTimer::Session { group, member, .. } if self.consumer_group(group).is_some() => {
                return self.on_member_timer(group, MemberTimer::Session(member.clone()), cx);
            }
            GroupTimer::Session { group, member, .. } if self.share_group(group).is_some() => {
                return self.on_share_session_timer(group, member, cx);
            }
            GroupTimer::Rebalance { group, member, .. } => {
                return self.on_consumer_rebalance_timer(group, member, cx);
            }
            GroupTimer::Regex { group, .. } => return self.on_regex_timer(group, cx),
            GroupTimer::Session { group, member, .. } => {
                self.group_mut(group).and_then(|group| group.on_session_timer(member, cx))
            }
            GroupTimer::Join { group, .. } => self.group_mut(group).and_then(|group| group.on_join_timer(cx)),
            GroupTimer::Sync { group, .. } => self.group_mut(group).and_then(|group| group.on_sync_timer(cx)),
            GroupTimer::Write { token, .. } => {
                self.give_up_waiting(*token, cx);
                None
            }
            GroupTimer::Expiration { .. } => self.expire(cx),
        };
        self.submit(write, cx);
    }
}
