//! A consumer as others see it: read access for the view, the narrator and tests.
//!
//! **Invariant:** nothing here changes the consumer.

use super::Consumer;
use super::commits::{Commits, SyncStep};
use super::config::ConsumerConfig;
use super::fetcher::Fetcher;
use super::membership::{Join, JoinPrepare, Membership};
use super::owned::FetchState;
use super::spec::ConsumerSpec;
use super::subscription::SubscriptionState;
use crate::client::coordinator::Coordinator;
use crate::client::member::Phase;
use crate::client::metadata::Metadata;
use crate::client::program::{Activity, CloseStep, Program};
use crate::kafka::time::Time;
use crate::kafka::types::BrokerId;

/// What a consumer's application thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// It is not started, works on a record, or is over.
    Nothing,
    /// It hangs at a line of its program.
    Hanging { since: Time },
    /// Somebody to have it subscribe or assign.
    Choice,
    /// To ask a broker who coordinates the group.
    ToFindCoordinator { retry_at: Time },
    /// FindCoordinator.
    CoordinatorAnswer,
    /// The commit before partitions are given up.
    CommitBeforeJoin { until: Time },
    /// To try again to join, or to commit before.
    JoinBackoff { until: Time },
    /// JoinGroup, which waits for the other members (R-GRP-11).
    JoinAnswer { since: Time },
    /// The leader: metadata of topics that others subscribe to.
    MetadataForPlan { since: Time },
    /// The first ConsumerGroupHeartbeat of a member of the newer protocol.
    FirstHeartbeat,
    /// SyncGroup, which waits for the leader's plan.
    SyncAnswer { since: Time },
    /// OffsetFetch, or its next try.
    CommittedOffsets { retry_at: Option<Time> },
    /// ListOffsets, or its next try.
    OffsetReset,
    /// OffsetsForLeaderEpoch, or its next try.
    Validation,
    /// Answers to fetches.
    Records { from: Vec<BrokerId> },
    /// The answer to commitSync(), or its next try.
    Commit { retry_at: Option<Time> },
    /// LeaveGroup.
    LeaveAnswer,
    /// The last fetches, which end the sessions with the brokers.
    FetchSessionEnd,
}

impl Consumer {
    pub fn spec(&self) -> &ConsumerSpec {
        &self.spec
    }

    pub fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    /// The application: its line, the record in hand, when that is done.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Member id, generation, coordinator, heartbeat deadlines, how far a join is.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Owned partitions with position, committed offset and log ends.
    pub fn subscription(&self) -> &SubscriptionState {
        &self.subscription
    }

    /// What is fetched and not yet returned.
    pub fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether close() was asked for and waits for the program to come to its next poll.
    pub fn is_close_requested(&self) -> bool {
        self.close_requested.is_some()
    }

    /// What the application's thread waits for.
    pub fn waiting(&self) -> Waiting {
        match self.program.activity {
            Activity::Stopped
            | Activity::Processing { .. }
            | Activity::Calling { .. }
            | Activity::Reacting { .. }
            | Activity::CommittingAsync => Waiting::Nothing,
            Activity::Hanging { since, .. } => Waiting::Hanging { since },
            Activity::Looking { .. } => Waiting::OffsetReset,
            Activity::Idle => Waiting::Choice,
            Activity::Closing { step: CloseStep::Leaving | CloseStep::Left, .. } => Waiting::LeaveAnswer,
            Activity::Closing { step: CloseStep::EndingSessions { .. }, .. } => Waiting::FetchSessionEnd,
            Activity::Polling { .. } if !self.subscription.is_in_group() => self.assigned_poll_waits_for(),
            Activity::Polling { .. } => {
                self.waiting_for_coordinator().unwrap_or_else(|| self.poll_waits_for())
            }
            Activity::Committing { .. } | Activity::Closing { .. } => {
                self.waiting_for_coordinator().unwrap_or_else(|| self.commit_waits_for())
            }
        }
    }

    fn waiting_for_coordinator(&self) -> Option<Waiting> {
        match self.membership.coordinator {
            Coordinator::Known(_) => None,
            Coordinator::Unknown { retry_at } => Some(Waiting::ToFindCoordinator { retry_at }),
            Coordinator::Finding { .. } => Some(Waiting::CoordinatorAnswer),
        }
    }

    fn commit_waits_for(&self) -> Waiting {
        let retry_at = self.commits.sync().and_then(|sync| match sync.step {
            SyncStep::ToSend(at) => Some(at),
            SyncStep::InFlight => None,
        });
        Waiting::Commit { retry_at }
    }

    fn poll_waits_for(&self) -> Waiting {
        if let Some(member) = &self.membership.modern {
            match (member.phase, self.membership.prepare) {
                (Phase::Joining, _) => return Waiting::FirstHeartbeat,
                (_, JoinPrepare::Committing { until } | JoinPrepare::Retrying { until, .. }) => {
                    return Waiting::CommitBeforeJoin { until };
                }
                _ => {}
            }
        }
        match self.membership.join {
            Join::Joining { since } => return Waiting::JoinAnswer { since },
            Join::AwaitingMetadata { since, .. } => return Waiting::MetadataForPlan { since },
            Join::Syncing { since } => return Waiting::SyncAnswer { since },
            Join::Idle { not_before } if self.membership.rejoin_needed => {
                return match self.membership.prepare {
                    JoinPrepare::Committing { until } => Waiting::CommitBeforeJoin { until },
                    JoinPrepare::Retrying { at, .. } => Waiting::JoinBackoff { until: at },
                    _ => Waiting::JoinBackoff { until: not_before },
                };
            }
            Join::Idle { .. } | Join::Synced { .. } => {}
        }
        self.positions_wait_for()
    }

    /// With assign() only committed offsets need a coordinator.
    fn assigned_poll_waits_for(&self) -> Waiting {
        let needs_coordinator = self.spec.has_group() && !self.subscription.initializing().is_empty();
        let coordinator = self.waiting_for_coordinator().filter(|_| needs_coordinator);
        coordinator.unwrap_or_else(|| self.positions_wait_for())
    }

    fn positions_wait_for(&self) -> Waiting {
        let states: Vec<FetchState> = self.subscription.owned().values().map(|owned| owned.state).collect();
        if states.contains(&FetchState::Initializing) {
            let lookup = &self.committed_lookup;
            let retry_at = (!lookup.is_in_flight()).then(|| lookup.retry_at());
            return Waiting::CommittedOffsets { retry_at };
        }
        if states.iter().any(|state| matches!(state, FetchState::AwaitReset { .. })) {
            return Waiting::OffsetReset;
        }
        if !states.is_empty()
            && states.iter().all(|state| matches!(state, FetchState::AwaitValidation { .. }))
        {
            return Waiting::Validation;
        }
        Waiting::Records { from: self.fetcher.in_flight().iter().copied().collect() }
    }
}
