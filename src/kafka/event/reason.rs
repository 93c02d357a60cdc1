//! Why something happened: the reasons and states that events name.

use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{LeaderEpoch, Offset};

/// What of a record an application could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordPart {
    Key,
    Value,
}

/// Why a partition's leader or in-sync set was changed by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeReason {
    BrokerFenced,
    BrokerUnfenced,
    /// A broker that had stopped without warning registered again (R-REPL-56).
    UncleanShutdown,
    /// The leader asked for it (AlterPartition).
    LeaderRequest,
    /// A broker said that it is about to stop (R-REPL-55).
    ControlledShutdown,
    /// Back to the first replica of the list: asked for, or found by the periodic check (R-REPL-44, 49).
    PreferredElection,
    /// Anybody rather than nobody: asked for, or found by the periodic check (R-REPL-43, 49).
    UncleanElection,
    /// Somebody moved the partition to other replicas (R-REPL-58).
    Reassignment,
    /// A controller that is no longer active decided it; its successor found it in the log.
    EarlierController,
}

/// Why a replica cut its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TruncationReason {
    /// The leader's answer named a diverging epoch (R-REPL-36).
    DivergingEpoch { epoch: LeaderEpoch, end_offset: Offset },
    /// The replica knew no leader epoch and fell back to its high watermark (R-REPL-35).
    NoEpochKnown,
    /// The leader's log ends before this one (R-REPL-37).
    OutOfRange,
}

/// Why a log begins later than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogStartReason {
    /// Its oldest segments were older than that (R-LOG-35).
    Time { retention_ms: i64 },
    /// Without its oldest segments it is still not smaller than that (R-LOG-34).
    Size { retention_bytes: i64 },
    /// Somebody asked for it (DeleteRecords, R-LOG-37).
    DeleteRecords,
    /// The leader's log begins there (R-LOG-36).
    Leader,
}

/// States of a classic group (R-GRP-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Dead,
}

impl GroupState {
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        }
    }
}

/// States of a consumer group of the newer protocol (R-CG8-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerGroupState {
    /// No member.
    Empty,
    /// A new target assignment is needed and not computed yet.
    Assigning,
    /// Some member has not reached the target.
    Reconciling,
    Stable,
    /// The group is gone.
    Dead,
}

impl ConsumerGroupState {
    /// The word that administrators are told.
    pub fn name(self) -> &'static str {
        match self {
            ConsumerGroupState::Empty => "Empty",
            ConsumerGroupState::Assigning => "Assigning",
            ConsumerGroupState::Reconciling => "Reconciling",
            ConsumerGroupState::Stable => "Stable",
            ConsumerGroupState::Dead => "Dead",
        }
    }
}

/// Why a member is no longer in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberRemoval {
    Left,
    /// No heartbeat for session.timeout.ms (R-GRP-21).
    SessionExpired,
    /// Did not re-join before the rebalance timeout (R-GRP-13).
    DidNotRejoin,
    /// Never sent SyncGroup (R-GRP-19).
    DidNotSync,
    /// Re-joined a group that has group.max.size members already (R-GRP-8).
    GroupFull,
    /// Did not give up partitions before the rebalance timeout (R-CG8-13).
    DidNotRevoke,
}

/// What set off a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RebalanceReason {
    MemberJoined,
    MemberRemoved(MemberRemoval),
    /// The leader, or a follower whose metadata changed, joined again (R-GRP-10).
    MemberRejoined,
    /// The group went back to the classic protocol before the last change had become a target (R-CG8-25).
    TargetOutdated,
    /// The group's state could not be written.
    WriteFailed,
    /// The group was loaded with more members than group.max.size (R-GRP-4).
    GroupTooLarge,
}

/// Why a consumer gave up partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevokeReason {
    /// onPartitionsRevoked before re-joining (R-GRP-29).
    Rebalance,
    /// onPartitionsRevoked of a cooperative member: the new plan takes them from it (R-GRP-30).
    Reassigned,
    /// onPartitionsRevoked with group.protocol=consumer: the coordinator assigns them to others (R-CG8-18).
    Reconciled,
    /// onPartitionsLost: the member is no longer known (R-GRP-32).
    Lost,
    /// onPartitionsRevoked: the application does not want to read them any more.
    Unsubscribed,
    Closing,
}

/// What came of a commitAsync(), as its callback is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitOutcome {
    Committed,
    /// It could be tried again, which the client does not do (R-CONS-20).
    Retriable,
    Failed(ErrorCode),
}

/// Where a consumer's position came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PositionSource {
    Committed,
    /// auto.offset.reset=earliest: the log start.
    Earliest,
    /// auto.offset.reset=latest: the high watermark.
    Latest,
    /// auto.offset.reset=by_duration: the first record that is not older.
    ByDuration,
    /// seek().
    Seek,
}

/// A fault or another act from outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    Started,
    /// kill -9: no warning to anyone, connections are reset.
    Killed,
    /// The machine has no power: nobody is told, and what was not flushed is gone.
    PowerCut,
    /// The process stands still (SIGSTOP, a long GC pause).
    Frozen,
    Thawed,
    /// The process ended by itself after it said goodbye.
    Ended,
}

/// How a person stops the thread of an application at a line of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Halt {
    /// kill -9: the process is gone.
    Crash,
    /// A long pause of the garbage collector: the whole process stands still.
    Freeze,
    /// That thread alone is stuck, as in a call that does not return.
    Hang,
}
