//! Transactions as Kafka ran them: what readers see, what calls throw, and in which order (`read_committed`,
//! `transaction_timeout`, `zombie_fencing`, `send_offsets`).
//!
//! The recorded driver calls beginTransaction() before the first record of each transaction, which has no event of its own;
//! whose a record is shows in its value.

use std::collections::BTreeMap;

use glassbroker::client::group_metadata::GroupMetadata;
use glassbroker::client::producer::Wish;
use glassbroker::client::producer::transaction_manager::State;
use glassbroker::kafka::event::{Event, ProducerEvent, TransactionEvent};
use glassbroker::kafka::types::{BrokerId, ClientName, GroupId, Offset};
use glassbroker::sim::{Command, Target};
use serde_json::{Value, json};

use super::callbacks;
use super::run::{Live, at_ms, events, pairs, text};
use crate::dsl::{Cluster, config, tp};

/// A run in progress.
struct Run {
    live: Live,
    /// The producer of each kind of value: its number in the order of the recorded ones, or none for a plain one.
    makers: BTreeMap<&'static str, Option<usize>>,
    /// The transactional producers, in their order.
    producers: Vec<ClientName>,
    plain: Option<ClientName>,
    readers: usize,
    /// What each consumer that has left said of itself.
    former: Option<GroupMetadata>,
    group: Option<ClientName>,
    /// The link on which the first marker is late.
    slow: Option<(Target, Target)>,
}

#[track_caller]
fn check(name: &str, makers: &[(&'static str, Option<usize>)]) -> Run {
    let mut run = Run {
        live: Live::with(&[("group.min.session.timeout.ms", "1000")]),
        makers: makers.iter().copied().collect(),
        producers: Vec::new(),
        plain: None,
        readers: 0,
        former: None,
        group: None,
        slow: None,
    };
    let events = events(name);
    let began_ms = run.live.c.now_ms() - at_ms(&events[0]);
    for event in &events {
        // Time outs need their time; what else there is takes longer on a real machine than here.
        run.live.wait_until_ms(began_ms + at_ms(event));
        run.event(event);
    }
    run
}

impl Run {
    fn event(&mut self, event: &Value) {
        let (op, args, result) = (text(&event["op"]), &event["args"], &event["result"]);
        match op.as_str() {
            "new_producer" => self.new_producer(args),
            // Reached when it was made.
            "second_instance_initialised" => assert_eq!(self.state(1), State::Ready),
            "send" => self.send(result),
            "commit_transaction" if self.has_late_marker(event) => self.commit_slowly(result),
            "commit_transaction" | "zombie_commit" => self.end(self.maker_of(args, 0), Wish::Commit, result),
            "new_commit" => self.end(1, Wish::Commit, result),
            "abort_transaction" => self.end(self.maker_of(args, 0), Wish::Abort, result),
            "read" => self.read(args, result),
            "start_consumer" => self.start_consumer(args),
            "assigned" => self.called_back("assigned", args, result),
            "revoked" => {
                self.former = self.group.as_ref().map(|name| self.metadata(name));
                self.live.c.give(Command::Close(self.group.clone().expect("it runs")));
                self.called_back("revoked", args, result);
            }
            "closed" => {
                let name = self.group.take().expect("it was started");
                self.live.c.until("it is closed", 1_000, |c| c.world.consumer(&name).is_none());
            }
            "wait_until" => self.live.c.run_ms(200),
            "send_offsets" => self.send_offsets(args, result),
            "committed_offsets" => assert_eq!(self.committed(), *result, "{}", self.live.c.report()),
            _ => self.live.event(event),
        }
    }

    fn new_producer(&mut self, args: &Value) {
        self.live.new_producer(args);
        let name = self.live.producer();
        self.live.c.until("it has initialised", 10_000, |c| state(c, &name) == State::Ready);
        self.producers.push(name);
    }

    fn state(&self, producer: usize) -> State {
        state(&self.live.c, &self.producers[producer])
    }

    fn maker_of(&self, args: &Value, otherwise: usize) -> usize {
        args["producer"].as_str().map_or(otherwise, |name| self.makers[name].expect("it is transactional"))
    }

    /// By whoever makes such values.
    fn send(&mut self, result: &Value) {
        let value = text(&result[0]["value"]);
        let kind = value.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let name = match self.makers[kind] {
            Some(number) => {
                if self.state(number) == State::Ready {
                    self.wish(number, Wish::Begin);
                }
                self.producers[number].clone()
            }
            None => match &self.plain {
                Some(name) => name.clone(),
                None => {
                    self.live.new_producer(&json!({}));
                    self.plain.insert(self.live.producer()).clone()
                }
            },
        };
        self.live.send_by(&name, result);
        if let Some((a, b)) = self.slow.take() {
            self.live.c.give(Command::Slow { a, b, by_us: 0 });
        }
    }

    /// When Kafka ran `read_committed` the first commit's marker came after the next transaction's first record: the markers'
    /// connection had to be opened, over a slower network.
    fn has_late_marker(&self, event: &Value) -> bool {
        self.makers.contains_key("z") && at_ms(event) == 1_200
    }

    fn commit_slowly(&mut self, result: &Value) {
        let initialized = |event: &Event| match event {
            Event::Transaction(TransactionEvent::Initialized { broker, id, .. })
                if id.as_str().starts_with('x') =>
            {
                Some(*broker)
            }
            _ => None,
        };
        let coordinator = self.live.c.events().find_map(initialized).expect("somebody has initialised");
        let leader = BrokerId(self.live.registration().0);
        assert_ne!(coordinator, leader, "no link is between them");
        let (a, b) = (Target::Broker(coordinator), Target::Broker(leader));
        self.live.c.give(Command::Slow { a: a.clone(), b: b.clone(), by_us: 60_000 });
        self.slow = Some((a, b));
        let thrown = self.outcome(0, |run| run.wish(0, Wish::Commit));
        check_thrown(thrown, result, &self.live.c);
    }

    fn wish(&mut self, producer: usize, wish: Wish) {
        let client = self.producers[producer].clone();
        self.live.c.give(Command::Transaction { client, wish });
    }

    /// What the producer's next call throws, or nothing.
    fn outcome(&mut self, producer: usize, act: impl FnOnce(&mut Run)) -> Option<String> {
        let (name, seen) = (self.producers[producer].clone(), self.live.c.world.trace().len_ever());
        act(self);
        let thrown = |c: &Cluster| {
            c.world.trace().since(seen).find_map(|entry| match &entry.event {
                Event::Producer(ProducerEvent::Thrown { client, exception, .. }) if *client == name => {
                    Some(exception.clone())
                }
                _ => None,
            })
        };
        let is_over = |c: &Cluster| thrown(c).is_some() || state(c, &name) == State::Ready;
        self.live.c.until("the call has returned", 30_000, is_over);
        thrown(&self.live.c)
    }

    fn end(&mut self, producer: usize, wish: Wish, result: &Value) {
        if wish == Wish::Abort && self.state(producer) == State::Ready {
            // The application has done so by itself when its call threw.
            return assert_eq!(*result, "done");
        }
        let thrown = self.outcome(producer, |run| run.wish(producer, wish));
        check_thrown(thrown, result, &self.live.c);
        // Markers come after the answer (R-TXN-18), and before the next that was recorded.
        self.live.c.run_ms(20);
    }

    fn read(&mut self, args: &Value, result: &Value) {
        assert_eq!(args["from"], 0);
        self.readers += 1;
        let (name, isolation) = (format!("reader-{}", self.readers), text(&args["isolation"]));
        self.live.c.order(&format!(
            "add consumer {name} without group partitions t-0 program \"poll; process 0ms\" \
             auto.offset.reset=earliest isolation.level={isolation}"
        ));
        self.live.c.run_ms(1_500);
        let offsets: Vec<Offset> = self
            .live
            .c
            .events()
            .filter_map(|event| match event {
                Event::Processed { client, offset, .. } if client.as_str() == name => Some(*offset),
                _ => None,
            })
            .collect();
        let found: Vec<Value> =
            offsets.iter().map(|offset| json!([offset.0, self.live.value_at(*offset)])).collect();
        let records = result["records"].as_array().expect("records");
        let expected: Vec<Value> = records.iter().map(|record| json!([record[0], record[2]])).collect();
        assert_eq!(found, expected, "{args}\n{}", self.live.c.report());
        let consumer = self.live.c.consumer_state(&name);
        let position = consumer.subscription().owned()[&tp("t-0")].position().expect("it has read");
        assert_eq!(position.offset.0, result["position"], "{args}");
    }

    fn start_consumer(&mut self, args: &Value) {
        let mut configs = config(&[("auto.offset.reset", "earliest"), ("metadata.max.age.ms", "2000")]);
        configs.extend(pairs(args).into_iter().filter(|(name, _)| name != "client"));
        let configs: Vec<(&str, &str)> =
            configs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let name = text(&args["client"]);
        self.live.c.consumer(&name, "g", &["t"], &["poll"], &configs);
        self.group = Some(ClientName::new(&name));
    }

    fn called_back(&mut self, call: &str, args: &Value, result: &Value) {
        let name = text(&args["client"]);
        let partitions: Vec<i32> = serde_json::from_value(result.clone()).expect("partitions");
        let last = (call.to_owned(), partitions);
        self.live.c.until("the callback", 10_000, |c| callbacks(c, &name).last() == Some(&last));
    }

    fn metadata(&self, consumer: &ClientName) -> GroupMetadata {
        self.live.c.consumer_state(consumer.as_str()).group_metadata()
    }

    /// beginTransaction(), sendOffsetsToTransaction(), and commitTransaction() if that returned.
    fn send_offsets(&mut self, args: &Value, result: &Value) {
        let group = match text(&args["group_metadata"]).as_str() {
            "full, current" => self.metadata(self.group.as_ref().expect("it runs")),
            "full, of the member that left" => self.former.clone().expect("one has left"),
            "group id only" => GroupMetadata::of_group(GroupId::new("g")),
            other => panic!("metadata that this test does not know: {other}"),
        };
        let offset = Offset(args["offset"].as_i64().expect("an offset"));
        self.wish(0, Wish::Begin);
        let client = self.producers[0].clone();
        let thrown = self.outcome(0, |run| {
            run.live.c.give(Command::SendOffsets { client, offsets: [(tp("t-0"), offset)].into(), group });
            run.live.c.run_ms(500);
            if run.state(0) == State::InTransaction {
                run.wish(0, Wish::Commit);
            }
        });
        let committed = if result == "committed" { &Value::Null } else { result };
        check_thrown(thrown, committed, &self.live.c);
    }

    /// What the group has committed, as its coordinator knows it.
    fn committed(&mut self) -> Value {
        self.live.c.run_ms(300);
        let group = GroupId::new("g");
        let brokers = [1, 2, 3].into_iter().filter_map(|id| self.live.c.world.broker(BrokerId(id)));
        let offsets = brokers.filter_map(|broker| broker.groups().committed_offset(&group, &tp("t-0")));
        let all: BTreeMap<String, i64> =
            offsets.map(|committed| ("0".to_owned(), committed.offset.0)).collect();
        json!(all)
    }
}

fn state(c: &Cluster, name: &ClientName) -> State {
    c.producer_state(name.as_str()).transaction_state().expect("it has a transactional.id")
}

/// The exception's class is compared: the recorded text names producers by their numbers.
#[track_caller]
fn check_thrown(thrown: Option<String>, result: &Value, c: &Cluster) {
    let class = |exception: &str| exception.split(':').next().unwrap_or_default().to_owned();
    let expected = result.as_str().filter(|text| *text != "done").map(class);
    assert_eq!(thrown.as_deref().map(class), expected, "{}", c.report());
}

#[test]
fn readers_of_committed_data_wait_for_open_transactions_and_leave_aborted_ones_out_a58_r_txn_23() {
    check("read_committed", &[("x", Some(0)), ("z", Some(0)), ("y", Some(1)), ("p", None)]);
}

#[test]
fn an_abandoned_transaction_holds_readers_up_until_it_times_out_ex_28_r_txn_26() {
    check("transaction_timeout", &[("x", Some(0)), ("p", None)]);
}

#[test]
fn a_second_producer_fences_the_first_a60_ex_27_r_txn_35() {
    check("zombie_fencing", &[("old", Some(0)), ("zombie", Some(0)), ("new", Some(1))]);
}

#[test]
fn offsets_of_a_member_that_left_are_refused_and_those_of_nobody_are_not_a62_r_txn_32_r_txn_35() {
    check("send_offsets", &[("v", None)]);
}
