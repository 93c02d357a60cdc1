//! How often each thing was compared or happened, so that a calm run shows that it was held to something.

use std::ops::AddAssign;

use crate::kafka::event::{Act, Event};

/// What one run, or many, went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Committed batches that were looked for in a replica's log, each once for each replica.
    pub batches_compared: u64,
    /// Records of compacted logs, likewise.
    pub compacted_records_compared: u64,
    /// Acknowledged acks=all batches that were looked for among what is committed.
    pub acknowledgements_checked: u64,
    /// A partition got another leader.
    pub elections: u64,
    /// A follower threw records away.
    pub truncations: u64,
    /// A log lost records to compaction.
    pub cleanings: u64,
    pub power_losses: u64,
    pub wiped_disks: u64,
}

impl Counts {
    /// Each with what it counts, in the words of a summary.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("committed batches compared", self.batches_compared),
            ("records of compacted logs compared", self.compacted_records_compared),
            ("acknowledgements checked", self.acknowledgements_checked),
            ("elections", self.elections),
            ("truncations", self.truncations),
            ("cleanings", self.cleanings),
            ("power losses", self.power_losses),
            ("wiped disks", self.wiped_disks),
        ]
    }

    /// Counts what happened.
    pub fn hear(&mut self, event: &Event) {
        let count = match event {
            Event::LeaderElected { to, .. } if to.is_some() => &mut self.elections,
            Event::Truncated { from, to, .. } if to < from => &mut self.truncations,
            Event::LogCleaned { before, after, .. } if after.records < before.records => &mut self.cleanings,
            Event::Process { act: Act::PowerCut, .. } => &mut self.power_losses,
            Event::DiskWiped { .. } => &mut self.wiped_disks,
            _ => return,
        };
        *count += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.batches_compared += other.batches_compared;
        self.compacted_records_compared += other.compacted_records_compared;
        self.acknowledgements_checked += other.acknowledgements_checked;
        self.elections += other.elections;
        self.truncations += other.truncations;
        self.cleanings += other.cleanings;
        self.power_losses += other.power_losses;
        self.wiped_disks += other.wiped_disks;
    }
}
