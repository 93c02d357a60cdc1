//! The metadata log: one leader an epoch, one vote an epoch, and what a majority has stays (R-CTRL-2, 4, 5).

use std::collections::BTreeMap;

use super::sight::{self, Mark};
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::raft::{MetadataLog, QuorumRole};
use crate::kafka::types::{ControllerId, LeaderEpoch, NodeId, Offset};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

#[derive(Default)]
pub struct QuorumWatch {
    leaders: BTreeMap<LeaderEpoch, ControllerId>,
    votes: BTreeMap<ControllerId, (LeaderEpoch, ControllerId)>,
    /// The batches below the highest high watermark that was seen, by base offset.
    committed: BTreeMap<Offset, Mark>,
    /// Up to where each replica's log was compared with that.
    compared: BTreeMap<NodeId, Offset>,
}

impl QuorumWatch {
    /// Where the committed part ends, as far as it was seen.
    pub fn end(&self) -> Offset {
        self.committed.last_key_value().map_or(Offset::ZERO, |(_, mark)| mark.next_offset)
    }

    /// Looks at everything again, also at what was compared before.
    pub fn forget_compared(&mut self) {
        self.compared.clear();
    }

    /// Looks at the replica of `node`, which may have changed.
    pub fn check(&mut self, world: &World, node: NodeId) -> Verdict {
        let Some((raft, applied)) = sight::raft(world, node) else { return Ok(()) };
        if let NodeId::Controller(id) = node {
            if raft.role() == QuorumRole::Leader {
                let leader = *self.leaders.entry(raft.epoch()).or_insert(id);
                if leader != id {
                    let fault = format!("{leader} and {id} lead the quorum in epoch {}", raft.epoch());
                    return Err(Check::QuorumLeader.broken(fault));
                }
            }
            Check::QuorumVote.verdict(self.second_vote(id, raft.epoch(), raft.vote()))?;
        }
        let mark = raft.log().high_watermark();
        if applied > mark {
            let fault = format!("{node} applied {applied} and knows {mark} to be committed");
            return Err(Check::QuorumHighWatermark.broken(fault));
        }
        Check::QuorumCommitted.verdict(self.fault_of_log(world, node, raft.log()))
    }

    /// What is wrong with what a replica takes for committed.
    fn fault_of_log(&mut self, world: &World, node: NodeId, log: &MetadataLog) -> Option<String> {
        let mark = log.high_watermark();
        let from = self.compared.get(&node).copied().unwrap_or(Offset::ZERO);
        if mark < from {
            // It has started again, and knows nothing of what is committed yet.
            self.compared.remove(&node);
            return None;
        }
        let batches = log.batches_from(from).map(Mark::of).take_while(|batch| batch.next_offset <= mark);
        for batch in batches {
            let end = self.end();
            let known = self.committed.get(&batch.base_offset);
            if known.is_some_and(|known| *known != batch) || (known.is_none() && batch.base_offset < end) {
                return Some(format!("{node}: the metadata records at {} have changed", batch.base_offset));
            }
            if known.is_none() {
                if let Some(fault) = thin(world, batch) {
                    return Some(format!("{node}: {fault}"));
                }
                self.committed.insert(batch.base_offset, batch);
            }
        }
        self.compared.insert(node, mark);
        None
    }

    fn second_vote(
        &mut self,
        voter: ControllerId,
        epoch: LeaderEpoch,
        voted: Option<ControllerId>,
    ) -> Option<String> {
        let voted = voted?;
        match self.votes.insert(voter, (epoch, voted)) {
            Some((before, other)) if before == epoch && other != voted => {
                Some(format!("{voter} voted for {other} and for {voted} in epoch {epoch}"))
            }
            _ => None,
        }
    }
}

/// Replicas of the metadata log that do not hold the same yet, or do not agree on who leads.
pub fn unrest(world: &World) -> Option<String> {
    let replicas = || world.processes().filter_map(|(node, _)| sight::raft(world, node));
    let leaders = replicas().filter(|(raft, _)| raft.role() == QuorumRole::Leader).count();
    let mut epochs: Vec<LeaderEpoch> = replicas().map(|(raft, _)| raft.epoch()).collect();
    let mut ends: Vec<Offset> = replicas().map(|(_, applied)| applied).collect();
    epochs.sort();
    epochs.dedup();
    ends.sort();
    ends.dedup();
    let settled = leaders == 1 && epochs.len() == 1 && only_no_ops_from(world, ends.first().copied());
    (!settled).then(|| format!("{leaders} lead the quorum, epochs {epochs:?}, images at {ends:?}"))
}

/// Who has applied the log up to there knows all that it says: no-op records come for ever (R-CTRL-13).
fn only_no_ops_from(world: &World, from: Option<Offset>) -> bool {
    let (Some(active), Some(from)) = (world.active_controller(), from) else { return false };
    let log = active.raft().log();
    let says_nothing = |record: &Option<MetadataRecord>| *record == Some(MetadataRecord::NoOp);
    from >= log.start_offset() && log.committed_records(from).0.iter().all(|(_, record)| says_nothing(record))
}

/// R-CTRL-5: what becomes committed, a majority of the voters has.
fn thin(world: &World, batch: Mark) -> Option<String> {
    let voters = &world.config().controllers;
    let has = |voter: &&ControllerId| {
        let log = sight::voters_log(world, **voter);
        log.is_some_and(|log| {
            let is_in_snapshot = log.start_offset() >= batch.next_offset;
            is_in_snapshot || log.batches_from(batch.base_offset).next().map(Mark::of) == Some(batch)
        })
    };
    let holders = voters.iter().filter(has).count();
    let at = batch.base_offset;
    (2 * holders <= voters.len())
        .then(|| format!("committed metadata at {at} that {holders} of {} voters have", voters.len()))
}
