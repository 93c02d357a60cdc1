//! What is told once and then at most every minute, with how often it has happened meanwhile: errors of a calm run, which
//! the client mends at once by sending again.

use std::collections::BTreeMap;

use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;

const PAUSE_MS: i64 = 60_000;

/// Whether an error is part of how producers and brokers find into step: a transaction that begins before the last one's
/// markers are written, or a batch that comes before the one it follows.
pub(super) fn is_of_calm_runs(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::ConcurrentTransactions | ErrorCode::OutOfOrderSequenceNumber)
}

/// By what it happens to: when it was last told, and how often it has happened since.
#[derive(Clone, Debug)]
pub(super) struct Folded<K>(BTreeMap<K, (Time, i64)>);

impl<K> Default for Folded<K> {
    fn default() -> Folded<K> {
        Folded(BTreeMap::new())
    }
}

impl<K: Ord> Folded<K> {
    /// It happens. How often it has since it was last told, this time too, if it is told now.
    pub fn happens(&mut self, time: Time, key: K) -> Option<i64> {
        let Some((told, since)) = self.0.get_mut(&key) else {
            self.0.insert(key, (time, 0));
            return Some(1);
        };
        *since += 1;
        if time.ms_since(*told) < PAUSE_MS {
            return None;
        }
        *told = time;
        Some(std::mem::take(since))
    }
}
