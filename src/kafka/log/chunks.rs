//! A log's batches, kept so that copies of a log share them.
//!
//! **Invariant:** no chunk is empty, and offsets ascend from batch to batch.

use std::rc::Rc;

use crate::kafka::record::Batch;
use crate::kafka::types::Offset;

/// Few enough that the first append after a checkpoint copies little.
const BATCHES_PER_CHUNK: usize = 64;

type Chunk = Vec<Batch>;

/// A clone is one pointer; an edit copies the list of chunks and the chunk that it changes, if they are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    list: Rc<Vec<Rc<Chunk>>>,
    batch_count: i64,
    size_bytes: i64,
}

impl Chunks {
    pub(super) fn batch_count(&self) -> i64 {
        self.batch_count
    }

    pub(super) fn size_bytes(&self) -> i64 {
        self.size_bytes
    }

    pub(super) fn push(&mut self, batch: Batch) {
        self.batch_count += 1;
        self.size_bytes += i64::from(batch.size_bytes());
        let list = Rc::make_mut(&mut self.list);
        match list.last_mut() {
            Some(last) if last.len() < BATCHES_PER_CHUNK => Rc::make_mut(last).push(batch),
            _ => {
                let mut chunk = Vec::with_capacity(BATCHES_PER_CHUNK);
                chunk.push(batch);
                list.push(Rc::new(chunk));
            }
        }
    }

    /// Drops the batch that holds `offset` and everything after it.
    pub(super) fn truncate_to(&mut self, offset: Offset) {
        let (chunk, index) = self.position(offset);
        let sizes = self.starting_at((chunk, index)).map(|batch| i64::from(batch.size_bytes()));
        let (dropped_count, dropped_bytes) =
            sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
        self.batch_count -= dropped_count;
        self.size_bytes -= dropped_bytes;
        let list = Rc::make_mut(&mut self.list);
        match list.get_mut(chunk) {
            Some(cut) if index > 0 => {
                Rc::make_mut(cut).truncate(index);
                list.truncate(chunk + 1);
            }
            _ => list.truncate(chunk),
        }
    }

    /// Drops the batches that end before `offset`.
    pub(super) fn drop_before(&mut self, offset: Offset) {
        let (chunk, index) = self.position(offset);
        if (chunk, index) == (0, 0) {
            return;
        }
        let dropped = self.iter().take_while(|batch| batch.last_offset() < offset);
        let (dropped_count, dropped_bytes) =
            dropped.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + i64::from(batch.size_bytes())));
        self.batch_count -= dropped_count;
        self.size_bytes -= dropped_bytes;
        let list = Rc::make_mut(&mut self.list);
        if index > 0 {
            Rc::make_mut(&mut list[chunk]).drain(..index);
        }
        list.drain(..chunk);
    }

    /// Puts `batches` in the place of those that start in `[from, to)`. Chunks that hold none of these stay shared.
    pub(super) fn replace(&mut self, (from, to): (Offset, Offset), batches: Vec<Batch>) {
        let base = |batch: Option<&Batch>| batch.map_or(Offset::ZERO, Batch::base_offset);
        let first = self.list.partition_point(|chunk| base(chunk.last()) < from);
        let behind = self.list.partition_point(|chunk| base(chunk.first()) < to).max(first);
        let touched = self.list[first..behind].iter().flat_map(|chunk| chunk.iter());
        let before = touched.clone().filter(|batch| batch.base_offset() < from).cloned();
        let after = touched.clone().filter(|batch| batch.base_offset() >= to).cloned();
        let mut replaced = Chunks::default();
        before.chain(batches).chain(after).for_each(|batch| replaced.push(batch));
        let old_bytes: i64 = touched.clone().map(|batch| i64::from(batch.size_bytes())).sum();
        self.batch_count += replaced.batch_count - touched.count() as i64;
        self.size_bytes += replaced.size_bytes - old_bytes;
        Rc::make_mut(&mut self.list).splice(first..behind, replaced.list.iter().cloned());
    }

    /// How many chunks are one and the same in both, and how many there are.
    #[cfg(test)]
    pub(super) fn shared_with(&self, other: &Chunks) -> (usize, usize) {
        let is_shared = |chunk: &&Rc<Chunk>| other.list.iter().any(|theirs| Rc::ptr_eq(chunk, theirs));
        (self.list.iter().filter(is_shared).count(), self.list.len())
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Batch> + Clone {
        self.list.iter().flat_map(|chunk| chunk.iter())
    }

    /// The batch that holds `offset`, or else the next one, and all that follow.
    pub(super) fn from(&self, offset: Offset) -> impl DoubleEndedIterator<Item = &Batch> + Clone {
        self.starting_at(self.position(offset))
    }

    /// Chunk, and index in it, of the first batch that ends at or after `offset`.
    fn position(&self, offset: Offset) -> (usize, usize) {
        let is_before = |batch: &Batch| batch.last_offset() < offset;
        // Who reads reads the newest, mostly.
        let last = self.list.len().saturating_sub(1);
        let is_in_last = |chunk: &Rc<Chunk>| chunk.first().is_some_and(|first| first.base_offset() <= offset);
        let chunk = match self.list.get(last).is_some_and(is_in_last) {
            true => last + usize::from(self.list[last].last().is_some_and(is_before)),
            false => self.list.partition_point(|chunk| chunk.last().is_some_and(is_before)),
        };
        let index = self.list.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before));
        (chunk, index)
    }

    fn starting_at(
        &self,
        (chunk, index): (usize, usize),
    ) -> impl DoubleEndedIterator<Item = &Batch> + Clone + use<'_> {
        let (first, rest) = match self.list[chunk..].split_first() {
            Some((first, rest)) => (&first[index..], rest),
            None => (&[][..], &[][..]),
        };
        first.iter().chain(rest.iter().flat_map(|chunk| chunk.iter()))
    }
}
