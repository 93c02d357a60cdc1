//! The active controller: what it decides at once, in memory, and hands to the log.
//!
//! Mirrors the write side of `QuorumController` (R-CTRL-7). It is made from the committed image when its replica of the
//! log leads, and dropped when it no longer does: that is how memory reverts to what is committed.
//!
//! **Invariant:** `image` is the committed image and, on top, every record handed out so far.

use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::alter_partition_request::PartitionData as WantedPartition;
use kafka_protocol::messages::alter_partition_response::{PartitionData as AlteredPartition, TopicData};

use super::alter_partition;
use super::brokers::{self, Plan, Sessions, Standing};
use super::configs;
use super::image::ClusterImage;
use super::partitions::Basis;
use super::reassignments;
use super::topics::{self, Cause};
use crate::kafka::config::{BrokerConfig, Features, TRANSACTION_VERSION};
use crate::kafka::effects::Effects;
use crate::kafka::envelope;
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, Offset, ProducerId, Topic, TopicId, TopicPartition,
};

/// Producer ids that a broker is given at a time.
const PRODUCER_ID_BLOCK: i64 = 1000;

#[derive(Clone, Debug)]
pub struct ActiveController {
    pub(super) id: ControllerId,
    epoch: LeaderEpoch,
    pub(super) config: Rc<BrokerConfig>,
    pub(super) image: ClusterImage,
    sessions: Sessions,
    random: Random,
    /// Decided and not yet handed to the log.
    plans: Vec<Plan>,
}

impl ActiveController {
    /// R-CTRL-10: every unfenced broker gets a full session from the controller that has become active.
    pub fn new(
        now: Time,
        id: ControllerId,
        epoch: LeaderEpoch,
        config: Rc<BrokerConfig>,
        features: Features,
        committed: &ClusterImage,
        random: Random,
    ) -> ActiveController {
        let mut sessions = Sessions::default();
        for (id, broker) in committed.brokers.iter().filter(|(_, broker)| !broker.fenced) {
            sessions.touch(*id, broker.epoch, now, Offset::UNKNOWN);
        }
        let mut image = committed.clone();
        if plant::is(Plant::PidReused) {
            let last_block = ProducerId(image.next_producer_id.0 - PRODUCER_ID_BLOCK);
            image.next_producer_id = last_block.max(ProducerId(0));
        }
        let mut active = ActiveController { id, epoch, config, image, sessions, random, plans: Vec::new() };
        if active.image.features.is_empty() {
            let records = bootstrap_records(&active.config, features);
            active.write(Plan { records, ..Plan::default() });
        }
        active
    }

    /// The epoch of the quorum in which it is active.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// When a broker was last heard; `None` while it is fenced.
    pub fn last_contact(&self, broker: BrokerId) -> Option<Time> {
        self.sessions.last_contact(broker)
    }

    pub(super) fn basis(&self) -> Basis<'_> {
        Basis { image: &self.image, config: &self.config }
    }

    /// What was decided since the last call, in order.
    pub fn take_plans(&mut self) -> Vec<Plan> {
        std::mem::take(&mut self.plans)
    }

    /// Applies the plan's records and keeps them for the log.
    pub(super) fn write(&mut self, plan: Plan) {
        if plan.records.is_empty() {
            return;
        }
        plan.records.iter().for_each(|record| self.image.replay(record));
        self.plans.push(plan);
    }

    pub fn check_sessions(&mut self, now: Time) {
        while let Some((broker, silent_ms)) = self.sessions.take_expired(now, self.config.session_timeout_ms)
        {
            let headline = Some(Event::BrokerFenced { broker, silent_ms });
            self.write(Plan { headline, ..brokers::fence(broker, ChangeReason::BrokerFenced, self.basis()) });
        }
    }

    /// R-CTRL-13: whatever else is written.
    pub fn write_no_op(&mut self) {
        self.write(Plan { records: vec![MetadataRecord::NoOp], ..Plan::default() });
    }

    /// The answer to a request; `None` for one that a controller does not serve.
    pub fn answer<T>(&mut self, now: Time, request: &Request, fx: &mut Effects<T>) -> Option<Response> {
        Some(match request {
            Request::BrokerRegistration(request) => self.register(now, request).into(),
            Request::BrokerHeartbeat(request) => self.heartbeat(now, request).into(),
            Request::AlterPartition(request) => self.alter_partition(request, fx).into(),
            Request::CreateTopics(request) => self.create_topics(request).into(),
            Request::DeleteTopics(request) => self.delete_topics(request).into(),
            Request::CreatePartitions(request) => self.create_partitions(request).into(),
            Request::IncrementalAlterConfigs(request) => self.alter_configs(request).into(),
            Request::ElectLeaders(request) => self.elect_leaders(request).into(),
            Request::AlterPartitionReassignments(request) => self.reassign(request).into(),
            Request::UpdateFeatures(request) => self.update_features(request).into(),
            Request::ListPartitionReassignments(request) => reassignments::list(request, self.basis()).into(),
            Request::AllocateProducerIds(request) => self.allocate_producer_ids(request).into(),
            Request::Envelope(request) => self.open_envelope(now, request, fx).into(),
            _ => return None,
        })
    }

    fn register(
        &mut self,
        now: Time,
        request: &m::BrokerRegistrationRequest,
    ) -> m::BrokerRegistrationResponse {
        let basis = Basis { image: &self.image, config: &self.config };
        let outcome = brokers::register(request, basis, &mut self.sessions, now);
        let outcome = outcome.map(|(plan, epoch)| {
            self.write(plan);
            epoch
        });
        brokers::registration_response(&outcome)
    }

    fn heartbeat(&mut self, now: Time, request: &m::BrokerHeartbeatRequest) -> m::BrokerHeartbeatResponse {
        let basis = Basis { image: &self.image, config: &self.config };
        match brokers::heartbeat(request, basis, &mut self.sessions, now) {
            Ok((plan, standing, response)) => {
                self.write(plan);
                if standing == Standing::ControlledShutdown {
                    let (broker, epoch) = (BrokerId(request.broker_id.0), BrokerEpoch(request.broker_epoch));
                    self.sessions.begin_shutdown(broker, epoch, self.image.next_offset + -1);
                }
                response
            }
            Err(error) => m::BrokerHeartbeatResponse::default().with_error_code(error.code()),
        }
    }

    fn alter_partition<T>(
        &mut self,
        request: &m::AlterPartitionRequest,
        fx: &mut Effects<T>,
    ) -> m::AlterPartitionResponse {
        let sender = BrokerId(request.broker_id.0);
        if let Err(error) = brokers::check_epoch(&self.image, sender, BrokerEpoch(request.broker_epoch)) {
            return m::AlterPartitionResponse::default().with_error_code(error.code());
        }
        let mut response = m::AlterPartitionResponse::default();
        for topic in &request.topics {
            let mut answers = Vec::new();
            for wanted in &topic.partitions {
                answers.push(self.alter_one_partition(sender, TopicId(topic.topic_id), wanted, fx));
            }
            response.topics.push(TopicData::default().with_topic_id(topic.topic_id).with_partitions(answers));
        }
        response
    }

    fn alter_one_partition<T>(
        &mut self,
        sender: BrokerId,
        topic_id: TopicId,
        wanted: &WantedPartition,
        fx: &mut Effects<T>,
    ) -> AlteredPartition {
        let number = wanted.partition_index;
        let Some(topic) = self.image.topic_by_id(topic_id) else {
            return alter_partition::refused(number, ErrorCode::UnknownTopicId);
        };
        let tp = TopicPartition::new(&topic.name, number);
        let (change, answer) = alter_partition::decide(sender, &tp, wanted, self.basis());
        if answer.error_code != 0 && change.is_none() {
            let error = ErrorCode::from_code(answer.error_code);
            fx.event(Event::IsrChangeRefused { tp, broker: sender, error });
        }
        let records = change.into_iter().map(MetadataRecord::PartitionChange).collect();
        self.write(Plan { records, ..Plan::new(ChangeReason::LeaderRequest) });
        answer
    }

    fn create_topics(&mut self, request: &m::CreateTopicsRequest) -> m::CreateTopicsResponse {
        let mut response = m::CreateTopicsResponse::default();
        for topic in &request.topics {
            let outcome = topics::create_topic(topic, &self.image, &self.config, &mut self.random);
            response.topics.push(match outcome {
                Ok((records, result)) => {
                    if !request.validate_only {
                        let headline = creation(&topic.name.0, &records);
                        self.write(Plan { records, cause: Cause::default(), headline });
                    }
                    result
                }
                Err(refused) => topics::refused_topic(topic, refused),
            });
        }
        response
    }

    fn alter_configs(
        &mut self,
        request: &m::IncrementalAlterConfigsRequest,
    ) -> m::IncrementalAlterConfigsResponse {
        let (mut records, mut response) = (Vec::new(), m::IncrementalAlterConfigsResponse::default());
        for resource in &request.resources {
            let outcome = configs::alter(resource, self.basis()).map(|changes| records.extend(changes));
            response.responses.push(configs::answer(resource, outcome));
        }
        records.extend(configs::elr_cleared_by(&records, &self.image));
        if !request.validate_only {
            self.write(Plan { records, ..Plan::default() });
        }
        response
    }

    fn allocate_producer_ids(
        &mut self,
        request: &m::AllocateProducerIdsRequest,
    ) -> m::AllocateProducerIdsResponse {
        let (broker, epoch) = (BrokerId(request.broker_id.0), BrokerEpoch(request.broker_epoch));
        if let Err(error) = brokers::check_epoch(&self.image, broker, epoch) {
            return m::AllocateProducerIdsResponse::default().with_error_code(error.code());
        }
        let start = self.image.next_producer_id;
        let next = ProducerId(start.0 + PRODUCER_ID_BLOCK);
        let records = vec![MetadataRecord::ProducerIds { broker, epoch, next }];
        self.write(Plan { records, ..Plan::default() });
        m::AllocateProducerIdsResponse::default()
            .with_producer_id_start(start.0.into())
            .with_producer_id_len(PRODUCER_ID_BLOCK as i32)
    }

    /// KIP-590: a request that a broker passes on for its client, header and all.
    fn open_envelope<T>(
        &mut self,
        now: Time,
        request: &m::EnvelopeRequest,
        fx: &mut Effects<T>,
    ) -> m::EnvelopeResponse {
        let failed = |error: ErrorCode| m::EnvelopeResponse::default().with_error_code(error.code());
        let Ok((request, correlation)) = envelope::open(request.request_data.clone()) else {
            return failed(ErrorCode::InvalidRequest);
        };
        if !FORWARDED_APIS.contains(&request.api()) {
            return failed(ErrorCode::InvalidRequest);
        }
        let Some(response) = self.answer(now, &request, fx) else { return failed(ErrorCode::InvalidRequest) };
        match envelope::seal_response(&response, correlation) {
            Ok(data) => m::EnvelopeResponse::default().with_response_data(Some(data)),
            Err(_) => failed(ErrorCode::UnknownServerError),
        }
    }
}

/// What a broker passes on for its clients.
const FORWARDED_APIS: &[ApiKey] = &[
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::ElectLeaders,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::UpdateFeatures,
];

fn creation(name: &str, records: &[MetadataRecord]) -> Option<Event> {
    let replicas = records.iter().filter_map(|record| match record {
        MetadataRecord::Partition(partition) => Some(partition.replicas.len() as i32),
        _ => None,
    });
    let (partitions, replication_factor) = (replicas.clone().count() as i32, replicas.max()?);
    Some(Event::TopicCreated { topic: Topic::new(name), partitions, replication_factor })
}

/// What `kafka-storage format` and the first activation of a controller put into a new cluster's log. With ELR,
/// min.insync.replicas becomes a config of the cluster, with the value that the controller's own file has (R-REPL-48).
fn bootstrap_records(config: &BrokerConfig, features: Features) -> Vec<MetadataRecord> {
    let levels = [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", features.eligible_leader_replicas),
        ("group.version", 1),
        ("share.version", features.share),
        ("streams.version", 1),
        (TRANSACTION_VERSION, features.transaction),
    ];
    // `BootstrapMetadata.fromVersions`: of a feature that is not in use nothing is written.
    let used = levels.into_iter().filter(|(_, level)| *level > 0);
    let feature = |(name, level): (&str, i16)| MetadataRecord::FeatureLevel { name: name.to_string(), level };
    let mut records: Vec<MetadataRecord> = used.map(feature).collect();
    if features.eligible_leader_replicas > 0 {
        records.push(MetadataRecord::Config {
            resource: ConfigResource::Broker,
            name: String::new(),
            key: "min.insync.replicas".to_string(),
            value: Some(config.min_insync_replicas.to_string()),
        });
    }
    records
}
