//! The fetch sessions of one broker: who gets a slot, and whose is taken (`FetchSessionCacheShard`).
//!
//! The slots are split over shards that take new sessions in turn; each shard gives ids of its own range and evicts only
//! its own sessions.
//!
//! **Invariant:** a shard holds no more sessions than its slots; one that lost its slot is kept only while a request of it
//! waits for its answer.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::session::{FetchSession, SessionId};
use crate::kafka::random::Random;
use crate::kafka::time::Time;

/// NumFetchSessionCacheShards.
const SHARDS: i32 = 8;
const SESSION_ID_RANGE: i32 = i32::MAX / SHARDS;
/// MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
const EVICTION_MS: i64 = 120_000;

/// A session and its claim to its slot.
#[derive(Clone, Debug)]
struct Slot {
    session: Rc<FetchSession>,
    privileged: bool,
    created_at: Time,
    last_used_at: Time,
    /// Partitions when it was last used.
    size: i32,
    /// Old enough, when it was last used, to be pushed out by a session of more partitions.
    evictable: bool,
    /// Nobody finds it any more; only its own answer is due.
    evicted: bool,
}

#[derive(Clone, Debug)]
pub struct FetchSessionCache {
    slots_per_shard: i32,
    random: Random,
    slots: BTreeMap<SessionId, Slot>,
    next_shard: i32,
}

impl FetchSessionCache {
    /// `slots`: max.incremental.fetch.session.cache.slots.
    pub fn new(slots: i32, random: Random) -> FetchSessionCache {
        FetchSessionCache { slots_per_shard: slots / SHARDS, random, slots: BTreeMap::new(), next_shard: 0 }
    }

    /// The session that a request names.
    pub fn find(&self, id: i32) -> Option<&FetchSession> {
        let slot = self.slots.get(&SessionId(id)).filter(|slot| !slot.evicted)?;
        Some(&slot.session)
    }

    /// A session, be it only for its own answer.
    pub fn get(&self, id: SessionId) -> Option<&FetchSession> {
        self.slots.get(&id).map(|slot| &*slot.session)
    }

    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut FetchSession> {
        self.slots.get_mut(&id).map(|slot| Rc::make_mut(&mut slot.session))
    }

    /// All sessions that have a slot, by id.
    pub fn iter(&self) -> impl Iterator<Item = &FetchSession> {
        self.slots.values().filter(|slot| !slot.evicted).map(|slot| &*slot.session)
    }

    pub fn ids(&self) -> Vec<SessionId> {
        self.slots.keys().copied().collect()
    }

    /// An id for a session of `size` partitions, if there is a slot for it or one that it may take. The caller inserts it,
    /// and puts away the session that had to go.
    pub fn claim(
        &mut self,
        now: Time,
        privileged: bool,
        size: i32,
    ) -> Option<(SessionId, Option<SessionId>)> {
        let shard = self.next_shard;
        self.next_shard = (shard + 1) % SHARDS;
        let held = self.in_shard(shard).count() as i32;
        let evicted = match held < self.slots_per_shard {
            true => None,
            false => Some(self.evictable(shard, now, privileged, size)?),
        };
        Some((self.new_id(shard), evicted))
    }

    fn in_shard(&self, shard: i32) -> impl Iterator<Item = (SessionId, &Slot)> {
        let ids = SessionId(shard * SESSION_ID_RANGE)..SessionId((shard + 1) * SESSION_ID_RANGE);
        self.slots.range(ids).filter(|(_, slot)| !slot.evicted).map(|(id, slot)| (*id, slot))
    }

    /// Who has to go: one that was not used for long, else one that is worth less than the new one, and that is not
    /// privileged or not young.
    fn evictable(&self, shard: i32, now: Time, privileged: bool, size: i32) -> Option<SessionId> {
        let stalest = self.in_shard(shard).min_by_key(|(id, slot)| (slot.last_used_at, *id))?;
        if now.ms_since(stalest.1.last_used_at) > EVICTION_MS {
            return Some(stalest.0);
        }
        let open = |slot: &Slot| slot.evictable || (privileged && !slot.privileged);
        let worth = |(id, slot): &(SessionId, &Slot)| (slot.privileged, slot.size, *id);
        let least = self.in_shard(shard).filter(|(_, slot)| open(slot)).min_by_key(worth)?;
        ((privileged, size, SessionId(0)) >= worth(&least)).then_some(least.0)
    }

    fn new_id(&mut self, shard: i32) -> SessionId {
        let first = (shard * SESSION_ID_RANGE).max(1);
        let last = (shard + 1) * SESSION_ID_RANGE - 1;
        loop {
            let id = SessionId(self.random.between(first.into(), last.into()) as i32);
            if !self.slots.contains_key(&id) {
                return id;
            }
        }
    }

    pub fn insert(&mut self, now: Time, session: FetchSession) {
        let slot = Slot {
            privileged: session.follower.is_some(),
            created_at: now,
            last_used_at: now,
            size: session.len(),
            evictable: false,
            evicted: false,
            session: Rc::new(session),
        };
        self.slots.insert(slot.session.id, slot);
    }

    /// The session is in use.
    pub fn touch(&mut self, now: Time, id: SessionId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.last_used_at = now;
            slot.size = slot.session.len();
            slot.evictable = now.ms_since(slot.created_at) > EVICTION_MS;
        }
    }

    /// Takes the session's slot. Whether it is gone altogether, as nothing waits for its answer.
    pub fn evict(&mut self, id: SessionId) -> bool {
        let Some(slot) = self.slots.get_mut(&id) else { return false };
        slot.evicted = true;
        slot.session.parked.is_empty()
    }

    /// Whether the session has lost its slot and waits for no answer any more.
    pub fn is_over(&self, id: SessionId) -> bool {
        self.slots.get(&id).is_some_and(|slot| slot.evicted && slot.session.parked.is_empty())
    }

    pub fn remove(&mut self, id: SessionId) {
        self.slots.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::fetch_session::Wanted;
    use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId};

    const FOLLOWER: bool = true;
    const CONSUMER: bool = false;

    /// One slot in each shard.
    fn cache() -> FetchSessionCache {
        FetchSessionCache::new(SHARDS, Random::stream(1, "sessions"))
    }

    fn open(cache: &mut FetchSessionCache, at_ms: i64, privileged: bool, size: i32) -> Option<SessionId> {
        let now = Time::from_ms(at_ms);
        let (id, evicted) = cache.claim(now, privileged, size)?;
        if let Some(evicted) = evicted
            && cache.evict(evicted)
        {
            cache.remove(evicted);
        }
        let follower = privileged.then_some((BrokerId(2), BrokerEpoch(2)));
        let mut session = FetchSession::new(id, follower, now);
        for partition in 0..size {
            let wanted = Wanted {
                fetch_offset: Offset::ZERO,
                log_start_offset: Offset::ZERO,
                max_bytes: 1,
                current_leader_epoch: LeaderEpoch::NONE,
                last_fetched_epoch: LeaderEpoch::NONE,
            };
            session.want((TopicId::default(), partition), None, wanted);
        }
        cache.insert(now, session);
        Some(id)
    }

    /// Whether a newcomer of `new` gets the slot of a session of `old` that was created at 0 and last used at `used_ms`.
    fn check(title: &str, old: (bool, i32), used_ms: i64, new: (bool, i32), at_ms: i64, expected: bool) {
        let mut cache = cache();
        let first = open(&mut cache, 0, old.0, old.1).expect("a free slot");
        cache.touch(Time::from_ms(used_ms), first);
        for _ in 1..SHARDS {
            open(&mut cache, at_ms, FOLLOWER, 1_000).expect("a free slot in the other shards");
        }
        let opened = open(&mut cache, at_ms, new.0, new.1);
        assert_eq!(opened.is_some(), expected, "{title}");
        assert_eq!(cache.find(first.0).is_none(), expected, "{title}: its slot");
    }

    #[test]
    fn a_slot_is_taken_from_one_that_is_stale_unprivileged_or_small() {
        check("one that was used is kept", (CONSUMER, 5), 0, (CONSUMER, 5), 120_000, false);
        check("one that was not for 120 s is stale", (CONSUMER, 5), 0, (CONSUMER, 1), 120_001, true);
        check("followers too", (FOLLOWER, 5), 0, (CONSUMER, 1), 120_001, true);
        check("a follower pushes a young consumer out", (CONSUMER, 5), 0, (FOLLOWER, 1), 1, true);
        check("but no young follower", (FOLLOWER, 5), 0, (FOLLOWER, 9), 1, false);
        check("an old one it does", (FOLLOWER, 5), 120_001, (FOLLOWER, 6), 120_002, true);
        check("unless that is larger", (FOLLOWER, 5), 120_001, (FOLLOWER, 4), 120_002, false);
        check("consumers push out old ones of theirs", (CONSUMER, 5), 120_001, (CONSUMER, 6), 120_002, true);
        check("that are not larger", (CONSUMER, 5), 120_001, (CONSUMER, 4), 120_002, false);
        check("never a follower", (FOLLOWER, 5), 120_001, (CONSUMER, 9), 120_002, false);
    }

    #[test]
    fn fewer_slots_than_shards_are_none() {
        let mut cache = FetchSessionCache::new(SHARDS - 1, Random::stream(1, "sessions"));
        assert_eq!(open(&mut cache, 0, FOLLOWER, 1), None);
    }

    #[test]
    fn an_evicted_session_is_kept_for_its_own_answer_only() {
        let mut cache = cache();
        let id = open(&mut cache, 0, CONSUMER, 1).expect("a free slot");
        let session = cache.get_mut(id).expect("just opened");
        session.parked.push(crate::kafka::replication::purgatory::OperationId(3));
        assert!(!cache.evict(id));
        assert!(cache.find(id.0).is_none() && cache.get(id).is_some() && !cache.is_over(id));
        cache.get_mut(id).expect("kept").parked.clear();
        assert!(cache.is_over(id));
    }
}
