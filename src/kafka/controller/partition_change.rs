//! What becomes of one partition when its in-sync set or the set of live brokers changes: `PartitionChangeBuilder`.
//!
//! A pure function from a partition's registration and the wish to the record that carries the change out
//! (R-REPL-3, 40 to 47).
//!
//! **Invariant:** a leader that is elected here was in the in-sync set, in the ELR, or is the one last known leader.

use std::collections::BTreeSet;

use super::image::PartitionRegistration;
use crate::kafka::protocol::metadata_records::{PartitionChange, RecoveryState};
use crate::kafka::types::{BrokerId, TopicId};

/// One decision's input.
pub struct PartitionChangeBuilder<'a> {
    pub partition: &'a PartitionRegistration,
    pub topic_id: TopicId,
    pub number: i32,
    pub target_isr: Vec<BrokerId>,
    pub target_recovery: RecoveryState,
    /// min(min.insync.replicas, replication factor).
    pub min_isr: i32,
    /// eligible.leader.replicas.version is at least 1.
    pub elr_enabled: bool,
    /// A broker whose log cannot be trusted to hold what it once acknowledged (R-REPL-56).
    pub unclean_shutdown: Option<BrokerId>,
    /// Registered, unfenced and not shutting down (R-REPL-40).
    pub is_acceptable: &'a dyn Fn(BrokerId) -> bool,
}

struct Election {
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
            target_recovery: partition.recovery,
            min_isr: 1,
            elr_enabled: true,
            unclean_shutdown: None,
            is_acceptable,
        }
    }

    /// The record, or `None` where nothing changes.
    pub fn build(mut self) -> Option<PartitionChange> {
        let mut change =
            PartitionChange { partition: self.number, topic_id: self.topic_id, ..PartitionChange::default() };
        let mut target_elr = self.target_elr();
        self.elect(&mut change, &mut target_elr);
        if change.isr.is_some() || !self.elr_enabled {
            target_elr.clear();
        }
        if target_elr != self.partition.elr {
            change.elr = Some(target_elr);
        }
        let may_be_empty = self.elr_enabled;
        if change.isr.is_none()
            && (!self.target_isr.is_empty() || may_be_empty)
            && self.target_isr != self.partition.isr
        {
            change.isr = Some(self.target_isr);
        }
        if self.elr_enabled {
            update_last_known_leader(&mut change, self.partition);
        }
        if self.target_recovery != self.partition.recovery {
            change.recovery = Some(self.target_recovery);
        }
        (!change.is_empty()).then_some(change)
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
        let kept = |id: &BrokerId| !self.target_isr.contains(id) && self.unclean_shutdown != Some(*id);
        candidates.into_iter().filter(kept).collect()
    }

    fn elect(&mut self, change: &mut PartitionChange, target_elr: &mut Vec<BrokerId>) {
        let election = self.elect_leader(target_elr);
        if election.leader == self.partition.leader {
            return;
        }
        change.leader = Some(election.leader);
        if target_elr.contains(&election.leader) {
            self.target_isr = vec![election.leader];
            target_elr.retain(|id| *id != election.leader);
        }
        if election.unclean {
            change.isr = Some(vec![election.leader]);
            if self.partition.recovery != RecoveryState::Recovering {
                change.recovery = Some(RecoveryState::Recovering);
                self.target_recovery = self.partition.recovery;
            }
        }
    }

    /// R-REPL-42: the present leader if it may stay, else the first valid replica in list order.
    fn elect_leader(&self, target_elr: &[BrokerId]) -> Election {
        let valid = |id: BrokerId| {
            let entitled =
                self.target_isr.contains(&id) || (self.target_isr.is_empty() && target_elr.contains(&id));
            entitled && (self.is_acceptable)(id)
        };
        if valid(self.partition.leader) {
            return Election { leader: self.partition.leader, unclean: false };
        }
        if let Some(leader) = self.partition.replicas.iter().copied().find(|id| valid(*id)) {
            return Election { leader, unclean: false };
        }
        match self.partition.last_known_elr[..] {
            // R-REPL-46
            [last]
                if self.elr_enabled
                    && self.target_isr.is_empty()
                    && target_elr.is_empty()
                    && (self.is_acceptable)(last) =>
            {
                Election { leader: last, unclean: true }
            }
            _ => Election { leader: BrokerId::NONE, unclean: false },
        }
    }
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
    };

    /// The partition afterwards as `leader e<epoch> isr elr last-known`, or `-` if nothing changes.
    fn check(title: &str, case: Case<'_>, expected: &str) {
        let mut partition = PartitionRegistration {
            replicas: ids(&[1, 2, 3]),
            isr: ids(case.isr),
            elr: ids(case.elr),
            last_known_elr: ids(case.last_known),
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
        builder.unclean_shutdown = case.unclean.map(BrokerId);
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
    }
}
