//! What takes an administrator several requests, each of which follows from the answers so far.
//!
//! **Invariant:** an errand tells what it needs next until it is done or refused.

use std::collections::BTreeSet;

use kafka_protocol::messages::FindCoordinatorRequest;

use super::groups::{self, GroupOperation};
use super::operation::Operation;
use super::transactions::TransactionErrand;
use crate::client::metadata::{Also, Metadata};
use crate::kafka::event::Event;
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, Topic, TransactionalId};

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    Broker(BrokerId),
    /// A group's coordinator.
    Coordinator(GroupId),
    TransactionCoordinator(TransactionalId),
}

impl To {
    /// The request that finds the coordinator (`FindCoordinatorRequest.CoordinatorType`).
    pub(super) fn lookup(&self) -> Request {
        const GROUP: i8 = 0;
        const TRANSACTION: i8 = 1;
        let (kind, key) = match self {
            To::Coordinator(group) => (GROUP, group.to_wire()),
            To::TransactionCoordinator(id) => (TRANSACTION, id.to_wire()),
            To::Broker(_) => unreachable!("a broker is no coordinator to look for"),
        };
        FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(vec![key]).into()
    }
}

/// What an errand needs.
#[derive(Debug)]
pub(super) enum Next {
    Ask(To, Box<Request>),
    /// Newer metadata, or metadata of more topics.
    Metadata,
    Done(Option<Box<Event>>),
    /// These are to be done instead, each for itself: what is refused for one group is done for the next.
    Instead(Vec<GroupOperation>),
    Refused(ErrorCode, String),
}

/// What came of an answer.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Taken,
    /// The same broker may answer later.
    Again,
    /// Another broker is to be asked.
    Elsewhere,
    Refused(ErrorCode, String),
}

#[derive(Clone, Debug)]
pub(super) enum Errand {
    Groups(Box<groups::Errand>),
    Transactions(Box<TransactionErrand>),
}

impl Errand {
    /// `None` of an operation that takes a single request.
    pub(super) fn of(
        operation: &Operation,
        now: Time,
        metadata: &Metadata,
        request_timeout_ms: i64,
    ) -> Option<Errand> {
        match operation {
            Operation::Groups(operation) => {
                Some(Errand::Groups(Box::new(groups::Errand::new(operation.clone(), now, metadata))))
            }
            Operation::Transactions(operation) => {
                let errand = TransactionErrand::new(operation.clone(), metadata, request_timeout_ms);
                Some(Errand::Transactions(Box::new(errand)))
            }
            _ => None,
        }
    }

    /// The topics whose metadata it needs, as far as that is known.
    pub(super) fn topics(&self) -> BTreeSet<Topic> {
        match self {
            Errand::Groups(errand) => errand.topics(),
            Errand::Transactions(errand) => errand.topics(),
        }
    }

    /// What it needs to know beside those.
    pub(super) fn also(&self) -> Also {
        match self {
            Errand::Groups(_) => Also::Nothing,
            Errand::Transactions(errand) => errand.also(),
        }
    }

    /// What it needs next; an answer to what is asked is to be given to [`Errand::hear`].
    pub(super) fn next(&mut self, now: Time, metadata: &Metadata) -> Next {
        match self {
            Errand::Groups(errand) => errand.next(metadata),
            Errand::Transactions(errand) => errand.next(now, metadata),
        }
    }

    /// Takes the answer of `from` to what was asked last.
    pub(super) fn hear(&mut self, from: BrokerId, response: &Response) -> Heard {
        match self {
            Errand::Groups(errand) => errand.hear(from, response),
            Errand::Transactions(errand) => errand.hear(from, response),
        }
    }
}
