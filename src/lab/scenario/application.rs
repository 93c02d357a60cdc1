//! The applications of a scenario.

use super::parts::{configs, invalid_config, name, program, topic_name};
use super::reader::{Read, Section};
use super::{limits, time};
use crate::client::application::{ApplicationSpec, ApplicationSpecError};
use crate::client::config::ConfigError;
use crate::client::config::producer::PRODUCER_KEYS;
use crate::client::consumer::SpecError;
use crate::client::consumer::config::KEYS as CONSUMER_KEYS;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, Topic};

use super::share::keys as common_keys;

pub(super) fn applications(root: Section) -> Read<Vec<(Time, ApplicationSpec)>> {
    root.sections("application", "[[application]]")?.into_iter().map(application).collect()
}

fn application(section: Section) -> Read<(Time, ApplicationSpec)> {
    section.only(&["name", "group", "topics", "output", "program", "config", "start-at"])?;
    let config = configs(section)?;
    let topics = section.required("topics", "[\"orders\"]")?;
    let lines = section
        .required("program", "[\"poll\", \"process 5ms\", \"send results\", \"flush\", \"commit\"]")?;
    let spec = ApplicationSpec {
        name: ClientName::new(name(section.required("name", "\"pricing\"")?)?),
        group: GroupId::new(name(section.required("group", "\"pricing\"")?)?),
        topics: topics.texts()?.into_iter().map(topic_name).collect::<Read<Vec<Topic>>>()?,
        output: topic_name(section.required("output", "\"prices\"")?)?,
        program: program(lines)?,
        config: config.as_ref().map(|configs| configs.values.clone()).unwrap_or_default(),
    };
    spec.check().map_err(|error| {
        let of_config = |error: &ConfigError| match &config {
            Some(configs) => {
                let known = common_keys().chain(CONSUMER_KEYS).chain(PRODUCER_KEYS).map(|key| key.name);
                invalid_config(configs, &error.key, &error.to_string(), known)
            }
            None => section.error(error.to_string()),
        };
        match &error {
            ApplicationSpecError::Producer(error)
            | ApplicationSpecError::Consumer(SpecError::Config(error)) => of_config(error),
            ApplicationSpecError::Consumer(SpecError::Program(_))
            | ApplicationSpecError::NotTransactional(_) => lines.error(error.to_string()),
            ApplicationSpecError::Consumer(SpecError::NoTopic) => topics.error(error.to_string()),
            ApplicationSpecError::Consumer(_) => section.error(error.to_string()),
        }
    })?;
    Ok((time(section.field("start-at"), limits::TIME_US)?, spec))
}
