//! WriteShareGroupState (85) request and ReadShareGroupStateSummary (87) response, both version 1.

use uuid::Uuid;

use super::{Schema, read_topic, text, write_topic};
use crate::kafka::protocol::wire::{Reader, WireError, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteShareGroupStateRequest {
    pub group_id: String,
    pub topics: Vec<WriteTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<WritePartition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePartition {
    pub partition: i32,
    pub state_epoch: i32,
    pub leader_epoch: i32,
    /// -1 if it stays.
    pub start_offset: i64,
    /// -1 if it is not known.
    pub delivery_complete_count: i32,
    pub state_batches: Vec<WriteStateBatch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteStateBatch {
    pub first_offset: i64,
    pub last_offset: i64,
    /// 0 available, 2 acknowledged, 4 archived.
    pub delivery_state: i8,
    pub delivery_count: i16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadShareGroupStateSummaryResponse {
    pub results: Vec<SummaryTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<SummaryPartition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryPartition {
    pub partition: i32,
    pub error_code: i16,
    pub error_message: Option<String>,
    pub state_epoch: i32,
    pub leader_epoch: i32,
    /// -1 as long as no leader has begun.
    pub start_offset: i64,
    /// -1 if it is not known.
    pub delivery_complete_count: i32,
}

impl Schema for WriteShareGroupStateRequest {
    const WHAT: &'static str = "WriteShareGroupStateRequest";
    const VERSION: i16 = 1;

    fn write(&self, w: &mut Writer) {
        w.compact_string(&self.group_id);
        w.compact_array(&self.topics, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| partition.write(w));
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<WriteShareGroupStateRequest, WireError> {
        let request = WriteShareGroupStateRequest {
            group_id: r.compact_string()?.to_string(),
            topics: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, WritePartition::read)?;
                Ok(WriteTopic { topic_id, partitions })
            })?,
        };
        r.tags()?;
        Ok(request)
    }
}

impl WritePartition {
    fn write(&self, w: &mut Writer) {
        w.i32(self.partition);
        w.i32(self.state_epoch);
        w.i32(self.leader_epoch);
        w.i64(self.start_offset);
        w.i32(self.delivery_complete_count);
        w.compact_array(&self.state_batches, |w, batch| {
            w.i64(batch.first_offset);
            w.i64(batch.last_offset);
            w.i8(batch.delivery_state);
            w.i16(batch.delivery_count);
            w.tags(&[]);
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<WritePartition, WireError> {
        let partition = WritePartition {
            partition: r.i32()?,
            state_epoch: r.i32()?,
            leader_epoch: r.i32()?,
            start_offset: r.i64()?,
            delivery_complete_count: r.i32()?,
            state_batches: r.compact_array(|r| {
                let batch = WriteStateBatch {
                    first_offset: r.i64()?,
                    last_offset: r.i64()?,
                    delivery_state: r.i8()?,
                    delivery_count: r.i16()?,
                };
                r.tags()?;
                Ok(batch)
            })?,
        };
        r.tags()?;
        Ok(partition)
    }
}

impl Schema for ReadShareGroupStateSummaryResponse {
    const WHAT: &'static str = "ReadShareGroupStateSummaryResponse";
    const VERSION: i16 = 1;

    fn write(&self, w: &mut Writer) {
        w.compact_array(&self.results, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| {
                w.i32(partition.partition);
                w.i16(partition.error_code);
                w.compact_nullable_string(partition.error_message.as_deref());
                w.i32(partition.state_epoch);
                w.i32(partition.leader_epoch);
                w.i64(partition.start_offset);
                w.i32(partition.delivery_complete_count);
                w.tags(&[]);
            });
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<ReadShareGroupStateSummaryResponse, WireError> {
        let results = r.compact_array(|r| {
            let (topic_id, partitions) = read_topic(r, SummaryPartition::read)?;
            Ok(SummaryTopic { topic_id, partitions })
        })?;
        r.tags()?;
        Ok(ReadShareGroupStateSummaryResponse { results })
    }
}

impl SummaryPartition {
    fn read(r: &mut Reader<'_>) -> Result<SummaryPartition, WireError> {
        let partition = SummaryPartition {
            partition: r.i32()?,
            error_code: r.i16()?,
            error_message: text(r.compact_nullable_string()?),
            state_epoch: r.i32()?,
            leader_epoch: r.i32()?,
            start_offset: r.i64()?,
            delivery_complete_count: r.i32()?,
        };
        r.tags()?;
        Ok(partition)
    }
}
