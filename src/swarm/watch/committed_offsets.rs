//! The offsets that groups have committed, as a partition of `__consumer_offsets` has them (R-GRP-3, R-TXN-21, 33).
//!
//! What a transaction commits counts from its marker on; a commit whose record stands further behind, though, counts as soon
//! as it is there, and no earlier one after it.
//!
//! **Invariant:** of an open transaction, or of one that was aborted, nothing counts.

use std::collections::BTreeMap;

use crate::kafka::types::{GroupId, Offset, ProducerId, TopicPartition};

type Key = (GroupId, TopicPartition);

/// An offset, and where its record stands.
#[derive(Clone, Copy, Debug)]
struct Commit {
    at: Offset,
    offset: Offset,
}

#[derive(Debug, Default)]
pub struct CommittedOffsets {
    counting: BTreeMap<Key, Commit>,
    open: BTreeMap<ProducerId, BTreeMap<Key, Commit>>,
}

impl CommittedOffsets {
    /// Reads the record at `at`; without an `offset` it is a tombstone, which takes what is pending with it
    /// (`OffsetMetadataManager.replay`).
    pub fn take(&mut self, key: Key, at: Offset, offset: Option<Offset>, transaction: Option<ProducerId>) {
        match (offset.map(|offset| Commit { at, offset }), transaction) {
            (Some(commit), Some(producer)) => {
                self.open.entry(producer).or_default().insert(key, commit);
            }
            (Some(commit), None) => {
                self.counting.insert(key, commit);
            }
            (None, _) => {
                self.counting.remove(&key);
                for open in self.open.values_mut() {
                    open.remove(&key);
                }
            }
        }
    }

    /// Reads a producer's marker.
    pub fn end_transaction(&mut self, producer: ProducerId, committed: bool) {
        for (key, commit) in self.open.remove(&producer).unwrap_or_default() {
            let is_newer = self.counting.get(&key).is_none_or(|counting| counting.at < commit.at);
            if committed && is_newer {
                self.counting.insert(key, commit);
            }
        }
    }

    pub fn get(&self, group: &GroupId, tp: &TopicPartition) -> Option<Offset> {
        self.counting.get(&(group.clone(), tp.clone())).map(|commit| commit.offset)
    }

    pub fn all(&self) -> BTreeMap<Key, Offset> {
        self.counting.iter().map(|(key, commit)| (key.clone(), commit.offset)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<ProducerId> = Some(ProducerId(1));
    const B: Option<ProducerId> = Some(ProducerId(2));

    /// `committed` of what is read in this order: where a record stands, its offset, whose transaction it is of.
    fn read(records: &[(i64, Option<i64>, Option<ProducerId>)], ends: &[(i64, bool)]) -> Option<i64> {
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut offsets = CommittedOffsets::default();
        for (at, offset, transaction) in records {
            offsets.take((GroupId::new("g"), tp.clone()), Offset(*at), offset.map(Offset), *transaction);
        }
        ends.iter()
            .for_each(|(producer, committed)| offsets.end_transaction(ProducerId(*producer), *committed));
        offsets.get(&GroupId::new("g"), &tp).map(|offset| offset.0)
    }

    #[test]
    fn a_transactions_offsets_count_from_its_commit_on_r_txn_33() {
        assert_eq!(read(&[(0, Some(10), None), (1, Some(20), A)], &[]), Some(10));
        assert_eq!(read(&[(0, Some(10), None), (1, Some(20), A)], &[(1, false)]), Some(10));
        assert_eq!(read(&[(0, Some(10), None), (1, Some(20), A)], &[(1, true)]), Some(20));
    }

    #[test]
    fn the_record_that_stands_last_counts_whenever_its_marker_comes_r_txn_21() {
        assert_eq!(read(&[(0, Some(20), A), (1, Some(30), None)], &[(1, true)]), Some(30));
        assert_eq!(read(&[(0, Some(20), A), (1, Some(40), B)], &[(2, true), (1, true)]), Some(40));
        assert_eq!(
            read(&[(0, Some(20), A), (1, None, None)], &[(1, true)]),
            None,
            "a tombstone takes it along"
        );
    }
}
