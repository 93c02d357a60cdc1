//! The application is called back about its partitions (Kafka's `ConsumerRebalanceListenerInvoker`): what poll() or close()
//! was about to do goes on when the callback has returned.
//!
//! The classic consumer calls inside its join, the newer one when its background thread has asked for that; in both it is the
//! application's thread inside poll(), unsubscribe() or close(), and nothing but heartbeats goes on meanwhile (R-CONS-7). Of a callback
//! that throws, poll() throws; the classic consumer has then done all that it was about to, and the newer one has not, but for
//! lost partitions.
//!
//! **Invariant:** partitions are given up behind the callback that says so, and added before theirs.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::reason::LeaveReason;
use super::{Activity, CloseStep, Consumer, ConsumerTimer, Exception};
use crate::client::member::{LocalAssignment, Phase};
use crate::client::program::{Callback, Reaction, RunsProgram};
use crate::kafka::effects::Effects;
use crate::kafka::event::{ApplicationEvent, Event, RevokeReason};
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

/// What the consumer does when a callback has returned.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// It owns these alone, and joins.
    Join {
        kept: Vec<TopicPartition>,
    },
    /// It takes over what the leader has planned.
    TakePlan {
        assignment: Rc<[TopicPartition]>,
        owned: BTreeSet<TopicPartition>,
    },
    /// With the newer protocol it takes over what it was given, and says so when the next callback has returned.
    Take(LocalAssignment),
    Acknowledge(LocalAssignment),
    /// It is out of its group.
    GiveUp,
    /// close() goes on.
    Close,
    Unsubscribe,
    Nothing,
}

/// A callback that has not returned.
#[derive(Clone, Debug)]
pub(super) struct Listening {
    callback: Callback,
    since: Time,
    threw: bool,
    then: Then,
}

impl Consumer {
    /// Calls the application back, if it listens to that, and goes on with `then` as soon as it returns.
    pub(super) fn call_listener(
        &mut self,
        now: Time,
        callback: Callback,
        then: Then,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if !self.program.enter(callback) {
            return self.after_callback(now, then, fx);
        }
        self.listening = Some(Rc::new(Listening { callback, since: now, threw: false, then }));
        // The call of poll() that comes here has just said that it lives.
        self.membership.heartbeat.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
        self.come_to_line(now, fx);
    }

    pub(super) fn is_called_back(&self) -> bool {
        self.listening.is_some()
    }

    /// Whether close() was called, be it that the thread is in a callback of it.
    pub(super) fn is_in_close(&self) -> bool {
        let activity = self.program.caller().unwrap_or(self.program.activity);
        matches!(activity, Activity::Closing { .. })
    }

    /// Begins with a line of the callback.
    pub(super) fn react(&mut self, now: Time, reaction: Reaction, fx: &mut Effects<ConsumerTimer>) {
        let api_timeout_ms = self.config.default_api_timeout_ms;
        self.program.activity = match reaction {
            Reaction::Wait { us } => Activity::Reacting { until: now.plus_us(us) },
            Reaction::CommitAsync => {
                self.commit_async(now, None, fx);
                Activity::CommittingAsync
            }
            Reaction::Commit => {
                self.begin_sync_commit(now, api_timeout_ms, false, None);
                Activity::Committing { since: now }
            }
            Reaction::CommitDone => {
                let offsets = self.done_by_workers();
                self.begin_sync_commit(now, api_timeout_ms, false, Some(offsets));
                Activity::Committing { since: now }
            }
            Reaction::Throw => return self.throw_in_callback(now, fx),
        };
    }

    /// A line of the callback throws.
    fn throw_in_callback(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if let Some(listening) = &mut self.listening {
            Rc::make_mut(listening).threw = true;
        }
        self.program.leave_callback();
        self.callback_is_over(now, fx);
    }

    /// The thread is back where it was called back from.
    pub(super) fn callback_is_over(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Some(listening) = self.listening.take() else { return };
        let Listening { callback, since, threw, then } = Rc::unwrap_or_clone(listening);
        let took_ms = now.ms_since(since);
        let client = self.spec.name.clone();
        let method = callback.method();
        fx.event(Event::Application(ApplicationEvent::CalledBack { client, method, took_ms, threw }));
        if threw {
            self.listener_threw = self.listener_threw.or(Some(callback));
        }
        let fails = threw && matches!(then, Then::Take(_) | Then::Acknowledge(_));
        if !fails {
            self.after_callback(now, then, fx);
        }
        if !self.is_called_back()
            && let Some(callback) = self.listener_threw.take()
            && !self.is_in_close()
        {
            self.will_throw(Exception::Listener(callback));
        }
        if self.program.activity == Activity::Idle {
            // unsubscribe() has returned, between two lines.
            self.start_line(now, fx);
        }
    }

    pub(super) fn after_callback(&mut self, now: Time, then: Then, fx: &mut Effects<ConsumerTimer>) {
        match then {
            Then::Join { kept } => {
                self.keep_only(&kept);
                self.prepared_to_join();
            }
            Then::TakePlan { assignment, owned } => self.take_plan(now, &assignment, &owned, fx),
            Then::Take(taken) => self.take_assignment(now, taken, fx),
            Then::Acknowledge(taken) => {
                if self.is_reconciling(&taken) {
                    self.change_member(|member| member.take(taken));
                }
            }
            Then::GiveUp => self.keep_only(&[]),
            Then::Close => {
                self.keep_only(&[]);
                self.leave_in_close(now, fx);
            }
            Then::Unsubscribe => {
                self.keep_only(&[]);
                self.leave_after_unsubscribe(now, fx);
            }
            Then::Nothing => {}
        }
    }

    fn keep_only(&mut self, kept: &[TopicPartition]) {
        if self.subscription.partitions() != kept {
            self.subscription.assign(kept);
        }
    }

    /// A member of the newer protocol is out of its group, which its background thread finds: what it owned is read no more,
    /// and the application hears of it in its next poll(). False: it does not listen to that.
    pub(super) fn defers_loss(&mut self) -> bool {
        let owned = self.subscription.partitions();
        if owned.is_empty() || self.is_in_close() || !self.program.listens_to(Callback::Lost) {
            return false;
        }
        self.subscription.mark_pending_revocation();
        self.has_lost = true;
        true
    }

    /// poll(): the application hears of partitions that were lost since the last one.
    pub(super) fn tell_lost(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if std::mem::take(&mut self.has_lost) {
            self.give_up_all(now, RevokeReason::Lost, Then::GiveUp, fx);
        }
    }

    /// Whether this is what the member brings about now.
    pub(super) fn is_reconciling(&self, taken: &LocalAssignment) -> bool {
        let member = self.membership.modern.as_ref();
        member.is_some_and(|member| {
            member.phase == Phase::Reconciling && member.under_way.as_ref() == Some(taken)
        })
    }

    /// The step of close() in which partitions were given up is over.
    pub(super) fn leave_in_close(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Activity::Closing { until, .. } = self.program.activity else { return };
        let membership = self.close_requested.unwrap_or_default().membership;
        let awaited = self.leave(now, LeaveReason::Closing, membership, fx);
        let step = if awaited { CloseStep::Leaving } else { CloseStep::Left };
        self.program.activity = Activity::Closing { until, step };
    }
}
