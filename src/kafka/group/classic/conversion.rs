//! A group of the newer protocol goes back to the classic one (`ClassicGroup.fromConsumerGroup`, R-CG8-25).
//!
//! **Invariant:** each member has what it was to have in the end, so that only those that lose or gain something notice.

use std::collections::BTreeSet;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::protocol::StrBytes;

use super::{ClassicGroup, Member};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::GroupState;
use crate::kafka::group::java_map;
use crate::kafka::group::modern::consumer::{ConsumerGroup, ConsumerMember, Replacement, blob, version_of};
use crate::kafka::protocol::coordinator_records::ClassicProtocol;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, MemberId};

impl ClassicGroup {
    /// All that stay are classic members. Whoever takes another's place takes over what that was to have.
    pub(in crate::kafka::group) fn of_consumer(
        consumer: &ConsumerGroup,
        gone: &BTreeSet<MemberId>,
        replacement: Option<&Replacement>,
        now: Time,
        image: &ClusterImage,
    ) -> ClassicGroup {
        let mut group = ClassicGroup::new(consumer.base.id.clone(), now);
        group.state = GroupState::Stable;
        group.generation = Generation(consumer.base.epoch.0);
        group.protocol_type = Some(StrBytes::from_static_str("consumer"));
        let is_replaced = |id: &MemberId| replacement.is_some_and(|replacement| replacement.old == *id);
        let members = consumer.base.members.values().map(|member| &**member);
        let staying = members.filter(|member| !gone.contains(&member.id) && !is_replaced(&member.id));
        for member in staying.chain(replacement.map(|replacement| &replacement.new)) {
            group.joined += 1;
            group.leader.get_or_insert_with(|| member.id.clone());
            group.members.insert(member.id.clone(), converted(member, group.joined));
            group.slots = java_map::grown(group.slots, group.members.len());
        }
        group.protocol = group.select_protocol();
        group.subscribed_topics = group.subscriptions();
        let protocol = group.protocol.clone().unwrap_or_default();
        for member in group.members.values_mut() {
            let target = consumer.base.target.of(Replacement::former(replacement, &member.id));
            let version = version_of(&member.metadata(&protocol));
            member.assignment = blob(target.partitions().into_iter(), version, image);
        }
        group
    }
}

fn converted(member: &ConsumerMember, joined: i64) -> Member {
    let classic = member.classic.as_ref().expect("who stays in a classic group speaks its protocol");
    let offered = |protocol: &ClassicProtocol| {
        JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_string(protocol.name.clone()))
            .with_metadata(protocol.metadata.clone())
    };
    Member {
        id: member.id.clone(),
        instance_id: member.instance_id.clone().map(StrBytes::from_string),
        client: member.client.clone(),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic.supported_protocols.iter().map(offered).collect(),
        assignment: Default::default(),
        parked_join: None,
        parked_sync: None,
        is_new: false,
        joined,
        expires_at: Time::MAX,
    }
}
