//! The producer as an application drives it: call by call.
//!
//! An application that is a program of its own (consume, process, produce) makes a producer with
//! [`Producer::for_application`] and owns it: it hands in the producer's inputs by [`Producer::handle`], and carries out its
//! effects. Its thread is in one call at a time:
//!
//! ```text
//! producer.call(now, Call::BeginTransaction, fx);
//! match producer.take_returned() {
//!     Some(Ok(())) => the thread goes on,
//!     Some(Err(error)) => the call threw; producer.transaction_state() tells what is possible now,
//!     None => the thread waits in the call: ask again after each input that the producer was handed,
//! }
//! ```
//!
//! - [`Call::InitTransactions`], [`Call::SendOffsets`], [`Call::CommitTransaction`] and [`Call::AbortTransaction`] wait for
//!   brokers, for max.block.ms at most. After [`ProducerError::Timeout`] the same call may be made again and goes on.
//! - [`Call::BeginTransaction`] returns at once.
//! - [`Call::Send`] returns when the record is in a batch; before, it may wait for metadata or memory. What becomes of it is
//!   in [`Producer::counts`] and in the events; inside a transaction a record that fails makes the commit throw.
//! - [`Call::Flush`] returns when all that was sent has its outcome, good or bad.
//! - `close()` is [`Producer::close`], which aborts an open transaction and pushes `Effect::Exit` when it is done.
//!
//! What to do after an error says [`Producer::transaction_state`]: in [`State::AbortableError`] the transaction can be
//! aborted, and the next one begun; in [`State::FatalError`] nothing is left but to close the producer and to make another;
//! otherwise the call itself was wrong or timed out, and nothing has changed.
//!
//! A process that has a consumer too must keep the two clients' connections and timers apart: both use
//! [`Channel::Main`](crate::kafka::effects::Channel::Main) to the same brokers.
//!
//! **Invariant:** a call returns once, and no other is made before.

use std::collections::BTreeMap;
use std::fmt;

use super::transaction_manager::{Offsets, ProducerError, ResultId, State, TransactionManager};
use super::workload::Message;
use super::{Application, Producer, ProducerTimer};
use crate::client::config::ConfigError;
use crate::client::config::producer::ProducerConfig;
use crate::client::group_metadata::GroupMetadata;
use crate::kafka::effects::Effects;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName};

/// What an application has its producer do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// initTransactions(): once, before the first transaction.
    InitTransactions,
    BeginTransaction,
    Send(Message),
    /// sendOffsetsToTransaction(); offsets are those of the next records.
    SendOffsets {
        offsets: Offsets,
        group: GroupMetadata,
    },
    CommitTransaction,
    AbortTransaction,
    Flush,
}

/// A call without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallName {
    InitTransactions,
    BeginTransaction,
    Send,
    SendOffsetsToTransaction,
    CommitTransaction,
    AbortTransaction,
    Flush,
}

impl Call {
    pub fn name(&self) -> CallName {
        match self {
            Call::InitTransactions => CallName::InitTransactions,
            Call::BeginTransaction => CallName::BeginTransaction,
            Call::Send(_) => CallName::Send,
            Call::SendOffsets { .. } => CallName::SendOffsetsToTransaction,
            Call::CommitTransaction => CallName::CommitTransaction,
            Call::AbortTransaction => CallName::AbortTransaction,
            Call::Flush => CallName::Flush,
        }
    }
}

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CallName::InitTransactions => "initTransactions()",
            CallName::BeginTransaction => "beginTransaction()",
            CallName::Send => "send()",
            CallName::SendOffsetsToTransaction => "sendOffsetsToTransaction()",
            CallName::CommitTransaction => "commitTransaction()",
            CallName::AbortTransaction => "abortTransaction()",
            CallName::Flush => "flush()",
        })
    }
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Calling {
    /// The record is in `Producer::blocked`.
    Send,
    Result {
        call: CallName,
        result: ResultId,
        since: Time,
    },
    Flush,
}

/// The application's thread, as the producer sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub calling: Option<Calling>,
    pub returned: Option<Result<(), ProducerError>>,
}

impl Producer {
    /// A producer that makes no records by itself.
    ///
    /// # Errors
    /// Configs that cannot run.
    pub fn for_application(
        name: ClientName,
        config: &BTreeMap<String, String>,
        bootstrap: &[BrokerId],
        random: Random,
    ) -> Result<Producer, ConfigError> {
        let config = ProducerConfig::read(config)?;
        Ok(Producer::of(name, config, |_| Application::Calls, bootstrap, random))
    }

    /// The application makes a call.
    ///
    /// Panics if an earlier one has not returned, or nobody has taken what it returned.
    pub fn call(&mut self, now: Time, call: Call, fx: &mut Effects<ProducerTimer>) {
        assert!(
            self.thread.calling.is_none() && self.thread.returned.is_none(),
            "a thread is in one call at a time"
        );
        self.enter_call(now, call, fx);
        self.poll_if_woken(now, fx);
    }

    pub(super) fn enter_call(&mut self, now: Time, call: Call, fx: &mut Effects<ProducerTimer>) {
        match self.begin_call(now, call, fx) {
            Ok(Some(calling)) => self.thread.calling = Some(calling),
            Ok(None) => self.thread.returned = Some(Ok(())),
            Err(error) => self.thread.returned = Some(Err(error)),
        }
    }

    /// Whether the application's thread is inside a call.
    pub fn is_calling(&self) -> Option<CallName> {
        self.thread.calling.map(|calling| match calling {
            Calling::Send => CallName::Send,
            Calling::Flush => CallName::Flush,
            Calling::Result { call, .. } => call,
        })
    }

    /// What the last call returned or threw, once.
    pub fn take_returned(&mut self) -> Option<Result<(), ProducerError>> {
        self.thread.returned.take()
    }

    /// How far the transactional producer is; `None` without `transactional.id`.
    pub fn transaction_state(&self) -> Option<State> {
        self.transactions.as_ref().map(TransactionManager::state)
    }

    fn begin_call(
        &mut self,
        now: Time,
        call: Call,
        fx: &mut Effects<ProducerTimer>,
    ) -> Result<Option<Calling>, ProducerError> {
        let name = call.name();
        self.woken |= name != CallName::Send;
        let waits = |result: ResultId| Ok(Some(Calling::Result { call: name, result, since: now }));
        match call {
            Call::Send(message) => match self.begin_send(now, message, fx) {
                Some(returned) => returned.map(|()| None),
                None => Ok(Some(Calling::Send)),
            },
            Call::Flush => Ok(Some(Calling::Flush)),
            call => {
                let transactions = self.transactions.as_mut().ok_or(ProducerError::NotTransactional)?;
                let sequences = self.sequences.as_ref().expect("a transactional producer is idempotent");
                match call {
                    Call::InitTransactions => waits(transactions.initialize()?),
                    Call::BeginTransaction => transactions.begin().map(|()| None),
                    Call::SendOffsets { offsets, .. } if offsets.is_empty() => Ok(None),
                    Call::SendOffsets { offsets, group } => {
                        waits(transactions.send_offsets(&offsets, &group, sequences)?)
                    }
                    Call::CommitTransaction => {
                        waits(transactions.commit(sequences, self.network.features())?)
                    }
                    _ => waits(transactions.abort(sequences, self.network.features())?),
                }
            }
        }
    }

    /// The call that waits returns if it can, or if it waited for max.block.ms.
    pub(super) fn settle_call(&mut self, now: Time) {
        let returned = match self.thread.calling {
            Some(Calling::Flush) if !self.has_incomplete() => Some(Ok(())),
            Some(Calling::Result { call, result, since }) => {
                let transactions = self.transactions.as_mut().expect("it waits for a transaction");
                let outcome = transactions.take_outcome(result);
                let is_late = outcome.is_none() && now.ms_since(since) >= self.config.max_block_ms;
                if is_late {
                    transactions.give_up_waiting(result);
                }
                if (call, &outcome) == (CallName::InitTransactions, &Some(Ok(()))) {
                    transactions.learn(self.network.features(), true);
                }
                outcome.or(is_late.then_some(Err(ProducerError::Timeout(call))))
            }
            _ => None,
        };
        if let Some(returned) = returned {
            self.thread.calling = None;
            self.thread.returned = Some(returned);
        }
    }

    /// When the call that waits gives up.
    pub(super) fn call_gives_up_at(&self) -> Option<Time> {
        match self.thread.calling {
            Some(Calling::Result { since, .. }) => Some(since.plus_ms(self.config.max_block_ms)),
            _ => None,
        }
    }
}
