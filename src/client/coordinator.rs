//! What a member of a group knows of its coordinator, and how it asks (the first half of Kafka's `AbstractCoordinator`).
//!
//! **Invariant:** none; who asks and when is the member's to decide.

use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId};

/// The key type of FindCoordinator that stands for groups.
const GROUP_KEY: i8 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coordinator {
    /// Not asked for before `retry_at`.
    Unknown {
        retry_at: Time,
    },
    /// FindCoordinator is on its way; the background thread asks another broker from `again_at` on.
    Finding {
        again_at: Time,
    },
    Known(BrokerId),
}

impl Coordinator {
    pub const UNKNOWN: Coordinator = Coordinator::Unknown { retry_at: Time::ZERO };

    pub fn broker(self) -> Option<BrokerId> {
        match self {
            Coordinator::Known(broker) => Some(broker),
            Coordinator::Unknown { .. } | Coordinator::Finding { .. } => None,
        }
    }

    /// Whether a broker is to be asked now; another one too if an answer is wanting for long and that is minded.
    pub fn is_to_be_found(self, now: Time, is_impatient: bool) -> bool {
        match self {
            Coordinator::Unknown { retry_at } => retry_at <= now,
            Coordinator::Finding { again_at } => again_at <= now && is_impatient,
            Coordinator::Known(_) => false,
        }
    }
}

pub fn find_request(group: &GroupId) -> FindCoordinatorRequest {
    FindCoordinatorRequest::default().with_key_type(GROUP_KEY).with_coordinator_keys(vec![group.to_wire()])
}

/// Who coordinates, as a broker says.
///
/// # Errors
///
/// What it says instead; COORDINATOR_NOT_AVAILABLE if it says nothing.
pub fn found(answer: &FindCoordinatorResponse) -> Result<BrokerId, ErrorCode> {
    let found = answer.coordinators.first().ok_or(ErrorCode::CoordinatorNotAvailable)?;
    match ErrorCode::from_code(found.error_code) {
        ErrorCode::None => Ok(BrokerId(found.node_id.0)),
        error => Err(error),
    }
}
