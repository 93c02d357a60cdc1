//! close(): what a consumer does on its way out (R-CONS-17, R-CONS-27).

use super::listener::Then;
use super::{Activity, CloseStep, Consumer, ConsumerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::RevokeReason;
use crate::kafka::time::Time;

/// close()'s own default.
const CLOSE_TIMEOUT_MS: i64 = 30_000;

/// What is to become of the membership (`CloseOptions.GroupMembershipOperation`, KIP-1092).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupMembership {
    /// A dynamic member leaves, a static one stays.
    #[default]
    Default,
    Leave,
    Remain,
}

/// How to close (Kafka's `CloseOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CloseOptions {
    pub membership: GroupMembership,
    /// `None`: 30 s.
    pub timeout_ms: Option<i64>,
}

impl Consumer {
    /// Asks the application to stop: it finishes its loop up to the next poll and closes the consumer there, as with a
    /// flag and wakeup(). The process ends by [`Effect::Exit`](crate::kafka::effects::Effect::Exit).
    pub fn close(&mut self, now: Time, options: CloseOptions, fx: &mut Effects<ConsumerTimer>) {
        match self.program.activity {
            _ if self.is_in_close() => return,
            Activity::Stopped | Activity::Closing { .. } => return,
            Activity::Polling { .. } | Activity::Idle => self.begin_close(now, options),
            Activity::Processing { .. }
            | Activity::Committing { .. }
            | Activity::Hanging { .. }
            | Activity::Calling { .. }
            | Activity::Looking { .. }
            | Activity::Reacting { .. }
            | Activity::CommittingAsync => {
                self.close_requested = Some(options);
            }
        }
        self.run(now, fx);
    }

    pub(super) fn begin_close(&mut self, now: Time, options: CloseOptions) {
        let all_ms = options.timeout_ms.unwrap_or(CLOSE_TIMEOUT_MS);
        let timeout_ms = all_ms.min(self.config.common.request_timeout_ms);
        let until = now.plus_ms(timeout_ms);
        // Whoever was called back will not return.
        self.program.leave_callback();
        self.listening = None;
        self.close_requested = Some(options);
        self.program.activity = Activity::Closing { until, step: CloseStep::Committing };
        // commitSync() would throw what is fatal, which close() does not tell.
        if self.config.auto_commit_interval_ms.is_some() && self.membership.fatal.is_none() {
            self.begin_sync_commit(now, timeout_ms, true, None);
        }
    }

    /// close(): commit, give up partitions, leave, end the fetch sessions, exit (R-CONS-17, R-CONS-27).
    pub(super) fn run_close(
        &mut self,
        now: Time,
        until: Time,
        step: CloseStep,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        match step {
            CloseStep::Committing if !self.sync_commit_is_over(now, fx) => false,
            CloseStep::Committing if self.commits.wait_for_coordinator() && now < until => false,
            CloseStep::Committing => {
                match self.subscription.is_in_group() {
                    true => self.drop_all(now, RevokeReason::Closing, Then::Close, fx),
                    false => self.leave_in_close(now, fx),
                }
                true
            }
            CloseStep::Leaving if now < until => false,
            CloseStep::Left if self.commits.async_pending() > 0 && now < until => false,
            CloseStep::Leaving | CloseStep::Left => {
                if self.config.is_modern {
                    self.call_back(fx);
                }
                let left = if now < until { self.close_sessions(now, fx) } else { 0 };
                let step = CloseStep::EndingSessions { left };
                self.program.activity = Activity::Closing { until, step };
                true
            }
            CloseStep::EndingSessions { left } if left > 0 && now < until => false,
            CloseStep::EndingSessions { .. } => {
                self.program.activity = Activity::Stopped;
                fx.exit();
                true
            }
        }
    }

    pub(super) fn on_session_closed(&mut self) {
        if let Activity::Closing { step: CloseStep::EndingSessions { left }, .. } = &mut self.program.activity
        {
            *left -= 1;
        }
    }

    pub(super) fn on_leave_group(&mut self) {
        if let Activity::Closing { step: step @ CloseStep::Leaving, .. } = &mut self.program.activity {
            *step = CloseStep::Left;
        }
    }
}
