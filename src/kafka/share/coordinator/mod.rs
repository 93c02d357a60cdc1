//! The share coordinator of one broker: it keeps, in `__share_group_state`, what share groups have done (R-SHARE-3).
//!
//! Mirrors `ShareCoordinatorService`. As the group coordinator it does not write: it pushes [`Append`]s, which the broker
//! carries out with acks=all before it hands in anything else, and hears of their fate by
//! [`ShareCoordinator::on_appended`], [`ShareCoordinator::on_append_failed`] and [`ShareCoordinator::on_high_watermark`].
//!
//! **Invariant:** what a leader was told to be persisted survives any failover that keeps the partition's committed
//! records; a leader of an older epoch persists nothing (R-SHARE-14).

mod combine;
mod state;
mod ask;
mod shard;
mod wire;

use std::collections::BTreeMap;
use std::rc::Rc;

use shard::{Outcome, Place};

use super::key::ShareKey;
use crate::kafka::config::ShareCoordinatorConfig;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::wire::WireError;
use crate::kafka::protocol::{ApiKey, ErrorCode};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset, TopicId};

pub use ask::{Answer, Ask, Summary, Written};
pub use combine::combine;
pub use shard::Shard;
pub use state::{Change, ShareRecord, ShareState, States, Tracked, Update};
pub use wire::{asks_of, response_of};

/// What the coordinator waits for by the clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareTimer {
    /// A write is not below the high watermark yet (`share.coordinator.write.timeout.ms`).
    Write { partition: i32, token: u64 },
}

/// Records to be written as one batch to a partition of `__share_group_state` that this broker leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub partition: i32,
    /// Names the append when the broker tells how it went.
    pub token: u64,
    pub records: Vec<CoordinatorRecord>,
}

/// All answers to one request, in the order of its asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub id: RequestId,
    pub api: ApiKey,
    pub answers: Vec<(ShareKey, Result<Answer, ErrorCode>)>,
}

/// The effects of one step. Appends are carried out after the effects, in order, within the same step of the broker.
#[derive(Debug, Default)]
pub struct ShareEffects {
    pub effects: Effects<ShareTimer>,
    pub appends: Vec<Append>,
    pub answered: Vec<Answered>,
}

/// The asks of one request, each with its answer once there is one.
#[derive(Clone, Debug)]
struct Asked {
    api: ApiKey,
    parts: Vec<(ShareKey, Option<Outcome>)>,
}

#[derive(Clone, Debug)]
pub struct ShareCoordinator {
    config: ShareCoordinatorConfig,
    shards: BTreeMap<i32, Rc<Shard>>,
    asked: BTreeMap<RequestId, Asked>,
}

/// What a shard works with.
struct Context<'a> {
    now: Time,
    partition: i32,
    config: ShareCoordinatorConfig,
    exists: &'a dyn Fn(&ShareKey) -> bool,
    asked: &'a mut BTreeMap<RequestId, Asked>,
    fx: &'a mut ShareEffects,
}

impl Context<'_> {
    /// One part of a request is answered; the request is when all of its parts are.
    fn answer(&mut self, place: Place, outcome: Outcome) {
        let Some(asked) = self.asked.get_mut(&place.id) else { return };
        let part = usize::try_from(place.index).ok().and_then(|index| asked.parts.get_mut(index));
        part.expect("it was asked").1 = Some(outcome);
        if asked.parts.iter().any(|(_, outcome)| outcome.is_none()) {
            return;
        }
        let Some(Asked { api, parts }) = self.asked.remove(&place.id) else { return };
        let answers = parts.into_iter().filter_map(|(key, outcome)| Some((key, outcome?))).collect();
        self.fx.answered.push(Answered { id: place.id, api, answers });
    }
}

impl ShareCoordinator {
    pub fn new(config: ShareCoordinatorConfig) -> ShareCoordinator {
        ShareCoordinator { config, shards: BTreeMap::new(), asked: BTreeMap::new() }
    }

    /// The partitions that are coordinated here.
    pub fn shards(&self) -> impl Iterator<Item = (i32, &Rc<Shard>)> {
        self.shards.iter().map(|(partition, shard)| (*partition, shard))
    }

    /// What is persisted of a share partition, if it is coordinated here.
    pub fn state(&self, key: &ShareKey) -> Option<&ShareState> {
        let shard = self.shards.get(&key.coordinator_partition(self.config.state_topic_num_partitions))?;
        shard.states().get(key).map(|tracked| &tracked.state)
    }

    /// Decides what a request of `api` asks. `exists` tells whether there is such a partition.
    pub fn ask(
        &mut self,
        now: Time,
        (id, api): (RequestId, ApiKey),
        asks: Vec<(ShareKey, Ask)>,
        exists: &dyn Fn(&ShareKey) -> bool,
        fx: &mut ShareEffects,
    ) {
        if asks.is_empty() {
            return fx.answered.push(Answered { id, api, answers: Vec::new() });
        }
        let parts = asks.iter().map(|(key, _)| (key.clone(), None)).collect();
        self.asked.insert(id, Asked { api, parts });
        let mut by_shard: BTreeMap<i32, Vec<_>> = BTreeMap::new();
        for ((key, ask), index) in asks.into_iter().zip(0..) {
            let partition = key.coordinator_partition(self.config.state_topic_num_partitions);
            by_shard.entry(partition).or_default().push((Place { id, index }, key, ask));
        }
        for (partition, asks) in by_shard {
            let shard = self.shards.get_mut(&partition);
            let asked = &mut self.asked;
            let cx = &mut Context { now, partition, config: self.config, exists, asked, fx };
            match shard {
                Some(shard) if !shard.is_loading => Rc::make_mut(shard).ask(asks, cx),
                shard => {
                    let is_here = shard.is_some();
                    let error = if is_here {
                        ErrorCode::CoordinatorLoadInProgress
                    } else {
                        ErrorCode::NotCoordinator
                    };
                    asks.into_iter().for_each(|(place, _, _)| cx.answer(place, Err(error)));
                }
            }
        }
    }

    /// A timer that was set has run out.
    pub fn on_timer(&mut self, now: Time, timer: &ShareTimer, fx: &mut ShareEffects) {
        let ShareTimer::Write { partition, token } = timer;
        self.if_led(now, *partition, fx, |shard, cx| shard.on_write_timeout(*token, cx));
    }

    /// The broker leads `partition` from now on. True: the broker is to read its log and call
    /// [`ShareCoordinator::on_loaded`]; false: only the leader epoch changed.
    pub fn on_elected(&mut self, partition: i32, leader_epoch: LeaderEpoch) -> bool {
        match self.shards.get_mut(&partition) {
            Some(shard) => {
                Rc::make_mut(shard).leader_epoch = leader_epoch;
                false
            }
            None => {
                self.shards.insert(partition, Rc::new(Shard::new(leader_epoch)));
                true
            }
        }
    }

    /// The log of `partition` was read, in order: each record's offset, key and value.
    ///
    /// # Errors
    /// A record that cannot be read: the partition is not coordinated then (NOT_COORDINATOR).
    pub fn on_loaded(
        &mut self,
        now: Time,
        partition: i32,
        records: impl Iterator<Item = (Offset, CoordinatorRecord)>,
        high_watermark: Offset,
        fx: &mut ShareEffects,
    ) -> Result<(), WireError> {
        if !self.shards.get(&partition).is_some_and(|shard| shard.is_loading) {
            return Ok(());
        }
        let read = records.filter_map(|(offset, record)| {
            let decoded = ShareRecord::decode(&record.key, record.value.as_deref());
            decoded.map(|record| record.map(|record| (offset, record))).transpose()
        });
        let read: Result<Vec<_>, WireError> = read.collect();
        match read {
            Ok(read) => {
                self.if_led(now, partition, fx, |shard, cx| shard.on_loaded(read, high_watermark, cx))
            }
            Err(error) => {
                self.shards.remove(&partition);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The broker does not lead `partition` any more.
    pub fn on_resigned(&mut self, now: Time, partition: i32, fx: &mut ShareEffects) {
        if let Some(shard) = self.shards.remove(&partition) {
            let cx = &mut self.context(now, partition, fx);
            Rc::unwrap_or_clone(shard).on_resigned(cx);
        }
    }

    /// An append was taken into the log; its last record is at `last_offset`.
    pub fn on_appended(
        &mut self,
        now: Time,
        partition: i32,
        token: u64,
        last_offset: Offset,
        fx: &mut ShareEffects,
    ) {
        self.if_led(now, partition, fx, |shard, _| shard.on_appended(token, last_offset));
    }

    /// An append was refused by the log with `error`.
    pub fn on_append_failed(
        &mut self,
        now: Time,
        partition: i32,
        token: u64,
        error: ErrorCode,
        fx: &mut ShareEffects,
    ) {
        self.if_led(now, partition, fx, |shard, cx| shard.on_append_failed(token, error, cx));
    }

    /// The high watermark of `partition` is `high_watermark` now.
    pub fn on_high_watermark(
        &mut self,
        now: Time,
        partition: i32,
        high_watermark: Offset,
        fx: &mut ShareEffects,
    ) {
        self.if_led(now, partition, fx, |shard, cx| shard.on_high_watermark(high_watermark, cx));
    }

    /// Topics are gone from the metadata: what groups have done in them is forgotten.
    pub fn on_topics_deleted(
        &mut self,
        now: Time,
        is_deleted: impl Fn(TopicId) -> bool,
        fx: &mut ShareEffects,
    ) {
        self.at_each_loaded(now, fx, |shard, cx| shard.forget(|key| is_deleted(key.topic_id), cx));
    }

    /// Writes snapshots of what was not written as a whole for long. Due every
    /// `share.coordinator.cold.partition.snapshot.interval.ms`.
    pub fn write_cold_snapshots(&mut self, now: Time, fx: &mut ShareEffects) {
        self.at_each_loaded(now, fx, Shard::write_cold_snapshots);
    }

    /// The partitions that have needless records, each with where the log may begin (`performRecordPruning`). Due every
    /// `share.coordinator.state.topic.prune.interval.ms`.
    pub fn prunable(&self) -> Vec<(i32, Offset)> {
        let loaded = self.shards.iter().filter(|(_, shard)| !shard.is_loading);
        loaded.filter_map(|(partition, shard)| Some((*partition, shard.prunable_before()?))).collect()
    }

    /// The log of `partition` has nothing before `before` any more.
    pub fn on_pruned(&mut self, partition: i32, before: Offset) {
        if let Some(shard) = self.shards.get_mut(&partition) {
            Rc::make_mut(shard).on_pruned(before);
        }
    }

    fn at_each_loaded(
        &mut self,
        now: Time,
        fx: &mut ShareEffects,
        mut work: impl FnMut(&mut Shard, &mut Context<'_>),
    ) {
        let loaded = self.shards.iter().filter(|(_, shard)| !shard.is_loading);
        for partition in loaded.map(|(partition, _)| *partition).collect::<Vec<_>>() {
            self.if_led(now, partition, fx, &mut work);
        }
    }

    fn if_led(
        &mut self,
        now: Time,
        partition: i32,
        fx: &mut ShareEffects,
        work: impl FnOnce(&mut Shard, &mut Context<'_>),
    ) {
        let Some(mut shard) = self.shards.remove(&partition) else { return };
        work(Rc::make_mut(&mut shard), &mut self.context(now, partition, fx));
        self.shards.insert(partition, shard);
    }

    fn context<'a>(&'a mut self, now: Time, partition: i32, fx: &'a mut ShareEffects) -> Context<'a> {
        Context { now, partition, config: self.config, exists: &|_| true, asked: &mut self.asked, fx }
    }
}

#[cfg(test)]
mod tests;
