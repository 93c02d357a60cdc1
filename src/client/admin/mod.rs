//! The administrator's tools: `kafka-topics.sh`, `kafka-configs.sh`, `kafka-leader-election.sh`,
//! `kafka-reassign-partitions.sh`, `kafka-delete-records.sh`, `kafka-consumer-groups.sh`, `kafka-transactions.sh` and
//! `kafka-features.sh` on top of Kafka's `KafkaAdminClient`.
//!
//! Operations are worked off one after the other, as a person at a shell would have it. What a change did to the cluster
//! is told by the controller's events; only a refusal is told here.
//!
//! **Invariant:** each operation has one outcome within default.api.timeout.ms of its turn.

mod errand;
mod groups;
mod operation;
mod transactions;

use std::collections::{BTreeSet, VecDeque};

use kafka_protocol::messages::FindCoordinatorResponse;

use errand::{Errand, Heard, Next, To};
pub use groups::{GROUP_STATES, GROUP_TYPES, Goal, GroupOperation, ListFilter, OfEach, Reset, Scope, Target};
pub use operation::Operation;
pub use transactions::{Area, TransactionFilter, TransactionOperation};

use super::config::CommonConfig;
use super::metadata::{Metadata, main_peer};
use crate::kafka::effects::{Effects, Input, Peer};
use crate::kafka::event::Event;
use crate::kafka::network_client::{NetworkClient, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, NodeId, Topic};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdminTimer {
    Network(NetworkTimer),
    /// A back-off or the operation's time is over.
    Wake,
    /// Nothing was to be done for a while.
    Idle,
}

impl From<NetworkTimer> for AdminTimer {
    fn from(timer: NetworkTimer) -> Self {
        AdminTimer::Network(timer)
    }
}

/// How an operation ended: nothing, or the broker's error and its words.
pub type Outcome = Result<(), (ErrorCode, String)>;

#[derive(Clone, Debug)]
enum Context {
    Metadata,
    /// FindCoordinator.
    Coordinator(To),
    Operation,
}

#[derive(Clone, Debug)]
struct Call {
    /// The command as a person gave it.
    text: String,
    operation: Operation,
    /// `None` until it is its turn.
    deadline: Option<Time>,
    tries: i32,
    not_before: Time,
    in_flight: bool,
    /// Of what takes several requests.
    errand: Option<Errand>,
    /// The coordinator that was found last, and of what.
    coordinator: Option<(To, BrokerId)>,
}

#[derive(Clone, Debug)]
pub struct AdminClient {
    config: CommonConfig,
    network: NetworkClient<Context>,
    metadata: Metadata,
    random: Random,
    /// The first one is worked on.
    calls: VecDeque<Call>,
    last_outcome: Option<(String, Outcome)>,
}

/// default.api.timeout.ms.
const API_TIMEOUT_MS: i64 = 60_000;
/// How long a connection is kept for the next command.
const IDLE_MS: i64 = 10_000;
/// `KafkaAdminClient` has one request in flight for each connection.
const MAX_IN_FLIGHT: i32 = 1;

type Fx<'a> = &'a mut Effects<AdminTimer>;

impl AdminClient {
    pub fn new(name: ClientName, bootstrap: &[BrokerId], mut random: Random) -> AdminClient {
        let config = CommonConfig::default();
        let mut stream = |name: &str| Random::stream(random.next_u64(), name);
        AdminClient {
            network: NetworkClient::new(name, config.network(MAX_IN_FLIGHT), stream("network")),
            metadata: Metadata::new(bootstrap, config, false, stream("metadata")),
            config,
            random,
            calls: VecDeque::new(),
            last_outcome: None,
        }
    }

    /// Queues an operation; `text` is the command that asked for it.
    pub fn submit(&mut self, now: Time, text: &str, operation: Operation, fx: &mut Effects<AdminTimer>) {
        self.calls.push_back(Call::new(now, text.to_owned(), operation));
        fx.cancel_timer(AdminTimer::Idle);
        self.poll(now, fx);
    }

    pub fn handle(&mut self, now: Time, input: Input<AdminTimer>, fx: &mut Effects<AdminTimer>) {
        let event = match input {
            Input::Timer(AdminTimer::Network(timer)) => self.network.on_timer(now, timer, fx),
            Input::Timer(AdminTimer::Idle) => return self.hang_up(now, fx),
            Input::Timer(AdminTimer::Wake) => None,
            input => self.network.on_input(now, &input, fx),
        };
        match event {
            Some(NetworkEvent::Answered { peer, context, response, .. }) => {
                self.on_answer(now, peer, context, &response, fx)
            }
            Some(NetworkEvent::Lost { contexts, .. }) => self.on_lost(now, contexts),
            Some(NetworkEvent::Ready(_) | NetworkEvent::BackoffOver(_)) | None => {}
        }
        self.poll(now, fx);
    }

    /// The operations that have no outcome yet.
    pub fn pending(&self) -> i64 {
        self.calls.len() as i64
    }

    /// The last command that ended, and how.
    pub fn last_outcome(&self) -> Option<&(String, Outcome)> {
        self.last_outcome.as_ref()
    }

    fn poll(&mut self, now: Time, fx: Fx<'_>) {
        let Some(call) = self.calls.front_mut() else { return };
        let deadline = *call.deadline.get_or_insert(now.plus_ms(API_TIMEOUT_MS));
        if deadline <= now && !call.in_flight {
            let message = format!("timed out after {} attempt(s)", call.tries);
            return self.finish(now, Err((ErrorCode::RequestTimedOut, message)), fx);
        }
        if call.errand.is_none() {
            let request_timeout_ms = self.config.request_timeout_ms;
            call.errand = Errand::of(&call.operation, now, &self.metadata, request_timeout_ms);
        }
        self.metadata.want(call.topics());
        self.metadata.want_also(call.errand.as_ref().map(Errand::also).unwrap_or_default());
        if !call.in_flight && call.not_before <= now {
            match call.errand.is_some() {
                true => self.go_on(now, deadline, fx),
                false => self.try_to_send(now, deadline, fx),
            }
        }
        let waits_until = self.calls.front().map_or(now, |call| call.not_before);
        let metadata_at = self.metadata.maybe_refresh(now, &mut self.network, Context::Metadata, fx);
        let moments = [Some(waits_until), Some(deadline), metadata_at];
        if let Some(at) = moments.into_iter().flatten().filter(|at| *at > now).min() {
            fx.set_timer(AdminTimer::Wake, at);
        }
    }

    /// Mostly any broker will do: it passes the request on to the controller. Some things only a partition's leader, or
    /// the broker itself, can do.
    fn try_to_send(&mut self, now: Time, deadline: Time, fx: Fx<'_>) {
        let Some(operation) = self.calls.front().map(|call| &call.operation) else { return };
        let node = match (operation.asks_leader_of(), operation.node()) {
            (Some(tp), _) => {
                let leader = self.metadata.leader(tp).map(|(leader, _)| leader);
                if leader.is_none() {
                    self.metadata.request_update();
                }
                leader
            }
            (None, None) => self.metadata.least_loaded(now, &self.network),
            (None, Some(broker)) if self.metadata.knows(broker) => Some(broker),
            (None, Some(_)) => return self.wait_for_node(now),
        };
        let Some(node) = node else { return };
        if !self.network.ready(now, main_peer(node), fx) {
            return;
        }
        let Some(call) = self.calls.front_mut() else { return };
        let timeout_ms = self.config.request_timeout_ms.min(deadline.ms_since(now)).max(1);
        call.in_flight = true;
        let request = call.operation.request(timeout_ms as i32);
        self.network.send(now, main_peer(node), request, Context::Operation, timeout_ms, fx);
    }

    /// The next request of an errand, or its end.
    fn go_on(&mut self, now: Time, deadline: Time, fx: Fx<'_>) {
        let Some(call) = self.calls.front_mut() else { return };
        let Some(next) = call.errand.as_mut().map(|errand| errand.next(now, &self.metadata)) else { return };
        let (node, request, context) = match next {
            Next::Metadata => {
                self.metadata.want(call.topics());
                return self.metadata.request_update();
            }
            Next::Done(findings) => {
                findings.into_iter().for_each(|event| fx.event(*event));
                return self.finish(now, Ok(()), fx);
            }
            Next::Refused(error, message) => return self.finish(now, Err((error, message)), fx),
            Next::Instead(operations) => return self.put_instead(now, operations, fx),
            Next::Ask(to, request) => match (&to, &call.coordinator) {
                (To::Broker(node), _) => (Some(*node), *request, Context::Operation),
                (to, Some((of, node))) if of == to => (Some(*node), *request, Context::Operation),
                _ => {
                    let node = self.metadata.least_loaded(now, &self.network);
                    (node, to.lookup(), Context::Coordinator(to))
                }
            },
        };
        let Some(node) = node else { return };
        if !self.network.ready(now, main_peer(node), fx) {
            return;
        }
        if let Some(call) = self.calls.front_mut() {
            call.in_flight = true;
        }
        let timeout_ms = self.config.request_timeout_ms.min(deadline.ms_since(now)).max(1);
        self.network.send(now, main_peer(node), request, context, timeout_ms, fx);
    }

    /// Each has an outcome of its own, before what was asked for later.
    fn put_instead(&mut self, now: Time, operations: Vec<GroupOperation>, fx: Fx<'_>) {
        let Some(Call { text, .. }) = self.calls.pop_front() else { return };
        for operation in operations.into_iter().rev() {
            self.calls.push_front(Call::new(now, text.clone(), Operation::Groups(operation)));
        }
        self.poll(now, fx);
    }

    /// The one broker that could do it is not part of the cluster, for all that is known.
    fn wait_for_node(&mut self, now: Time) {
        if let Some(call) = self.calls.front_mut() {
            call.not_before = now.plus_ms(self.config.retry_backoff.after(0, &mut self.random).max(1));
        }
        self.metadata.request_update();
    }

    fn on_answer(&mut self, now: Time, peer: Peer, context: Context, response: &Response, fx: Fx<'_>) {
        if let Some(call) = self.calls.front_mut()
            && let Some(errand) = &mut call.errand
            && matches!(context, Context::Operation)
        {
            call.in_flight = false;
            let NodeId::Broker(from) = peer.node else { return };
            return match errand.hear(from, response) {
                Heard::Taken => call.tries = 0,
                Heard::Again => self.retry(now),
                Heard::Elsewhere => {
                    call.coordinator = None;
                    self.retry(now);
                }
                Heard::Refused(error, message) => self.finish(now, Err((error, message)), fx),
            };
        }
        let (error, message) = match (context, response) {
            (Context::Metadata, Response::Metadata(answer)) => return self.metadata.on_response(now, answer),
            (Context::Coordinator(of), Response::FindCoordinator(answer)) => {
                return self.on_coordinator(now, of, answer, fx);
            }
            (Context::Operation, response) => operation::outcome(response),
            (context, response) => panic!("{:?} answers {context:?}", response.api()),
        };
        let asks_leader = self.calls.front().is_some_and(|call| call.operation.asks_leader_of().is_some());
        match error {
            ErrorCode::None => {
                let call = self.calls.front();
                if let Some(findings) = call.and_then(|call| call.operation.findings(response)) {
                    fx.event(findings);
                }
                self.finish(now, Ok(()), fx);
            }
            // The leader is looked for again (`PartitionLeaderStrategy`).
            error if asks_leader && (error.refreshes_metadata() || error.is_retriable()) => self.retry(now),
            // What `KafkaAdminClient` itself tries again; the others are for the person to judge.
            ErrorCode::NotController | ErrorCode::NotLeaderOrFollower => self.retry(now),
            error => self.finish(now, Err((error, message)), fx),
        }
    }

    fn on_coordinator(&mut self, now: Time, of: To, answer: &FindCoordinatorResponse, fx: Fx<'_>) {
        let Some(call) = self.calls.front_mut() else { return };
        call.in_flight = false;
        let found = answer.coordinators.first();
        match found.map(|found| (ErrorCode::from_code(found.error_code), BrokerId(found.node_id.0))) {
            Some((ErrorCode::None, node)) => call.coordinator = Some((of, node)),
            Some((error, _)) if !error.is_retriable() => {
                self.finish(now, Err((error, error.name().to_owned())), fx);
            }
            _ => self.retry(now),
        }
    }

    /// Whether a lost request was carried out is not known: a topic that is created again may exist by now.
    fn on_lost(&mut self, now: Time, contexts: Vec<Context>) {
        let mut lost = false;
        for context in contexts {
            match context {
                Context::Metadata => self.metadata.on_failure(now),
                Context::Coordinator(_) | Context::Operation => lost = true,
            }
        }
        if let Some(call) = self.calls.front_mut() {
            // A broker that an errand cannot even connect to may not be the one to ask any more.
            lost |= call.errand.is_some() && !call.in_flight;
            call.coordinator = None;
        }
        if lost {
            self.retry(now);
        }
        self.metadata.on_disconnect(now);
    }

    fn retry(&mut self, now: Time) {
        let Some(call) = self.calls.front_mut() else { return };
        call.in_flight = false;
        call.not_before = now.plus_ms(self.config.retry_backoff.after(call.tries, &mut self.random));
        call.tries += 1;
        self.metadata.request_update();
    }

    fn finish(&mut self, now: Time, outcome: Outcome, fx: Fx<'_>) {
        let Some(Call { text, .. }) = self.calls.pop_front() else { return };
        if let Err((error, message)) = &outcome {
            let (text, error, message) = (text.clone(), *error, message.clone());
            fx.event(Event::CommandRefused { text, error, message });
        }
        self.last_outcome = Some((text, outcome));
        fx.cancel_timer(AdminTimer::Wake);
        if self.calls.is_empty() {
            fx.set_timer(AdminTimer::Idle, now.plus_ms(IDLE_MS));
        } else {
            self.poll(now, fx);
        }
    }

    fn hang_up(&mut self, now: Time, fx: Fx<'_>) {
        for peer in self.network.open_peers() {
            let contexts = self.network.disconnect(now, peer, fx);
            self.on_lost(now, contexts);
        }
    }
}

impl Call {
    fn new(now: Time, text: String, operation: Operation) -> Call {
        Call {
            text,
            operation,
            deadline: None,
            tries: 0,
            not_before: now,
            in_flight: false,
            errand: None,
            coordinator: None,
        }
    }

    /// The topics whose metadata it needs.
    fn topics(&self) -> BTreeSet<Topic> {
        match &self.errand {
            Some(errand) => errand.topics(),
            None => self.operation.asks_leader_of().map(|tp| tp.topic.clone()).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
