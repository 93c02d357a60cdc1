//! ConsumerGroupHeartbeat of a member that is, or wants to be, in the group (R-CG8-1 to R-CG8-5, R-CG8-15, R-CG8-16).
//!
//! Mirrors `GroupMetadataManager.consumerGroupHeartbeat` and the checks of `GroupCoordinatorService` in front of it.
//!
//! **Invariant:** a heartbeat that is refused changes nothing, not even a deadline.

use std::collections::BTreeSet;

use kafka_protocol::messages::ConsumerGroupHeartbeatRequest as Request;
use kafka_protocol::messages::ConsumerGroupHeartbeatResponse as Response;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};

use super::reconcile::Reconciliation;
use super::regex::RegexChange;
use super::{ConsumerGroup, ConsumerMember, Outcome, TimerChange};
use crate::kafka::group::classic::CLIENT_HOST;
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::group::modern::subscription::SubscriptionType;
use crate::kafka::group::modern::{Freshness, MemberState, ModernMember, Partitions, Refusal, Surroundings};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, GroupEpochValue};
use crate::kafka::types::{ClientName, GroupEpoch, MemberId, Topic, TopicId};

/// What can be said of a request without its group.
///
/// # Errors
/// INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
pub fn check_request(request: &Request, config: &ConsumerGroupConfig) -> Result<(), Refusal> {
    let invalid = |text: &str| Err(Refusal::new(ErrorCode::InvalidRequest, text));
    let blank = |text: &Option<_>| text.as_deref().is_some_and(|text: &str| text.trim().is_empty());
    if request.member_id.trim().is_empty() {
        return invalid("MemberId can't be empty.");
    } else if request.group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    } else if blank(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    } else if blank(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    match GroupEpoch(request.member_epoch) {
        GroupEpoch::JOINING if request.rebalance_timeout_ms == -1 => {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        GroupEpoch::JOINING if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        GroupEpoch::JOINING
            if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() =>
        {
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            );
        }
        GroupEpoch::AWAY if request.instance_id.is_none() => return invalid("InstanceId can't be null."),
        epoch if epoch < GroupEpoch::AWAY => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    let names: Vec<&str> = config.assignors.iter().map(|assignor| assignor.name()).collect();
    match &request.server_assignor {
        Some(asked) if !names.contains(&asked.as_str()) => Err(Refusal::new(
            ErrorCode::UnsupportedAssignor,
            format!("ServerAssignor {asked} is not supported. Supported assignors: {}.", names.join(", ")),
        )),
        _ => Ok(()),
    }
}

impl ConsumerGroup {
    /// # Errors
    /// What the member is told; nothing follows from its request.
    pub fn heartbeat(
        &self,
        request: &Request,
        client: &ClientName,
        config: &ConsumerGroupConfig,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<Response>, Refusal> {
        let id = MemberId::new(&request.member_id);
        let joins = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
        self.check_room(&id, config)?;
        let mut records = Vec::new();
        let member = match request.instance_id.as_deref() {
            Some(instance_id) => self.static_subscriber(&id, instance_id, request, &mut records)?,
            None if joins => {
                self.base.members.get(&id).map_or(ConsumerMember::new(id), |known| (**known).clone())
            }
            None => {
                let member = (**self.base.member(&id)?).clone();
                check_epoch(&member, request)?;
                member
            }
        };
        let updated = update_with(&member, request, client);
        let step = Step { group: self, config, around };
        let (updated, mut outcome) =
            step.take(&member, updated, request.topic_partitions.as_deref(), records)?;
        outcome.timers.push(TimerChange::Session {
            member: updated.id.clone(),
            timeout_ms: i64::from(config.session_timeout_ms),
        });
        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        // What a member without epochs hears is new to it too.
        let told = joins || is_full || updated.assigned != member.assigned;
        let response = Response::default()
            .with_member_id(Some(updated.id.to_wire()))
            .with_member_epoch(updated.epoch.0)
            .with_heartbeat_interval_ms(config.heartbeat_interval_ms)
            .with_assignment(told.then(|| assignment(&updated.assigned)));
        Ok(outcome.answered(response))
    }

    /// R-CG8-16: `group.consumer.max.size`
    pub(super) fn check_room(&self, id: &MemberId, config: &ConsumerGroupConfig) -> Result<(), Refusal> {
        let full = self.base.members.len() as i64 >= i64::from(config.max_size);
        if full && !self.base.members.contains_key(id) {
            let text = format!(
                "The consumer group has reached its maximum capacity of {} members.",
                config.max_size
            );
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, text));
        }
        Ok(())
    }

    /// R-CG8-21: a static member joins, comes back under another id, or is heard from.
    fn static_subscriber(
        &self,
        id: &MemberId,
        instance_id: &str,
        request: &Request,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<ConsumerMember, Refusal> {
        let holder = self.static_member(instance_id);
        if GroupEpoch(request.member_epoch) != GroupEpoch::JOINING {
            let holder = self.checked_holder(id, instance_id)?;
            check_epoch(holder, request)?;
            return Ok(holder.clone());
        }
        let Some(holder) = holder else {
            let known = self.base.members.get(id).map(|known| (**known).clone());
            return Ok(known.unwrap_or_else(|| ConsumerMember::new(id.clone())));
        };
        if !holder.is_classic() && holder.epoch != GroupEpoch::AWAY {
            let text = format!(
                "Static member {id} with instance id {instance_id} cannot join the group because the instance id is \
                 owned by {} member.",
                holder.id
            );
            return Err(Refusal::new(ErrorCode::UnreleasedInstanceId, text));
        }
        Ok(self.replaced(holder, id, records))
    }

    /// The holder of an instance id, which `id` has to be.
    pub(super) fn checked_holder(
        &self,
        id: &MemberId,
        instance_id: &str,
    ) -> Result<&ConsumerMember, Refusal> {
        match self.static_member(instance_id) {
            None => Err(Refusal::new(
                ErrorCode::UnknownMemberId,
                format!("Instance id {instance_id} is unknown."),
            )),
            Some(holder) if holder.id != *id => Err(Refusal::new(
                ErrorCode::FencedInstanceId,
                format!(
                    "Static member {id} with instance id {instance_id} was fenced by member {}.",
                    holder.id
                ),
            )),
            Some(holder) => Ok(holder),
        }
    }

    /// A new process in the place of a static member: it takes over what that had. The timers of the old id stay and find
    /// nobody, so that nothing is lost if the records cannot be written.
    pub(super) fn replaced(
        &self,
        holder: &ConsumerMember,
        id: &MemberId,
        records: &mut Vec<ConsumerRecord>,
    ) -> ConsumerMember {
        let member = ConsumerMember {
            id: id.clone(),
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::JOINING,
            ..holder.clone()
        };
        records.extend(removal(&holder.id));
        records.push(ConsumerRecord::Subscription(id.clone(), Some(member.subscription_value())));
        let target = self.base.target.of(&holder.id).to_record();
        records.push(ConsumerRecord::Target(id.clone(), Some(target)));
        records.push(ConsumerRecord::CurrentAssignment(id.clone(), Some(member.assignment_value())));
        member
    }
}

/// What is deleted of a member.
pub(super) fn removal(id: &MemberId) -> [ConsumerRecord; 3] {
    [
        ConsumerRecord::CurrentAssignment(id.clone(), None),
        ConsumerRecord::Target(id.clone(), None),
        ConsumerRecord::Subscription(id.clone(), None),
    ]
}

/// R-CG8-16. The answer that raised the epoch may have been lost: then the member is behind by that, and owns nothing that it
/// does not have any more.
fn check_epoch(member: &ConsumerMember, request: &Request) -> Result<(), Refusal> {
    let received = GroupEpoch(request.member_epoch);
    let owns_no_other = |owned: &Vec<Owned>| {
        owned.iter().all(|topic| {
            let assigned = |partition: &i32| member.assigned.contains(&(TopicId(topic.topic_id), *partition));
            topic.partitions.iter().all(assigned)
        })
    };
    let lost_answer =
        received == member.previous_epoch && request.topic_partitions.as_ref().is_some_and(owns_no_other);
    if received == GroupEpoch::JOINING || received == member.epoch || received < member.epoch && lost_answer {
        return Ok(());
    }
    let than = if received > member.epoch { "greater" } else { "smaller" };
    let text = format!(
        "The consumer group member has a {than} member epoch ({received}) than the one known by the group coordinator \
         ({}). The member must abandon all its partitions and rejoin.",
        member.epoch
    );
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, text))
}

/// What is null, or -1, has not changed (R-CG8-3).
fn update_with(member: &ConsumerMember, request: &Request, client: &ClientName) -> ConsumerMember {
    let text = |new: &Option<_>, old: &Option<String>| {
        new.as_deref().map(|text: &str| text.to_string()).or_else(|| old.clone())
    };
    let mut updated = member.clone();
    updated.instance_id = text(&request.instance_id, &member.instance_id);
    updated.rack_id = text(&request.rack_id, &member.rack_id);
    updated.server_assignor = text(&request.server_assignor, &member.server_assignor);
    if request.rebalance_timeout_ms != -1 {
        updated.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(names) = &request.subscribed_topic_names {
        updated.topic_names = names.iter().map(|name| Topic::new(name)).collect();
    }
    if let Some(regex) = &request.subscribed_topic_regex {
        updated.topic_regex = regex.to_string();
    }
    updated.client = client.clone();
    updated.client_host = CLIENT_HOST.to_string();
    updated.classic = None;
    updated
}

fn assignment(assigned: &Partitions) -> Assignment {
    let topic = |(topic, partitions): (TopicId, BTreeSet<i32>)| {
        TopicPartitions::default().with_topic_id(topic.0).with_partitions(partitions.into_iter().collect())
    };
    Assignment::default().with_topic_partitions(assigned.by_topic().into_iter().map(topic).collect())
}

/// One member's way through the group: its subscription, the target, its assignment.
pub(super) struct Step<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) config: &'a ConsumerGroupConfig,
    pub(super) around: &'a Surroundings<'a>,
}

/// How the group is once a member subscribes to what its request names.
struct Subscribing {
    epoch: GroupEpoch,
    /// If the subscriptions were looked at.
    kind: Option<SubscriptionType>,
    subscription_changed: bool,
    outcome: Outcome<()>,
}

impl Step<'_> {
    /// `member` as it was, and as its request makes it. The member as it is in the end, and what follows.
    pub(super) fn take(
        &self,
        member: &ConsumerMember,
        updated: ConsumerMember,
        owned: Option<&[Owned]>,
        records: Vec<ConsumerRecord>,
    ) -> Result<(ConsumerMember, Outcome<()>), Refusal> {
        let subscribing = self.subscribe(member, &updated, records)?;
        self.reconcile(updated, subscribing, owned)
    }

    /// The same in a group that computes no target any more. Says, too, whether the one that it has is of an older epoch.
    pub(super) fn take_last(
        &self,
        member: &ConsumerMember,
        updated: ConsumerMember,
        owned: Option<&[Owned]>,
        records: Vec<ConsumerRecord>,
    ) -> Result<(ConsumerMember, Outcome<()>, bool), Refusal> {
        let subscribing = self.subscribe(member, &updated, records)?;
        if self.group.base.target.epoch < subscribing.epoch {
            return Ok((updated, subscribing.outcome, true));
        }
        let (updated, outcome) = self.reconcile(updated, subscribing, owned)?;
        Ok((updated, outcome, false))
    }

    fn subscribe(
        &self,
        member: &ConsumerMember,
        updated: &ConsumerMember,
        mut records: Vec<ConsumerRecord>,
    ) -> Result<Subscribing, Refusal> {
        let group = self.group;
        if updated != member {
            let value = updated.subscription_value();
            records.push(ConsumerRecord::Subscription(updated.id.clone(), Some(value)));
        }
        let names_changed = updated.topic_names != member.topic_names;
        let (regex_change, resolve) =
            group.update_regexes(member, updated, self.config, self.around, &mut records)?;
        let mut outcome = Outcome { resolve, ..Outcome::new(Vec::new(), ()) };
        let (mut epoch, mut kind) = (group.base.epoch, None);
        let bump = names_changed || regex_change == RegexChange::Resolved;
        if bump || group.base.has_metadata_expired(self.around.now) {
            let subscriptions = group.subscriptions(group.members_with(updated));
            kind = Some(subscriptions.kind());
            let metadata_hash = subscriptions.metadata_hash(self.around.image);
            if bump || metadata_hash != group.base.metadata_hash {
                epoch = epoch.next();
                records.push(ConsumerRecord::GroupEpoch(Some(GroupEpochValue { epoch, metadata_hash })));
            }
            outcome.fresh = Some(Freshness::from(self.around.now, epoch));
            if group.has_partition_metadata {
                records.push(ConsumerRecord::PartitionMetadata { present: false });
            }
        }
        let subscription_changed = names_changed || regex_change != RegexChange::None;
        outcome.records = records;
        Ok(Subscribing { epoch, kind, subscription_changed, outcome })
    }

    fn reconcile(
        &self,
        updated: ConsumerMember,
        subscribing: Subscribing,
        owned: Option<&[Owned]>,
    ) -> Result<(ConsumerMember, Outcome<()>), Refusal> {
        let group = self.group;
        let Subscribing { epoch, kind, subscription_changed, mut outcome } = subscribing;
        let (target_epoch, target) =
            group.next_target(epoch, &updated, kind, self.config, self.around, &mut outcome.records);
        if !subscription_changed && updated.is_reconciled_to(target_epoch) {
            return Ok((updated, outcome));
        }
        let subscribed = group.topics_of(&updated).filter_map(|name| self.around.image.topic(name));
        let next = Reconciliation {
            target_epoch,
            target: target.partitions(),
            subscribed: subscribed.map(|topic| topic.id).collect(),
            subscription_changed,
            owned_by_members: &group.owned,
            owned,
        }
        .next(&updated)?;
        if next == updated {
            return Ok((updated, outcome));
        }
        let value = next.assignment_value();
        outcome.records.push(ConsumerRecord::CurrentAssignment(next.id.clone(), Some(value)));
        if !next.is_classic() {
            outcome.timers.push(match next.state {
                MemberState::UnrevokedPartitions => TimerChange::Rebalance {
                    member: next.id.clone(),
                    timeout_ms: i64::from(next.rebalance_timeout_ms),
                    epoch: next.epoch,
                },
                _ => TimerChange::EndRebalance(next.id.clone()),
            });
        }
        Ok((next, outcome))
    }
}

impl Outcome<()> {
    pub(in crate::kafka::group) fn answered<R>(self, response: R) -> Outcome<R> {
        let Outcome { records, timers, fresh, resolve, gone, response: () } = self;
        Outcome { records, response, timers, fresh, resolve, gone }
    }
}
