//! Requests and timers of a shard that wait until what they wrote or saw is below the high watermark.

use std::rc::Rc;

use super::consumer::bring_back_timers;
use super::{Group, Shard};
use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::group::classic::join_error;
use crate::kafka::group::context::{Context, Part};
use crate::kafka::group::offsets::{self, Author, OffsetChange};
use crate::kafka::group::write::{
    Applied, Gone, ModernChange, Then, Write, coordinator_error, offset_fetch_error, refused,
};
use crate::kafka::group::{Append, GroupTimer};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::Offset;

/// A request or timer that waits for the log.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub token: u64,
    /// What has to be below the high watermark; unknown until the broker appended it.
    pub last_offset: Option<Offset>,
    pub applied: Applied,
    pub then: Then,
}

impl Shard {
    pub(super) fn submit(&mut self, write: Option<Write>, cx: &mut Context<'_>) {
        let Some(Write { records, applied, then }) = write else { return };
        if records.is_empty() {
            return self.after_writes(then, cx);
        }
        let writer = applied.transaction.as_ref().map(|transaction| transaction.writer);
        let token = self.wait(None, applied, then, cx);
        cx.append(Append { partition: cx.partition, token, records, writer });
    }

    /// A read of the state: it is answered once everything that it may have seen is safe.
    pub(super) fn after_writes(&mut self, then: Then, cx: &mut Context<'_>) {
        if self.waiting.is_empty() && self.high_watermark >= self.log_end {
            return self.finish(then, Ok(()), cx);
        }
        assert!(
            self.waiting.back().is_none_or(|last| last.last_offset.is_some()),
            "an append is carried out before the next request is handed in"
        );
        self.wait(Some(self.log_end + -1), Applied::default(), then, cx);
    }

    pub(super) fn wait(
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

    pub(in crate::kafka::group) fn on_appended(
        &mut self,
        token: u64,
        last_offset: Offset,
        cx: &mut Context<'_>,
    ) {
        if let Some(place) = self.waiting.iter().position(|waiting| waiting.token == token) {
            self.waiting[place].last_offset = Some(last_offset);
            let mut applied = std::mem::take(&mut self.waiting[place].applied);
            self.note_pending(&applied);
            std::mem::take(&mut applied.events).into_iter().for_each(|event| cx.event(event));
            self.waiting[place].applied = applied;
        }
        self.log_end = self.log_end.max(last_offset + 1);
        self.settle(cx);
    }

    /// Takes back what was done in the expectation of the write.
    pub(in crate::kafka::group) fn on_append_failed(
        &mut self,
        token: u64,
        error: ErrorCode,
        cx: &mut Context<'_>,
    ) {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.token == token) else { return };
        let Some(failed) = self.waiting.remove(place) else { return };
        if let Some(OffsetChange { group, author: Author::Client(client), .. }) =
            failed.applied.changes.first()
        {
            let (group, client) = (group.clone(), client.clone());
            cx.event(Event::Group(GroupEvent::CommitRefused {
                group,
                error: coordinator_error(error),
                client,
            }));
        }
        for change in failed.applied.changes.into_iter().rev() {
            self.newest.set(&change.group, &change.tp, change.before);
        }
        let created = failed.applied.created;
        if let Some(Group::Classic(mut group)) = created.as_ref().and_then(|id| self.groups.remove(id)) {
            for member in Rc::make_mut(&mut group).members.values_mut() {
                if let Some(to) = member.parked_join.take() {
                    cx.respond(to, join_error("", coordinator_error(error)));
                }
            }
        }
        for Gone { group, member, client, reason } in failed.applied.gone {
            cx.event(Event::Group(GroupEvent::MemberKept { group, member, client, reason, error }));
        }
        for (id, group) in failed.applied.removed {
            if created.as_ref() == Some(&id) {
                cx.event(Event::Group(GroupEvent::GroupConverted { group: id.clone(), classic: false }));
            }
            bring_back_timers(&group, cx);
            self.groups.insert(id, group);
        }
        for change in failed.applied.modern.into_iter().rev() {
            self.take_back(change, cx);
        }
        self.finish_waiting(token, failed.then, Err(error), cx);
    }

    pub(in crate::kafka::group) fn on_high_watermark(
        &mut self,
        high_watermark: Offset,
        cx: &mut Context<'_>,
    ) {
        self.high_watermark = self.high_watermark.max(high_watermark);
        self.settle(cx);
    }

    pub(super) fn settle(&mut self, cx: &mut Context<'_>) {
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
    pub(super) fn give_up_waiting(&mut self, token: u64, cx: &mut Context<'_>) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
            let then = std::mem::replace(&mut waiting.then, Then::Nothing);
            self.finish(then, Err(ErrorCode::RequestTimedOut), cx);
        }
    }

    pub(super) fn finish_waiting(
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

    pub(super) fn finish(&mut self, then: Then, result: Result<(), ErrorCode>, cx: &mut Context<'_>) {
        match then {
            Then::Nothing => {}
            Then::Answer { to, response } => match result {
                Ok(()) => cx.respond(to, response),
                Err(error) => cx.respond(to, refused(response, coordinator_error(error))),
            },
            Then::Retried { group, timer } => match result {
                Ok(()) | Err(ErrorCode::NotCoordinator) => {}
                Err(_) => self.retry_timer(&group, timer, cx),
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
            Then::StatesAsked { to, response, ask } => match (result, ask) {
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
