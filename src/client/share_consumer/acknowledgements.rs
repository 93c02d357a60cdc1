//! What is said of records of one partition, and how it is put into a request (Kafka's `Acknowledgements`).
//!
//! **Invariant:** an offset has one type.

use std::collections::BTreeMap;

use crate::kafka::protocol::share::AcknowledgementBatch;
use crate::kafka::share::AcknowledgeType;
use crate::kafka::types::Offset;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgements(BTreeMap<Offset, AcknowledgeType>);

/// As many records of one type in a row have it said once for all of them, and more; fewer have it said for each.
const LONG_RUN: usize = 11;

impl Acknowledgements {
    pub fn add(&mut self, offset: Offset, kind: AcknowledgeType) {
        self.0.insert(offset, kind);
    }

    pub fn contains(&self, offset: Offset) -> bool {
        self.0.contains_key(&offset)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Offset, AcknowledgeType)> {
        self.0.iter().map(|(offset, kind)| (*offset, *kind))
    }

    pub fn merge(&mut self, other: Acknowledgements) {
        self.0.extend(other.0);
    }

    pub fn renews(&self) -> bool {
        self.0.values().any(|kind| *kind == AcknowledgeType::Renew)
    }

    /// Offsets without a gap in batches; a long run of one type has its own.
    pub fn batches(&self) -> Vec<AcknowledgementBatch> {
        let mut batches: Vec<AcknowledgementBatch> = Vec::new();
        for (first, kind, count) in self.runs() {
            let last = first.0 + count as i64 - 1;
            let types = vec![kind.id(); count];
            match batches.last_mut() {
                Some(before) if count < LONG_RUN && is_open(before) && before.last_offset + 1 == first.0 => {
                    before.acknowledge_types.extend(types);
                    before.last_offset = last;
                }
                _ => batches.push(AcknowledgementBatch {
                    first_offset: first.0,
                    last_offset: last,
                    acknowledge_types: types,
                }),
            }
        }
        for batch in &mut batches {
            batch.acknowledge_types.dedup_by(|a, b| a == b);
            if batch.acknowledge_types.len() > 1 {
                batch.acknowledge_types = self.types(batch.first_offset, batch.last_offset);
            }
        }
        batches
    }

    /// Offsets in a row that have one type, as many as possible at a time.
    fn runs(&self) -> Vec<(Offset, AcknowledgeType, usize)> {
        let mut runs: Vec<(Offset, AcknowledgeType, usize)> = Vec::new();
        for (offset, kind) in self.iter() {
            match runs.last_mut() {
                Some((first, of, count)) if *of == kind && *first + *count as i64 == offset => *count += 1,
                _ => runs.push((offset, kind, 1)),
            }
        }
        runs
    }

    fn types(&self, first: i64, last: i64) -> Vec<i8> {
        self.0.range(Offset(first)..=Offset(last)).map(|(_, kind)| kind.id()).collect()
    }
}

/// Whether another run may follow in the batch: it is no long run itself.
fn is_open(batch: &AcknowledgementBatch) -> bool {
    let types = &batch.acknowledge_types;
    types.len() < LONG_RUN || types.iter().any(|kind| *kind != types[0])
}

impl FromIterator<(Offset, AcknowledgeType)> for Acknowledgements {
    fn from_iter<I: IntoIterator<Item = (Offset, AcknowledgeType)>>(said: I) -> Acknowledgements {
        Acknowledgements(said.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` accept, `r` release, `x` reject, `g` gap; a blank skips an offset.
    fn check(said: &str, expected: &[(i64, i64, &[i8])]) {
        let kind = |letter| match letter {
            'a' => AcknowledgeType::Accept,
            'r' => AcknowledgeType::Release,
            'x' => AcknowledgeType::Reject,
            _ => AcknowledgeType::Gap,
        };
        let letters = (0..).zip(said.chars()).filter(|(_, letter)| *letter != ' ');
        let said: Acknowledgements = letters.map(|(at, letter)| (Offset(at), kind(letter))).collect();
        let batches = said.batches();
        let batches: Vec<_> = batches
            .iter()
            .map(|batch| (batch.first_offset, batch.last_offset, &batch.acknowledge_types[..]))
            .collect();
        assert_eq!(batches, expected);
    }

    #[test]
    fn one_type_is_said_once_r_share_6() {
        check("", &[]);
        check("aaa", &[(0, 2, &[1])]);
        check("aarg", &[(0, 3, &[1, 1, 2, 0])]);
        check("aa xx", &[(0, 1, &[1]), (3, 4, &[3])]);
    }

    #[test]
    fn a_long_run_of_one_type_has_a_batch_of_its_own() {
        let ten = "a".repeat(10);
        check(&format!("r{ten}r"), &[(0, 11, &[2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2])]);
        check(&format!("rx{ten}arr"), &[(0, 1, &[2, 3]), (2, 12, &[1]), (13, 14, &[2])]);
    }
}
