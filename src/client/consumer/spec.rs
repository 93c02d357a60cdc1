//! What a person says about a consumer.
//!
//! **Invariant:** a spec that passes [`ConsumerSpec::check`] makes a consumer that can run.

use std::collections::BTreeMap;

use super::choice::Choice;
use super::config::ConsumerConfig;
use crate::client::config::ConfigError;
use crate::client::pattern::PatternError;
use crate::client::program::{Line, ProgramError};
use crate::kafka::types::{ClientName, GroupId};

/// A consumer as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSpec {
    /// Its client.id too.
    pub name: ClientName,
    /// Its group.id; empty for none, which only [`Choice::Partitions`] allows.
    pub group: GroupId,
    /// What it reads at first.
    pub choice: Choice,
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
    #[error("a consumer that is given partitions needs at least one")]
    NoPartition,
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(
        "Subscribe to RE2/J pattern is not supported when using the CLASSIC protocol defined in config group.protocol"
    )]
    ClassicRe2j,
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl ConsumerSpec {
    /// Reads the configs and refuses what cannot run.
    pub fn check(&self) -> Result<ConsumerConfig, SpecError> {
        if let Some(line) = self.program.iter().find(|line| line.is_of_applications_alone()) {
            return Err(ProgramError::NotForConsumers(*line).into());
        }
        self.check_embedded()
    }

    /// The same for a consumer of an application, whose program may have a producer's calls.
    pub fn check_embedded(&self) -> Result<ConsumerConfig, SpecError> {
        if self.choice.is_in_group() && !self.has_group() {
            return Err(SpecError::NoGroup);
        }
        match &self.choice {
            Choice::Topics(topics) if topics.is_empty() => return Err(SpecError::NoTopic),
            Choice::Partitions(partitions) if partitions.is_empty() => return Err(SpecError::NoPartition),
            Choice::Re2j(pattern) if pattern.is_empty() => return Err(PatternError::Empty.into()),
            _ => {}
        }
        if !self.program.iter().any(|line| matches!(line, Line::Poll { .. })) {
            return Err(ProgramError::NoPoll.into());
        }
        if let Some(line) = self.program.iter().find(|line| matches!(line, Line::Acknowledge(_))) {
            return Err(ProgramError::NotShared(*line).into());
        }
        let config = ConsumerConfig::read(&self.config)?;
        if matches!(self.choice, Choice::Re2j(_)) && !config.is_modern {
            return Err(SpecError::ClassicRe2j);
        }
        Ok(if self.has_group() { config } else { config.without_group(&self.config)? })
    }

    pub fn has_group(&self) -> bool {
        !self.group.as_str().is_empty()
    }
}
