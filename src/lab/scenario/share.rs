//! The share consumers of a scenario.

use super::parts::{configs, invalid_config, name, program, topic_name};
use super::reader::{Read, Section};
use super::{limits, time};
use crate::client::config::{COMMON_KEYS, Key};
use crate::client::consumer::SpecError;
use crate::client::consumer::config::{FETCH_KEYS, KEYS as CONSUMER_KEYS};
use crate::client::share_consumer::ShareConsumerSpec;
use crate::client::share_consumer::config::KEYS;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, Topic};
use crate::lab::command::default_share_program;

/// The configs that a share consumer has.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().chain(FETCH_KEYS).chain(COMMON_KEYS)
}

pub(super) fn share_consumers(root: Section) -> Read<Vec<(Time, ShareConsumerSpec)>> {
    root.sections("share-consumer", "[[share-consumer]]")?.into_iter().map(share_consumer).collect()
}

fn share_consumer(section: Section) -> Read<(Time, ShareConsumerSpec)> {
    section.only(&["name", "group", "topics", "program", "config", "start-at"])?;
    let config = configs(section)?;
    let topics = section.required("topics", "[\"orders\"]")?;
    let spec = ShareConsumerSpec {
        name: ClientName::new(name(section.required("name", "\"worker-a\"")?)?),
        group: GroupId::new(name(section.required("group", "\"payments\"")?)?),
        topics: topics.texts()?.into_iter().map(topic_name).collect::<Read<Vec<Topic>>>()?,
        program: section.field("program").map_or_else(|| Ok(default_share_program()), program)?,
        config: config.as_ref().map(|configs| configs.values.clone()).unwrap_or_default(),
    };
    spec.check().map_err(|error| match (&error, &config, section.field("program")) {
        (SpecError::Config(error), Some(configs), _) => {
            // One that is a consumer's alone is no slip of the pen.
            let known = keys().chain(CONSUMER_KEYS).map(|key| key.name);
            invalid_config(configs, &error.key, &error.to_string(), known)
        }
        (SpecError::Program(error), _, Some(field)) => field.error(error.to_string()),
        (SpecError::NoTopic, ..) => topics.error("a share consumer subscribes to at least one topic"),
        _ => section.error(error.to_string()),
    })?;
    Ok((time(section.field("start-at"), limits::TIME_US)?, spec))
}
