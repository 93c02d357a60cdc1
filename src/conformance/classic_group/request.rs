//! The scripts' requests as the wire has them.

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::protocol::StrBytes;

use super::bench::{GROUP, TOPIC};
use super::{Caller, Join, Leaver, Sync};

/// What a client named where its script does not tell.
const SILENT: &str = "range";

fn wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn wire_option(text: &Option<String>) -> Option<StrBytes> {
    text.as_deref().map(wire)
}

fn group() -> m::GroupId {
    m::GroupId(wire(GROUP))
}

impl Join {
    pub(super) fn request(&self) -> m::JoinGroupRequest {
        let protocol = |(name, metadata): &(String, super::Hex)| {
            JoinGroupRequestProtocol::default().with_name(wire(name)).with_metadata(metadata.0.clone())
        };
        m::JoinGroupRequest::default()
            .with_group_id(group())
            .with_member_id(wire(&self.member_id))
            .with_group_instance_id(wire_option(&self.instance_id))
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(self.rebalance_timeout_ms)
            .with_protocol_type(wire("consumer"))
            .with_protocols(self.protocols.iter().map(protocol).collect())
    }
}

impl Sync {
    pub(super) fn request(&self) -> m::SyncGroupRequest {
        let assignment = |(member, assignment): &(String, String)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(wire(member))
                .with_assignment(Bytes::from(assignment.clone()))
        };
        m::SyncGroupRequest::default()
            .with_group_id(group())
            .with_member_id(wire(&self.member_id))
            .with_group_instance_id(wire_option(&self.instance_id))
            .with_generation_id(self.generation)
            .with_protocol_type(wire_option(&self.protocol_type))
            .with_protocol_name(Some(wire(self.protocol.as_deref().unwrap_or(SILENT))))
            .with_assignments(self.assignments.iter().map(assignment).collect())
    }
}

impl Caller {
    pub(super) fn heartbeat(&self) -> m::HeartbeatRequest {
        m::HeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(wire(&self.member_id))
            .with_group_instance_id(wire_option(&self.instance_id))
            .with_generation_id(self.generation)
    }

    pub(super) fn commit(&self) -> m::OffsetCommitRequest {
        let topic = OffsetCommitRequestTopic::default()
            .with_name(m::TopicName(wire(TOPIC)))
            .with_partitions(vec![OffsetCommitRequestPartition::default()]);
        m::OffsetCommitRequest::default()
            .with_group_id(group())
            .with_member_id(wire(&self.member_id))
            .with_group_instance_id(wire_option(&self.instance_id))
            .with_generation_id_or_member_epoch(self.generation)
            .with_topics(vec![topic])
    }
}

impl Leaver {
    pub(super) fn request(&self) -> m::LeaveGroupRequest {
        let member = MemberIdentity::default()
            .with_member_id(wire(&self.member_id))
            .with_group_instance_id(wire_option(&self.instance_id));
        m::LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member])
    }
}
