//! Members that speak the classic protocol in a group of the newer one (R-CG8-25).
//!
//! Mirrors `classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup`, `classicGroupHeartbeatToConsumerGroup` and
//! `ConsumerGroup.fromClassicGroup`. Such a member reconciles only when it joins: its heartbeats send it there.
//!
//! **Invariant:** a classic member's generation is its epoch.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::protocol::StrBytes;

use super::heartbeat::Step;
use super::replacement::{Replacement, Return};
use super::{ConsumerGroup, ConsumerMember, Outcome, TimerChange};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::assignor::server::Assigned;
use crate::kafka::group::classic::{CLIENT_HOST, ClassicGroup, Join, Member};
use crate::kafka::group::config::{ConsumerGroupConfig, MigrationPolicy};
use crate::kafka::group::consumer_protocol::{ConsumerAssignment, ConsumerSubscription};
use crate::kafka::group::modern::{MemberState, Partitions, Refusal, Surroundings, TopicIdPartition};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerRecord, GroupEpochValue, TargetMetadataValue,
};
use crate::kafka::types::{GroupEpoch, MemberId, TopicId, TopicPartition};

/// What groups of consumers call their protocol.
const CONSUMER: &str = "consumer";

/// What a JoinGroup comes to.
pub(in crate::kafka::group) enum Joined {
    /// A dynamic member is told its id and joins with it (R-GRP-9).
    Named(MemberId),
    Joins(Outcome<m::JoinGroupResponse>),
    GoesBack(Box<Return>),
}

impl ConsumerGroup {
    /// `new_id` is the id of a member that has none, `classic_max_size` the greatest size of a classic group.
    ///
    /// # Errors
    /// INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, and those of static members.
    pub(in crate::kafka::group) fn classic_join(
        &self,
        join: &Join<'_>,
        new_id: MemberId,
        config: &ConsumerGroupConfig,
        classic_max_size: i32,
        around: &Surroundings<'_>,
    ) -> Result<Joined, Refusal> {
        let request = join.request;
        let is_unknown = request.member_id.is_empty();
        let id = if is_unknown { new_id } else { MemberId::new(&request.member_id) };
        let unsupported =
            || Refusal::new(ErrorCode::InconsistentGroupProtocol, "protocols are not supported");
        if config.migration_policy == MigrationPolicy::Disabled {
            return Err(unsupported());
        }
        self.check_room(&id, config)?;
        let offered =
            request.protocols.first().filter(|_| self.supports_classic(request)).ok_or_else(unsupported)?;
        let mut records = Vec::new();
        let instance_id = request.group_instance_id.as_deref();
        let holder = instance_id.and_then(|id| self.static_member(id));
        let member = match (instance_id, holder) {
            (None, _) if is_unknown && join.requires_known_member_id() => return Ok(Joined::Named(id)),
            (Some(instance_id), _) if !is_unknown => self.checked_holder(&id, instance_id)?.clone(),
            (Some(_), Some(holder)) => self.replaced(holder, &id, &mut records),
            _ => {
                let known = self.base.members.get(&id).map(|known| (**known).clone());
                known.unwrap_or_else(|| ConsumerMember::new(id.clone()))
            }
        };
        let subscription = ConsumerSubscription::decode(&offered.metadata)
            .map_err(|_| Refusal::new(ErrorCode::UnknownServerError, "the subscription cannot be read"))?;
        let updated = update_with(&member, join, &subscription);
        let owned = owned(&subscription.owned, around.image);
        let step = Step { group: self, config, around };
        let response = |member: &ConsumerMember| {
            m::JoinGroupResponse::default()
                .with_member_id(member.id.to_wire())
                .with_generation_id(member.epoch.0)
                .with_protocol_type(Some(StrBytes::from_static_str(CONSUMER)))
                .with_protocol_name(Some(offered.name.clone()))
        };
        if let Some(holder) = holder.filter(|holder| self.goes_back_without(holder, config, classic_max_size))
        {
            let (new, outcome, rebalances) = step.take_last(&member, updated, Some(&owned), records)?;
            let outcome = outcome.answered(response(&new));
            let replacement = Replacement { old: holder.id.clone(), new };
            return Ok(Joined::GoesBack(Return { replacement, outcome, rebalances }.into()));
        }
        let (updated, mut outcome) = step.take(&member, updated, Some(&owned), records)?;
        let member = || updated.id.clone();
        outcome.timers.extend([
            TimerChange::EndJoin(member()),
            TimerChange::Session { member: member(), timeout_ms: i64::from(request.session_timeout_ms) },
            TimerChange::Sync { member: member(), timeout_ms: i64::from(request.rebalance_timeout_ms) },
        ]);
        Ok(Joined::Joins(outcome.answered(response(&updated))))
    }

    /// Some protocol of the request is supported by all classic members.
    fn supports_classic(&self, request: &m::JoinGroupRequest) -> bool {
        let mut classic = self.base.members.values().filter_map(|member| member.classic.as_ref());
        let supported = |known: &ClassicMemberMetadata, offered: &JoinGroupRequestProtocol| {
            known.supported_protocols.iter().any(|protocol| *protocol.name == *offered.name)
        };
        let known: Vec<&ClassicMemberMetadata> = classic.by_ref().collect();
        *request.protocol_type == *CONSUMER
            && request.protocols.iter().any(|offered| known.iter().all(|known| supported(known, offered)))
    }

    /// The classic member behind a request, in the generation that it names.
    fn classic_member(
        &self,
        id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(&ConsumerMember, i64), Refusal> {
        let id = MemberId::new(id);
        let member = match instance_id {
            None => &**self.base.member(&id)?,
            Some(instance_id) => self.checked_holder(&id, instance_id)?,
        };
        let Some(classic) = &member.classic else {
            let text = format!("Member {id} does not use the classic protocol.");
            return Err(Refusal::new(ErrorCode::UnknownMemberId, text));
        };
        if member.epoch.0 != generation {
            return Err(Refusal::new(
                ErrorCode::IllegalGeneration,
                "the generation is not the member's epoch",
            ));
        }
        Ok((member, i64::from(classic.session_timeout_ms)))
    }

    /// The assignment, and the timers that change with it. A refused member may have to join again in time.
    pub(in crate::kafka::group) fn classic_sync(
        &self,
        request: &m::SyncGroupRequest,
        image: &ClusterImage,
    ) -> Result<Outcome<m::SyncGroupResponse>, (ErrorCode, Option<TimerChange>)> {
        let instance_id = request.group_instance_id.as_deref();
        let (member, session_timeout_ms) = self
            .classic_member(&request.member_id, instance_id, request.generation_id)
            .map_err(|refusal| (refusal.error, None))?;
        let protocol = member.first_protocol();
        let differs = |asked: &Option<StrBytes>, own: Option<&str>| {
            asked.as_deref().is_some_and(|asked| Some(asked) != own)
        };
        if differs(&request.protocol_type, Some(CONSUMER))
            || differs(&request.protocol_name, protocol.map(|protocol| &*protocol.name))
        {
            return Err((ErrorCode::InconsistentGroupProtocol, None));
        }
        if self.base.target.epoch > member.epoch && member.state != MemberState::UnrevokedPartitions {
            return Err((ErrorCode::RebalanceInProgress, Some(join_timer(member))));
        }
        let version = protocol.map_or(0, |protocol| version_of(&protocol.metadata));
        let response = m::SyncGroupResponse::default()
            .with_protocol_type(request.protocol_type.clone())
            .with_protocol_name(request.protocol_name.clone())
            .with_assignment(blob(member.assigned.keys(), version, image));
        let member = member.id.clone();
        let timers = vec![
            TimerChange::EndSync(member.clone()),
            TimerChange::Session { member, timeout_ms: session_timeout_ms },
        ];
        Ok(Outcome::of_timers(timers).answered(response))
    }

    /// REBALANCE_IN_PROGRESS sends a member to join again: for a newer target, to give partitions up, or because what it
    /// waits for is free.
    pub(in crate::kafka::group) fn classic_heartbeat(
        &self,
        request: &m::HeartbeatRequest,
    ) -> Result<Outcome<m::HeartbeatResponse>, Refusal> {
        let instance_id = request.group_instance_id.as_deref();
        let (member, timeout_ms) =
            self.classic_member(&request.member_id, instance_id, request.generation_id)?;
        let mut timers = vec![TimerChange::Session { member: member.id.clone(), timeout_ms }];
        let joins = member.epoch < self.base.target.epoch
            || member.state == MemberState::UnrevokedPartitions
            || member.state == MemberState::UnreleasedPartitions && !self.waits_for_others(member);
        if joins {
            timers.push(join_timer(member));
        }
        let error = if joins { ErrorCode::RebalanceInProgress } else { ErrorCode::None };
        let response = m::HeartbeatResponse::default().with_error_code(error.code());
        Ok(Outcome::of_timers(timers).answered(response))
    }

    fn waits_for_others(&self, member: &ConsumerMember) -> bool {
        let target = self.base.target.of(&member.id).partitions();
        target
            .iter()
            .any(|partition| !member.assigned.contains(partition) && self.owned.contains_key(partition))
    }

    /// LeaveGroup, by member or by instance id: who leaves, and each one's result.
    pub(in crate::kafka::group) fn classic_leavers(
        &self,
        request: &m::LeaveGroupRequest,
    ) -> (BTreeSet<MemberId>, Vec<ErrorCode>) {
        let (mut gone, mut results) = (BTreeSet::new(), Vec::new());
        for identity in &request.members {
            let id = MemberId::new(&identity.member_id);
            let member = match identity.group_instance_id.as_deref() {
                None => self.base.member(&id).map(|member| &member.id),
                Some(instance_id) if id.is_unknown() => self
                    .static_member(instance_id)
                    .map(|member| &member.id)
                    .ok_or(Refusal::new(ErrorCode::UnknownMemberId, "the instance id is unknown")),
                Some(instance_id) => self.checked_holder(&id, instance_id).map(|member| &member.id),
            };
            results.push(member.as_ref().err().map_or(ErrorCode::None, |refusal| refusal.error));
            gone.extend(member.ok().cloned());
        }
        (gone, results)
    }

    /// A classic group as one of the newer protocol, in which all its members are stable with what its last plan gave them.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND: an assignor of its own put something into the plan, or a blob cannot be read.
    pub(in crate::kafka::group) fn of_classic(
        classic: &ClassicGroup,
        image: &ClusterImage,
    ) -> Result<Outcome<()>, Refusal> {
        let epoch = GroupEpoch(classic.generation.0);
        let Some(protocol) = classic.protocol.as_deref() else {
            return Err(Refusal::new(ErrorCode::UnknownServerError, "No value present"));
        };
        let convert = |member| converted(member, protocol, epoch, image);
        let members = classic.members.values().map(convert).collect::<Result<Vec<_>, _>>()?;
        let subscriptions = ConsumerGroup::new(classic.id.clone());
        let metadata_hash = subscriptions.subscriptions(members.iter()).metadata_hash(image);
        let mut records: Vec<ConsumerRecord> = members
            .iter()
            .map(|member| ConsumerRecord::Subscription(member.id.clone(), Some(member.subscription_value())))
            .collect();
        records.push(ConsumerRecord::GroupEpoch(Some(GroupEpochValue { epoch, metadata_hash })));
        records.extend(members.iter().map(|member| {
            let target = Assigned::new(
                member
                    .assigned
                    .by_topic()
                    .into_iter()
                    .map(|(topic, partitions)| (topic, partitions.into_iter().collect::<Vec<i32>>())),
            );
            ConsumerRecord::Target(member.id.clone(), Some(target.to_record()))
        }));
        let metadata = TargetMetadataValue { epoch, timestamp_ms: 0 };
        records.push(ConsumerRecord::TargetMetadata(Some(metadata)));
        records.extend(members.iter().map(|member| {
            ConsumerRecord::CurrentAssignment(member.id.clone(), Some(member.assignment_value()))
        }));
        let timers = members.iter().filter_map(|member| {
            let timeout_ms = i64::from(member.classic.as_ref()?.session_timeout_ms);
            Some(TimerChange::Session { member: member.id.clone(), timeout_ms })
        });
        Ok(Outcome { timers: timers.collect(), ..Outcome::new(records, ()) })
    }
}

impl ConsumerMember {
    /// The protocol that a classic member is told is the group's: the first that it offered.
    fn first_protocol(&self) -> Option<&ClassicProtocol> {
        self.classic.as_ref()?.supported_protocols.first()
    }
}

fn join_timer(member: &ConsumerMember) -> TimerChange {
    TimerChange::JoinUnlessSet {
        member: member.id.clone(),
        timeout_ms: i64::from(member.rebalance_timeout_ms),
    }
}

fn update_with(
    member: &ConsumerMember,
    join: &Join<'_>,
    subscription: &ConsumerSubscription,
) -> ConsumerMember {
    let request = join.request;
    let instance_id = request.group_instance_id.as_ref().map(|id| id.to_string());
    let mut updated = member.clone();
    updated.instance_id = instance_id.or(updated.instance_id);
    updated.rack_id = subscription.rack.clone().or(updated.rack_id);
    if request.rebalance_timeout_ms != -1 {
        updated.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    updated.topic_names = subscription.topics.iter().cloned().collect();
    updated.topic_regex = String::new();
    updated.client = join.client.clone();
    updated.client_host = CLIENT_HOST.to_string();
    updated.classic = Some(metadata(request.session_timeout_ms, &request.protocols));
    updated
}

fn metadata(session_timeout_ms: i32, protocols: &[JoinGroupRequestProtocol]) -> ClassicMemberMetadata {
    let protocol = |offered: &JoinGroupRequestProtocol| ClassicProtocol {
        name: offered.name.to_string(),
        metadata: offered.metadata.clone(),
    };
    ClassicMemberMetadata {
        session_timeout_ms,
        supported_protocols: protocols.iter().map(protocol).collect(),
    }
}

fn owned(partitions: &[TopicPartition], image: &ClusterImage) -> Vec<Owned> {
    let id = |tp: &TopicPartition| image.topic(&tp.topic).map(|topic| (topic.id, tp.partition));
    let of_topic = |(topic, partitions): (TopicId, BTreeSet<i32>)| {
        Owned::default().with_topic_id(topic.0).with_partitions(partitions.into_iter().collect())
    };
    let known = Partitions::at_epoch(GroupEpoch::JOINING, partitions.iter().filter_map(id));
    known.by_topic().into_iter().map(of_topic).collect()
}

/// The version of a subscription; its assignment comes in the same.
pub(in crate::kafka::group) fn version_of(subscription: &[u8]) -> i16 {
    match subscription {
        [high, low, ..] => i16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

pub(in crate::kafka::group) fn blob(
    partitions: impl Iterator<Item = TopicIdPartition>,
    version: i16,
    image: &ClusterImage,
) -> Bytes {
    let named = |(topic, partition)| Some(TopicPartition::new(image.topic_name(topic)?, partition));
    ConsumerAssignment { partitions: partitions.filter_map(named).collect(), user_data: None }.encode(version)
}

/// A member as the last plan left it; one that never synced has nothing.
fn converted(
    member: &Member,
    protocol: &str,
    epoch: GroupEpoch,
    image: &ClusterImage,
) -> Result<ConsumerMember, Refusal> {
    let malformed = |_| {
        let text = "Cannot upgrade classic group because the embedded consumer protocol is malformed.";
        Refusal::new(ErrorCode::GroupIdNotFound, text)
    };
    let assigned = match member.assignment.is_empty() {
        true => Vec::new(),
        false => {
            let assignment = ConsumerAssignment::decode(&member.assignment).map_err(malformed)?;
            if assignment.user_data.is_some_and(|data| !data.is_empty()) {
                let text = "Cannot upgrade classic group because an unsupported custom assignor is in use.";
                return Err(Refusal::new(ErrorCode::GroupIdNotFound, text));
            }
            assignment.partitions
        }
    };
    let subscription = ConsumerSubscription::decode(&member.metadata(protocol)).map_err(malformed)?;
    let id = |tp: &TopicPartition| image.topic(&tp.topic).map(|topic| (topic.id, tp.partition));
    Ok(ConsumerMember {
        instance_id: member.instance_id.as_ref().map(|id| id.to_string()),
        rack_id: subscription.rack,
        client: member.client.clone(),
        client_host: CLIENT_HOST.to_string(),
        topic_names: subscription.topics.into_iter().collect(),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        classic: Some(metadata(member.session_timeout_ms, &member.protocols)),
        epoch,
        previous_epoch: epoch,
        assigned: Partitions::at_epoch(epoch, assigned.iter().filter_map(id)),
        ..ConsumerMember::new(member.id.clone())
    })
}
