//! A broker's part of the topics that coordinators keep their state in.

use std::rc::Rc;

use super::broker::{BrokerSource, Cluster};
use super::reuse::{keep_array, keep_list};
use super::transaction::TRANSACTION_TOPIC;
use crate::kafka::broker::SHARE_STATE_TOPIC;
use crate::kafka::log::Log;
use crate::kafka::replication::Partition;
use crate::kafka::types::{LeaderEpoch, Offset, TopicPartition};
use crate::view::model::{BrokerView, InternalTopicRow, InternalTopicView, List};

const OFFSETS_TOPIC: &str = "__consumer_offsets";
const INTERNAL_TOPICS: [&str; 3] = [OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC];

/// Topics that coordinators keep their state in.
pub fn is_internal(topic: &str) -> bool {
    INTERNAL_TOPICS.contains(&topic)
}

type Logs<'a> = [(&'a TopicPartition, &'a Log, Option<&'a Partition>)];

/// Those of which the broker has replicas.
pub fn internal_topics(
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    logs: &Logs<'_>,
    before: Option<&BrokerView>,
) -> List<InternalTopicView> {
    let before = before.map(|view| &view.internal);
    let topics = INTERNAL_TOPICS.iter().filter_map(|name| {
        let before = before.and_then(|topics| topics.iter().find(|topic| *topic.name == **name));
        internal_topic(name, source, cluster, logs, before.map(|topic| &**topic))
    });
    keep_list(before, topics, |a, b| a.name == b.name)
}

fn internal_topic(
    name: &str,
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    logs: &Logs<'_>,
    before: Option<&InternalTopicView>,
) -> Option<InternalTopicView> {
    let leads =
        |tp: &TopicPartition| cluster.image.partition(tp).is_some_and(|each| each.leader == source.id);
    let own: Vec<_> = logs.iter().filter(|(tp, ..)| tp.topic.as_str() == name).collect();
    if own.is_empty() {
        return None;
    }
    let rows = own.iter().filter(|(tp, log, _)| leads(tp) || log.log_end_offset() > Offset::ZERO);
    let rows = rows.map(|(tp, log, partition)| InternalTopicRow {
        partition: tp.partition,
        leads: leads(tp),
        leader_epoch: partition.map_or(LeaderEpoch::NONE, |partition| partition.leader_epoch),
        high_watermark: log.high_watermark(),
        log_end: log.log_end_offset(),
    });
    let transactions = match name {
        TRANSACTION_TOPIC => cluster.transactions.at(source.id).cloned().collect(),
        _ => Vec::new(),
    };
    let coordinates = match name {
        OFFSETS_TOPIC => groups(source),
        TRANSACTION_TOPIC => transactions.iter().map(|transaction| transaction.id.clone()).collect(),
        _ => Vec::new(),
    };
    Some(InternalTopicView {
        name: Rc::from(name),
        partitions: own.len() as i32,
        leads: own.iter().filter(|(tp, ..)| leads(tp)).count() as i32,
        coordinates: keep_array(before.map(|view| &view.coordinates), coordinates),
        transactions: keep_array(before.map(|view| &view.transactions), transactions),
        rows: keep_array(before.map(|view| &view.rows), rows.collect()),
    })
}

/// The groups that a broker coordinates, of all kinds.
fn groups(source: &BrokerSource<'_>) -> Vec<Rc<str>> {
    let Some(broker) = source.alive() else { return Vec::new() };
    let classic = broker.groups().groups().map(|group| group.id.as_str());
    let modern = broker.groups().consumer_groups().map(|group| group.base.id.as_str());
    let shared = broker.groups().share_groups().map(|group| group.base.id.as_str());
    let mut names: Vec<Rc<str>> = classic.chain(modern).chain(shared).map(Rc::from).collect();
    names.sort();
    names
}
