//! The producer against a cluster that answers at once, except Produce: those answers a test gives itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, InitProducerIdResponse, MetadataResponse, ProduceRequest, ProduceResponse, TopicName,
};

use super::status::{BatchState, Waiting};
use super::workload::{KeyPattern, ValuePattern};
use super::*;
use crate::kafka::effects::Effect;
use crate::kafka::protocol::{Request, strict};
use crate::kafka::record::Batch;
use crate::kafka::types::{NodeId, Offset, ProducerEpoch, ProducerId, Topic, TopicId};

const TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

/// A Produce request that waits for the test's answer.
struct Produced {
    peer: Peer,
    correlation: i32,
    at_ms: i64,
    batches: Vec<(i32, Batch)>,
}

impl Produced {
    fn base_sequence(&self) -> i32 {
        self.batches[0].1.base_sequence()
    }

    fn broker(&self) -> NodeId {
        self.peer.node
    }
}

struct Bench {
    producer: Producer,
    now: Time,
    timers: BTreeMap<ProducerTimer, Time>,
    inbox: VecDeque<Input<ProducerTimer>>,
    /// Leader and leader epoch of each partition; -1 for none.
    leaders: Vec<(i32, i32)>,
    topic_error: ErrorCode,
    down: BTreeSet<NodeId>,
    gives_ids: bool,
    produced: VecDeque<Produced>,
    events: Vec<Event>,
    metadata_requests: i32,
    exited: bool,
}

impl Bench {
    /// `leaders` are those of the topic's partitions.
    fn new(rate: &str, config: &[(&str, &str)], leaders: &[i32]) -> Bench {
        let keys: KeyPattern = "cart-{0..7}".parse().unwrap();
        let spec = ProducerSpec {
            name: "checkout-api".into(),
            topic: "orders".into(),
            rate: rate.parse().unwrap(),
            value: ValuePattern::for_keys(&keys),
            keys,
            value_size: Some(20),
            config: config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        let bootstrap = [BrokerId(1), BrokerId(2)];
        let mut bench = Bench {
            producer: Producer::new(spec, &bootstrap, Random::stream(1, "producer")).unwrap(),
            now: Time::ZERO,
            timers: BTreeMap::new(),
            inbox: VecDeque::from([Input::Start]),
            leaders: leaders.iter().map(|leader| (*leader, 0)).collect(),
            topic_error: ErrorCode::None,
            down: BTreeSet::new(),
            gives_ids: true,
            produced: VecDeque::new(),
            events: Vec::new(),
            metadata_requests: 0,
            exited: false,
        };
        bench.run_for(0);
        bench
    }

    /// A producer that has just made its first record and makes no other for an hour.
    fn with_one_record(config: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new("1/h", config, &[1]);
        bench.run_for(3_600_000);
        bench
    }

    fn run_for(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        loop {
            while let Some(input) = self.inbox.pop_front() {
                let mut fx = Effects::default();
                self.producer.handle(self.now, input, &mut fx);
                self.carry_out(fx);
            }
            let due = self.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            match due {
                Some((at, timer)) if at <= end => {
                    assert!(at >= self.now, "{timer:?} was set in the past");
                    self.now = at;
                    self.timers.remove(&timer);
                    self.inbox.push_back(Input::Timer(timer));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn call(&mut self, act: impl Fn(&mut Producer, Time, &mut Effects<ProducerTimer>)) {
        let mut fx = Effects::default();
        act(&mut self.producer, self.now, &mut fx);
        self.carry_out(fx);
        self.run_for(0);
    }

    fn carry_out(&mut self, fx: Effects<ProducerTimer>) {
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) if self.down.contains(&peer.node) => {
                    self.inbox.push_back(Input::Disconnected(peer));
                }
                Effect::Connect(peer) => self.inbox.push_back(Input::Connected(peer)),
                Effect::Send { to, correlation, request } => self.serve(to, correlation, &request),
                Effect::SetTimer { timer, at } => {
                    self.timers.insert(timer, at);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Event(event) => self.events.push(event),
                Effect::Exit => self.exited = true,
                Effect::Disconnect(_) => {}
                other => panic!("no client does {other:?}"),
            }
        }
    }

    fn serve(&mut self, peer: Peer, correlation: i32, request: &Request) {
        let request = strict::carry_request(request).expect("the wire can carry it");
        let response: Response = match request {
            Request::ApiVersions(_) => ApiVersionsResponse::default().into(),
            Request::Metadata(_) => {
                self.metadata_requests += 1;
                self.metadata().into()
            }
            Request::InitProducerId(_) if !self.gives_ids => {
                let error = ErrorCode::CoordinatorLoadInProgress.code();
                InitProducerIdResponse::default().with_error_code(error).into()
            }
            Request::InitProducerId(_) => {
                InitProducerIdResponse::default().with_producer_id(1000.into()).with_producer_epoch(0).into()
            }
            Request::Produce(request) => return self.take_produce(peer, correlation, &request),
            other => panic!("unexpected {:?}", other.api()),
        };
        self.inbox.push_back(Input::Response { from: peer, correlation, response: Rc::new(response) });
    }

    fn take_produce(&mut self, peer: Peer, correlation: i32, request: &ProduceRequest) {
        let mut batches = Vec::new();
        for topic in &request.topic_data {
            assert_eq!(TopicId(topic.topic_id), TOPIC_ID);
            for partition in &topic.partition_data {
                let mut bytes = partition.records.clone().unwrap();
                let batch = Batch::parse(&mut bytes).unwrap();
                batch.check_crc().unwrap();
                batches.push((partition.index, batch));
            }
        }
        self.produced.push_back(Produced { peer, correlation, at_ms: self.now.ms(), batches });
    }

    fn metadata(&self) -> MetadataResponse {
        let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
        let partition = |(index, (leader, epoch)): (usize, &(i32, i32))| {
            let error = if *leader < 0 { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
            MetadataResponsePartition::default()
                .with_error_code(error.code())
                .with_partition_index(index as i32)
                .with_leader_id((*leader).into())
                .with_leader_epoch(*epoch)
        };
        let partitions = self.leaders.iter().enumerate().map(partition).collect();
        let topic = MetadataResponseTopic::default()
            .with_error_code(self.topic_error.code())
            .with_name(Some(TopicName(Topic::new("orders").to_wire())))
            .with_topic_id(TOPIC_ID.0)
            .with_partitions(if self.topic_error.is_ok() { partitions } else { Vec::new() });
        MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).with_topics(vec![topic])
    }

    /// Runs until the producer sends a batch.
    fn next(&mut self) -> Produced {
        for _ in 0..200_000 {
            if let Some(produced) = self.produced.pop_front() {
                return produced;
            }
            self.run_for(1);
        }
        panic!("nothing was sent; waits for {:?}", self.producer.waits_for());
    }

    fn answer(&mut self, to: &Produced, error: ErrorCode, hint: Option<(i32, i32)>) {
        let (leader, epoch) = hint.unwrap_or((-1, -1));
        let partition = |(index, batch): &(i32, Batch)| {
            PartitionProduceResponse::default()
                .with_index(*index)
                .with_error_code(error.code())
                .with_base_offset(if error.is_ok() { batch.base_sequence().max(0).into() } else { -1 })
                .with_current_leader(
                    LeaderIdAndEpoch::default().with_leader_id(leader.into()).with_leader_epoch(epoch),
                )
        };
        let topic = TopicProduceResponse::default()
            .with_topic_id(TOPIC_ID.0)
            .with_partition_responses(to.batches.iter().map(partition).collect());
        let response = Rc::new(ProduceResponse::default().with_responses(vec![topic]).into());
        self.inbox.push_back(Input::Response { from: to.peer, correlation: to.correlation, response });
        self.run_for(0);
    }

    fn accept(&mut self, to: &Produced) {
        self.answer(to, ErrorCode::None, None);
    }

    fn refuse(&mut self, to: &Produced, error: ErrorCode) {
        self.answer(to, error, None);
    }

    fn disconnect(&mut self, broker: i32) {
        self.inbox.push_back(Input::Disconnected(crate::client::metadata::main_peer(BrokerId(broker))));
        self.run_for(0);
    }

    fn check_counts(&self, acknowledged: i64, failed: i64) {
        let counts = self.producer.counts();
        assert_eq!((counts.acknowledged, counts.failed), (acknowledged, failed), "{:?}", self.events);
    }

    fn failures(&self) -> Vec<ErrorCode> {
        let error = |event: &Event| match event {
            Event::BatchFailed { error, .. } => Some(*error),
            _ => None,
        };
        self.events.iter().filter_map(error).collect()
    }
}

#[test]
fn the_first_batch_leaves_after_its_linger_with_sequence_0_r_prod_4_23_24() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    assert_eq!(bench.producer.identity(), Some((ProducerId(1000), ProducerEpoch(0))));
    let sent = bench.next();
    let batch = &sent.batches[0].1;
    assert_eq!(sent.at_ms, 105);
    assert_eq!(
        (batch.producer_id(), batch.producer_epoch(), batch.base_sequence()),
        (ProducerId(1000), ProducerEpoch(0), 0)
    );
    assert_eq!(batch.base_timestamp_ms(), Time::from_ms(100).wall_ms());
    bench.accept(&sent);
    bench.check_counts(1, 0);
    assert!(
        bench
            .events
            .iter()
            .any(|event| matches!(event, Event::BatchAcknowledged { base_offset: Offset(0), .. }))
    );
}

#[test]
fn records_made_while_a_batch_lingers_share_it_and_its_sequences() {
    let mut bench = Bench::new("1000/s", &[("linger.ms", "9")], &[1]);
    let sent = bench.next();
    assert_eq!(sent.batches[0].1.record_count(), 10);
    bench.accept(&sent);
    assert_eq!(bench.next().base_sequence(), 10);
}

#[test]
fn one_request_carries_a_batch_of_each_partition_of_its_broker_r_prod_3() {
    let mut bench = Bench::new("1000/s", &[("linger.ms", "50")], &[1, 1, 1]);
    let sent = bench.next();
    let partitions: Vec<i32> = sent.batches.iter().map(|(partition, _)| *partition).collect();
    assert_eq!(partitions, [0, 1, 2]);
}

#[test]
fn at_most_five_requests_of_a_connection_are_unanswered_r_prod_6() {
    let mut bench = Bench::new("100/s", &[], &[1]);
    bench.run_for(1000);
    assert_eq!(bench.produced.len(), 5);
    let first = bench.produced.pop_front().unwrap();
    bench.accept(&first);
    assert_eq!(bench.produced.len(), 5, "the answer made room for one");
    let grown = bench.produced.back().unwrap();
    assert!(grown.batches[0].1.record_count() > 10, "what waited went together, R-PROD-4");
}

#[test]
fn acks_0_is_done_when_sent_and_knows_no_offset() {
    let mut bench = Bench::new("10/s", &[("acks", "0")], &[1]);
    bench.run_for(1050);
    bench.check_counts(10, 0);
    let offset = |event: &Event| match event {
        Event::BatchAcknowledged { base_offset, .. } => Some(*base_offset),
        _ => None,
    };
    assert!(bench.events.iter().filter_map(offset).all(|offset| offset == Offset::UNKNOWN));
    assert_eq!(bench.produced[0].batches[0].1.producer_id(), ProducerId::NONE, "R-PROD-22: not idempotent");
}

#[test]
fn a_leader_hint_sends_the_retry_at_once_to_the_new_leader_r_repl_67() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    let before = bench.metadata_requests;
    bench.answer(&sent, ErrorCode::NotLeaderOrFollower, Some((2, 1)));
    let again = bench.next();
    assert_eq!((again.broker(), again.at_ms), (NodeId::Broker(BrokerId(2)), sent.at_ms));
    assert_eq!(again.base_sequence(), 0);
    bench.run_for(200);
    assert!(bench.metadata_requests > before, "it asks for metadata as well");
}

#[test]
fn the_same_leader_is_tried_again_only_after_back_off_r_prod_17() {
    let mut bench = Bench::with_one_record(&[]);
    let mut last = bench.next();
    for (low, high) in [(80, 120), (160, 240), (320, 480), (640, 960), (800, 1000)] {
        bench.refuse(&last, ErrorCode::NotEnoughReplicas);
        let states: Vec<BatchState> = bench.producer.batches(bench.now).map(|batch| batch.state).collect();
        assert!(matches!(states[0], BatchState::BackingOff { .. }), "{states:?}");
        let again = bench.next();
        let waited_ms = again.at_ms - last.at_ms;
        assert!((low..=high + 1).contains(&waited_ms), "{waited_ms} ms");
        last = again;
    }
}

#[test]
fn what_is_never_accepted_fails_at_delivery_timeout_r_prod_15_18() {
    let config =
        [("delivery.timeout.ms", "2000"), ("request.timeout.ms", "1000"), ("enable.idempotence", "false")];
    let mut bench = Bench::with_one_record(&config);
    let made_at = bench.now;
    while bench.producer.counts().failed == 0 {
        if let Some(sent) = bench.produced.pop_front() {
            bench.refuse(&sent, ErrorCode::NotEnoughReplicas);
        }
        bench.run_for(1);
    }
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    assert_eq!(bench.now.ms_since(made_at), 2000);
}

#[test]
fn retries_end_where_the_config_says_r_prod_17() {
    let mut bench = Bench::with_one_record(&[("retries", "2")]);
    for _ in 0..3 {
        let sent = bench.next();
        bench.refuse(&sent, ErrorCode::NotEnoughReplicas);
    }
    assert_eq!(bench.failures(), [ErrorCode::NotEnoughReplicas]);
    bench.run_for(3_600_000);
    assert_eq!(bench.next().base_sequence(), 1, "whether sequence 0 was written is not known");
}

#[test]
fn a_lost_connection_sends_the_batch_again_with_its_sequence_r_prod_16_24() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    bench.disconnect(1);
    let again = bench.next();
    assert_eq!(again.batches, sent.batches);
    let retried =
        |event: &Event| matches!(event, Event::BatchRetried { error: ErrorCode::NetworkException, .. });
    assert!(bench.events.iter().any(retried));
    assert!(bench.events.iter().any(|event| matches!(event, Event::ConnectionLost { requests: 1, .. })));
}

#[test]
fn no_answer_within_request_timeout_costs_the_connection_r_prod_16() {
    let mut bench = Bench::with_one_record(&[]);
    let sent = bench.next();
    let again = bench.next();
    assert!((30_000..31_000).contains(&(again.at_ms - sent.at_ms)));
    let timed_out = |event: &Event| matches!(event, Event::RequestTimedOut { api: ApiKey::Produce, .. });
    assert_eq!(bench.events.iter().filter(|event| timed_out(event)).count(), 1);
}

#[test]
fn retried_batches_keep_their_order_with_idempotence_r_prod_21_29() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let (first, second, third) = (bench.next(), bench.next(), bench.next());
    bench.call(Producer::pause);
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    bench.refuse(&second, ErrorCode::OutOfOrderSequenceNumber);
    bench.refuse(&third, ErrorCode::OutOfOrderSequenceNumber);
    for expected in 0..3 {
        let again = bench.next();
        assert_eq!(again.base_sequence(), expected);
        bench.run_for(2000);
        assert!(bench.produced.is_empty(), "the next waits until this one is through");
        bench.accept(&again);
    }
    bench.check_counts(3, 0);
    assert_eq!(bench.producer.identity().unwrap().1, ProducerEpoch(0));
}

#[test]
fn a_retry_is_overtaken_without_idempotence_r_prod_21() {
    let mut bench = Bench::new("10/s", &[("enable.idempotence", "false")], &[1]);
    let (first, second) = (bench.next(), bench.next());
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    bench.accept(&second);
    bench.call(Producer::pause);
    let again = bench.next();
    assert_eq!(again.batches, first.batches);
    bench.accept(&again);
    bench.check_counts(2, 0);
}

#[test]
fn one_in_flight_request_mutes_its_partition_r_prod_6() {
    let config = [("max.in.flight.requests.per.connection", "1"), ("enable.idempotence", "false")];
    let mut bench = Bench::new("10/s", &config, &[1]);
    let first = bench.next();
    bench.run_for(1000);
    assert!(bench.produced.is_empty());
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    let again = bench.next();
    assert_eq!(again.batches, first.batches, "nothing overtakes");
}

#[test]
fn a_muted_partition_stays_so_when_its_leader_moves_r_prod_6() {
    let config = [("max.in.flight.requests.per.connection", "1")];
    let mut bench = Bench::new("10/s", &config, &[1, 1]);
    let first = bench.next();
    bench.leaders = vec![(2, 1), (2, 1)];
    bench.call(|producer, _, _| producer.metadata.request_update());
    bench.run_for(5000);
    let muted: BTreeSet<i32> = first.batches.iter().map(|(partition, _)| *partition).collect();
    let others = bench.produced.iter().flat_map(|sent| &sent.batches).map(|(partition, _)| *partition);
    assert!(others.eq(BTreeSet::from([0, 1]).difference(&muted).copied()), "the other partition goes on");
}

#[test]
fn no_partition_starves_at_max_request_size_r_prod_3() {
    let config = [("max.request.size", "200"), ("batch.size", "200")];
    let mut bench = Bench::new("1000/s", &config, &[1, 1, 1]);
    bench.run_for(1000);
    let mut partitions = Vec::new();
    for _ in 0..6 {
        let oldest = bench.produced.pop_front().unwrap();
        bench.accept(&oldest);
        let newest = bench.produced.back().unwrap();
        assert_eq!(newest.batches.len(), 1, "two batches are too much for one request");
        partitions.push(newest.batches[0].0);
    }
    partitions.sort();
    assert_eq!(partitions, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_leader_whose_address_is_not_known_makes_it_ask_again() {
    let mut bench = Bench::new("10/s", &[], &[9]);
    bench.run_for(3000);
    assert!(bench.produced.is_empty());
    bench.leaders = vec![(1, 0)];
    assert!(bench.next().at_ms < 5000);
}

#[test]
fn a_final_refusal_starts_a_new_epoch_at_0_r_prod_30() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.refuse(&first, ErrorCode::InvalidRecord);
    bench.check_counts(0, 1);
    let next = bench.next();
    let batch = &next.batches[0].1;
    assert_eq!((batch.producer_epoch(), batch.base_sequence()), (ProducerEpoch(1), 0));
    let epochs = |event: &Event| matches!(event, Event::ProducerIdGiven { epoch: ProducerEpoch(1), .. });
    assert!(bench.events.iter().any(epochs));
}

#[test]
fn out_of_order_of_the_next_batch_is_sent_again_in_a_new_epoch_r_prod_29() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.accept(&first);
    let second = bench.next();
    bench.call(Producer::pause);
    bench.refuse(&second, ErrorCode::OutOfOrderSequenceNumber);
    for epoch in 1..=2 {
        let again = bench.next();
        let batch = &again.batches[0].1;
        assert_eq!((batch.producer_epoch(), batch.base_sequence()), (ProducerEpoch(epoch), 0));
        if epoch == 1 {
            bench.refuse(&again, ErrorCode::OutOfOrderSequenceNumber);
        } else {
            bench.accept(&again);
        }
    }
    bench.check_counts(2, 0);
}

#[test]
fn a_duplicate_sequence_counts_as_written_r_prod_26() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.refuse(&first, ErrorCode::DuplicateSequenceNumber);
    bench.check_counts(1, 0);
}

#[test]
fn a_batch_that_is_too_large_is_split_r_prod_19() {
    let config = [("linger.ms", "9"), ("batch.size", "200")];
    let mut bench = Bench::new("1000/s", &config, &[1]);
    let whole = bench.next();
    let records = whole.batches[0].1.record_count();
    bench.call(Producer::pause);
    bench.refuse(&whole, ErrorCode::MessageTooLarge);
    let mut first = bench.next();
    assert_eq!(first.batches[0].1.record_count(), records, "batch.size is no limit to what fitted before");
    bench.refuse(&first, ErrorCode::MessageTooLarge);
    first = bench.next();
    assert!(first.batches[0].1.record_count() < records);
    assert_eq!(first.base_sequence(), 0);
}

#[test]
fn a_single_record_that_is_too_large_fails_r_prod_19() {
    let mut bench = Bench::with_one_record(&[]);
    let sent = bench.next();
    bench.refuse(&sent, ErrorCode::MessageTooLarge);
    assert_eq!(bench.failures(), [ErrorCode::MessageTooLarge]);
}

#[test]
fn a_leaderless_partition_keeps_its_records_until_there_is_a_leader_r_repl_66() {
    let mut bench = Bench::new("10/s", &[], &[-1]);
    bench.run_for(5000);
    assert!(bench.produced.is_empty());
    let tp = TopicPartition::new(&"orders".into(), 0);
    assert_eq!(bench.producer.waits_for(), [Waiting::Leader(tp)]);
    let asked = bench.metadata_requests;
    assert!((5..=20).contains(&asked), "{asked} requests in 5 s: answers that bring nothing new back off");
    bench.leaders = vec![(2, 1)];
    let sent = bench.next();
    assert_eq!(sent.batches[0].1.record_count(), (sent.at_ms / 100) as i32);
}

#[test]
fn send_to_an_unknown_topic_blocks_and_fails_after_max_block_r_prod_1() {
    let mut bench = Bench::new("10/s", &[("max.block.ms", "3000")], &[1]);
    bench.topic_error = ErrorCode::UnknownTopicOrPartition;
    bench.run_for(3050);
    let orders: Topic = "orders".into();
    assert_eq!(bench.producer.waits_for(), [Waiting::Metadata(orders, ErrorCode::UnknownTopicOrPartition)]);
    assert_eq!(bench.producer.counts().sent, 1, "the application's only thread is blocked");
    bench.run_for(50);
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    bench.topic_error = ErrorCode::None;
    let sent = bench.next();
    bench.accept(&sent);
    bench.check_counts(1, 1);
}

#[test]
fn a_topic_name_that_is_invalid_fails_each_record_at_once() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    bench.topic_error = ErrorCode::InvalidTopicException;
    bench.run_for(350);
    assert_eq!(bench.failures(), [ErrorCode::InvalidTopicException; 3]);
}

#[test]
fn full_memory_blocks_send_until_a_batch_is_through_r_prod_2() {
    let config = [
        ("buffer.memory", "400"),
        ("batch.size", "200"),
        ("linger.ms", "600000"),
        ("delivery.timeout.ms", "900000"),
    ];
    let mut bench = Bench::new("100/s", &config, &[1]);
    bench.run_for(1000);
    assert_eq!(bench.producer.waits_for(), [Waiting::Memory]);
    assert_eq!(bench.produced.len(), 2, "full memory ends the linger, R-PROD-3");
    let made = bench.producer.counts().sent;
    let first = bench.produced.pop_front().unwrap();
    bench.accept(&first);
    bench.run_for(20);
    assert!(bench.producer.counts().sent > made);
}

#[test]
fn a_record_above_max_request_size_is_not_sent_r_prod_1() {
    let mut bench = Bench::new("10/s", &[("max.request.size", "100")], &[1]);
    bench.run_for(250);
    assert_eq!(bench.failures(), [ErrorCode::MessageTooLarge; 2]);
    assert!(bench.produced.is_empty());
}

#[test]
fn nothing_is_sent_before_the_producer_id_is_there_r_prod_23() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    bench.producer.sequences = Some(Sequences::default());
    bench.gives_ids = false;
    bench.run_for(2000);
    assert!(bench.produced.is_empty());
    assert_eq!(bench.producer.waits_for(), [Waiting::ProducerId]);
    bench.gives_ids = true;
    assert_eq!(bench.next().base_sequence(), 0);
}

#[test]
fn an_answer_after_the_delivery_timeout_changes_no_count_r_prod_18() {
    let config = [("delivery.timeout.ms", "1000"), ("request.timeout.ms", "900"), ("linger.ms", "0")];
    let mut bench = Bench::new("1/s", &config, &[-1]);
    bench.run_for(1500);
    bench.leaders = vec![(1, 1)];
    let sent = bench.next();
    bench.call(Producer::pause);
    bench.run_for(2000 - bench.now.ms());
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    assert_eq!(bench.producer.batches(bench.now).next().map(|batch| batch.state), Some(BatchState::GivenUp));
    bench.accept(&sent);
    bench.check_counts(0, 1);
    assert_eq!(bench.producer.batches(bench.now).count(), 0);
}

#[test]
fn a_paused_producer_makes_nothing_and_finishes_what_it_made() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let sent = bench.next();
    bench.call(Producer::pause);
    bench.accept(&sent);
    bench.run_for(5000);
    assert_eq!(bench.producer.counts(), Counts { sent: 1, acknowledged: 1, failed: 0 });
    let resumed_at = bench.now;
    bench.call(Producer::resume);
    assert_eq!(bench.next().at_ms, resumed_at.ms() + 105);
}

#[test]
fn close_sends_what_lingers_and_ends_with_the_last_outcome_r_prod_8() {
    let mut bench = Bench::new("10/s", &[("linger.ms", "1000")], &[1]);
    bench.run_for(150);
    bench.call(Producer::close);
    assert!(!bench.exited);
    let sent = bench.next();
    assert_eq!(sent.at_ms, 150);
    bench.accept(&sent);
    assert!(bench.exited);
    bench.check_counts(1, 0);
}

#[test]
fn while_its_leader_is_down_a_batch_waits_for_the_connection() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    bench.down.insert(sent.broker());
    bench.disconnect(1);
    bench.run_for(3000);
    assert_eq!(bench.producer.waits_for(), [Waiting::Connection(BrokerId(1))]);
    bench.leaders = vec![(2, 1)];
    let again = bench.next();
    assert_eq!((again.broker(), again.base_sequence()), (NodeId::Broker(BrokerId(2)), 0));
}
