//! What goes on in producers beside their batches.

use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BatchId, ClientName, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProducerEvent {
    /// A call of the producer threw something at its application.
    Thrown { client: ClientName, call: String, exception: String },
    /// Records are given up that were not sent, or whose answer does not count any more. `exception`: what the application
    /// is told; `error`: Kafka's error behind it, OPERATION_NOT_ATTEMPTED if there is none.
    Abandoned {
        client: ClientName,
        tp: TopicPartition,
        batch: BatchId,
        records: i64,
        exception: String,
        error: ErrorCode,
    },
    /// Records that may go anywhere go to this partition from now on (R-PROD-11).
    StickyPartitionChosen { client: ClientName, tp: TopicPartition },
    /// `flush()` returned: all that was sent before it has its outcome.
    Flushed { client: ClientName, took_ms: i64 },
    /// The time of `close()` was over while records had no outcome: they fail.
    Forced { client: ClientName, records: i64 },
}
