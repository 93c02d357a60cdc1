//! DescribeShareGroupOffsets (90) response version 1.

use uuid::Uuid;

use crate::kafka::protocol::wire::tables;

tables! {
    #[derive(Default)]
    DescribeShareGroupOffsetsResponse {
        throttle_time_ms: i32,
        groups: Vec<OffsetsGroup>,
    }

    #[derive(Default)]
    OffsetsGroup {
        group_id: String,
        topics: Vec<OffsetsTopic>,
        error_code: i16,
        error_message: Option<String>,
    }

    #[derive(Default)]
    OffsetsTopic {
        topic_name: String,
        topic_id: Uuid,
        partitions: Vec<OffsetsPartition>,
    }

    #[derive(Default)]
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
