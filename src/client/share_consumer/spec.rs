//! What a person says about a share consumer.
//!
//! **Invariant:** a spec that passes [`ShareConsumerSpec::check`] makes a share consumer that can run.

use std::collections::BTreeMap;

use super::config::ShareConsumerConfig;
use crate::client::consumer::SpecError;
use crate::client::program::{Line, ProgramError};
use crate::client::saying::Choice;
use crate::kafka::types::{ClientName, GroupId, Topic};

/// A share consumer as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConsumerSpec {
    /// Its client.id too.
    pub name: ClientName,
    pub group: GroupId,
    /// What it subscribes to.
    pub topics: Vec<Topic>,
    pub program: Vec<Line>,
    /// Under Kafka's names.
    pub config: BTreeMap<String, String>,
}

impl ShareConsumerSpec {
    /// Reads the configs and refuses what cannot run. Where a program would run into an exception for certain (R-SHARE-13),
    /// it is refused with Kafka's words.
    pub fn check(&self) -> Result<ShareConsumerConfig, SpecError> {
        if self.group.as_str().is_empty() {
            return Err(SpecError::NoGroup);
        }
        if self.topics.is_empty() {
            return Err(SpecError::NoTopic);
        }
        if !self.program.iter().any(|line| matches!(line, Line::Poll { .. })) {
            return Err(ProgramError::NoPoll.into());
        }
        if let Some(line) = self.program.iter().find(|line| line.is_of_consumers_alone()) {
            return Err(ProgramError::NotForShares(*line).into());
        }
        let config = ShareConsumerConfig::read(&self.config)?;
        let saying = self.program.iter().find(|line| matches!(line, Line::Acknowledge(_)));
        match (config.is_explicit, saying) {
            (false, Some(line)) => Err(ProgramError::Implicit(*line).into()),
            (true, _) if self.leaves_records_open() => Err(ProgramError::NotAll.into()),
            _ => Ok(config),
        }
    }

    /// Whether a poll may find records of the one before of which nothing was said.
    fn leaves_records_open(&self) -> bool {
        let mut open = false;
        // What comes before the first poll speaks of the last one's records.
        for line in self.program.iter().chain(&self.program) {
            match line {
                Line::Poll { .. } if open => return true,
                Line::Poll { .. } => open = true,
                Line::Acknowledge(saying) if saying.of == Choice::All => open = false,
                _ => {}
            }
        }
        false
    }
}
