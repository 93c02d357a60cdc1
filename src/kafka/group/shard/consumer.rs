//! Consumer groups of the newer protocol at their coordinator: heartbeats, timers, loading (R-CG8-1).
//!
//! A group changes as soon as its records are on their way into the log, and as a whole: if they cannot be written, it is
//! what it was before. Its deadlines stay.
//!
//! **Invariant:** administrators are told of what is below the high watermark.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;
use kafka_protocol::protocol::StrBytes;

use super::expiry::classic_tombstone;
use super::migration::upgrade;
use super::waiting::Waiting;
use super::{Group, Shard};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent, MemberRemoval};
use crate::kafka::group::assignor::server::ServerAssignor;
use crate::kafka::group::context::Context;
use crate::kafka::group::modern::consumer::{
    ConsumerGroup, Deadlines, Outcome, Replayed, TimerChange, changes, resolve_regexes,
};
use crate::kafka::group::modern::{MemberState, Refusal};
use crate::kafka::group::write::{Applied, MemberTimer, ModernChange, Then, Write, gone_by};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, CoordinatorRecord};
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, MemberId, Offset, Topic};

/// The backoff of a timer whose write failed (`CoordinatorTimerImpl.schedule`).
const TIMER_RETRY_MS: i64 = 500;
/// The coordinator's executor takes a moment to match the names of all topics.
const REGEX_RESOLUTION_MS: i64 = 2;

impl Shard {
    pub fn consumer_groups(&self) -> impl Iterator<Item = &Rc<ConsumerGroup>> {
        self.groups.values().filter_map(Group::consumer)
    }

    pub fn consumer_group(&self, id: &GroupId) -> Option<&Rc<ConsumerGroup>> {
        self.groups.get(id)?.consumer()
    }

    /// The group, made if there is none of this protocol.
    fn consumer_group_mut(&mut self, id: &GroupId) -> &mut ConsumerGroup {
        let new = || Group::Consumer(Rc::new(ConsumerGroup::new(id.clone())));
        let group = self.groups.entry(id.clone()).or_insert_with(new);
        if group.consumer().is_none() {
            *group = new();
        }
        match group {
            Group::Consumer(group) => Rc::make_mut(group),
            Group::Classic(_) | Group::Share(_) => unreachable!("{id} was replaced"),
        }
    }

    pub(in crate::kafka::group) fn consumer_heartbeat(
        &mut self,
        to: RequestId,
        client: &ClientName,
        request: &m::ConsumerGroupHeartbeatRequest,
        cx: &mut Context<'_>,
    ) {
        let id = GroupId::new(&request.group_id);
        let joins = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
        let config = cx.consumer_config(&id);
        let known = self.groups.get(&id).cloned();
        let answer = match &known {
            Some(Group::Consumer(group)) => {
                ConsumerGroup::handle(Some(&**group), request, client, &config, &cx.around())
            }
            Some(Group::Classic(group)) if joins && !group.members.is_empty() => upgrade(group, &config, cx)
                .and_then(|conversion| {
                    let mut converted = ConsumerGroup::new(id.clone());
                    let _ = converted.carry_out(&conversion, cx.now);
                    let around = cx.around();
                    let outcome = ConsumerGroup::handle(Some(&converted), request, client, &config, &around)?;
                    Ok(outcome.after(conversion))
                }),
            Some(Group::Share(_)) => Err(not_of_consumers(&id)),
            // An empty group changes its protocol without further ado.
            Some(Group::Classic(_)) if !joins => Err(not_of_consumers(&id)),
            _ => ConsumerGroup::handle(None, request, client, &config, &cx.around()),
        };
        match answer {
            Err(refusal) => cx.respond(to, refusal.to_heartbeat()),
            Ok(outcome) => {
                let mut records: Vec<CoordinatorRecord> = Vec::new();
                let was_classic = known.is_some_and(|group| group.classic().is_some());
                if was_classic {
                    records.push(classic_tombstone(&id));
                    self.leave_classic_protocol(&id, cx);
                }
                records.extend(outcome.records.iter().map(|record| record.encode(&id)));
                let then = Then::Answer { to, response: outcome.response.clone().into() };
                self.carry_out(&id, &outcome, MemberRemoval::Left, records, then, cx);
            }
        }
    }

    /// Changes the group and writes that down.
    pub(super) fn carry_out<R>(
        &mut self,
        id: &GroupId,
        outcome: &Outcome<R>,
        removal: MemberRemoval,
        records: Vec<CoordinatorRecord>,
        then: Then,
        cx: &mut Context<'_>,
    ) {
        if self.downgrades_without(id, &outcome.gone, cx) {
            return self.downgrade(id, &outcome.gone, removal, then, cx);
        }
        // Where only a deadline moves nothing has to be taken back, and the group is not copied.
        let before = if records.is_empty() { None } else { self.groups.get(id).cloned() };
        let group = self.consumer_group_mut(id);
        let replayed = group.carry_out(outcome, cx.now);
        assert!(replayed == Replayed::Kept, "no request deletes {id}");
        if let Some(regexes) = &outcome.resolve {
            group.resolving = Some(regexes.clone());
            cx.set_timer(cx.regex_timer(id), cx.now.plus_ms(REGEX_RESOLUTION_MS));
        }
        set_timers(id, outcome, &group.deadlines, cx);
        let Some(after) = self.consumer_group(id).filter(|_| !records.is_empty()) else {
            return self.after_writes(then, cx);
        };
        let known = before.as_ref().and_then(Group::consumer);
        let events = changes(known.map(|group| &**group), after, removal, cx.image);
        let after = Group::Consumer(after.clone());
        let modern = vec![ModernChange { id: id.clone(), before, after }];
        let applied = Applied { modern, gone: gone_by(&events), events, ..Applied::default() };
        self.submit(Some(Write { records, applied, then }), cx);
    }

    fn carry_out_unasked(
        &mut self,
        id: &GroupId,
        outcome: Option<Outcome<()>>,
        removal: MemberRemoval,
        then: Then,
        cx: &mut Context<'_>,
    ) {
        let Some(outcome) = outcome else { return self.after_writes(then, cx) };
        let records = outcome.records.iter().map(|record| record.encode(id)).collect();
        self.carry_out(id, &outcome, removal, records, then, cx);
    }

    /// The records could not be written: the group is what it was, but for its deadlines, whose timers are set.
    pub(super) fn take_back(&mut self, change: ModernChange, cx: &mut Context<'_>) {
        if change.after.share().is_some() {
            return self.take_back_share(change);
        }
        let deadlines = self.consumer_group(&change.id).map(|group| group.deadlines.clone());
        match change.before {
            Some(Group::Consumer(mut group)) => {
                Rc::make_mut(&mut group).deadlines = deadlines.unwrap_or_default();
                self.groups.insert(change.id, Group::Consumer(group));
            }
            Some(Group::Classic(group)) => {
                cx.event(Event::Group(GroupEvent::GroupConverted {
                    group: change.id.clone(),
                    classic: true,
                }));
                for member in group.members.values() {
                    cx.set_timer(cx.session_timer(&group.id, &member.id), member.expires_at);
                }
                self.groups.insert(change.id, Group::Classic(group));
            }
            Some(Group::Share(_)) => unreachable!("{} was a share group", change.id),
            None => drop(self.groups.remove(&change.id)),
        }
    }

    // Timers.

    /// A member was not heard from, or did not come again, in time.
    pub(super) fn on_member_timer(&mut self, id: &GroupId, timer: MemberTimer, cx: &mut Context<'_>) {
        let (member, removal) = match &timer {
            MemberTimer::Session(member) => (member, MemberRemoval::SessionExpired),
            MemberTimer::Rebalance(member, _) => (member, MemberRemoval::DidNotRevoke),
            MemberTimer::Join(member) => (member, MemberRemoval::DidNotRejoin),
            MemberTimer::Sync(member) => (member, MemberRemoval::DidNotSync),
        };
        let group = self.consumer_group(id);
        let outcome = match &timer {
            MemberTimer::Rebalance(..) => group.and_then(|group| group.rebalance_expired(member, cx.image)),
            _ => group.and_then(|group| group.session_expired(member, cx.image)),
        };
        self.forget(id, member, outcome.is_none() && !matches!(timer, MemberTimer::Rebalance(..)));
        self.carry_out_unasked(id, outcome, removal, Then::Retried { group: id.clone(), timer }, cx);
    }

    pub(super) fn on_consumer_rebalance_timer(
        &mut self,
        id: &GroupId,
        member: &MemberId,
        cx: &mut Context<'_>,
    ) {
        let deadlines = self.consumer_group(id).and_then(|group| group.deadlines.get(member));
        if let Some((_, epoch)) = deadlines.and_then(|deadlines| deadlines.rebalance) {
            self.on_member_timer(id, MemberTimer::Rebalance(member.clone(), epoch), cx);
        }
    }

    /// What a timer came to could not be written, or took too long: it runs out again in half a second, whatever was set
    /// meanwhile (`CoordinatorTimerImpl`).
    pub(super) fn retry_timer(&mut self, id: &GroupId, timer: MemberTimer, cx: &mut Context<'_>) {
        let timeout_ms = TIMER_RETRY_MS;
        if let (Some(Group::Share(_)), MemberTimer::Session(member)) = (self.groups.get(id), &timer) {
            return self.renew_share_session(id, member, timeout_ms, cx);
        }
        let timers = match timer {
            MemberTimer::Session(member) => vec![TimerChange::Session { member, timeout_ms }],
            MemberTimer::Rebalance(member, epoch) => {
                vec![TimerChange::Rebalance { member, timeout_ms, epoch }]
            }
            MemberTimer::Join(member) => {
                vec![TimerChange::EndJoin(member.clone()), TimerChange::JoinUnlessSet { member, timeout_ms }]
            }
            MemberTimer::Sync(member) => vec![TimerChange::Sync { member, timeout_ms }],
        };
        if let Some(Group::Consumer(group)) = self.groups.get_mut(id) {
            let (outcome, group) = (Outcome::of_timers(timers), Rc::make_mut(group));
            let _ = group.carry_out(&outcome, cx.now);
            set_timers(id, &outcome, &group.deadlines, cx);
        }
    }

    /// The deadlines of somebody who is a member no more, such as a static member's former self.
    fn forget(&mut self, id: &GroupId, member: &MemberId, gone: bool) {
        if gone && self.consumer_group(id).is_some() {
            self.consumer_group_mut(id).deadlines.remove(member);
        }
    }

    pub(super) fn on_regex_timer(&mut self, id: &GroupId, cx: &mut Context<'_>) {
        let Some(group) = self.consumer_group(id) else { return };
        let Some(regexes) = group.resolving.clone() else { return };
        let resolved = resolve_regexes(&regexes, cx.image, cx.now.wall_ms());
        let outcome = group.regexes_resolved(resolved, &cx.around());
        self.consumer_group_mut(id).resolving = None;
        self.carry_out_unasked(id, Some(outcome), MemberRemoval::Left, Then::Nothing, cx);
    }

    /// Some group of the newer protocols subscribes to one of the topics.
    pub(in crate::kafka::group) fn reads_any_of(&self, topics: &BTreeSet<Topic>) -> bool {
        let consumers = self.consumer_groups().map(|group| group.subscribed_topics());
        let shares = self.share_groups().map(|group| group.subscribed_topics());
        consumers.chain(shares).any(|subscribed| !subscribed.is_disjoint(topics))
    }

    pub(in crate::kafka::group) fn on_topics_changed(&mut self, topics: &BTreeSet<Topic>) {
        let concerns = |group: &Group| topics.iter().any(|topic| group.is_subscribed_to(topic));
        for group in self.groups.values_mut().filter(|group| concerns(group)) {
            match group {
                Group::Classic(_) => {}
                Group::Consumer(group) => Rc::make_mut(group).base.request_metadata_refresh(),
                Group::Share(group) => Rc::make_mut(group).base.request_metadata_refresh(),
            }
        }
    }

    // Administrators.

    pub(in crate::kafka::group) fn describe_consumer_group(
        &self,
        id: &m::GroupId,
        default: ServerAssignor,
        image: &ClusterImage,
    ) -> DescribedGroup {
        if let Some(group) = self.committed_groups.get(&GroupId::new(id)).and_then(Group::consumer) {
            return group.describe(default, image);
        }
        let text = match self.groups.get(&GroupId::new(id)) {
            Some(Group::Classic(_) | Group::Share(_)) => format!("Group {} is not a consumer group.", &**id),
            _ => format!("Group {} not found.", &**id),
        };
        DescribedGroup::default()
            .with_group_id(id.clone())
            .with_error_code(ErrorCode::GroupIdNotFound.code())
            .with_error_message(Some(StrBytes::from_string(text)))
    }

    // Loading.

    /// A record of a group that is gone is passed over.
    pub(super) fn replay_consumer(&mut self, id: GroupId, record: &ConsumerRecord, has_value: bool) {
        match self.groups.get(&id) {
            Some(Group::Consumer(_)) => {}
            None if has_value => {}
            // It was made for offsets, and stands in no record itself.
            Some(Group::Classic(group)) if has_value => {
                assert!(group.is_simple(), "{id} is a classic group when a record of a consumer group comes");
            }
            _ => return,
        }
        if matches!(record, ConsumerRecord::Target(..)) && plant::is(Plant::TargetsNotLoaded) {
            return;
        }
        if self.consumer_group_mut(&id).replay(record) == Replayed::Deleted {
            self.groups.remove(&id);
        }
    }

    pub(super) fn newest_modern_groups(&self) -> BTreeMap<GroupId, Group> {
        let modern = self.groups.iter().filter(|(_, group)| group.classic().is_none());
        modern.map(|(id, group)| (id.clone(), group.clone())).collect()
    }

    /// What was read above the high watermark counts for administrators once that is there.
    pub(super) fn commit_modern_groups_later(&mut self, log_end: Offset) {
        let newest = self.newest_modern_groups();
        let gone = self.committed_groups.iter().filter(|(id, _)| !newest.contains_key(id));
        let removed = gone.map(|(id, group)| (id.clone(), group.clone())).collect();
        let modern = newest.into_iter().map(|(id, after)| ModernChange { id, before: None, after });
        let applied = Applied { removed, modern: modern.collect(), ..Applied::default() };
        self.tokens += 1;
        let (token, last_offset, then) = (self.tokens, Some(log_end + -1), Then::Nothing);
        self.waiting.push_back(Waiting { token, last_offset, applied, then });
    }

    /// Members have their full timeouts from now on (R-GRP-4).
    pub(super) fn expect_consumer_group(&mut self, id: &GroupId, cx: &mut Context<'_>) {
        let Some(group) = self.consumer_group(id) else { return };
        let session_timeout_ms = i64::from(cx.consumer_config(id).session_timeout_ms);
        let mut timers = Vec::new();
        for member in group.base.members.values() {
            timers.push(TimerChange::Session { member: member.id.clone(), timeout_ms: session_timeout_ms });
            if member.state == MemberState::UnrevokedPartitions {
                let (member, epoch, timeout_ms) =
                    (member.id.clone(), member.epoch, i64::from(member.rebalance_timeout_ms));
                timers.push(TimerChange::Rebalance { member, timeout_ms, epoch });
            }
        }
        let outcome = Outcome::of_timers(timers);
        self.carry_out(id, &outcome, MemberRemoval::Left, Vec::new(), Then::Nothing, cx);
    }
}

fn not_of_consumers(id: &GroupId) -> Refusal {
    Refusal::new(ErrorCode::GroupIdNotFound, format!("Group {id} is not a consumer group."))
}

fn set_timers<R>(
    id: &GroupId,
    outcome: &Outcome<R>,
    deadlines: &BTreeMap<MemberId, Deadlines>,
    cx: &mut Context<'_>,
) {
    for change in &outcome.timers {
        match change {
            TimerChange::Session { member, timeout_ms } => {
                cx.set_timer(cx.session_timer(id, member), cx.now.plus_ms(*timeout_ms));
            }
            TimerChange::Rebalance { member, timeout_ms, .. } => {
                cx.set_timer(cx.rebalance_timer(id, member), cx.now.plus_ms(*timeout_ms));
            }
            TimerChange::EndRebalance(member) => cx.cancel_timer(cx.rebalance_timer(id, member)),
            // One that is set already stays.
            TimerChange::JoinUnlessSet { member, .. } => {
                let at = deadlines.get(member).and_then(|deadlines| deadlines.join);
                at.into_iter().for_each(|at| cx.set_timer(cx.member_join_timer(id, member), at));
            }
            TimerChange::EndJoin(member) => cx.cancel_timer(cx.member_join_timer(id, member)),
            TimerChange::Sync { member, timeout_ms } => {
                cx.set_timer(cx.member_sync_timer(id, member), cx.now.plus_ms(*timeout_ms));
            }
            TimerChange::EndSync(member) => cx.cancel_timer(cx.member_sync_timer(id, member)),
            TimerChange::End(member) => end_timers_of(id, member, cx),
        }
    }
}

/// What was to take the group's place could not be written: its deadlines are as they were.
pub(super) fn bring_back_timers(group: &Group, cx: &mut Context<'_>) {
    let Some(group) = group.consumer() else { return };
    let (id, now) = (&group.base.id, cx.now);
    for (member, deadlines) in &group.deadlines {
        let Deadlines { session, rebalance, join, sync } = *deadlines;
        let timers = [
            (session, cx.session_timer(id, member)),
            (rebalance.map(|(at, _)| at), cx.rebalance_timer(id, member)),
            (join, cx.member_join_timer(id, member)),
            (sync, cx.member_sync_timer(id, member)),
        ];
        for (at, timer) in timers {
            at.filter(|at| *at > now).into_iter().for_each(|at| cx.set_timer(timer.clone(), at));
        }
    }
}

/// Another broker coordinates the group.
pub(super) fn end_timers(group: &ConsumerGroup, cx: &mut Context<'_>) {
    let id = &group.base.id;
    group.deadlines.keys().for_each(|member| end_timers_of(id, member, cx));
    cx.cancel_timer(cx.regex_timer(id));
}

fn end_timers_of(id: &GroupId, member: &MemberId, cx: &mut Context<'_>) {
    cx.cancel_timer(cx.session_timer(id, member));
    cx.cancel_timer(cx.rebalance_timer(id, member));
    cx.cancel_timer(cx.member_join_timer(id, member));
    cx.cancel_timer(cx.member_sync_timer(id, member));
}
