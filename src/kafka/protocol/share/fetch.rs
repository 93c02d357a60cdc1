//! ShareFetch (78) version 2.

use bytes::Bytes;
use uuid::Uuid;

use super::{AcknowledgementBatch, CurrentLeader, NodeEndpoint};
use crate::kafka::protocol::wire::tables;

tables! {
    ShareFetchRequest {
        group_id: Option<String>,
        member_id: Option<String>,
        /// 0 opens a share session, -1 closes it, every other request has one more than the last.
        share_session_epoch: i32,
        max_wait_ms: i32,
        min_bytes: i32,
        max_bytes: i32,
        max_records: i32,
        /// How many records an acquired batch has, more or less.
        batch_size: i32,
        /// 0 batch_optimized, 1 record_limit.
        share_acquire_mode: i8,
        /// Whether there are renewals among the acknowledgements; nothing is fetched then.
        is_renew_ack: bool,
        topics: Vec<FetchTopic>,
        forgotten_topics_data: Vec<ForgottenTopic>,
    }

    FetchTopic {
        topic_id: Uuid,
        partitions: Vec<FetchPartition>,
    }

    FetchPartition {
        partition_index: i32,
        acknowledgement_batches: Vec<AcknowledgementBatch>,
    }

    /// Partitions to take out of the session.
    ForgottenTopic {
        topic_id: Uuid,
        partitions: Vec<i32>,
    }

    #[derive(Default)]
    ShareFetchResponse {
        throttle_time_ms: i32,
        error_code: i16,
        error_message: Option<String>,
        acquisition_lock_timeout_ms: i32,
        responses: Vec<FetchedTopic>,
        node_endpoints: Vec<NodeEndpoint>,
    }

    FetchedTopic {
        topic_id: Uuid,
        partitions: Vec<FetchedPartition>,
    }

    #[derive(Default)]
    FetchedPartition {
        partition_index: i32,
        error_code: i16,
        error_message: Option<String>,
        acknowledge_error_code: i16,
        acknowledge_error_message: Option<String>,
        current_leader: CurrentLeader,
        /// Whole record batches, more than what was acquired.
        records: Bytes,
        acquired_records: Vec<AcquiredRecords>,
    }

    #[derive(Copy)]
    AcquiredRecords {
        first_offset: i64,
        last_offset: i64,
        delivery_count: i16,
    }
}
