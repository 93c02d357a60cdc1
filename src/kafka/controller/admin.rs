//! What administrators ask of the active controller, and the elections that it holds by itself (R-REPL-49).

use kafka_protocol::messages as m;
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;

use super::active::ActiveController;
use super::brokers::Plan;
use super::elections::{self, ElectionType};
use super::partitions::MAX_ELECTIONS;
use super::{features, reassignments, topics};
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::types::Topic;

impl ActiveController {
    /// Leaders go back to the first of their replicas. Whether there may be more to do.
    pub fn balance_leaders(&mut self) -> bool {
        let records = self.basis().balanced();
        self.hold(records, ChangeReason::PreferredElection)
    }

    /// Partitions without a leader get one where they may have an unclean one. Whether there may be more to do.
    pub fn elect_uncleanly(&mut self) -> bool {
        let records = self.basis().elected_uncleanly();
        self.hold(records, ChangeReason::UncleanElection)
    }

    fn hold(&mut self, records: Vec<MetadataRecord>, reason: ChangeReason) -> bool {
        let more = records.len() as i32 >= MAX_ELECTIONS;
        self.write(Plan { records, ..Plan::new(reason) });
        more
    }

    pub(super) fn elect_leaders(&mut self, request: &m::ElectLeadersRequest) -> m::ElectLeadersResponse {
        let (records, response) = elections::elect_leaders(request, self.basis());
        let reason = match request.election_type == ElectionType::Unclean.code() {
            true => ChangeReason::UncleanElection,
            false => ChangeReason::PreferredElection,
        };
        self.write(Plan { records, ..Plan::new(reason) });
        response
    }

    pub(super) fn reassign(
        &mut self,
        request: &m::AlterPartitionReassignmentsRequest,
    ) -> m::AlterPartitionReassignmentsResponse {
        let (records, response) = reassignments::alter(request, self.basis());
        self.write(Plan { records, ..Plan::new(ChangeReason::Reassignment) });
        response
    }

    pub(super) fn update_features(
        &mut self,
        request: &m::UpdateFeaturesRequest,
    ) -> m::UpdateFeaturesResponse {
        let (records, response) = features::update(request, self.id, self.basis());
        self.write(Plan { records, ..Plan::default() });
        response
    }

    pub(super) fn create_partitions(
        &mut self,
        request: &m::CreatePartitionsRequest,
    ) -> m::CreatePartitionsResponse {
        let mut response = m::CreatePartitionsResponse::default();
        for wanted in &request.topics {
            let (error, message) = match topics::create_partitions(wanted, &self.image) {
                Ok(records) => {
                    if !request.validate_only {
                        let (topic, to) = (Topic::new(&wanted.name), wanted.count);
                        let from = to - records.len() as i32;
                        let headline = Some(Event::PartitionsAdded { topic, from, to });
                        self.write(Plan { records, headline, ..Plan::default() });
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
    pub(super) fn delete_topics(&mut self, request: &m::DeleteTopicsRequest) -> m::DeleteTopicsResponse {
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
                    let headline = Some(Event::TopicDeleted { topic });
                    self.write(Plan { records, headline, ..Plan::default() });
                    result.with_name(Some(name)).with_topic_id(id.0)
                }
                Err((error, message)) => {
                    result.with_error_code(error.code()).with_error_message(Some(message.into()))
                }
            });
        }
        response
    }
}
