//! The administrator's tools: `kafka-topics.sh`, `kafka-configs.sh`, `kafka-leader-election.sh`,
//! `kafka-reassign-partitions.sh` and `kafka-delete-records.sh` on top of Kafka's `KafkaAdminClient`.
//!
//! Operations are worked off one after the other, as a person at a shell would have it. What a change did to the cluster
//! is told by the controller's events; only a refusal is told here.
//!
//! **Invariant:** each operation has one outcome within default.api.timeout.ms of its turn.

mod operation;

use std::collections::VecDeque;

pub use operation::Operation;

use super::config::CommonConfig;
use super::metadata::{Metadata, main_peer};
use crate::kafka::effects::{Effects, Input};
use crate::kafka::event::Event;
use crate::kafka::network_client::{NetworkClient, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName};

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
        let text = text.to_owned();
        self.calls.push_back(Call {
            text,
            operation,
            deadline: None,
            tries: 0,
            not_before: now,
            in_flight: false,
        });
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
            Some(NetworkEvent::Answered { context, response, .. }) => {
                self.on_answer(now, context, &response, fx)
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
        self.metadata.want(call.operation.asks_leader_of().map(|tp| tp.topic.clone()).into_iter().collect());
        if !call.in_flight && call.not_before <= now {
            self.try_to_send(now, deadline, fx);
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

    /// The one broker that could do it is not part of the cluster, for all that is known.
    fn wait_for_node(&mut self, now: Time) {
        if let Some(call) = self.calls.front_mut() {
            call.not_before = now.plus_ms(self.config.retry_backoff.after(0, &mut self.random).max(1));
        }
        self.metadata.request_update();
    }

    fn on_answer(&mut self, now: Time, context: Context, response: &Response, fx: Fx<'_>) {
        let (error, message) = match (context, response) {
            (Context::Metadata, Response::Metadata(answer)) => return self.metadata.on_response(now, answer),
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

    /// Whether a lost request was carried out is not known: a topic that is created again may exist by now.
    fn on_lost(&mut self, now: Time, contexts: Vec<Context>) {
        for context in contexts {
            match context {
                Context::Metadata => self.metadata.on_failure(now),
                Context::Operation => self.retry(now),
            }
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::rc::Rc;

    use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
    use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
    use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
    use kafka_protocol::messages::{
        ApiVersionsResponse, CreateTopicsResponse, IncrementalAlterConfigsResponse, MetadataResponse,
    };

    use kafka_protocol::messages::IncrementalAlterConfigsRequest;

    use super::operation::wire;
    use super::*;
    use crate::kafka::controller::configs::Op;
    use crate::kafka::effects::{Effect, Peer};
    use crate::kafka::protocol::{Request, strict};

    struct Bench {
        admin: AdminClient,
        now: Time,
        timers: BTreeMap<AdminTimer, Time>,
        inbox: VecDeque<Input<AdminTimer>>,
        /// What the cluster answers to the operations, in turn; `None` resets the connection.
        answers: VecDeque<Option<(ErrorCode, &'static str)>>,
        reachable: bool,
        requests: Vec<Request>,
        open: BTreeSet<Peer>,
        refusals: Vec<(String, ErrorCode, String)>,
    }

    impl Bench {
        fn new(answers: &[Option<(ErrorCode, &'static str)>]) -> Bench {
            Bench {
                admin: AdminClient::new(
                    "admin".into(),
                    &[BrokerId(1), BrokerId(2)],
                    Random::stream(1, "admin"),
                ),
                now: Time::ZERO,
                timers: BTreeMap::new(),
                inbox: VecDeque::new(),
                answers: answers.iter().copied().collect(),
                reachable: true,
                requests: Vec::new(),
                open: BTreeSet::new(),
                refusals: Vec::new(),
            }
        }

        fn submit(&mut self, text: &str, operation: Operation) {
            let mut fx = Effects::default();
            self.admin.submit(self.now, text, operation, &mut fx);
            self.carry_out(fx);
        }

        fn run_for(&mut self, ms: i64) {
            let end = self.now.plus_ms(ms);
            loop {
                while let Some(input) = self.inbox.pop_front() {
                    let mut fx = Effects::default();
                    self.admin.handle(self.now, input, &mut fx);
                    self.carry_out(fx);
                }
                match self.timers.iter().map(|(timer, at)| (*at, *timer)).min() {
                    Some((at, timer)) if at <= end => {
                        self.now = at;
                        self.timers.remove(&timer);
                        self.inbox.push_back(Input::Timer(timer));
                    }
                    _ => break,
                }
            }
            self.now = end;
        }

        fn carry_out(&mut self, fx: Effects<AdminTimer>) {
            for effect in fx.into_vec() {
                match effect {
                    Effect::Connect(peer) if self.reachable => {
                        self.open.insert(peer);
                        self.inbox.push_back(Input::Connected(peer));
                    }
                    Effect::Connect(peer) => self.inbox.push_back(Input::Disconnected(peer)),
                    Effect::Disconnect(peer) => drop(self.open.remove(&peer)),
                    Effect::Send { to, correlation, request } => self.serve(to, correlation, &request),
                    Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                    Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                    Effect::Event(Event::CommandRefused { text, error, message }) => {
                        self.refusals.push((text, error, message));
                    }
                    other => panic!("no client does {other:?}"),
                }
            }
        }

        fn serve(&mut self, peer: Peer, correlation: i32, request: &Request) {
            let request = strict::carry_request(request).expect("the wire can carry it");
            let response: Response = match &request {
                Request::ApiVersions(_) => ApiVersionsResponse::default().into(),
                Request::Metadata(_) => {
                    let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
                    MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).into()
                }
                operation => {
                    self.requests.push(operation.clone());
                    let Some((error, message)) = self.answers.pop_front().expect("an answer is planned")
                    else {
                        return self.inbox.push_back(Input::Disconnected(peer));
                    };
                    let message = (!message.is_empty()).then(|| wire(message));
                    if matches!(operation, Request::CreateTopics(_)) {
                        let result = CreatableTopicResult::default();
                        let result = result.with_error_code(error.code()).with_error_message(message);
                        CreateTopicsResponse::default().with_topics(vec![result]).into()
                    } else {
                        let result = AlterConfigsResourceResponse::default();
                        let result = result.with_error_code(error.code()).with_error_message(message);
                        IncrementalAlterConfigsResponse::default().with_responses(vec![result]).into()
                    }
                }
            };
            self.inbox.push_back(Input::Response { from: peer, correlation, response: Rc::new(response) });
        }

        fn check_refusal(&self, error: ErrorCode, message: &str) {
            assert_eq!(self.refusals, [("create topic orders".to_owned(), error, message.to_owned())]);
        }
    }

    fn create() -> Operation {
        let configs = BTreeMap::from([("min.insync.replicas".to_owned(), "2".to_owned())]);
        Operation::CreateTopic { topic: "orders".into(), partitions: 3, replication_factor: 3, configs }
    }

    fn alter(value: Option<&str>) -> Operation {
        let value = value.map(str::to_owned);
        Operation::AlterTopicConfig { topic: "orders".into(), key: "min.insync.replicas".to_owned(), value }
    }

    const DONE: Option<(ErrorCode, &str)> = Some((ErrorCode::None, ""));

    #[test]
    fn operations_are_done_one_after_the_other_in_kafkas_requests() {
        let mut bench = Bench::new(&[DONE, DONE, DONE]);
        bench.submit("create topic orders", create());
        bench.submit("set", alter(Some("1")));
        bench.submit("unset", alter(None));
        assert_eq!(bench.admin.pending(), 3);
        bench.run_for(1000);
        let [
            Request::CreateTopics(create),
            Request::IncrementalAlterConfigs(set),
            Request::IncrementalAlterConfigs(unset),
        ] = &bench.requests[..]
        else {
            panic!("{:?}", bench.requests)
        };
        let topic = &create.topics[0];
        assert_eq!((topic.num_partitions, topic.replication_factor, topic.configs.len()), (3, 3, 1));
        let config = |request: &IncrementalAlterConfigsRequest| {
            let config = &request.resources[0].configs[0];
            (config.config_operation, config.value.as_ref().map(ToString::to_string))
        };
        assert_eq!(config(set), (Op::Set.code(), Some("1".to_owned())));
        assert_eq!(config(unset), (Op::Delete.code(), None));
        assert_eq!(bench.admin.last_outcome(), Some(&("unset".to_owned(), Ok(()))));
        assert!(bench.refusals.is_empty() && bench.admin.pending() == 0);
    }

    #[test]
    fn a_refusal_has_the_brokers_words_or_the_errors_name() {
        let words = "Replication factor is 4 but there are 3 brokers.";
        let mut bench = Bench::new(&[Some((ErrorCode::InvalidReplicationFactor, words))]);
        bench.submit("create topic orders", create());
        bench.run_for(1000);
        bench.check_refusal(ErrorCode::InvalidReplicationFactor, words);

        let mut bench = Bench::new(&[Some((ErrorCode::InvalidPartitions, ""))]);
        bench.submit("create topic orders", create());
        bench.run_for(1000);
        bench.check_refusal(ErrorCode::InvalidPartitions, "INVALID_PARTITIONS");
    }

    #[test]
    fn a_lost_answer_is_tried_again_and_may_find_its_own_topic() {
        let exists = "Topic 'orders' already exists.";
        let mut bench = Bench::new(&[None, Some((ErrorCode::TopicAlreadyExists, exists))]);
        bench.submit("create topic orders", create());
        bench.run_for(2000);
        assert_eq!(bench.requests.len(), 2);
        bench.check_refusal(ErrorCode::TopicAlreadyExists, exists);
    }

    #[test]
    fn a_controller_that_moved_is_asked_again() {
        let mut bench = Bench::new(&[Some((ErrorCode::NotController, "")), DONE]);
        bench.submit("create topic orders", create());
        bench.run_for(1000);
        assert_eq!(bench.requests.len(), 2);
        assert_eq!(bench.admin.last_outcome(), Some(&("create topic orders".to_owned(), Ok(()))));
    }

    #[test]
    fn without_any_broker_an_operation_ends_at_default_api_timeout() {
        let mut bench = Bench::new(&[]);
        bench.reachable = false;
        bench.submit("create topic orders", create());
        bench.run_for(59_999);
        assert_eq!(bench.refusals.len(), 0);
        bench.run_for(1);
        bench.check_refusal(ErrorCode::RequestTimedOut, "timed out after 0 attempt(s)");
    }

    #[test]
    fn it_connects_for_its_work_and_hangs_up_when_idle() {
        let mut bench = Bench::new(&[DONE, DONE]);
        bench.run_for(1000);
        assert!(bench.open.is_empty());
        bench.submit("create topic orders", create());
        bench.run_for(IDLE_MS / 2);
        assert!(!bench.open.is_empty());
        bench.run_for(IDLE_MS);
        assert!(bench.open.is_empty());
        bench.run_for(3_600_000);
        assert!(bench.timers.is_empty(), "{:?}", bench.timers);
        bench.submit("set", alter(Some("1")));
        bench.run_for(1000);
        assert_eq!(bench.requests.len(), 2);
    }
}
