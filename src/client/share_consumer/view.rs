//! A share consumer as others see it: read access for the view, the narrator and tests.
//!
//! **Invariant:** nothing here changes the consumer.

use super::{
    Activity, CloseStep, CurrentFetch, Errand, Exchange, ShareConsumer, ShareConsumerConfig,
    ShareConsumerSpec,
};
use crate::client::coordinator::Coordinator;
use crate::client::member::{Member, Phase};
use crate::client::metadata::Metadata;
use crate::client::program::Program;
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

/// What a share consumer's application thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// It is not started, works on a record, or is over.
    Nothing,
    /// It hangs at a line of its program.
    Hanging { since: Time },
    /// To ask a broker who coordinates the group.
    ToFindCoordinator { retry_at: Time },
    /// FindCoordinator.
    CoordinatorAnswer,
    /// The first ShareGroupHeartbeat.
    FirstHeartbeat,
    /// Records that can be handed out.
    Records,
    /// What becomes of its acknowledgements.
    Acknowledged,
    /// The answer to its goodbye.
    LeaveAnswer,
}

impl ShareConsumer {
    pub fn spec(&self) -> &ShareConsumerSpec {
        &self.spec
    }

    pub fn config(&self) -> &ShareConsumerConfig {
        &self.config
    }

    /// The application: its line, the record in hand, when that is done.
    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    pub fn coordinator(&self) -> Coordinator {
        self.coordinator
    }

    /// What it reads, with whoever else reads it.
    pub fn assigned(&self) -> &[TopicPartition] {
        &self.assigned
    }

    /// The records that the application has.
    pub fn current(&self) -> &CurrentFetch {
        &self.current
    }

    pub fn exchange_state(&self) -> &Exchange {
        &self.exchange
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether close() was asked for and waits for the program to come to its next poll.
    pub fn is_close_requested(&self) -> bool {
        self.close_requested
    }

    /// What the application's thread waits for.
    pub fn waiting(&self) -> Waiting {
        match self.program.activity {
            Activity::Stopped | Activity::Idle | Activity::Processing { .. } | Activity::CommittingAsync => {
                Waiting::Nothing
            }
            Activity::Calling { .. } | Activity::Looking { .. } | Activity::Reacting { .. } => {
                Waiting::Nothing
            }
            Activity::Hanging { since, .. } => Waiting::Hanging { since },
            Activity::Committing { .. } => Waiting::Acknowledged,
            Activity::Closing { step: CloseStep::Committing, .. } => match self.exchange.has(Errand::Close) {
                true => Waiting::Acknowledged,
                false => Waiting::LeaveAnswer,
            },
            Activity::Closing { .. } => Waiting::LeaveAnswer,
            Activity::Polling { .. } => match (self.coordinator, self.member.phase) {
                (Coordinator::Unknown { retry_at }, _) => Waiting::ToFindCoordinator { retry_at },
                (Coordinator::Finding { .. }, _) => Waiting::CoordinatorAnswer,
                (Coordinator::Known(_), Phase::Joining) => Waiting::FirstHeartbeat,
                (Coordinator::Known(_), _) => Waiting::Records,
            },
        }
    }
}
