//! The times at which a consumer's two threads go on by themselves.

use super::{Activity, Consumer, ConsumerTimer, Coordinator, Join, JoinPrepare, SyncStep};
use crate::kafka::effects::Effects;
use crate::kafka::time::Time;

/// When each of the two threads of a consumer goes on by itself: the application's, and the one in the background.
pub type Due = (Option<Time>, Option<Time>);

/// Sets the timers of the two threads anew where they are not `armed` as they are due.
pub fn arm(armed: &mut Due, due: Due, fx: &mut Effects<ConsumerTimer>) {
    for (timer, armed, due) in
        [(ConsumerTimer::Application, &mut armed.0, due.0), (ConsumerTimer::Background, &mut armed.1, due.1)]
    {
        match due {
            Some(at) if *armed != due => fx.set_timer(timer, at),
            None if armed.is_some() => fx.cancel_timer(timer),
            _ => {}
        }
        *armed = due;
    }
}

impl Consumer {
    pub(super) fn arm_timers(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let stopped = self.program.activity == Activity::Stopped;
        let later = |due: Option<Time>| due.filter(|at| *at > now && !stopped);
        let due = (later(self.application_due(now)), later(self.background_thread_due()));
        arm(&mut self.armed, due, fx);
    }

    /// When the application's thread goes on if nothing arrives before.
    pub(super) fn application_due(&self, now: Time) -> Option<Time> {
        let mut due: Vec<Time> = self.metadata_due.into_iter().collect();
        match self.program.activity {
            Activity::Stopped | Activity::Idle | Activity::CommittingAsync | Activity::Calling { .. } => {}
            Activity::Processing { until } | Activity::Reacting { until } => due.push(until),
            Activity::Hanging { until, .. } => due.extend(until),
            Activity::Polling { until, .. } => {
                due.push(until);
                due.extend(self.poll_due(now));
            }
            Activity::Committing { .. } => {}
            Activity::Looking { until } => {
                due.push(until);
                due.extend(self.looking.as_ref().map(|looking| looking.retry_at));
            }
            Activity::Closing { until, .. } => due.push(until),
        }
        if let Some(sync) = &self.commits.sync() {
            due.push(sync.deadline);
            due.extend(if let SyncStep::ToSend(at) = sync.step { Some(at) } else { None });
        }
        due.extend(self.program.workers.next_at());
        if let Coordinator::Unknown { retry_at } = self.membership.coordinator {
            due.push(retry_at);
        }
        due.into_iter().filter(|at| *at > now).min()
    }

    /// Back-offs and intervals that end inside a poll().
    pub(super) fn poll_due(&self, now: Time) -> impl Iterator<Item = Time> {
        let interval = self.config.auto_commit_interval_ms.filter(|_| !self.commits_by_timer());
        let interval = interval.map(|_| self.commits.next_interval_at());
        let join = match self.membership.join {
            Join::Idle { not_before } => Some(not_before),
            _ => None,
        };
        let (commit, commit_until) = match self.membership.prepare {
            JoinPrepare::Retrying { at, until } => (Some(at), Some(until)),
            JoinPrepare::Committing { until } => (None, Some(until)),
            _ => (None, None),
        };
        let lookup = Some(self.committed_lookup.retry_at());
        let reset = self.subscription.next_retry(now);
        [interval, join, commit, commit_until, lookup, reset].into_iter().flatten()
    }
}
