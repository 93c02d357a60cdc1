//! Writing a command.

use std::collections::BTreeMap;

use super::application;
use super::consumers;
use super::features;
use super::groups;
use super::program;
use super::share;
use super::tokens::quote;
use super::transactions;
use crate::client::consumer::ConsumerSpec;
use crate::client::producer::Wish;
use crate::client::producer::workload::{ProducerSpec, ValuePattern};
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::types::{BrokerId, ClientName, TopicPartition};
use crate::sim::{Command, Target};

/// The one text form of a command.
pub fn print(command: &Command) -> String {
    match command {
        Command::AddBroker { broker, rack: None } => format!("add broker {broker}"),
        Command::AddBroker { broker, rack: Some(rack) } => {
            format!("add broker {broker} rack {}", quote(rack))
        }
        Command::Kill(process) => format!("kill {}", target(process)),
        Command::CutPower(process) => format!("cut power of {}", target(process)),
        Command::WipeDisk(broker) => format!("wipe disk of broker {broker}"),
        Command::Stop(broker) => format!("stop broker {broker}"),
        Command::StopController(controller) => format!("stop controller {controller}"),
        Command::Start(process) => format!("start {}", target(process)),
        Command::Freeze(process) => format!("freeze {}", target(process)),
        Command::Thaw(process) => format!("thaw {}", target(process)),
        Command::Cut { a, b } => format!("cut {} from {}", target(a), target(b)),
        Command::Heal { a, b } => format!("heal {} from {}", target(a), target(b)),
        Command::Slow { a, b, by_us } => {
            format!("slow {} to {} by {}", target(a), target(b), duration(*by_us))
        }
        Command::SetClock { target: node, ahead_ms: 0 } => format!("set clock of {} right", target(node)),
        Command::SetClock { target: node, ahead_ms } => {
            let way = if *ahead_ms < 0 { "behind" } else { "ahead" };
            let by = duration(ahead_ms.saturating_abs().saturating_mul(1000));
            format!("set clock of {} {way} by {by}", target(node))
        }
        Command::AddProducer(spec) => add_producer(spec),
        Command::Transaction { client: name, wish } => {
            let verb = match wish {
                Wish::Begin => "begin",
                Wish::Commit => "commit",
                Wish::Abort => "abort",
            };
            format!("{verb} transaction of {}", client(name))
        }
        Command::SendOffsets { client, offsets, group } => {
            transactions::print_send_offsets(client, offsets, group)
        }
        Command::Pause(name) => format!("pause {}", client(name)),
        Command::Resume(name) => format!("resume {}", client(name)),
        Command::AddConsumer(spec) => add_consumer(spec),
        Command::AddApplication(spec) => application::print(spec),
        Command::AddShareConsumer(spec) => share::print(spec),
        Command::Flush(name) => format!("flush {}", client(name)),
        Command::Close(name) => format!("close {}", client(name)),
        Command::CloseWith { client, options } => consumers::print_close(client, options),
        Command::Ask { client, ask } => consumers::print(client, ask),
        Command::Program { client, order } => program::print(client, order),
        Command::Crash(name) => format!("crash {}", client(name)),
        Command::CreateTopic { topic, partitions, replication_factor, config } => {
            let topic = quote(topic.as_str());
            let configs = configs(config);
            format!(
                "create topic {topic} partitions {partitions} replication-factor {replication_factor}{configs}"
            )
        }
        Command::AddPartitions { topic, count } => {
            format!("add partitions to {} up to {count}", quote(topic.as_str()))
        }
        Command::DeleteTopic(topic) => format!("delete topic {}", quote(topic.as_str())),
        Command::DeleteRecords { partition: tp, before: None } => {
            format!("delete records of {}", partition(tp))
        }
        Command::DeleteRecords { partition: tp, before: Some(offset) } => {
            format!("delete records of {} before {offset}", partition(tp))
        }
        Command::ElectLeader { kind, partition: None } => format!("elect {} leaders", election(*kind)),
        Command::ElectLeader { kind, partition: Some(tp) } => {
            format!("elect {} leader {}", election(*kind), partition(tp))
        }
        Command::Reassign { partition: tp, replicas } => {
            let ids: Vec<String> = replicas.iter().map(|id| id.to_string()).collect();
            format!("reassign {} to {}", partition(tp), quote(&ids.join(",")))
        }
        Command::CancelReassignment(tp) => format!("cancel reassignment {}", partition(tp)),
        Command::UpdateFeature { feature, level, upgrade } => features::print(feature, *level, *upgrade),
        Command::SetTopicConfig { topic, key, value: Some(value) } => {
            format!("set topic {} {}={}", quote(topic.as_str()), quote(key), quote(value))
        }
        Command::SetTopicConfig { topic, key, value: None } => {
            format!("unset topic {} {}", quote(topic.as_str()), quote(key))
        }
        Command::SetBrokerConfig { broker, key, value: Some(value) } => {
            format!("set {} {}={}", owner(*broker), quote(key), quote(value))
        }
        Command::SetBrokerConfig { broker, key, value: None } => {
            format!("unset {} {}", owner(*broker), quote(key))
        }
        Command::SetGroupConfig { group, key, value: Some(value) } => {
            format!("set group {} {}={}", quote(group.as_str()), quote(key), quote(value))
        }
        Command::SetGroupConfig { group, key, value: None } => {
            format!("unset group {} {}", quote(group.as_str()), quote(key))
        }
        Command::Describe(Resource::Topic(topic)) => format!("describe topic {}", quote(topic.as_str())),
        Command::DescribeQuorum => "describe quorum".to_owned(),
        Command::DescribeFeatures => "describe features".to_owned(),
        Command::Describe(Resource::Broker(broker)) => format!("describe {}", owner(*broker)),
        Command::Describe(Resource::Group(group)) => {
            format!("describe configs of group {}", quote(group.as_str()))
        }
        Command::Groups(operation) => groups::print(operation),
        Command::Transactions(operation) => transactions::print(operation),
    }
}

fn target(target: &Target) -> String {
    match target {
        Target::Broker(id) => format!("broker {id}"),
        Target::Controller(id) => format!("controller {id}"),
        Target::Client(name) => client(name),
    }
}

/// One broker, or the cluster as the default of all.
fn owner(broker: Option<BrokerId>) -> String {
    broker.map_or("cluster".to_owned(), |broker| format!("broker {broker}"))
}

/// In the largest unit that it is a whole number of.
pub(in crate::lab) fn duration(us: i64) -> String {
    const UNITS: [(&str, i64); 4] =
        [("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];
    match UNITS.iter().find(|(_, unit_us)| us % unit_us == 0 && us != 0) {
        Some((unit, unit_us)) => format!("{}{unit}", us / unit_us),
        None if us == 0 => "0ms".to_owned(),
        None => format!("{us}us"),
    }
}

fn election(kind: ElectionType) -> &'static str {
    match kind {
        ElectionType::Preferred => "preferred",
        ElectionType::Unclean => "unclean",
    }
}

fn partition(tp: &TopicPartition) -> String {
    quote(&tp.to_string())
}

pub(super) fn client(name: &ClientName) -> String {
    quote(name.as_str())
}

pub(super) fn configs(config: &BTreeMap<String, String>) -> String {
    config.iter().map(|(key, value)| format!(" {}={}", quote(key), quote(value))).collect()
}

fn add_producer(spec: &ProducerSpec) -> String {
    let (name, topic) = (client(&spec.name), quote(spec.topic.as_str()));
    let (rate, keys) = (quote(&spec.rate.to_string()), quote(&spec.keys.to_string()));
    let mut text = format!("add producer {name} to {topic} rate {rate} keys {keys}");
    if let Some(partition) = spec.partition {
        text.push_str(&format!(" partition {partition}"));
    }
    if spec.value != ValuePattern::for_keys(&spec.keys) {
        text.push_str(&format!(" value {}", quote(&spec.value.to_string())));
    }
    if let Some(bytes) = spec.value_size {
        text.push_str(&format!(" value-size {bytes}"));
    }
    if let Some(pace) = spec.transactions {
        text.push_str(&format!(" transaction {pace}"));
    }
    text + &configs(&spec.config)
}

fn add_consumer(spec: &ConsumerSpec) -> String {
    let group = match spec.has_group() {
        true => format!("to {}", quote(spec.group.as_str())),
        false => "without group".to_owned(),
    };
    let choice = consumers::print_choice(&spec.choice);
    let program: Vec<String> = spec.program.iter().map(|line| line.to_string()).collect();
    format!(
        "add consumer {} {group} {choice} program {}{}",
        client(&spec.name),
        quote(&program.join("; ")),
        configs(&spec.config)
    )
}
