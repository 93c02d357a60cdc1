//! Committed offsets as the groups' coordinators have them, and the flags that stand for them and for positions.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::broker::BrokerSource;
use super::client::ClientSource;
use crate::client::consumer::Consumer;
use crate::kafka::types::{GroupId, Offset, TopicPartition};
use crate::view::model::{Flag, FlagKind, Health};

/// What each group has committed.
#[derive(Debug, Default)]
pub struct CommittedOffsets(BTreeMap<(GroupId, TopicPartition), OfPartition>);

#[derive(Clone, Copy, Debug, Default)]
struct OfPartition {
    committed: Option<Offset>,
    /// It counts if its transaction is committed.
    pending: Option<Offset>,
}

impl CommittedOffsets {
    pub fn at(brokers: &[BrokerSource<'_>]) -> CommittedOffsets {
        let mut offsets = CommittedOffsets::default();
        let coordinators = brokers.iter().filter_map(BrokerSource::alive);
        for (_, shard) in coordinators.flat_map(|broker| broker.groups().shards()) {
            for (group, committed) in shard.all_committed_offsets() {
                for (tp, value) in committed.iter() {
                    offsets.entry(group, tp).committed = Some(value.offset);
                }
            }
            for (group, tp, offset) in shard.pending_offsets() {
                offsets.entry(group, tp).pending = Some(offset);
            }
        }
        offsets
    }

    fn entry(&mut self, group: &GroupId, tp: &TopicPartition) -> &mut OfPartition {
        self.0.entry((group.clone(), tp.clone())).or_default()
    }

    fn get(&self, group: &GroupId, tp: &TopicPartition) -> OfPartition {
        self.0.get(&(group.clone(), tp.clone())).copied().unwrap_or_default()
    }

    pub fn of(&self, group: &GroupId, tp: &TopicPartition) -> Option<Offset> {
        self.get(group, tp).committed
    }

    pub fn pending(&self, group: &GroupId, tp: &TopicPartition) -> Option<Offset> {
        self.get(group, tp).pending
    }
}

/// The groups' committed offsets and their members' positions, by partition.
pub fn flags(
    committed: &CommittedOffsets,
    consumers: &[ClientSource<'_, Consumer>],
) -> BTreeMap<TopicPartition, Vec<Flag>> {
    let mut flags: BTreeMap<TopicPartition, Vec<Flag>> = BTreeMap::new();
    let mut add = |tp: &TopicPartition, kind, offset: Option<Offset>, owner: &str| {
        if let Some(offset) = offset {
            flags.entry(tp.clone()).or_default().push(Flag { kind, offset, owner: Rc::from(owner) });
        }
    };
    for ((group, tp), of_partition) in &committed.0 {
        add(tp, FlagKind::Committed, of_partition.committed, group.as_str());
        add(tp, FlagKind::Pending, of_partition.pending, group.as_str());
    }
    for source in consumers.iter().filter(|source| source.health != Health::Dead) {
        for (tp, owned) in source.client.subscription().owned().iter() {
            let position = owned.position().map(|position| position.offset);
            add(tp, FlagKind::Position, position, source.client.spec().name.as_str());
        }
    }
    flags
}
