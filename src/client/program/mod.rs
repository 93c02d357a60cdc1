//! The application that a consumer or share consumer is embedded in: a few visible lines that its thread runs in a loop.
//!
//! A [`Line`] is a call of the consumer (`poll`, `commit`, `accept`) or the application's own work (`process`). What Kafka
//! does only inside poll(), and therefore not while the application works, follows from the line the thread is in
//! (R-CONS-7). A person may exchange the lines, slow them down, and [`Stop`] the thread at one.
//!
//! **Invariant:** a program polls, so that its loop takes time.

mod callback;
mod line;
mod order;
mod stop;
mod thread;
mod workers;

use std::rc::Rc;

use callback::Called;
pub(in crate::client) use callback::Next;
pub use callback::{Callback, Reaction};
pub use line::{Committed, Line};
pub use order::{Order, OrderError, text};
pub use stop::{Passage, Stop, StopError, Which};
pub(in crate::client) use thread::RunsProgram;
pub use workers::Workers;

use crate::kafka::effects::Effects;
use crate::kafka::event::{ApplicationEvent, Event, Halt, OffsetRun};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, LeaderEpoch, Offset, TopicPartition};

/// The forms that lines have.
pub const KNOWN_LINES: &str = "poll, poll 250ms, process 20ms, commit, commit async, commit record, commit record offset, \
                               hand off 20ms to 4 workers, commit done; below them, for callbacks about partitions, on revoked commit, on assigned wait 2s, on lost throw; an application with a producer also has begin, send \
                               results, send offsets, send offsets by group, commit transaction, abort, flush; a share consumer also has accept, release 10%, reject offset 3, renew";

/// A program that cannot be run; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("line {line}: {text:?} is none of: {KNOWN_LINES}")]
    UnknownLine { line: i32, text: String },
    #[error("line {line}: {text:?} is no duration such as 20ms, 500us or 2s")]
    Duration { line: i32, text: String },
    #[error("line {line}: a poll waits for at least 1ms")]
    PollTooShort { line: i32 },
    #[error("a program without poll would never read a record")]
    NoPoll,
    #[error("{0}: only a share consumer acknowledges records one by one")]
    NotShared(Line),
    #[error("{0}: only an application that has a producer too can do that")]
    NotForConsumers(Line),
    #[error("line {line}: what a callback does, such as on revoked commit, stands below all other lines")]
    BelowCallback { line: i32 },
    #[error("{0}: a share consumer has no such line")]
    NotForShares(Line),
    #[error("line {line}: a pool has between 1 and 1000 workers")]
    Workers { line: i32 },
    #[error("{0}: IllegalStateException: Implicit acknowledgement of delivery is being used.")]
    Implicit(Line),
    #[error(
        "All records must be acknowledged in explicit acknowledgement mode: the program needs a line accept, release, \
         reject or renew for the rest of them"
    )]
    NotAll,
}

/// A record that poll() returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Returned {
    pub tp: TopicPartition,
    pub offset: Offset,
    /// How often it has been handed out, with this time; a share group counts that.
    pub delivery_count: Option<i16>,
}

/// What the application's thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The process has not started, or the program is over.
    Stopped,
    /// Subscribed to nothing: poll() would throw, and the application waits until somebody has it choose.
    Idle,
    /// Inside poll().
    Polling { since: Time, until: Time },
    /// Working on [`Program::record_in_hand`].
    Processing { until: Time },
    /// Inside commitSync().
    Committing { since: Time },
    /// Inside commitAsync(), which returns at once.
    CommittingAsync,
    /// Stuck before its line, or behind it, as in a call that does not return; until somebody wakes it, or until then. What
    /// other threads of the process do goes on.
    Hanging { since: Time, until: Option<Time>, after: bool },
    /// Inside a call that looks offsets up, which gives up at `until`.
    Looking { until: Time },
    /// Inside a call of the application's other client.
    Calling { since: Time },
    /// Inside a callback about partitions, in the application's own work.
    Reacting { until: Time },
    /// Inside close(), which gives up at `until`.
    Closing { until: Time, step: CloseStep },
}

/// How far close() is (R-CONS-17, R-CONS-27).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseStep {
    /// The last automatic commit is made.
    Committing,
    /// LeaveGroup is on its way.
    Leaving,
    /// The group was left, or was not joined.
    Left,
    /// The brokers are told to forget the fetch sessions; so many have not answered.
    EndingSessions { left: i32 },
}

/// The application's thread: which line it is in, and how far.
#[derive(Clone, Debug)]
pub struct Program {
    lines: Rc<[Line]>,
    /// Index of the current line.
    line: i32,
    /// Since when it is in that line, with the record in hand if there is one.
    since: Time,
    pub(in crate::client) activity: Activity,
    /// What the last poll returned.
    batch: Rc<[Returned]>,
    /// How many of them the current loop over records is done with.
    processed: i32,
    /// How many of them are processed, or handed to workers.
    finished: i32,
    /// The callback that the thread is in.
    called: Option<Called>,
    stops: Vec<Stop>,
    pub(in crate::client) workers: Workers,
    /// What it goes on with from its first line on.
    exchange: Option<Rc<[Line]>>,
}

impl Program {
    pub fn new(lines: &[Line]) -> Program {
        Program {
            lines: lines.into(),
            // A loop over records has none before the first poll.
            line: lines.iter().position(|line| !line.is_per_record()).unwrap_or_default() as i32,
            since: Time::ZERO,
            activity: Activity::Stopped,
            batch: Rc::from([]),
            processed: 0,
            finished: 0,
            called: None,
            stops: Vec::new(),
            workers: Workers::default(),
            exchange: None,
        }
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines that a person gave it and that it has not come to yet.
    pub fn next_lines(&self) -> Option<&[Line]> {
        self.exchange.as_deref()
    }

    /// Index of the current line, from 0.
    pub fn line_index(&self) -> i32 {
        self.line
    }

    pub fn line(&self) -> Line {
        self.lines[self.line as usize]
    }

    /// Since when the thread is in its line, with this record in hand.
    pub fn since(&self) -> Time {
        self.since
    }

    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// The records that the last poll returned.
    pub fn batch(&self) -> &[Returned] {
        &self.batch
    }

    /// How many records of [`Self::batch`] the current loop over them is done with.
    pub fn processed(&self) -> i32 {
        self.processed
    }

    /// The record that the current line is done with, also by a thread that hangs before it or has died in it.
    pub fn record_in_hand(&self) -> Option<&Returned> {
        match self.line().is_per_record() {
            true => self.batch.get(self.processed as usize),
            false => None,
        }
    }

    /// The pool of workers that the lines hand records to.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    pub(in crate::client) fn hand_over(&mut self, now: Time, us_per_record: i64, workers: i32) {
        self.workers.hand_over(now, &self.batch, us_per_record, workers);
        self.finished = self.batch.len() as i32;
    }

    /// Where the thread will be stopped.
    pub fn stops(&self) -> &[Stop] {
        &self.stops
    }

    pub(in crate::client) fn take_batch(&mut self, batch: Vec<Returned>) {
        self.batch = batch.into();
        self.finished = 0;
    }

    /// The thread is about to take other records: tells of those that it has and has not finished.
    pub(in crate::client) fn let_go<T>(&self, client: &ClientName, fx: &mut Effects<T>) {
        let left = &self.batch[self.finished as usize..];
        for of_partition in left.chunk_by(|a, b| a.tp == b.tp) {
            let offsets = of_partition.iter().map(|record| (LeaderEpoch::NONE, record.offset));
            let offsets = OffsetRun::of(offsets).into_iter().map(|run| (run.from, run.to)).collect();
            let (client, tp) = (client.clone(), of_partition[0].tp.clone());
            fx.event(Event::Application(ApplicationEvent::LetGo { client, tp, offsets }));
        }
    }

    /// The thread is at its first line, with no records.
    pub(in crate::client) fn begin_again(&mut self) {
        self.take_batch(Vec::new());
        self.processed = 0;
        self.line = self.lines.iter().position(|line| !line.is_per_record()).unwrap_or_default() as i32;
    }

    /// Goes on to the next line, with the next record in a loop over them, or back to whoever called the thread back.
    pub(in crate::client) fn next_line(&mut self) -> Next {
        if let Some(next) = self.next_in_callback() {
            return next;
        }
        if self.line().is_per_record() {
            if !self.ends_loop() {
                self.line += 1;
                return Next::Line;
            }
            self.processed += 1;
            if !self.is_batch_done() {
                self.line = self.loop_start();
                return Next::Line;
            }
        }
        self.leave_line();
        // A loop over no records is none. The program polls, so it does not consist of loops alone.
        while self.line().is_per_record() && self.is_batch_done() {
            self.leave_line();
        }
        Next::Line
    }

    /// To the line below, or to the first one, and to the first record.
    fn leave_line(&mut self) {
        self.processed = 0;
        self.line = (self.line + 1) % self.loop_len();
        if self.line == 0
            && let Some(lines) = self.exchange.take()
        {
            self.lines = lines;
        }
    }

    fn ends_loop(&self) -> bool {
        !self.lines.get(self.line as usize + 1).is_some_and(Line::is_per_record)
    }

    fn loop_start(&self) -> i32 {
        let above = self.lines[..self.line as usize].iter().rev().take_while(|line| line.is_per_record());
        self.line - above.count() as i32
    }

    pub(in crate::client) fn start_processing(&mut self, now: Time, us_per_record: i64) {
        self.activity = Activity::Processing { until: now.plus_us(us_per_record) };
    }

    /// The record that is done by `now`, if one is.
    pub(in crate::client) fn finish_record(&mut self, now: Time) -> Option<Returned> {
        match self.activity {
            Activity::Processing { until } if until <= now => {
                self.finished = self.finished.max(self.processed + 1);
                self.record_in_hand().cloned()
            }
            _ => None,
        }
    }

    fn is_batch_done(&self) -> bool {
        self.processed as usize >= self.batch.len()
    }

    /// The thread comes to its line or, with `after`, has left it, and goes on unless a person has it stopped there: it
    /// then dies with its process, stands still with it, or hangs.
    pub(in crate::client) fn is_stopped<T>(
        &mut self,
        now: Time,
        after: bool,
        client: &ClientName,
        fx: &mut Effects<T>,
    ) -> bool {
        if !after {
            self.since = now;
        }
        let (number, line) = (self.line + 1, self.line());
        let record = self.record_in_hand().map(|record| (record.tp.clone(), record.offset));
        let in_hand = record.as_ref().map(|(tp, offset)| (tp, *offset));
        let (is_idle, mut met) = (self.batch.is_empty(), None);
        self.stops.retain_mut(|stop| {
            let comes_by = met.is_none() && stop.comes_by(number, line, after, is_idle, in_hand);
            if comes_by {
                met = Some((stop.how, stop.for_us));
            }
            !comes_by
        });
        let Some((how, for_us)) = met else { return false };
        let text = line.to_string().into();
        let client = client.clone();
        let halted = ApplicationEvent::Halted { client, how, line: number, text, after, record };
        fx.event(Event::Application(halted));
        match how {
            Halt::Crash => {
                self.activity = Activity::Stopped;
                fx.halt(how);
            }
            // When the process moves again, so does the thread.
            Halt::Freeze => {
                self.activity = Activity::Hanging { since: now, until: Some(now.plus_us(1)), after };
                fx.halt(how);
            }
            Halt::Hang => {
                let until = for_us.map(|us| now.plus_us(us));
                self.activity = Activity::Hanging { since: now, until, after };
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::Topic;

    fn record(offset: i64) -> Returned {
        let tp = TopicPartition::new(&Topic::new("t"), 0);
        Returned { tp, offset: Offset(offset), delivery_count: None }
    }

    fn program(lines: &[&str], batch: &[i64]) -> Program {
        let mut program = Program::new(&Line::parse_program(lines).unwrap());
        program.take_batch(batch.iter().copied().map(record).collect());
        program
    }

    /// Goes through one loop of the program: its lines by number, with the record in hand.
    fn walk(program: &mut Program) -> String {
        let mut text = Vec::new();
        loop {
            let in_hand = program.record_in_hand().map(|record| format!(":{}", record.offset));
            text.push(format!("{}{}", program.line_index() + 1, in_hand.unwrap_or_default()));
            program.next_line();
            if program.line_index() == 0 {
                return text.join(" ");
            }
        }
    }

    #[test]
    fn lines_for_each_record_that_follow_each_other_are_one_loop() {
        let lines = ["poll", "process 1ms", "commit record", "commit", "process 2ms"];
        assert_eq!(walk(&mut program(&lines, &[7, 8])), "1 2:7 3:7 2:8 3:8 4 5:7 5:8");
        assert_eq!(walk(&mut program(&lines, &[])), "1 4", "no loop without a record");
        assert_eq!(walk(&mut program(&["poll", "commit", "process 1ms"], &[7])), "1 2 3:7");
    }

    #[test]
    fn a_record_is_done_when_its_time_is_over() {
        let mut program = program(&["poll", "process 20ms"], &[7, 8]);
        program.next_line();
        program.start_processing(Time::from_ms(100), 20_000);
        assert_eq!(program.finish_record(Time::from_ms(119)), None);
        assert_eq!(program.record_in_hand(), Some(&record(7)));
        assert_eq!(program.finish_record(Time::from_ms(120)), Some(record(7)));
        program.next_line();
        assert_eq!(program.record_in_hand(), Some(&record(8)));
    }

    #[test]
    fn an_exchanged_program_begins_at_its_first_line_and_a_pace_at_once() {
        let mut program = program(&["poll", "process 20ms", "commit"], &[7]);
        program.next_line();
        let fx: &mut Effects<()> = &mut Effects::default();
        let client = ClientName::new("c");
        let lines = Line::parse_program(&["poll", "commit", "process 20ms"]).unwrap();
        program.obey(Order::Exchange(lines), &client, fx);
        program.obey(Order::Pace { us_per_record: 5_000 }, &client, fx);
        assert_eq!(program.line(), Line::Process { us_per_record: 5_000 });
        program.next_line();
        assert_eq!(program.line(), Line::Commit, "the old one goes on to its end");
        program.next_line();
        assert_eq!(program.next_lines(), None);
        program.next_line();
        assert_eq!((program.line_index(), program.line()), (1, Line::Commit));
        program.next_line();
        assert_eq!(program.line(), Line::Process { us_per_record: 5_000 });
    }

    fn stop(at: Which, after: bool, passage: Passage) -> Stop {
        Stop { how: Halt::Crash, at, after, passage, for_us: None }
    }

    /// Where a program of two records is stopped, as in [`walk`].
    fn check_stopped(stop: Stop, place: &str) {
        let mut program = program(&["poll", "process 1ms", "commit"], &[7, 8]);
        stop.check(program.lines()).unwrap();
        let after = stop.after;
        let client = ClientName::new("c");
        program.stops.push(stop);
        for _ in 0..20 {
            let fx: &mut Effects<()> = &mut Effects::default();
            let is_stopped = program.is_stopped(Time::ZERO, false, &client, fx)
                || program.is_stopped(Time::ZERO, true, &client, fx);
            if is_stopped {
                let in_hand = program.record_in_hand().map(|record| format!(":{}", record.offset));
                let place_now = format!("{}{}", program.line_index() + 1, in_hand.unwrap_or_default());
                assert_eq!(place_now, place, "after: {after}");
                assert!(program.stops().is_empty() && program.activity() == Activity::Stopped);
                return;
            }
            program.next_line();
        }
        panic!("not stopped at {place}");
    }

    #[test]
    fn a_thread_is_stopped_where_it_was_asked_for() {
        let word = |word: &str| Which::Word(word.to_owned());
        check_stopped(stop(Which::Next, false, Passage::Nth(1)), "1");
        check_stopped(stop(word("process"), false, Passage::Nth(1)), "2:7");
        check_stopped(stop(word("process"), true, Passage::Nth(2)), "2:8");
        check_stopped(stop(word("process"), false, Passage::Nth(3)), "2:7");
        let offset_8 = Passage::Record(record(8).tp, Offset(8));
        check_stopped(stop(Which::Number(2), false, offset_8), "2:8");
        check_stopped(stop(Which::Number(3), true, Passage::Nth(1)), "3");
    }

    #[test]
    fn a_place_that_a_thread_never_comes_to_is_refused() {
        let lines = Line::parse_program(&["poll", "process 1ms", "commit"]).unwrap();
        let refused = |at, passage| stop(at, false, passage).check(&lines).unwrap_err().to_string();
        assert_eq!(refused(Which::Number(4), Passage::Nth(1)), "has no line 4; its program has 3");
        let accept = Which::Word("accept".to_owned());
        let program = "has no line accept; its program is: poll; process 1ms; commit";
        assert_eq!(refused(accept, Passage::Nth(1)), program);
        let offset_7 = Passage::Record(record(7).tp, Offset(7));
        assert_eq!(refused(Which::Number(3), offset_7), "does line 3 without a record in hand");
    }
}
