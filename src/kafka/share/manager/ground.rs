//! What the share partition manager stands on: the replicas of its broker, what the metadata say, and configs.
//!
//! **Invariant:** nothing is changed here.

use bytes::Bytes;

use super::super::partition::ShareSettings;
use super::super::range::OffsetRange;
use super::super::sessions::TopicIdPartition;
use crate::kafka::config::{BrokerConfig, OffsetReset, group_offset_reset, group_value};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::log::Isolation;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{AbortedProducers, Batch, split_batches};
use crate::kafka::replication::{Partition, ReplicaManager};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, LeaderEpoch, Offset, TopicPartition};

pub struct Ground<'a> {
    /// The broker itself.
    pub broker: BrokerId,
    pub now: Time,
    pub image: &'a ClusterImage,
    pub replicas: &'a ReplicaManager,
    pub config: &'a BrokerConfig,
}

/// Batches as they were read, with those that a reader of committed records passes over.
#[derive(Clone, Debug)]
pub(super) struct ReadBatches {
    pub batches: Vec<Batch>,
    pub aborted: Vec<OffsetRange>,
}

impl ReadBatches {
    pub fn ranges(&self) -> Vec<OffsetRange> {
        self.batches.iter().map(range_of).collect()
    }

    /// Those that hold something of a range (`maybeSliceFetchRecords`).
    pub fn slice(&self, range: OffsetRange) -> Bytes {
        let holds = |batch: &&Batch| batch.base_offset() <= range.last && batch.last_offset() >= range.first;
        let held = self.batches.iter().filter(holds);
        held.flat_map(|batch| batch.bytes().iter().copied()).collect::<Vec<u8>>().into()
    }
}

fn range_of(batch: &Batch) -> OffsetRange {
    OffsetRange::new(batch.base_offset(), batch.last_offset())
}

impl Ground<'_> {
    pub fn name_of(&self, tip: TopicIdPartition) -> Option<TopicPartition> {
        self.image.topic_name(tip.0).map(|name| TopicPartition::new(name, tip.1))
    }

    /// The partition at its leader, which is this broker.
    pub(super) fn led(&self, tp: &TopicPartition) -> Result<&Partition, ErrorCode> {
        let partition = self.replicas.find(tp, self.image)?;
        partition.check_leader(None)?;
        Ok(partition)
    }

    pub(super) fn settings(&self, group: &GroupId) -> ShareSettings {
        let own = self.image.group_configs.get(group.as_str());
        let number = |name: &str, default: i64| {
            own.and_then(|own| own.get(name)).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
        };
        let default = &self.config.share_partitions;
        let limit = number("share.delivery.count.limit", default.delivery_count_limit.into());
        ShareSettings {
            record_lock_duration_ms: number("share.record.lock.duration.ms", default.record_lock_duration_ms),
            delivery_count_limit: limit.try_into().unwrap_or(i16::MAX),
            max_record_locks: number("share.partition.max.record.locks", default.max_record_locks),
            is_renewal_enabled: group_value(own, "share.renew.acknowledge.enable") == "true",
        }
    }

    /// R-SHARE-12.
    pub(super) fn isolation(&self, group: &GroupId) -> Isolation {
        match group_value(self.image.group_configs.get(group.as_str()), "share.isolation.level") {
            "read_committed" => Isolation::TxnCommitted,
            _ => Isolation::HighWatermark,
        }
    }

    /// Where a group begins that has not read here before (R-SHARE-4).
    pub(super) fn first_offset(
        &self,
        group: &GroupId,
        tp: &TopicPartition,
        leader_epoch: LeaderEpoch,
    ) -> Result<Offset, ErrorCode> {
        let reset = group_offset_reset(self.image.group_configs.get(group.as_str()));
        let timestamp = match reset {
            OffsetReset::Earliest => None,
            OffsetReset::Latest => Some(-1),
            OffsetReset::Ago { ms } => Some((self.now.wall_ms() - ms).max(0)),
        };
        self.replicas.offset_for_share_group(tp, timestamp, leader_epoch, self.image)
    }

    pub(super) fn read(
        &self,
        tp: &TopicPartition,
        offset: Offset,
        isolation: Isolation,
        max_bytes: i64,
        min_one_message: bool,
    ) -> Result<ReadBatches, ErrorCode> {
        let log = &self.led(tp)?.log;
        let bound = log.read_bound(isolation);
        let max_bytes = i32::try_from(max_bytes).unwrap_or(i32::MAX);
        let read = log.read(offset, bound, max_bytes, min_one_message)?;
        let aborted = match isolation {
            Isolation::TxnCommitted => log.aborted_transactions(offset, &read),
            _ => Vec::new(),
        };
        let mut producers =
            AbortedProducers::new(aborted.iter().map(|aborted| (aborted.producer, aborted.first_offset)));
        let batches = split_batches(read.records).collect::<Result<Vec<Batch>, _>>();
        let batches = batches.map_err(|_| ErrorCode::CorruptMessage)?;
        let mut aborted = Vec::new();
        for batch in &batches {
            if producers.contains(batch).map_err(|_| ErrorCode::CorruptMessage)? {
                aborted.push(range_of(batch));
            }
        }
        Ok(ReadBatches { batches, aborted })
    }
}
