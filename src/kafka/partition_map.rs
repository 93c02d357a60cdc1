//! A map of partitions that is quick at any number of them and cheap to copy.
//!
//! Partition numbers count up from 0, so a partition is found by its number rather than by comparing names; copies share
//! everything but the chunks that are written to afterwards.
//!
//! **Invariant:** topics are in their order, chunks in that of their numbers, and none is empty.

use std::fmt::Debug;
use std::ops::Index;
use std::rc::Rc;

use super::types::{Topic, TopicId, TopicPartition};

/// One partition: a topic, and a number within it. The order is that of the topics, then of the numbers.
pub trait PartitionKey: Clone + Ord + Debug {
    type Topic: Clone + Ord + Debug;

    fn topic(&self) -> &Self::Topic;
    fn number(&self) -> i32;
}

impl PartitionKey for TopicPartition {
    type Topic = Topic;

    fn topic(&self) -> &Topic {
        &self.topic
    }

    fn number(&self) -> i32 {
        self.partition
    }
}

impl PartitionKey for (TopicId, i32) {
    type Topic = TopicId;

    fn topic(&self) -> &TopicId {
        &self.0
    }

    fn number(&self) -> i32 {
        self.1
    }
}

const CHUNK: i32 = 16;

type Slot<K, V> = Option<(K, V)>;

/// Partitions with consecutive numbers.
type Chunk<K, V> = [Slot<K, V>; CHUNK as usize];

/// The partitions of one topic: chunks by the number of their first partition divided by `CHUNK`.
type Chunks<K, V> = Vec<(i32, Rc<Chunk<K, V>>)>;

#[derive(Clone, Debug)]
pub struct PartitionMap<K: PartitionKey, V> {
    topics: Vec<(K::Topic, Chunks<K, V>)>,
    len: usize,
}

impl<K: PartitionKey, V> Default for PartitionMap<K, V> {
    fn default() -> Self {
        PartitionMap { topics: Vec::new(), len: 0 }
    }
}

/// Where the chunk of this number is, or belongs. Mostly its number is its place.
fn place<K, V>(chunks: &Chunks<K, V>, number: i32) -> Result<usize, usize> {
    match chunks.get(number as usize) {
        Some((found, _)) if *found == number => Ok(number as usize),
        _ => chunks.binary_search_by_key(&number, |(found, _)| *found),
    }
}

fn split(number: i32) -> (i32, usize) {
    (number.div_euclid(CHUNK), number.rem_euclid(CHUNK) as usize)
}

impl<K: PartitionKey, V> PartitionMap<K, V> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a topic is, or belongs.
    fn find(&self, topic: &K::Topic) -> Result<usize, usize> {
        self.topics.binary_search_by(|(known, _)| known.cmp(topic))
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let chunks = &self.topics[self.find(key.topic()).ok()?].1;
        let (number, slot) = split(key.number());
        let chunk = &chunks[place(chunks, number).ok()?].1;
        chunk[slot].as_ref().map(|(_, value)| value)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.topics.iter().flat_map(|(_, chunks)| of_chunks(chunks))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The partitions of one topic, by number.
    pub fn of_topic(&self, topic: &K::Topic) -> impl Iterator<Item = (&K, &V)> {
        let chunks = self.find(topic).ok().map(|index| &self.topics[index].1);
        chunks.into_iter().flat_map(of_chunks)
    }

    pub fn topics(&self) -> impl Iterator<Item = &K::Topic> {
        self.topics.iter().map(|(topic, _)| topic)
    }

    pub fn retain_topics(&mut self, mut keep: impl FnMut(&K::Topic) -> bool) {
        self.topics.retain(|(topic, _)| keep(topic));
        self.len = self.iter().count();
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<K: PartitionKey, V> Index<&K> for PartitionMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("a partition that is there")
    }
}

fn of_chunks<K, V>(chunks: &Chunks<K, V>) -> impl Iterator<Item = (&K, &V)> {
    let slots = chunks.iter().flat_map(|(_, chunk)| chunk.iter());
    slots.filter_map(|slot| slot.as_ref().map(|(key, value)| (key, value)))
}

impl<K: PartitionKey, V: Clone> PartitionMap<K, V> {
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let topic = self.find(key.topic()).ok()?;
        let chunks = &mut self.topics[topic].1;
        let (number, slot) = split(key.number());
        let place = place(chunks, number).ok()?;
        let chunk = &mut chunks[place].1;
        // What is not there must not cost a copy.
        chunk[slot].as_ref()?;
        Rc::make_mut(chunk)[slot].as_mut().map(|(_, value)| value)
    }

    /// The value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let topic = self.find(key.topic()).unwrap_or_else(|place| {
            self.topics.insert(place, (key.topic().clone(), Vec::new()));
            place
        });
        let chunks = &mut self.topics[topic].1;
        let (number, slot) = split(key.number());
        let place = place(chunks, number).unwrap_or_else(|place| {
            chunks.insert(place, (number, Rc::new([const { None }; CHUNK as usize])));
            place
        });
        let chunk = Rc::make_mut(&mut chunks[place].1);
        let before = chunk[slot].replace((key, value));
        if before.is_none() {
            self.len += 1;
        }
        before.map(|(_, value)| value)
    }

    /// The value of a partition, made by `make` if there is none.
    pub fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if !self.contains_key(key) {
            self.insert(key.clone(), make());
        }
        self.get_mut(key).expect("inserted above")
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let topic = self.find(key.topic()).ok()?;
        let chunks = &mut self.topics[topic].1;
        let (number, slot) = split(key.number());
        let place = place(chunks, number).ok()?;
        chunks[place].1[slot].as_ref()?;
        let chunk = Rc::make_mut(&mut chunks[place].1);
        let (_, value) = chunk[slot].take()?;
        if chunk.iter().all(Option::is_none) {
            chunks.remove(place);
        }
        if chunks.is_empty() {
            self.topics.remove(topic);
        }
        self.len -= 1;
        Some(value)
    }

    /// Writes to every chunk.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let chunks = self.topics.iter_mut().flat_map(|(_, chunks)| chunks);
        let slots = chunks.flat_map(|(_, chunk)| Rc::make_mut(chunk));
        slots.filter_map(|slot| slot.as_mut().map(|(key, value)| (&*key, value)))
    }
}

impl<K: PartitionKey, V: Clone> FromIterator<(K, V)> for PartitionMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(TopicPartition, u32),
        Remove(TopicPartition),
        Write(TopicPartition),
        WriteAll,
        DropTopic(Topic),
    }

    fn partition() -> impl Strategy<Value = TopicPartition> {
        let number = prop_oneof![0..40, Just(i32::MAX), Just(-1), Just(1_000_000)];
        ("[ab]", number).prop_map(|(topic, number)| TopicPartition::new(&topic.as_str().into(), number))
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (partition(), 0u32..9).prop_map(|(tp, value)| Change::Insert(tp, value)),
            2 => partition().prop_map(Change::Remove),
            2 => partition().prop_map(Change::Write),
            1 => Just(Change::WriteAll),
            1 => "[ab]".prop_map(|topic| Change::DropTopic(topic.as_str().into())),
        ]
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map_and_a_copy_keeps_what_it_had(changes in prop::collection::vec(change(), 0..120)) {
            let (mut map, mut model) = (PartitionMap::new(), BTreeMap::new());
            let mut copies = Vec::new();
            for change in changes {
                match change {
                    Change::Insert(tp, value) => {
                        prop_assert_eq!(map.insert(tp.clone(), value), model.insert(tp, value));
                    }
                    Change::Remove(tp) => prop_assert_eq!(map.remove(&tp), model.remove(&tp)),
                    Change::Write(tp) => {
                        let (written, expected) = (map.get_mut(&tp), model.get_mut(&tp));
                        prop_assert_eq!(&written, &expected);
                        written.into_iter().chain(expected).for_each(|value| *value += 1);
                    }
                    Change::WriteAll => {
                        map.iter_mut().for_each(|(_, value)| *value += 1);
                        model.values_mut().for_each(|value| *value += 1);
                    }
                    Change::DropTopic(topic) => {
                        map.retain_topics(|it| *it != topic);
                        model.retain(|tp: &TopicPartition, _| tp.topic != topic);
                    }
                }
                copies.push((map.clone(), model.clone()));
            }
            for (map, model) in copies {
                prop_assert!(map.iter().eq(model.iter()));
                prop_assert_eq!(map.len(), model.len());
                let of_a = model.keys().filter(|tp| tp.topic == "a".into()).count();
                prop_assert_eq!(map.of_topic(&"a".into()).count(), of_a);
                prop_assert_eq!(map.topics().count(), usize::from(of_a > 0) + usize::from(of_a < model.len()));
            }
        }
    }
}
