//! One fetch session as the broker keeps it (KIP-227, `FetchSession`).
//!
//! Most partitions of a session are *quiet*: a read of them would find nothing that its last answer did not tell. They
//! are neither read nor waited for until something of them changes, so what a fetch costs depends on what changed.
//!
//! **Invariant:** a quiet partition's replica here lists the session among those to be told of its next change.

use std::collections::BTreeMap;

use kafka_protocol::messages::fetch_response::PartitionData;

use super::purgatory::OperationId;
use crate::kafka::fetch_session::{FetchMetadata, Wanted};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Offset, TopicId, TopicPartition};

/// Positive, and unique on its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i32);

/// A partition of a session, which knows topics by their ids.
pub type PartitionKey = (TopicId, i32);

/// What the broker remembers of one partition (`CachedPartition`).
#[derive(Clone, Debug)]
pub struct Cached {
    /// `None` while the topic's name is not known.
    pub tp: Option<TopicPartition>,
    pub wanted: Wanted,
    /// As the last answer told them; UNKNOWN before the first.
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    place: u64,
    quiet: bool,
}

#[derive(Clone, Debug)]
pub struct FetchSession {
    pub id: SessionId,
    /// The follower that fetches, as which of its incarnations; `None`: a consumer.
    pub follower: Option<(BrokerId, BrokerEpoch)>,
    /// The epoch of the next request.
    pub epoch: i32,
    /// When the newest request came.
    pub last_fetch_at: Time,
    /// Requests of this session that wait for data.
    pub parked: Vec<OperationId>,
    partitions: PartitionMap<PartitionKey, Cached>,
    /// Those that are not quiet, in the order of the session.
    loud: BTreeMap<u64, PartitionKey>,
    next_place: u64,
}

impl FetchSession {
    /// A session as the answer to a full request begins it. `fetched_at`: when that request came.
    pub fn new(id: SessionId, follower: Option<(BrokerId, BrokerEpoch)>, fetched_at: Time) -> FetchSession {
        FetchSession {
            id,
            follower,
            epoch: FetchMetadata::next_epoch(FetchMetadata::INITIAL_EPOCH),
            last_fetch_at: fetched_at,
            parked: Vec::new(),
            partitions: PartitionMap::new(),
            loud: BTreeMap::new(),
            next_place: 0,
        }
    }

    pub fn len(&self) -> i32 {
        self.partitions.len() as i32
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub fn get(&self, key: &PartitionKey) -> Option<&Cached> {
        self.partitions.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PartitionKey, &Cached)> {
        self.partitions.iter()
    }

    /// The partitions that have to be looked at, in order.
    pub fn loud(&self) -> impl Iterator<Item = (&PartitionKey, &Cached)> {
        self.loud.values().map(|key| (key, &self.partitions[key]))
    }

    pub fn loud_count(&self) -> i32 {
        self.loud.len() as i32
    }

    pub fn is_quiet(&self, key: &PartitionKey) -> bool {
        self.partitions.get(key).is_some_and(|cached| cached.quiet)
    }

    /// The names of all quiet partitions.
    pub fn quiet(&self) -> Vec<TopicPartition> {
        let quiet = self.partitions.values().filter(|cached| cached.quiet);
        quiet.filter_map(|cached| cached.tp.clone()).collect()
    }

    /// Takes a partition in that a request names, or what the request says anew of one that is held.
    pub fn want(&mut self, key: PartitionKey, tp: Option<TopicPartition>, wanted: Wanted) {
        match self.partitions.get_mut(&key) {
            Some(cached) => cached.wanted = wanted,
            None => {
                let (place, unknown) = (self.next_place, Offset::UNKNOWN);
                self.next_place += 1;
                self.loud.insert(place, key);
                let cached = Cached {
                    tp,
                    wanted,
                    high_watermark: unknown,
                    log_start_offset: unknown,
                    place,
                    quiet: false,
                };
                self.partitions.insert(key, cached);
            }
        }
    }

    pub fn forget(&mut self, key: &PartitionKey) {
        if let Some(cached) = self.partitions.remove(key) {
            self.loud.remove(&cached.place);
        }
    }

    /// A topic whose name was not known may be known now (`maybeResolveUnknownName`).
    pub fn resolve_names(&mut self, name: impl Fn(&PartitionKey) -> Option<TopicPartition>) {
        for key in self.loud.values() {
            if let Some(cached) = self.partitions.get_mut(key)
                && cached.tp.is_none()
            {
                cached.tp = name(key);
            }
        }
    }

    /// Something of the partition changed. What was wanted of it, if it was quiet.
    pub fn disturb(&mut self, key: &PartitionKey) -> Option<Wanted> {
        let cached = self.partitions.get_mut(key).filter(|cached| cached.quiet)?;
        cached.quiet = false;
        self.loud.insert(cached.place, *key);
        Some(cached.wanted)
    }

    /// The last answer told all there is to tell of it.
    pub fn quieten(&mut self, key: &PartitionKey) {
        if let Some(cached) = self.partitions.get_mut(key) {
            cached.quiet = true;
            self.loud.remove(&cached.place);
        }
    }

    /// What a full answer told of a partition.
    pub fn told(&mut self, key: &PartitionKey, answer: &PartitionData) {
        if let Some(cached) = self.partitions.get_mut(key) {
            cached.high_watermark = Offset(answer.high_watermark);
            cached.log_start_offset = Offset(answer.log_start_offset);
        }
    }

    /// Whether an incremental answer has to tell this, and takes down that it does (`maybeUpdateResponseData`). A partition
    /// that returns records goes to the end.
    pub fn must_tell(&mut self, key: &PartitionKey, answer: &PartitionData) -> bool {
        let Some(cached) = self.partitions.get_mut(key) else { return false };
        let high_watermark = Offset(answer.high_watermark);
        let log_start_offset = Offset(answer.log_start_offset);
        let has_records = answer.records.as_ref().is_some_and(|records| !records.is_empty());
        let failed = answer.error_code != 0;
        let tells = has_records
            || failed
            || cached.high_watermark != high_watermark
            || cached.log_start_offset != log_start_offset
            || answer.preferred_read_replica.0 != -1
            || answer.diverging_epoch.epoch >= 0;
        // Whatever comes after an error is told again.
        cached.high_watermark = if failed { Offset::UNKNOWN } else { high_watermark };
        cached.log_start_offset = log_start_offset;
        if has_records {
            self.loud.remove(&cached.place);
            cached.place = self.next_place;
            self.next_place += 1;
            if !cached.quiet {
                self.loud.insert(cached.place, *key);
            }
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::LeaderEpoch;

    fn key(partition: i32) -> PartitionKey {
        (TopicId(uuid::Uuid::from_u128(7)), partition)
    }

    fn session(partitions: i32) -> FetchSession {
        let mut session = FetchSession::new(SessionId(1), None, Time::ZERO);
        let wanted = Wanted {
            fetch_offset: Offset(5),
            log_start_offset: Offset::UNKNOWN,
            max_bytes: 100,
            current_leader_epoch: LeaderEpoch(0),
            last_fetched_epoch: LeaderEpoch::NONE,
        };
        for partition in 0..partitions {
            let tp = TopicPartition::new(&"t".into(), partition);
            session.want(key(partition), Some(tp), wanted);
            session.told(&key(partition), &answer());
        }
        session
    }

    /// High watermark 5, log start 0.
    fn answer() -> PartitionData {
        PartitionData::default().with_high_watermark(5).with_log_start_offset(0)
    }

    #[test]
    fn an_incremental_answer_leaves_out_what_was_told() {
        let told = |answers: &[PartitionData]| {
            let mut session = session(1);
            answers.iter().map(|answer| session.must_tell(&key(0), answer)).collect::<Vec<_>>()
        };
        let failed = || answer().with_error_code(6).with_high_watermark(-1).with_log_start_offset(-1);
        let diverging = kafka_protocol::messages::fetch_response::EpochEndOffset::default()
            .with_epoch(1)
            .with_end_offset(3);
        assert_eq!(told(&[answer()]), [false], "nothing new");
        assert_eq!(told(&[answer().with_high_watermark(6), answer().with_high_watermark(6)]), [true, false]);
        assert_eq!(told(&[answer().with_log_start_offset(2), answer()]), [true, true]);
        assert_eq!(told(&[failed(), failed(), answer(), answer()]), [true, true, true, false]);
        assert_eq!(told(&[answer().with_diverging_epoch(diverging)]), [true]);
        assert_eq!(told(&[answer().with_preferred_read_replica(2.into())]), [true]);
        assert_eq!(told(&[answer().with_records(Some(bytes::Bytes::from_static(b"x")))]), [true]);
        assert!(!session(0).must_tell(&key(0), &failed()), "it was forgotten meanwhile");
    }

    #[test]
    fn who_returned_records_comes_last() {
        let mut session = session(3);
        let order = |session: &FetchSession| session.loud().map(|(key, _)| key.1).collect::<Vec<_>>();
        session.must_tell(&key(0), &answer().with_records(Some(bytes::Bytes::from_static(b"x"))));
        assert_eq!(order(&session), [1, 2, 0]);
        session.quieten(&key(1));
        assert_eq!((order(&session), session.loud_count(), session.len()), (vec![2, 0], 2, 3));
        assert!(session.disturb(&key(1)).is_some());
        assert!(session.disturb(&key(1)).is_none(), "it was loud already");
        assert_eq!(order(&session), [1, 2, 0], "it has kept its place");
        session.forget(&key(2));
        assert_eq!((order(&session), session.len()), (vec![1, 0], 2));
    }
}
