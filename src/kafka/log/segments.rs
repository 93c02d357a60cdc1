//! The segments of a log, oldest first (Kafka's `LogSegments`).
//!
//! **Invariant:** there is always an active one, the last; base offsets ascend strictly.

use std::rc::Rc;

use super::segment::Segment;
use crate::kafka::types::Offset;

/// A clone is two pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    sealed: Rc<Vec<Rc<Segment>>>,
    active: Rc<Segment>,
}

impl Segments {
    pub(super) fn new(base_offset: Offset, created_ms: i64) -> Segments {
        Segments { sealed: Rc::default(), active: Rc::new(Segment::new(base_offset, created_ms)) }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.sealed.iter().map(|segment| &**segment).chain(std::iter::once(&*self.active))
    }

    pub(super) fn active(&self) -> &Segment {
        &self.active
    }

    pub(super) fn active_mut(&mut self) -> &mut Segment {
        Rc::make_mut(&mut self.active)
    }

    /// Where the stored data starts, which may be below the log start offset.
    pub(super) fn first_base_offset(&self) -> Offset {
        self.sealed.first().map_or(self.active.base_offset(), |segment| segment.base_offset())
    }

    /// Makes a new active segment. An empty one at the same place, rolled since its index has no room at all, is replaced.
    pub(super) fn roll(&mut self, base_offset: Offset, now_ms: i64) {
        if base_offset == self.active.base_offset() && self.active.size_bytes() == 0 {
            self.active = Rc::new(Segment::new(base_offset, now_ms));
            return;
        }
        assert!(base_offset > self.active.base_offset(), "a segment starts behind the one before it");
        self.active_mut().seal();
        let sealed = std::mem::replace(&mut self.active, Rc::new(Segment::new(base_offset, now_ms)));
        Rc::make_mut(&mut self.sealed).push(sealed);
    }

    /// The segment that `offset` belongs to and the base offset of the next one; `None` below the first.
    pub(super) fn floor(&self, offset: Offset) -> Option<(&Segment, Option<Offset>)> {
        if offset >= self.active.base_offset() {
            return Some((&self.active, None));
        }
        let behind = self.sealed.partition_point(|segment| segment.base_offset() <= offset);
        let segment = self.sealed.get(behind.checked_sub(1)?)?;
        let next = self.sealed.get(behind).map_or(self.active.base_offset(), |next| next.base_offset());
        Some((segment, Some(next)))
    }

    /// The segments from the one that `offset` belongs to.
    pub(super) fn from(&self, offset: Offset) -> impl Iterator<Item = &Segment> {
        let base = self.floor(offset).map_or(Offset::ZERO, |(segment, _)| segment.base_offset());
        self.iter().filter(move |segment| segment.base_offset() >= base)
    }

    /// Removes the segments that start behind `offset`; the one that holds it is the active one then. Their base offsets.
    pub(super) fn truncate(&mut self, offset: Offset) -> Vec<Offset> {
        let mut removed = Vec::new();
        while self.active.base_offset() > offset {
            removed.push(self.active.base_offset());
            let before = Rc::make_mut(&mut self.sealed).pop();
            self.active = before.expect("an offset at or behind the first segment's base");
        }
        removed
    }

    /// Removes the sealed segments that start below `base_offset`. Their base offsets.
    pub(super) fn remove_before(&mut self, base_offset: Offset) -> Vec<Offset> {
        let count = self.sealed.partition_point(|segment| segment.base_offset() < base_offset);
        if count == 0 {
            return Vec::new();
        }
        let removed = Rc::make_mut(&mut self.sealed).drain(..count);
        removed.map(|segment| segment.base_offset()).collect()
    }

    /// Puts one segment in the place of the sealed ones with these base offsets, which are neighbours.
    pub(super) fn replace(&mut self, bases: &[Offset], segment: Segment) {
        let sealed = Rc::make_mut(&mut self.sealed);
        let first = sealed.partition_point(|old| old.base_offset() < bases[0]);
        sealed.splice(first..first + bases.len(), [Rc::new(segment)]);
    }
}
