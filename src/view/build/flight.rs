//! Requests and answers on their way, as the view shows them.

use bytes::Bytes;

use crate::kafka::protocol::{ApiKey, Request, Response};
use crate::kafka::raft::{METADATA_TOPIC_ID, says_anything};
use crate::kafka::record::{Batch, split_batches};
use crate::kafka::types::{Topic, TopicId, TopicPartition};
use crate::view::build::log::key_colour;
use crate::view::model::FlightKind;

/// What a message is to the eye, and the records it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cargo {
    pub kind: FlightKind,
    pub label: &'static str,
    pub tp: Option<TopicPartition>,
    pub colour: Option<u8>,
    pub records: i64,
}

impl Cargo {
    fn plain(kind: FlightKind, api: ApiKey) -> Cargo {
        Cargo { kind, label: api.name(), tp: None, colour: None, records: 0 }
    }
}

/// Names a topic of the cluster.
pub type TopicNames<'a> = &'a dyn Fn(TopicId) -> Option<Topic>;

pub fn of_request(request: &Request, topics: TopicNames<'_>) -> Cargo {
    match request {
        Request::Produce(produce) => {
            let parts = produce.topic_data.iter().flat_map(|topic| {
                let by = match TopicId(topic.topic_id) {
                    TopicId::NONE => Named::Name(&topic.name),
                    id => Named::Id(id),
                };
                topic.partition_data.iter().map(move |part| (by, part.index, part.records.as_ref()))
            });
            carrying(Cargo::plain(FlightKind::Records, ApiKey::Produce), parts, topics)
        }
        other => Cargo::plain(kind(other.api()), other.api()),
    }
}

pub fn of_response(response: &Response, topics: TopicNames<'_>) -> Cargo {
    match response {
        Response::Fetch(fetch) => {
            let parts = fetch.responses.iter().flat_map(|topic| {
                let by = Named::Id(TopicId(topic.topic_id));
                topic.partitions.iter().map(move |part| (by, part.partition_index, part.records.as_ref()))
            });
            carrying(Cargo::plain(FlightKind::Background, ApiKey::Fetch), parts, topics)
        }
        Response::ShareFetch(fetch) => {
            let parts = fetch.responses.iter().flat_map(|topic| {
                let by = Named::Id(TopicId(topic.topic_id));
                topic.partitions.iter().map(move |part| (by, part.partition_index, Some(&part.records)))
            });
            carrying(Cargo::plain(FlightKind::Background, ApiKey::ShareFetch), parts, topics)
        }
        Response::Produce(_) | Response::OffsetCommit(_) | Response::ShareAcknowledge(_) => {
            Cargo::plain(FlightKind::Confirmation, response.api())
        }
        other => Cargo::plain(kind(other.api()), other.api()),
    }
}

fn kind(api: ApiKey) -> FlightKind {
    match api {
        ApiKey::Produce => FlightKind::Records,
        ApiKey::FindCoordinator | ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::LeaveGroup => {
            FlightKind::Group
        }
        ApiKey::OffsetCommit | ApiKey::TxnOffsetCommit | ApiKey::EndTxn | ApiKey::ShareAcknowledge => {
            FlightKind::Commit
        }
        ApiKey::CreateTopics
        | ApiKey::DeleteTopics
        | ApiKey::DeleteRecords
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete
        | ApiKey::AlterShareGroupOffsets
        | ApiKey::DeleteShareGroupOffsets
        | ApiKey::CreatePartitions
        | ApiKey::ElectLeaders
        | ApiKey::UpdateFeatures
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::AlterPartitionReassignments
        | ApiKey::AlterPartition
        | ApiKey::BrokerRegistration
        | ApiKey::Vote
        | ApiKey::BeginQuorumEpoch
        | ApiKey::EndQuorumEpoch
        | ApiKey::WriteTxnMarkers => FlightKind::Control,
        ApiKey::Fetch
        | ApiKey::ListOffsets
        | ApiKey::OffsetForLeaderEpoch
        | ApiKey::Metadata
        | ApiKey::OffsetFetch
        | ApiKey::Heartbeat
        | ApiKey::ApiVersions
        | ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::DescribeProducers
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions
        | ApiKey::DescribeConfigs
        | ApiKey::DescribeGroups
        | ApiKey::DescribeShareGroupOffsets
        | ApiKey::ListGroups
        | ApiKey::DescribeQuorum
        | ApiKey::FetchSnapshot
        | ApiKey::ListPartitionReassignments
        | ApiKey::Envelope
        | ApiKey::BrokerHeartbeat
        | ApiKey::AllocateProducerIds
        | ApiKey::ShareFetch
        | ApiKey::InitializeShareGroupState
        | ApiKey::ReadShareGroupState
        | ApiKey::WriteShareGroupState
        | ApiKey::DeleteShareGroupState
        | ApiKey::ReadShareGroupStateSummary
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe
        | ApiKey::ShareGroupHeartbeat
        | ApiKey::ShareGroupDescribe => FlightKind::Background,
    }
}

/// How a message names a topic.
#[derive(Clone, Copy)]
enum Named<'a> {
    Id(TopicId),
    /// As producers before transaction version 2 do.
    Name(&'a str),
}

/// Adds what the parts carry to `cargo`, which is what the message would be without records.
fn carrying<'a>(
    mut cargo: Cargo,
    parts: impl Iterator<Item = (Named<'a>, i32, Option<&'a Bytes>)>,
    topics: TopicNames<'_>,
) -> Cargo {
    for (by, partition, bytes) in parts {
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { continue };
        let is_metadata = matches!(by, Named::Id(METADATA_TOPIC_ID));
        if is_metadata && !says_anything(bytes) {
            return cargo;
        }
        if is_metadata {
            return Cargo { kind: FlightKind::Control, label: "metadata records", ..cargo };
        }
        for batch in split_batches(bytes.clone()).flatten() {
            cargo.records += i64::from(batch.record_count());
            cargo.kind = FlightKind::Records;
            if cargo.colour.is_none() {
                let name = match by {
                    Named::Id(id) => topics(id),
                    Named::Name(name) => Some(Topic::new(name)),
                };
                cargo.tp = name.map(|name| TopicPartition::new(&name, partition));
                cargo.colour = first_colour(&batch);
            }
        }
    }
    cargo
}

fn first_colour(batch: &Batch) -> Option<u8> {
    let records = batch.records().ok()?;
    let key = records.first()?.key.clone()?;
    Some(key_colour(&String::from_utf8_lossy(&key)))
}
