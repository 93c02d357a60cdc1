//! What a client learns of the cluster, and when it asks again.

use super::*;
use crate::kafka::effects::{Effect, Input};
use crate::kafka::network_client::NetworkConfig;
use crate::kafka::protocol::Request;
use crate::kafka::types::NodeId;

struct Bench {
    metadata: Metadata,
    network: NetworkClient<()>,
    now: Time,
    /// Brokers that were asked to connect, and Metadata requests, in order.
    done: Vec<(BrokerId, Option<MetadataRequest>)>,
}

fn tp() -> TopicPartition {
    TopicPartition::new(&"orders".into(), 0)
}

impl Bench {
    fn new() -> Bench {
        let bootstrap = [BrokerId(1), BrokerId(2), BrokerId(3)];
        let random = Random::stream(1, "metadata");
        let mut metadata = Metadata::new(&bootstrap, CommonConfig::default(), true, random.clone());
        metadata.want(BTreeSet::from(["orders".into()]));
        let network = NetworkClient::new("c".into(), NetworkConfig::default(), random);
        Bench { metadata, network, now: Time::ZERO, done: Vec::new() }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Self, &mut Effects<NetworkTimer>) -> R) -> R {
        let mut fx = Effects::default();
        let result = act(self, &mut fx);
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(Peer { node: NodeId::Broker(id), .. }) => self.done.push((id, None)),
                Effect::Send { to: Peer { node: NodeId::Broker(id), .. }, request, .. } => {
                    if let Request::Metadata(request) = request.as_ref() {
                        self.done.push((id, Some(request.clone())));
                    }
                }
                _ => {}
            }
        }
        result
    }

    fn refresh(&mut self) -> Option<Time> {
        self.with(|b, fx| b.metadata.maybe_refresh(b.now, &mut b.network, (), fx))
    }

    fn input(&mut self, input: Input<()>) {
        self.with(|b, fx| drop(b.network.on_input(b.now, &input, fx)));
    }

    fn connect(&mut self, id: BrokerId) {
        self.with(|b, fx| b.network.ready(b.now, main_peer(id), fx));
        self.input(Input::Connected(main_peer(id)));
        let response = kafka_protocol::messages::ApiVersionsResponse::default();
        let correlation = self.next_correlation();
        self.input(Input::Response { from: main_peer(id), correlation, response: Rc::new(response.into()) });
    }

    /// Connections are set up one after the other here, so handshakes are numbered in order.
    fn next_correlation(&self) -> i32 {
        self.done.iter().filter(|(_, request)| request.is_none()).count() as i32 - 1
    }

    fn answer(&mut self, id: TopicId, error: ErrorCode, leader: i32, epoch: i32) {
        let partition = MetadataResponsePartition::default()
            .with_error_code(error.code())
            .with_leader_id(leader.into())
            .with_leader_epoch(epoch);
        let topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(Topic::new("orders").to_wire())))
            .with_topic_id(id.0)
            .with_partitions(vec![partition]);
        let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
        let response =
            MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).with_topics(vec![topic]);
        self.metadata.refresh.in_progress = Some(self.metadata.refresh.wanted_version);
        self.metadata.on_response(self.now, &response);
    }

    fn check_leader(&self, expected: Option<(i32, i32)>) {
        let expected = expected.map(|(leader, epoch)| (BrokerId(leader), LeaderEpoch(epoch)));
        assert_eq!(self.metadata.leader(&tp()), expected);
    }
}

const ID: TopicId = TopicId(uuid::Uuid::from_u128(7));
const OTHER_ID: TopicId = TopicId(uuid::Uuid::from_u128(8));

#[test]
fn an_older_leader_epoch_is_ignored_r_repl_68() {
    let mut bench = Bench::new();
    bench.answer(ID, ErrorCode::None, 1, 5);
    bench.answer(ID, ErrorCode::None, 2, 4);
    bench.check_leader(Some((1, 5)));
    bench.answer(ID, ErrorCode::None, 2, 6);
    bench.check_leader(Some((2, 6)));
}

#[test]
fn a_topic_created_anew_starts_from_its_own_epochs_r_repl_68() {
    let mut bench = Bench::new();
    bench.answer(ID, ErrorCode::None, 1, 5);
    bench.answer(OTHER_ID, ErrorCode::None, 2, 0);
    bench.check_leader(Some((2, 0)));
}

#[test]
fn an_epoch_seen_elsewhere_puts_the_leader_in_doubt_r_repl_68() {
    let mut bench = Bench::new();
    bench.answer(ID, ErrorCode::None, 1, 5);
    bench.metadata.saw_leader_epoch(&tp(), LeaderEpoch(5));
    bench.check_leader(Some((1, 5)));
    bench.metadata.saw_leader_epoch(&tp(), LeaderEpoch(6));
    bench.check_leader(None);
    assert!(bench.metadata.next_update_at() < Time::from_ms(200));
}

#[test]
fn a_leader_hint_counts_if_it_is_newer_and_can_be_reached_r_repl_67() {
    let check = |leader: i32, epoch: i32, endpoints: &[i32], taken: bool| {
        let mut bench = Bench::new();
        bench.answer(ID, ErrorCode::None, 1, 5);
        let endpoints = endpoints.iter().map(|id| (BrokerId(*id), None));
        let hint = (BrokerId(leader), LeaderEpoch(epoch));
        assert_eq!(bench.metadata.take_leader_hint(&tp(), hint.0, hint.1, endpoints), taken, "{hint:?}");
        bench.check_leader(Some(if taken { (leader, epoch) } else { (1, 5) }));
    };
    check(2, 6, &[], true);
    check(2, 5, &[], false);
    check(9, 6, &[], false);
    check(9, 6, &[9], true);
    check(-1, 6, &[], false);
    check(2, -1, &[], false);
}

/// An answer for all topics: `t`, `u` and an internal one.
fn all_topics() -> MetadataResponse {
    let topic = |(number, name): (u128, &str)| {
        MetadataResponseTopic::default()
            .with_name(Some(TopicName(Topic::new(name).to_wire())))
            .with_topic_id(uuid::Uuid::from_u128(number))
            .with_is_internal(name.starts_with('_'))
            .with_partitions(vec![MetadataResponsePartition::default()])
    };
    let broker = MetadataResponseBroker::default().with_node_id(1.into());
    let topics = (1..).zip(["t", "u", "__consumer_offsets"]).map(topic).collect();
    MetadataResponse::default().with_brokers(vec![broker]).with_topics(topics)
}

#[test]
fn of_all_topics_those_are_kept_that_match_and_internal_ones_only_if_they_may() {
    let check = |also: Also, kept: &[&str]| {
        let mut bench = Bench::new();
        bench.metadata.want(BTreeSet::new());
        bench.metadata.want_also(also);
        bench.metadata.on_response(Time::ZERO, &all_topics());
        let topics: Vec<&str> = bench.metadata.topics().keys().map(Topic::as_str).collect();
        assert_eq!(topics, kept);
    };
    let pattern = TopicPattern::new("u|__.*").expect("a pattern");
    check(Also::Matching { pattern: pattern.clone(), with_internal: false }, &["u"]);
    check(Also::Matching { pattern, with_internal: true }, &["__consumer_offsets", "u"]);
    check(Also::Ids(BTreeSet::from([TopicId(uuid::Uuid::from_u128(1))])), &["t"]);
    check(Also::Nothing, &[]);
}

#[test]
fn without_trouble_metadata_is_asked_for_again_at_its_maximum_age_r_repl_69() {
    let mut bench = Bench::new();
    bench.now = Time::from_ms(1000);
    bench.answer(ID, ErrorCode::None, 1, 0);
    assert_eq!(bench.metadata.next_update_at(), Time::from_ms(301_000));
}

#[test]
fn answers_that_bring_nothing_new_back_off_further_and_further() {
    let mut bench = Bench::new();
    let mut waits = Vec::new();
    for _ in 0..5 {
        bench.answer(ID, ErrorCode::LeaderNotAvailable, -1, 0);
        waits.push(bench.metadata.next_update_at().ms());
    }
    assert!(waits[0] <= 120 && waits[4] >= 640, "{waits:?}");
    bench.metadata.want(BTreeSet::from(["orders".into(), "payments".into()]));
    assert_eq!(bench.metadata.next_update_at(), Time::ZERO, "a new topic does not wait");
}

#[test]
fn failures_back_off_r_repl_69() {
    let mut bench = Bench::new();
    for (low, high) in [(80, 120), (160, 240), (320, 480)] {
        bench.metadata.on_failure(bench.now);
        let wait_ms = bench.metadata.next_update_at().ms();
        assert!((low..=high).contains(&wait_ms), "{wait_ms} ms");
    }
}

#[test]
fn one_request_at_a_time_goes_to_a_broker_that_is_connected() {
    let mut bench = Bench::new();
    bench.connect(BrokerId(2));
    bench.done.clear();
    assert_eq!(bench.refresh(), None);
    assert_eq!(bench.refresh(), None);
    let [(BrokerId(2), Some(request))] = &bench.done[..] else { panic!("{:?}", bench.done) };
    let names: Vec<_> = request.topics.iter().flatten().map(|topic| topic.name.clone()).collect();
    assert_eq!(names, [Some(TopicName(Topic::new("orders").to_wire()))]);
    assert!(request.allow_auto_topic_creation);
}

#[test]
fn a_connection_that_is_being_opened_is_waited_for() {
    let mut bench = Bench::new();
    assert_eq!((bench.refresh(), bench.refresh()), (None, None));
    assert_eq!(bench.done.len(), 1);
}

#[test]
fn of_brokers_without_connection_the_one_tried_longest_ago_is_next() {
    let mut bench = Bench::new();
    let mut tried = BTreeSet::new();
    for ms in 0..3 {
        bench.now = Time::from_ms(ms * 1000);
        let node = bench.metadata.least_loaded(bench.now, &bench.network).unwrap();
        tried.insert(node);
        bench.with(|b, fx| b.network.ready(b.now, main_peer(node), fx));
        bench.input(Input::Disconnected(main_peer(node)));
    }
    assert_eq!(tried.len(), 3);
}

#[test]
fn when_no_known_broker_can_be_reached_it_starts_from_the_bootstrap_servers_r_repl_69() {
    let mut bench = Bench::new();
    bench.answer(ID, ErrorCode::None, 1, 0);
    assert!(!bench.metadata.knows(BrokerId(3)));
    bench.now = Time::from_ms(400_000);
    for id in [1, 2] {
        bench.with(|b, fx| b.network.ready(b.now, main_peer(BrokerId(id)), fx));
        bench.input(Input::Disconnected(main_peer(BrokerId(id))));
    }
    bench.done.clear();
    let version = bench.metadata.update_version();
    assert_eq!(bench.refresh(), None);
    assert_eq!(bench.done, [(BrokerId(3), None)]);
    assert_eq!(bench.metadata.partition_count(&tp().topic), None, "what was known is forgotten");
    assert_eq!(bench.metadata.update_version(), version + 1, "who rests on it looks again");
}
