//! Share groups at their coordinator: heartbeats, sessions, states that begin and end, loading (KIP-932, R-SHARE-1, 15).
//!
//! Mirrors the share groups' part of `GroupCoordinatorShard`. As a consumer group does, a share group changes as soon as its
//! records are on their way into the log, and is what it was before if they cannot be written.
//!
//! **Invariant:** states are asked for once it is safe that they are to begin, or to be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic;
use kafka_protocol::messages::share_group_describe_response::DescribedGroup;
use kafka_protocol::protocol::StrBytes;

use super::admin::result_of;
use super::{Group, Shard};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::event::MemberRemoval;
use crate::kafka::group::context::{Context, Part};
use crate::kafka::group::modern::share::{Altered, Deleting, Outcome, Replayed, SessionChange, ShareGroup};
use crate::kafka::group::modern::{Refusal, TopicIdPartition};
use crate::kafka::group::write::{
    Applied, Deletion, MemberTimer, ModernChange, Then, Write, coordinator_error, gone_by,
};
use crate::kafka::group::{StateAsk, StateWork};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, ShareGroupRecord};
use crate::kafka::types::{ClientName, GroupId, MemberId, Topic, TopicId};

impl Shard {
    pub fn share_groups(&self) -> impl Iterator<Item = &Rc<ShareGroup>> {
        self.groups.values().filter_map(Group::share)
    }

    pub fn share_group(&self, id: &GroupId) -> Option<&Rc<ShareGroup>> {
        self.groups.get(id)?.share()
    }

    /// The group, made if there is none.
    fn share_group_mut(&mut self, id: &GroupId) -> &mut ShareGroup {
        let new = || Group::Share(Rc::new(ShareGroup::new(id.clone())));
        match self.groups.entry(id.clone()).or_insert_with(new) {
            Group::Share(group) => Rc::make_mut(group),
            other => panic!("{id} is a {} group", other.type_name()),
        }
    }

    pub(in crate::kafka::group) fn share_heartbeat(
        &mut self,
        to: RequestId,
        client: &ClientName,
        request: &m::ShareGroupHeartbeatRequest,
        cx: &mut Context<'_>,
    ) {
        let id = GroupId::new(&request.group_id);
        let config = cx.share_config(&id);
        let answer = match self.groups.get(&id) {
            Some(Group::Share(group)) => {
                ShareGroup::handle(Some(&**group), request, client, &config, &cx.around())
            }
            None => ShareGroup::handle(None, request, client, &config, &cx.around()),
            Some(_) => {
                let text = format!("Group {id} is not a share group.");
                Err(Refusal::new(ErrorCode::GroupIdNotFound, text))
            }
        };
        match answer {
            Err(refusal) => cx.respond(to, refusal.to_share_heartbeat()),
            Ok(outcome) => {
                let response = outcome.response.clone().into();
                let begin = outcome.initialize.clone().map(|(epoch, states)| StateAsk {
                    partition: cx.partition,
                    group: id.clone(),
                    states,
                    work: StateWork::Begin { epoch },
                });
                let then = Then::ShareHeartbeat { to, response, begin };
                self.carry_out_share(&id, &outcome, MemberRemoval::Left, then, cx);
            }
        }
    }

    /// Changes the group; what is to be written of that.
    fn change_share<R>(
        &mut self,
        id: &GroupId,
        outcome: &Outcome<R>,
        removal: MemberRemoval,
        cx: &mut Context<'_>,
    ) -> (Vec<CoordinatorRecord>, Applied) {
        // Where only a deadline moves nothing has to be taken back, and the group is not copied.
        let before = if outcome.records.is_empty() { None } else { self.groups.get(id).cloned() };
        let replayed = self.share_group_mut(id).carry_out(outcome, cx.now);
        assert!(replayed == Replayed::Kept, "no request deletes {id}");
        match &outcome.session {
            Some(SessionChange::Renewed { member, timeout_ms }) => {
                self.renew_share_session(id, member, *timeout_ms, cx);
            }
            Some(SessionChange::Ended(member)) => cx.cancel_timer(cx.session_timer(id, member)),
            None => {}
        }
        let records: Vec<CoordinatorRecord> =
            outcome.records.iter().map(|record| record.encode(id)).collect();
        let after = self.share_group(id).filter(|_| !records.is_empty());
        let Some(after) = after else { return (records, Applied::default()) };
        let known = before.as_ref().and_then(Group::share).map(|group| &**group);
        let events = after.changes(known, removal);
        let modern = vec![ModernChange { id: id.clone(), before, after: Group::Share(after.clone()) }];
        (records, Applied { modern, gone: gone_by(&events), events, ..Applied::default() })
    }

    /// The member has so long from now on.
    pub(super) fn renew_share_session(
        &mut self,
        id: &GroupId,
        member: &MemberId,
        timeout_ms: i64,
        cx: &mut Context<'_>,
    ) {
        let ends = cx.now.plus_ms(timeout_ms);
        self.share_group_mut(id).sessions.insert(member.clone(), ends);
        cx.set_timer(cx.session_timer(id, member), ends);
    }

    /// Changes the group and writes that down.
    fn carry_out_share<R>(
        &mut self,
        id: &GroupId,
        outcome: &Outcome<R>,
        removal: MemberRemoval,
        then: Then,
        cx: &mut Context<'_>,
    ) {
        let (records, applied) = self.change_share(id, outcome, removal, cx);
        self.submit(Some(Write { records, applied, then }), cx);
    }

    /// The records could not be written: the group is what it was, but for its sessions, whose timers are set.
    pub(super) fn take_back_share(&mut self, change: ModernChange) {
        let sessions = self.share_group(&change.id).map(|group| group.sessions.clone());
        match change.before {
            Some(Group::Share(mut group)) => {
                Rc::make_mut(&mut group).sessions = sessions.unwrap_or_default();
                self.groups.insert(change.id, Group::Share(group));
            }
            Some(other) => unreachable!("{} was a {} group", change.id, other.type_name()),
            None => drop(self.groups.remove(&change.id)),
        }
    }

    /// A member was not heard from in time.
    pub(super) fn on_share_session_timer(&mut self, id: &GroupId, member: &MemberId, cx: &mut Context<'_>) {
        let group = self.share_group_mut(id);
        group.sessions.remove(member);
        let is_member = group.base.members.contains_key(member);
        let outcome = is_member.then(|| group.remove_member(member, &cx.around()));
        let then = Then::Retried { group: id.clone(), timer: MemberTimer::Session(member.clone()) };
        match outcome {
            Some(outcome) => self.carry_out_share(id, &outcome, MemberRemoval::SessionExpired, then, cx),
            None => self.after_writes(then, cx),
        }
    }

    // States.

    /// The share coordinators have answered.
    pub(in crate::kafka::group) fn on_states(
        &mut self,
        ask: &StateAsk,
        errors: &BTreeMap<TopicIdPartition, ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        let error = ask.states.iter().find_map(|state| errors.get(state).copied());
        match ask.work {
            StateWork::Begin { .. } | StateWork::Alter { .. } if error.is_none() => {
                let Some(group) = self.share_group(&ask.group) else { return };
                let outcome = group.states_begun(&ask.states, &cx.around());
                let then = Then::StatesBegun { group: ask.group.clone(), states: ask.states.clone() };
                self.carry_out_share(&ask.group, &outcome, MemberRemoval::Left, then, cx);
            }
            StateWork::Begin { .. } => self.states_failed(&ask.group, &ask.states, cx),
            // They stay among those that are to begin, and are asked for again when somebody joins.
            StateWork::Alter { .. } => {}
            StateWork::DeleteOffsets { to, ref refused } => {
                self.offsets_deleted(to, ask, refused.clone(), errors, cx);
            }
            StateWork::Delete { to, index } => {
                let Some(mut deletion) = self.deletions.remove(&(to, index)) else { return };
                deletion.waits_for.remove(&ask.group);
                if let Some(error) = error {
                    deletion.refused.insert(ask.group.clone(), error);
                }
                self.go_on_deleting(deletion, cx);
            }
        }
    }

    pub(super) fn states_failed(&mut self, id: &GroupId, states: &[TopicIdPartition], cx: &mut Context<'_>) {
        let outcome = self.share_group(id).and_then(|group| group.states_failed(states));
        if let Some(outcome) = outcome {
            self.carry_out_share(id, &outcome, MemberRemoval::Left, Then::Nothing, cx);
        }
    }

    /// Topics are gone, and the share coordinators forget their states by themselves.
    pub(super) fn forget_states(&mut self, deleted: &BTreeMap<TopicId, Topic>, cx: &mut Context<'_>) {
        let is_gone = |id: &TopicId| deleted.contains_key(id);
        let groups = self.share_groups();
        let outcomes: Vec<(GroupId, Outcome<()>)> = groups
            .filter_map(|group| Some((group.base.id.clone(), group.topics_deleted(is_gone)?)))
            .collect();
        for (id, outcome) in outcomes {
            self.carry_out_share(&id, &outcome, MemberRemoval::Left, Then::Nothing, cx);
        }
    }

    // Administrators.

    pub(in crate::kafka::group) fn describe_share_group(
        &self,
        id: &m::GroupId,
        image: &ClusterImage,
    ) -> DescribedGroup {
        if let Some(group) = self.committed_groups.get(&GroupId::new(id)).and_then(Group::share) {
            return group.describe(image);
        }
        let text = match self.groups.get(&GroupId::new(id)) {
            Some(Group::Classic(_) | Group::Consumer(_)) => format!("Group {} is not a share group.", &**id),
            _ => format!("Group {} not found.", &**id),
        };
        DescribedGroup::default()
            .with_group_id(id.clone())
            .with_error_code(ErrorCode::GroupIdNotFound.code())
            .with_error_message(Some(StrBytes::from_string(text)))
    }

    pub(in crate::kafka::group) fn alter_offsets(
        &mut self,
        to: RequestId,
        request: &m::AlterShareGroupOffsetsRequest,
        cx: &mut Context<'_>,
    ) {
        let id = GroupId::new(&request.group_id);
        let altered = match self.groups.get(&id) {
            Some(Group::Share(group)) => group.alter_offsets(request, &cx.around()),
            None => ShareGroup::new(id.clone()).alter_offsets(request, &cx.around()),
            Some(_) => {
                let text = format!("Group {id} is not a share group.");
                Err(Refusal::new(ErrorCode::GroupIdNotFound, text))
            }
        };
        let outcome = match altered {
            Ok(outcome) => outcome,
            Err(Refusal { error, message }) => {
                let response = m::AlterShareGroupOffsetsResponse::default().with_error_code(error.code());
                return cx.respond(to, response.with_error_message(Some(StrBytes::from_string(message))));
            }
        };
        let Altered { epoch, starts, response } = outcome.response.clone();
        let ask = (!starts.is_empty()).then(|| StateAsk {
            partition: cx.partition,
            group: id.clone(),
            states: starts.keys().copied().collect(),
            work: StateWork::Alter { epoch, starts, to, response: Box::new(response.clone()) },
        });
        let then = Then::StatesAsked { to, response: response.into(), ask };
        match outcome.records.is_empty() {
            // No such topic: the group is not made for that.
            true => self.after_writes(then, cx),
            false => self.carry_out_share(&id, &outcome, MemberRemoval::Left, then, cx),
        }
    }

    pub(in crate::kafka::group) fn delete_share_offsets(
        &mut self,
        to: RequestId,
        request: &m::DeleteShareGroupOffsetsRequest,
        cx: &mut Context<'_>,
    ) {
        let id = GroupId::new(&request.group_id);
        let deleting = match self.groups.get(&id) {
            Some(Group::Share(group)) => group.delete_offsets(request, &cx.around()),
            known => {
                let what = if known.is_some() { "is not a share group" } else { "not found" };
                Err(Refusal::new(ErrorCode::GroupIdNotFound, format!("Group {id} {what}.")))
            }
        };
        let outcome = match deleting {
            Ok(outcome) => outcome,
            Err(Refusal { error, message }) => {
                let response = m::DeleteShareGroupOffsetsResponse::default().with_error_code(error.code());
                return cx.respond(to, response.with_error_message(Some(StrBytes::from_string(message))));
            }
        };
        let Deleting { states, refused } = outcome.response.clone();
        let response = m::DeleteShareGroupOffsetsResponse::default().with_responses(refused.clone());
        let ask = (!states.is_empty()).then(|| StateAsk {
            partition: cx.partition,
            group: id.clone(),
            states,
            work: StateWork::DeleteOffsets { to, refused },
        });
        let then = Then::StatesAsked { to, response: response.into(), ask };
        match outcome.records.is_empty() {
            true => self.after_writes(then, cx),
            false => self.carry_out_share(&id, &outcome, MemberRemoval::Left, then, cx),
        }
    }

    /// The share coordinators have deleted states, but for some. Topics of which some are left stay among those that are
    /// to be deleted.
    fn offsets_deleted(
        &mut self,
        to: RequestId,
        ask: &StateAsk,
        refused: Vec<DeleteShareGroupOffsetsResponseTopic>,
        errors: &BTreeMap<TopicIdPartition, ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        let failed: BTreeMap<TopicId, ErrorCode> =
            errors.iter().map(|((id, _), error)| (*id, *error)).collect();
        let topics: BTreeSet<TopicId> = ask.states.iter().map(|(id, _)| *id).collect();
        let gone: BTreeSet<TopicId> = topics.into_iter().filter(|id| !failed.contains_key(id)).collect();
        let group = self.share_group(&ask.group).filter(|group| group.has_states);
        let outcome = group.filter(|_| !gone.is_empty()).map(|group| group.offsets_deleted(&gone));
        let told = |id: &TopicId, error: ErrorCode| {
            let name = cx.image.topic_name(*id).map(Topic::to_wire).unwrap_or_default();
            DeleteShareGroupOffsetsResponseTopic::default()
                .with_topic_id(id.0)
                .with_topic_name(name.into())
                .with_error_code(error.code())
        };
        let known = gone.iter().filter(|_| outcome.is_some()).map(|id| told(id, ErrorCode::None));
        let failed = failed.iter().map(|(id, error)| told(id, *error));
        let topics = known.chain(refused).chain(failed).collect();
        let response = m::DeleteShareGroupOffsetsResponse::default().with_responses(topics);
        let then = Then::Answer { to, response: response.into() };
        match outcome {
            Some(outcome) => self.carry_out_share(&ask.group, &outcome, MemberRemoval::Left, then, cx),
            None => self.after_writes(then, cx),
        }
    }

    /// Those that have begun, as far as that is safe.
    pub(in crate::kafka::group) fn begun_states(&self, id: &GroupId) -> BTreeSet<TopicIdPartition> {
        let group = self.committed_groups.get(id).and_then(Group::share);
        let topics = group.into_iter().flat_map(|group| &group.states.initialized);
        topics
            .flat_map(|(id, (_, partitions))| partitions.iter().map(|partition| (*id, *partition)))
            .collect()
    }

    /// Share groups lose their states first, and those that cannot be deleted keep them
    /// (`sharePartitionDeleteRequests`); then all are deleted as others are.
    pub(in crate::kafka::group) fn delete_groups(
        &mut self,
        (to, index): (RequestId, i32),
        ids: &[GroupId],
        cx: &mut Context<'_>,
    ) {
        let (groups, refused, waits_for) = (ids.to_vec(), BTreeMap::new(), BTreeSet::new());
        let mut deletion = Deletion { to, index, groups, refused, waits_for };
        let (mut records, mut applied, mut asks) = (Vec::new(), Applied::default(), Vec::new());
        for id in ids {
            let Some(group) = self.share_group(id) else { continue };
            if !group.base.members.is_empty() {
                deletion.refused.insert(id.clone(), ErrorCode::NonEmptyGroup);
                continue;
            }
            let Some(outcome) = group.delete_states(cx.image) else { continue };
            let (written, change) = self.change_share(id, &outcome, MemberRemoval::Left, cx);
            records.extend(written);
            applied.modern.extend(change.modern);
            applied.events.extend(change.events);
            if !outcome.response.is_empty() {
                deletion.waits_for.insert(id.clone());
                asks.push(StateAsk {
                    partition: cx.partition,
                    group: id.clone(),
                    states: outcome.response,
                    work: StateWork::Delete { to, index },
                });
            }
        }
        match records.is_empty() {
            true => self.delete_remaining(deletion, cx),
            false => {
                let then = Then::StatesDeleting { deletion, asks };
                self.submit(Some(Write { records, applied, then }), cx);
            }
        }
    }

    /// It is safe that states are being deleted, or that could not be written.
    pub(super) fn delete_states(
        &mut self,
        deletion: Deletion,
        asks: Vec<StateAsk>,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        match result {
            Ok(()) => {
                cx.ask_for_states(asks);
                self.go_on_deleting(deletion, cx);
            }
            Err(error) => refuse_all(deletion, coordinator_error(error), cx),
        }
    }

    fn go_on_deleting(&mut self, deletion: Deletion, cx: &mut Context<'_>) {
        if deletion.waits_for.is_empty() {
            return self.delete_remaining(deletion, cx);
        }
        self.deletions.insert((deletion.to, deletion.index), deletion);
    }

    // Loading.

    /// A tombstone of a group that is gone is passed over.
    pub(super) fn replay_share(
        &mut self,
        id: GroupId,
        record: &ShareGroupRecord,
        has_value: bool,
        cx: &Context<'_>,
    ) {
        if !has_value && self.share_group(&id).is_none() {
            return;
        }
        if self.share_group_mut(&id).replay(record, cx.now) == Replayed::Deleted {
            self.groups.remove(&id);
        }
    }

    /// Members have their full session timeouts from now on.
    pub(super) fn expect_share_group(&mut self, id: &GroupId, cx: &mut Context<'_>) {
        if self.share_group(id).is_none() {
            return;
        }
        let ends = cx.now.plus_ms(i64::from(cx.share_config(id).session_timeout_ms));
        let group = self.share_group_mut(id);
        group.sessions = group.base.members.keys().map(|member| (member.clone(), ends)).collect();
        for member in group.sessions.keys() {
            cx.set_timer(cx.session_timer(id, member), ends);
        }
    }
}

/// Another broker coordinates the group.
pub(super) fn end_sessions(group: &ShareGroup, cx: &mut Context<'_>) {
    for member in group.sessions.keys() {
        cx.cancel_timer(cx.session_timer(&group.base.id, member));
    }
}

/// None of the groups is deleted.
pub(super) fn refuse_all(deletion: Deletion, error: ErrorCode, cx: &mut Context<'_>) {
    let results = deletion.groups.iter().map(|id| result_of(id, error)).collect();
    cx.gather(deletion.to, deletion.index, Part::Deleted(results));
}
