//! Dynamic configs: of topics, of single brokers and of all brokers, as the active controller changes them.
//!
//! Mirrors `ConfigurationControlManager` and `ControllerConfigurationValidator` (R-LOG-53, R-REPL-48).
//!
//! **Invariant:** what a resource has after a change is valid as a whole; else nothing of the change is done.

use std::collections::BTreeMap;

use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;

use super::image::ClusterImage;
use super::partitions::Basis;
use super::topics::Refused;
use crate::kafka::config::{
    Key, NULL, broker_key, check_group_config, check_topic_config, group_key, topic_key,
};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::topic_name;
use crate::kafka::types::{BrokerId, GroupId, Topic};

/// Kafka's codes for what configs belong to (`ConfigResource.Type`).
pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const CLIENT_METRICS: i8 = 16;
pub const GROUP: i8 = 32;

/// Kafka lets clients be asked for metrics of theirs (KIP-714).
pub const NO_CLIENT_METRICS: &str = "Client metrics, and their configs, are not modelled here.";

/// The longest value.
const MAX_VALUE_LENGTH: usize = i16::MAX as usize;
pub const MIN_ISR: &str = "min.insync.replicas";

/// What is done to a value (`AlterConfigOp.OpType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Set,
    Delete,
    Append,
    Subtract,
}

impl Op {
    pub fn of_code(code: i8) -> Option<Op> {
        Some(match code {
            0 => Op::Set,
            1 => Op::Delete,
            2 => Op::Append,
            3 => Op::Subtract,
            _ => return None,
        })
    }

    pub fn code(self) -> i8 {
        match self {
            Op::Set => 0,
            Op::Delete => 1,
            Op::Append => 2,
            Op::Subtract => 3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Op::Set => "SET",
            Op::Delete => "DELETE",
            Op::Append => "APPEND",
            Op::Subtract => "SUBTRACT",
        }
    }
}

/// Where a value comes from (`DescribeConfigsResponse.ConfigSource`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    Topic,
    DynamicBroker,
    DynamicDefault,
    Static,
    Default,
    Group,
}

impl ConfigSource {
    pub fn code(self) -> i8 {
        match self {
            ConfigSource::Topic => 1,
            ConfigSource::DynamicBroker => 2,
            ConfigSource::DynamicDefault => 3,
            ConfigSource::Static => 4,
            ConfigSource::Default => 5,
            ConfigSource::Group => 8,
        }
    }
}

/// What `op` makes of a list that was `before`, or stood at its key's default.
pub fn changed_list(key: &Key, before: Option<&str>, op: Op, values: &str) -> String {
    let before = before.unwrap_or(if key.default == NULL { "" } else { key.default });
    let mut list: Vec<&str> = before.split(',').filter(|part| !part.is_empty()).collect();
    for value in values.split(',') {
        match op {
            Op::Append if list.contains(&value) => {}
            Op::Append => list.push(value),
            _ => {
                if let Some(at) = list.iter().position(|part| *part == value) {
                    list.remove(at);
                }
            }
        }
    }
    list.join(",")
}

/// Topic, broker, all brokers or group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    Topic(Topic),
    /// `None`: the default of all brokers.
    Broker(Option<BrokerId>),
    Group(GroupId),
}

impl Resource {
    /// # Errors
    ///
    /// INVALID_REQUEST for a kind that has no configs here, a broker's name that is no id, or a group without a name.
    pub fn read(resource_type: i8, name: &str) -> Result<Resource, Refused> {
        let invalid = |sentence: &str| Err((ErrorCode::InvalidRequest, sentence.to_string()));
        match (resource_type, name) {
            (TOPIC, "") => invalid("Default topic resources are not allowed."),
            (TOPIC, name) => match topic_name::check(name) {
                Ok(()) => Ok(Resource::Topic(Topic::new(name))),
                Err(reason) => {
                    Err((ErrorCode::InvalidTopicException, format!("Topic name is invalid: {reason}.")))
                }
            },
            (BROKER, "") => Ok(Resource::Broker(None)),
            (BROKER, name) => match name.parse::<i32>() {
                Ok(id) if id < 0 => invalid("Invalid negative broker ID."),
                Ok(id) => Ok(Resource::Broker(Some(BrokerId(id)))),
                Err(_) => invalid("Unable to parse broker name as a base 10 number."),
            },
            (GROUP, "") => invalid("Default group resources are not allowed."),
            (GROUP, name) => Ok(Resource::Group(GroupId::new(name))),
            (CLIENT_METRICS, _) => invalid(NO_CLIENT_METRICS),
            (other, _) => invalid(&format!("Unknown resource type {other}")),
        }
    }

    fn key(&self, name: &str) -> Option<Key> {
        match self {
            Resource::Topic(_) => topic_key(name).copied(),
            Resource::Broker(_) => broker_key(name),
            Resource::Group(_) => group_key(name).copied(),
        }
    }

    /// What the log says of it.
    pub fn values(&self, image: &ClusterImage) -> BTreeMap<String, String> {
        match self {
            Resource::Topic(name) => image.topic(name).map(|topic| topic.config.clone()),
            Resource::Broker(None) => Some(image.cluster_config.clone()),
            Resource::Broker(Some(broker)) => image.broker_configs.get(broker).cloned(),
            Resource::Group(name) => image.group_configs.get(name.as_str()).cloned(),
        }
        .unwrap_or_default()
    }

    fn check_existence(&self, image: &ClusterImage) -> Result<(), Refused> {
        match self {
            Resource::Topic(name) if image.topic(name).is_none() => {
                Err((ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist.")))
            }
            Resource::Broker(Some(broker)) if !image.brokers.contains_key(broker) => {
                Err((ErrorCode::BrokerIdNotRegistered, format!("No broker with id {broker} found.")))
            }
            _ => Ok(()),
        }
    }

    fn record(&self, key: &str, value: Option<String>) -> MetadataRecord {
        let (resource, name) = match self {
            Resource::Topic(name) => (ConfigResource::Topic, name.to_string()),
            Resource::Broker(broker) => {
                (ConfigResource::Broker, broker.map(|id| id.to_string()).unwrap_or_default())
            }
            Resource::Group(name) => (ConfigResource::Group, name.to_string()),
        };
        MetadataRecord::Config { resource, name, key: key.to_string(), value }
    }
}

/// The records that change one resource's configs.
pub fn alter(resource: &AlterConfigsResource, basis: Basis<'_>) -> Result<Vec<MetadataRecord>, Refused> {
    let target = Resource::read(resource.resource_type, &resource.resource_name)?;
    let records = altered(&target, &resource.configs, basis)?;
    target.check_existence(basis.image)?;
    Ok(records)
}

/// The configs of a topic that is about to be created.
pub fn created(
    name: &Topic,
    configs: BTreeMap<String, Option<String>>,
    basis: Basis<'_>,
) -> Result<Vec<MetadataRecord>, Refused> {
    let nulls: Vec<&str> =
        configs.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key.as_str()).collect();
    if !nulls.is_empty() {
        let sentence = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err((ErrorCode::InvalidConfig, sentence));
    }
    let config = |(key, value): (String, Option<String>)| {
        AlterableConfig::default().with_name(key.into()).with_value(value.map(Into::into))
    };
    let configs: Vec<AlterableConfig> = configs.into_iter().map(config).collect();
    let mut records = altered(&Resource::Topic(name.clone()), &configs, basis)?;
    records.extend(elr_cleared_by(&records, basis.image));
    Ok(records)
}

fn altered(
    target: &Resource,
    configs: &[AlterableConfig],
    basis: Basis<'_>,
) -> Result<Vec<MetadataRecord>, Refused> {
    let invalid = |sentence: String| Err((ErrorCode::InvalidConfig, sentence));
    let mut values = target.values(basis.image);
    let mut records = Vec::new();
    for config in configs {
        let name = config.name.as_str();
        let Some(op) = Op::of_code(config.config_operation) else {
            let sentence = format!("Unknown operations type {}", config.config_operation);
            return Err((ErrorCode::InvalidRequest, sentence));
        };
        let given = config.value.as_ref().map(|value| value.to_string());
        let before = values.get(name).cloned();
        let after = match (op, target.key(name).filter(|key| key.kind.is_list())) {
            (Op::Set, _) => given,
            (Op::Delete, _) => None,
            (op, Some(key)) => {
                Some(changed_list(&key, before.as_deref(), op, given.as_deref().unwrap_or_default()))
            }
            (op, None) => {
                let op = op.name();
                return invalid(format!("Can't {op} to key {name} because its type is not LIST."));
            }
        };
        // A broker is told even of a value that it has.
        if before != after || matches!(target, Resource::Broker(_)) {
            check_min_isr(target, name, after.as_deref(), basis.image)?;
            records.push(target.record(name, after.clone()));
        }
        match after {
            Some(value) if value.len() > MAX_VALUE_LENGTH => {
                return invalid(format!(
                    "The configuration value cannot be added because it exceeds the maximum value size of \
                     {MAX_VALUE_LENGTH} bytes."
                ));
            }
            Some(value) => drop(values.insert(name.to_string(), value)),
            None => drop(values.remove(name)),
        }
    }
    let valid = match target {
        Resource::Topic(_) => {
            check_topic_config(&values, &basis.config.topic_defaults).map_err(|error| error.to_string())
        }
        Resource::Broker(_) => Ok(()),
        Resource::Group(_) => check_group_config(&values, |key| basis.config.number(key)),
    };
    valid.map(|()| records).map_err(|sentence| (ErrorCode::InvalidConfig, sentence))
}

/// R-REPL-48: with ELR the cluster has one min.insync.replicas for all that topics leave open.
fn check_min_isr(
    target: &Resource,
    key: &str,
    value: Option<&str>,
    image: &ClusterImage,
) -> Result<(), Refused> {
    let sentence = match target {
        _ if key != MIN_ISR || !image.elr_enabled() => return Ok(()),
        Resource::Broker(Some(_)) => {
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        }
        Resource::Broker(None) if value.is_none() => {
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        }
        _ => return Ok(()),
    };
    Err((ErrorCode::InvalidConfig, sentence.to_string()))
}

/// R-REPL-48: another min.insync.replicas makes the eligible replicas and the last known leaders meaningless.
pub fn elr_cleared_by(records: &[MetadataRecord], image: &ClusterImage) -> Vec<MetadataRecord> {
    let cleared = |record: &MetadataRecord| match record {
        MetadataRecord::Config { resource, name, key, .. } if key == MIN_ISR => {
            let topic = (*resource == ConfigResource::Topic).then(|| Topic::new(name));
            Some(MetadataRecord::ClearElr { topic })
        }
        _ => None,
    };
    match image.elr_enabled() {
        true => records.iter().filter_map(cleared).collect(),
        false => Vec::new(),
    }
}

pub fn answer(resource: &AlterConfigsResource, outcome: Result<(), Refused>) -> AlterConfigsResourceResponse {
    let (error, message) = match outcome {
        Ok(()) => (ErrorCode::None, None),
        Err((error, message)) => (error, Some(message.into())),
    };
    AlterConfigsResourceResponse::default()
        .with_error_code(error.code())
        .with_error_message(message)
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::BrokerConfig;
    use crate::kafka::protocol::metadata_records::RegisterBroker;
    use crate::kafka::types::{BrokerEpoch, TopicId};

    /// A cluster with broker 1 and topic t, with ELR or without.
    fn image(elr: i16) -> ClusterImage {
        let mut image = ClusterImage::default();
        let name = "eligible.leader.replicas.version".to_string();
        image.replay(&MetadataRecord::FeatureLevel { name, level: elr });
        image.replay(&MetadataRecord::RegisterBroker(RegisterBroker {
            broker: BrokerId(1),
            incarnation: uuid::Uuid::nil(),
            epoch: BrokerEpoch(1),
            rack: None,
            fenced: false,
            in_controlled_shutdown: false,
        }));
        image.replay(&MetadataRecord::Topic { name: "t".into(), id: TopicId(uuid::Uuid::from_u128(7)) });
        image
    }

    /// What `op key=value` on a resource of `image` comes to: the resource's values, or the error.
    fn altered_in(
        image: &mut ClusterImage,
        resource: (i8, &str),
        (op, key, value): (Op, &str, &str),
    ) -> Result<String, ErrorCode> {
        let config = AlterableConfig::default()
            .with_name(key.to_string().into())
            .with_config_operation(op.code())
            .with_value(Some(value.to_string().into()).filter(|_| op != Op::Delete));
        let wanted = AlterConfigsResource::default()
            .with_resource_type(resource.0)
            .with_resource_name(resource.1.to_string().into())
            .with_configs(vec![config]);
        let config = BrokerConfig::default();
        let basis = Basis { image, config: &config };
        let mut records = alter(&wanted, basis).map_err(|(error, _)| error)?;
        records.extend(elr_cleared_by(&records, image));
        records.iter().for_each(|record| image.replay(record));
        let target = Resource::read(resource.0, resource.1).expect("it was altered");
        let values = target.values(image).into_iter().map(|(key, value)| format!("{key}={value}"));
        Ok(values.collect::<Vec<_>>().join(" "))
    }

    fn check(resource: (i8, &str), change: (Op, &str, &str), expected: Result<&str, ErrorCode>) {
        let done = altered_in(&mut image(1), resource, change);
        assert_eq!(done.as_deref().map_err(|error| *error), expected, "{resource:?} {change:?}");
    }

    #[test]
    fn each_resource_takes_its_own_configs() {
        check((TOPIC, "t"), (Op::Set, "retention.ms", "5"), Ok("retention.ms=5"));
        check((TOPIC, "t"), (Op::Set, "log.retention.ms", "5"), Err(ErrorCode::InvalidConfig));
        check((TOPIC, "t"), (Op::Set, "min.insync.replicas", "0"), Err(ErrorCode::InvalidConfig));
        check((TOPIC, "u"), (Op::Set, "retention.ms", "5"), Err(ErrorCode::UnknownTopicOrPartition));
        check((TOPIC, ""), (Op::Set, "retention.ms", "5"), Err(ErrorCode::InvalidRequest));
        check((TOPIC, "a/b"), (Op::Set, "retention.ms", "5"), Err(ErrorCode::InvalidTopicException));
        check((BROKER, "1"), (Op::Set, "message.max.bytes", "5"), Ok("message.max.bytes=5"));
        check((BROKER, ""), (Op::Set, "message.max.bytes", "5"), Ok("message.max.bytes=5"));
        check((BROKER, "2"), (Op::Set, "message.max.bytes", "5"), Err(ErrorCode::BrokerIdNotRegistered));
        check((BROKER, "one"), (Op::Set, "message.max.bytes", "5"), Err(ErrorCode::InvalidRequest));
        check((BROKER, "-1"), (Op::Set, "message.max.bytes", "5"), Err(ErrorCode::InvalidRequest));
        check((CLIENT_METRICS, "x"), (Op::Set, "metrics", "5"), Err(ErrorCode::InvalidRequest));
        let (group, session) = ((GROUP, "g"), "consumer.session.timeout.ms");
        check(group, (Op::Set, session, "50000"), Ok("consumer.session.timeout.ms=50000"));
        check(group, (Op::Set, session, "5000"), Err(ErrorCode::InvalidConfig));
        check(group, (Op::Set, "session.timeout.ms", "50000"), Err(ErrorCode::InvalidConfig));
        check(group, (Op::Append, session, "50000"), Err(ErrorCode::InvalidConfig));
        check((GROUP, ""), (Op::Set, session, "50000"), Err(ErrorCode::InvalidRequest));
        let long = "x".repeat(40_000);
        check((BROKER, ""), (Op::Set, "nobodys.config", &long), Err(ErrorCode::InvalidConfig));
    }

    #[test]
    fn a_list_is_extended_and_cut_and_nothing_else_is() {
        let (topic, key) = ((TOPIC, "t"), "cleanup.policy");
        check(topic, (Op::Append, key, "compact"), Ok("cleanup.policy=delete,compact"));
        check(topic, (Op::Append, key, "delete"), Ok("cleanup.policy=delete"));
        check(topic, (Op::Subtract, key, "delete,compact"), Ok("cleanup.policy="));
        check(topic, (Op::Append, key, "nap"), Err(ErrorCode::InvalidConfig));
        check(topic, (Op::Append, "retention.ms", "1"), Err(ErrorCode::InvalidConfig));
        check(topic, (Op::Delete, key, ""), Ok(""));
        check((BROKER, ""), (Op::Subtract, "message.max.bytes", "1"), Err(ErrorCode::InvalidConfig));
    }

    #[test]
    fn with_elr_the_cluster_has_one_min_insync_replicas_r_repl_48() {
        let key = "min.insync.replicas";
        check((BROKER, "1"), (Op::Set, key, "2"), Err(ErrorCode::InvalidConfig));
        check((BROKER, "1"), (Op::Delete, key, ""), Err(ErrorCode::InvalidConfig));
        check((BROKER, ""), (Op::Delete, key, ""), Err(ErrorCode::InvalidConfig));
        check((BROKER, ""), (Op::Set, key, "2"), Ok("min.insync.replicas=2"));
        let without = |resource, change| altered_in(&mut image(0), resource, change);
        assert_eq!(without((BROKER, "1"), (Op::Set, key, "2")), Ok("min.insync.replicas=2".to_string()));
        assert_eq!(without((BROKER, ""), (Op::Delete, key, "")), Ok(String::new()));
    }

    #[test]
    fn a_topics_value_that_does_not_change_is_no_record_and_a_brokers_is() {
        let records = |resource_type: i8, name: &str, key: &str| {
            let mut image = image(1);
            altered_in(&mut image, (resource_type, name), (Op::Set, key, "5")).expect("valid");
            let before = image.next_offset;
            altered_in(&mut image, (resource_type, name), (Op::Set, key, "5")).expect("valid");
            image.next_offset - before
        };
        assert_eq!(records(TOPIC, "t", "retention.ms"), 0);
        assert_eq!(records(BROKER, "1", "message.max.bytes"), 1);
    }
}
