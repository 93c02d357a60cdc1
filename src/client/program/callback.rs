//! What the application does when its consumer calls it back about partitions (Kafka's `ConsumerRebalanceListener`): lines
//! below those of the loop, such as `on revoked commit`. The thread runs them inside the poll() or close() that it is in.
//!
//! **Invariant:** behind the last line of a callback the thread is where it was before the first.

use std::fmt;

use super::{Activity, Program};
use crate::kafka::time::Time;

/// A method of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Callback {
    Revoked,
    Assigned,
    /// Without lines of its own those of [`Callback::Revoked`], as the interface has it.
    Lost,
}

impl Callback {
    const ALL: [Callback; 3] = [Callback::Revoked, Callback::Assigned, Callback::Lost];

    pub(super) fn parse(word: &str) -> Option<Callback> {
        Callback::ALL.into_iter().find(|callback| callback.to_string() == word)
    }

    /// Its name in Java.
    pub fn method(self) -> &'static str {
        match self {
            Callback::Revoked => "onPartitionsRevoked",
            Callback::Assigned => "onPartitionsAssigned",
            Callback::Lost => "onPartitionsLost",
        }
    }
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Callback::Revoked => "revoked",
            Callback::Assigned => "assigned",
            Callback::Lost => "lost",
        })
    }
}

/// What one line of a callback does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// commitSync() of the current positions.
    Commit,
    /// commitAsync() of the current positions.
    CommitAsync,
    /// commitSync() of what workers have done.
    CommitDone,
    /// The application's own work.
    Wait { us: i64 },
    /// The callback throws; lines of it that follow are not reached.
    Throw,
}

/// A callback that the thread is in, and where it was before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    /// Whose lines it runs.
    lines_of: Callback,
    line: i32,
    since: Time,
    activity: Activity,
}

/// Where the thread comes to behind a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Next {
    Line,
    /// The callback has returned.
    Caller,
}

impl Program {
    /// The lines of the loop; those of callbacks stand below.
    pub(super) fn loop_len(&self) -> i32 {
        self.lines.iter().take_while(|line| line.callback().is_none()).count() as i32
    }

    fn line_of(&self, callback: Callback, from: i32) -> Option<i32> {
        let lines = (0..).zip(&*self.lines).skip(from as usize);
        lines.filter(|(_, line)| line.callback() == Some(callback)).map(|(index, _)| index).next()
    }

    /// Whether the application does something in this callback.
    pub(in crate::client) fn listens_to(&self, callback: Callback) -> bool {
        self.lines_for(callback).is_some()
    }

    fn lines_for(&self, callback: Callback) -> Option<(Callback, i32)> {
        let own = self.line_of(callback, 0).map(|line| (callback, line));
        let inherited = || Some((Callback::Revoked, self.line_of(Callback::Revoked, 0)?));
        own.or_else(|| if callback == Callback::Lost { inherited() } else { None })
    }

    /// The thread is called back: it is before the first line of it. False: there is none.
    pub(in crate::client) fn enter(&mut self, callback: Callback) -> bool {
        let Some((lines_of, first)) = self.lines_for(callback) else { return false };
        let Program { line, since, activity, .. } = *self;
        self.called = Some(Called { lines_of, line, since, activity });
        self.line = first;
        true
    }

    /// Whether the thread is in a callback.
    pub fn is_called_back(&self) -> bool {
        self.called.is_some()
    }

    /// What the thread was doing when it was called back.
    pub(in crate::client) fn caller(&self) -> Option<Activity> {
        self.called.map(|called| called.activity)
    }

    /// Behind a line of a callback: the next one of it, or what the thread was doing before. `None`: it is in none.
    pub(super) fn next_in_callback(&mut self) -> Option<Next> {
        let called = self.called?;
        match self.line_of(called.lines_of, self.line + 1) {
            Some(line) => {
                self.line = line;
                Some(Next::Line)
            }
            None => {
                self.leave_callback();
                Some(Next::Caller)
            }
        }
    }

    /// The callback is over, whatever line of it the thread is in.
    pub(in crate::client) fn leave_callback(&mut self) {
        if let Some(Called { line, since, activity, .. }) = self.called.take() {
            (self.line, self.since, self.activity) = (line, since, activity);
        }
    }
}
