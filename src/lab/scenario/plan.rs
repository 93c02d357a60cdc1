//! A scenario from a few numbers: one topic, who writes to it, who reads it.

use std::collections::BTreeMap;

use super::{DEFAULT_LATENCY_US, FIRST_CONTROLLER, Scenario, ScenarioError, TopicSpec};
use crate::client::consumer::{Choice, ConsumerSpec};
use crate::client::producer::workload::{KeyPattern, ProducerSpec, Rate, ValuePattern};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, Topic};
use crate::lab::command::default_program;

/// What a builder asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub controllers: i32,
    pub brokers: i32,
    pub topic: String,
    pub partitions: i32,
    pub replication_factor: i16,
    pub min_insync_replicas: i32,
    pub producers: i32,
    /// Of each producer.
    pub rate: Rate,
    pub keys: KeyPattern,
    /// all, 1 or 0.
    pub acks: String,
    pub group: String,
    pub consumers: i32,
    /// classic or consumer.
    pub group_protocol: String,
    /// Where nothing is committed yet.
    pub start: Time,
}

impl Plan {
    /// The file that says so.
    ///
    /// # Errors
    ///
    /// What Kafka, or this program, does not take.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        let text = self.scenario().to_toml();
        Scenario::parse(&text).map(|_| text)
    }

    fn scenario(&self) -> Scenario {
        let racks = ["a", "b", "c"].into_iter().cycle();
        let brokers = (1..=self.brokers).zip(racks).map(|(id, rack)| (BrokerId(id), Some(rack.to_owned())));
        Scenario {
            seed: self.seed,
            start: self.start,
            latency_us: DEFAULT_LATENCY_US,
            controllers: (FIRST_CONTROLLER..FIRST_CONTROLLER + self.controllers).map(ControllerId).collect(),
            broker_config: BTreeMap::new(),
            features: BTreeMap::new(),
            brokers: brokers.collect(),
            topics: vec![TopicSpec {
                name: Topic::new(&self.topic),
                partitions: self.partitions,
                replication_factor: self.replication_factor,
                config: config(&[("min.insync.replicas", &self.min_insync_replicas.to_string())]),
            }],
            producers: (1..=self.producers).map(|number| (Time::ZERO, self.producer(number))).collect(),
            consumers: (0..self.consumers).map(|number| (Time::ZERO, self.consumer(number))).collect(),
            share_consumers: Vec::new(),
            applications: Vec::new(),
            at: Vec::new(),
            expected: Vec::new(),
        }
    }

    fn producer(&self, number: i32) -> ProducerSpec {
        ProducerSpec {
            name: ClientName::new(&format!("producer-{number}")),
            topic: Topic::new(&self.topic),
            rate: self.rate,
            keys: self.keys.clone(),
            partition: None,
            value: ValuePattern::for_keys(&self.keys),
            value_size: None,
            transactions: None,
            config: config(&[("acks", &self.acks)]),
        }
    }

    fn consumer(&self, number: i32) -> ConsumerSpec {
        ConsumerSpec {
            name: ClientName::new(&format!("consumer-{}", letters(number))),
            group: GroupId::new(&self.group),
            choice: Choice::Topics(vec![Topic::new(&self.topic)]),
            program: default_program(),
            config: config(&[
                ("auto.offset.reset", "earliest"),
                ("enable.auto.commit", "false"),
                ("group.protocol", &self.group_protocol),
            ]),
        }
    }
}

fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// a to z, then aa, ab and so on.
fn letters(number: i32) -> String {
    let (rest, letter) = (number / 26, char::from(b'a' + (number % 26) as u8));
    match rest {
        0 => letter.to_string(),
        _ => letters(rest - 1) + &letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            seed: 7,
            controllers: 3,
            brokers: 5,
            topic: "orders".to_owned(),
            partitions: 6,
            replication_factor: 3,
            min_insync_replicas: 2,
            producers: 2,
            rate: "5/s".parse().expect("a rate"),
            keys: "cart-{0..7}".parse().expect("keys"),
            acks: "all".to_owned(),
            group: "billing".to_owned(),
            consumers: 28,
            group_protocol: "consumer".to_owned(),
            start: Time::from_ms(12_000),
        }
    }

    #[test]
    fn a_plan_is_a_scenario_file() {
        let scenario = Scenario::parse(&plan().to_toml().expect("it is right")).expect("it was read before");
        assert_eq!(scenario, plan().scenario());
        let names: Vec<&str> = scenario.consumers.iter().map(|(_, spec)| spec.name.as_str()).collect();
        assert_eq!(
            (names[0], names[25], names[26], names[27]),
            ("consumer-a", "consumer-z", "consumer-aa", "consumer-ab")
        );
        assert!(Plan { producers: 0, consumers: 0, ..plan() }.to_toml().is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let check = |plan: Plan, reason: &str| {
            let error = plan.to_toml().expect_err(reason).reason;
            assert!(error.contains(reason), "{error}");
        };
        check(Plan { controllers: 2, ..plan() }, "a quorum has 1, 3 or 5 controllers");
        check(Plan { brokers: 2, ..plan() }, "3 replicas are not possible; the cluster has 2 brokers");
        check(Plan { brokers: 0, ..plan() }, "a cluster needs a broker");
        check(Plan { topic: "or ders".to_owned(), ..plan() }, "INVALID_TOPIC_EXCEPTION");
        check(Plan { group: String::new(), ..plan() }, "group");
        check(Plan { consumers: 999, ..plan() }, "there are at most 1000 clients");
    }
}
