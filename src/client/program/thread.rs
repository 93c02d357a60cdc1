//! The application's thread as consumers of all kinds run it: from line to line, unless a person has it stopped there.
//!
//! **Invariant:** what a line does is the client's; when the next one begins is decided here.

use super::{Activity, Next, Order, Program};
use crate::kafka::effects::Effects;
use crate::kafka::time::Time;
use crate::kafka::types::ClientName;

/// A client whose thread runs a program.
pub(in crate::client) trait RunsProgram {
    type Timer;

    fn name(&self) -> ClientName;

    fn program_mut(&mut self) -> &mut Program;

    /// Does the current line, or begins with it.
    fn start_line(&mut self, now: Time, fx: &mut Effects<Self::Timer>);

    fn come_to_line(&mut self, now: Time, fx: &mut Effects<Self::Timer>) {
        let name = self.name();
        if !self.program_mut().is_stopped(now, false, &name, fx) {
            self.start_line(now, fx);
        }
    }

    /// The current line is done. True: the thread is in another one now, or stopped.
    fn finish_line(&mut self, now: Time, fx: &mut Effects<Self::Timer>) -> bool {
        let name = self.name();
        if !self.program_mut().is_stopped(now, true, &name, fx) {
            self.go_on(now, fx);
        }
        true
    }

    fn go_on(&mut self, now: Time, fx: &mut Effects<Self::Timer>) {
        match self.program_mut().next_line() {
            Next::Line => self.come_to_line(now, fx),
            Next::Caller => self.callback_returned(now, fx),
        }
    }

    /// The last line of a callback is done: whoever called goes on. Share consumers call nobody back.
    fn callback_returned(&mut self, _now: Time, _fx: &mut Effects<Self::Timer>) {}

    /// A thread that hangs goes on if its time is over, or, without `now`, because somebody wakes it: behind its line or with
    /// it. Whether it does.
    fn wake(&mut self, now: Time, is_woken: bool, fx: &mut Effects<Self::Timer>) -> bool {
        let Activity::Hanging { after, .. } = self.program_mut().activity else { return false };
        let (name, until) = (self.name(), (!is_woken).then_some(now));
        if !self.program_mut().wakes(until, &name, fx) {
            return false;
        }
        if after {
            self.go_on(now, fx);
        } else {
            self.start_line(now, fx);
        }
        true
    }

    /// Carries out what a person wants of the program.
    fn obey(&mut self, now: Time, order: Order, fx: &mut Effects<Self::Timer>) {
        let is_woken = order == Order::Wake && self.wake(now, true, fx);
        if !is_woken {
            let name = self.name();
            self.program_mut().obey(order, &name, fx);
        }
    }
}
