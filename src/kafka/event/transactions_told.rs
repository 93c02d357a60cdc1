//! What an administrator is told of transactions.

use crate::kafka::types::{BrokerId, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionalId};

/// What an administrator was told (`TransactionsCommand`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TransactionsTold {
    /// The transactional ids there are.
    List(Vec<ListedTransaction>),
    Transaction(DescribedTransaction),
    /// Who has written to a partition with a producer id, as its leader knows or another replica.
    Producers {
        tp: TopicPartition,
        /// Whose replica was asked, if not the leader's.
        broker: Option<BrokerId>,
        producers: Vec<ActiveProducer>,
    },
    /// Open transactions that no coordinator is going to end.
    Hanging(Vec<HangingTransaction>),
    /// What was open with an id is aborted, and whoever used it is fenced: this is what the next one's is above.
    Terminated {
        id: TransactionalId,
        producer: ProducerId,
        epoch: ProducerEpoch,
    },
    /// A transaction was ended in one partition, by a marker that no coordinator sent.
    Aborted(HangingTransaction),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HangingTransaction {
    pub tp: TopicPartition,
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    /// The offset with which it begins.
    pub start: Offset,
    /// Since its producer's last batch, by the administrator's clock.
    pub wrote_ms_ago: i64,
}

/// One line of a list of transactions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListedTransaction {
    pub id: TransactionalId,
    pub coordinator: BrokerId,
    pub producer: ProducerId,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescribedTransaction {
    pub id: TransactionalId,
    pub coordinator: BrokerId,
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    pub state: String,
    /// transaction.timeout.ms
    pub timeout_ms: i32,
    /// Since its transaction began, by the administrator's clock; `None` if it never had one.
    pub began_ms_ago: Option<i64>,
    /// Those that still need a marker.
    pub partitions: Vec<TopicPartition>,
}

/// What a partition's leader keeps of a producer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActiveProducer {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    /// Of the last marker; `None` before the first.
    pub coordinator_epoch: Option<i32>,
    pub last_sequence: i32,
    /// Since its last batch, by the administrator's clock.
    pub wrote_ms_ago: i64,
    /// Where its open transaction begins.
    pub open_since: Option<Offset>,
}
