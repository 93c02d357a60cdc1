//! The plan that a group's leader makes with the assignor that the coordinator chose, and what it was made for
//! (`ConsumerCoordinator.onLeaderElected` and its `MetadataSnapshot`).
//!
//! **Invariant:** a plan is made from metadata of which nobody thinks that it is out of date, and made again when that has
//! changed (R-GRP-34).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::JoinGroupResponse;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;

use super::membership::Join;
use super::reason::RejoinReason;
use super::{Consumer, ConsumerTimer};
use crate::client::metadata::Metadata;
use crate::kafka::effects::Effects;
use crate::kafka::group::assignor::{Subscription, TopicShape};
use crate::kafka::group::consumer_protocol::{self, ConsumerAssignment, ConsumerSubscription};
use crate::kafka::group::java_map;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, MemberId, Topic};

/// The racks of a partition's replicas; `None` for those without one, or on a broker that is not known now.
type Racks = BTreeSet<Option<Rc<str>>>;

/// The topics that a plan was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Of the metadata that last agreed with it.
    version: u32,
    /// By topic the racks of each partition; empty sets if the leader itself has no rack.
    topics: Rc<BTreeMap<Topic, Vec<Racks>>>,
}

impl Snapshot {
    fn take(metadata: &Metadata, topics: &BTreeSet<Topic>, with_racks: bool) -> Snapshot {
        let racks = |topic: &Topic| -> Option<Vec<Racks>> {
            let known = metadata.topic(topic).filter(|known| known.error.is_ok())?;
            let replicas = known.partitions.values().map(|partition| &partition.replicas);
            let rack_of = |replica: &_| metadata.rack(*replica).cloned();
            Some(match with_racks {
                true => replicas.map(|replicas| replicas.iter().map(rack_of).collect()).collect(),
                false => vec![Racks::new(); known.partitions.len()],
            })
        };
        let topics = topics.iter().filter_map(|topic| Some((topic.clone(), racks(topic)?))).collect();
        Snapshot { version: metadata.update_version(), topics: Rc::new(topics) }
    }
}

impl Consumer {
    /// A leader joins again when what it planned for has changed (R-GRP-34).
    pub(super) fn rejoin_if_the_plan_is_outdated(&mut self) {
        let version = self.metadata.update_version();
        let membership = &self.membership;
        let Some(planned_for) = &membership.planned_for else { return };
        if planned_for.version == version || membership.rejoin_needed {
            return;
        }
        if self.snapshot().topics == planned_for.topics {
            self.membership.planned_for.iter_mut().for_each(|planned_for| planned_for.version = version);
        } else {
            self.membership.request_rejoin(RejoinReason::MetadataChanged);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let with_racks = !self.config.client_rack.is_empty();
        Snapshot::take(&self.metadata, &self.membership.group_topics, with_racks)
    }

    /// The coordinator made this member the leader: it watches the topics of all from now on.
    pub(super) fn lead(&mut self, now: Time, answer: &JoinGroupResponse, fx: &mut Effects<ConsumerTimer>) {
        let members = subscriptions_of(answer);
        self.membership.is_leader = true;
        self.membership.group_topics =
            members.iter().flat_map(|member| member.topics.iter().cloned()).collect();
        self.want_metadata();
        let members = (!answer.skip_assignment).then(|| members.into());
        let stale = self.metadata.is_stale(now);
        let version = self.metadata.update_version();
        self.membership.join = Join::AwaitingMetadata { since: now, version, members };
        if !stale {
            self.plan(now, fx);
        }
    }

    /// The leader's plan, once metadata is fresh (`updateGroupSubscription`).
    pub(super) fn plan_if_metadata_is_there(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if matches!(self.membership.join, Join::AwaitingMetadata { version, .. } if self.metadata.update_version() > version)
        {
            self.plan(now, fx);
        }
    }

    fn plan(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Join::AwaitingMetadata { members, .. } = &self.membership.join else { return };
        let members = members.clone();
        self.membership.planned_for = Some(self.snapshot());
        let Some(members) = members else { return self.send_sync(now, Vec::new(), fx) };
        let Some(assignor) = self.membership.identity.assignor else {
            // Reset by the background thread: the answer to SyncGroup will say so too.
            return self.send_sync(now, Vec::new(), fx);
        };
        // An assignor that throws makes poll() throw.
        let Ok(mut plan) = assignor.assign(&members, &self.topic_shapes()) else {
            return self.fail(ErrorCode::UnknownServerError);
        };
        if plant::is(Plant::DoubleOwner)
            && let Some(given) = plan.values().flatten().next().cloned()
        {
            plan.values_mut().for_each(|partitions| partitions.push(given.clone()));
        }
        let assignments = plan.into_iter().map(|(member, partitions)| {
            let assignment = ConsumerAssignment { partitions, user_data: None };
            SyncGroupRequestAssignment::default()
                .with_member_id(member.to_wire())
                .with_assignment(assignment.encode(consumer_protocol::VERSION))
        });
        self.send_sync(now, assignments.collect(), fx);
    }

    /// The group's topics as metadata knows them, with the racks of their replicas (R-ASG-2).
    fn topic_shapes(&self) -> BTreeMap<Topic, TopicShape> {
        let snapshot = Snapshot::take(&self.metadata, &self.membership.group_topics, true);
        let shape = |(topic, partitions): (&Topic, &Vec<Racks>)| {
            let known = |racks: &Racks| racks.iter().flatten().cloned().collect();
            let racks: Rc<[BTreeSet<Rc<str>>]> = partitions.iter().map(known).collect();
            let racks = Some(racks).filter(|racks| racks.iter().any(|racks| !racks.is_empty()));
            (topic.clone(), TopicShape { partitions: partitions.len() as i32, racks })
        };
        snapshot.topics.iter().map(shape).collect()
    }
}

/// What the members said, in the order in which Java walks a map of them (R-ASG-5); who said nothing that can be read subscribes to nothing.
fn subscriptions_of(answer: &JoinGroupResponse) -> Vec<Subscription> {
    let mut last: Rc<[Topic]> = Rc::default();
    let mut share = |topics: Vec<Topic>| {
        if *last != *topics {
            last = topics.into();
        }
        last.clone()
    };
    let members = answer.members.iter().map(|member| {
        let id = MemberId::new(&member.member_id);
        let instance_id = member.group_instance_id.as_ref().map(|id| id.to_string());
        let Ok(said) = ConsumerSubscription::decode(&member.metadata) else {
            return Subscription { instance_id, ..Subscription::new(id, Rc::default()) };
        };
        Subscription {
            member: id,
            instance_id,
            topics: share(said.topics),
            owned: said.owned.into(),
            generation: Some(said.generation).filter(|generation| *generation >= Generation(0)),
            rack: said.rack.map(Rc::from),
            user_data: said.user_data,
        }
    });
    java_map::in_order(members.collect(), |subscription| subscription.member.as_str())
}
