//! Kafka's requests and responses, as the nodes exchange them.
//!
//! The types are `kafka-protocol`'s, generated from Kafka's own schemas; [`Request`] and [`Response`] gather the ones
//! that are in use, each at the newest version that both Kafka 4.3 and the crate speak, and a few at older ones too: those
//! by which clients show that they keep to transaction version 1 (R-TXN-5).
//!
//! **Invariant:** a message that a node sends can be carried by the wire at its version without loss ([`strict`]).

mod body;
pub mod coordinator_records;
pub mod error;
pub mod listener;
pub mod markers;
pub mod metadata_records;
pub mod share;
pub mod share_records;
pub mod strict;
pub mod transaction_records;
pub mod wire;

use std::ops::RangeInclusive;

use body::Body;

pub use body::SameAsVersion0;
pub use error::ErrorCode;

/// kafka-protocol's bodies, and our own in the place of those that Kafka 4.3 speaks in a later version.
mod m {
    pub use kafka_protocol::messages::*;

    pub use super::markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
    pub use super::share::{
        DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
        ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse, ShareAcknowledgeRequest,
        ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse, WriteShareGroupStateRequest,
        WriteShareGroupStateResponse,
    };
}

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $key:literal, version $version:literal $(down to $oldest:literal)?: $request:ident -> $response:ident;)*) => {
        /// What a request asks for; the names are Kafka's `ApiKeys`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey { $($(#[$doc])* $name = $key,)* }

        impl ApiKey {
            pub const ALL: &[ApiKey] = &[$(ApiKey::$name,)*];

            pub fn name(self) -> &'static str {
                match self { $(ApiKey::$name => stringify!($name),)* }
            }

            /// The newest version that is spoken here.
            pub fn version(self) -> i16 {
                match self { $(ApiKey::$name => $version,)* }
            }

            /// All that are spoken here.
            pub fn versions(self) -> RangeInclusive<i16> {
                match self { $(ApiKey::$name => [$($oldest,)? $version][0]..=$version,)* }
            }
        }

        #[derive(Clone, Debug, PartialEq)]
        pub enum Request { $($name(m::$request),)* }

        #[derive(Clone, Debug, PartialEq)]
        pub enum Response { $($name(m::$response),)* }

        impl Request {
            pub fn api(&self) -> ApiKey {
                match self { $(Request::$name(_) => ApiKey::$name,)* }
            }

            /// The body's bytes at one of [`ApiKey::versions`].
            pub fn encode(&self, into: &mut bytes::BytesMut, version: i16) -> Result<(), CodecError> {
                let put = match self { $(Request::$name(body) => body.put(into, version),)* };
                put.map_err(|e| CodecError::new(self.api(), version, e))
            }

            pub fn decode(api: ApiKey, version: i16, bytes: &mut bytes::Bytes) -> Result<Request, CodecError> {
                match api {
                    $(ApiKey::$name => m::$request::take(bytes, version).map(Request::$name),)*
                }.map_err(|e| CodecError::new(api, version, e))
            }
        }

        impl Response {
            pub fn api(&self) -> ApiKey {
                match self { $(Response::$name(_) => ApiKey::$name,)* }
            }

            /// The body's bytes at one of [`ApiKey::versions`].
            pub fn encode(&self, into: &mut bytes::BytesMut, version: i16) -> Result<(), CodecError> {
                let put = match self { $(Response::$name(body) => body.put(into, version),)* };
                put.map_err(|e| CodecError::new(self.api(), version, e))
            }

            pub fn decode(api: ApiKey, version: i16, bytes: &mut bytes::Bytes) -> Result<Response, CodecError> {
                match api {
                    $(ApiKey::$name => m::$response::take(bytes, version).map(Response::$name),)*
                }.map_err(|e| CodecError::new(api, version, e))
            }
        }

        $(
            impl From<m::$request> for Request {
                fn from(body: m::$request) -> Request { Request::$name(body) }
            }
            impl From<m::$response> for Response {
                fn from(body: m::$response) -> Response { Response::$name(body) }
            }
        )*
    };
}

apis! {
    Produce = 0, version 13 down to 11: ProduceRequest -> ProduceResponse;
    Fetch = 1, version 18: FetchRequest -> FetchResponse;
    ListOffsets = 2, version 10: ListOffsetsRequest -> ListOffsetsResponse;
    Metadata = 3, version 13: MetadataRequest -> MetadataResponse;
    OffsetCommit = 8, version 9: OffsetCommitRequest -> OffsetCommitResponse;
    OffsetFetch = 9, version 9: OffsetFetchRequest -> OffsetFetchResponse;
    FindCoordinator = 10, version 6: FindCoordinatorRequest -> FindCoordinatorResponse;
    JoinGroup = 11, version 9: JoinGroupRequest -> JoinGroupResponse;
    Heartbeat = 12, version 4: HeartbeatRequest -> HeartbeatResponse;
    LeaveGroup = 13, version 5: LeaveGroupRequest -> LeaveGroupResponse;
    SyncGroup = 14, version 5: SyncGroupRequest -> SyncGroupResponse;
    DescribeGroups = 15, version 6: DescribeGroupsRequest -> DescribeGroupsResponse;
    ListGroups = 16, version 5: ListGroupsRequest -> ListGroupsResponse;
    ApiVersions = 18, version 4: ApiVersionsRequest -> ApiVersionsResponse;
    CreateTopics = 19, version 7: CreateTopicsRequest -> CreateTopicsResponse;
    DeleteTopics = 20, version 6: DeleteTopicsRequest -> DeleteTopicsResponse;
    DeleteRecords = 21, version 2: DeleteRecordsRequest -> DeleteRecordsResponse;
    InitProducerId = 22, version 5: InitProducerIdRequest -> InitProducerIdResponse;
    OffsetForLeaderEpoch = 23, version 4: OffsetForLeaderEpochRequest -> OffsetForLeaderEpochResponse;
    AddPartitionsToTxn = 24, version 5 down to 3: AddPartitionsToTxnRequest -> AddPartitionsToTxnResponse;
    AddOffsetsToTxn = 25, version 4: AddOffsetsToTxnRequest -> AddOffsetsToTxnResponse;
    EndTxn = 26, version 5 down to 4: EndTxnRequest -> EndTxnResponse;
    WriteTxnMarkers = 27, version 2: WriteTxnMarkersRequest -> WriteTxnMarkersResponse;
    TxnOffsetCommit = 28, version 5 down to 4: TxnOffsetCommitRequest -> TxnOffsetCommitResponse;
    DescribeConfigs = 32, version 4: DescribeConfigsRequest -> DescribeConfigsResponse;
    CreatePartitions = 37, version 3: CreatePartitionsRequest -> CreatePartitionsResponse;
    DeleteGroups = 42, version 2: DeleteGroupsRequest -> DeleteGroupsResponse;
    ElectLeaders = 43, version 2: ElectLeadersRequest -> ElectLeadersResponse;
    IncrementalAlterConfigs = 44, version 1: IncrementalAlterConfigsRequest -> IncrementalAlterConfigsResponse;
    AlterPartitionReassignments = 45, version 1: AlterPartitionReassignmentsRequest -> AlterPartitionReassignmentsResponse;
    ListPartitionReassignments = 46, version 0: ListPartitionReassignmentsRequest -> ListPartitionReassignmentsResponse;
    OffsetDelete = 47, version 0: OffsetDeleteRequest -> OffsetDeleteResponse;
    Vote = 52, version 2: VoteRequest -> VoteResponse;
    BeginQuorumEpoch = 53, version 1: BeginQuorumEpochRequest -> BeginQuorumEpochResponse;
    EndQuorumEpoch = 54, version 1: EndQuorumEpochRequest -> EndQuorumEpochResponse;
    DescribeQuorum = 55, version 2: DescribeQuorumRequest -> DescribeQuorumResponse;
    AlterPartition = 56, version 3: AlterPartitionRequest -> AlterPartitionResponse;
    UpdateFeatures = 57, version 2: UpdateFeaturesRequest -> UpdateFeaturesResponse;
    Envelope = 58, version 0: EnvelopeRequest -> EnvelopeResponse;
    FetchSnapshot = 59, version 1: FetchSnapshotRequest -> FetchSnapshotResponse;
    DescribeProducers = 61, version 0: DescribeProducersRequest -> DescribeProducersResponse;
    BrokerRegistration = 62, version 4: BrokerRegistrationRequest -> BrokerRegistrationResponse;
    BrokerHeartbeat = 63, version 1: BrokerHeartbeatRequest -> BrokerHeartbeatResponse;
    DescribeTransactions = 65, version 0: DescribeTransactionsRequest -> DescribeTransactionsResponse;
    ListTransactions = 66, version 2: ListTransactionsRequest -> ListTransactionsResponse;
    AllocateProducerIds = 67, version 0: AllocateProducerIdsRequest -> AllocateProducerIdsResponse;
    ConsumerGroupHeartbeat = 68, version 1: ConsumerGroupHeartbeatRequest -> ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe = 69, version 1: ConsumerGroupDescribeRequest -> ConsumerGroupDescribeResponse;
    ShareGroupHeartbeat = 76, version 1: ShareGroupHeartbeatRequest -> ShareGroupHeartbeatResponse;
    ShareGroupDescribe = 77, version 1: ShareGroupDescribeRequest -> ShareGroupDescribeResponse;
    ShareFetch = 78, version 2: ShareFetchRequest -> ShareFetchResponse;
    ShareAcknowledge = 79, version 2: ShareAcknowledgeRequest -> ShareAcknowledgeResponse;
    InitializeShareGroupState = 83, version 0: InitializeShareGroupStateRequest -> InitializeShareGroupStateResponse;
    ReadShareGroupState = 84, version 0: ReadShareGroupStateRequest -> ReadShareGroupStateResponse;
    WriteShareGroupState = 85, version 1: WriteShareGroupStateRequest -> WriteShareGroupStateResponse;
    DeleteShareGroupState = 86, version 0: DeleteShareGroupStateRequest -> DeleteShareGroupStateResponse;
    ReadShareGroupStateSummary = 87, version 1: ReadShareGroupStateSummaryRequest -> ReadShareGroupStateSummaryResponse;
    DescribeShareGroupOffsets = 90, version 1: DescribeShareGroupOffsetsRequest -> DescribeShareGroupOffsetsResponse;
    AlterShareGroupOffsets = 91, version 0: AlterShareGroupOffsetsRequest -> AlterShareGroupOffsetsResponse;
    DeleteShareGroupOffsets = 92, version 0: DeleteShareGroupOffsetsRequest -> DeleteShareGroupOffsetsResponse;
}

/// A message that cannot be written or read at its version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} version {version}: {reason}", api.name())]
pub struct CodecError {
    pub api: ApiKey,
    pub version: i16,
    pub reason: String,
}

impl CodecError {
    pub(crate) fn new(api: ApiKey, version: i16, reason: impl ToString) -> CodecError {
        CodecError { api, version, reason: reason.to_string() }
    }
}
