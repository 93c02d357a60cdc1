//! What calls of a producer throw, and what holds a transactional producer in an error state.
//!
//! **Invariant:** an error names the exception that the Java client throws.

use std::fmt;

use crate::client::producer::call::CallName;
use crate::client::producer::transaction_manager::State;
use crate::kafka::protocol::{ApiKey, ErrorCode};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProducerError {
    /// The exception of one of Kafka's errors.
    Kafka(ErrorCode),
    /// CommitFailedException: who sends offsets is no member of the group any more (R-TXN-32).
    CommitFailed(ErrorCode),
    /// TransactionAbortableException: an error that may pass did not in time.
    RetriesExhausted(ErrorCode),
    /// KafkaException: an answer that this request should not have.
    Unexpected { api: ApiKey, error: ErrorCode },
    /// KafkaException: some partitions could not be added to the transaction.
    NotAdded(ErrorCode),
    /// KafkaException: batches expired, and whether they were written nobody knows (R-PROD-18).
    Unacknowledged,
    /// KafkaException: the transaction cannot even be aborted.
    AbortFailed,
    /// TransactionAbortedException: a record that was not sent before its transaction was aborted.
    Aborted,
    /// KafkaException: an earlier error holds the producer up.
    InErrorState(Box<ProducerError>),
    /// TimeoutException: the call took longer than max.block.ms. It goes on; the application calls again.
    Timeout(CallName),
    /// IllegalStateException: the producer was made without `transactional.id`.
    NotTransactional,
    /// IllegalStateException: the call does not fit to the state.
    IllegalState { call: CallName, state: State },
    /// IllegalStateException: an earlier call timed out and has to be repeated first.
    CallPending { call: CallName, pending: CallName },
    /// IllegalStateException on the sender's thread, after which nothing goes any more.
    Poisoned { from: State, to: State },
}

impl ProducerError {
    /// The exception's class.
    pub fn exception(&self) -> String {
        match self {
            ProducerError::Kafka(error) => exception_of(*error),
            ProducerError::CommitFailed(_) => "CommitFailedException".to_owned(),
            ProducerError::RetriesExhausted(_) => "TransactionAbortableException".to_owned(),
            ProducerError::Unexpected { .. }
            | ProducerError::NotAdded(_)
            | ProducerError::Unacknowledged
            | ProducerError::AbortFailed
            | ProducerError::InErrorState(_) => "KafkaException".to_owned(),
            ProducerError::Aborted => "TransactionAbortedException".to_owned(),
            ProducerError::Timeout(_) => "TimeoutException".to_owned(),
            ProducerError::NotTransactional
            | ProducerError::IllegalState { .. }
            | ProducerError::CallPending { .. }
            | ProducerError::Poisoned { .. } => "IllegalStateException".to_owned(),
        }
    }

    /// Kafka's error behind it, where there is one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ProducerError::Kafka(error)
            | ProducerError::CommitFailed(error)
            | ProducerError::RetriesExhausted(error)
            | ProducerError::Unexpected { error, .. }
            | ProducerError::NotAdded(error) => Some(*error),
            ProducerError::InErrorState(cause) => cause.code(),
            ProducerError::Timeout(_) => Some(ErrorCode::RequestTimedOut),
            _ => None,
        }
    }
}

/// The class of an error's exception: that of its name but for a few.
fn exception_of(error: ErrorCode) -> String {
    let name = match error {
        ErrorCode::UnknownServerError => "UnknownServer",
        ErrorCode::RequestTimedOut => "Timeout",
        ErrorCode::MessageTooLarge => "RecordTooLarge",
        ErrorCode::NetworkException => "Network",
        ErrorCode::InvalidTopicException => "InvalidTopic",
        ErrorCode::InvalidProducerIdMapping => "InvalidPidMapping",
        ErrorCode::InvalidTransactionTimeout => "InvalidTxnTimeout",
        ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequence",
        ErrorCode::TransactionalIdAuthorizationFailed => "TransactionalIdAuthorization",
        ErrorCode::KafkaStorageError => "KafkaStorage",
        ErrorCode::CorruptMessage => "CorruptRecord",
        error => return format!("{error:?}Exception"),
    };
    format!("{name}Exception")
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.exception())?;
        match self {
            ProducerError::Kafka(_) => Ok(()),
            ProducerError::CommitFailed(error) => write!(f, ": the group answers {}", error.name()),
            ProducerError::RetriesExhausted(error) => write!(f, ": {} did not pass in time", error.name()),
            ProducerError::Unexpected { api, error } => {
                write!(f, ": {} answers {}", api.name(), error.name())
            }
            ProducerError::NotAdded(error) => write!(f, ": a partition was not added: {}", error.name()),
            ProducerError::Unacknowledged => f.write_str(": whether some records were written is not known"),
            ProducerError::AbortFailed => f.write_str(": the transaction cannot be aborted"),
            ProducerError::Aborted => {
                f.write_str(": the transaction was aborted before the records were sent")
            }
            ProducerError::InErrorState(cause) => write!(f, ": because of an earlier {cause}"),
            ProducerError::Timeout(call) => write!(f, ": {call} took longer than max.block.ms"),
            ProducerError::NotTransactional => f.write_str(": the producer has no transactional.id"),
            ProducerError::IllegalState { call, state } => write!(f, ": {call} in the state {state}"),
            ProducerError::CallPending { call, pending } => {
                write!(f, ": {call} before {pending}, which timed out, was repeated")
            }
            ProducerError::Poisoned { from, to } => write!(f, ": from {from} to {to} leads no way"),
        }
    }
}

impl std::error::Error for ProducerError {}
