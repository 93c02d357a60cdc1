//! Offsets from a first to a last, both included, as batches and acknowledgements name them.

use crate::kafka::types::Offset;

/// At least one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetRange {
    pub first: Offset,
    pub last: Offset,
}

impl OffsetRange {
    pub fn new(first: Offset, last: Offset) -> OffsetRange {
        OffsetRange { first, last }
    }

    /// From `first` to the last one before `end`.
    pub fn up_to(first: Offset, end: Offset) -> OffsetRange {
        OffsetRange { first, last: Offset(end.0 - 1) }
    }

    pub fn one(offset: Offset) -> OffsetRange {
        OffsetRange { first: offset, last: offset }
    }

    /// How many offsets there are, with or without a record.
    pub fn count(self) -> i64 {
        self.last - self.first + 1
    }

    /// How many of them are `start` or behind.
    pub fn count_from(self, start: Offset) -> i64 {
        OffsetRange { first: self.first.max(start), ..self }.count().max(0)
    }

    pub fn contains(self, offset: Offset) -> bool {
        self.first <= offset && offset <= self.last
    }

    /// Whether it ends at `offset` or behind and has begun before.
    pub fn is_cut_by(self, offset: Offset) -> bool {
        self.first < offset && self.last >= offset
    }

    pub fn is_within(self, other: OffsetRange) -> bool {
        self.first >= other.first && self.last <= other.last
    }

    pub fn offsets(self) -> impl Iterator<Item = Offset> {
        (self.first.0..=self.last.0).map(Offset)
    }

    /// What is left of it without `other`: nothing, one piece or two.
    pub fn without(self, other: OffsetRange) -> impl Iterator<Item = OffsetRange> {
        let before =
            OffsetRange { last: self.last.min(OffsetRange::up_to(self.first, other.first).last), ..self };
        let after = OffsetRange { first: self.first.max(other.last + 1), ..self };
        [before, after].into_iter().filter(|piece| piece.count() > 0)
    }
}
