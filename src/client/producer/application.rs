//! The application of a transactional producer that makes records by itself: begin, so many records, commit or abort.
//!
//! With a pace it goes round by itself; without one a person has it begin and end ([`Wish`]). What its calls throw it
//! answers as the documentation of `KafkaProducer` tells: it aborts where that is possible, ends after a fatal error, and
//! makes a call again that timed out.
//!
//! **Invariant:** records are made inside transactions alone.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::call::{Call, CallName};
use super::transaction_manager::{CommittedOffset, ProducerError, State};
use super::workload::SpecError;
use super::{Application, Phase, Producer, ProducerTimer};
use crate::client::group_metadata::GroupMetadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, ProducerEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset, TopicPartition};

/// `every 10 records`, `every 10 records abort 10%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPace {
    /// Of one transaction.
    pub records: i32,
    /// How many of a hundred transactions the application aborts.
    pub abort_percent: u8,
}

impl fmt::Display for TransactionPace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {} records", self.records)?;
        match self.abort_percent {
            0 => Ok(()),
            percent => write!(f, " abort {percent}%"),
        }
    }
}

impl FromStr for TransactionPace {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<TransactionPace, SpecError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (records, abort) = match words[..] {
            ["every", records, "records"] => (records, "0%"),
            ["every", records, "records", "abort", percent] => (records, percent),
            _ => ("", ""),
        };
        let records = records.parse().ok().filter(|records| *records >= 1);
        let abort = abort.strip_suffix('%').and_then(|percent| percent.parse().ok());
        match (records, abort.filter(|percent| *percent <= 100)) {
            (Some(records), Some(abort_percent)) => Ok(TransactionPace { records, abort_percent }),
            _ => Err(SpecError { text: text.to_owned(), what: "pace such as every 10 records abort 10%" }),
        }
    }
}

/// What a person has the application do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    Begin,
    Commit,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Initialize,
    Idle,
    Sending { records: i32 },
    End { committed: bool },
}

#[derive(Clone, Debug)]
pub(super) struct Transactions {
    pace: Option<TransactionPace>,
    random: Random,
    step: Step,
    /// What a person has it call next.
    wish: Option<Call>,
    in_call: Option<CallName>,
    /// Something was thrown; it goes on when its next record is due.
    waits: bool,
}

impl Transactions {
    pub fn new(pace: Option<TransactionPace>, random: Random) -> Transactions {
        Transactions { pace, random, step: Step::Initialize, wish: None, in_call: None, waits: false }
    }

    /// What the application calls next, if it does not wait for a record.
    fn next(&mut self, is_paused: bool) -> Option<Call> {
        if let Some(wish) = self.wish.take() {
            return Some(wish);
        }
        match self.step {
            _ if self.waits => None,
            Step::Initialize => Some(Call::InitTransactions),
            Step::Idle if self.pace.is_some() && !is_paused => Some(Call::BeginTransaction),
            Step::Idle | Step::Sending { .. } => None,
            Step::End { committed: true } => Some(Call::CommitTransaction),
            Step::End { committed: false } => Some(Call::AbortTransaction),
        }
    }

    fn on_done(&mut self, call: CallName) {
        self.step = match (call, self.step) {
            (CallName::BeginTransaction, _) => Step::Sending { records: 0 },
            (CallName::Send, Step::Sending { records }) => match self.pace {
                Some(pace) if records + 1 >= pace.records => {
                    let aborts = self.random.below(100) < u64::from(pace.abort_percent);
                    Step::End { committed: !aborts }
                }
                _ => Step::Sending { records: records + 1 },
            },
            (CallName::Send | CallName::SendOffsetsToTransaction, step) => step,
            _ => Step::Idle,
        };
    }

    /// `state`: what the producer is in after that.
    fn on_thrown(&mut self, call: CallName, error: &ProducerError, state: State) {
        let pending = match error {
            ProducerError::CallPending { pending, .. } => Some(*pending),
            _ => None,
        };
        match (state, pending) {
            (_, Some(pending)) => {
                self.step = Step::End { committed: pending == CallName::CommitTransaction };
                self.waits = true;
            }
            (State::AbortableError, None) => {
                self.step = Step::End { committed: false };
                self.waits = call == CallName::AbortTransaction;
            }
            _ => self.waits = true,
        }
    }
}

type Fx<'a> = &'a mut Effects<ProducerTimer>;

impl Producer {
    /// A person has the application begin or end a transaction.
    pub fn wish(&mut self, now: Time, wish: Wish, fx: &mut Effects<ProducerTimer>) {
        let call = match wish {
            Wish::Begin => Call::BeginTransaction,
            Wish::Commit => Call::CommitTransaction,
            Wish::Abort => Call::AbortTransaction,
        };
        self.wish_call(now, call, fx);
    }

    /// A person has the application commit offsets of a group with its transaction.
    pub fn send_offsets(
        &mut self,
        now: Time,
        offsets: BTreeMap<TopicPartition, Offset>,
        group: GroupMetadata,
        fx: &mut Effects<ProducerTimer>,
    ) {
        let committed = |offset| CommittedOffset { offset, leader_epoch: LeaderEpoch::NONE };
        let offsets = offsets.into_iter().map(|(tp, offset)| (tp, committed(offset))).collect();
        self.wish_call(now, Call::SendOffsets { offsets, group }, fx);
    }

    fn wish_call(&mut self, now: Time, call: Call, fx: Fx<'_>) {
        if let Some(program) = self.program() {
            program.wish = Some(call);
            self.poll(now, fx);
        }
    }

    fn program(&mut self) -> Option<&mut Transactions> {
        match &mut self.application {
            Application::Workload { transactions, .. } => transactions.as_mut(),
            Application::Calls => None,
        }
    }

    /// A record is due: it is made if a transaction is open and the thread is in no call.
    pub(super) fn send_in_transaction(&mut self, now: Time, fx: Fx<'_>) {
        let is_free = self.thread.calling.is_none() && self.thread.returned.is_none();
        let Application::Workload { spec, workload, transactions: Some(program) } = &mut self.application
        else {
            return;
        };
        program.waits = false;
        if is_free && matches!(program.step, Step::Sending { .. }) && program.wish.is_none() {
            let message = workload.make(spec);
            self.make_call(now, Call::Send(message), fx);
        }
    }

    fn make_call(&mut self, now: Time, call: Call, fx: Fx<'_>) {
        if let Some(program) = self.program() {
            program.in_call = Some(call.name());
        }
        self.enter_call(now, call, fx);
    }

    /// The application's thread goes on; says whether it has made a call.
    pub(super) fn go_on(&mut self, now: Time, fx: Fx<'_>) -> bool {
        let is_paused = self.phase == Phase::Paused;
        if !matches!(self.phase, Phase::Running | Phase::Paused)
            || self.thread.calling.is_some()
            || self.program().is_none()
        {
            return false;
        }
        if let Some(returned) = self.thread.returned.take() {
            self.hear_returned(now, returned, fx);
        }
        if matches!(self.phase, Phase::Failed { .. }) {
            return false;
        }
        match self.program().and_then(|program| program.next(is_paused)) {
            Some(call) => {
                self.make_call(now, call, fx);
                true
            }
            None => false,
        }
    }

    fn hear_returned(&mut self, now: Time, returned: Result<(), ProducerError>, fx: Fx<'_>) {
        let state = self.transaction_state().unwrap_or(State::FatalError);
        let Some(program) = self.program() else { return };
        let Some(call) = program.in_call.take() else { return };
        match returned {
            Ok(()) => program.on_done(call),
            Err(error) => {
                program.on_thrown(call, &error, state);
                let (client, exception) = (self.name(), error.to_string());
                let thrown = ProducerEvent::Thrown { client, call: call.to_string(), exception };
                fx.event(Event::Producer(thrown));
                if state == State::FatalError {
                    self.end_with(now, error.code().unwrap_or(ErrorCode::UnknownServerError), fx);
                }
            }
        }
    }

    /// Nothing goes any more: the application ends.
    fn end_with(&mut self, now: Time, error: ErrorCode, fx: Fx<'_>) {
        self.stop_generating(fx);
        self.phase = Phase::Failed { at: now, error };
        fx.event(Event::ClientFailed { client: self.name(), error });
    }
}
