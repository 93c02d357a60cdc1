//! NOT_CONTROLLER: how a controller that is not active refuses, and how a broker knows it (R-CTRL-7).

use kafka_protocol::messages as m;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;

use crate::kafka::protocol::{ErrorCode, Request, Response};

/// `request` refused with `error`; `None` for one that only brokers serve.
pub fn refuse(request: &Request, error: ErrorCode) -> Option<Response> {
    let code = error.code();
    Some(match request {
        Request::BrokerRegistration(_) => {
            m::BrokerRegistrationResponse::default().with_error_code(code).with_broker_epoch(-1).into()
        }
        Request::BrokerHeartbeat(_) => m::BrokerHeartbeatResponse::default().with_error_code(code).into(),
        Request::AlterPartition(_) => m::AlterPartitionResponse::default().with_error_code(code).into(),
        Request::AllocateProducerIds(_) => {
            m::AllocateProducerIdsResponse::default().with_error_code(code).into()
        }
        Request::Envelope(_) => m::EnvelopeResponse::default().with_error_code(code).into(),
        Request::CreateTopics(request) => {
            let refused = request.topics.iter().map(|topic| {
                CreatableTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_error_code(code)
                    .with_error_message(Some(error.name().into()))
            });
            m::CreateTopicsResponse::default().with_topics(refused.collect()).into()
        }
        Request::IncrementalAlterConfigs(request) => {
            let refused = request.resources.iter().map(|resource| {
                AlterConfigsResourceResponse::default()
                    .with_error_code(code)
                    .with_error_message(Some(error.name().into()))
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
            });
            m::IncrementalAlterConfigsResponse::default().with_responses(refused.collect()).into()
        }
        Request::CreatePartitions(request) => {
            let refused = request.topics.iter().map(|topic| {
                CreatePartitionsTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_error_code(code)
                    .with_error_message(Some(error.name().into()))
            });
            m::CreatePartitionsResponse::default().with_results(refused.collect()).into()
        }
        Request::DeleteTopics(request) => {
            let refused = request.topics.iter().map(|topic| {
                DeletableTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_topic_id(topic.topic_id)
                    .with_error_code(code)
                    .with_error_message(Some(error.name().into()))
            });
            m::DeleteTopicsResponse::default().with_responses(refused.collect()).into()
        }
        Request::DescribeQuorum(_) => m::DescribeQuorumResponse::default()
            .with_error_code(code)
            .with_error_message(Some(error.name().into()))
            .into(),
        Request::ElectLeaders(_) => m::ElectLeadersResponse::default().with_error_code(code).into(),
        Request::AlterPartitionReassignments(_) => m::AlterPartitionReassignmentsResponse::default()
            .with_error_code(code)
            .with_error_message(Some(error.name().into()))
            .into(),
        Request::UpdateFeatures(_) => m::UpdateFeaturesResponse::default()
            .with_error_code(code)
            .with_error_message(Some(error.name().into()))
            .into(),
        Request::ListPartitionReassignments(_) => m::ListPartitionReassignmentsResponse::default()
            .with_error_code(code)
            .with_error_message(Some(error.name().into()))
            .into(),
        _ => return None,
    })
}

/// Whether the answer says that another controller should be asked.
pub fn is_refusal(response: &Response) -> bool {
    let is_it = |code: i16| code == ErrorCode::NotController.code();
    match response {
        Response::BrokerRegistration(response) => is_it(response.error_code),
        Response::BrokerHeartbeat(response) => is_it(response.error_code),
        Response::AllocateProducerIds(response) => is_it(response.error_code),
        Response::Envelope(response) => is_it(response.error_code),
        Response::AlterPartition(response) => {
            let mut partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            is_it(response.error_code) || partitions.any(|partition| is_it(partition.error_code))
        }
        Response::CreateTopics(response) => response.topics.iter().any(|topic| is_it(topic.error_code)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::create_topics_request::CreatableTopic;

    fn check(request: impl Into<Request>) {
        let request = request.into();
        let refused = |error| refuse(&request, error).expect("a controller serves it");
        assert!(is_refusal(&refused(ErrorCode::NotController)), "{request:?}");
        assert!(!is_refusal(&refused(ErrorCode::RequestTimedOut)), "{request:?}");
    }

    #[test]
    fn a_broker_knows_the_refusal_of_each_request_r_ctrl_7() {
        check(m::BrokerRegistrationRequest::default());
        check(m::BrokerHeartbeatRequest::default());
        check(m::AlterPartitionRequest::default());
        check(m::AllocateProducerIdsRequest::default());
        check(m::EnvelopeRequest::default());
        check(m::CreateTopicsRequest::default().with_topics(vec![CreatableTopic::default()]));
    }

    #[test]
    fn what_only_brokers_serve_is_not_refused_but_hung_up_on() {
        assert_eq!(refuse(&m::ProduceRequest::default().into(), ErrorCode::NotController), None);
    }
}
