//! What never falls: within the life of a process, or within a leadership (R-CTRL-2, R-REPL-2, 14).
//!
//! **Invariant:** a life ends with its process; a controller's epoch outlives it, as its disk does.

use std::collections::BTreeMap;

use super::sight;
use crate::kafka::replication::Partition;
use crate::kafka::types::{BrokerId, LeaderEpoch, NodeId, Offset};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// What was seen of each node, in its present life.
#[derive(Default)]
pub struct Lives {
    nodes: BTreeMap<NodeId, Life>,
}

#[derive(Default)]
struct Life {
    incarnation: u32,
    quorum_epoch: LeaderEpoch,
    quorum_high_watermark: Offset,
    /// How far it had replayed the metadata log before it ran last, and after.
    replayed: (Offset, Offset),
}

/// What was seen of a broker's replica of a partition, in the broker's present life.
pub struct ReplicaLife {
    incarnation: u32,
    leader_epoch: LeaderEpoch,
    /// Of a leader.
    high_watermark: Option<Offset>,
}

fn incarnation_of(world: &World, node: NodeId) -> u32 {
    world.process(node).map_or(0, |process| process.incarnation)
}

impl Lives {
    /// The life that the node lives now.
    fn of(&mut self, world: &World, node: NodeId) -> &mut Life {
        let incarnation = incarnation_of(world, node);
        let life = self.nodes.entry(node).or_default();
        if life.incarnation != incarnation {
            let is_voter = matches!(node, NodeId::Controller(_));
            let quorum_epoch = if is_voter { life.quorum_epoch } else { LeaderEpoch::default() };
            *life = Life { incarnation, quorum_epoch, ..Life::default() };
        }
        life
    }

    /// How far a server had replayed the metadata log before it ran last, and after.
    pub fn replayed(&self, node: NodeId) -> (Offset, Offset) {
        self.nodes.get(&node).map(|life| life.replayed).unwrap_or_default()
    }

    /// A server's replica of the metadata log.
    pub fn check_quorum(&mut self, world: &World, node: NodeId) -> Verdict {
        let Some((raft, applied)) = sight::raft(world, node) else { return Ok(()) };
        let life = self.of(world, node);
        life.replayed = (life.replayed.1, applied);
        let (epoch, mark) = (raft.epoch(), raft.log().high_watermark());
        if epoch < life.quorum_epoch {
            let fault = format!("{node} is in quorum epoch {epoch}, and was in {}", life.quorum_epoch);
            return Err(Check::QuorumEpoch.broken(fault));
        }
        if mark < life.quorum_high_watermark {
            let before = life.quorum_high_watermark;
            let fault = format!("{node} knows {mark} to be committed, and knew {before}");
            return Err(Check::QuorumHighWatermark.broken(fault));
        }
        (life.quorum_epoch, life.quorum_high_watermark) = (epoch, mark);
        Ok(())
    }
}

impl ReplicaLife {
    /// As it is now.
    pub fn of(world: &World, broker: BrokerId, partition: &Partition) -> ReplicaLife {
        ReplicaLife {
            incarnation: incarnation_of(world, NodeId::Broker(broker)),
            leader_epoch: partition.leader_epoch,
            high_watermark: partition.is_leader().then(|| partition.log.high_watermark()),
        }
    }

    /// Whether it may be so after it was as `before`.
    pub fn check_after(&self, before: &ReplicaLife) -> Verdict {
        if before.incarnation != self.incarnation {
            return Ok(());
        }
        if self.leader_epoch < before.leader_epoch {
            let fault =
                format!("is in leader epoch {}, and was in {}", self.leader_epoch, before.leader_epoch);
            return Err(Check::ReplicaEpoch.broken(fault));
        }
        let leads_on = self.leader_epoch == before.leader_epoch;
        match (before.high_watermark, self.high_watermark) {
            (Some(before), Some(mark)) if leads_on && mark < before => {
                let fault = format!("its high watermark was {before} in this leadership and is {mark}");
                Err(Check::LeaderHighWatermark.broken(fault))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(incarnation: u32, epoch: i32, high_watermark: Option<i64>) -> ReplicaLife {
        let high_watermark = high_watermark.map(Offset);
        ReplicaLife { incarnation, leader_epoch: LeaderEpoch(epoch), high_watermark }
    }

    #[test]
    fn within_a_life_epochs_rise_and_within_a_leadership_the_high_watermark_does() {
        let found = |before: ReplicaLife, now: ReplicaLife| now.check_after(&before).err().map(|b| b.check);
        assert_eq!(found(life(1, 4, None), life(1, 3, None)), Some(Check::ReplicaEpoch), "R-REPL-2");
        assert_eq!(found(life(1, 4, None), life(2, 3, None)), None, "another process");
        let fallen = found(life(1, 4, Some(9)), life(1, 4, Some(8)));
        assert_eq!(fallen, Some(Check::LeaderHighWatermark), "R-REPL-14");
        assert_eq!(found(life(1, 4, Some(9)), life(1, 5, Some(8))), None, "another leadership");
        assert_eq!(found(life(1, 4, Some(9)), life(1, 5, None)), None, "it follows, and may be cut back");
    }
}
