//! The ends of transactions in one partition, and so what became of each transaction there.
//!
//! **Invariant:** a record of a transaction is decided by the first marker of its producer behind it in the log that counts.
//! Where that log loses the marker, it is open again.

use std::collections::BTreeMap;

use super::record::{Gone, Moment};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerId};

/// A marker in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    pub at: Moment,
    pub epoch: LeaderEpoch,
    pub offset: Offset,
    pub committed: bool,
    /// It is in the log of whoever leads no more.
    pub gone: Option<Gone>,
}

#[derive(Clone, Debug, Default)]
pub struct Markers {
    of: BTreeMap<ProducerId, OfProducer>,
    /// Behind all that were ever noted.
    end: Offset,
}

#[derive(Clone, Debug, Default)]
struct OfProducer {
    /// In the log that counts, by their offsets.
    there: Vec<Marker>,
    gone: Vec<Marker>,
}

impl OfProducer {
    fn forget_below(&mut self, first: Offset) {
        self.there.drain(..self.there.partition_point(|marker| marker.offset < first));
        self.gone.retain(|marker| marker.offset >= first);
    }

    fn is_empty(&self) -> bool {
        self.there.is_empty() && self.gone.is_empty()
    }

    fn insert(&mut self, marker: Marker) {
        match marker.gone {
            Some(_) => self.gone.push(marker),
            None => {
                let place = self.there.partition_point(|other| other.offset < marker.offset);
                self.there.insert(place, marker);
            }
        }
    }
}

impl Markers {
    pub fn note(&mut self, producer: ProducerId, marker: Marker) {
        self.end = self.end.max(marker.offset + 1);
        self.of.entry(producer).or_default().insert(marker);
    }

    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.of.values().map(|of| of.there.len() + of.gone.len()).sum()
    }

    /// What decides on a record of this producer at this offset, if anything does.
    pub fn decides(&self, producer: ProducerId, offset: Offset) -> Option<&Marker> {
        let there = &self.of.get(&producer)?.there;
        there.get(there.partition_point(|marker| marker.offset <= offset))
    }

    /// All that ever decided on a record that was written then, in no order.
    pub fn ever_decided(&self, producer: ProducerId, at: Moment, offset: Offset) -> Vec<Marker> {
        let Some(of) = self.of.get(&producer) else { return Vec::new() };
        let all = of.there.iter().chain(&of.gone);
        let behind: Vec<Marker> =
            all.filter(|marker| marker.at > at && marker.offset > offset).copied().collect();
        let first = behind.iter().map(|marker| marker.offset).min();
        behind.into_iter().filter(|marker| Some(marker.offset) == first).collect()
    }

    /// Somebody leads: `has` says whether its log has what was written in an epoch at an offset, `None` where it cannot tell.
    pub fn review(&mut self, gone: Gone, has: impl Fn(LeaderEpoch, Offset) -> Option<bool>) {
        for of in self.of.values_mut() {
            let all = of.there.drain(..).chain(of.gone.drain(..));
            let all: Vec<Marker> = all.collect();
            for mut marker in all {
                match has(marker.epoch, marker.offset) {
                    Some(true) => marker.gone = None,
                    Some(false) => marker.gone = marker.gone.or(Some(gone)),
                    None => {}
                }
                of.insert(marker);
            }
        }
    }

    /// Those from this offset on that were written in this epoch are written over; whether there are any.
    pub fn overwritten(&mut self, epoch: LeaderEpoch, from: Offset) -> bool {
        if self.end <= from {
            return false;
        }
        let stays = |marker: &Marker| marker.epoch != epoch || marker.offset < from;
        let mut is_any = false;
        for of in self.of.values_mut() {
            is_any |= !of.there.iter().chain(&of.gone).all(stays);
            of.there.retain(stays);
            of.gone.retain(stays);
        }
        is_any
    }

    /// The last disk that had them loses those from this offset on that `is_left` does not find elsewhere.
    pub fn disk_lost(&mut self, from: Offset, gone: Gone, is_left: impl Fn(LeaderEpoch, Offset) -> bool) {
        for of in self.of.values_mut() {
            let is_lost =
                |marker: &mut Marker| marker.offset >= from && !is_left(marker.epoch, marker.offset);
            let lost = of.there.extract_if(.., is_lost);
            of.gone.extend(lost.map(|marker| Marker { gone: Some(gone), ..marker }));
        }
    }

    /// Records below `first` are not kept any more, and what decides on nothing else goes.
    pub fn forget_below(&mut self, producer: ProducerId, first: Offset) {
        let Some(of) = self.of.get_mut(&producer) else { return };
        of.forget_below(first);
        if of.is_empty() {
            self.of.remove(&producer);
        }
    }

    /// The same for all producers.
    pub fn forget_all_below(&mut self, first: Offset) {
        self.of.retain(|_, of| {
            of.forget_below(first);
            !of.is_empty()
        });
    }

    pub fn producers(&self) -> usize {
        self.of.len()
    }
}
