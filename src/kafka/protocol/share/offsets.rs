//! DescribeShareGroupOffsets (90) response version 1.

use uuid::Uuid;

use crate::kafka::protocol::wire::tables;

tables! {
    DescribeShareGroupOffsetsResponse {
        throttle_time_ms: i32,
        groups: Vec<OffsetsGroup>,
    }

    OffsetsGroup {
        group_id: String,
        topics: Vec<OffsetsTopic>,
        error_code: i16,
        error_message: Option<String>,
    }

    OffsetsTopic {
        topic_name: String,
        topic_id: Uuid,
        partitions: Vec<OffsetsPartition>,
    }

    OffsetsPartition {
        partition_index: i32,
        /// -1 as long as no leader has begun.
        start_offset: i64,
        leader_epoch: i32,
        /// How many records are not done; -1 if it is not known.
        lag: i64,
        error_code: i16,
        error_message: Option<String>,
    }
}
