//! ShareAcknowledge (79) version 2.

use uuid::Uuid;

use super::{AcknowledgementBatch, CurrentLeader, NodeEndpoint, Schema, read_topic, text, write_topic};
use crate::kafka::protocol::wire::{Reader, WireError, Writer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareAcknowledgeRequest {
    pub group_id: Option<String>,
    pub member_id: Option<String>,
    /// -1 closes the share session, every other request has one more than the last.
    pub share_session_epoch: i32,
    /// Whether there are renewals among the acknowledgements.
    pub is_renew_ack: bool,
    pub topics: Vec<AcknowledgeTopic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgeTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<AcknowledgePartition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgePartition {
    pub partition_index: i32,
    pub acknowledgement_batches: Vec<AcknowledgementBatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareAcknowledgeResponse {
    pub throttle_time_ms: i32,
    pub error_code: i16,
    pub error_message: Option<String>,
    pub acquisition_lock_timeout_ms: i32,
    pub responses: Vec<AcknowledgedTopic>,
    pub node_endpoints: Vec<NodeEndpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgedTopic {
    pub topic_id: Uuid,
    pub partitions: Vec<AcknowledgedPartition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedPartition {
    pub partition_index: i32,
    pub error_code: i16,
    pub error_message: Option<String>,
    pub current_leader: CurrentLeader,
}

impl Schema for ShareAcknowledgeRequest {
    const WHAT: &'static str = "ShareAcknowledgeRequest";
    const VERSION: i16 = 2;

    fn write(&self, w: &mut Writer) {
        w.compact_nullable_string(self.group_id.as_deref());
        w.compact_nullable_string(self.member_id.as_deref());
        w.i32(self.share_session_epoch);
        w.bool(self.is_renew_ack);
        w.compact_array(&self.topics, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| {
                w.i32(partition.partition_index);
                w.compact_array(&partition.acknowledgement_batches, |w, batch| batch.write(w));
                w.tags(&[]);
            });
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<ShareAcknowledgeRequest, WireError> {
        let request = ShareAcknowledgeRequest {
            group_id: text(r.compact_nullable_string()?),
            member_id: text(r.compact_nullable_string()?),
            share_session_epoch: r.i32()?,
            is_renew_ack: r.bool()?,
            topics: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, AcknowledgePartition::read)?;
                Ok(AcknowledgeTopic { topic_id, partitions })
            })?,
        };
        r.tags()?;
        Ok(request)
    }
}

impl AcknowledgePartition {
    fn read(r: &mut Reader<'_>) -> Result<AcknowledgePartition, WireError> {
        let partition = AcknowledgePartition {
            partition_index: r.i32()?,
            acknowledgement_batches: r.compact_array(AcknowledgementBatch::read)?,
        };
        r.tags()?;
        Ok(partition)
    }
}

impl Schema for ShareAcknowledgeResponse {
    const WHAT: &'static str = "ShareAcknowledgeResponse";
    const VERSION: i16 = 2;

    fn write(&self, w: &mut Writer) {
        w.i32(self.throttle_time_ms);
        w.i16(self.error_code);
        w.compact_nullable_string(self.error_message.as_deref());
        w.i32(self.acquisition_lock_timeout_ms);
        w.compact_array(&self.responses, |w, topic| {
            write_topic(w, topic.topic_id, &topic.partitions, |w, partition| {
                w.i32(partition.partition_index);
                w.i16(partition.error_code);
                w.compact_nullable_string(partition.error_message.as_deref());
                partition.current_leader.write(w);
                w.tags(&[]);
            });
        });
        w.compact_array(&self.node_endpoints, |w, endpoint| endpoint.write(w));
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<ShareAcknowledgeResponse, WireError> {
        let response = ShareAcknowledgeResponse {
            throttle_time_ms: r.i32()?,
            error_code: r.i16()?,
            error_message: text(r.compact_nullable_string()?),
            acquisition_lock_timeout_ms: r.i32()?,
            responses: r.compact_array(|r| {
                let (topic_id, partitions) = read_topic(r, AcknowledgedPartition::read)?;
                Ok(AcknowledgedTopic { topic_id, partitions })
            })?,
            node_endpoints: r.compact_array(NodeEndpoint::read)?,
        };
        r.tags()?;
        Ok(response)
    }
}

impl AcknowledgedPartition {
    fn read(r: &mut Reader<'_>) -> Result<AcknowledgedPartition, WireError> {
        let partition = AcknowledgedPartition {
            partition_index: r.i32()?,
            error_code: r.i16()?,
            error_message: text(r.compact_nullable_string()?),
            current_leader: CurrentLeader::read(r)?,
        };
        r.tags()?;
        Ok(partition)
    }
}
