//! What a metadata record changed, as events.

use std::rc::Rc;

use super::image::{ClusterImage, PartitionRegistration};
use super::topics::Cause;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord, RecoveryState};
use crate::kafka::types::{BrokerId, GroupId, Topic, TopicPartition};

/// The partitions that a record is about to change, as they were.
pub fn before(
    image: &ClusterImage,
    record: &MetadataRecord,
) -> Vec<(TopicPartition, Rc<PartitionRegistration>)> {
    let changed = match record {
        MetadataRecord::PartitionChange(change) => {
            let name = image.topic_name(change.topic_id);
            name.map(|name| TopicPartition::new(name, change.partition)).into_iter().collect()
        }
        MetadataRecord::ClearElr { topic } => image.with_elr(topic.as_ref()),
        _ => Vec::new(),
    };
    changed.into_iter().filter_map(|tp| Some((tp.clone(), image.partition(&tp)?.clone()))).collect()
}

/// Pushes the events of a record that has been replayed.
pub fn tell<T>(
    image: &ClusterImage,
    record: &MetadataRecord,
    before: Vec<(TopicPartition, Rc<PartitionRegistration>)>,
    cause: Cause,
    fx: &mut Effects<T>,
) {
    match record {
        MetadataRecord::RegisterBroker(record) => {
            let (broker, epoch, rack) = (record.broker, record.epoch, record.rack.clone());
            fx.event(Event::BrokerRegistered { broker, epoch, rack });
        }
        MetadataRecord::BrokerRegistrationChange(change) if change.fenced == Some(false) => {
            fx.event(Event::BrokerUnfenced { broker: change.broker });
        }
        MetadataRecord::BrokerRegistrationChange(change) if change.in_controlled_shutdown => {
            fx.event(Event::ShutdownBegun { broker: change.broker });
        }
        MetadataRecord::Config { resource: ConfigResource::Topic, name, key, value }
            if is_settled(image, &Topic::new(name)) =>
        {
            let topic = Topic::new(name);
            fx.event(Event::ConfigChanged { topic, key: key.clone(), value: value.clone() });
        }
        // What a new cluster starts with is no change.
        MetadataRecord::Config { resource: ConfigResource::Broker, name, key, value }
            if !image.brokers.is_empty() =>
        {
            let broker = name.parse().ok().map(BrokerId);
            fx.event(Event::BrokerConfigChanged { broker, key: key.clone(), value: value.clone() });
        }
        MetadataRecord::FeatureLevel { name, level } if !image.brokers.is_empty() => {
            fx.event(Event::FeatureUpdated { feature: name.as_str().into(), level: *level });
        }
        MetadataRecord::Config { resource: ConfigResource::Group, name, key, value } => {
            let group = GroupId::new(name);
            fx.event(Event::GroupConfigChanged { group, key: key.clone(), value: value.clone() });
        }
        MetadataRecord::PartitionChange(_) | MetadataRecord::ClearElr { .. } => {
            for (tp, before) in before {
                if let Some(after) = image.partition(&tp) {
                    tell_partition(&tp, &before, after, cause, fx);
                }
            }
        }
        _ => {}
    }
}

/// A topic in the middle of its creation has no partition yet; its configs are part of its creation.
fn is_settled(image: &ClusterImage, topic: &Topic) -> bool {
    image.topic(topic).is_some_and(|topic| !topic.partitions.is_empty())
}

fn tell_partition<T>(
    tp: &TopicPartition,
    before: &PartitionRegistration,
    after: &PartitionRegistration,
    cause: Cause,
    fx: &mut Effects<T>,
) {
    let missing = |from: &[BrokerId], to: &[BrokerId]| -> Vec<BrokerId> {
        from.iter().copied().filter(|id| !to.contains(id)).collect()
    };
    let (tp, isr) = (tp.clone(), after.isr.clone());
    let moved = |of: &PartitionRegistration| (of.replicas.clone(), of.adding.clone(), of.removing.clone());
    if moved(after) != moved(before) {
        let (replicas, adding, removing) = moved(after);
        fx.event(Event::ReplicasChanged { tp: tp.clone(), replicas, adding, removing });
    }
    if after.leader_epoch != before.leader_epoch {
        fx.event(Event::LeaderElected {
            tp: tp.clone(),
            from: before.leader,
            to: after.leader,
            leader_epoch: after.leader_epoch,
            partition_epoch: after.partition_epoch,
            isr: isr.clone(),
            unclean: after.leader.is_some() && after.recovery == RecoveryState::Recovering,
            reason: cause.0,
        });
    }
    let removed = missing(&before.isr, &after.isr);
    if !removed.is_empty() {
        let partition_epoch = after.partition_epoch;
        fx.event(Event::IsrShrunk {
            tp: tp.clone(),
            removed,
            isr: isr.clone(),
            partition_epoch,
            reason: cause.0,
        });
    }
    let added = missing(&after.isr, &before.isr);
    if !added.is_empty() {
        fx.event(Event::IsrExpanded { tp: tp.clone(), added, isr, partition_epoch: after.partition_epoch });
    }
    if (&after.elr, &after.last_known_elr) != (&before.elr, &before.last_known_elr) {
        let (elr, last_known_elr) = (after.elr.clone(), after.last_known_elr.clone());
        fx.event(Event::ElrChanged { tp, elr, last_known_elr });
    }
}
