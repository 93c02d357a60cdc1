//! Transactions, as each of the three who take part in them has them: the client, its coordinator, the partitions.
//!
//! **Invariant:** each says what it knows itself; where they differ, that is what the cluster is in the middle of.

use std::rc::Rc;

use super::Tone;
use crate::kafka::types::{BrokerId, Offset, TopicPartition};

/// A transactional producer's own view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionView {
    /// transactional.id
    pub id: Rc<str>,
    /// Kafka's name of the client's state (`TransactionManager.State`).
    pub state: &'static str,
    /// Good while it can go on, bad where only an abort helps, or nothing.
    pub tone: Tone,
    /// What is not as it should be, in words.
    pub error: Option<Rc<str>>,
    /// The call that the application's thread is in: "commitTransaction()".
    pub calling: Option<Rc<str>>,
    /// Partitions that it has written to in this transaction.
    pub partitions: Rc<[TopicPartition]>,
    /// What a person can have its application do now, as commands with their words; none where a pace or a program does it.
    pub offers: Rc<[(Rc<str>, &'static str)]>,
    /// How its coordinator has it; `None` while nobody coordinates it, or before it is known.
    pub coordinated: Option<Rc<CoordinatedView>>,
}

/// One transactional id at its coordinator (`TransactionMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatedView {
    pub id: Rc<str>,
    pub broker: BrokerId,
    /// Kafka's name of the state: "Ongoing".
    pub state: &'static str,
    /// The state that is being written.
    pub pending: Option<&'static str>,
    /// "producer id 4, epoch 2"
    pub producer: Rc<str>,
    /// transaction.timeout.ms: "60 s".
    pub timeout: Rc<str>,
    /// How long it has been open, in whole seconds: "3 s".
    pub open_for: Option<Rc<str>>,
    /// In the transaction, or still to get a marker.
    pub partitions: Rc<[TopicPartition]>,
}

impl CoordinatedView {
    /// "Ongoing", "Ongoing, PrepareCommit is being written"
    pub fn standing(&self) -> String {
        match self.pending {
            Some(pending) => format!("{}, {pending} is being written", self.state),
            None => self.state.to_owned(),
        }
    }
}

/// Who is going to end a transaction that is open in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Its producer, or its coordinator when its time is over.
    Expected,
    /// It is decided; the marker is on its way.
    Decided,
    /// Nobody coordinates it at present, or its coordinator still reads its log.
    Unknown,
    /// Nobody: it hangs, and holds up whoever reads committed data (R-TXN-25).
    Nobody,
}

/// A transaction that is open in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenView {
    pub first: Offset,
    /// Its newest record.
    pub last: Offset,
    /// Its transactional id, or its producer id where nobody knows that.
    pub owner: Rc<str>,
    pub end: End,
}

impl OpenView {
    /// "of bank-1 from 40 on: open"
    pub fn standing(&self) -> &'static str {
        match self.end {
            End::Expected => "open",
            End::Decided => "its end is decided, the marker is on its way",
            End::Unknown => "open, and nobody coordinates it just now",
            End::Nobody => "hangs: no coordinator is going to end it",
        }
    }
}
