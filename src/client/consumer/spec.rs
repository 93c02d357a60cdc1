//! What a person says about a consumer.
//!
//! **Invariant:** a spec that passes [`ConsumerSpec::check`] makes a consumer that can run.

use std::collections::BTreeMap;

use super::config::ConsumerConfig;
use super::program::{Line, ProgramError};
use crate::client::config::ConfigError;
use crate::kafka::types::{ClientName, GroupId, Topic};

/// A consumer as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Its client.id too.
    pub name: ClientName,
    pub group: GroupId,
    /// What it subscribes to.
    pub topics: Vec<Topic>,
    pub program: Vec<Line>,
    /// Under Kafka's names.
    pub config: BTreeMap<String, String>,
}

/// A consumer that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("a consumer that subscribes needs a group.id")]
    NoGroup,
    #[error("a consumer needs a topic to subscribe to")]
    NoTopic,
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl ConsumerSpec {
    /// Reads the configs and refuses what cannot run.
    pub fn check(&self) -> Result<ConsumerConfig, SpecError> {
        if self.group.as_str().is_empty() {
            return Err(SpecError::NoGroup);
        }
        if self.topics.is_empty() {
            return Err(SpecError::NoTopic);
        }
        if !self.program.iter().any(|line| matches!(line, Line::Poll { .. })) {
            return Err(ProgramError::NoPoll.into());
        }
        Ok(ConsumerConfig::read(&self.config)?)
    }
}
