//! What a leader knows of its followers, and the high watermark that follows from it.
//!
//! Mirrors the leader half of `Partition` and `Replica` (R-REPL-4, 9 to 14, 18 to 26).

use std::collections::BTreeMap;

use super::isr::IsrState;
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration};
use crate::kafka::fetch_session::Wanted;
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Offset};

/// A follower as its fetches show it (`ReplicaState`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub log_start_offset: Offset,
    /// UNKNOWN until its first fetch from this leader.
    pub log_end_offset: Offset,
    pub last_fetch_at: Option<Time>,
    /// The leader's log end at that fetch.
    pub last_fetch_leader_log_end: Offset,
    /// `None`: never since this leader knows it.
    pub last_caught_up_at: Option<Time>,
    pub broker_epoch: Option<BrokerEpoch>,
}

impl Remote {
    /// R-REPL-18: a new leader knows nothing of its followers but who was in sync.
    fn new(now: Time, in_sync: bool) -> Remote {
        Remote {
            log_start_offset: Offset::UNKNOWN,
            log_end_offset: Offset::UNKNOWN,
            last_fetch_at: None,
            last_fetch_leader_log_end: Offset::UNKNOWN,
            last_caught_up_at: in_sync.then_some(now),
            broker_epoch: None,
        }
    }

    /// R-REPL-9: a fetch at `offset` acknowledges everything below it.
    fn on_fetch(
        &mut self,
        now: Time,
        offset: Offset,
        log_start: Offset,
        leader_end: Offset,
        epoch: BrokerEpoch,
    ) {
        if offset >= leader_end {
            self.last_caught_up_at = Some(now).max(self.last_caught_up_at);
        } else if offset >= self.last_fetch_leader_log_end {
            self.last_caught_up_at = self.last_fetch_at.max(self.last_caught_up_at);
        }
        self.log_start_offset = log_start;
        self.log_end_offset = offset;
        self.last_fetch_leader_log_end = leader_end;
        self.last_fetch_at = Some(now);
        self.broker_epoch = Some(epoch);
    }

    /// R-REPL-19: by time alone, never by a count of records.
    pub fn is_caught_up(&self, now: Time, leader_end: Offset, lag_time_max_ms: i64) -> bool {
        let recently = self.last_caught_up_at.is_some_and(|at| now.ms_since(at) <= lag_time_max_ms);
        self.log_end_offset == leader_end || recently
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The log end at which this leader's epoch began.
    pub epoch_start_offset: Offset,
    pub remotes: BTreeMap<BrokerId, Remote>,
    pub isr: IsrState,
}

/// What a leader needs to know of the world to judge its followers.
#[derive(Clone, Copy)]
pub struct Judgement<'a> {
    pub now: Time,
    pub image: &'a ClusterImage,
    pub lag_time_max_ms: i64,
}

impl Leader {
    pub fn new(
        me: BrokerId,
        registration: &PartitionRegistration,
        now: Time,
        epoch_start_offset: Offset,
    ) -> Leader {
        let followers = registration.replicas.iter().copied().filter(|id| *id != me);
        let remotes = followers.map(|id| (id, Remote::new(now, registration.isr.contains(&id)))).collect();
        Leader { epoch_start_offset, remotes, isr: IsrState::Committed(registration.isr.clone()) }
    }

    /// A reassignment brings followers and takes some away; of those that come nothing is known (R-REPL-58).
    pub fn set_replicas(&mut self, me: BrokerId, replicas: &[BrokerId], now: Time) {
        self.remotes.retain(|id, _| replicas.contains(id));
        for id in replicas.iter().filter(|id| **id != me) {
            self.remotes.entry(*id).or_insert_with(|| Remote::new(now, false));
        }
    }

    /// A leader that is elected again keeps what it knows of its followers; only their clocks start anew
    /// (`Replica.resetReplicaState`).
    pub fn remember(&mut self, before: &BTreeMap<BrokerId, Remote>, now: Time) {
        for (id, remote) in &mut self.remotes {
            let Some(known) = before.get(id) else { continue };
            let in_sync = remote.last_caught_up_at.is_some();
            *remote = Remote {
                last_fetch_leader_log_end: self.epoch_start_offset,
                last_fetch_at: in_sync.then_some(now),
                last_caught_up_at: remote.last_caught_up_at,
                ..known.clone()
            };
        }
    }

    /// The controller's word on the in-sync set ends whatever was on its way.
    pub fn commit_isr(&mut self, isr: Vec<BrokerId>) {
        self.isr = IsrState::Committed(isr);
    }

    /// R-REPL-24, KIP-903.
    fn is_eligible(&self, replica: BrokerId, image: &ClusterImage) -> bool {
        let seen = self.remotes.get(&replica).and_then(|remote| remote.broker_epoch);
        let known = image.brokers.get(&replica).filter(|broker| broker.is_active());
        matches!((seen, known), (Some(seen), Some(known)) if seen.0 == -1 || seen == known.epoch)
    }

    /// R-REPL-12: the least log end of all that are in sync, may be in sync, or are about to be.
    pub fn new_high_watermark(&self, log_end: Offset, judge: Judgement<'_>) -> Offset {
        if plant::is(Plant::HwBeforeIsr) {
            return log_end;
        }
        let counts = |id: BrokerId, remote: &Remote| {
            self.isr.maximal_contains(id)
                || (remote.is_caught_up(judge.now, log_end, judge.lag_time_max_ms)
                    && self.is_eligible(id, judge.image))
        };
        let ends =
            self.remotes.iter().filter(|(id, remote)| counts(**id, remote)).map(|(_, r)| r.log_end_offset);
        ends.min().map_or(log_end, |least| least.min(log_end))
    }

    /// R-REPL-13.
    pub fn is_under_min_isr(&self, min_isr: i32) -> bool {
        (self.isr.committed().len() as i32) < min_isr
    }

    /// Digests a follower's fetch. Whether its log end changed; `None` if it is not a replica, or an older incarnation
    /// than the one that is in service (R-REPL-10).
    pub fn on_follower_fetch(
        &mut self,
        now: Time,
        follower: BrokerId,
        offset: Offset,
        log_start: Offset,
        leader_end: Offset,
        epoch: BrokerEpoch,
        image: &ClusterImage,
    ) -> Option<bool> {
        let remote = self.remotes.get_mut(&follower)?;
        let known = image.brokers.get(&follower).filter(|broker| !broker.fenced);
        if known.is_some_and(|known| epoch.0 != -1 && epoch < known.epoch) {
            return None;
        }
        let before = remote.log_end_offset;
        remote.on_fetch(now, offset, log_start, leader_end, epoch);
        Some(before != offset)
    }

    /// A fetch that finds a follower where it was, with everything (R-REPL-9).
    pub fn acknowledge(
        &mut self,
        at: Time,
        follower: BrokerId,
        wanted: Wanted,
        leader_end: Offset,
        epoch: BrokerEpoch,
    ) {
        if let Some(remote) = self.remotes.get_mut(&follower) {
            remote.on_fetch(at, wanted.fetch_offset, wanted.log_start_offset, leader_end, epoch);
        }
    }

    /// R-REPL-23: asks for `follower` if it has everything that is committed and that this epoch began with.
    pub fn maybe_expand(&mut self, follower: BrokerId, high_watermark: Offset, image: &ClusterImage) -> bool {
        if self.isr.is_in_flight()
            || self.isr.committed().contains(&follower)
            || !self.is_eligible(follower, image)
        {
            return false;
        }
        let end = self.remotes.get(&follower).map_or(Offset::UNKNOWN, |remote| remote.log_end_offset);
        if end < high_watermark || end < self.epoch_start_offset {
            return false;
        }
        self.isr = IsrState::PendingExpand { isr: self.isr.committed().to_vec(), added: follower };
        true
    }

    /// R-REPL-21: who is in the set and has not caught up in time.
    pub fn out_of_sync(&self, me: BrokerId, log_end: Offset, judge: Judgement<'_>) -> Vec<BrokerId> {
        if self.isr.is_in_flight() {
            return Vec::new();
        }
        let lags = |id: &BrokerId| {
            let remote = self.remotes.get(id);
            remote.is_none_or(|remote| !remote.is_caught_up(judge.now, log_end, judge.lag_time_max_ms))
        };
        self.isr.committed().iter().copied().filter(|id| *id != me && lags(id)).collect()
    }

    /// Asks for a smaller set.
    pub fn shrink(&mut self, out_of_sync: Vec<BrokerId>) {
        self.isr = IsrState::PendingShrink { isr: self.isr.committed().to_vec(), out_of_sync };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_tells_where_a_follower_is_when_it_was_caught_up_and_who_it_is_r_repl_4() {
        let at = Time::from_ms;
        let mut remote = Remote::new(at(0), false);
        assert_eq!((remote.last_caught_up_at, remote.broker_epoch), (None, None));
        let mut fetch = |ms, offset, leader_end, epoch| {
            remote.on_fetch(at(ms), Offset(offset), Offset(1), Offset(leader_end), BrokerEpoch(epoch));
            let known = (remote.log_end_offset, remote.last_fetch_at, remote.broker_epoch);
            assert_eq!(known, (Offset(offset), Some(at(ms)), Some(BrokerEpoch(epoch))));
            assert_eq!(
                (remote.log_start_offset, remote.last_fetch_leader_log_end),
                (Offset(1), Offset(leader_end))
            );
            remote.last_caught_up_at.map(Time::ms)
        };
        assert_eq!(fetch(10, 3, 8, 5), None, "it lacks 5 records");
        assert_eq!(fetch(20, 8, 12, 5), Some(10), "it has what the leader had at its fetch before");
        assert_eq!(fetch(30, 9, 12, 5), Some(10));
        assert_eq!(fetch(40, 12, 12, 6), Some(40), "it has everything");
        assert_eq!(fetch(50, 11, 12, 6), Some(40), "it never goes back");
    }
}
