//! How far the share coordinators are with a group's states (`ShareGroupStatePartitionMetadataInfo`).
//!
//! **Invariant:** a state that has begun is not asked for again.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::controller::image::{ClusterImage, TopicImage};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::protocol::coordinator_records::{StatePartitionsValue, StateTopic};
use crate::kafka::time::Time;
use crate::kafka::types::{Topic, TopicId};

/// Partitions of a topic whose states are to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginningStates {
    pub name: Topic,
    pub partitions: BTreeSet<i32>,
    /// When they were asked for; no record holds it.
    pub since: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePartitions {
    pub initializing: BTreeMap<TopicId, BeginningStates>,
    pub initialized: BTreeMap<TopicId, (Topic, BTreeSet<i32>)>,
    pub deleting: BTreeMap<TopicId, Topic>,
}

impl StatePartitions {
    pub fn is_initialized(&self, topic: &TopicId, partition: i32) -> bool {
        self.initialized.get(topic).is_some_and(|(_, partitions)| partitions.contains(&partition))
    }

    /// What of these topics has not begun, nor was asked for within `retry_ms` (`subscribedTopicsChangeMap`).
    pub(super) fn missing<'a>(
        &self,
        topics: impl Iterator<Item = &'a Topic>,
        image: &ClusterImage,
        now: Time,
        retry_ms: i64,
    ) -> BTreeMap<TopicId, BeginningStates> {
        let mut missing = BTreeMap::new();
        for topic in topics.filter_map(|name| image.topic(name)) {
            let asked = self.initializing.get(&topic.id).filter(|asked| now.ms_since(asked.since) < retry_ms);
            let is_asked = |partition: &i32| asked.is_some_and(|asked| asked.partitions.contains(partition));
            let count = topic.partitions.len() as i32;
            let partitions: BTreeSet<i32> = (0..count)
                .filter(|partition| !self.is_initialized(&topic.id, *partition) && !is_asked(partition))
                .collect();
            if !partitions.is_empty() {
                missing
                    .insert(topic.id, BeginningStates { name: topic.name.clone(), partitions, since: now });
            }
        }
        missing
    }

    /// With `asked` among those that are to begin (`addInitializingTopicsRecords`).
    pub(super) fn asking(&self, asked: &BTreeMap<TopicId, BeginningStates>) -> StatePartitions {
        let mut next = self.clone();
        for (id, states) in asked {
            let known = next.initializing.entry(*id).or_insert_with(|| states.clone());
            known.partitions.extend(&states.partitions);
            known.since = states.since;
            next.deleting.remove(id);
        }
        next
    }

    /// They have begun (`initializeShareGroupState`).
    pub(super) fn begun(&self, begun: &[TopicIdPartition], image: &ClusterImage) -> StatePartitions {
        let mut next = self.without(begun);
        for (id, partition) in begun {
            let name = image.topic_name(*id).cloned();
            let name = name.or_else(|| self.initializing.get(id).map(|states| states.name.clone()));
            let name = name.unwrap_or_else(|| Topic::new(UNKNOWN_TOPIC));
            next.initialized.entry(*id).or_insert_with(|| (name, BTreeSet::new())).1.insert(*partition);
        }
        next
    }

    /// They could not begin, and are asked for again with the next heartbeat (`uninitializeShareGroupState`).
    pub(super) fn without(&self, failed: &[TopicIdPartition]) -> StatePartitions {
        let mut next = self.clone();
        for (id, partition) in failed {
            if let Some(states) = next.initializing.get_mut(id) {
                states.partitions.remove(partition);
            }
        }
        next.initializing.retain(|_, states| !states.partitions.is_empty());
        next
    }

    /// All are to be deleted, with those that a deletion before has left (`shareGroupBuildPartitionDeleteRequest`).
    pub(super) fn all_deleting(&self, image: &ClusterImage) -> (StatePartitions, Vec<TopicIdPartition>) {
        let mut states: BTreeMap<TopicId, (Topic, BTreeSet<i32>)> = self.initialized.clone();
        for (id, beginning) in &self.initializing {
            let known = states.entry(*id).or_insert_with(|| (beginning.name.clone(), BTreeSet::new()));
            known.1.extend(&beginning.partitions);
        }
        // Of a topic that is gone the share coordinators forget the states themselves.
        let left = self.deleting.keys().filter_map(|id| image.topic_by_id(*id));
        for topic in left {
            let known = states.entry(topic.id).or_insert_with(|| (topic.name.clone(), BTreeSet::new()));
            known.1.extend(0..topic.partitions.len() as i32);
        }
        let deleting = states.iter().map(|(id, (name, _))| (*id, name.clone())).collect();
        let of_topic = |(id, (_, partitions)): (TopicId, (Topic, BTreeSet<i32>))| {
            partitions.into_iter().map(move |partition| (id, partition))
        };
        let partitions = states.into_iter().flat_map(of_topic).collect();
        (StatePartitions { deleting, ..StatePartitions::default() }, partitions)
    }

    /// All that has begun of a topic is to be deleted, with what a deletion before has left
    /// (`sharePartitionsEligibleForOffsetDeletion`).
    pub(super) fn topic_deleting(&mut self, topic: &TopicImage) -> Vec<TopicIdPartition> {
        let partitions: Vec<i32> = match self.initialized.remove(&topic.id) {
            Some((_, partitions)) => partitions.into_iter().collect(),
            None if self.deleting.contains_key(&topic.id) => (0..topic.partitions.len() as i32).collect(),
            None => return Vec::new(),
        };
        self.deleting.insert(topic.id, topic.name.clone());
        partitions.into_iter().map(|partition| (topic.id, partition)).collect()
    }

    /// Without these topics (`maybeCleanupShareGroupState`).
    pub(super) fn without_topics(&self, gone: impl Fn(&TopicId) -> bool) -> StatePartitions {
        let mut next = self.clone();
        next.initializing.retain(|id, _| !gone(id));
        next.initialized.retain(|id, _| !gone(id));
        next.deleting.retain(|id, _| !gone(id));
        next
    }

    pub(super) fn to_record(&self) -> StatePartitionsValue {
        let topic = |topic_id: &TopicId, name: &Topic, partitions: &BTreeSet<i32>| StateTopic {
            topic_id: *topic_id,
            name: name.clone(),
            partitions: partitions.iter().copied().collect(),
        };
        let initializing =
            self.initializing.iter().map(|(id, states)| topic(id, &states.name, &states.partitions));
        let initialized = self.initialized.iter().map(|(id, (name, partitions))| topic(id, name, partitions));
        StatePartitionsValue {
            initializing: initializing.collect(),
            initialized: initialized.collect(),
            deleting: self.deleting.iter().map(|(id, name)| (*id, name.clone())).collect(),
        }
    }

    pub(super) fn from_record(value: &StatePartitionsValue, now: Time) -> StatePartitions {
        let partitions = |topic: &StateTopic| topic.partitions.iter().copied().collect();
        let initializing = value.initializing.iter().map(|topic| {
            let states =
                BeginningStates { name: topic.name.clone(), partitions: partitions(topic), since: now };
            (topic.topic_id, states)
        });
        let initialized =
            value.initialized.iter().map(|topic| (topic.topic_id, (topic.name.clone(), partitions(topic))));
        StatePartitions {
            initializing: initializing.collect(),
            initialized: initialized.collect(),
            deleting: value.deleting.iter().cloned().collect(),
        }
    }
}

/// What Kafka calls a topic that is gone.
const UNKNOWN_TOPIC: &str = "<UNKNOWN>";
