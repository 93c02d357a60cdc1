//! Which clients have to do with which brokers.

use std::rc::Rc;

use super::model::{BrokerView, Health, Model, Role};
use crate::kafka::types::NodeId;

/// Clients and the leaders that they write to or read from.
pub fn pairs(model: &Model) -> Vec<(NodeId, NodeId)> {
    let mut pairs = Vec::new();
    for producer in model.producers.iter().filter(|producer| producer.health != Health::Dead) {
        let leaders = leaders(model, |topic, _| topic == &*producer.topic);
        pairs.extend(leaders.map(|broker| (producer.node, broker)));
    }
    let consumers = model.groups.iter().flat_map(|group| group.members.iter());
    for consumer in consumers.filter(|consumer| consumer.health != Health::Dead) {
        let leaders = leaders(model, |topic, partition| {
            consumer.owned.iter().any(|tp| tp.topic.as_str() == topic && tp.partition == partition)
        });
        pairs.extend(leaders.map(|broker| (consumer.node, broker)));
        if let Some(producing) = &consumer.producing {
            let leaders = self::leaders(model, |topic, _| topic == &*producing.output);
            let new = leaders.map(|broker| (consumer.node, broker)).filter(|pair| !pairs.contains(pair));
            pairs.extend(new.collect::<Vec<_>>());
        }
    }
    pairs
}

/// Brokers that lead one of the partitions that are meant.
fn leaders(model: &Model, is_meant: impl Fn(&str, i32) -> bool) -> impl Iterator<Item = NodeId> {
    let leads = move |broker: &&Rc<BrokerView>| {
        broker.replicas.iter().any(|replica| {
            replica.role == Role::Leader && is_meant(replica.tp.topic.as_str(), replica.tp.partition)
        })
    };
    model.brokers.iter().filter(leads).map(|broker| NodeId::Broker(broker.id))
}
