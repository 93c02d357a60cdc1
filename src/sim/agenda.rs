//! What is to be done and when.
//!
//! **Invariant:** the order holds each key once, with the slot of its entry; all other slots are free.

use std::collections::BTreeMap;

use super::trace::Key;
use super::world::Entry;

/// An entry with the step that scheduled it; `None` for what the run began with.
pub(super) type Planned = (Option<Key>, Entry);

/// Entries are large and keys small: putting one in order moves keys alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    order: BTreeMap<Key, u32>,
    slots: Vec<Option<Planned>>,
    free: Vec<u32>,
}

impl Agenda {
    pub fn insert(&mut self, key: Key, planned: Planned) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(planned);
                slot
            }
            None => {
                self.slots.push(Some(planned));
                self.slots.len() as u32 - 1
            }
        };
        let before = self.order.insert(key, slot);
        assert!(before.is_none(), "a key is given once");
    }

    pub fn remove(&mut self, key: &Key) -> Option<Planned> {
        let slot = self.order.remove(key)?;
        self.take(slot)
    }

    pub fn pop_first(&mut self) -> Option<(Key, Planned)> {
        let (key, slot) = self.order.pop_first()?;
        Some((key, self.take(slot)?))
    }

    fn take(&mut self, slot: u32) -> Option<Planned> {
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    pub fn first_key(&self) -> Option<Key> {
        self.order.first_key_value().map(|(key, _)| *key)
    }

    /// The next entry's key, and the step that scheduled it.
    pub fn first(&self) -> Option<(Key, Option<Key>)> {
        let (key, slot) = self.order.first_key_value()?;
        let (cause, _) = self.slots[*slot as usize].as_ref()?;
        Some((*key, *cause))
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.order.contains_key(key)
    }

    /// All entries, the next first.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.order.iter().filter_map(|(key, slot)| {
            let (_, entry) = self.slots[*slot as usize].as_ref()?;
            Some((key, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;
    use crate::kafka::types::BrokerId;

    fn key(sequence: u64) -> Key {
        Key { time: Time::from_ms(sequence as i64 % 3), sequence }
    }

    fn entry(incarnation: u32) -> Planned {
        (None, Entry::Start { node: BrokerId(1).into(), incarnation })
    }

    fn incarnations(agenda: &mut Agenda) -> Vec<u32> {
        let next = || match agenda.pop_first()? {
            (_, (_, Entry::Start { incarnation, .. })) => Some(incarnation),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn entries_come_in_the_order_of_their_keys_and_their_slots_are_used_again() {
        let mut agenda = Agenda::default();
        (0..6).for_each(|number| agenda.insert(key(number.into()), entry(number)));
        assert!(agenda.remove(&key(3)).is_some() && agenda.remove(&key(3)).is_none());
        assert!(agenda.contains(&key(4)) && !agenda.contains(&key(3)));
        agenda.insert(key(6), entry(6));
        assert_eq!((agenda.slots.len(), agenda.first_key()), (6, Some(key(0))));
        assert_eq!(agenda.first(), Some((key(0), None)));
        let mut copy = agenda.clone();
        assert_eq!(agenda.iter().map(|(key, _)| key.sequence).collect::<Vec<_>>(), [0, 6, 1, 4, 2, 5]);
        assert_eq!(incarnations(&mut agenda), [0, 6, 1, 4, 2, 5]);
        assert_eq!(incarnations(&mut copy), [0, 6, 1, 4, 2, 5]);
        assert_eq!((agenda.first_key(), agenda.free.len()), (None, 6));
    }
}
