//! Moving a partition to other replicas: what is being added, what removed, and when it is done.
//!
//! Mirrors `PartitionReassignmentReplicas` and `PartitionReassignmentRevert` (R-REPL-58 to 60, KIP-455).
//!
//! **Invariant:** while a reassignment is under way, the replica list is the target followed by what is being removed.

use super::image::PartitionRegistration;
use crate::kafka::types::BrokerId;

/// A replica list with the part of it that is on its way in or out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    pub replicas: Vec<BrokerId>,
    pub removing: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
}

/// What a partition has when its reassignment is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
}

/// What a partition has when its reassignment is cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    /// Nobody in sync would be left: the first replica takes over, whatever it has.
    pub unclean: bool,
}

impl Reassignment {
    /// The way from `current` to `target` (R-REPL-58).
    pub fn new(current: &[BrokerId], target: &[BrokerId]) -> Reassignment {
        let difference = |of: &[BrokerId], without: &[BrokerId]| {
            let mut ids: Vec<BrokerId> = of.iter().copied().filter(|id| !without.contains(id)).collect();
            ids.sort();
            ids
        };
        let removing = difference(current, target);
        let replicas = target.iter().chain(&removing).copied().collect();
        Reassignment { replicas, removing, adding: difference(target, current) }
    }

    pub fn of(partition: &PartitionRegistration) -> Reassignment {
        Reassignment {
            replicas: partition.replicas.clone(),
            removing: partition.removing.clone(),
            adding: partition.adding.clone(),
        }
    }

    /// R-REPL-59: everybody who is added is in sync and somebody stays; where the partition gets fewer replicas, all of
    /// its target is in sync.
    pub fn completed(&self, isr: &[BrokerId]) -> Option<Completed> {
        if self.removing.is_empty() && self.adding.is_empty() {
            return None;
        }
        let stays = |id: &BrokerId| !self.removing.contains(id);
        let isr: Vec<BrokerId> = isr.iter().copied().filter(stays).collect();
        let replicas: Vec<BrokerId> = self.replicas.iter().copied().filter(stays).collect();
        let in_sync = |ids: &[BrokerId]| ids.iter().all(|id| isr.contains(id));
        let nobody_stays = !self.removing.is_empty() && (isr.is_empty() || replicas.is_empty());
        if nobody_stays || !in_sync(&self.adding) {
            return None;
        }
        if self.adding.len() < self.removing.len() && !in_sync(&replicas) {
            return None;
        }
        Some(Completed { replicas, isr })
    }

    /// R-REPL-60: back to the replicas there were before.
    pub fn reverted(&self, isr: &[BrokerId]) -> Reverted {
        let old = |id: &BrokerId| !self.adding.contains(id);
        let replicas: Vec<BrokerId> = self.replicas.iter().copied().filter(old).collect();
        let isr: Vec<BrokerId> = isr.iter().copied().filter(old).collect();
        match isr.is_empty() {
            true => Reverted { isr: replicas.iter().take(1).copied().collect(), replicas, unclean: true },
            false => Reverted { replicas, isr, unclean: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &[i32]) -> Vec<BrokerId> {
        list.iter().copied().map(BrokerId).collect()
    }

    /// From `current` to `target` with `isr` in sync: the replica list on the way, and the outcome if it is done.
    fn check(
        current: &[i32],
        target: &[i32],
        isr: &[i32],
        on_the_way: &[i32],
        done: Option<(&[i32], &[i32])>,
    ) {
        let way = Reassignment::new(&ids(current), &ids(target));
        assert_eq!(way.replicas, ids(on_the_way), "{current:?} to {target:?} (R-REPL-58)");
        let expected = done.map(|(replicas, isr)| Completed { replicas: ids(replicas), isr: ids(isr) });
        assert_eq!(way.completed(&ids(isr)), expected, "{current:?} to {target:?} with {isr:?} (R-REPL-59)");
    }

    /// R-REPL-58, 59.
    #[test]
    fn a_reassignment_is_done_when_everybody_new_is_in_sync() {
        check(&[1, 2, 3], &[3, 1, 2], &[1, 2, 3], &[3, 1, 2], None);
        check(&[1, 2, 3], &[4, 2, 3], &[1, 2, 3], &[4, 2, 3, 1], None);
        check(&[1, 2, 3], &[4, 2, 3], &[1, 4], &[4, 2, 3, 1], Some((&[4, 2, 3], &[4])));
        check(&[1, 2], &[2, 3, 4], &[1, 2, 3], &[2, 3, 4, 1], None);
        check(&[1, 2, 3], &[2], &[1], &[2, 1, 3], None);
        check(&[1, 2, 3], &[2], &[1, 2], &[2, 1, 3], Some((&[2], &[2])));
    }

    #[test]
    fn a_cancelled_reassignment_may_leave_nobody_in_sync_r_repl_60() {
        let way = Reassignment::new(&ids(&[1, 2]), &ids(&[3, 4]));
        let reverted = Reverted { replicas: ids(&[1, 2]), isr: ids(&[2]), unclean: false };
        assert_eq!(way.reverted(&ids(&[2, 3])), reverted);
        let unclean = Reverted { replicas: ids(&[1, 2]), isr: ids(&[1]), unclean: true };
        assert_eq!(way.reverted(&ids(&[3, 4])), unclean);
    }
}
