//! What a log looks like: the newest of its records, and the marks of transactions.

use std::rc::Rc;

use crate::kafka::log::{AbortedTransaction, Log};
use crate::kafka::record::{Batch, Record};
use crate::kafka::types::{LeaderEpoch, Offset};
use crate::view::model::{Cell, CellKind, ReplicaView};

/// So many of a log's newest records are shown.
const CELLS: usize = 48;
const KEY_COLOURS: u32 = 8;
/// Records without a key have the last colour.
const NO_KEY: u8 = 7;

/// The log's newest records; read anew only when the log is another one.
pub fn cells(log: &Log, leader_epoch: LeaderEpoch, before: Option<&ReplicaView>) -> Rc<[Cell]> {
    if let Some(before) = before
        && (before.log_start, before.log_end, before.size_bytes, before.leader_epoch)
            == (log.log_start_offset(), log.log_end_offset(), log.size_bytes(), leader_epoch)
    {
        return before.cells.clone();
    }
    let start = log.log_start_offset();
    let mut tail: Vec<(&Batch, Vec<Record>)> = Vec::new();
    let mut records = 0;
    for batch in log.batches_from(start).rev() {
        if records >= CELLS {
            break;
        }
        // A batch that cannot be read has no cells; the log's offsets still say that it is there.
        let of_batch = batch.records().unwrap_or_default();
        records += of_batch.len();
        tail.push((batch, of_batch));
    }
    let from = tail.last().map_or(start, |(batch, _)| batch.base_offset());
    let aborted = aborted_since(log, from);
    let cells = tail.iter().rev().flat_map(|(batch, records)| {
        let kind = kind(log, batch, &aborted);
        records.iter().filter(|record| record.offset >= start).map(move |record| cell(record, kind))
    });
    let mut cells: Vec<Cell> = cells.collect();
    let excess = cells.len().saturating_sub(CELLS);
    cells.drain(..excess);
    cells.into()
}

/// Up to where readers of committed data come; `None` if nobody ever wrote here in a transaction.
pub fn last_stable(log: &Log) -> Option<Offset> {
    let mut producers = log.producers().iter().map(|(_, producer)| producer);
    let has_transactions =
        producers.any(|producer| producer.transaction_start().is_some() || producer.coordinator_epoch() >= 0);
    has_transactions.then(|| log.last_stable_offset())
}

/// What was aborted by a marker at `from` or behind it.
fn aborted_since(log: &Log, from: Offset) -> Vec<AbortedTransaction> {
    let newest_first =
        log.segments().rev().flat_map(|segment| segment.aborted_transactions().iter().rev().copied());
    newest_first.take_while(|aborted| aborted.last_offset >= from).collect()
}

/// What a batch of the log is to transactions.
pub fn kind_at(log: &Log, batch: &Batch) -> CellKind {
    kind(log, batch, &aborted_since(log, batch.base_offset()))
}

fn kind(log: &Log, batch: &Batch, aborted: &[AbortedTransaction]) -> CellKind {
    if batch.is_control() {
        return match batch.end_transaction_marker() {
            Ok(Some(marker)) if marker.committed => CellKind::Commit,
            Ok(Some(_)) => CellKind::Abort,
            _ => CellKind::Control,
        };
    }
    if !batch.is_transactional() {
        return CellKind::Record;
    }
    let (producer, base) = (batch.producer_id(), batch.base_offset());
    let is_of = |aborted: &AbortedTransaction| {
        aborted.producer == producer && (aborted.first_offset..=aborted.last_offset).contains(&base)
    };
    let open_since = log.producers().get(producer).and_then(|producer| producer.transaction_start());
    match open_since {
        Some(first) if first <= base => CellKind::Open,
        _ if aborted.iter().any(is_of) => CellKind::Aborted,
        _ => CellKind::Record,
    }
}

fn cell(record: &Record, kind: CellKind) -> Cell {
    let key = record.key.as_deref().filter(|_| !kind.is_control()).map(String::from_utf8_lossy);
    Cell {
        offset: record.offset,
        colour: key.as_deref().map_or(NO_KEY, key_colour),
        key: Rc::from(match kind {
            CellKind::Commit => "commit marker",
            CellKind::Abort => "abort marker",
            CellKind::Control => "control record",
            _ => key.as_deref().unwrap_or("no key"),
        }),
        kind,
    }
}

/// A key's colour: by the number that it ends with, so that neighbours differ; else by its letters.
pub fn key_colour(key: &str) -> u8 {
    let digits = key.len() - key.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let number = match key[key.len() - digits..].parse::<u32>() {
        Ok(number) => number,
        Err(_) => key.bytes().map(u32::from).sum(),
    };
    (number % KEY_COLOURS) as u8
}

#[cfg(test)]
mod tests {
    use super::key_colour;

    #[test]
    fn numbered_keys_have_neighbouring_colours() {
        let colours: Vec<u8> = (0..9).map(|number| key_colour(&format!("cart-{number}"))).collect();
        assert_eq!(colours, [0, 1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!((key_colour(""), key_colour("ab")), (0, (b'a' + b'b') % 8));
    }
}
