//! Operations, their answers, and what becomes of both.

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
            admin: AdminClient::new("admin".into(), &[BrokerId(1), BrokerId(2)], Random::stream(1, "admin")),
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
                Effect::Send { to, correlation, version, request } => {
                    self.serve(to, (correlation, version), &request);
                }
                Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                Effect::Event(Event::CommandRefused { text, error, message }) => {
                    self.refusals.push((text, error, message));
                }
                other => panic!("no client does {other:?}"),
            }
        }
    }

    fn serve(&mut self, peer: Peer, (correlation, version): (i32, i16), request: &Request) {
        let request = strict::carry_request(request, version).expect("the wire can carry it");
        let response: Response = match &request {
            Request::ApiVersions(_) => ApiVersionsResponse::default().into(),
            Request::Metadata(_) => {
                let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
                MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).into()
            }
            operation => {
                self.requests.push(operation.clone());
                let Some((error, message)) = self.answers.pop_front().expect("an answer is planned") else {
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
