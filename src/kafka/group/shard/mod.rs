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

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;

use super::classic::{ClassicGroup, Join, join_error, leave_result, sync_error};
use super::context::{Context, Part};
use super::modern::consumer::CommitScope;
use super::offsets::{self, Author, Commit, GroupOffsets, OffsetChange, Offsets};
use super::write::{
    Applied, Deletion, ModernChange, Then, Write, coordinator_error, offset_fetch_error, refused,
};
use super::{Append, GroupTimer};
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupState, MemberRemoval};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset};

pub use group::Group;

pub(super) use admin::split_existing;

/// A record of the partition's log, as it is read back.
#[derive(Clone, Debug)]
pub struct LogRecord {
    pub offset: Offset,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A request or timer that waits for the log.
#[derive(Clone, Debug)]
struct Waiting {
    token: u64,
    /// What has to be below the high watermark; unknown until the broker appended it.
    last_offset: Option<Offset>,
    applied: Applied,
    then: Then,
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
            cx.event(Event::GroupConverted { group: id.clone(), classic: true });
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
                cx.event(Event::CommitRefused { group, error, client: client.clone() });
                return cx.respond(id, commit.refused(error));
            }
        };
        let mut changes = commit.take_changes(&group, client, &scope, cx);
        for change in &mut changes {
            change.before = self.newest.set(&change.group, &change.tp, change.after.clone());
        }
        let records = changes.iter().map(OffsetChange::to_record).collect();
        let then = Then::Answer { to: id, response: commit.response.into() };
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
            let group = offsets::read(self.newest.of(&id), request);
            self.after_writes(Then::Fetched { to, index, group }, cx);
        } else {
            let group = offsets::read(self.committed.of(&id), request);
            cx.gather(to, index, Part::Fetched(group));
        }
    }

    // Timers.

    pub(super) fn on_timer(&mut self, timer: &GroupTimer, cx: &mut Context<'_>) {
        let write = match timer {
            GroupTimer::MemberJoin { group, member, .. } => {
                return self.on_member_timer(group, member, MemberRemoval::DidNotRejoin, cx);
            }
            GroupTimer::MemberSync { group, member, .. } => {
                return self.on_member_timer(group, member, MemberRemoval::DidNotSync, cx);
            }
            GroupTimer::Session { group, member, .. } if self.consumer_group(group).is_some() => {
                return self.on_member_timer(group, member, MemberRemoval::SessionExpired, cx);
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

    // The log.

    fn submit(&mut self, write: Option<Write>, cx: &mut Context<'_>) {
        let Some(Write { records, applied, then }) = write else { return };
        if records.is_empty() {
            return self.after_writes(then, cx);
        }
        let token = self.wait(None, applied, then, cx);
        cx.append(Append { partition: cx.partition, token, records });
    }

    /// A read of the state: it is answered once everything that it may have seen is safe.
    fn after_writes(&mut self, then: Then, cx: &mut Context<'_>) {
        if self.waiting.is_empty() && self.high_watermark >= self.log_end {
            return self.finish(then, Ok(()), cx);
        }
        assert!(
            self.waiting.back().is_none_or(|last| last.last_offset.is_some()),
            "an append is carried out before the next request is handed in"
        );
        self.wait(Some(self.log_end + -1), Applied::default(), then, cx);
    }

    fn wait(
        &mut self,
        last_offset: Option<Offset>,
        applied: Applied,
        then: Then,
        cx: &mut Context<'_>,
    ) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        if !matches!(then, Then::Nothing) {
            let at = cx.now.plus_ms(cx.config.offsets_commit_timeout_ms);
            cx.set_timer(GroupTimer::Write { partition: cx.partition, token }, at);
        }
        self.waiting.push_back(Waiting { token, last_offset, applied, then });
        token
    }

    pub(super) fn on_appended(&mut self, token: u64, last_offset: Offset, cx: &mut Context<'_>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
            waiting.last_offset = Some(last_offset);
        }
        self.log_end = self.log_end.max(last_offset + 1);
        self.settle(cx);
    }

    /// Takes back what was done in the expectation of the write.
    pub(super) fn on_append_failed(&mut self, token: u64, error: ErrorCode, cx: &mut Context<'_>) {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.token == token) else { return };
        let Some(failed) = self.waiting.remove(place) else { return };
        if let Some(OffsetChange { group, author: Author::Client(client), .. }) =
            failed.applied.changes.first()
        {
            let (group, client) = (group.clone(), client.clone());
            cx.event(Event::CommitRefused { group, error: coordinator_error(error), client });
        }
        for change in failed.applied.changes.into_iter().rev() {
            self.newest.set(&change.group, &change.tp, change.before);
        }
        if let Some(Group::Classic(mut group)) = failed.applied.created.and_then(|id| self.groups.remove(&id))
        {
            for member in Rc::make_mut(&mut group).members.values_mut() {
                if let Some(to) = member.parked_join.take() {
                    cx.respond(to, join_error("", coordinator_error(error)));
                }
            }
        }
        for (id, group) in failed.applied.removed {
            self.groups.insert(id.clone(), group);
            self.expect_consumer_group(&id, cx);
            self.expect_share_group(&id, cx);
        }
        for change in failed.applied.modern.into_iter().rev() {
            self.take_back(change, cx);
        }
        self.finish_waiting(token, failed.then, Err(error), cx);
    }

    pub(super) fn on_high_watermark(&mut self, high_watermark: Offset, cx: &mut Context<'_>) {
        self.high_watermark = self.high_watermark.max(high_watermark);
        self.settle(cx);
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        let safe =
            |waiting: &Waiting, below: Offset| waiting.last_offset.is_some_and(|offset| offset < below);
        while let Some(settled) = self.waiting.pop_front_if(|waiting| safe(waiting, self.high_watermark)) {
            for change in settled.applied.changes {
                change.told(cx);
                self.committed.set(&change.group, &change.tp, change.after);
            }
            // A classic group may have made way for one of the newer protocol.
            for (id, group) in settled.applied.removed {
                if group.classic().is_none() {
                    self.committed_groups.remove(&id);
                }
            }
            for ModernChange { id, after, .. } in settled.applied.modern {
                self.committed_groups.insert(id, after);
            }
            self.finish_waiting(settled.token, settled.then, Ok(()), cx);
        }
    }

    /// The write took too long: its sender is told so, while the records may still become safe (R-GRP-3).
    fn give_up_waiting(&mut self, token: u64, cx: &mut Context<'_>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
            let then = std::mem::replace(&mut waiting.then, Then::Nothing);
            self.finish(then, Err(ErrorCode::RequestTimedOut), cx);
        }
    }

    fn finish_waiting(
        &mut self,
        token: u64,
        then: Then,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        if !matches!(then, Then::Nothing) {
            cx.cancel_timer(GroupTimer::Write { partition: cx.partition, token });
            self.finish(then, result, cx);
        }
    }

    fn finish(&mut self, then: Then, result: Result<(), ErrorCode>, cx: &mut Context<'_>) {
        match then {
            Then::Nothing => {}
            Then::Answer { to, response } => match result {
                Ok(()) => cx.respond(to, response),
                Err(error) => cx.respond(to, refused(response, coordinator_error(error))),
            },
            Then::Fetched { to, index, group } => match result {
                Ok(()) => cx.gather(to, index, Part::Fetched(group)),
                Err(error) => {
                    let group = offsets::fetch_error(&group.group_id, offset_fetch_error(error));
                    cx.gather(to, index, Part::Fetched(group));
                }
            },
            Then::Deleted { to, index, mut results, refused } => {
                if let Err(error) = result {
                    let error = coordinator_error(error).code();
                    results.iter_mut().for_each(|result| result.error_code = error);
                }
                results.splice(0..0, refused);
                cx.gather(to, index, Part::Deleted(results));
            }
            Then::ShareHeartbeat { to, response, begin } => match result {
                Ok(()) => {
                    cx.respond(to, response);
                    cx.ask_for_states(begin);
                }
                Err(error) => cx.respond(to, refused(response, coordinator_error(error))),
            },
            Then::OffsetsAltering { to, response, ask } => match (result, ask) {
                (Ok(()), Some(ask)) => cx.ask_for_states([ask]),
                (Ok(()), None) => cx.respond(to, response),
                (Err(error), _) => cx.respond(to, refused(response, coordinator_error(error))),
            },
            Then::StatesBegun { group, states } => {
                if result.is_err() {
                    self.states_failed(&group, &states, cx);
                }
            }
            Then::StatesDeleting { deletion, asks } => self.delete_states(deletion, asks, result, cx),
            Then::AssignmentStored { group, generation, plan } => {
                if let Some(group) = self.group_mut(&group) {
                    group.on_plan_stored(generation, &plan, result.map_err(coordinator_error), cx);
                }
            }
            Then::StaticReplaced { group, new, old, skips } => {
                if let Some(group) = self.group_mut(&group) {
                    group.on_static_replaced(&new, &old, skips, result.map_err(coordinator_error), cx);
                }
            }
        }
    }
}
