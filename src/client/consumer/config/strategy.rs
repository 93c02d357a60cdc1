//! `partition.assignment.strategy`.
//!
//! **Invariant:** a strategy has at least one assignor, each once.

use std::rc::Rc;

use super::keys::STRATEGY;
use crate::client::config::ConfigError;
use crate::kafka::group::assignor::{ClientAssignor, RebalanceProtocol};

/// The assignors that a member brings along, in the order in which it would have them (`partition.assignment.strategy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy(Rc<[ClientAssignor]>);

impl Strategy {
    pub(super) fn read(names: &[String]) -> Result<Strategy, ConfigError> {
        let refused = |reason: String| ConfigError::new(STRATEGY, names.join(","), reason);
        let mut assignors: Vec<ClientAssignor> = Vec::new();
        for name in names {
            let Some(assignor) = ClientAssignor::of_config(name) else {
                let known = ClientAssignor::ALL.map(ClientAssignor::name).join(", ");
                return Err(refused(format!("{name:?} is none of: {known}")));
            };
            if assignors.contains(&assignor) {
                let name = assignor.name();
                return Err(refused(format!(
                    "The assignor name: '{name}' is used in more than one assignor"
                )));
            }
            assignors.push(assignor);
        }
        match assignors.is_empty() {
            true => Err(refused("a consumer that subscribes needs at least one assignor".to_owned())),
            false => Ok(Strategy(assignors.into())),
        }
    }

    pub fn assignors(&self) -> &[ClientAssignor] {
        &self.0
    }

    /// The one that the coordinator has chosen.
    pub(in crate::client::consumer) fn find(&self, name: &str) -> Option<ClientAssignor> {
        self.0.iter().copied().find(|assignor| assignor.name() == name)
    }

    /// How this member hands partitions over: the best that all its assignors can (R-GRP-28). All of Kafka's can do
    /// eager, so there always is one.
    pub fn protocol(&self) -> RebalanceProtocol {
        let cooperative =
            |assignor: &ClientAssignor| assignor.protocols().contains(&RebalanceProtocol::Cooperative);
        match self.0.iter().all(cooperative) {
            true => RebalanceProtocol::Cooperative,
            false => RebalanceProtocol::Eager,
        }
    }
}
