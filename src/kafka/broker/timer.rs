//! Everything that a broker may be woken for.

use crate::kafka::group::GroupTimer;
use crate::kafka::network_client::NetworkTimer;
use crate::kafka::raft::RaftTimer;
use crate::kafka::share::coordinator::ShareTimer;
use crate::kafka::share::manager::ShareFetchTimer;
use crate::kafka::transaction::TransactionTimer;
use crate::kafka::types::BrokerId;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BrokerTimer {
    Network(NetworkTimer),
    /// The next registration attempt or heartbeat is due.
    Communicate,
    /// The controller has let this broker wait too long with its shutdown.
    ShutDown,
    Raft(RaftTimer),
    /// The active controller is looked for again.
    FindController,
    /// A request in the purgatory may have waited long enough.
    Purgatory,
    /// Leaders look for followers that lag.
    CheckIsr,
    /// High watermarks are written to disk.
    Checkpoint,
    /// Old segments are looked for.
    Retention,
    /// Logs that were not flushed for long are.
    Flush,
    /// It is noted how far the logs are flushed.
    RecoveryPoints,
    /// It is noted where the logs begin.
    LogStarts,
    /// The cleaner has rested, or goes on.
    Clean,
    /// Producers that were silent for long are looked for in the log that is due first.
    ExpireProducers,
    /// The fetcher of this leader may try again.
    FetcherBackoff(BrokerId),
    /// AlterPartition requests are sent again.
    AlterPartition,
    /// The replay of this `__consumer_offsets` partition has come to its end.
    OffsetsLoaded(i32),
    Group(GroupTimer),
    /// The replay of this `__share_group_state` partition has come to its end.
    ShareStateLoaded(i32),
    /// The share coordinator looks for what had no snapshot for long.
    ShareSnapshots,
    /// The share coordinator drops records that are needless.
    PruneShareStates,
    Share(ShareTimer),
    ShareFetch(ShareFetchTimer),
    /// What the share coordinators did not take is tried again.
    Persist,
    /// A leader that could not be asked for the ends of its logs is asked again.
    EndOffsets,
    /// The replay of this `__transaction_state` partition has come to its end.
    TransactionsLoaded(i32),
    /// The transaction coordinator looks for transactions that took too long.
    AbortTransactions,
    /// The transaction coordinator looks for ids that were not used for long.
    ExpireTransactionalIds,
    Transaction(TransactionTimer),
    /// The sender of markers looks again for leaders that it did not find.
    Markers,
    /// A write of a transaction whose producer's last one was not over is tried again.
    AddPartitions(u64),
}

impl From<TransactionTimer> for BrokerTimer {
    fn from(timer: TransactionTimer) -> Self {
        BrokerTimer::Transaction(timer)
    }
}

impl From<ShareFetchTimer> for BrokerTimer {
    fn from(timer: ShareFetchTimer) -> Self {
        BrokerTimer::ShareFetch(timer)
    }
}

impl From<ShareTimer> for BrokerTimer {
    fn from(timer: ShareTimer) -> Self {
        BrokerTimer::Share(timer)
    }
}

impl From<NetworkTimer> for BrokerTimer {
    fn from(timer: NetworkTimer) -> Self {
        BrokerTimer::Network(timer)
    }
}

impl From<RaftTimer> for BrokerTimer {
    fn from(timer: RaftTimer) -> Self {
        BrokerTimer::Raft(timer)
    }
}

impl From<GroupTimer> for BrokerTimer {
    fn from(timer: GroupTimer) -> Self {
        BrokerTimer::Group(timer)
    }
}
