//! What administrators ask of the controller, and the elections that it holds by itself (R-REPL-49).

use kafka_protocol::messages as m;
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;

use super::brokers::{Plan, Standing};
use super::partitions::MAX_ELECTIONS;
use super::process::{Controller, ControllerTimer};
use super::topics::{self, Cause};
use super::{elections, reassignments};
use crate::kafka::effects::Effects;
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Topic};

/// How soon a periodic check goes on that left something over.
const SOON_MS: i64 = 10;

impl Controller {
    pub(super) fn schedule_elections(&self, now: Time, fx: &mut Effects<ControllerTimer>) {
        if self.config.auto_leader_rebalance {
            let at = now.plus_ms(self.config.leader_imbalance_check_interval_ms);
            fx.set_timer(ControllerTimer::BalanceLeaders, at);
        }
        let at = now.plus_ms(self.config.unclean_leader_election_interval_ms);
        fx.set_timer(ControllerTimer::ElectUncleanly, at);
    }

    pub(super) fn balance_leaders(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let records = self.basis().balanced();
        let wait_ms = until_next(&records, self.config.leader_imbalance_check_interval_ms);
        self.write(now, Plan { records, cause: Cause::new(ChangeReason::PreferredElection) }, fx);
        fx.set_timer(ControllerTimer::BalanceLeaders, now.plus_ms(wait_ms));
    }

    pub(super) fn elect_uncleanly(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let records = self.basis().elected_uncleanly();
        let wait_ms = until_next(&records, self.config.unclean_leader_election_interval_ms);
        self.write(now, Plan { records, cause: Cause::new(ChangeReason::UncleanElection) }, fx);
        fx.set_timer(ControllerTimer::ElectUncleanly, now.plus_ms(wait_ms));
    }

    pub(super) fn elect_leaders(
        &mut self,
        now: Time,
        request: &m::ElectLeadersRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::ElectLeadersResponse {
        let (records, response) = elections::elect_leaders(request, self.basis());
        let reason = match request.election_type == elections::ElectionType::Unclean.code() {
            true => ChangeReason::UncleanElection,
            false => ChangeReason::PreferredElection,
        };
        self.write(now, Plan { records, cause: Cause::new(reason) }, fx);
        response
    }

    pub(super) fn reassign(
        &mut self,
        now: Time,
        request: &m::AlterPartitionReassignmentsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::AlterPartitionReassignmentsResponse {
        let (records, response) = reassignments::alter(request, self.basis());
        self.write(now, Plan { records, cause: Cause::new(ChangeReason::Reassignment) }, fx);
        response
    }

    pub(super) fn create_partitions(
        &mut self,
        now: Time,
        request: &m::CreatePartitionsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::CreatePartitionsResponse {
        let mut response = m::CreatePartitionsResponse::default();
        for wanted in &request.topics {
            let (error, message) = match topics::create_partitions(wanted, &self.image) {
                Ok(records) => {
                    if !request.validate_only {
                        let (topic, to) = (Topic::new(&wanted.name), wanted.count);
                        let from = to - records.len() as i32;
                        self.write(now, Plan { records, cause: Cause::default() }, fx);
                        fx.event(Event::PartitionsAdded { topic, from, to });
                    }
                    (ErrorCode::None, None)
                }
                Err((error, message)) => (error, Some(message.into())),
            };
            let result = CreatePartitionsTopicResult::default()
                .with_name(wanted.name.clone())
                .with_error_code(error.code())
                .with_error_message(message);
            response.results.push(result);
        }
        response
    }

    /// R-PLACE-9. With delete.topic.enable=false nothing is deleted.
    pub(super) fn delete_topics(
        &mut self,
        now: Time,
        request: &m::DeleteTopicsRequest,
        fx: &mut Effects<ControllerTimer>,
    ) -> m::DeleteTopicsResponse {
        let mut response = m::DeleteTopicsResponse::default();
        for wanted in &request.topics {
            let found = match self.config.delete_topics {
                true => topics::find_deletable(wanted, &self.image),
                false => Err((ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.".to_string())),
            };
            let result =
                DeletableTopicResult::default().with_name(wanted.name.clone()).with_topic_id(wanted.topic_id);
            response.responses.push(match found {
                Ok(topic) => {
                    let (id, topic) = (topic.id, topic.name.clone());
                    let name = TopicName(topic.to_wire());
                    let records = vec![MetadataRecord::RemoveTopic { id }];
                    self.write(now, Plan { records, cause: Cause::default() }, fx);
                    fx.event(Event::TopicDeleted { topic });
                    result.with_name(Some(name)).with_topic_id(id.0)
                }
                Err((error, message)) => {
                    result.with_error_code(error.code()).with_error_message(Some(message.into()))
                }
            });
        }
        response
    }

    /// R-REPL-54: a broker that wants to stop has given up its leaderships, or is let go.
    pub(super) fn tell_shutdown(
        &mut self,
        request: &m::BrokerHeartbeatRequest,
        standing: Standing,
        fx: &mut Effects<ControllerTimer>,
    ) {
        let (broker, epoch) = (BrokerId(request.broker_id.0), BrokerEpoch(request.broker_epoch));
        match standing {
            Standing::ControlledShutdown => {
                let end = self.log.end_offset();
                self.sessions.begin_shutdown(broker, epoch, end + -1);
            }
            Standing::ShutdownNow => fx.event(Event::ShutdownGranted { broker }),
            Standing::Fenced | Standing::Unfenced => {}
        }
    }
}

fn until_next(records: &[MetadataRecord], interval_ms: i64) -> i64 {
    if records.len() as i32 >= MAX_ELECTIONS { SOON_MS } else { interval_ms }
}
