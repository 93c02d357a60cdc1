//! Faults that can be planted in the engine, to show that those who watch it find them.
//!
//! **Invariant:** without the feature `plant`, [`is`] is false at compile time and nothing of a fault is compiled.

/// A fault, named by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A leader answers a diverging follower as if it did not diverge (R-REPL-8).
    SkipTruncation,
    /// The high watermark follows the leader's own log end (R-REPL-12).
    HwBeforeIsr,
    /// acks=all is answered as soon as the leader has the batch (R-REPL-29).
    AckBeforeIsr,
    /// acks=1 is told of the offset behind the batch (R-REPL-29).
    NextOffsetTold,
    /// min.insync.replicas counts as 1 (R-REPL-13, 30).
    MinIsrIgnored,
    /// Any live replica may be elected (R-REPL-41).
    ElectOutsideIsr,
    /// A new leader gets the old leader epoch (R-REPL-2).
    EpochNotRaised,
    /// A follower takes in what it asked an earlier leader for (R-REPL-6).
    StaleEpochAppend,
    /// A leader drops a follower from its in-sync set before the controller agreed (R-REPL-22).
    FencedLeaderCommits,
    /// A broker that stopped without warning stays eligible (R-REPL-56).
    ElrUncleanMemberLeads,
    /// Any sequence number is the next one (R-PROD-25).
    SequenceUnchecked,
    /// A repeated batch is stored again (R-PROD-25).
    DedupeOff,
    /// A new controller hands out once more the producer ids that the one before it gave away last (R-PROD-23).
    PidReused,
    /// An idempotent producer numbers a batch anew that it tries again, behind later ones (R-PROD-21).
    RetryOvertakes,
    /// Retention deletes what is not committed (R-LOG-32).
    RetentionAboveHw,
    /// Compaction drops the newest record of a key (R-LOG-41).
    CompactionDropsNewest,
    /// A voter gives its vote to whoever asks (R-CTRL-4).
    TwoVotesAnEpoch,
    /// A metadata record is committed once the leader has it (R-CTRL-5).
    MetadataCommitWithoutMajority,
    /// A coordinator that takes over does not read the committed offsets (R-GRP-4).
    OffsetsNotLoaded,
    /// A coordinator that takes over passes over what says that an offset is gone (R-GRP-4).
    OffsetTombstoneIgnored,
    /// A member that is not heard of stays a member (R-GRP-21).
    SessionNeverEnds,
    /// A member that another process has replaced is told that it is not known (R-GRP-24).
    StaticTwinNotFenced,
    /// A commit is taken from anybody who names a generation (R-GRP-36).
    OldGenerationCommit,
    /// A consumer commits what it has fetched, whether or not poll() has returned it (R-CONS-19).
    CommitOfPrefetched,
    /// A group's leader gives a partition to two members (R-ASG-1).
    DoubleOwner,
    /// A cooperative plan gives away at once what its owner has not given up (R-ASG-8).
    RevokeNotAwaited,
    /// A member of the newer protocol gets what another one has not given up (R-CG8-11).
    UnreleasedAssigned,
    /// A member of the newer protocol that has to give up partitions is taken for one that has (R-CG8-12).
    RevocationNotAwaited,
    /// A coordinator that takes over does not read what members are to have (R-CG8-26).
    TargetsNotLoaded,
    /// A member of the newer protocol that is not heard of stays a member (R-CG8-14).
    MemberNeverExpires,
    /// A record that somebody holds is handed out again (R-SHARE-1).
    ShareDoubleAcquire,
    /// A lock runs for ever (R-SHARE-7).
    ShareLockNeverEnds,
    /// A delivery does not count (R-SHARE-8).
    ShareCountFrozen,
    /// A share coordinator that takes over reads nothing of what was done since a state began (R-SHARE-14).
    ShareUpdatesNotLoaded,
    /// The last stable offset does not wait for open transactions (R-TXN-23).
    LsoPastOpen,
    /// A leader does not tell which transactions were aborted (R-TXN-24).
    AbortedVisible,
    /// A marker that a leader did not take, or that was lost on the way, is not sent again (R-TXN-19).
    MarkerLost,
    /// Neither coordinator nor leader minds the epoch of a producer that was fenced (R-TXN-12, 20).
    OldEpochAccepted,
    /// Offsets of a transaction count before its marker (R-TXN-33).
    OffsetsBeforeCommit,
    /// A coordinator that takes over lets decided transactions lie (R-TXN-28).
    EndTxnLostOnFailover,
}

/// The faults that show without transactions, each with its name.
pub const PLANTS: [(&str, Plant); 34] = [
    ("skip-truncation", Plant::SkipTruncation),
    ("hw-before-isr", Plant::HwBeforeIsr),
    ("ack-before-isr", Plant::AckBeforeIsr),
    ("next-offset-told", Plant::NextOffsetTold),
    ("min-isr-ignored", Plant::MinIsrIgnored),
    ("elect-outside-isr", Plant::ElectOutsideIsr),
    ("epoch-not-raised", Plant::EpochNotRaised),
    ("stale-epoch-append", Plant::StaleEpochAppend),
    ("fenced-leader-commits", Plant::FencedLeaderCommits),
    ("elr-unclean-member-leads", Plant::ElrUncleanMemberLeads),
    ("sequence-unchecked", Plant::SequenceUnchecked),
    ("dedupe-off", Plant::DedupeOff),
    ("pid-reused", Plant::PidReused),
    ("retry-overtakes", Plant::RetryOvertakes),
    ("retention-above-hw", Plant::RetentionAboveHw),
    ("compaction-drops-newest", Plant::CompactionDropsNewest),
    ("two-votes-an-epoch", Plant::TwoVotesAnEpoch),
    ("metadata-commit-without-majority", Plant::MetadataCommitWithoutMajority),
    ("offsets-not-loaded", Plant::OffsetsNotLoaded),
    ("offset-tombstone-ignored", Plant::OffsetTombstoneIgnored),
    ("session-never-ends", Plant::SessionNeverEnds),
    ("static-twin-not-fenced", Plant::StaticTwinNotFenced),
    ("old-generation-commit", Plant::OldGenerationCommit),
    ("commit-of-prefetched", Plant::CommitOfPrefetched),
    ("double-owner", Plant::DoubleOwner),
    ("revoke-not-awaited", Plant::RevokeNotAwaited),
    ("unreleased-assigned", Plant::UnreleasedAssigned),
    ("revocation-not-awaited", Plant::RevocationNotAwaited),
    ("targets-not-loaded", Plant::TargetsNotLoaded),
    ("member-never-expires", Plant::MemberNeverExpires),
    ("share-double-acquire", Plant::ShareDoubleAcquire),
    ("share-lock-never-ends", Plant::ShareLockNeverEnds),
    ("share-count-frozen", Plant::ShareCountFrozen),
    ("share-updates-not-loaded", Plant::ShareUpdatesNotLoaded),
];

/// The faults that show where there are transactions.
pub const PLANTS_OF_TRANSACTIONS: [(&str, Plant); 6] = [
    ("lso-past-open", Plant::LsoPastOpen),
    ("aborted-visible", Plant::AbortedVisible),
    ("marker-lost", Plant::MarkerLost),
    ("old-epoch-accepted", Plant::OldEpochAccepted),
    ("offsets-before-commit", Plant::OffsetsBeforeCommit),
    ("endtxn-lost-on-failover", Plant::EndTxnLostOnFailover),
];

/// Every fault with its name.
pub fn named() -> impl Iterator<Item = (&'static str, Plant)> {
    PLANTS.into_iter().chain(PLANTS_OF_TRANSACTIONS)
}

/// Whether this build can plant a fault.
pub const CAN_PLANT: bool = cfg!(feature = "plant");

/// Whether `plant` is the fault of this run. Asked at the place where the fault would be.
#[cfg(not(feature = "plant"))]
pub const fn is(_plant: Plant) -> bool {
    false
}

#[cfg(feature = "plant")]
pub use planted::{choose, is};

/// Plants nothing: this build cannot.
#[cfg(not(feature = "plant"))]
pub fn choose(plant: Option<Plant>) {
    assert!(plant.is_none(), "this build cannot plant a fault");
}

/// One fault for each thread: a thread runs one cluster, and the others may run sound ones. It is chosen before a run and
/// stays, so a run is as repeatable as any.
#[cfg(feature = "plant")]
mod planted {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        static CHOSEN: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// The fault of every run of this thread from now on.
    pub fn choose(plant: Option<Plant>) {
        CHOSEN.set(plant);
    }

    /// Whether `plant` is the fault of this run.
    pub fn is(plant: Plant) -> bool {
        CHOSEN.get() == Some(plant)
    }
}
