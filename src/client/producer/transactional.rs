//! The sender's turn at transactional requests: one at a time, and no batch is sent meanwhile.
//!
//! Mirrors `Sender.maybeSendAndPollTransactionalRequest` with `NetworkClientUtils.awaitReady`. The sender's thread sleeps
//! before it sends a request again.
//!
//! **Invariant:** a request that was taken from the queue is sent, or is back in the queue.

use super::transaction_manager::{
    CoordinatorOf, ProducerError, State, TransactionManager, TransactionalRequest,
};
use super::{Context, Producer, ProducerTimer};
use crate::client::metadata::main_peer;
use crate::kafka::effects::{Effects, Peer};
use crate::kafka::protocol::Response;
use crate::kafka::time::Time;

/// What the sender's thread does about transactional requests.
#[derive(Clone, Debug, Default)]
pub(super) enum Turn {
    #[default]
    Free,
    /// It sleeps: no broker can be asked.
    Resting { until: Time },
    /// It waits for a connection.
    Connecting { request: TransactionalRequest, peer: Peer, until: Time },
    /// It sleeps before it sends the request again.
    BackingOff { request: TransactionalRequest, peer: Peer, until: Time },
    /// It waits for the answer.
    InFlight { request: TransactionalRequest },
}

/// What the sender may do besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Send batches.
    Free,
    /// Nothing but wait.
    Busy,
}

type Fx<'a> = &'a mut Effects<ProducerTimer>;

impl Producer {
    /// One round; the producer is transactional.
    pub(super) fn advance_transaction(&mut self, now: Time, fx: Fx<'_>) -> Sender {
        loop {
            if self.manager().state() == State::FatalError {
                self.abandon_all(fx);
                return Sender::Busy;
            }
            match std::mem::take(&mut self.turn) {
                Turn::Free => {
                    self.abandon_undrained(fx);
                    let has_batches = self.has_incomplete();
                    let sequences = self.sequences.as_ref().expect("a transactional producer is idempotent");
                    let manager = self.transactions.as_mut().expect("the producer is transactional");
                    let Some(request) = manager.next_request(has_batches, sequences) else {
                        return Sender::Free;
                    };
                    self.aim(now, request);
                }
                Turn::Resting { until } if until <= now => {}
                Turn::Connecting { request, peer, until } => {
                    if self.network.ready(now, peer, fx) {
                        if request.coordinator() == Some(CoordinatorOf::Transaction) {
                            let manager = self.transactions.as_mut().expect("the producer is transactional");
                            manager.on_coordinator_ready(self.network.versions(peer));
                        }
                        let until = now.plus_ms(request.backoff_ms());
                        self.turn = Turn::BackingOff { request, peer, until };
                    } else if self.network.is_backing_off(now, peer) || until <= now {
                        self.aim_anew(now, request);
                    } else {
                        self.turn = Turn::Connecting { request, peer, until };
                        return Sender::Busy;
                    }
                }
                Turn::BackingOff { request, peer, until } if until <= now => {
                    if self.network.ready(now, peer, fx) {
                        self.send_transactional(now, request, peer, fx);
                        return Sender::Busy;
                    }
                    self.aim_anew(now, request);
                }
                waits => {
                    self.turn = waits;
                    return Sender::Busy;
                }
            }
        }
    }

    fn manager(&self) -> &TransactionManager {
        self.transactions.as_ref().expect("the producer is transactional")
    }

    fn manager_mut(&mut self) -> &mut TransactionManager {
        self.transactions.as_mut().expect("the producer is transactional")
    }

    /// Chooses the broker that is asked.
    fn aim(&mut self, now: Time, request: TransactionalRequest) {
        let target = match request.coordinator() {
            Some(of) => self.manager().known_coordinator(&of),
            None => self.metadata.least_loaded(now, &self.network),
        };
        match target {
            Some(broker) => {
                let until = now.plus_ms(self.config.common.request_timeout_ms);
                self.turn = Turn::Connecting { request, peer: main_peer(broker), until };
            }
            None => self.aim_anew(now, request),
        }
    }

    /// The broker cannot be asked: its coordinator is looked up, or another broker chosen after a while.
    fn aim_anew(&mut self, now: Time, request: TransactionalRequest) {
        match request.coordinator() {
            Some(of) => self.manager_mut().look_up(of),
            None => {
                let until = now.plus_ms(self.config.common.retry_backoff.initial_ms);
                self.turn = Turn::Resting { until };
                self.metadata.request_update();
            }
        }
        self.manager_mut().retry(request);
    }

    fn send_transactional(&mut self, now: Time, request: TransactionalRequest, peer: Peer, fx: Fx<'_>) {
        let body = self.manager().body(&request);
        let timeout_ms = self.config.common.request_timeout_ms;
        let api = body.api();
        let version = self.network.version_for(peer, api, request.latest_version(api));
        self.network.send_at(now, peer, (version, body), Context::Transactional, timeout_ms, fx);
        self.turn = Turn::InFlight { request };
    }

    fn take_in_flight(&mut self) -> TransactionalRequest {
        match std::mem::take(&mut self.turn) {
            Turn::InFlight { request } => request,
            turn => panic!("an answer in {turn:?}"),
        }
    }

    pub(super) fn on_transactional_answer(&mut self, response: &Response, fx: Fx<'_>) {
        let request = self.take_in_flight();
        let before = self.identity();
        let sequences = self.sequences.as_mut().expect("a transactional producer is idempotent");
        let manager = self.transactions.as_mut().expect("the producer is transactional");
        manager.on_answer(request, response, sequences);
        self.tell_identity(before, fx);
    }

    pub(super) fn on_transactional_lost(&mut self) {
        let request = self.take_in_flight();
        self.manager_mut().on_lost(request);
    }

    /// In an error state nothing more is sent that was not sent before; nor while the transaction is being aborted.
    fn abandon_undrained(&mut self, fx: Fx<'_>) {
        let reason = match (self.manager().state(), self.manager().last_error()) {
            (State::AbortableError, Some(error)) => error.clone(),
            (State::Aborting, _) => ProducerError::Aborted,
            _ => return,
        };
        let undrained = self.accumulator.batches().filter(|(_, batch)| batch.sequence.is_none());
        for id in undrained.map(|(id, _)| id).collect::<Vec<_>>() {
            self.abandon(id, &reason, fx);
        }
    }

    /// After a fatal error nothing is waited for.
    fn abandon_all(&mut self, fx: Fx<'_>) {
        let Some(reason) = self.manager().last_error().cloned() else { return };
        for id in self.accumulator.batches().map(|(id, _)| id).collect::<Vec<_>>() {
            self.abandon(id, &reason, fx);
        }
    }

    /// When the sender's thread wakes by itself.
    pub(super) fn turn_ends_at(&self) -> Option<Time> {
        match &self.turn {
            Turn::Resting { until } | Turn::Connecting { until, .. } | Turn::BackingOff { until, .. } => {
                Some(*until)
            }
            Turn::Free | Turn::InFlight { .. } => None,
        }
    }
}
