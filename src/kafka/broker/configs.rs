//! Changes of configs at a broker: what it checks before one goes to the controller.
//!
//! Mirrors `ConfigAdminManager` (R-LOG-53). A change of a broker's configs is checked by the broker
//! that it is sent to, and one of a single broker only by that broker.
//!
//! **Invariant:** of each resource in a request either the broker says what becomes of it, or the controller does.

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::config::{Layers, UpdateMode, broker_key, check_dynamic, update_mode};
use crate::kafka::controller::configs::{
    self, BROKER, CLIENT_METRICS, GROUP, NO_CLIENT_METRICS, Op, Resource, TOPIC,
};
use crate::kafka::controller::topics::Refused;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName};

pub(super) fn invalid(sentence: String) -> Refused {
    (ErrorCode::InvalidRequest, sentence)
}

impl Broker {
    /// A client's change of configs: what can be judged here is, the rest goes to the controller.
    pub(super) fn alter_configs(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: &IncrementalAlterConfigsRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut settled = Vec::new();
        let mut rest = request.clone();
        rest.resources.retain(|resource| match self.check_alteration(resource, &request.resources) {
            Ok(()) => true,
            Err(refused) => {
                settled.push(configs::answer(resource, Err(refused)));
                false
            }
        });
        if rest.resources.is_empty() && !request.resources.is_empty() {
            return fx.respond(id, IncrementalAlterConfigsResponse::default().with_responses(settled));
        }
        self.forward_rest(now, id, client, Rc::new(Request::from(rest)), settled, fx);
    }

    /// `ConfigAdminManager.preprocess`.
    fn check_alteration(
        &self,
        resource: &AlterConfigsResource,
        all: &[AlterConfigsResource],
    ) -> Result<(), Refused> {
        let same = |other: &&AlterConfigsResource| {
            (other.resource_type, &other.resource_name) == (resource.resource_type, &resource.resource_name)
        };
        if all.iter().filter(same).count() > 1 {
            return Err(invalid("Each resource must appear at most once.".to_string()));
        }
        let names: Vec<&str> = resource.configs.iter().map(|config| config.name.as_str()).collect();
        if (1..names.len()).any(|i| names[..i].contains(&names[i])) {
            return Err(invalid("Error due to duplicate config keys".to_string()));
        }
        let nulls = resource
            .configs
            .iter()
            .filter(|config| config.value.is_none() && config.config_operation != Op::Delete.code());
        let nulls: Vec<&str> = nulls.map(|config| config.name.as_str()).collect();
        if !nulls.is_empty() {
            return Err(invalid(format!("Null value not supported for : {}", nulls.join(", "))));
        }
        match resource.resource_type {
            TOPIC | GROUP => Ok(()),
            BROKER => self.check_broker_alteration(resource),
            CLIENT_METRICS => Err(invalid(NO_CLIENT_METRICS.to_string())),
            other => Err(invalid(format!("Unknown resource type {other}"))),
        }
    }

    fn check_broker_alteration(&self, resource: &AlterConfigsResource) -> Result<(), Refused> {
        let name = resource.resource_name.as_str();
        let target = self.broker_resource(name, false)?;
        let mut wanted = Resource::Broker(target).values(&self.image);
        // What would be passed over when it is read back is no part of the change.
        wanted.retain(|key, _| broker_key(key).is_none() || update_mode(key) != UpdateMode::ReadOnly);
        for config in &resource.configs {
            let (key, value) = (config.name.as_str(), config.value.as_deref().unwrap_or_default());
            let Some(op) = Op::of_code(config.config_operation) else {
                return Err(invalid(format!("Unknown operations type {}", config.config_operation)));
            };
            let after = match op {
                Op::Set => value.to_string(),
                Op::Delete => {
                    wanted.remove(key);
                    continue;
                }
                Op::Append | Op::Subtract => {
                    let refuse = |sentence: String| Err((ErrorCode::InvalidConfig, sentence));
                    let Some(known) = broker_key(key) else {
                        return refuse(format!("Unknown config name: {key}"));
                    };
                    if !known.kind.is_list() {
                        let what = if op == Op::Append { "append" } else { "subtract" };
                        return refuse(format!("Config value {what} is not allowed for config key: {key}"));
                    }
                    configs::changed_list(&known, wanted.get(key).map(String::as_str), op, value)
                }
            };
            wanted.insert(key.to_string(), after);
        }
        let none = BTreeMap::new();
        let own = self.image.broker_configs.get(&self.id).unwrap_or(&none);
        let has = Layers { file: &self.static_config, cluster: &self.image.cluster_config, own };
        check_dynamic(&wanted, target.is_none(), has).map_err(invalid)
    }

    /// The broker that a resource's name means: this one, or with an empty name the default of all.
    pub(super) fn broker_resource(&self, name: &str, describing: bool) -> Result<Option<BrokerId>, Refused> {
        let (what, expected) = match describing {
            true => ("Broker", format!("{} or empty string,", self.id)),
            false => ("Node", format!("{},", self.id)),
        };
        match name.parse::<i32>() {
            _ if name.is_empty() => Ok(None),
            Ok(id) if id == self.id.0 => Ok(Some(self.id)),
            Ok(_) => Err(invalid(format!("Unexpected broker id, expected {expected} but received {name}"))),
            Err(_) => Err(invalid(format!("{what} id must be an integer, but it is: {name}"))),
        }
    }
}

/// What the controller said of the rest of a request, with what was settled before it was asked.
pub(super) fn together(
    response: &IncrementalAlterConfigsResponse,
    settled: &[AlterConfigsResourceResponse],
) -> IncrementalAlterConfigsResponse {
    let mut whole = response.clone();
    whole.responses.extend(settled.iter().cloned());
    whole
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::DescribeConfigsRequest;
    use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
    use kafka_protocol::messages::incremental_alter_configs_request::AlterableConfig;
    use kafka_protocol::protocol::StrBytes;

    use super::super::{BrokerSetup, Disk};
    use super::*;
    use crate::kafka::config::BrokerConfig;
    use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
    use crate::kafka::random::Random;
    use crate::kafka::types::{ControllerId, TopicId};

    /// Broker 1 that has replayed a topic t and these dynamic configs, of a resource each.
    fn broker(file: &[(&str, &str)], dynamic: &[(&str, &str, &str)]) -> Broker {
        let file = file.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let mut broker = Broker::new(BrokerSetup {
            id: BrokerId(1),
            rack: None,
            voters: [ControllerId(101)].into(),
            config: Rc::new(BrokerConfig::read(&file).expect("valid")),
            disk: Disk::default(),
            random: Random::stream(1, "test"),
        });
        let image = Rc::make_mut(&mut broker.image);
        image.replay(&MetadataRecord::Topic { name: "t".into(), id: TopicId(uuid::Uuid::from_u128(7)) });
        for (resource, key, value) in dynamic {
            let (resource, name) = match *resource {
                "t" => (ConfigResource::Topic, "t"),
                "g" => (ConfigResource::Group, "g"),
                name => (ConfigResource::Broker, name),
            };
            let (name, key, value) = (name.to_string(), key.to_string(), Some(value.to_string()));
            image.replay(&MetadataRecord::Config { resource, name, key, value });
        }
        broker
    }

    /// `key=value source [synonym=value source, ...]` of one config, or the error.
    fn described(broker: &Broker, resource: (i8, &str), key: &str) -> Result<String, ErrorCode> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(resource.0)
            .with_resource_name(resource.1.to_string().into())
            .with_configuration_keys(Some(vec![key.to_string().into()]));
        let request =
            DescribeConfigsRequest::default().with_resources(vec![resource]).with_include_synonyms(true);
        let response = broker.describe_configs(&request);
        let result = &response.results[0];
        if result.error_code != 0 {
            return Err(ErrorCode::from_code(result.error_code));
        }
        let config = result.configs.first().expect("it is known");
        let text = |value: &Option<StrBytes>| value.as_deref().unwrap_or("null").to_string();
        let synonyms =
            config.synonyms.iter().map(|s| format!("{}={} {}", &*s.name, text(&s.value), s.source));
        let synonyms: Vec<String> = synonyms.collect();
        Ok(format!(
            "{}={} {} [{}]",
            &*config.name,
            text(&config.value),
            config.config_source,
            synonyms.join(", ")
        ))
    }

    fn check(broker: &Broker, resource: (i8, &str), key: &str, expected: &str) {
        assert_eq!(described(broker, resource, key).as_deref(), Ok(expected), "{resource:?}");
    }

    #[test]
    fn every_value_that_has_a_say_is_told_the_one_that_counts_first_r_log_53() {
        let dynamic = [
            ("t", "segment.ms", "1"),
            ("1", "log.roll.ms", "2"),
            ("", "log.roll.ms", "3"),
            ("2", "log.roll.ms", "4"),
        ];
        let broker = broker(&[("log.roll.hours", "5")], &dynamic);
        let below = "log.roll.ms=2 2, log.roll.ms=3 3, log.roll.hours=5 4, log.roll.hours=168 5";
        check(&broker, (TOPIC, "t"), "segment.ms", &format!("segment.ms=1 1 [segment.ms=1 1, {below}]"));
        check(&broker, (BROKER, "1"), "log.roll.ms", &format!("log.roll.ms=2 2 [{below}]"));
        check(&broker, (BROKER, ""), "log.roll.ms", "log.roll.ms=3 3 [log.roll.ms=3 3]");
        let defaults = "log.roll.hours=5 4 [log.roll.hours=5 4, log.roll.hours=168 5]";
        check(&broker, (BROKER, "1"), "log.roll.hours", defaults);
    }

    #[test]
    fn a_topic_tells_its_brokers_hours_in_milliseconds() {
        let broker = broker(&[("log.roll.hours", "5")], &[]);
        let expected = "segment.ms=18000000 4 [log.roll.hours=5 4, log.roll.hours=168 5]";
        check(&broker, (TOPIC, "t"), "segment.ms", expected);
    }

    #[test]
    fn a_group_is_told_its_configs_whether_or_not_it_exists() {
        let key = "consumer.assignment.interval.ms";
        let broker = broker(&[], &[("g", key, "7"), ("", "group.consumer.assignment.interval.ms", "8")]);
        let below = "group.consumer.assignment.interval.ms=8 3, group.consumer.assignment.interval.ms=1000 5";
        check(&broker, (GROUP, "g"), key, &format!("{key}=7 8 [{key}=7 8, {below}]"));
        check(&broker, (GROUP, "h"), key, &format!("{key}=1000 3 [{below}]"));
        let reset = "share.auto.offset.reset=latest 5 [share.auto.offset.reset=latest 5]";
        check(&broker, (GROUP, "g"), "share.auto.offset.reset", reset);
        assert_eq!(described(&broker, (GROUP, ""), key), Err(ErrorCode::InvalidRequest));
        assert_eq!(described(&broker, (CLIENT_METRICS, "m"), key), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn what_might_be_a_secret_is_not_told() {
        let broker = broker(&[], &[("", "nobodys.config", "x"), ("", "message.max.bytes", "5")]);
        check(&broker, (BROKER, ""), "nobodys.config", "nobodys.config=null 3 [nobodys.config=null 3]");
        check(&broker, (BROKER, ""), "message.max.bytes", "message.max.bytes=5 3 [message.max.bytes=5 3]");
    }

    #[test]
    fn what_is_not_there_or_not_here_is_refused() {
        let broker = broker(&[], &[]);
        let refused = |resource| described(&broker, resource, "segment.ms").expect_err("refused");
        assert_eq!(refused((TOPIC, "u")), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(refused((TOPIC, "a/b")), ErrorCode::InvalidTopicException);
        assert_eq!(refused((BROKER, "2")), ErrorCode::InvalidRequest);
        assert_eq!(refused((BROKER, "one")), ErrorCode::InvalidRequest);
        assert_eq!(refused((8, "1")), ErrorCode::InvalidRequest, "there are no loggers here");
    }

    fn alteration(resource: (i8, &str), configs: &[(&str, Op, Option<&str>)]) -> AlterConfigsResource {
        let config = |(key, op, value): &(&str, Op, Option<&str>)| {
            AlterableConfig::default()
                .with_name(key.to_string().into())
                .with_config_operation(op.code())
                .with_value(value.map(|value| value.to_string().into()))
        };
        AlterConfigsResource::default()
            .with_resource_type(resource.0)
            .with_resource_name(resource.1.to_string().into())
            .with_configs(configs.iter().map(config).collect())
    }

    #[test]
    fn what_a_broker_can_judge_does_not_reach_the_controller() {
        let broker = broker(&[], &[]);
        let key = "message.max.bytes";
        let check = |resource, configs: &[(&str, Op, Option<&str>)], expected: Option<ErrorCode>| {
            let wanted = alteration(resource, configs);
            let said = broker.check_alteration(&wanted, std::slice::from_ref(&wanted));
            assert_eq!(said.err().map(|(error, _)| error), expected, "{resource:?} {configs:?}");
        };
        let (invalid, set) = (Some(ErrorCode::InvalidRequest), Op::Set);
        check((BROKER, "1"), &[(key, set, Some("5"))], None);
        check((BROKER, "2"), &[(key, set, Some("5"))], invalid);
        check((BROKER, ""), &[(key, set, None)], invalid);
        check((BROKER, ""), &[(key, Op::Delete, None)], None);
        check((BROKER, ""), &[(key, set, Some("5")), (key, set, Some("6"))], invalid);
        check((BROKER, ""), &[(key, Op::Append, Some("5"))], Some(ErrorCode::InvalidConfig));
        check((BROKER, ""), &[("nobodys", Op::Append, Some("5"))], Some(ErrorCode::InvalidConfig));
        check((BROKER, ""), &[("nobodys", set, Some("5"))], None);
        check((BROKER, ""), &[("log.cleanup.policy", Op::Append, Some("compact"))], None);
        check((BROKER, ""), &[("log.cleanup.policy", Op::Append, Some("nap"))], invalid);
        check((TOPIC, "t"), &[("no.such.config", set, Some("5"))], None);
        check((GROUP, "g"), &[("no.such.config", set, Some("5"))], None);
        check((CLIENT_METRICS, "m"), &[("interval.ms", set, Some("5"))], invalid);
        check((8, "1"), &[(key, set, Some("5"))], invalid);
        let twice = [alteration((TOPIC, "t"), &[]), alteration((TOPIC, "t"), &[])];
        let (error, _) = broker.check_alteration(&twice[0], &twice).expect_err("it is named twice");
        assert_eq!(error, ErrorCode::InvalidRequest);
    }
}
