//! Where a request or an answer goes: the one place that tells the APIs of a broker apart.

use std::rc::Rc;

use super::Broker;
use super::process::Purpose;
use super::shares::refused_without_share_groups;
use super::timer::BrokerTimer;
use crate::kafka::api_versions;
use crate::kafka::controller::not_controller;
use crate::kafka::effects::{Channel, Effect, Effects, RequestId};
use crate::kafka::network_client::NetworkEvent;
use crate::kafka::protocol::{ApiKey, Request, Response};
use crate::kafka::replication::purgatory::SharedFetch;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, NodeId};

impl Broker {
    pub(super) fn on_request(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: Rc<Request>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if let Some(refusal) =
            refused_without_share_groups(&request).filter(|_| !self.image.has_share_groups())
        {
            return fx.respond(id, refusal);
        }
        match &*request {
            Request::Produce(_) => self.on_produce(now, id, request.clone(), fx),
            Request::Fetch(_) => {
                let fetch = SharedFetch::new(request.clone()).expect("a Fetch request");
                self.with_replicas(now, fx, |replicas, step| replicas.fetch(id, &fetch, step));
            }
            Request::DeleteRecords(request) => {
                self.with_replicas(now, fx, |replicas, step| replicas.delete_records(id, request, step));
            }
            Request::ListOffsets(request) => fx.respond(id, self.replicas.list_offsets(request, &self.image)),
            Request::OffsetForLeaderEpoch(request) => {
                fx.respond(id, self.replicas.offsets_for_leader_epoch(request, &self.image));
            }
            Request::Metadata(request) => {
                let response = self.metadata_response(now, request, fx);
                fx.respond(id, response);
            }
            Request::FindCoordinator(request) => {
                let response = self.find_coordinator(now, request, fx);
                fx.respond(id, response);
            }
            Request::JoinGroup(_)
            | Request::SyncGroup(_)
            | Request::Heartbeat(_)
            | Request::LeaveGroup(_)
            | Request::OffsetCommit(_)
            | Request::OffsetFetch(_)
            | Request::ListGroups(_)
            | Request::DescribeGroups(_)
            | Request::DeleteGroups(_)
            | Request::OffsetDelete(_)
            | Request::ConsumerGroupHeartbeat(_)
            | Request::ConsumerGroupDescribe(_)
            | Request::ShareGroupHeartbeat(_)
            | Request::ShareGroupDescribe(_)
            | Request::AlterShareGroupOffsets(_)
            | Request::DeleteShareGroupOffsets(_) => self.on_group_request(now, id, client, &request, fx),
            Request::DescribeShareGroupOffsets(request) => {
                self.on_describe_share_offsets(now, id, request, fx);
            }
            Request::ShareFetch(request) => self.on_share_fetch(now, id, request, fx),
            Request::ShareAcknowledge(request) => self.on_share_acknowledge(now, id, request, fx),
            Request::InitializeShareGroupState(_)
            | Request::ReadShareGroupState(_)
            | Request::WriteShareGroupState(_)
            | Request::DeleteShareGroupState(_)
            | Request::ReadShareGroupStateSummary(_) => self.on_share_state_request(now, id, &request, fx),
            Request::ApiVersions(_) => fx.respond(id, api_versions::response(BROKER_APIS, &self.image)),
            Request::InitProducerId(request) => self.on_init_producer_id(now, id, request, fx),
            Request::AddPartitionsToTxn(request) => self.on_add_partitions(now, id, request, fx),
            Request::AddOffsetsToTxn(request) => self.on_add_offsets(now, id, request, fx),
            Request::TxnOffsetCommit(_) => self.on_txn_offset_commit(now, id, client, &request, fx),
            Request::EndTxn(request) => self.on_end_txn(now, id, request, fx),
            Request::WriteTxnMarkers(request) => self.on_write_markers(now, id, request, fx),
            Request::DescribeProducers(request) => fx.respond(id, self.describe_producers(request)),
            Request::DescribeTransactions(request) => {
                fx.respond(id, self.transactions.coordinator.describe_all(request));
            }
            Request::ListTransactions(request) => {
                fx.respond(id, self.transactions.coordinator.list_all(now, request));
            }
            Request::DescribeConfigs(request) => fx.respond(id, self.describe_configs(request)),
            Request::IncrementalAlterConfigs(request) => self.alter_configs(now, id, client, request, fx),
            Request::CreateTopics(_)
            | Request::DeleteTopics(_)
            | Request::CreatePartitions(_)
            | Request::DescribeQuorum(_)
            | Request::ElectLeaders(_)
            | Request::AlterPartitionReassignments(_)
            | Request::UpdateFeatures(_)
            | Request::ListPartitionReassignments(_) => {
                self.forward(now, id, client, request.clone(), fx);
            }
            Request::AlterPartition(_)
            | Request::Vote(_)
            | Request::BeginQuorumEpoch(_)
            | Request::EndQuorumEpoch(_)
            | Request::Envelope(_)
            | Request::FetchSnapshot(_)
            | Request::BrokerRegistration(_)
            | Request::BrokerHeartbeat(_)
            | Request::AllocateProducerIds(_) => fx.push(Effect::Hangup(id)),
        }
    }

    pub(super) fn on_network(
        &mut self,
        now: Time,
        event: NetworkEvent<Purpose>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        match event {
            NetworkEvent::Ready(peer) | NetworkEvent::BackoffOver(peer) => match peer.node {
                NodeId::Controller(_) => self.flush(now, peer.channel, fx),
                _ => match peer.channel {
                    Channel::ShareState => self.flush_persister(now, fx),
                    Channel::EndOffsets => self.flush_end_offsets(now, fx),
                    Channel::AddPartitions => self.flush_add_partitions(now, fx),
                    _ => {}
                },
            },
            NetworkEvent::Answered { peer, context, response, .. } => match peer.node {
                NodeId::Controller(id) if not_controller::is_refusal(&response) => {
                    self.on_refusal(now, id, peer.channel, fx);
                }
                NodeId::Controller(_) => {
                    self.to_controller.answered(peer.channel);
                    self.on_answer(now, context, &response, fx);
                    self.flush(now, peer.channel, fx);
                }
                _ => self.on_answer(now, context, &response, fx),
            },
            NetworkEvent::Lost { peer, contexts, .. } => self.on_lost(now, peer, contexts, fx),
        }
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        purpose: Purpose,
        response: &Response,
        fx: &mut Effects<BrokerTimer>,
    ) {
        match (purpose, response) {
            (Purpose::Register, Response::BrokerRegistration(response)) => self.registered(now, response, fx),
            (Purpose::Heartbeat, Response::BrokerHeartbeat(response)) => {
                self.heartbeat_answered(now, response, fx)
            }
            (Purpose::FetchReplicas { leader }, Response::Fetch(response)) => {
                self.with_replicas(now, fx, |replicas, step| replicas.fetched(leader, response, step));
            }
            (Purpose::LookUp { leader, lookup }, Response::ListOffsets(response)) => {
                self.with_replicas(now, fx, |replicas, step| {
                    replicas.looked_up(leader, &lookup, response, step)
                });
            }
            (Purpose::AlterPartition, Response::AlterPartition(response)) => {
                self.partitions_altered(now, response, fx);
            }
            (Purpose::CreateTopics(names), Response::CreateTopics(_)) => {
                self.creating.retain(|name| !names.contains(name));
            }
            (Purpose::Forward(forwarded), Response::Envelope(response)) => {
                self.forwarded(forwarded, response, fx)
            }
            (Purpose::AllocateProducerIds, Response::AllocateProducerIds(response)) => {
                self.producer_ids.allocated(response);
            }
            (Purpose::EndOffsets(ask), Response::ListOffsets(response)) => {
                self.end_offsets_answered(now, ask, response, fx);
            }
            (Purpose::ShareState(operations), response) => {
                self.persister_answered(now, operations, response, fx);
            }
            (Purpose::AddPartitions(questions), response) => {
                self.add_partitions_answered(now, questions, response, fx);
            }
            (Purpose::Markers(entries), response) => self.markers_answered(now, entries, response, fx),
            (purpose, response) => panic!("{} is no answer to {purpose:?}", response.api().name()),
        }
    }
}

const BROKER_APIS: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::EndTxn,
    ApiKey::WriteTxnMarkers,
    ApiKey::TxnOffsetCommit,
    ApiKey::DescribeConfigs,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::DescribeQuorum,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::UpdateFeatures,
    ApiKey::OffsetDelete,
    ApiKey::DescribeProducers,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
    ApiKey::InitializeShareGroupState,
    ApiKey::ReadShareGroupState,
    ApiKey::WriteShareGroupState,
    ApiKey::DeleteShareGroupState,
    ApiKey::ReadShareGroupStateSummary,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::ConsumerGroupDescribe,
    ApiKey::ShareGroupHeartbeat,
    ApiKey::ShareGroupDescribe,
    ApiKey::DescribeShareGroupOffsets,
    ApiKey::AlterShareGroupOffsets,
    ApiKey::DeleteShareGroupOffsets,
];
