//! Partitions that a member has, each with the epoch at which it was given to it (KIP-1251).
//!
//! **Invariant:** topics rise by id and partitions by number, in memory and in records.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::TopicIdPartition;
use crate::kafka::protocol::coordinator_records::AssignedTopic;
use crate::kafka::types::{GroupEpoch, TopicId};

/// A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions(Rc<BTreeMap<TopicIdPartition, GroupEpoch>>);

impl FromIterator<(TopicIdPartition, GroupEpoch)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (TopicIdPartition, GroupEpoch)>>(partitions: I) -> Partitions {
        Partitions(Rc::new(partitions.into_iter().collect()))
    }
}

impl Partitions {
    /// All of them with the same epoch.
    pub fn at_epoch(epoch: GroupEpoch, partitions: impl IntoIterator<Item = TopicIdPartition>) -> Partitions {
        partitions.into_iter().map(|partition| (partition, epoch)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, partition: &TopicIdPartition) -> bool {
        self.0.contains_key(partition)
    }

    /// The epoch at which a partition was given to the member.
    pub fn epoch_of(&self, partition: &TopicIdPartition) -> Option<GroupEpoch> {
        self.0.get(partition).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (TopicIdPartition, GroupEpoch)> {
        self.0.iter().map(|(partition, epoch)| (*partition, *epoch))
    }

    pub fn keys(&self) -> impl Iterator<Item = TopicIdPartition> {
        self.0.keys().copied()
    }

    /// Those that pass, and the others.
    pub fn split(&self, passes: impl Fn(&TopicIdPartition) -> bool) -> (Partitions, Partitions) {
        let (pass, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.iter().partition(|(partition, _)| passes(partition));
        (Partitions(Rc::new(pass)), Partitions(Rc::new(others)))
    }

    /// These and `others`, whose epochs count where both have a partition.
    pub fn with(&self, others: &Partitions) -> Partitions {
        self.iter().chain(others.iter()).collect()
    }

    /// Each topic with its partitions.
    pub fn by_topic(&self) -> BTreeMap<TopicId, BTreeSet<i32>> {
        let mut topics: BTreeMap<TopicId, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partition) in self.keys() {
            topics.entry(topic).or_default().insert(partition);
        }
        topics
    }

    pub(crate) fn to_record(&self) -> Vec<AssignedTopic> {
        let mut topics: Vec<AssignedTopic> = Vec::new();
        for ((topic_id, partition), epoch) in self.iter() {
            if topics.last().is_none_or(|last| last.topic_id != topic_id) {
                topics.push(AssignedTopic { topic_id, partitions: Vec::new(), epochs: Some(Vec::new()) });
            }
            if let Some(last) = topics.last_mut() {
                last.partitions.push(partition);
                last.epochs.get_or_insert_default().push(epoch);
            }
        }
        topics
    }

    /// A record from before Kafka 4.3 has no epochs: then `default` counts, or 0 if that is no epoch of its own.
    pub(crate) fn from_record(topics: &[AssignedTopic], default: GroupEpoch) -> Partitions {
        let default = default.max(GroupEpoch::JOINING);
        let of_topic = |topic: &AssignedTopic| {
            let epochs = topic.epochs.as_ref().filter(|epochs| epochs.len() == topic.partitions.len());
            let epochs = epochs.cloned().unwrap_or_else(|| vec![default; topic.partitions.len()]);
            let id = topic.topic_id;
            topic.partitions.iter().map(|p| (id, *p)).zip(epochs).collect::<Vec<_>>()
        };
        topics.iter().flat_map(of_topic).collect()
    }
}
