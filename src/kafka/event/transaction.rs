//! What goes on in transactions: at their coordinators, and at the leaders of their partitions.

use crate::kafka::types::{BrokerId, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionalId};

/// Why a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Its producer said so.
    Client,
    /// Another instance has begun with the same transactional id (R-TXN-8).
    NewInstance,
    /// It took longer than its timeout (R-TXN-26).
    Timeout,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEvent {
    /// A producer begins with an id, or anew: all earlier epochs are fenced.
    Initialized { broker: BrokerId, id: TransactionalId, producer: ProducerId, epoch: ProducerEpoch },
    /// Partitions are in the transaction from now on, which begins with the first.
    Added { broker: BrokerId, id: TransactionalId, partitions: Vec<TopicPartition>, begins: bool },
    /// The end is decided for good; each partition gets its marker.
    Decided {
        broker: BrokerId,
        id: TransactionalId,
        committed: bool,
        partitions: Vec<TopicPartition>,
        reason: EndReason,
    },
    /// All markers are written.
    Completed { broker: BrokerId, id: TransactionalId, committed: bool },
    /// An id was not used for long (R-TXN-27).
    Forgotten { broker: BrokerId, id: TransactionalId },
    /// Nobody has written to the oldest open transaction of a partition for longer than any may take (R-TXN-25). `count`: how
    /// many such partitions the broker leads, which is its PartitionsWithLateTransactionsCount.
    Late { broker: BrokerId, tp: TopicPartition, count: i64 },
    /// The end of a transaction is in a partition's log.
    Marked { broker: BrokerId, tp: TopicPartition, producer: ProducerId, committed: bool, offset: Offset },
}
