//! What a long run keeps in memory, part by part: what grows, and what has come to its limit.

use std::io::{self, Write};

use crate::lab::footprint::{self, Footprint, Limit};
use crate::lab::session::Session;

use super::Memory;
use super::speed::{LOADS, MIB, run_to};

/// Virtual minutes after which it is told.
const LOOKS_MIN: [i64; 6] = [0, 1, 10, 20, 40, 60];

/// So much there is of each part.
#[derive(Debug)]
struct Parts {
    events: u64,
    events_dropped: u64,
    ledger_batches: usize,
    sentences: usize,
    /// Of the topics' replicas, the group's own among them.
    log_batches: i64,
    log_bytes: i64,
    /// Records in the metadata logs of all nodes.
    metadata_records: i64,
}

impl Parts {
    fn of(session: &Session) -> Parts {
        let (world, trace) = (session.world(), session.world().trace());
        let logs = || footprint::replicas(world).map(|partition| &partition.log);
        Parts {
            events: trace.len_ever() - trace.first_kept(),
            events_dropped: trace.first_kept(),
            ledger_batches: session.ledger().batches().count(),
            sentences: session.narrative().iter().count(),
            log_batches: logs().map(|log| log.batch_count()).sum(),
            log_bytes: logs().map(|log| log.size_bytes()).sum(),
            metadata_records: footprint::metadata_records(world).sum(),
        }
    }
}

/// An hour of the page's cluster at 100 records a second. `memory` tells how many bytes the program holds.
pub fn an_hour(memory: Memory, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "the page's cluster at 100 records a second, by virtual minutes\n")?;
    writeln!(
        out,
        "{:>8} {:>8} {:>9} {:>12} {:>15} {:>10} {:>12} {:>8} {:>17}",
        "minutes",
        "MiB",
        "events",
        "dropped ones",
        "ledger batches",
        "sentences",
        "log batches",
        "log MiB",
        "metadata records"
    )?;
    let mut session = LOADS[0].open();
    for minute in LOOKS_MIN {
        run_to(&mut session, minute * 60);
        let held_mib = memory() as f64 / MIB;
        let parts = Parts::of(&session);
        writeln!(
            out,
            "{minute:>8} {held_mib:>8.1} {:>9} {:>12} {:>15} {:>10} {:>12} {:>8.1} {:>17}",
            parts.events,
            parts.events_dropped,
            parts.ledger_batches,
            parts.sentences,
            parts.log_batches,
            parts.log_bytes as f64 / MIB,
            parts.metadata_records
        )?;
    }
    let footprint = Footprint::of(&session);
    let outlook = Limit::default().outlook(memory(), &footprint);
    writeln!(out, "\nestimated: {:.1} MiB. {outlook}", footprint.total() as f64 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part is there after some seconds.
    #[test]
    fn every_part_of_a_run_is_counted() {
        let mut session = LOADS[0].open();
        run_to(&mut session, 15);
        let parts = Parts::of(&session);
        assert_eq!(parts.events + parts.events_dropped, session.world().trace().len_ever());
        assert!(parts.ledger_batches > 0 && parts.sentences > 0, "{parts:?}");
        assert!(parts.log_batches > 0 && parts.log_bytes > 60 * parts.log_batches, "{parts:?}");
        assert!(parts.metadata_records > 0, "{parts:?}");
    }
}
