//! What goes on between a share consumer and the leaders of its partitions (the state of Kafka's
//! `ShareConsumeRequestManager`): sessions, what is said and not heard of yet, what was fetched and not returned.
//!
//! **Invariant:** a broker owes one answer at most, to a fetch or to an acknowledgement; no records are fetched while an
//! acknowledgement of its own is on its way or waits for its next try.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::completed::Completed;
use super::session::{Said, Session};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::BrokerId;

/// Why acknowledgements are sent by themselves and not with a fetch, in the order in which a broker hears of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errand {
    /// poll() had records to return and needed no fetch, or commitAsync().
    Async,
    /// commitSync()
    Sync,
    /// close(), which ends the session.
    Close,
}

/// Acknowledgements for one broker (`AcknowledgeRequestState`).
#[derive(Clone, Debug)]
pub struct Acknowledging {
    pub to_send: Said,
    /// To be sent again, before anything else.
    pub again: Said,
    pub in_flight: bool,
    /// A close is sent even if there is nothing to say, once.
    pub is_over: bool,
    pub deadline: Time,
    /// Since the last one that ended.
    pub attempts: i32,
    pub not_before: Time,
}

impl Acknowledging {
    pub fn new(to_send: Said, deadline: Time) -> Acknowledging {
        Acknowledging {
            to_send,
            again: Said::new(),
            in_flight: false,
            is_over: false,
            deadline,
            attempts: 0,
            not_before: Time::ZERO,
        }
    }

    pub fn has_nothing_to_say(&self) -> bool {
        self.to_send.is_empty() && self.again.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub(super) sessions: BTreeMap<BrokerId, Session>,
    /// Brokers that owe an answer.
    pub(super) busy: BTreeSet<BrokerId>,
    /// poll() wants records, and none were acquired since it said so.
    pub(super) wants_records: bool,
    /// With record_limit: whose turn it is to give records.
    pub(super) turn: Option<BrokerId>,
    /// What goes with the next fetch.
    pub(super) with_fetch: BTreeMap<BrokerId, Said>,
    pub(super) errands: BTreeMap<(BrokerId, Errand), Acknowledging>,
    pub(super) buffer: VecDeque<Completed>,
    /// Outcomes of renewals that the application's thread has not looked at.
    pub(super) heard: Vec<(Said, Option<ErrorCode>)>,
}

impl Exchange {
    /// Brokers that owe an answer to a fetch or an acknowledgement.
    pub fn busy(&self) -> &BTreeSet<BrokerId> {
        &self.busy
    }

    pub fn sessions(&self) -> &BTreeMap<BrokerId, Session> {
        &self.sessions
    }

    /// Records that were acquired for this consumer and that poll() has not returned.
    pub fn buffered(&self) -> i64 {
        self.buffer.iter().map(Completed::remaining).sum()
    }

    /// Whether an errand of this kind is under way at any broker.
    pub fn has(&self, kind: Errand) -> bool {
        self.errands.keys().any(|(_, errand)| *errand == kind)
    }

    /// When an acknowledgement is tried again or given up.
    pub(super) fn next_try(&self, now: Time) -> Option<Time> {
        let waiting = self.errands.values().filter(|errand| !errand.in_flight);
        waiting.flat_map(|errand| [errand.not_before, errand.deadline]).filter(|at| *at > now).min()
    }
}

/// Adds to what is said of each partition.
pub(super) fn merge(said: &mut Said, more: Said) {
    for (tip, acknowledgements) in more {
        said.entry(tip).or_default().merge(acknowledgements);
    }
}
