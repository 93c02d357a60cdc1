//! ShareAcknowledge (79) version 2.

use uuid::Uuid;

use super::{AcknowledgementBatch, CurrentLeader, NodeEndpoint};
use crate::kafka::protocol::wire::tables;

tables! {
    ShareAcknowledgeRequest {
        group_id: Option<String>,
        member_id: Option<String>,
        /// -1 closes the share session, every other request has one more than the last.
        share_session_epoch: i32,
        /// Whether there are renewals among the acknowledgements.
        is_renew_ack: bool,
        topics: Vec<AcknowledgeTopic>,
    }

    AcknowledgeTopic {
        topic_id: Uuid,
        partitions: Vec<AcknowledgePartition>,
    }

    AcknowledgePartition {
        partition_index: i32,
        acknowledgement_batches: Vec<AcknowledgementBatch>,
    }

    #[derive(Default)]
    ShareAcknowledgeResponse {
        throttle_time_ms: i32,
        error_code: i16,
        error_message: Option<String>,
        acquisition_lock_timeout_ms: i32,
        responses: Vec<AcknowledgedTopic>,
        node_endpoints: Vec<NodeEndpoint>,
    }

    AcknowledgedTopic {
        topic_id: Uuid,
        partitions: Vec<AcknowledgedPartition>,
    }

    #[derive(Default)]
    AcknowledgedPartition {
        partition_index: i32,
        error_code: i16,
        error_message: Option<String>,
        current_leader: CurrentLeader,
    }
}
