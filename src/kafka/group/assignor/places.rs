//! Where a name stands in a list, found by its hash.
//!
//! The hash is fixed and nothing is ever walked in its order, so a run does not depend on it.
//!
//! **Invariant:** more slots than twice the keys, so every search ends at an empty one.

use crate::kafka::types::{Topic, TopicId};

/// What can be looked up.
pub(super) trait Key: Eq {
    fn bits(&self) -> u64;
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const EMPTY: u32 = u32::MAX;

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR)
}

impl Key for &Topic {
    fn bits(&self) -> u64 {
        let (words, rest) = self.as_str().as_bytes().as_chunks::<8>();
        let hash = words.iter().fold(rest.len() as u64, |hash, word| mix(hash, u64::from_be_bytes(*word)));
        mix(hash, rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }
}

impl Key for TopicId {
    fn bits(&self) -> u64 {
        let (high, low) = self.0.as_u64_pair();
        mix(mix(0, high), low)
    }
}

/// A list of different keys, with where each stands.
pub(super) struct Places<K> {
    keys: Vec<K>,
    slots: Vec<u32>,
}

impl<K: Key> Places<K> {
    pub(super) fn new(keys: Vec<K>) -> Places<K> {
        let slots = vec![EMPTY; (keys.len() * 2 + 1).next_power_of_two()];
        let mut places = Places { keys, slots };
        for place in 0..places.keys.len() {
            let slot = places.slot(&places.keys[place]);
            assert!(places.slots[slot] == EMPTY, "a key stands twice");
            places.slots[slot] = place as u32;
        }
        places
    }

    pub(super) fn find(&self, key: &K) -> Option<u32> {
        Some(self.slots[self.slot(key)]).filter(|place| *place != EMPTY)
    }

    /// The slot where the key is or would be.
    fn slot(&self, key: &K) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (key.bits() >> 32) as usize & mask;
        while self.slots[slot] != EMPTY && self.keys[self.slots[slot] as usize] != *key {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_where_it_stands_and_no_other_is() {
        let topics: Vec<Topic> = (0..1000).map(|i| Topic::new(&format!("topic-{i}"))).collect();
        let places = Places::new(topics.iter().collect());
        for (place, topic) in topics.iter().enumerate() {
            assert_eq!(places.find(&&Topic::new(topic.as_str())), Some(place as u32));
        }
        for other in ["", "topic-", "topic-1000", "topic-01", "\0\0\0\0\0\0\0\0"] {
            assert_eq!(places.find(&&Topic::new(other)), None, "{other:?}");
        }
        assert_eq!(Places::new(Vec::<&Topic>::new()).find(&&Topic::new("t")), None);
    }
}
