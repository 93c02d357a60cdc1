//! ShareFetch (78) version 2.

use bytes::Bytes;
use uuid::Uuid;

use super::{AcknowledgementBatch, CurrentLeader, NodeEndpoint, Schema, read_topic, text, write_topic};
use crate::kafka::protocol::wire::{Reader, WireError, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareFetchRequest {
    pub group_id: Option<String>,
    pub member_id: Option<String>,
    /// 0 opens a share session, -1 closes it, every other request has one more than the last.
    pub share_session_epoch: i32,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub max_records: i32,
    /// How many records an acquired batch has, more or less.
    pub batch_size: i32,
    /// 0 batch_optimized, 1 record_limit.
    pub share_acquire_mode: i8,
    /// Whether there are renewals among the acknowledgements; nothing is fetched then.
    pub is_renew_ack: bool,
    pub topics: Vec<FetchTopic>,
    pub forgotten_topics_data: Vec<ForgottenTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<FetchPartition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    pub partition_index: i32,
    pub acknowledgement_batches: Vec<AcknowledgementBatch>,
}

/// Partitions to take out of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareFetchResponse {
    pub throttle_time_ms: i32,
    pub error_code: i16,
    pub error_message: Option<String>,
    pub acquisition_lock_timeout_ms: i32,
    pub responses: Vec<FetchedTopic>,
    pub node_endpoints: Vec<NodeEndpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<FetchedPartition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedPartition {
    pub partition_index: i32,
    pub error_code: i16,
    pub error_message: Option<String>,
    pub acknowledge_error_code: i16,
    pub acknowledge_error_message: Option<String>,
    pub current_leader: CurrentLeader,
    /// Whole record batches, more than what was acquired.
    pub records: Bytes,
    pub acquired_records: Vec<AcquiredRecords>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredRecords {
    pub first_offset: i64,
    pub last_offset: i64,
    pub delivery_count: i16,
}

impl Schema for ShareFetchRequest {
    const WHAT: &'static str = "ShareFetchRequest";
    const VERSION: i16 = 2;

    fn write(&self, w: &mut Writer) {
        w.compact_nullable_string(self.group_id.as_deref());
        w.compact_nullable_string(self.member_id.as_deref());
        w.i32(self.share_session_epoch);
        w.i32(self.max_wait_ms);
        w.i32(self.min_bytes);
        w.i32(self.max_bytes);
        w.i32(self.max_records);
        w.i32(self.batch_size);
        w.i8(self.share_acquire_mode);
        w.bool(self.is_renew_ack);
        w.compact_array(&self.topics, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| {
                w.i32(partition.partition_index);
                w.compact_array(&partition.acknowledgement_batches, |w, batch| batch.write(w));
                w.tags(&[]);
            });
        });
        w.compact_array(&self.forgotten_topics_data, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| w.i32(*partition));
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<ShareFetchRequest, WireError> {
        let request = ShareFetchRequest {
            group_id: text(r.compact_nullable_string()?),
            member_id: text(r.compact_nullable_string()?),
            share_session_epoch: r.i32()?,
            max_wait_ms: r.i32()?,
            min_bytes: r.i32()?,
            max_bytes: r.i32()?,
            max_records: r.i32()?,
            batch_size: r.i32()?,
            share_acquire_mode: r.i8()?,
            is_renew_ack: r.bool()?,
            topics: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, FetchPartition::read)?;
                Ok(FetchTopic { topic_id, partitions })
            })?,
            forgotten_topics_data: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, |r| r.i32())?;
                Ok(ForgottenTopic { topic_id, partitions })
            })?,
        };
        r.tags()?;
        Ok(request)
    }
}

impl FetchPartition {
    fn read(r: &mut Reader<'_>) -> Result<FetchPartition, WireError> {
        let partition = FetchPartition {
            partition_index: r.i32()?,
            acknowledgement_batches: r.compact_array(AcknowledgementBatch::read)?,
        };
        r.tags()?;
        Ok(partition)
    }
}

impl Schema for ShareFetchResponse {
    const WHAT: &'static str = "ShareFetchResponse";
    const VERSION: i16 = 2;

    fn write(&self, w: &mut Writer) {
        w.i32(self.throttle_time_ms);
        w.i16(self.error_code);
        w.compact_nullable_string(self.error_message.as_deref());
        w.i32(self.acquisition_lock_timeout_ms);
        w.compact_array(&self.responses, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| partition.write(w));
        });
        w.compact_array(&self.node_endpoints, |w, endpoint| endpoint.write(w));
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<ShareFetchResponse, WireError> {
        let response = ShareFetchResponse {
            throttle_time_ms: r.i32()?,
            error_code: r.i16()?,
            error_message: text(r.compact_nullable_string()?),
            acquisition_lock_timeout_ms: r.i32()?,
            responses: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, FetchedPartition::read)?;
                Ok(FetchedTopic { topic_id, partitions })
            })?,
            node_endpoints: r.compact_array(NodeEndpoint::read)?,
        };
        r.tags()?;
        Ok(response)
    }
}

impl FetchedPartition {
    fn write(&self, w: &mut Writer) {
        w.i32(self.partition_index);
        w.i16(self.error_code);
        w.compact_nullable_string(self.error_message.as_deref());
        w.i16(self.acknowledge_error_code);
        w.compact_nullable_string(self.acknowledge_error_message.as_deref());
        self.current_leader.write(w);
        w.compact_bytes(&self.records);
        w.compact_array(&self.acquired_records, |w, acquired| {
            w.i64(acquired.first_offset);
            w.i64(acquired.last_offset);
            w.i16(acquired.delivery_count);
            w.tags(&[]);
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<FetchedPartition, WireError> {
        let partition = FetchedPartition {
            partition_index: r.i32()?,
            error_code: r.i16()?,
            error_message: text(r.compact_nullable_string()?),
            acknowledge_error_code: r.i16()?,
            acknowledge_error_message: text(r.compact_nullable_string()?),
            current_leader: CurrentLeader::read(r)?,
            records: Bytes::copy_from_slice(r.compact_bytes()?),
            acquired_records: r.compact_array(|r| {
                let acquired = AcquiredRecords {
                    first_offset: r.i64()?,
                    last_offset: r.i64()?,
                    delivery_count: r.i16()?,
                };
                r.tags()?;
                Ok(acquired)
            })?,
        };
        r.tags()?;
        Ok(partition)
    }
}
