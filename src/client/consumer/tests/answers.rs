//! What the scripted cluster answers.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as m;
use m::fetch_response::{FetchableTopicResponse, LeaderIdAndEpoch, PartitionData};
use m::find_coordinator_response::Coordinator as FoundCoordinator;
use m::join_group_response::JoinGroupResponseMember;
use m::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use m::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use m::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use m::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use m::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};

use super::{COORDINATOR, Pending, Rig, TOPIC_ID};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::types::{LeaderEpoch, MemberId, Offset, Topic};

impl Rig {
    pub(super) fn response(&mut self, request: &Request) -> Response {
        match request {
            Request::ApiVersions(_) => m::ApiVersionsResponse::default().into(),
            Request::Metadata(_) => self.metadata().into(),
            Request::FindCoordinator(_) => coordinator_is(COORDINATOR).into(),
            Request::JoinGroup(join) => self.join(join).into(),
            Request::SyncGroup(sync) => {
                let own = sync.assignments.iter().find(|a| a.member_id == sync.member_id);
                let assignment = own.map(|a| a.assignment.clone()).unwrap_or_default();
                m::SyncGroupResponse::default().with_assignment(assignment).into()
            }
            Request::OffsetFetch(fetch) => self.offsets(fetch).into(),
            Request::ListOffsets(list) => self.log_ends(list).into(),
            Request::OffsetCommit(commit) => self.commit(commit).into(),
            Request::OffsetForLeaderEpoch(ask) => self.epoch_ends(ask).into(),
            Request::Heartbeat(_) => heartbeat(ErrorCode::None).into(),
            Request::LeaveGroup(_) => m::LeaveGroupResponse::default().into(),
            other => panic!("no consumer sends {}", other.api().name()),
        }
    }

    pub(super) fn metadata(&self) -> m::MetadataResponse {
        let broker = |id| {
            let rack = self.racks.get(&id).map(|rack| MemberId::new(rack).to_wire());
            MetadataResponseBroker::default().with_node_id(m::BrokerId(id)).with_rack(rack)
        };
        let partition = |(index, leader): (usize, &i32)| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(m::BrokerId(*leader))
                .with_leader_epoch(self.leader_epoch)
                .with_replica_nodes([1, 2, 3].map(m::BrokerId).to_vec())
                .with_offline_replicas(self.down.iter().copied().map(m::BrokerId).collect())
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(m::TopicName(Topic::new("t").to_wire())))
            .with_topic_id(TOPIC_ID)
            .with_partitions(self.leaders.iter().enumerate().map(partition).collect());
        m::MetadataResponse::default().with_brokers([1, 2, 3].map(broker).to_vec()).with_topics(vec![topic])
    }

    pub(super) fn join(&mut self, join: &m::JoinGroupRequest) -> m::JoinGroupResponse {
        if join.member_id.is_empty() {
            let member_id = MemberId::new("m1").to_wire();
            return join_error(ErrorCode::MemberIdRequired).with_member_id(member_id);
        }
        self.generation += 1;
        self.joined_as(join, &[("m1", &join.protocols[0].metadata)], "m1")
    }

    pub(super) fn joined_as(
        &self,
        join: &m::JoinGroupRequest,
        members: &[(&str, &Bytes)],
        leader: &str,
    ) -> m::JoinGroupResponse {
        let member = |(member, metadata): &(&str, &Bytes)| {
            JoinGroupResponseMember::default()
                .with_member_id(MemberId::new(member).to_wire())
                .with_metadata((*metadata).clone())
        };
        m::JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_name(Some(join.protocols[0].name.clone()))
            .with_leader(MemberId::new(leader).to_wire())
            .with_member_id(join.member_id.clone())
            .with_members(members.iter().map(member).collect())
    }

    pub(super) fn offsets(&self, fetch: &m::OffsetFetchRequest) -> m::OffsetFetchResponse {
        assert!(fetch.require_stable, "consumers ask for stable offsets (R-GRP-39)");
        let asked = fetch.groups[0].topics.as_ref().unwrap();
        let partition = |index: &i32| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(*index)
                .with_committed_offset(self.committed.get(index).copied().unwrap_or(-1))
                .with_committed_leader_epoch(self.committed_epoch)
        };
        let topic = OffsetFetchResponseTopics::default()
            .with_name(asked[0].name.clone())
            .with_partitions(asked[0].partition_indexes.iter().map(partition).collect());
        m::OffsetFetchResponse::default()
            .with_groups(vec![OffsetFetchResponseGroup::default().with_topics(vec![topic])])
    }

    pub(super) fn log_ends(&self, list: &m::ListOffsetsRequest) -> m::ListOffsetsResponse {
        let end = |asked: &m::list_offsets_request::ListOffsetsPartition| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(asked.partition_index)
                .with_offset(if asked.timestamp == -1 { self.log_end } else { self.log_start })
                .with_leader_epoch(self.leader_epoch)
        };
        let topic = ListOffsetsTopicResponse::default()
            .with_name(list.topics[0].name.clone())
            .with_partitions(list.topics[0].partitions.iter().map(end).collect());
        m::ListOffsetsResponse::default().with_topics(vec![topic])
    }

    pub(super) fn epoch_ends(&self, ask: &m::OffsetForLeaderEpochRequest) -> m::OffsetForLeaderEpochResponse {
        let end = |asked: &m::offset_for_leader_epoch_request::OffsetForLeaderPartition| {
            let answer = EpochEndOffset::default().with_partition(asked.partition);
            if asked.current_leader_epoch != self.leader_epoch {
                return answer.with_error_code(ErrorCode::FencedLeaderEpoch.code());
            }
            let (epoch, end) = self.epoch_end.unwrap_or((asked.leader_epoch, self.log_end));
            answer.with_leader_epoch(epoch).with_end_offset(end)
        };
        let topic = OffsetForLeaderTopicResult::default()
            .with_topic(ask.topics[0].topic.clone())
            .with_partitions(ask.topics[0].partitions.iter().map(end).collect());
        m::OffsetForLeaderEpochResponse::default().with_topics(vec![topic])
    }

    pub(super) fn commit(&mut self, commit: &m::OffsetCommitRequest) -> m::OffsetCommitResponse {
        for partition in &commit.topics[0].partitions {
            self.committed.insert(partition.partition_index, partition.committed_offset);
        }
        commit_answer(commit, ErrorCode::None)
    }
}

pub(super) fn batch(from: i64, to: i64) -> Bytes {
    batch_of(from, &vec![&b"v"[..]; (to - from) as usize])
}

/// One with these values.
pub(super) fn batch_of(from: i64, values: &[&[u8]]) -> Bytes {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(value), headers: &[] });
    }
    builder.finish(None).with_assigned(Offset(from), LeaderEpoch(5)).into_bytes()
}

pub(super) fn empty_answer(fetch: &Pending) -> m::FetchResponse {
    answer_of(fetch, Vec::new())
}

/// The answer of a broker that has no slot for a session: to a full request, about all its partitions.
pub(super) fn answer_of(fetch: &Pending, mut partitions: Vec<PartitionData>) -> m::FetchResponse {
    let Request::Fetch(fetch) = &*fetch.request else { panic!("no fetch: {fetch:?}") };
    assert!(fetch.session_epoch <= 0, "an incremental request");
    for asked in fetch.topics.iter().flat_map(|topic| &topic.partitions) {
        if partitions.iter().all(|data| data.partition_index != asked.partition) {
            partitions.push(data_of(asked.partition, &[]));
        }
    }
    let topic = FetchableTopicResponse::default().with_topic_id(TOPIC_ID).with_partitions(partitions);
    m::FetchResponse::default().with_responses(vec![topic])
}

/// One batch of the offsets `from..to`.
pub(super) fn records(partition: i32, from: i64, to: i64) -> PartitionData {
    let bytes = if from < to { batch(from, to) } else { Bytes::new() };
    data_of(partition, &[bytes]).with_high_watermark(to)
}

pub(super) fn data_of(partition: i32, batches: &[Bytes]) -> PartitionData {
    let mut bytes = BytesMut::new();
    batches.iter().for_each(|batch| bytes.extend_from_slice(batch));
    PartitionData::default().with_partition_index(partition).with_records(Some(bytes.freeze()))
}

pub(super) fn partition_error(partition: i32, error: ErrorCode) -> PartitionData {
    PartitionData::default().with_partition_index(partition).with_error_code(error.code())
}

pub(super) fn coordinator_is(broker: i32) -> m::FindCoordinatorResponse {
    let found = FoundCoordinator::default().with_node_id(m::BrokerId(broker));
    m::FindCoordinatorResponse::default().with_coordinators(vec![found])
}

pub(super) fn no_coordinator(error: ErrorCode) -> m::FindCoordinatorResponse {
    let found = FoundCoordinator::default().with_error_code(error.code());
    m::FindCoordinatorResponse::default().with_coordinators(vec![found])
}

pub(super) fn join_error(error: ErrorCode) -> m::JoinGroupResponse {
    m::JoinGroupResponse::default().with_error_code(error.code())
}

pub(super) fn heartbeat(error: ErrorCode) -> m::HeartbeatResponse {
    m::HeartbeatResponse::default().with_error_code(error.code())
}

pub(super) fn commit_answer(commit: &m::OffsetCommitRequest, error: ErrorCode) -> m::OffsetCommitResponse {
    let partition = |p: &m::offset_commit_request::OffsetCommitRequestPartition| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(p.partition_index)
            .with_error_code(error.code())
    };
    let topic = OffsetCommitResponseTopic::default()
        .with_name(commit.topics[0].name.clone())
        .with_partitions(commit.topics[0].partitions.iter().map(partition).collect());
    m::OffsetCommitResponse::default().with_topics(vec![topic])
}

/// KIP-951: who leads now, in the answer of a broker that does not any more.
pub(super) fn led_by(broker: i32, epoch: i32) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch::default().with_leader_id(m::BrokerId(broker)).with_leader_epoch(epoch)
}
