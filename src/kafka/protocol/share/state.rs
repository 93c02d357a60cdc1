//! WriteShareGroupState (85) request and ReadShareGroupStateSummary (87) response, both version 1.

use uuid::Uuid;

use crate::kafka::protocol::wire::tables;

tables! {
    WriteShareGroupStateRequest {
        group_id: String,
        topics: Vec<WriteTopic>,
    }

    WriteTopic {
        topic_id: Uuid,
        partitions: Vec<WritePartition>,
    }

    WritePartition {
        partition: i32,
        state_epoch: i32,
        leader_epoch: i32,
        /// -1 if it stays.
        start_offset: i64,
        /// -1 if it is not known.
        delivery_complete_count: i32,
        state_batches: Vec<WriteStateBatch>,
    }

    #[derive(Copy)]
    WriteStateBatch {
        first_offset: i64,
        last_offset: i64,
        /// 0 available, 2 acknowledged, 4 archived.
        delivery_state: i8,
        delivery_count: i16,
    }

    #[derive(Default)]
    ReadShareGroupStateSummaryResponse {
        results: Vec<SummaryTopic>,
    }

    SummaryTopic {
        topic_id: Uuid,
        partitions: Vec<SummaryPartition>,
    }

    SummaryPartition {
        partition: i32,
        error_code: i16,
        error_message: Option<String>,
        state_epoch: i32,
        leader_epoch: i32,
        /// -1 as long as no leader has begun.
        start_offset: i64,
        /// -1 if it is not known.
        delivery_complete_count: i32,
    }
}
