//! Which partitions are in some member's target: the targets of a group the other way round.
//!
//! **Invariant:** topics rise by id, and none is without a taken partition.

use std::rc::Rc;

use super::Assigned;
use crate::kafka::types::TopicId;

/// Kept by a group from change to change, so that nobody has to walk all targets. A clone shares what does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// A bit a partition.
    topics: Vec<(TopicId, Rc<Vec<u64>>)>,
}

impl Taken {
    /// Of the targets of all members.
    pub fn of<'a>(targets: impl IntoIterator<Item = &'a Assigned>) -> Taken {
        let mut taken = Taken::default();
        targets.into_iter().for_each(|target| taken.add(target));
        taken
    }

    /// A member's target changes. Where several change, all old ones go before the first new one comes.
    pub fn add(&mut self, target: &Assigned) {
        for (topic, partitions) in target.iter() {
            let place =
                self.topics.binary_search_by(|(known, _)| known.cmp(&topic)).unwrap_or_else(|place| {
                    self.topics.insert(place, (topic, Rc::default()));
                    place
                });
            let bits = Rc::make_mut(&mut self.topics[place].1);
            for partition in partitions {
                let (word, bit) = place_of(*partition);
                if word >= bits.len() {
                    bits.resize(word + 1, 0);
                }
                bits[word] |= bit;
            }
        }
    }

    /// A member's target is given up.
    pub fn remove(&mut self, target: &Assigned) {
        for (topic, partitions) in target.iter() {
            let Ok(place) = self.topics.binary_search_by(|(known, _)| known.cmp(&topic)) else { continue };
            let bits = Rc::make_mut(&mut self.topics[place].1);
            for partition in partitions {
                let (word, bit) = place_of(*partition);
                bits.get_mut(word).into_iter().for_each(|bits| *bits &= !bit);
            }
            if bits.iter().all(|word| *word == 0) {
                self.topics.remove(place);
            }
        }
    }

    /// The bits of each of these topics, quickest if they rise.
    pub(super) fn of_topics(&self, topics: &[(TopicId, i32)]) -> impl Iterator<Item = Bits<'_>> {
        let mut guess = 0;
        topics.iter().map(move |(topic, _)| {
            let place = match self.topics.get(guess) {
                Some((known, _)) if known == topic => Some(guess),
                _ => self.topics.binary_search_by(|(known, _)| known.cmp(topic)).ok(),
            };
            guess = place.map_or(guess, |place| place + 1);
            Bits(place.map_or(&[], |place| &self.topics[place].1))
        })
    }
}

/// The word of a partition's bit, and the bit in it.
fn place_of(partition: i32) -> (usize, u64) {
    (partition as usize / 64, 1 << (partition as u32 % 64))
}

/// The taken partitions of one topic.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a>(&'a [u64]);

impl Bits<'_> {
    /// The partitions below `count` that are not taken, rising.
    pub(super) fn free(self, count: i32) -> impl Iterator<Item = i32> {
        let count = count.max(0) as u32;
        (0..count.div_ceil(64)).flat_map(move |word| {
            let taken = self.0.get(word as usize).copied().unwrap_or(0);
            let end = (count - word * 64).min(64);
            let mut free = !taken & (u64::MAX >> (64 - end));
            std::iter::from_fn(move || {
                let bit = free.trailing_zeros();
                free &= free.wrapping_sub(1);
                (bit < 64).then(|| (word * 64 + bit) as i32)
            })
        })
    }
}
