//! What a program sees of a sandbox: the view model without its pictures.

use serde::Serialize;

use crate::lab::session::Session;
use crate::view::build;
use crate::view::model::{BrokerView, ConsumerView, Model, ProducerView, Role, Standing};

/// Sentences that a snapshot carries.
const SENTENCES: usize = 50;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Virtual milliseconds.
    now: i64,
    events: u64,
    brokers: Vec<Broker>,
    partitions: Vec<Partition>,
    producers: Vec<Producer>,
    groups: Vec<Group>,
    /// Oldest first.
    sentences: Vec<Sentence>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Broker {
    id: i32,
    rack: Option<String>,
    state: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Partition {
    topic: String,
    partition: i32,
    /// -1: none.
    leader: i32,
    leader_epoch: i32,
    isr: Vec<i32>,
    replicas: Vec<Replica>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replica {
    broker: i32,
    in_sync: bool,
    log_start: i64,
    high_watermark: i64,
    log_end: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Producer {
    name: String,
    paused: bool,
    sent: i64,
    acknowledged: i64,
    failed: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    id: String,
    state: String,
    generation: i32,
    /// -1: none known.
    coordinator: i32,
    members: Vec<Member>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    state: String,
    assigned: Vec<Assigned>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Assigned {
    topic: String,
    partition: i32,
    position: Option<i64>,
    committed: Option<i64>,
    lag: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sentence {
    time: i64,
    title: String,
    detail: String,
    rules: Vec<String>,
}

impl Snapshot {
    pub fn of(session: &Session) -> Snapshot {
        let model = build::model(session, None, None);
        let skip = model.sentences.len().saturating_sub(SENTENCES);
        let sentences = model.sentences.iter().skip(skip).map(|sentence| Sentence {
            time: sentence.time.ms(),
            title: sentence.title.to_string(),
            detail: sentence.detail.to_string(),
            rules: sentence.rules.iter().map(|rule| rule.to_string()).collect(),
        });
        Snapshot {
            now: model.now.ms(),
            events: model.events_done,
            brokers: model.brokers.iter().map(|broker| broker_of(broker)).collect(),
            partitions: partitions(&model, session),
            producers: model.producers.iter().map(|producer| producer_of(producer)).collect(),
            groups: model
                .groups
                .iter()
                .map(|group| Group {
                    id: group.id.to_string(),
                    state: group.state.to_string(),
                    generation: group.generation,
                    coordinator: group.coordinator.map_or(-1, |broker| broker.0),
                    members: group.members.iter().map(|member| member_of(member)).collect(),
                })
                .collect(),
            sentences: sentences.collect(),
        }
    }
}

fn broker_of(broker: &BrokerView) -> Broker {
    Broker {
        id: broker.id.0,
        rack: broker.rack.as_ref().map(|rack| rack.to_string()),
        state: broker.state.to_string(),
    }
}

fn producer_of(producer: &ProducerView) -> Producer {
    Producer {
        name: producer.name.to_string(),
        paused: producer.paused,
        sent: producer.sending.sent,
        acknowledged: producer.sending.acknowledged,
        failed: producer.sending.failed,
    }
}

fn member_of(member: &ConsumerView) -> Member {
    let assigned = member.partitions.iter().map(|consumed| Assigned {
        topic: consumed.tp.topic.to_string(),
        partition: consumed.tp.partition,
        position: consumed.position.map(|offset| offset.0),
        committed: consumed.committed.map(|offset| offset.0),
        lag: consumed.lag,
    });
    Member { name: member.name.to_string(), state: member.state.to_string(), assigned: assigned.collect() }
}

/// Partitions of the topics that people made, as the controllers have them, with their replicas as the brokers have them.
fn partitions(model: &Model, session: &Session) -> Vec<Partition> {
    let Some(image) = session.world().newest_image() else { return Vec::new() };
    let shown = |tp: &crate::kafka::types::TopicPartition| {
        model
            .brokers
            .iter()
            .flat_map(|broker| broker.replicas.iter())
            .filter(move |replica| replica.tp == *tp)
            .map(|replica| Replica {
                broker: replica.broker.0,
                in_sync: replica.role == Role::Leader || replica.standing == Standing::InSync,
                log_start: replica.log_start.0,
                high_watermark: replica.high_watermark.0,
                log_end: replica.log_end.0,
            })
            .collect::<Vec<_>>()
    };
    let all = image.partitions().map(|(tp, partition)| Partition {
        replicas: shown(&tp),
        topic: tp.topic.to_string(),
        partition: tp.partition,
        leader: partition.leader.0,
        leader_epoch: partition.leader_epoch.0,
        isr: partition.isr.iter().map(|id| id.0).collect(),
    });
    all.filter(|partition| !partition.replicas.is_empty()).collect()
}
