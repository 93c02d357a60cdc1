//! Groups with members go from one protocol to the other and back, and are mixed meanwhile (R-CG8-25).
//!
//! Mirrors `convertToConsumerGroup`, `convertToClassicGroup` and the classic requests at a consumer group.
//!
//! **Invariant:** a group changes its protocol by one batch of records, or not at all.

use std::collections::BTreeSet;
use std::rc::Rc;

use kafka_protocol::messages as m;

use super::consumer::end_timers;
use super::{Group, Shard};
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent, MemberRemoval, RebalanceReason};
use crate::kafka::group::classic::{ClassicGroup, Join, join_error, leave_result, sync_error};
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::group::context::Context;
use crate::kafka::group::modern::Refusal;
use crate::kafka::group::modern::consumer::{ConsumerGroup, Joined, Outcome, Return};
use crate::kafka::group::write::{Applied, Gone, Then, Write};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::types::{ClientName, GroupId, MemberId};

impl Shard {
    // Classic requests at a group of the newer protocol.

    pub(super) fn join_consumer_group(&mut self, id: &GroupId, join: &Join<'_>, cx: &mut Context<'_>) {
        let Some(group) = self.consumer_group(id) else { return };
        let new_id = MemberId::new(&cx.ids.next().to_string());
        let (config, max_size) = (cx.consumer_config(id), cx.config.max_size);
        match group.classic_join(join, new_id, &config, max_size, &cx.around()) {
            Err(refusal) => cx.respond(join.id, join_error("", refusal.error)),
            Ok(Joined::Named(member)) => {
                cx.respond(join.id, join_error(member.as_str(), ErrorCode::MemberIdRequired));
            }
            Ok(Joined::Joins(outcome)) => self.answer_with(join.id, id, &outcome, cx),
            Ok(Joined::GoesBack(back)) => self.go_back(join.id, id, *back, cx),
        }
    }

    pub(super) fn sync_consumer_group(
        &mut self,
        to: RequestId,
        id: &GroupId,
        request: &m::SyncGroupRequest,
        cx: &mut Context<'_>,
    ) {
        let Some(group) = self.consumer_group(id) else { return };
        match group.classic_sync(request, cx.image) {
            Ok(outcome) => self.answer_with(to, id, &outcome, cx),
            Err((error, timer)) => {
                cx.respond(to, sync_error(error));
                let outcome = Outcome::of_timers(timer.into_iter().collect());
                self.carry_out(id, &outcome, MemberRemoval::Left, Vec::new(), Then::Nothing, cx);
            }
        }
    }

    pub(super) fn heartbeat_consumer_group(
        &mut self,
        to: RequestId,
        id: &GroupId,
        request: &m::HeartbeatRequest,
        cx: &mut Context<'_>,
    ) {
        let Some(group) = self.consumer_group(id) else { return };
        match group.classic_heartbeat(request) {
            Ok(outcome) => self.answer_with(to, id, &outcome, cx),
            Err(refusal) => {
                cx.respond(to, m::HeartbeatResponse::default().with_error_code(refusal.error.code()));
            }
        }
    }

    pub(super) fn leave_consumer_group(
        &mut self,
        to: RequestId,
        id: &GroupId,
        request: &m::LeaveGroupRequest,
        cx: &mut Context<'_>,
    ) {
        let Some(group) = self.consumer_group(id) else { return };
        let (gone, results) = group.classic_leavers(request);
        let results = request.members.iter().zip(results).map(|(member, error)| leave_result(member, error));
        let response = m::LeaveGroupResponse::default().with_members(results.collect());
        let nothing = || Outcome::of_timers(Vec::new());
        let outcome = if gone.is_empty() { nothing() } else { group.without(&gone, cx.image) };
        self.answer_with(to, id, &outcome.answered(response), cx);
    }

    fn answer_with<R>(&mut self, to: RequestId, id: &GroupId, outcome: &Outcome<R>, cx: &mut Context<'_>)
    where
        R: Clone + Into<crate::kafka::protocol::Response>,
    {
        let records = outcome.records.iter().map(|record| record.encode(id)).collect();
        let then = Then::Answer { to, response: outcome.response.clone().into() };
        self.carry_out(id, outcome, MemberRemoval::Left, records, then, cx);
    }

    // From one protocol to the other.

    /// A classic group is about to take up the newer protocol: whoever waits in a rebalance of its joins anew. Timers of the
    /// old protocol stay, for the case that the records cannot be written; else they find nothing to do.
    pub(super) fn leave_classic_protocol(&mut self, id: &GroupId, cx: &mut Context<'_>) {
        let Some(group) = self.group_mut(id) else { return };
        cx.event(Event::Group(GroupEvent::GroupConverted { group: id.clone(), classic: false }));
        for member in group.members.values_mut() {
            if let Some(to) = member.parked_join.take() {
                cx.respond(to, join_error(member.id.as_str(), ErrorCode::RebalanceInProgress));
            }
            if let Some(to) = member.parked_sync.take() {
                cx.respond(to, sync_error(ErrorCode::RebalanceInProgress));
            }
        }
    }

    /// Only classic members are left.
    pub(super) fn downgrades_without(
        &self,
        id: &GroupId,
        gone: &BTreeSet<MemberId>,
        cx: &Context<'_>,
    ) -> bool {
        let Some(group) = self.consumer_group(id).filter(|_| !gone.is_empty()) else { return false };
        let mut left = group.base.members.values().filter(|member| !gone.contains(&member.id)).peekable();
        let count = left.clone().count() as i64;
        left.peek().is_some()
            && left.all(|member| member.is_classic())
            && cx.consumer_config(id).migration_policy.downgrades()
            && count <= i64::from(cx.config.max_size)
    }

    /// The last member of the newer protocol goes: the others rebalance among themselves.
    pub(super) fn downgrade(
        &mut self,
        id: &GroupId,
        gone: &BTreeSet<MemberId>,
        reason: MemberRemoval,
        then: Then,
        cx: &mut Context<'_>,
    ) {
        let Some(consumer) = self.end_consumer_group(id, cx) else { return };
        let (mut last, mut removed) = (ClientName::new(""), Vec::new());
        for member in gone.iter().filter_map(|member| consumer.base.members.get(member)) {
            let (group, member, client) = (id.clone(), member.id.clone(), member.client.clone());
            last = client.clone();
            let gone = Gone { group, member, client, reason };
            cx.event(gone.told());
            removed.push(gone);
        }
        cx.event(Event::Group(GroupEvent::GroupConverted { group: id.clone(), classic: true }));
        let records = consumer.tombstones();
        let mut classic = ClassicGroup::of_consumer(&consumer, gone, None, cx.now, cx.image);
        let mut write = begin_classic_group(&mut classic, consumer, records, then, cx);
        write.applied.gone = removed;
        let rebalance = classic.prepare_rebalance(RebalanceReason::MemberRemoved(reason), &last, cx);
        self.groups.insert(id.clone(), Group::Classic(classic.into()));
        self.submit(Some(write), cx);
        self.submit(rebalance, cx);
    }

    /// A classic member takes the place of the last one of the newer protocol. If nothing else changes, nobody notices.
    fn go_back(&mut self, to: RequestId, id: &GroupId, back: Return, cx: &mut Context<'_>) {
        let Some(consumer) = self.end_consumer_group(id, cx) else { return };
        cx.event(Event::Group(GroupEvent::GroupConverted { group: id.clone(), classic: true }));
        let Return { replacement, outcome, rebalances } = back;
        let mut records: Vec<_> = outcome.records.iter().map(|record| record.encode(id)).collect();
        records.extend(consumer.tombstones_with(Some(&replacement)));
        let none = BTreeSet::new();
        let mut classic = ClassicGroup::of_consumer(&consumer, &none, Some(&replacement), cx.now, cx.image);
        let then = Then::Answer { to, response: outcome.response.into() };
        let write = begin_classic_group(&mut classic, consumer, records, then, cx);
        let client = &replacement.new.client;
        let rebalance = match rebalances {
            true => classic.prepare_rebalance(RebalanceReason::TargetOutdated, client, cx),
            false => None,
        };
        self.groups.insert(id.clone(), Group::Classic(classic.into()));
        self.submit(Some(write), cx);
        self.submit(rebalance, cx);
    }

    fn end_consumer_group(&mut self, id: &GroupId, cx: &mut Context<'_>) -> Option<Rc<ConsumerGroup>> {
        let Some(Group::Consumer(consumer)) = self.groups.remove(id) else { return None };
        end_timers(&consumer, cx);
        Some(consumer)
    }
}

/// The members' sessions begin, and the group is written behind `records`. If that fails, `consumer` is back.
fn begin_classic_group(
    classic: &mut ClassicGroup,
    consumer: Rc<ConsumerGroup>,
    mut records: Vec<CoordinatorRecord>,
    then: Then,
    cx: &mut Context<'_>,
) -> Write {
    let plan = classic.members.values().map(|m| (m.id.clone(), m.assignment.clone())).collect();
    records.push(classic.to_record(&plan));
    for member in plan.into_keys() {
        classic.renew_session(&member, cx);
    }
    let removed = vec![(classic.id.clone(), Group::Consumer(consumer))];
    let applied = Applied { created: Some(classic.id.clone()), removed, ..Applied::default() };
    Write { records, applied, then }
}

/// The first member of the newer protocol joins a classic group that has members: what makes it one of the newer protocol.
pub(super) fn upgrade(
    classic: &ClassicGroup,
    config: &ConsumerGroupConfig,
    cx: &Context<'_>,
) -> Result<Outcome<()>, Refusal> {
    let why = if !config.migration_policy.upgrades() {
        "online upgrade is disabled"
    } else if !classic.is_of_consumers() {
        "the group does not use the consumer embedded protocol"
    } else if classic.members.len() as i64 > i64::from(config.max_size) {
        "the group size exceeds the consumer group maximum size"
    } else {
        return ConsumerGroup::of_classic(classic, cx.image);
    };
    let text = format!("Cannot upgrade classic group {} to consumer group because {why}.", classic.id);
    Err(Refusal::new(ErrorCode::GroupIdNotFound, text))
}
