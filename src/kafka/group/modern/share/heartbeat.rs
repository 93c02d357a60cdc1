//! ShareGroupHeartbeat: a member joins, is heard from, or leaves (R-SHARE-1).
//!
//! Mirrors `GroupMetadataManager.shareGroupHeartbeat` and the checks of `GroupCoordinatorService` in front of it.
//!
//! **Invariant:** a heartbeat that is refused changes nothing, not even a deadline.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::ShareGroupHeartbeatRequest as Request;
use kafka_protocol::messages::ShareGroupHeartbeatResponse as Response;
use kafka_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};

use super::{Outcome, SessionChange, ShareGroup, ShareGroupConfig, ShareMember};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::assignor::server::{Assigned, Taken, simple};
use crate::kafka::group::classic::CLIENT_HOST;
use crate::kafka::group::modern::subscription::SubscriptionType;
use crate::kafka::group::modern::target::{Assignee, assign_with};
use crate::kafka::group::modern::{Freshness, ModernMember, Refusal, Surroundings, TopicIdPartition};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{
    GroupEpochValue, ShareGroupRecord, StatePartitionsValue, TargetMetadataValue,
};
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, MemberId, Topic, TopicId};

/// What can be said of a request without its group.
///
/// # Errors
/// INVALID_REQUEST.
pub fn check_request(request: &Request) -> Result<(), Refusal> {
    let epoch = GroupEpoch(request.member_epoch);
    let names_nothing = request.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty);
    let problem = if request.member_id.trim().is_empty() {
        "MemberId can't be empty."
    } else if request.group_id.trim().is_empty() {
        "GroupId can't be empty."
    } else if request.rack_id.as_ref().is_some_and(|rack| rack.trim().is_empty()) {
        "RackId can't be empty."
    } else if epoch == GroupEpoch::JOINING && names_nothing {
        "SubscribedTopicNames must be set in first request."
    } else if epoch < GroupEpoch::LEFT {
        "MemberEpoch is invalid."
    } else {
        return Ok(());
    };
    Err(Refusal::new(ErrorCode::InvalidRequest, problem))
}

impl ShareGroup {
    /// Answers a heartbeat to `known`, or to a group that is not there yet.
    ///
    /// # Errors
    /// What the member is told; nothing follows from its request.
    pub fn handle(
        known: Option<&ShareGroup>,
        request: &Request,
        client: &ClientName,
        config: &ShareGroupConfig,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<Response>, Refusal> {
        let id = &*request.group_id;
        let not_found = |text: String| Refusal::new(ErrorCode::GroupIdNotFound, text);
        match (known, GroupEpoch(request.member_epoch)) {
            (Some(group), GroupEpoch::LEFT) => group.leave(request, around),
            (Some(group), _) => group.heartbeat(request, client, config, around),
            (None, GroupEpoch::JOINING) => {
                ShareGroup::new(GroupId::new(id)).heartbeat(request, client, config, around)
            }
            (None, GroupEpoch::LEFT) => Err(not_found(format!("Group {id} not found."))),
            (None, _) => Err(not_found(format!("Share group {id} not found."))),
        }
    }

    fn heartbeat(
        &self,
        request: &Request,
        client: &ClientName,
        config: &ShareGroupConfig,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<Response>, Refusal> {
        let member = self.subscriber(request, config)?;
        let updated = update_with(&member, request, client);
        let mut records = Vec::new();
        if updated != member {
            let value = Some(updated.subscription_value());
            records.push(ShareGroupRecord::Subscription(updated.id.clone(), value));
        }
        let is_pending = self.base.target.epoch >= self.base.epoch && self.has_unassigned_states();
        let mut has_changed = updated.topic_names != member.topic_names || is_pending;
        let (mut epoch, mut fresh) = (self.base.epoch, None);
        let subscriptions = self.subscriptions(self.members_with(&updated));
        if has_changed || self.base.has_metadata_expired(around.now) {
            let metadata_hash = subscriptions.metadata_hash(around.image);
            has_changed |= metadata_hash != self.base.metadata_hash;
            if has_changed {
                epoch = epoch.next();
                records.push(ShareGroupRecord::GroupEpoch(Some(GroupEpochValue { epoch, metadata_hash })));
            }
            fresh = Some(Freshness::from(around.now, epoch));
        }
        let (target_epoch, target) =
            self.next_target(epoch, &updated, subscriptions.kind(), config, around, &mut records);
        let next = reconcile(&updated, target_epoch, &target, has_changed, around, &mut records);
        let retry_ms = config.initialize_retry_interval_ms;
        let missing = self.states.missing(subscriptions.topics(), around.image, around.now, retry_ms);
        if !missing.is_empty() {
            let value = self.states.asking(&missing).to_record();
            records.push(ShareGroupRecord::StatePartitions(Some(value)));
        }
        let states = missing.iter().flat_map(|(id, states)| states.partitions.iter().map(|p| (*id, *p)));
        let is_told = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING
            || request.subscribed_topic_names.is_some()
            || next.assigned != member.assigned;
        Ok(Outcome {
            response: Response::default()
                .with_member_id(Some(next.id.to_wire()))
                .with_member_epoch(next.epoch.0)
                .with_heartbeat_interval_ms(config.heartbeat_interval_ms)
                .with_assignment(is_told.then(|| assignment(&next))),
            records,
            session: Some(SessionChange::Renewed {
                member: next.id.clone(),
                timeout_ms: i64::from(config.session_timeout_ms),
            }),
            fresh,
            initialize: (!missing.is_empty()).then(|| (epoch, states.collect())),
        })
    }

    /// The member that a heartbeat is of, as it is known.
    fn subscriber(&self, request: &Request, config: &ShareGroupConfig) -> Result<ShareMember, Refusal> {
        let id = MemberId::new(&request.member_id);
        let known = self.base.members.get(&id);
        if known.is_none() && self.base.members.len() as i64 >= i64::from(config.max_size) {
            let max_size = config.max_size;
            let text = format!("The share group has reached its maximum capacity of {max_size} members.");
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, text));
        }
        if GroupEpoch(request.member_epoch) == GroupEpoch::JOINING {
            return Ok(known.map_or_else(|| ShareMember::new(id), |known| ShareMember::clone(known)));
        }
        let member = self.base.member(&id)?;
        check_epoch(member, GroupEpoch(request.member_epoch))?;
        Ok(ShareMember::clone(member))
    }

    /// Whether states have begun that no target is of yet (`initializedAssignmentPending`). A topic that was made anew is
    /// another one, under the same name.
    fn has_unassigned_states(&self) -> bool {
        if self.base.members.is_empty() {
            return false;
        }
        let mut assigned: BTreeMap<TopicId, BTreeSet<i32>> = BTreeMap::new();
        for (topic, partitions) in self.base.target.members.values().flat_map(Assigned::iter) {
            assigned.entry(topic).or_default().extend(partitions);
        }
        let subscriptions = self.subscriptions(self.base.members.values().map(|member| &**member));
        let subscribed: BTreeSet<&Topic> = subscriptions.topics().collect();
        let mut begun = self.states.initialized.iter().filter(|(_, (name, _))| subscribed.contains(name));
        begun.any(|(id, (_, partitions))| assigned.get(id) != Some(partitions))
    }

    /// The target of `updated` and its epoch, computed anew if the group's epoch is newer and the last time is long enough
    /// ago.
    fn next_target(
        &self,
        epoch: GroupEpoch,
        updated: &ShareMember,
        kind: SubscriptionType,
        config: &ShareGroupConfig,
        around: &Surroundings<'_>,
        records: &mut Vec<ShareGroupRecord>,
    ) -> (GroupEpoch, Assigned) {
        let target = &self.base.target;
        let now_ms = around.now.wall_ms();
        let interval_ms = i64::from(config.assignment_interval_ms);
        if target.epoch >= epoch || !target.may_be_computed(now_ms, interval_ms) {
            return (target.epoch, target.of(&updated.id));
        }
        let mut members: Vec<Assignee<'_>> = self
            .members_with(updated)
            .map(|member| Assignee {
                id: &member.id,
                instance_id: None,
                topics: member.topic_names.iter().collect(),
                target: target.of(&member.id),
            })
            .collect();
        members.sort_by_key(|member| member.id);
        let taken = Taken::of(target.members.values());
        let assignable = |topic: &TopicId, partition: i32| self.states.is_initialized(topic, partition);
        let assigned = assign_with(|spec| simple(spec, &assignable), &members, kind, &taken, around.image);
        for (id, new) in &assigned {
            if target.members.get(id) != Some(new) {
                records.push(ShareGroupRecord::Target(id.clone(), Some(new.to_record())));
            }
        }
        let metadata = TargetMetadataValue { epoch, timestamp_ms: now_ms };
        records.push(ShareGroupRecord::TargetMetadata(Some(metadata)));
        (epoch, assigned.get(&updated.id).cloned().unwrap_or_default())
    }

    fn leave(&self, request: &Request, around: &Surroundings<'_>) -> Result<Outcome<Response>, Refusal> {
        let id = MemberId::new(&request.member_id);
        self.base.member(&id)?;
        let response =
            Response::default().with_member_id(Some(id.to_wire())).with_member_epoch(request.member_epoch);
        let Outcome { records, session, .. } = self.remove_member(&id, around);
        Ok(Outcome { records, response, session, fresh: None, initialize: None })
    }

    /// A member has left, or was not heard from for its session (`shareGroupFenceMember`).
    pub fn remove_member(&self, id: &MemberId, around: &Surroundings<'_>) -> Outcome<()> {
        let others = self.base.members.values().map(|member| &**member).filter(|member| member.id != *id);
        let metadata_hash = self.subscriptions(others).metadata_hash(around.image);
        let records = vec![
            ShareGroupRecord::CurrentAssignment(id.clone(), None),
            ShareGroupRecord::Target(id.clone(), None),
            ShareGroupRecord::Subscription(id.clone(), None),
            ShareGroupRecord::GroupEpoch(Some(GroupEpochValue {
                epoch: self.base.epoch.next(),
                metadata_hash,
            })),
        ];
        let session = Some(SessionChange::Ended(id.clone()));
        Outcome { records, response: (), session, fresh: None, initialize: None }
    }

    /// The share coordinators have begun states.
    pub fn states_begun(&self, begun: &[TopicIdPartition], around: &Surroundings<'_>) -> Outcome<()> {
        self.with_states(self.states.begun(begun, around.image).to_record())
    }

    /// The share coordinators could not begin states. Nothing is to be done where none are to begin any more.
    pub fn states_failed(&self, failed: &[TopicIdPartition]) -> Option<Outcome<()>> {
        let is_waiting = !self.states.initializing.is_empty() && !failed.is_empty();
        is_waiting.then(|| self.with_states(self.states.without(failed).to_record()))
    }

    /// All states are to be deleted; which are is the answer.
    pub fn delete_states(&self, image: &ClusterImage) -> Option<Outcome<Vec<TopicIdPartition>>> {
        if !self.has_states {
            return None;
        }
        let (deleting, partitions) = self.states.all_deleting(image);
        let Outcome { records, .. } = self.with_states(deleting.to_record());
        Some(Outcome { records, response: partitions, session: None, fresh: None, initialize: None })
    }

    /// Topics are gone, with their states.
    pub fn topics_deleted(&self, gone: impl Fn(&TopicId) -> bool) -> Option<Outcome<()>> {
        let left = self.states.without_topics(gone);
        (left != self.states).then(|| self.with_states(left.to_record()))
    }

    fn with_states(&self, value: StatePartitionsValue) -> Outcome<()> {
        let records = vec![ShareGroupRecord::StatePartitions(Some(value))];
        Outcome { records, response: (), session: None, fresh: None, initialize: None }
    }
}

/// The answer that raised the epoch may have been lost: then the member is behind by that.
fn check_epoch(member: &ShareMember, received: GroupEpoch) -> Result<(), Refusal> {
    let known = member.epoch;
    let text = if received > known {
        format!(
            "The share group member has a greater member epoch ({received}) than the one known by the group \
             coordinator ({known}). The member must abandon all its partitions and rejoin."
        )
    } else if received < known && received != member.previous_epoch {
        let previous = member.previous_epoch;
        format!(
            "The share group member has a smaller member epoch ({received}) than the one known by the group \
             coordinator ({known}), and it does not match the previous member epoch ({previous}). The member must \
             abandon all its partitions and rejoin."
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, text))
}

/// What is null has not changed.
fn update_with(member: &ShareMember, request: &Request, client: &ClientName) -> ShareMember {
    let mut updated = member.clone();
    if let Some(rack) = &request.rack_id {
        updated.rack_id = Some(rack.to_string());
    }
    if let Some(names) = &request.subscribed_topic_names {
        updated.topic_names = names.iter().map(|name| Topic::new(name)).collect();
    }
    updated.client = client.clone();
    updated.client_host = CLIENT_HOST.to_string();
    updated
}

/// A member has its target as soon as it hears of it (`ShareGroupAssignmentBuilder`).
fn reconcile(
    member: &ShareMember,
    target_epoch: GroupEpoch,
    target: &Assigned,
    has_changed: bool,
    around: &Surroundings<'_>,
    records: &mut Vec<ShareGroupRecord>,
) -> ShareMember {
    if !has_changed && member.is_reconciled_to(target_epoch) {
        return member.clone();
    }
    let mut next = member.clone();
    let is_subscribed = |topic: &TopicId| {
        around.image.topic_name(*topic).is_some_and(|name| member.topic_names.contains(name))
    };
    next.assigned = target.partitions().into_iter().filter(|(topic, _)| is_subscribed(topic)).collect();
    if target_epoch != next.epoch {
        next.enter(target_epoch);
    }
    if next != *member {
        let value = Some(next.assignment_value());
        records.push(ShareGroupRecord::CurrentAssignment(next.id.clone(), value));
    }
    next
}

fn assignment(member: &ShareMember) -> Assignment {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for (topic_id, partition) in &member.assigned {
        match topics.last_mut().filter(|last| last.topic_id == topic_id.0) {
            Some(last) => last.partitions.push(*partition),
            None => topics
                .push(TopicPartitions::default().with_topic_id(topic_id.0).with_partitions(vec![*partition])),
        }
    }
    Assignment::default().with_topic_partitions(topics)
}
