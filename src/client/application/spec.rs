//! What a person says about an application.
//!
//! **Invariant:** a spec that passes [`ApplicationSpec::check`] makes an application that can run.

use std::collections::BTreeMap;

use crate::client::config::producer::{PRODUCER_KEYS, ProducerConfig};
use crate::client::config::{COMMON_KEYS, ConfigError};
use crate::client::consumer::{Choice, ConsumerSpec, SpecError};
use crate::client::program::Line;
use crate::kafka::types::{ClientName, GroupId, Topic};

/// An application as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationSpec {
    /// `client.id` of both its clients too.
    pub name: ClientName,
    pub group: GroupId,
    /// What it reads.
    pub topics: Vec<Topic>,
    /// Where its results go, one for each record.
    pub output: Topic,
    pub program: Vec<Line>,
    /// Of both clients, under Kafka's names: each has those that it knows. The consumer does not commit by itself.
    pub config: BTreeMap<String, String>,
}

/// An application that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationSpecError {
    #[error(transparent)]
    Consumer(#[from] SpecError),
    #[error(transparent)]
    Producer(#[from] ConfigError),
    #[error("{0}: only with transactional.id")]
    NotTransactional(Line),
}

impl ApplicationSpec {
    /// Reads the configs and refuses what cannot run.
    pub fn check(&self) -> Result<(), ApplicationSpecError> {
        self.consumer().check_embedded()?;
        ProducerConfig::read(&self.producer_config())?;
        let is_transactional = self.config.get("transactional.id").is_some_and(|id| !id.is_empty());
        match self.program.iter().find(|line| line.is_of_transactions()) {
            Some(line) if !is_transactional => Err(ApplicationSpecError::NotTransactional(*line)),
            _ => Ok(()),
        }
    }

    pub(super) fn consumer(&self) -> ConsumerSpec {
        let own =
            |key: &String| PRODUCER_KEYS.iter().any(|known| known.name == key) && key != "client.library";
        let mut config: BTreeMap<String, String> = self.config.clone();
        config.retain(|key, _| !own(key));
        config.entry("enable.auto.commit".to_owned()).or_insert_with(|| "false".to_owned());
        ConsumerSpec {
            name: self.name.clone(),
            group: self.group.clone(),
            choice: Choice::Topics(self.topics.clone()),
            program: self.program.clone(),
            config,
        }
    }

    pub(super) fn producer_config(&self) -> BTreeMap<String, String> {
        let known = |key: &String| PRODUCER_KEYS.iter().chain(COMMON_KEYS).any(|known| known.name == key);
        self.config
            .iter()
            .filter(|(key, _)| known(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}
