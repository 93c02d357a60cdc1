//! Everything that a run is held to, each by its name, and what is said of one that did not hold.

use std::fmt;

/// One thing that must hold. Its name is what a failure is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Log start, last stable offset, high watermark and log end stand in this order (R-LOG-30, R-REPL-4).
    LogBounds,
    /// The offsets of a log are each in one batch; without compaction none is left out.
    LogGaps,
    /// The leader epochs of a log's batches never fall, and none is later than its leader's (R-REPL-6).
    BatchEpochs,
    /// One leader an epoch, and it is the one that the metadata log names (R-REPL-2).
    OneLeader,
    /// What a follower takes in is what the leader of its epoch has, which leads already (R-REPL-6, 8).
    FollowerAppend,
    /// What was committed is unchanged, in every replica that knows it to be (R-REPL-12).
    Committed,
    /// No replica takes for committed what is not (R-REPL-12).
    HighWatermark,
    /// A leader's high watermark never falls within its leadership (R-REPL-14).
    LeaderHighWatermark,
    /// A replica's leader epoch never falls within the life of its process (R-REPL-2).
    ReplicaEpoch,
    /// What becomes committed is on as many replicas as min.insync.replicas asks for (R-REPL-13).
    MinIsr,
    /// Every in-sync replica has everything that is committed (R-REPL-12).
    InSync,
    /// The sequence numbers of a producer's epoch follow each other (R-PROD-24 to 26).
    Sequences,
    /// A producer id is given once (R-PROD-23).
    ProducerIds,
    /// The newest value of a key outlives compaction (R-LOG-41).
    NewestOfKey,
    /// What an acks=all producer is told is written is committed (R-REPL-29).
    Acknowledged,
    /// It is what this producer sent, and told of once (R-REPL-29, R-PROD-25).
    AcknowledgedContent,
    /// A producer with acks=0 is told of no offset, one with acks=1 of where a leader wrote what it sent (R-REPL-29).
    Told,
    /// What a partition's registration looks like (R-REPL-1, 40, 45).
    Registration,
    /// What may become of a partition in one change (R-REPL-2, 41 to 46).
    Succession,
    /// A broker that comes back is in no in-sync set, and one that stopped without warning in no ELR (R-REPL-56).
    ComesBack,
    /// An in-sync set is empty, and an ELR is not, only with eligible leader replicas (R-REPL-45, 47).
    EmptyIsr,
    /// Two nodes that replayed the same records hold equal images (R-CTRL-8).
    Images,
    /// One leader of the quorum an epoch (R-CTRL-2).
    QuorumLeader,
    /// One vote an epoch (R-CTRL-4).
    QuorumVote,
    /// A node's quorum epoch never falls (R-CTRL-2).
    QuorumEpoch,
    /// The quorum's high watermark never falls within the life of a process, and only what is below is applied (R-CTRL-5).
    QuorumHighWatermark,
    /// A majority has what is committed, and it stays as it is (R-CTRL-5).
    QuorumCommitted,
    /// No request waits for what is there already (R-REPL-16, 29).
    Purgatory,
    /// No fetch session is quiet about something its fetcher does not know (KIP-227).
    FetchSession,
    /// What a group coordinator knows is what its log says below the high watermark (R-GRP-3, 4).
    CoordinatorState,
    /// A member that is gone is out of its group when its session is over (R-GRP-21).
    SessionEnds,
    /// No two members own a partition by one generation (R-GRP-18, 30).
    OneOwner,
    /// What a cooperative member owns is given to another only after it has given it up (R-ASG-8).
    Handover,
    /// No commit is accepted in a generation that was over when it was sent (R-GRP-36).
    CommitGeneration,
    /// No commit is accepted from a member when another one had been given the partition before it was sent (R-CG8-19).
    CommitOwner,
    /// A consumer commits no offset behind what poll() returned to it (R-CONS-19).
    CommitReturned,
    /// In a stable group of the newer protocol each member has what it is to have (R-CG8-6).
    StableGroup,
    /// Of two members with one group.instance.id the first is fenced (R-GRP-24).
    Twins,
    /// A record of a share group is handed to one member at a time (R-SHARE-1).
    OneHolder,
    /// Each delivery of it counts (R-SHARE-8).
    DeliveryCount,
    /// Nobody holds it for longer than its lock runs (R-SHARE-7).
    LockEnds,
    /// A share group passes no record that nobody was done with (R-SHARE-11).
    ShareLoss,
    /// What a share group is done with is handed out to nobody by a later leader (R-SHARE-14).
    DoneForGood,
    /// The last stable offset passes no open transaction, and waits for nothing else (R-TXN-23).
    StableOffset,
    /// Readers of committed data get all of it, and nothing else (R-CONS-29, 30).
    ReadCommitted,
    /// Each transaction that was ended has its markers, and none hangs (R-TXN-19, 26).
    Markers,
    /// What a coordinator has decided stays so, and is completed (R-TXN-18, 28).
    Decision,
    /// A producer whose epoch is over gets nothing in (R-PROD-25, R-TXN-12, 14, 20).
    Epochs,
    /// Each record that an application has passed has one result (R-TXN-32, 34).
    ExactlyOnce,
    /// Time goes on.
    Standstill,
    /// The planned topics come to be.
    SetUp,
    /// When all faults have ended the cluster comes to rest.
    Rest,
    /// Each batch has its outcome within delivery.timeout.ms (R-PROD-18).
    Outcome,
    /// An idempotent producer's records stand once and in order (R-PROD-21, 25, 29).
    Order,
    /// What the ledger says of records is what is there.
    Ledger,
    /// Nothing panics.
    Panic,
}

impl Check {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Check::LogBounds => "log-bounds",
            Check::LogGaps => "log-gaps",
            Check::BatchEpochs => "batch-epochs",
            Check::OneLeader => "one-leader",
            Check::FollowerAppend => "follower-append",
            Check::Committed => "committed",
            Check::HighWatermark => "high-watermark",
            Check::LeaderHighWatermark => "leader-high-watermark",
            Check::ReplicaEpoch => "replica-epoch",
            Check::MinIsr => "min-isr",
            Check::InSync => "in-sync",
            Check::Sequences => "sequences",
            Check::ProducerIds => "producer-ids",
            Check::NewestOfKey => "newest-of-key",
            Check::Acknowledged => "acknowledged",
            Check::AcknowledgedContent => "acknowledged-content",
            Check::Told => "told",
            Check::Registration => "registration",
            Check::Succession => "succession",
            Check::ComesBack => "comes-back",
            Check::EmptyIsr => "empty-isr",
            Check::Images => "images",
            Check::QuorumLeader => "quorum-leader",
            Check::QuorumVote => "quorum-vote",
            Check::QuorumEpoch => "quorum-epoch",
            Check::QuorumHighWatermark => "quorum-high-watermark",
            Check::QuorumCommitted => "quorum-committed",
            Check::Purgatory => "purgatory",
            Check::FetchSession => "fetch-session",
            Check::CoordinatorState => "coordinator-state",
            Check::SessionEnds => "session-ends",
            Check::OneOwner => "one-owner",
            Check::Handover => "handover",
            Check::CommitGeneration => "commit-generation",
            Check::CommitOwner => "commit-owner",
            Check::CommitReturned => "commit-returned",
            Check::StableGroup => "stable-group",
            Check::Twins => "twins",
            Check::OneHolder => "one-holder",
            Check::DeliveryCount => "delivery-count",
            Check::LockEnds => "lock-ends",
            Check::ShareLoss => "share-loss",
            Check::DoneForGood => "done-for-good",
            Check::StableOffset => "stable-offset",
            Check::ReadCommitted => "read-committed",
            Check::Markers => "markers",
            Check::Decision => "decision",
            Check::Epochs => "epochs",
            Check::ExactlyOnce => "exactly-once",
            Check::Standstill => "standstill",
            Check::SetUp => "set-up",
            Check::Rest => "rest",
            Check::Outcome => "outcome",
            Check::Order => "order",
            Check::Ledger => "ledger",
            Check::Panic => "panic",
        }
    }

    /// It did not hold, and how.
    pub fn broken(self, what: impl Into<String>) -> Broken {
        Broken { check: self, what: what.into() }
    }

    /// Holds if nothing is wrong.
    pub fn verdict(self, fault: Option<String>) -> Verdict {
        fault.map_or(Ok(()), |fault| Err(self.broken(fault)))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub check: Check,
    pub what: String,
}

impl Broken {
    /// With the place in front of what is wrong there.
    pub fn at(self, place: impl fmt::Display) -> Broken {
        Broken { what: format!("{place}: {}", self.what), ..self }
    }
}

pub type Verdict = Result<(), Broken>;
