//! close(): what a share consumer does on its way out.
//!
//! **Invariant:** what was not said is given back by the end of the sessions; with implicit acknowledgement too, as
//! close() accepts nothing.

use super::{Activity, CloseStep, ShareConsumer};
use crate::client::consumer::ConsumerTimer;
use crate::kafka::effects::Effects;
use crate::kafka::time::Time;

/// close()'s own default.
const CLOSE_TIMEOUT_MS: i64 = 30_000;

impl ShareConsumer {
    /// Asks the application to stop: it finishes its loop up to the next poll and closes the consumer there, as with a
    /// flag and wakeup(). The process ends by [`Effect::Exit`](crate::kafka::effects::Effect::Exit).
    pub fn close(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        match self.program.activity {
            Activity::Stopped | Activity::Closing { .. } => return,
            Activity::Polling { .. } => self.begin_close(now, fx),
            _ => self.close_requested = true,
        }
        self.run(now, fx);
    }

    pub(super) fn begin_close(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let timeout_ms = CLOSE_TIMEOUT_MS.min(self.config.common.request_timeout_ms);
        let until = now.plus_ms(timeout_ms);
        self.program.activity = Activity::Closing { until, step: CloseStep::Committing };
        let said = self.current.take_said();
        self.begin_to_end_sessions(until, said, fx);
    }

    /// Acknowledge and end the sessions, leave the group, exit.
    pub(super) fn run_close(
        &mut self,
        now: Time,
        until: Time,
        step: CloseStep,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        let step = match step {
            CloseStep::Committing if !self.exchange.errands.is_empty() && now < until => return false,
            CloseStep::Committing if self.say_goodbye(now, true, fx) => CloseStep::Leaving,
            CloseStep::Leaving if now < until => return false,
            CloseStep::Committing
            | CloseStep::Leaving
            | CloseStep::Left
            | CloseStep::EndingSessions { .. } => {
                self.program.activity = Activity::Stopped;
                fx.exit();
                return true;
            }
        };
        self.program.activity = Activity::Closing { until, step };
        true
    }

    /// A goodbye is answered or lost.
    pub(super) fn on_goodbye(&mut self, kind: super::Heartbeat) {
        if kind == (super::Heartbeat::Goodbye { closing: true })
            && let Activity::Closing { step: step @ CloseStep::Leaving, .. } = &mut self.program.activity
        {
            *step = CloseStep::Left;
        }
    }
}
