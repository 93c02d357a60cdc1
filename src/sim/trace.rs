//! What happened, in order, each event with its place and its cause.
//!
//! **Invariant:** entries are in the order of their keys, and numbered from the start of the run even when the oldest
//! are no longer kept.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::kafka::event::Event;
use crate::kafka::time::Time;

/// The place of an event in the run: virtual time, then the order in which it was scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub time: Time,
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The step in which it happened.
    pub key: Key,
    /// The step that scheduled this one; `None` for what the run began with.
    pub cause: Option<Key>,
    pub event: Event,
}

/// Few enough that the first event after a checkpoint copies little.
const ENTRIES_PER_CHUNK: usize = 128;

/// Typical events are about 20 MB then.
const MAX_CHUNKS: usize = 800;

/// What it holds at most, but for the newest chunk: those of 1,000 partitions name many at once.
pub const MAX_BYTES: usize = 64 << 20;

#[derive(Clone, Debug, Default)]
struct Chunk {
    entries: Vec<TraceEntry>,
    bytes: usize,
}

impl Chunk {
    fn push(&mut self, entry: TraceEntry, bytes: usize) {
        self.entries.push(entry);
        self.bytes += bytes;
    }
}

/// As many of the newest entries as are kept. Copies share all but the chunk that is being written.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// All full but the last.
    chunks: VecDeque<Rc<Chunk>>,
    dropped: u64,
    bytes: usize,
}

impl Trace {
    /// Adds an entry whose event has so many bytes in lists and texts, at most.
    pub fn push(&mut self, entry: TraceEntry, list_bytes: usize) {
        let bytes = size_of::<TraceEntry>() + list_bytes;
        self.bytes += bytes;
        match self.chunks.back_mut() {
            Some(last) if last.entries.len() < ENTRIES_PER_CHUNK => Rc::make_mut(last).push(entry, bytes),
            _ => self.begin_chunk(entry, bytes),
        }
    }

    fn begin_chunk(&mut self, entry: TraceEntry, bytes: usize) {
        while self.chunks.len() >= MAX_CHUNKS || self.chunks.len() > 1 && self.bytes > MAX_BYTES {
            self.drop_oldest_chunk();
        }
        let mut chunk = Chunk { entries: Vec::with_capacity(ENTRIES_PER_CHUNK), bytes: 0 };
        chunk.push(entry, bytes);
        self.chunks.push_back(Rc::new(chunk));
    }

    fn drop_oldest_chunk(&mut self) {
        if let Some(oldest) = self.chunks.pop_front() {
            self.dropped += ENTRIES_PER_CHUNK as u64;
            self.bytes -= oldest.bytes;
        }
    }

    /// Lets all go but the newest, at least `events` of them.
    pub fn keep_newest(&mut self, events: usize) {
        let chunks = events.div_ceil(ENTRIES_PER_CHUNK) + 1;
        while self.chunks.len() > chunks {
            self.drop_oldest_chunk();
        }
    }

    /// What the entries that are kept have in memory, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many events there have been.
    pub fn len_ever(&self) -> u64 {
        let last = self.chunks.back().map_or(0, |chunk| chunk.entries.len());
        let full = self.chunks.len().saturating_sub(1) * ENTRIES_PER_CHUNK;
        self.dropped + (full + last) as u64
    }

    /// The number of the first event that is kept.
    pub fn first_kept(&self) -> u64 {
        self.dropped
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &TraceEntry> {
        self.since(0)
    }

    /// Hands on the events from number `from` on, as far as they are kept. Who asks after each step comes to the end of the last
    /// chunk at once.
    pub fn for_each_since(&self, from: u64, mut act: impl FnMut(&TraceEntry)) {
        let skip = from.max(self.dropped) - self.dropped;
        let mut index = skip as usize % ENTRIES_PER_CHUNK;
        let chunk = skip as usize / ENTRIES_PER_CHUNK;
        for chunk in self.chunks.range(chunk.min(self.chunks.len())..) {
            chunk.entries.iter().skip(index).for_each(&mut act);
            index = 0;
        }
    }

    /// The events from number `from` on, as far as they are kept.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &TraceEntry> {
        let skip = from.clamp(self.dropped, self.len_ever()) - self.dropped;
        let (chunk, index) = (skip as usize / ENTRIES_PER_CHUNK, skip as usize % ENTRIES_PER_CHUNK);
        let first = self.chunks.get(chunk).map_or(&[][..], |first| &first.entries[index..]);
        let rest = self.chunks.range((chunk + 1).min(self.chunks.len())..);
        first.iter().chain(rest.flat_map(|chunk| chunk.entries.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::event::Act;
    use crate::kafka::types::{BrokerId, ClientName};

    fn trace(events: u64) -> Trace {
        trace_of(events, 8)
    }

    fn trace_of(events: u64, list_bytes: usize) -> Trace {
        let mut trace = Trace::default();
        for sequence in 0..events {
            let (node, name) = (BrokerId(1).into(), ClientName::new("broker-1"));
            let key = Key { sequence, ..Key::default() };
            let event = Event::Process { node, name, act: Act::Started };
            trace.push(TraceEntry { key, cause: None, event }, list_bytes);
        }
        trace
    }

    fn numbers<'a>(entries: impl Iterator<Item = &'a TraceEntry>) -> Vec<u64> {
        entries.map(|entry| entry.key.sequence).collect()
    }

    #[test]
    fn events_are_found_by_their_number_within_and_across_chunks() {
        for from in [0, 1, 127, 128, 129, 255, 299, 300, 1000] {
            let expected: Vec<u64> = (from..300).collect();
            assert_eq!(numbers(trace(300).since(from)), expected, "from {from}");
            let mut handed_on = Vec::new();
            trace(300).for_each_since(from, |entry| handed_on.push(entry.key.sequence));
            assert_eq!(handed_on, expected, "from {from}");
        }
        assert_eq!(trace(256).len_ever(), 256);
        assert!(numbers(Trace::default().since(7)).is_empty());
        assert_eq!(numbers(trace(3).entries().rev()), [2, 1, 0]);
    }

    #[test]
    fn the_newest_can_be_kept_alone_and_their_numbers_stay() {
        let mut short = trace(1000);
        short.keep_newest(128);
        assert_eq!((short.len_ever(), numbers(short.since(990))), (1000, (990..1000).collect()));
        assert_eq!(numbers(short.entries()), (768..1000).collect::<Vec<_>>());
        short.keep_newest(5000);
        assert_eq!(short.first_kept(), 768);
    }

    #[test]
    fn the_oldest_are_dropped_and_the_numbers_stay() {
        let full = (MAX_CHUNKS * ENTRIES_PER_CHUNK) as u64;
        let trace = trace(full + 1);
        assert_eq!(trace.len_ever(), full + 1);
        assert_eq!(numbers(trace.since(0)).first(), Some(&(ENTRIES_PER_CHUNK as u64)));
        assert_eq!(numbers(trace.since(full)), [full]);
    }

    #[test]
    fn large_events_are_fewer() {
        let large = trace_of(100_000, 10_000);
        assert!(large.bytes() <= MAX_BYTES + ENTRIES_PER_CHUNK * 11_000, "{}", large.bytes());
        assert!(large.bytes() > MAX_BYTES / 10 * 9, "no more is let go than must be");
        assert_eq!(large.len_ever(), 100_000);
        let kept = large.entries().count();
        assert_eq!(large.bytes(), kept * (size_of::<TraceEntry>() + 10_000));
        assert_eq!(numbers(large.since(0)).first(), Some(&large.first_kept()));
        assert!(
            trace_of(1_000, MAX_BYTES).entries().count() >= ENTRIES_PER_CHUNK,
            "the newest are kept, whatever they hold"
        );
    }
}
