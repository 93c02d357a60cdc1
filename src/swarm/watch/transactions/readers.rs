//! What consumers are handed, held to what became of it (R-CONS-29, 30).

use super::TransactionWatch;
use super::reading::{Fate, Reading};
use crate::client::consumer::config::IsolationLevel;
use crate::kafka::event::OffsetRun;
use crate::kafka::types::{ClientName, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

impl TransactionWatch {
    /// A reader of committed data is handed no record of a transaction that is open or was aborted, and nobody a control
    /// record; and nothing else is left out between where a poll began and where it ended.
    pub(super) fn check_polled(
        &self,
        world: &World,
        client: &ClientName,
        tp: &TopicPartition,
        (from, to): (Offset, Offset),
        runs: &[OffsetRun],
        counts: &mut Counts,
    ) -> Verdict {
        let Some(consumer) = world.consumer(client) else { return Ok(()) };
        let Some(reading) = self.readings.get(tp).filter(|_| self.is_kept(tp)) else { return Ok(()) };
        let is_committed = consumer.config().isolation == IsolationLevel::ReadCommitted;
        counts.polls_checked += u64::from(is_committed);
        // The cleaner takes out what it likes of what is not the newest of its key.
        let is_whole = !self.compacted.contains(tp);
        let fault = fault_of(reading, (from, to), runs, is_committed, is_whole);
        Check::ReadCommitted.verdict(fault.map(|fault| format!("{client} in {tp}: {fault}")))
    }
}

fn fault_of(
    reading: &Reading,
    (from, to): (Offset, Offset),
    runs: &[OffsetRun],
    is_committed: bool,
    is_whole: bool,
) -> Option<String> {
    let is_meant = |fate: Fate| match is_committed {
        true => fate.is_for_committed(),
        false => fate != Fate::Control,
    };
    let handed = runs.iter().flat_map(|run| run.from.0..run.to.0).map(Offset);
    let wrong = handed.filter(|offset| *offset >= reading.start());
    for offset in wrong {
        match reading.fate_at(offset) {
            Some(fate) if is_meant(fate) => {}
            fate => return Some(format!("was handed {offset}, which is {fate:?}")),
        }
    }
    let has = |offset: i64| runs.iter().any(|run| run.from.0 <= offset && offset < run.to.0);
    let meant = reading.between(from, to).filter(|(_, _, fate)| is_whole && is_meant(*fate));
    let mut meant = meant.flat_map(|(from, to, fate)| (from.0..to.0).map(move |offset| (offset, fate)));
    let (offset, fate) = meant.find(|(offset, _)| !has(*offset))?;
    Some(format!("went from {from} to {to} and was not handed {offset}, which is {fate:?}"))
}
