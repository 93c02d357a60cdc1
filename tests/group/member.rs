//! A client of the group as a test plays it.

use bytes::Bytes;
use glassbroker::kafka::event::GroupState;
use glassbroker::kafka::group::GroupConfig;
use glassbroker::kafka::group::consumer_protocol::{ConsumerAssignment, ConsumerSubscription};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::{Generation, Topic};
use kafka_protocol::messages as m;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::protocol::{Encodable, StrBytes};

use super::cluster::{self, Cluster, group_id};

#[derive(Clone)]
pub struct Member {
    pub name: &'static str,
    pub id: String,
    pub instance: Option<&'static str>,
    pub generation: i32,
    pub leader: String,
    /// What it offers, the best first.
    pub assignors: Vec<&'static str>,
    /// What its generation uses.
    pub protocol: String,
    pub session_timeout_ms: i32,
    subscription: Bytes,
    join: i32,
    sync: i32,
}

fn wire_group() -> m::GroupId {
    m::GroupId(group_id().to_wire())
}

fn orders() -> m::TopicName {
    m::TopicName("orders".into())
}

/// An assignment blob with one partition of "orders".
fn blob(partition: i32) -> Bytes {
    let mut bytes = bytes::BytesMut::from(&[0u8, 3][..]);
    let topic = m::consumer_protocol_assignment::TopicPartition::default()
        .with_topic(orders())
        .with_partitions(vec![partition]);
    let assignment = m::ConsumerProtocolAssignment::default().with_assigned_partitions(vec![topic]);
    assignment.encode(&mut bytes, 3).expect("encodes");
    bytes.freeze()
}

impl Member {
    pub fn new(name: &'static str) -> Member {
        let (id, leader) = (String::new(), String::new());
        Member {
            name,
            id,
            instance: None,
            generation: -1,
            leader,
            assignors: vec!["range"],
            protocol: String::new(),
            session_timeout_ms: 45_000,
            subscription: Bytes::new(),
            join: 0,
            sync: 0,
        }
    }

    pub fn new_static(name: &'static str, instance: &'static str) -> Member {
        Member { instance: Some(instance), ..Member::new(name) }
    }

    pub fn subscribe(&mut self, topics: &[&str]) {
        let topics = topics.iter().map(|topic| StrBytes::from_string(topic.to_string())).collect();
        let mut bytes = bytes::BytesMut::from(&[0u8, 3][..]);
        let subscription = m::ConsumerProtocolSubscription::default().with_topics(topics);
        subscription.encode(&mut bytes, 3).expect("encodes");
        self.subscription = bytes.freeze();
    }

    /// It subscribes to "orders" and owns these partitions of it.
    pub fn own(&mut self, partitions: &[i32]) {
        let subscription = ConsumerSubscription {
            topics: vec![Topic::new("orders")],
            user_data: None,
            owned: partitions.iter().map(|partition| cluster::orders(*partition)).collect(),
            generation: Generation(self.generation),
            rack: None,
        };
        self.subscription = subscription.encode(3);
    }

    pub fn wire_id(&self) -> StrBytes {
        StrBytes::from_string(self.id.clone())
    }

    pub fn join_request(&self) -> m::JoinGroupRequest {
        let protocol = |name: &&'static str| {
            let named = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str(name));
            named.with_metadata(self.subscription.clone())
        };
        m::JoinGroupRequest::default()
            .with_group_id(wire_group())
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(300_000)
            .with_member_id(self.wire_id())
            .with_group_instance_id(self.instance.map(StrBytes::from))
            .with_protocol_type("consumer".into())
            .with_protocols(self.assignors.iter().map(protocol).collect())
    }

    /// The first round of a new member; takes the id that it is told.
    pub fn ask_for_id(&mut self, cluster: &mut Cluster) -> ErrorCode {
        self.join = cluster.send(self.name, self.join_request());
        self.joined(cluster)
    }

    /// Both rounds of a new member; the second one is parked.
    pub fn join(&mut self, cluster: &mut Cluster) {
        assert_eq!(self.ask_for_id(cluster), ErrorCode::MemberIdRequired);
        self.join_again(cluster);
    }

    pub fn join_again(&mut self, cluster: &mut Cluster) {
        self.join = cluster.send(self.name, self.join_request());
    }

    /// The answer to its last JoinGroup.
    pub fn joined(&mut self, cluster: &mut Cluster) -> ErrorCode {
        let answer = cluster.answer(self.join).expect("JoinGroup is answered");
        let Response::JoinGroup(body) = answer.as_ref() else { panic!("{answer:?}") };
        (self.id, self.generation) = (body.member_id.to_string(), body.generation_id);
        self.leader = body.leader.to_string();
        self.protocol = body.protocol_name.as_deref().unwrap_or_default().to_owned();
        ErrorCode::from_code(body.error_code)
    }

    /// SyncGroup, with a plan that only the leader's request carries: a partition of "orders" each.
    pub fn sync(&mut self, cluster: &mut Cluster, plan: &[(String, i32)]) {
        let assignments = plan.iter().filter(|_| self.id == self.leader).map(|(member, partition)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member.clone()))
                .with_assignment(blob(*partition))
        });
        self.sync = cluster.send(self.name, self.sync_request(assignments.collect()));
    }

    /// SyncGroup of a leader who gives itself partitions of "orders", with data of its assignor.
    pub fn sync_alone(
        &mut self,
        cluster: &mut Cluster,
        partitions: &[i32],
        user_data: Option<&'static [u8]>,
    ) {
        let partitions = partitions.iter().map(|partition| cluster::orders(*partition)).collect();
        let assignment = ConsumerAssignment { partitions, user_data: user_data.map(Bytes::from_static) };
        let own = SyncGroupRequestAssignment::default()
            .with_member_id(self.wire_id())
            .with_assignment(assignment.encode(3));
        self.sync = cluster.send(self.name, self.sync_request(vec![own]));
    }

    pub fn sync_request(&self, assignments: Vec<SyncGroupRequestAssignment>) -> m::SyncGroupRequest {
        m::SyncGroupRequest::default()
            .with_group_id(wire_group())
            .with_member_id(self.wire_id())
            .with_generation_id(self.generation)
            .with_protocol_type(Some("consumer".into()))
            .with_protocol_name(Some("range".into()))
            .with_assignments(assignments)
    }

    /// The answer to its last SyncGroup.
    pub fn synced(&self, cluster: &mut Cluster) -> ErrorCode {
        let answer = cluster.answer(self.sync).expect("SyncGroup is answered");
        let Response::SyncGroup(body) = answer.as_ref() else { panic!("{answer:?}") };
        ErrorCode::from_code(body.error_code)
    }

    pub fn send_heartbeat(&self, cluster: &mut Cluster) -> i32 {
        let request = m::HeartbeatRequest::default()
            .with_group_id(wire_group())
            .with_member_id(self.wire_id())
            .with_generation_id(self.generation);
        cluster.send(self.name, request)
    }

    pub fn heartbeat(&self, cluster: &mut Cluster) -> ErrorCode {
        let request = self.send_heartbeat(cluster);
        let answer = cluster.answer(request).expect("Heartbeat is answered");
        let Response::Heartbeat(body) = answer.as_ref() else { panic!("{answer:?}") };
        ErrorCode::from_code(body.error_code)
    }

    pub fn leave(&mut self, cluster: &mut Cluster) {
        let identity = MemberIdentity::default().with_member_id(self.wire_id());
        let request =
            m::LeaveGroupRequest::default().with_group_id(wire_group()).with_members(vec![identity]);
        let request = cluster.send(self.name, request);
        let answer = cluster.answer(request).expect("LeaveGroup is answered");
        let Response::LeaveGroup(body) = answer.as_ref() else { panic!("{answer:?}") };
        assert_eq!((body.error_code, body.members[0].error_code), (0, 0));
    }

    pub fn commit_request(&self, topics: Vec<OffsetCommitRequestTopic>) -> m::OffsetCommitRequest {
        m::OffsetCommitRequest::default()
            .with_group_id(wire_group())
            .with_member_id(self.wire_id())
            .with_generation_id_or_member_epoch(self.generation)
            .with_topics(topics)
    }
}

/// Commits an offset of a partition of "orders"; the request's number.
pub fn commit(cluster: &mut Cluster, member: &Member, partition: i32, offset: i64) -> i32 {
    let partition =
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(orders()).with_partitions(vec![partition]);
    cluster.send(member.name, member.commit_request(vec![topic]))
}

/// Commits and gives the partition's error.
pub fn commit_error(cluster: &mut Cluster, member: &Member, partition: i32, offset: i64) -> ErrorCode {
    let request = commit(cluster, member, partition, offset);
    let answer = cluster.answer(request).expect("OffsetCommit is answered");
    let Response::OffsetCommit(body) = answer.as_ref() else { panic!("{answer:?}") };
    ErrorCode::from_code(body.topics[0].partitions[0].error_code)
}

fn send_fetch(cluster: &mut Cluster, topics: Option<Vec<OffsetFetchRequestTopics>>, stable: bool) -> i32 {
    let group = OffsetFetchRequestGroup::default().with_group_id(wire_group()).with_topics(topics);
    let request = m::OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(stable);
    cluster.send("reader", request)
}

/// Asks for offsets of "orders"; the request's number.
pub fn fetch(cluster: &mut Cluster, partitions: &[i32], stable: bool) -> i32 {
    let topic =
        OffsetFetchRequestTopics::default().with_name(orders()).with_partition_indexes(partitions.to_vec());
    send_fetch(cluster, Some(vec![topic]), stable)
}

pub fn fetch_all(cluster: &mut Cluster) -> i32 {
    send_fetch(cluster, None, true)
}

/// The offsets in an answer, if there is one; (-1, code) if the group was refused.
pub fn fetched(cluster: &mut Cluster, request: i32) -> Option<Vec<(i32, i64)>> {
    let answer = cluster.answer(request)?;
    let Response::OffsetFetch(body) = answer.as_ref() else { panic!("{answer:?}") };
    let group = &body.groups[0];
    if group.error_code != 0 {
        return Some(vec![(-1, i64::from(group.error_code))]);
    }
    let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
    Some(partitions.map(|partition| (partition.partition_index, partition.committed_offset)).collect())
}

/// A cluster whose groups have no initial delay.
pub fn quick() -> Cluster {
    Cluster::new(GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() })
}

/// A cluster with a stable group of the named members; the first leads.
pub fn stable(names: &[&'static str]) -> (Cluster, Vec<Member>) {
    let mut cluster = Cluster::new(GroupConfig::default());
    let mut members: Vec<Member> = names.iter().map(|name| Member::new(name)).collect();
    for member in &mut members {
        member.join(&mut cluster);
    }
    cluster.sleep(9_000);
    for member in &mut members {
        assert_eq!(member.joined(&mut cluster), ErrorCode::None);
    }
    let plan: Vec<(String, i32)> = members.iter().map(|member| member.id.clone()).zip(0..).collect();
    for member in &mut members {
        member.sync(&mut cluster, &plan);
    }
    for member in &mut members {
        assert_eq!(member.synced(&mut cluster), ErrorCode::None);
    }
    assert_eq!(cluster.group().expect("a group").state, GroupState::Stable);
    cluster.events.clear();
    (cluster, members)
}

/// What group "g" committed for a partition of "orders".
pub fn committed(cluster: &Cluster, partition: i32) -> Option<i64> {
    cluster.coordinator.committed_offset(&group_id(), &cluster::orders(partition)).map(|value| value.offset.0)
}
