//! The controller process: routes requests, writes records, answers fetches of the metadata log.

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};

use super::alter_partition;
use super::brokers::{self, Plan, Sessions};
use super::image::ClusterImage;
use super::metadata_log::{MetadataLog, QUORUM_EPOCH};
use super::partitions::Basis;
use super::reassignments;
use super::topics::{self, Cause};
use crate::kafka::api_versions;
use crate::kafka::config::BrokerConfig;
use crate::kafka::effects::{Effects, Input, RequestId};
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, ControllerId, Offset, ProducerId, Topic, TopicId, TopicPartition,
};

/// Producer ids that a broker is given at a time.
const PRODUCER_ID_BLOCK: i64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerTimer {
    /// Looks for brokers whose session is over.
    CheckSessions,
    /// A fetch of the metadata log that found nothing has waited long enough.
    FetchDeadline(RequestId),
    /// Looks for leaders that are not the first of their replica list.
    BalanceLeaders,
    /// Looks for partitions without a leader that may have one from outside the in-sync set.
    ElectUncleanly,
}

/// A broker's fetch of the metadata log that waits for the next record.
#[derive(Clone, Debug)]
struct ParkedFetch {
    request: RequestId,
    offset: Offset,
    max_bytes: i32,
}

#[derive(Clone, Debug)]
pub struct Controller {
    id: ControllerId,
    pub(super) config: Rc<BrokerConfig>,
    pub(super) image: ClusterImage,
    pub(super) log: MetadataLog,
    pub(super) sessions: Sessions,
    parked: Vec<ParkedFetch>,
    random: Random,
}

impl Controller {
    /// A controller on its disk: an empty log, or the one its predecessor left.
    pub fn new(id: ControllerId, config: Rc<BrokerConfig>, log: MetadataLog, random: Random) -> Controller {
        let mut image = ClusterImage::default();
        for record in log.records() {
            image.replay(&record);
        }
        Controller { id, config, image, log, sessions: Sessions::default(), parked: Vec::new(), random }
    }

    pub fn id(&self) -> ControllerId {
        self.id
    }

    pub fn image(&self) -> &ClusterImage {
        &self.image
    }

    /// What stays on disk when the process ends.
    pub fn into_log(self) -> MetadataLog {
        self.log
    }

    pub fn log(&self) -> &MetadataLog {
        &self.log
    }

    /// When a broker was last heard; `None` while it is fenced.
    pub fn last_contact(&self, broker: BrokerId) -> Option<Time> {
        self.sessions.last_contact(broker)
    }

    pub fn handle(&mut self, now: Time, input: Input<ControllerTimer>, fx: &mut Effects<ControllerTimer>) {
        match input {
            Input::Start => self.start(now, fx),
            Input::Request { id, request, .. } => self.on_request(now, id, &request, fx),
            Input::Timer(ControllerTimer::CheckSessions) => self.check_sessions(now, fx),
            Input::Timer(ControllerTimer::FetchDeadline(id)) => {
                self.answer_parked(|parked| parked.request == id, fx)
            }
            Input::Timer(ControllerTimer::BalanceLeaders) => self.balance_leaders(now, fx),
            Input::Timer(ControllerTimer::ElectUncleanly) => self.elect_uncleanly(now, fx),
            Input::Connected(_) | Input::Disconnected(_) | Input::Response { .. } => {}
        }
    }

    pub(super) fn basis(&self) -> Basis<'_> {
        Basis { image: &self.image, config: &self.config }
    }

    fn start(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        if self.log.end_offset() == Offset::ZERO {
            let plan = Plan { records: bootstrap_records(&self.config), cause: Cause::default() };
            self.write(now, plan, fx);
        }
        // R-CTRL-10: every unfenced broker gets a full session from the controller that has become active.
        for (id, broker) in self.image.brokers.iter().filter(|(_, broker)| !broker.fenced) {
            self.sessions.touch(*id, broker.epoch, now, Offset::UNKNOWN);
        }
        fx.set_timer(ControllerTimer::CheckSessions, now.plus_ms(self.session_check_ms()));
        self.schedule_elections(now, fx);
    }

    fn session_check_ms(&self) -> i64 {
        (self.config.session_timeout_ms / 8).max(1)
    }

    fn check_sessions(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        while let Some((broker, silent_ms)) = self.sessions.take_expired(now, self.config.session_timeout_ms)
        {
            fx.event(Event::BrokerFenced { broker, silent_ms });
            let plan = brokers::fence(broker, ChangeReason::BrokerFenced, self.basis());
            self.write(now, plan, fx);
        }
        fx.set_timer(ControllerTimer::CheckSessions, now.plus_ms(self.session_check_ms()));
    }

    fn on_request(&mut self, now: Time, id: RequestId, request: &Request, fx: &mut Effects<ControllerTimer>) {
        if let Request::Fetch(fetch) = request {
            return self.fetch(now, id, fetch, fx);
        }
        match self.answer(now, request, fx) {
            Some(response) => fx.respond(id, response),
            None => fx.push(crate::kafka::effects::Effect::Hangup(id)),
        }
    }

    /// The answer to a request that is answered at once; `None` for one that a controller does not serve.
    fn answer(
        &mut self,
        now: Time,
        request: &Request,
        fx: &mut Effects<ControllerTimer>,
    ) -> Option<Response> {
        Some(match request {
            Request::ApiVersions(_) => api_versions::response(CONTROLLER_APIS).into(),
            Request::BrokerRegistration(request) => self.register(now, request, fx).into(),
            Request::BrokerHeartbeat(request) => self.heartbeat(now, request, fx).into(),
            Request::AlterPartition(request) => self.alter_partition(now, request, fx).into(),
            Request::CreateTopics(request) => self.create_topics(now, request, fx).into(),
            Request::DeleteTopics(request) => self.delete_topics(now, request, fx).into(),
            Request::CreatePartitions(request) => self.create_partitions(now, request, fx).into(),
            Request::IncrementalAlterConfigs(request) => self.alter_configs(now, request, fx).into(),
            Request::ElectLeaders(request) => self.elect_leaders(now, request, fx).into(),
            Request::AlterPartitionReassignments(request) => self.reassign(now, request, fx).into(),
            Request::ListPartitionReassignments(request) => reassignments::list(request, self.basis()).into(),
            Request::AllocateProducerIds(request) => self.allocate_producer_ids(now, request, fx).into(),
            Request::Envelope(request) => self.open_envelope(now, request, fx).into(),
            _ => return None,
        })
    }

    fn register(
        &mut self,
        now: Time,
        request: &m::BrokerRegistrationRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::BrokerRegistrationResponse {
        let basis = Basis { image: &self.image, config: &self.config };
        let outcome = brokers::register(request, basis, &mut self.sessions, now, self.log.end_offset());
        let outcome = outcome.map(|(plan, epoch)| {
            self.write(now, plan, fx);
            epoch
        });
        brokers::registration_response(&outcome)
    }

    fn heartbeat(
        &mut self,
        now: Time,
        request: &m::BrokerHeartbeatRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::BrokerHeartbeatResponse {
        let basis = Basis { image: &self.image, config: &self.config };
        match brokers::heartbeat(request, basis, &mut self.sessions, now) {
            Ok((plan, standing, response)) => {
                self.write(now, plan, fx);
                self.tell_shutdown(request, standing, fx);
                response
            }
            Err(error) => m::BrokerHeartbeatResponse::default().with_error_code(error.code()),
        }
    }

    fn alter_partition(
        &mut self,
        now: Time,
        request: &m::AlterPartitionRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::AlterPartitionResponse {
        use kafka_protocol::messages::alter_partition_response::TopicData;
        let sender = BrokerId(request.broker_id.0);
        if let Err(error) = brokers::check_epoch(&self.image, sender, BrokerEpoch(request.broker_epoch)) {
            return m::AlterPartitionResponse::default().with_error_code(error.code());
        }
        let mut response = m::AlterPartitionResponse::default();
        for topic in &request.topics {
            let mut answers = Vec::new();
            for wanted in &topic.partitions {
                answers.push(self.alter_one_partition(now, sender, TopicId(topic.topic_id), wanted, fx));
            }
            response.topics.push(TopicData::default().with_topic_id(topic.topic_id).with_partitions(answers));
        }
        response
    }

    fn alter_one_partition(
        &mut self,
        now: Time,
        sender: BrokerId,
        topic_id: TopicId,
        wanted: &kafka_protocol::messages::alter_partition_request::PartitionData,
        fx: &mut Effects<ControllerTimer>,
    ) -> kafka_protocol::messages::alter_partition_response::PartitionData {
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
        self.write(now, Plan { records, cause: Cause::new(ChangeReason::LeaderRequest) }, fx);
        answer
    }

    fn create_topics(
        &mut self,
        now: Time,
        request: &m::CreateTopicsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::CreateTopicsResponse {
        let mut response = m::CreateTopicsResponse::default();
        for topic in &request.topics {
            let outcome = topics::create_topic(topic, &self.image, &self.config, &mut self.random);
            response.topics.push(match outcome {
                Ok((records, result)) => {
                    if !request.validate_only {
                        self.write(now, Plan { records, cause: Cause::default() }, fx);
                        self.tell_creation(&topic.name.0, fx);
                    }
                    result
                }
                Err(refused) => topics::refused_topic(topic, refused),
            });
        }
        response
    }

    fn tell_creation(&self, name: &str, fx: &mut Effects<ControllerTimer>) {
        if let Some(topic) = self.image.topic(&Topic::new(name)) {
            fx.event(Event::TopicCreated {
                topic: topic.name.clone(),
                partitions: topic.partitions.len() as i32,
                replication_factor: topic.partitions[0].replicas.len() as i32,
            });
        }
    }

    fn alter_configs(
        &mut self,
        now: Time,
        request: &m::IncrementalAlterConfigsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::IncrementalAlterConfigsResponse {
        let mut response = m::IncrementalAlterConfigsResponse::default();
        for resource in &request.resources {
            let outcome = topics::alter_configs(resource, &self.image);
            let outcome = outcome.map(|records| {
                if !request.validate_only {
                    self.write(now, Plan { records, cause: Cause::default() }, fx);
                }
            });
            response.responses.push(topics::altered(resource, outcome));
        }
        response
    }

    fn allocate_producer_ids(
        &mut self,
        now: Time,
        request: &m::AllocateProducerIdsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::AllocateProducerIdsResponse {
        let (broker, epoch) = (BrokerId(request.broker_id.0), BrokerEpoch(request.broker_epoch));
        if let Err(error) = brokers::check_epoch(&self.image, broker, epoch) {
            return m::AllocateProducerIdsResponse::default().with_error_code(error.code());
        }
        let start = self.image.next_producer_id;
        let next = ProducerId(start.0 + PRODUCER_ID_BLOCK);
        let records = vec![MetadataRecord::ProducerIds { broker, epoch, next }];
        self.write(now, Plan { records, cause: Cause::default() }, fx);
        m::AllocateProducerIdsResponse::default()
            .with_producer_id_start(start.0.into())
            .with_producer_id_len(PRODUCER_ID_BLOCK as i32)
    }

    /// KIP-590: a request that a broker passes on for its client, header and all.
    fn open_envelope(
        &mut self,
        now: Time,
        envelope: &m::EnvelopeRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::EnvelopeResponse {
        let failed = |error: ErrorCode| m::EnvelopeResponse::default().with_error_code(error.code());
        let Ok((request, correlation)) = crate::kafka::envelope::open(envelope.request_data.clone()) else {
            return failed(ErrorCode::InvalidRequest);
        };
        if !FORWARDED_APIS.contains(&request.api()) {
            return failed(ErrorCode::InvalidRequest);
        }
        let Some(response) = self.answer(now, &request, fx) else { return failed(ErrorCode::InvalidRequest) };
        match crate::kafka::envelope::seal_response(&response, correlation) {
            Ok(data) => m::EnvelopeResponse::default().with_response_data(Some(data)),
            Err(_) => failed(ErrorCode::UnknownServerError),
        }
    }

    /// R-CTRL-1: brokers are observers that fetch the metadata log.
    fn fetch(
        &mut self,
        now: Time,
        id: RequestId,
        fetch: &m::FetchRequest,
        fx: &mut Effects<ControllerTimer>,
    ) {
        let Some(partition) = fetch.topics.first().and_then(|topic| topic.partitions.first()) else {
            return fx
                .respond(id, m::FetchResponse::default().with_error_code(ErrorCode::InvalidRequest.code()));
        };
        let parked =
            ParkedFetch { request: id, offset: Offset(partition.fetch_offset), max_bytes: fetch.max_bytes };
        if parked.offset == self.log.end_offset() && fetch.max_wait_ms > 0 {
            fx.set_timer(ControllerTimer::FetchDeadline(id), now.plus_ms(fetch.max_wait_ms.into()));
            self.parked.push(parked);
        } else {
            fx.respond(id, self.fetch_response(&parked));
        }
    }

    fn fetch_response(&self, fetch: &ParkedFetch) -> m::FetchResponse {
        let (error, records) = match self.log.read(fetch.offset, fetch.max_bytes) {
            Ok(records) => (ErrorCode::None, records),
            Err(error) => (error, Bytes::new()),
        };
        let leader = kafka_protocol::messages::fetch_response::LeaderIdAndEpoch::default()
            .with_leader_id(self.id.0.into())
            .with_leader_epoch(QUORUM_EPOCH.0);
        let data = PartitionData::default()
            .with_error_code(error.code())
            .with_high_watermark(self.log.end_offset().0)
            .with_log_start_offset(0)
            .with_current_leader(leader)
            .with_records(Some(records));
        let topic =
            FetchableTopicResponse::default().with_topic_id(METADATA_TOPIC_ID.0).with_partitions(vec![data]);
        m::FetchResponse::default().with_responses(vec![topic])
    }

    fn answer_parked(&mut self, which: impl Fn(&ParkedFetch) -> bool, fx: &mut Effects<ControllerTimer>) {
        let (ready, parked): (Vec<_>, Vec<_>) = std::mem::take(&mut self.parked).into_iter().partition(which);
        self.parked = parked;
        for fetch in ready {
            fx.cancel_timer(ControllerTimer::FetchDeadline(fetch.request));
            fx.respond(fetch.request, self.fetch_response(&fetch));
        }
    }

    /// Appends the plan's records, replays them, tells what they changed and wakes the brokers' fetches.
    pub(super) fn write(&mut self, now: Time, plan: Plan, fx: &mut Effects<ControllerTimer>) {
        if plan.records.is_empty() {
            return;
        }
        self.log.append(now, &plan.records);
        for record in &plan.records {
            let before = super::events::before(&self.image, record);
            self.image.replay(record);
            super::events::tell(&self.image, record, before, plan.cause, fx);
        }
        self.answer_parked(|_| true, fx);
    }
}

/// What `kafka-storage format` and the first activation of a controller put into a new cluster's log. With ELR,
/// min.insync.replicas becomes a config of the cluster, with the value that the controller's own file has (R-REPL-48).
fn bootstrap_records(config: &BrokerConfig) -> Vec<MetadataRecord> {
    let feature = |name: &str, level: i16| MetadataRecord::FeatureLevel { name: name.to_string(), level };
    vec![
        feature("metadata.version", 30),
        feature("eligible.leader.replicas.version", 1),
        feature("group.version", 1),
        feature("share.version", 1),
        feature("transaction.version", 2),
        MetadataRecord::Config {
            resource: ConfigResource::Broker,
            name: String::new(),
            key: "min.insync.replicas".to_string(),
            value: Some(config.min_insync_replicas.to_string()),
        },
    ]
}

/// `__cluster_metadata` has a fixed id.
pub const METADATA_TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(1));

/// What a broker passes on for its clients.
const FORWARDED_APIS: &[ApiKey] = &[
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::ElectLeaders,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
];

const CONTROLLER_APIS: &[ApiKey] = &[
    ApiKey::Fetch,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::AlterPartition,
    ApiKey::Envelope,
    ApiKey::BrokerRegistration,
    ApiKey::BrokerHeartbeat,
    ApiKey::AllocateProducerIds,
];
