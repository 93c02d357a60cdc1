//! What becomes of one partition when its in-sync set or the set of live brokers changes: `PartitionChangeBuilder`.
//!
//! A pure function from a partition's registration and the wish to the record that carries the change out
//! (R-REPL-3, 40 to 47, 59).
//!
//! **Invariant:** a leader that is elected here was in the in-sync set, in the ELR, or is the one last known leader,
//! unless the election is unclean.

use std::collections::BTreeSet;

use super::image::PartitionRegistration;
use super::reassignment::Reassignment;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::metadata_records::{PartitionChange, RecoveryState};
use crate::kafka::types::{BrokerId, TopicId};

/// Who may lead, beyond those who have everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Election {
    /// The first replica of the list if it is in sync, else as [`Election::Online`] (R-REPL-44).
    Preferred,
    /// The present leader if it may stay, else the first replica that is in sync (R-REPL-42).
    #[default]
    Online,
    /// As [`Election::Online`], and rather than none a replica that may lack records (R-REPL-43).
    Unclean,
}

/// One decision's input.
pub struct PartitionChangeBuilder<'a> {
    pub partition: &'a PartitionRegistration,
    pub topic_id: TopicId,
    pub number: i32,
    pub target_isr: Vec<BrokerId>,
    /// The replicas to have, some of them on their way in or out (R-REPL-58).
    pub target: Reassignment,
    pub target_recovery: RecoveryState,
    pub election: Election,
    /// min(min.insync.replicas, replication factor).
    pub min_isr: i32,
    /// eligible.leader.replicas.version is at least 1.
    pub elr_enabled: bool,
    /// Brokers whose logs cannot be trusted to hold what they once acknowledged (R-REPL-56).
    pub unclean_shutdown: Vec<BrokerId>,
    /// Registered, unfenced and not shutting down (R-REPL-40).
    pub is_acceptable: &'a dyn Fn(BrokerId) -> bool,
}

struct Elected {
    leader: BrokerId,
    unclean: bool,
}

impl<'a> PartitionChangeBuilder<'a> {
    /// A change that wants nothing yet but an election, if one is due.
    pub fn new(
        partition: &'a PartitionRegistration,
        topic_id: TopicId,
        number: i32,
        is_acceptable: &'a dyn Fn(BrokerId) -> bool,
    ) -> Self {
        PartitionChangeBuilder {
            partition,
            topic_id,
            number,
            target_isr: partition.isr.clone(),
            target: Reassignment::of(partition),
            target_recovery: partition.recovery,
            election: Election::Online,
            min_isr: 1,
            elr_enabled: true,
            unclean_shutdown: Vec::new(),
            is_acceptable,
        }
    }

    /// The record, or `None` where nothing changes.
    pub fn build(mut self) -> Option<PartitionChange> {
        let mut change =
            PartitionChange { partition: self.number, topic_id: self.topic_id, ..PartitionChange::default() };
        self.complete_reassignment();
        let mut target_elr = self.target_elr();
        self.elect(&mut change, &mut target_elr);
        self.raise_leader_epoch_if_a_replica_leaves(&mut change);
        if change.isr.is_some() || !self.elr_enabled {
            target_elr.clear();
        }
        change.elr = changed(target_elr, &self.partition.elr);
        let may_be_empty = self.elr_enabled;
        if change.isr.is_none() && (!self.target_isr.is_empty() || may_be_empty) {
            change.isr = changed(self.target_isr, &self.partition.isr);
        }
        if self.elr_enabled {
            update_last_known_leader(&mut change, self.partition);
        }
        change.replicas = changed(self.target.replicas, &self.partition.replicas);
        change.removing = changed(self.target.removing, &self.partition.removing);
        change.adding = changed(self.target.adding, &self.partition.adding);
        if self.target_recovery != self.partition.recovery {
            change.recovery = Some(self.target_recovery);
        }
        (!change.is_empty()).then_some(change)
    }

    /// R-REPL-59.
    fn complete_reassignment(&mut self) {
        if let Some(completed) = self.target.completed(&self.target_isr) {
            self.target_isr = completed.isr;
            self.target =
                Reassignment { replicas: completed.replicas, removing: Vec::new(), adding: Vec::new() };
        }
    }

    /// R-REPL-45: who left a set that is now below min.insync.replicas may still lead one day.
    fn target_elr(&self) -> Vec<BrokerId> {
        if !self.elr_enabled {
            return self.partition.elr.clone();
        }
        if self.target_isr.len() as i32 >= self.min_isr {
            return Vec::new();
        }
        let candidates: BTreeSet<BrokerId> =
            self.partition.elr.iter().chain(&self.partition.isr).copied().collect();
        let trusted =
            |id: &BrokerId| plant::is(Plant::ElrUncleanMemberLeads) || !self.unclean_shutdown.contains(id);
        let kept = |id: &BrokerId| !self.target_isr.contains(id) && trusted(id);
        candidates.into_iter().filter(kept).collect()
    }

    fn elect(&mut self, change: &mut PartitionChange, target_elr: &mut Vec<BrokerId>) {
        let elected = self.elect_leader(target_elr);
        if elected.leader == self.partition.leader {
            return;
        }
        change.leader = Some(elected.leader);
        if target_elr.contains(&elected.leader) {
            self.target_isr = vec![elected.leader];
            target_elr.retain(|id| *id != elected.leader);
        }
        if elected.unclean {
            change.isr = Some(vec![elected.leader]);
            if self.partition.recovery != RecoveryState::Recovering {
                change.recovery = Some(RecoveryState::Recovering);
            }
        }
    }

    fn elect_leader(&self, target_elr: &[BrokerId]) -> Elected {
        // R-REPL-41
        let valid = |id: BrokerId| {
            let entitled = plant::is(Plant::ElectOutsideIsr)
                || self.target_isr.contains(&id)
                || (self.target_isr.is_empty() && target_elr.contains(&id));
            entitled && (self.is_acceptable)(id)
        };
        let replicas = &self.target.replicas;
        let preferred = replicas.first().copied().filter(|_| self.election == Election::Preferred);
        let in_order = preferred.into_iter().chain([self.partition.leader]).chain(replicas.iter().copied());
        if let Some(leader) = in_order.into_iter().find(|id| valid(*id)) {
            return Elected { leader, unclean: false };
        }
        match self.partition.last_known_elr[..] {
            // R-REPL-46
            [last]
                if self.elr_enabled
                    && self.target_isr.is_empty()
                    && target_elr.is_empty()
                    && (self.is_acceptable)(last) =>
            {
                return Elected { leader: last, unclean: true };
            }
            _ => {}
        }
        let any = replicas.iter().copied().find(|id| (self.is_acceptable)(*id));
        match any.filter(|_| self.election == Election::Unclean) {
            Some(leader) => Elected { leader, unclean: true },
            None => Elected { leader: BrokerId::NONE, unclean: false },
        }
    }

    /// R-REPL-3: a replica that leaves has to be told, by an epoch of its own.
    fn raise_leader_epoch_if_a_replica_leaves(&self, change: &mut PartitionChange) {
        let all_stay = self.partition.replicas.iter().all(|id| self.target.replicas.contains(id));
        if change.leader.is_none() && !all_stay {
            change.leader = Some(self.partition.leader);
        }
    }
}

/// The new list, where it differs from the old one.
fn changed(new: Vec<BrokerId>, old: &[BrokerId]) -> Option<Vec<BrokerId>> {
    (new != old).then_some(new)
}

/// R-REPL-46: a partition that loses its leader remembers it until it has one again.
fn update_last_known_leader(change: &mut PartitionChange, partition: &PartitionRegistration) {
    match change.leader {
        Some(BrokerId::NONE) if partition.last_known_elr.is_empty() => {
            change.last_known_elr = Some(vec![partition.leader]);
        }
        Some(leader) if leader.is_some() && !partition.last_known_elr.is_empty() => {
            change.last_known_elr = Some(Vec::new());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::{LeaderEpoch, PartitionEpoch};

    fn ids(list: &[i32]) -> Vec<BrokerId> {
        list.iter().copied().map(BrokerId).collect()
    }

    struct Case<'a> {
        isr: &'a [i32],
        elr: &'a [i32],
        last_known: &'a [i32],
        leader: i32,
        min_isr: i32,
        target_isr: &'a [i32],
        live: &'a [i32],
        elr_enabled: bool,
        unclean: Option<i32>,
        election: Election,
    }

    const STEADY: Case<'static> = Case {
        isr: &[1, 2, 3],
        elr: &[],
        last_known: &[],
        leader: 1,
        min_isr: 2,
        target_isr: &[1, 2, 3],
        live: &[1, 2, 3],
        elr_enabled: true,
        unclean: None,
        election: Election::Online,
    };

    /// The partition afterwards as `leader e<epoch> isr elr last-known`, or `-` if nothing changes.
    fn check(title: &str, case: Case<'_>, expected: &str) {
        let mut partition = PartitionRegistration {
            replicas: ids(&[1, 2, 3]),
            isr: ids(case.isr),
            elr: ids(case.elr),
            last_known_elr: ids(case.last_known),
            removing: Vec::new(),
            adding: Vec::new(),
            leader: BrokerId(case.leader),
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(9),
        };
        let live = |id: BrokerId| case.live.contains(&id.0) && case.unclean != Some(id.0);
        let mut builder = PartitionChangeBuilder::new(&partition, TopicId::default(), 0, &live);
        builder.target_isr = ids(case.target_isr);
        builder.min_isr = case.min_isr;
        builder.elr_enabled = case.elr_enabled;
        builder.unclean_shutdown = case.unclean.map(BrokerId).into_iter().collect();
        builder.election = case.election;
        let change = builder.build();
        let outcome = change.map_or("-".to_string(), |change| {
            partition.merge(&change);
            let list = |ids: &[BrokerId]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
            format!(
                "{} e{} isr[{}] elr[{}] last[{}]{}",
                partition.leader,
                partition.leader_epoch,
                list(&partition.isr),
                list(&partition.elr),
                list(&partition.last_known_elr),
                if partition.recovery == RecoveryState::Recovering { " recovering" } else { "" }
            )
        });
        assert_eq!(outcome, expected, "{title}");
    }

    /// R-REPL-40.
    #[test]
    fn leaders_and_in_sync_sets_change_as_the_rules_say() {
        check("nothing to do", STEADY, "-");
        check(
            "a follower leaves and the leader epoch stays (R-REPL-3)",
            Case { target_isr: &[1, 2], live: &[1, 2], ..STEADY },
            "1 e5 isr[1,2] elr[] last[]",
        );
        check(
            "a dead leader is followed by the first valid replica in list order (R-REPL-42)",
            Case { target_isr: &[2, 3], live: &[2, 3], ..STEADY },
            "2 e6 isr[2,3] elr[] last[]",
        );
        check(
            "below min ISR the member that left is eligible (R-REPL-45)",
            Case { isr: &[1, 2], target_isr: &[1], live: &[1], ..STEADY },
            "1 e5 isr[1] elr[2] last[]",
        );
        check(
            "the last member's death empties the ISR and names the last leader (EX-9)",
            Case { isr: &[1], elr: &[2], target_isr: &[], live: &[], ..STEADY },
            "-1 e6 isr[] elr[1,2] last[1]",
        );
        check(
            "a member of the ELR leads cleanly (EX-9)",
            Case {
                isr: &[],
                elr: &[1, 2],
                last_known: &[1],
                leader: -1,
                target_isr: &[],
                live: &[2],
                ..STEADY
            },
            "2 e6 isr[2] elr[1] last[]",
        );
        check(
            "without ELR the last member keeps its place (R-REPL-47)",
            Case { isr: &[1], target_isr: &[], live: &[], elr_enabled: false, ..STEADY },
            "-1 e6 isr[1] elr[] last[]",
        );
        check(
            "after an unclean stop a broker is dropped from the ELR too (R-REPL-56)",
            Case {
                isr: &[],
                elr: &[2],
                last_known: &[1],
                leader: -1,
                target_isr: &[],
                live: &[2],
                unclean: Some(2),
                ..STEADY
            },
            "-1 e5 isr[] elr[] last[1]",
        );
        check(
            "with nobody eligible the one last known leader is taken, uncleanly (R-REPL-46)",
            Case { isr: &[], elr: &[], last_known: &[1], leader: -1, target_isr: &[], live: &[1], ..STEADY },
            "1 e6 isr[1] elr[] last[] recovering",
        );
        check(
            "the preferred replica takes over although the leader lives (R-REPL-44)",
            Case { leader: 2, election: Election::Preferred, ..STEADY },
            "1 e6 isr[1,2,3] elr[] last[]",
        );
        check(
            "an unclean election takes whoever lives (R-REPL-43)",
            Case { isr: &[1], target_isr: &[], live: &[3], election: Election::Unclean, ..STEADY },
            "3 e6 isr[3] elr[] last[] recovering",
        );
    }
}
