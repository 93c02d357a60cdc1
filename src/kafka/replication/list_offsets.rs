//! Where a partition's log starts, ends, or reaches a moment: ListOffsets.
//!
//! Mirrors `ReplicaManager.fetchOffset` and `Partition.fetchOffsetForTimestamp` (R-LOG-28, 29).
//!
//! **Invariant:** a consumer is told no offset above the high watermark, and one of committed data none above the last
//! stable offset.

use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::fetch::isolation_of;
use super::manager::ReplicaManager;
use super::partition::Partition;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::log::Isolation;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{LeaderEpoch, Offset, Topic, TopicPartition};

impl ReplicaManager {
    pub fn list_offsets(&self, request: &ListOffsetsRequest, image: &ClusterImage) -> ListOffsetsResponse {
        let isolation = match request.replica_id.0 {
            0.. => Isolation::LogEnd,
            _ => isolation_of(request.isolation_level),
        };
        let topics = request.topics.iter().map(|topic| {
            let name = Topic::new(&topic.name.0);
            let answers =
                topic.partitions.iter().map(|wanted| self.list_offset(&name, wanted, isolation, image));
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(answers.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    /// Where a share group begins: at a moment, at the high watermark (-1), or without one where the log does (R-SHARE-4,
    /// `ShareFetchUtils`). OFFSET_NOT_AVAILABLE if there is nothing as late as that.
    pub fn offset_for_share_group(
        &self,
        tp: &TopicPartition,
        timestamp: Option<i64>,
        leader_epoch: LeaderEpoch,
        image: &ClusterImage,
    ) -> Result<Offset, ErrorCode> {
        let partition = self.find(tp, image)?;
        partition.check_leader(Some(leader_epoch))?;
        let timestamp = timestamp.unwrap_or(EARLIEST);
        let (_, offset, _) = offset_for(partition, timestamp, Isolation::HighWatermark)?;
        if offset == Offset::UNKNOWN { Err(ErrorCode::OffsetNotAvailable) } else { Ok(offset) }
    }

    fn list_offset(
        &self,
        topic: &Topic,
        wanted: &ListOffsetsPartition,
        isolation: Isolation,
        image: &ClusterImage,
    ) -> ListOffsetsPartitionResponse {
        let tp = TopicPartition::new(topic, wanted.partition_index);
        let epoch = Some(LeaderEpoch(wanted.current_leader_epoch)).filter(|epoch| epoch.0 >= 0);
        let partition =
            self.find(&tp, image).and_then(|partition| partition.check_leader(epoch).map(|_| partition));
        let found = partition.and_then(|partition| match wanted.timestamp {
            LATEST if isolation == Isolation::LogEnd => {
                Ok((-1, partition.log.log_end_offset(), partition.leader_epoch))
            }
            timestamp => offset_for(partition, timestamp, isolation),
        });
        let (error, (timestamp, offset, leader_epoch)) = match found {
            Ok(found) => (ErrorCode::None, found),
            Err(error) => (error, (-1, Offset::UNKNOWN, LeaderEpoch::NONE)),
        };
        ListOffsetsPartitionResponse::default()
            .with_partition_index(wanted.partition_index)
            .with_error_code(error.code())
            .with_timestamp(timestamp)
            .with_offset(offset.0)
            .with_leader_epoch(leader_epoch.0)
    }
}

pub(super) const LATEST: i64 = -1;
pub(super) const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// Where the log on this broker's disk starts: without tiered storage, the log.
const EARLIEST_LOCAL: i64 = -4;
/// The last offset in tiered storage.
const LATEST_TIERED: i64 = -5;
/// The first offset that is not in tiered storage yet.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The log start with the epoch that is known there.
fn earliest(partition: &Partition) -> (i64, Offset, LeaderEpoch) {
    let log_start = partition.log.log_start_offset();
    let first = partition.log.leader_epochs().entries().first();
    let epoch = first.filter(|entry| entry.start_offset <= log_start).map(|entry| entry.epoch);
    (-1, log_start, epoch.unwrap_or(LeaderEpoch::NONE))
}

/// R-LOG-28, 29: (timestamp, offset, leader epoch) of a consumer's look-up.
fn offset_for(
    partition: &Partition,
    timestamp: i64,
    isolation: Isolation,
) -> Result<(i64, Offset, LeaderEpoch), ErrorCode> {
    let log = &partition.log;
    let none = (-1, Offset::UNKNOWN, LeaderEpoch::NONE);
    match timestamp {
        EARLIEST | EARLIEST_LOCAL => return Ok(earliest(partition)),
        // Nothing is in tiered storage, and nothing waits to be.
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(none),
        ..EARLIEST_PENDING_UPLOAD => return Err(ErrorCode::UnsupportedVersion),
        _ => {}
    }
    let leader = partition.leader().ok_or(ErrorCode::NotLeaderOrFollower)?;
    let lags = log.high_watermark() < leader.epoch_start_offset;
    if timestamp == LATEST {
        return if lags {
            Err(ErrorCode::OffsetNotAvailable)
        } else {
            Ok((-1, log.read_bound(isolation), partition.leader_epoch))
        };
    }
    let found = match timestamp {
        MAX_TIMESTAMP => log.offset_of_max_timestamp(),
        _ => log.offset_for_timestamp(timestamp),
    };
    let found = found.map_err(|error| error.code())?;
    match found.filter(|found| found.offset < log.read_bound(isolation)) {
        Some(found) => Ok((found.timestamp_ms, found.offset, found.leader_epoch)),
        None if lags => Err(ErrorCode::OffsetNotAvailable),
        None => Ok(none),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::kafka::controller::image::PartitionRegistration;
    use crate::kafka::log::{Log, Origin};
    use crate::kafka::protocol::metadata_records::RecoveryState;
    use crate::kafka::record::{BatchBuilder, NewRecord};
    use crate::kafka::time::Time;
    use crate::kafka::types::{BrokerId, PartitionEpoch, TopicId};

    /// Two records of an earlier epoch at 1000 and 2000 ms, of which `high_watermark` are known to be committed.
    fn new_leader(high_watermark: i64) -> Partition {
        let replicas = vec![BrokerId(1), BrokerId(2)];
        let registration = PartitionRegistration {
            removing: Vec::new(),
            adding: Vec::new(),
            isr: replicas.clone(),
            replicas,
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            leader: BrokerId(1),
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(1),
        };
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut partition = Partition::new(tp, TopicId::default(), Log::new(), Rc::default());
        let config = partition.config.clone();
        for timestamp_ms in [1000, 2000] {
            let mut batch = BatchBuilder::new();
            batch.append(&NewRecord { timestamp_ms, value: Some(b"a"), ..NewRecord::default() });
            let bytes = batch.finish(None).into_bytes();
            let log = &mut partition.log;
            let appended =
                log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(0), Origin::Client, &config.log);
            appended.expect("a sound batch");
        }
        partition.log.update_high_watermark(Offset(high_watermark));
        partition.make_leader(BrokerId(1), &registration, Time::ZERO);
        partition
    }

    /// What a look-up of `timestamp` finds.
    fn check(title: &str, high_watermark: i64, timestamp: i64, expected: Result<i64, ErrorCode>) {
        let found = offset_for(&new_leader(high_watermark), timestamp, Isolation::HighWatermark)
            .map(|(_, offset, _)| offset.0);
        assert_eq!(found, expected, "{title}");
    }

    #[test]
    fn a_new_leader_that_lags_answers_only_what_it_knows_to_be_committed() {
        let not_available = Err(ErrorCode::OffsetNotAvailable);
        check("R-LOG-28: the end is not known yet", 1, LATEST, not_available);
        check("the earliest offset is always known", 1, EARLIEST, Ok(0));
        check("R-LOG-29: a committed record is found", 1, 500, Ok(0));
        check("one that may be committed is not told", 1, 1500, not_available);
        check("nor that there is none", 1, 2500, not_available);
        check("the end is known", 2, LATEST, Ok(2));
        check("there is none", 2, 2500, Ok(-1));
        check("R-LOG-28: the record of the greatest timestamp", 2, MAX_TIMESTAMP, Ok(1));
        check("which may not be committed yet", 1, MAX_TIMESTAMP, not_available);
        check("without tiered storage the log is on the disk", 1, EARLIEST_LOCAL, Ok(0));
        check("nothing is in tiered storage", 1, LATEST_TIERED, Ok(-1));
        check("and nothing waits to be", 1, EARLIEST_PENDING_UPLOAD, Ok(-1));
        check("no other moment has a name", 1, -7, Err(ErrorCode::UnsupportedVersion));
    }

    #[test]
    fn the_end_is_told_with_the_leader_s_epoch_and_the_start_with_that_of_its_record_r_log_28() {
        let epoch = |timestamp| {
            offset_for(&new_leader(2), timestamp, Isolation::HighWatermark).map(|(.., epoch)| epoch.0)
        };
        assert_eq!(epoch(LATEST), Ok(1));
        assert_eq!((epoch(EARLIEST), epoch(EARLIEST_LOCAL)), (Ok(0), Ok(0)));
        assert_eq!((epoch(LATEST_TIERED), epoch(EARLIEST_PENDING_UPLOAD)), (Ok(-1), Ok(-1)));
    }
}
