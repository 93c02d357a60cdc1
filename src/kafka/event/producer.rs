//! What goes on in producers that have transactions.

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
}
