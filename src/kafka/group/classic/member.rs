//! One member of a classic group (`ClassicGroupMember`).
//!
//! **Invariant:** at most one JoinGroup and one SyncGroup of a member are parked.

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::protocol::StrBytes;

use crate::kafka::effects::RequestId;
use crate::kafka::protocol::coordinator_records::MemberMetadata;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, MemberId};

/// All clients of a sandbox run on one machine.
pub(in crate::kafka::group) const CLIENT_HOST: &str = "/127.0.0.1";

#[derive(Clone, Debug)]
pub struct Member {
    pub id: MemberId,
    /// `group.instance.id`; a member that has one is static (R-GRP-24).
    pub instance_id: Option<StrBytes>,
    pub client: ClientName,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    /// The assignors it offers, in its order of preference, each with its subscription.
    pub protocols: Vec<JoinGroupRequestProtocol>,
    pub assignment: Bytes,
    /// Its JoinGroup, parked until the join phase ends (R-GRP-11).
    pub parked_join: Option<RequestId>,
    /// Its SyncGroup, parked until the leader's plan is stored (R-GRP-18).
    pub parked_sync: Option<RequestId>,
    /// It has not been through a join phase yet.
    pub is_new: bool,
    /// Who is lower joined earlier; [`ClassicGroup::insert`](super::ClassicGroup) counts.
    pub(super) joined: i64,
    /// When it is removed unless it is heard from before (R-GRP-21).
    pub expires_at: Time,
}

impl Member {
    pub fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    pub fn awaits_join(&self) -> bool {
        self.parked_join.is_some()
    }

    /// A member that waits for the coordinator need not be heard from; a new one may have given up (R-GRP-21).
    pub fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.awaits_join() || self.parked_sync.is_some())
    }

    pub fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|offered| &*offered.name == protocol)
    }

    /// Its subscription for `protocol`.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let offered = self.protocols.iter().find(|offered| &*offered.name == protocol);
        offered.map(|offered| offered.metadata.clone()).unwrap_or_default()
    }

    /// The member as it is written down, with the assignment it is to have.
    pub(crate) fn to_record(&self, protocol: &str, assignment: Bytes) -> MemberMetadata {
        MemberMetadata {
            member_id: self.id.clone(),
            group_instance_id: self.instance_id.as_ref().map(|id| id.to_string()),
            client_id: self.client.to_string(),
            client_host: CLIENT_HOST.to_string(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.metadata(protocol),
            assignment,
        }
    }

    /// The member that a record describes; it knows only the protocol that was in use.
    pub(crate) fn from_record(record: MemberMetadata, protocol: &str) -> Member {
        let rebalance_timeout_ms = match record.rebalance_timeout_ms {
            -1 => record.session_timeout_ms,
            known => known,
        };
        let offered = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_string(protocol.to_string()))
            .with_metadata(record.subscription);
        Member {
            id: record.member_id,
            instance_id: record.group_instance_id.map(StrBytes::from_string),
            client: ClientName::new(&record.client_id),
            rebalance_timeout_ms,
            session_timeout_ms: record.session_timeout_ms,
            protocols: vec![offered],
            assignment: record.assignment,
            parked_join: None,
            parked_sync: None,
            is_new: false,
            joined: 0,
            expires_at: Time::MAX,
        }
    }
}

/// Someone who was told a member id and has not joined with it yet (R-GRP-9).
#[derive(Clone, Debug)]
pub struct PendingMember {
    pub client: ClientName,
    pub expires_at: Time,
}
