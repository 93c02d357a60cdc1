//! The share partitions that a broker leads, the sessions of their readers, and who waits for records
//! (`SharePartitionManager`, R-SHARE-3, 14).
//!
//! It does not persist: it pushes [`Persist`]s, which the broker carries to the share coordinators, and hears of them by
//! [`SharePartitionManager::on_read`] and [`SharePartitionManager::on_written`].
//!
//! **Invariant:** each request is answered once; a share partition is here only while its broker leads the partition.

mod ground;
mod answer;
mod acknowledge;
mod fetch;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use answer::Pending;
use fetch::Parked;
use tell::Back;

use super::key::ShareKey;
use super::partition::{SharePartition, StateWrite, client_error};
use super::sessions::{ShareSessions, TopicIdPartition};
use super::state::{StateBatch, WriteId};
use crate::kafka::effects::{Effects, Incoming, RequestId};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{GroupId, LeaderEpoch, MemberId, Offset, TopicId, TopicPartition};

pub use ground::Ground;

/// Tells a share partition from those that were here before under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(u64);

/// What a share coordinator is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persist {
    Read { key: ShareKey, instance: Instance, leader_epoch: LeaderEpoch },
    Write { key: ShareKey, instance: Instance, write: StateWrite },
}

/// A state as it was persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persisted {
    pub state_epoch: i32,
    /// Nothing as long as no leader has begun.
    pub start_offset: Option<Offset>,
    pub batches: Vec<StateBatch>,
}

/// What the manager waits for by the clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareFetchTimer {
    /// A fetch has waited as long as it may.
    Deadline(u64),
    /// A lock may end.
    Lock(ShareKey, Instance),
    /// A fetch for whose session there is no room has waited as long as others.
    Idle(RequestId),
}

#[derive(Debug, Default)]
pub struct ManagerEffects {
    pub effects: Effects<ShareFetchTimer>,
    pub persist: Vec<Persist>,
}

/// A share partition, or one that is being read back.
#[derive(Clone, Debug)]
struct Slot {
    tp: TopicPartition,
    instance: Instance,
    leader_epoch: LeaderEpoch,
    partition: Option<SharePartition>,
    /// The fetch that brought it here.
    opened_by: u64,
    /// For when the timer is set.
    lock_timer: Option<Time>,
}

impl Slot {
    /// SPSO, once the state is read back.
    fn start_offset(&self) -> Option<Offset> {
        self.partition.as_ref().map(SharePartition::start_offset)
    }

    /// Sees to it that the timer runs out when the next lock ends.
    fn arm(&mut self, key: &ShareKey, fx: &mut ManagerEffects) {
        let next = self.partition.as_ref().and_then(SharePartition::next_lock_end);
        if let Some(next) = next.filter(|next| self.lock_timer.is_none_or(|set| *next < set)) {
            self.lock_timer = Some(next);
            fx.effects.set_timer(ShareFetchTimer::Lock(key.clone(), self.instance), next);
        }
    }
}

#[derive(Clone, Debug)]
pub struct SharePartitionManager {
    random: Random,
    sessions: ShareSessions,
    slots: BTreeMap<ShareKey, Rc<Slot>>,
    instances: u64,
    /// Those that were here, as long as locks of theirs run.
    fenced: BTreeMap<Instance, Rc<Slot>>,
    parked: BTreeMap<u64, Rc<Parked>>,
    fetches: u64,
    pending: BTreeMap<RequestId, Pending>,
    /// Who waits for a write.
    writers: BTreeMap<(ShareKey, Instance, WriteId), RequestId>,
}

impl SharePartitionManager {
    pub fn new(random: Random) -> SharePartitionManager {
        SharePartitionManager {
            random,
            sessions: ShareSessions::default(),
            slots: BTreeMap::new(),
            instances: 0,
            fenced: BTreeMap::new(),
            parked: BTreeMap::new(),
            fetches: 0,
            pending: BTreeMap::new(),
            writers: BTreeMap::new(),
        }
    }

    pub fn sessions(&self) -> &ShareSessions {
        &self.sessions
    }

    /// Whether somebody waits for records.
    pub fn is_waited_for(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The share partitions here that have been read back.
    pub fn partitions(&self) -> impl Iterator<Item = (&ShareKey, &SharePartition)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.partition.as_ref()?)))
    }

    /// A state was read, or could not be: the share partition begins, or is given up.
    pub fn on_read(
        &mut self,
        key: &ShareKey,
        instance: Instance,
        result: Result<Persisted, ErrorCode>,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let Some(slot) = self.slots.get_mut(key).filter(|slot| slot.instance == instance) else { return };
        let slot = Rc::make_mut(slot);
        let begun = result.map_err(client_error).and_then(|state| {
            let start = match state.start_offset {
                Some(start) => start,
                None => ground.first_offset(&key.group, &slot.tp, slot.leader_epoch)?,
            };
            let partition = SharePartition::new(slot.leader_epoch, state.state_epoch, start, &state.batches);
            partition.map_err(|_| ErrorCode::UnknownServerError)
        });
        match begun {
            Ok(partition) => {
                fx.tell_begun(key, slot, &partition, ground);
                slot.partition = Some(partition);
            }
            Err(error) => {
                let opened_by = slot.opened_by;
                self.slots.remove(key);
                if let Some(parked) = self.parked.get_mut(&opened_by) {
                    Rc::make_mut(parked).errors.insert((key.topic_id, key.partition), error);
                }
            }
        }
        self.wake(key, ground, fx);
    }

    /// A state was written, or could not be.
    pub fn on_written(
        &mut self,
        key: &ShareKey,
        (instance, id): (Instance, WriteId),
        result: Result<(), ErrorCode>,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let result = result.map_err(client_error);
        let slot = self.slots.get_mut(key).filter(|slot| slot.instance == instance);
        let has_moved = slot.map(Rc::make_mut).is_some_and(|slot| {
            let start = slot.start_offset();
            let partition = slot.partition.as_mut();
            let has_moved = partition.is_some_and(|partition| partition.written(id, result.is_ok()));
            fx.tell_start(key, slot, start, ground);
            has_moved
        });
        if let Some(request) = self.writers.remove(&(key.clone(), instance, id)) {
            self.acknowledged(request, (key.topic_id, key.partition), result.err(), ground, fx);
        }
        if result.is_err_and(is_fencing) && self.slots.get(key).is_some_and(|slot| slot.instance == instance)
        {
            self.fence(key);
        }
        if has_moved {
            self.wake(key, ground, fx);
        }
    }

    pub fn on_timer(&mut self, timer: &ShareFetchTimer, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        match timer {
            ShareFetchTimer::Deadline(fetch) => self.end_fetch(*fetch, ground, fx),
            ShareFetchTimer::Lock(key, instance) => self.end_locks(key, *instance, ground, fx),
            ShareFetchTimer::Idle(id) => {
                fx.effects.respond(*id, fetch::refusal(ErrorCode::ShareSessionLimitReached));
            }
        }
    }

    fn end_locks(
        &mut self,
        key: &ShareKey,
        instance: Instance,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let settings = ground.settings(&key.group);
        let fenced = self.fenced.contains_key(&instance);
        let here = self.slots.get_mut(key).filter(|slot| slot.instance == instance);
        let Some(slot) = here.or(self.fenced.get_mut(&instance)).map(Rc::make_mut) else { return };
        slot.lock_timer = None;
        if plant::is(Plant::ShareLockNeverEnds) {
            return;
        }
        let Some(partition) = &mut slot.partition else { return };
        let writes = partition.end_locks(ground.now, &settings);
        let has_ended = !writes.is_empty();
        fx.tell_released(key, slot, Back::ByLocks { fenced }, &writes, ground);
        fx.persist.extend(writes.into_iter().map(|write| Persist::Write {
            key: key.clone(),
            instance,
            write,
        }));
        slot.arm(key, fx);
        if self.fenced.get(&instance).is_some_and(|slot| slot.lock_timer.is_none()) {
            self.fenced.remove(&instance);
        }
        if has_ended {
            self.wake(key, ground, fx);
        }
    }

    /// The high watermark of a partition has moved: there may be something for those who wait.
    pub fn on_high_watermark(&mut self, tp: &TopicPartition, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let Some(topic_id) = ground.image.topic(&tp.topic).map(|topic| topic.id) else { return };
        self.wake_all(|tip, _| *tip == (topic_id, tp.partition), ground, fx);
    }

    /// The broker does not lead a partition any more: whoever leads it reads the states back (R-SHARE-14).
    pub fn on_resigned(&mut self, tp: &TopicPartition) {
        let of_partition = self.slots.iter().filter(|(_, slot)| slot.tp == *tp);
        for key in of_partition.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.fence(&key);
        }
    }

    /// The cluster has no share groups any more: sessions end, and share partitions are given up (`onShareVersionToggle`).
    pub fn on_switched_off(&mut self) {
        self.sessions = ShareSessions::default();
        for key in self.slots.keys().cloned().collect::<Vec<_>>() {
            self.fence(&key);
        }
    }

    /// A connection is closed: its session ends. With the last session of a group its share partitions go too; they are
    /// read back when somebody asks again (`ClientConnectionDisconnectListener`).
    pub fn on_disconnected(&mut self, incoming: Incoming, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let Some(((group, member), was_open)) = self.sessions.disconnected(incoming) else { return };
        if was_open {
            self.on_member_gone(&group, &member, ground, fx);
        }
        if !self.sessions.has_any(&group) {
            let of_group = self.slots.keys().filter(|key| key.group == group).cloned();
            of_group.collect::<Vec<_>>().iter().for_each(|key| self.fence(key));
        }
    }

    /// A member's session ends: what it held is given back.
    fn on_member_gone(
        &mut self,
        group: &GroupId,
        member: &MemberId,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let settings = ground.settings(group);
        for (topic_id, partition) in self.sessions.remove(&(group.clone(), member.clone())) {
            let key = ShareKey { group: group.clone(), topic_id, partition };
            let Some(slot) = self.slots.get_mut(&key).map(Rc::make_mut) else { continue };
            let instance = slot.instance;
            let write =
                slot.partition.as_mut().and_then(|partition| partition.release_member(member, &settings));
            fx.tell_released(&key, slot, Back::Of(member), &write, ground);
            fx.persist.extend(write.map(|write| Persist::Write { key: key.clone(), instance, write }));
            self.wake(&key, ground, fx);
        }
    }

    /// The share partition of a key; its state is read back if it was not here (`getOrCreateSharePartition`).
    fn open(
        &mut self,
        key: &ShareKey,
        tp: &TopicPartition,
        opened_by: u64,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) -> Result<(), ErrorCode> {
        if self.slots.contains_key(key) {
            return Ok(());
        }
        let leader_epoch = ground.led(tp)?.leader_epoch;
        self.instances += 1;
        let instance = Instance(self.instances);
        let (tp, partition, lock_timer) = (tp.clone(), None, None);
        let slot = Slot { tp, instance, leader_epoch, partition, opened_by, lock_timer };
        self.slots.insert(key.clone(), Rc::new(slot));
        fx.persist.push(Persist::Read { key: key.clone(), instance, leader_epoch });
        Ok(())
    }

    /// Nobody reads it here any more (`markFenced`). Its locks still end, and that is persisted unless another leader has
    /// read the state before: so what was held when the leader changed comes back with its delivery count (vector 14).
    fn fence(&mut self, key: &ShareKey) {
        if let Some(slot) = self.slots.remove(key).filter(|slot| slot.lock_timer.is_some()) {
            self.fenced.insert(slot.instance, slot);
        }
    }

    /// Whoever waits for this share partition looks again.
    fn wake(&mut self, key: &ShareKey, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let tip = (key.topic_id, key.partition);
        self.wake_all(|other, group| *other == tip && *group == key.group, ground, fx);
    }

    fn wake_all(
        &mut self,
        is_meant: impl Fn(&TopicIdPartition, &GroupId) -> bool,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let waits = |parked: &Parked| parked.partitions.iter().any(|tip| is_meant(tip, &parked.group));
        let woken: BTreeSet<u64> =
            self.parked.iter().filter(|(_, parked)| waits(parked)).map(|(fetch, _)| *fetch).collect();
        woken.into_iter().for_each(|fetch| self.try_fetch(fetch, ground, fx));
    }
}

/// Whether whoever leads by now is to be asked instead (`fencedSharePartitionHandler`).
fn is_fencing(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::FencedStateEpoch
            | ErrorCode::GroupIdNotFound
            | ErrorCode::UnknownTopicOrPartition
    )
}

/// The topic and partition of an answer's parts, in the order of Kafka's request.
fn by_topic<P>(parts: impl Iterator<Item = (TopicIdPartition, P)>) -> Vec<(TopicId, Vec<P>)> {
    let mut topics: Vec<(TopicId, Vec<P>)> = Vec::new();
    for ((topic_id, _), part) in parts {
        match topics.iter_mut().find(|(known, _)| *known == topic_id) {
            Some((_, parts)) => parts.push(part),
            None => topics.push((topic_id, vec![part])),
        }
    }
    topics
}
