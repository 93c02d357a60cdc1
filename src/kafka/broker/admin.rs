//! What a broker tells clients of the cluster, and what it passes on to the controller for them.
//!
//! Mirrors `KafkaApis` (metadata, FindCoordinator), `AutoTopicCreationManager` and `ForwardingManager` (R-REPL-53, 66,
//! R-GRP-2, R-PLACE-8, KIP-590).

use std::rc::Rc;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    CreateTopicsRequest, EnvelopeRequest, EnvelopeResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    MetadataRequest, MetadataResponse,
};

use super::configs::together;
use super::process::{Broker, Purpose};
use super::share_state::SHARE_STATE_TOPIC;
use super::timer::BrokerTimer;
use super::transactions::TRANSACTION_STATE_TOPIC;
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration, TopicImage};
use crate::kafka::controller::not_controller;
use crate::kafka::effects::{Channel, Effect, Effects, RequestId};
use crate::kafka::envelope;
use crate::kafka::group::partition_for;
use crate::kafka::protocol::listener::{PORT, host};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::share::ShareKey;
use crate::kafka::time::Time;
use crate::kafka::topic_name;
use crate::kafka::types::{BrokerId, CLUSTER_ID, ClientName, Topic, TopicPartition};

pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Not asked for: the caller's rights on a topic.
const NO_OPERATIONS: i32 = i32::MIN;

/// A client's request that the controller is asked to answer.
#[derive(Clone, Debug)]
pub struct Forwarded {
    client: RequestId,
    request: Rc<Request>,
    /// Parts of the request that this broker has answered itself.
    settled: Vec<AlterConfigsResourceResponse>,
}

impl Broker {
    pub(super) fn metadata_response(
        &mut self,
        now: Time,
        request: &MetadataRequest,
        fx: &mut Effects<BrokerTimer>,
    ) -> MetadataResponse {
        let image = self.image.clone();
        let mut topics = Vec::new();
        match &request.topics {
            None => topics.extend(image.topics().map(|topic| topic_metadata(topic, &image))),
            Some(wanted) => {
                for topic in wanted {
                    let name = topic.name.as_ref().map(|name| Topic::new(&name.0));
                    let known = match &name {
                        Some(name) => image.topic(name),
                        None => image.topic_by_id(crate::kafka::types::TopicId(topic.topic_id)),
                    };
                    topics.push(match (known, name) {
                        (Some(topic), _) => topic_metadata(topic, &image),
                        (None, Some(name)) => {
                            let error = self.unknown_topic(now, &name, request.allow_auto_topic_creation, fx);
                            let wire = kafka_protocol::messages::TopicName(name.to_wire());
                            missing_topic(error).with_name(Some(wire))
                        }
                        (None, None) => {
                            missing_topic(ErrorCode::UnknownTopicId).with_topic_id(topic.topic_id)
                        }
                    });
                }
            }
        }
        let brokers = image.brokers.keys().filter_map(|id| image.endpoint(*id)).map(|endpoint| {
            MetadataResponseBroker::default()
                .with_node_id(endpoint.broker.0.into())
                .with_host(endpoint.host.into())
                .with_port(endpoint.port.into())
                .with_rack(endpoint.rack.map(Into::into))
        });
        // Clients of KRaft are sent to some broker, which forwards.
        let controller = image.brokers.iter().find(|(_, broker)| !broker.fenced).map_or(-1, |(id, _)| id.0);
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_cluster_id(Some(CLUSTER_ID.into()))
            .with_controller_id(controller.into())
            .with_topics(topics)
    }

    /// R-PLACE-8: a topic that a client wants and that is not there is asked for, if that is allowed.
    fn unknown_topic(
        &mut self,
        now: Time,
        name: &Topic,
        allow_creation: bool,
        fx: &mut Effects<BrokerTimer>,
    ) -> ErrorCode {
        if topic_name::check(name.as_str()).is_err() {
            return ErrorCode::InvalidTopicException;
        }
        if allow_creation && self.config.auto_create_topics {
            let topic = match name.as_str() {
                OFFSETS_TOPIC => self.offsets_topic(),
                SHARE_STATE_TOPIC => self.share_state_topic(),
                TRANSACTION_STATE_TOPIC => self.transaction_state_topic(),
                _ => automatic_topic(name),
            };
            self.create_topic(now, name, topic, fx);
        }
        ErrorCode::UnknownTopicOrPartition
    }

    pub(super) fn create_topic(
        &mut self,
        now: Time,
        name: &Topic,
        topic: CreatableTopic,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !self.creating.insert(name.clone()) {
            return;
        }
        let timeout_ms = self.config.request_timeout_ms as i32;
        let request = CreateTopicsRequest::default().with_timeout_ms(timeout_ms).with_topics(vec![topic]);
        self.ask_controller(now, Channel::Forwarding, request, Purpose::CreateTopics(vec![name.clone()]), fx);
    }

    /// Section 10: how `__consumer_offsets` is created.
    fn offsets_topic(&self) -> CreatableTopic {
        automatic_topic(&OFFSETS_TOPIC.into())
            .with_num_partitions(self.config.offsets_topic_num_partitions)
            .with_replication_factor(self.config.offsets_topic_replication_factor)
            .with_configs(vec![
                topic_config("cleanup.policy", "compact".to_string()),
                topic_config("compression.type", "producer".to_string()),
                topic_config("segment.bytes", self.config.offsets_topic_segment_bytes.to_string()),
            ])
    }

    /// R-GRP-2.
    pub(super) fn find_coordinator(
        &mut self,
        now: Time,
        request: &FindCoordinatorRequest,
        fx: &mut Effects<BrokerTimer>,
    ) -> FindCoordinatorResponse {
        const GROUP: i8 = 0;
        const TRANSACTION: i8 = 1;
        const SHARE: i8 = 2;
        let mut coordinators = Vec::new();
        for key in &request.coordinator_keys {
            let found = match request.key_type {
                GROUP if key.is_empty() => Err(ErrorCode::InvalidGroupId),
                GROUP => self.group_coordinator(now, key, fx),
                TRANSACTION => self.transaction_coordinator(now, key, fx),
                SHARE => {
                    let key = key.parse::<ShareKey>().map_err(|_| ErrorCode::InvalidRequest);
                    key.and_then(|key| self.share_coordinator(now, &key, fx))
                }
                _ => Err(ErrorCode::InvalidRequest),
            };
            let coordinator = Coordinator::default().with_key(key.clone());
            coordinators.push(match found {
                Ok(broker) => coordinator
                    .with_node_id(broker.0.into())
                    .with_host(host(broker).into())
                    .with_port(PORT.into())
                    .with_error_message(Some("".into())),
                Err(error) => coordinator
                    .with_node_id((-1).into())
                    .with_port(-1)
                    .with_error_code(error.code())
                    .with_error_message(Some(error.name().into())),
            });
        }
        FindCoordinatorResponse::default().with_coordinators(coordinators)
    }

    fn group_coordinator(
        &mut self,
        now: Time,
        group: &str,
        fx: &mut Effects<BrokerTimer>,
    ) -> Result<BrokerId, ErrorCode> {
        let partition = partition_for(group, self.config.offsets_topic_num_partitions);
        let tp = TopicPartition::new(&Topic::new(OFFSETS_TOPIC), partition);
        self.coordinator_at(now, &tp, Broker::offsets_topic, fx)
    }

    /// The coordinator that keeps `tp`, of an internal topic that is created when it is first asked for.
    pub(super) fn coordinator_at(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        topic: fn(&Broker) -> CreatableTopic,
        fx: &mut Effects<BrokerTimer>,
    ) -> Result<BrokerId, ErrorCode> {
        if self.image.topic(&tp.topic).is_none() {
            let topic = topic(self);
            self.create_topic(now, &tp.topic, topic, fx);
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        self.leader_of_coordinator(tp)
    }

    pub(super) fn leader_of_coordinator(&self, tp: &TopicPartition) -> Result<BrokerId, ErrorCode> {
        let leader = self.image.partition(tp).map(|partition| partition.leader);
        leader.filter(|leader| self.image.is_alive(*leader)).ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// KIP-590: the controller answers, this broker carries.
    pub(super) fn forward(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: Rc<Request>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.forward_rest(now, id, client, request, Vec::new(), fx);
    }

    /// Passes on what is left of a request of which this broker has settled a part.
    pub(super) fn forward_rest(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: Rc<Request>,
        settled: Vec<AlterConfigsResourceResponse>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Ok(data) = envelope::seal_request(&request, client, id.correlation) else {
            return fx.push(Effect::Hangup(id));
        };
        let envelope = EnvelopeRequest::default()
            .with_request_data(data)
            .with_request_principal(Some(bytes::Bytes::from_static(b"User:ANONYMOUS")))
            .with_client_host_address(bytes::Bytes::from_static(&[127, 0, 0, 1]));
        let purpose = Purpose::Forward(Forwarded { client: id, request, settled });
        self.ask_controller(now, Channel::Forwarding, envelope, purpose, fx);
    }

    pub(super) fn forwarded(
        &mut self,
        forwarded: Forwarded,
        response: &EnvelopeResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let data = response.response_data.clone().filter(|_| response.error_code == 0);
        match data.and_then(|data| envelope::open_response(forwarded.request.api(), data).ok()) {
            Some(Response::IncrementalAlterConfigs(response)) => {
                fx.respond(forwarded.client, together(&response, &forwarded.settled));
            }
            Some(response) => fx.respond(forwarded.client, response),
            None => fx.push(Effect::Hangup(forwarded.client)),
        }
    }

    /// No controller has answered in time.
    pub(super) fn on_given_up(&mut self, now: Time, purpose: Purpose, fx: &mut Effects<BrokerTimer>) {
        match purpose {
            Purpose::Register | Purpose::Heartbeat => {
                self.communicate_in(now, self.config.heartbeat_interval_ms, fx);
            }
            Purpose::CreateTopics(names) => self.creating.retain(|name| !names.contains(name)),
            Purpose::AllocateProducerIds => self.producer_ids.refused(),
            Purpose::Forward(Forwarded { client, request, .. }) => {
                match not_controller::refuse(&request, ErrorCode::RequestTimedOut) {
                    Some(response) => fx.respond(client, response),
                    None => fx.push(Effect::Hangup(client)),
                }
            }
            Purpose::AlterPartition
            | Purpose::FetchReplicas { .. }
            | Purpose::LookUp { .. }
            | Purpose::ShareState(_)
            | Purpose::EndOffsets(_)
            | Purpose::AddPartitions(_)
            | Purpose::Markers(_) => {}
        }
    }
}

/// Partitions and replicas as the controller's defaults say.
pub(super) fn automatic_topic(name: &Topic) -> CreatableTopic {
    let wire = kafka_protocol::messages::TopicName(name.to_wire());
    CreatableTopic::default().with_name(wire).with_num_partitions(-1).with_replication_factor(-1)
}

pub(super) fn topic_config(name: &'static str, value: String) -> CreatableTopicConfig {
    CreatableTopicConfig::default().with_name(name.into()).with_value(Some(value.into()))
}

fn missing_topic(error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(error.code())
        .with_topic_authorized_operations(NO_OPERATIONS)
}

fn topic_metadata(topic: &TopicImage, image: &ClusterImage) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions).map(|(number, p)| partition_metadata(number, p, image));
    MetadataResponseTopic::default()
        .with_name(Some(kafka_protocol::messages::TopicName(topic.name.to_wire())))
        .with_topic_id(topic.id.0)
        .with_is_internal(crate::kafka::replication::is_internal(topic.name.as_str()))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(NO_OPERATIONS)
}

/// R-REPL-66: a partition without a leader says so.
fn partition_metadata(
    number: i32,
    partition: &PartitionRegistration,
    image: &ClusterImage,
) -> MetadataResponsePartition {
    let wire = |ids: &[BrokerId]| ids.iter().map(|id| id.0.into()).collect();
    let offline: Vec<BrokerId> =
        partition.replicas.iter().copied().filter(|id| !image.is_alive(*id)).collect();
    let has_leader = image.is_alive(partition.leader);
    let error = if has_leader { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
    MetadataResponsePartition::default()
        .with_error_code(error.code())
        .with_partition_index(number)
        .with_leader_id(if has_leader { partition.leader.0.into() } else { (-1).into() })
        .with_leader_epoch(partition.leader_epoch.0)
        .with_replica_nodes(wire(&partition.replicas))
        .with_isr_nodes(wire(&partition.isr))
        .with_offline_replicas(wire(&offline))
}
