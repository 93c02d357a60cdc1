//! A group as its coordinator knows it, of either protocol.

use std::rc::Rc;

use super::client::seconds;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::{ConsumerGroupState, GroupState};
use crate::kafka::group::consumer_protocol::assigned_partitions;
use crate::kafka::group::modern::consumer::{ConsumerGroup, ConsumerMember};
use crate::kafka::group::{ClassicGroup, Member};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, TopicPartition};
use crate::view::model::Tone;
use crate::view::sentences;

#[derive(Clone, Copy)]
pub enum GroupAt<'a> {
    Classic(&'a ClassicGroup),
    /// With the image, in which its partitions have names, and the name of the assignor that plans for it.
    Modern {
        group: &'a ConsumerGroup,
        image: &'a ClusterImage,
        assignor: &'a str,
    },
}

/// Somebody whom the coordinator counts as a member.
pub struct Counted {
    pub client: ClientName,
    pub instance_id: Option<Rc<str>>,
    pub owned: Vec<TopicPartition>,
    /// When it is removed unless it is heard from before.
    pub expires_at: Option<Time>,
}

impl GroupAt<'_> {
    pub fn state(self) -> &'static str {
        match self {
            GroupAt::Classic(group) => group.state.name(),
            GroupAt::Modern { group, .. } => group.state().name(),
        }
    }

    pub fn tone(self) -> Tone {
        match self {
            GroupAt::Classic(group) => match group.state {
                GroupState::Stable => Tone::Good,
                GroupState::PreparingRebalance | GroupState::CompletingRebalance => Tone::Warning,
                GroupState::Empty => Tone::Neutral,
                GroupState::Dead => Tone::Bad,
            },
            GroupAt::Modern { group, .. } => match group.state() {
                ConsumerGroupState::Stable => Tone::Good,
                ConsumerGroupState::Assigning | ConsumerGroupState::Reconciling => Tone::Warning,
                ConsumerGroupState::Empty => Tone::Neutral,
                ConsumerGroupState::Dead => Tone::Bad,
            },
        }
    }

    /// Its generation or its epoch.
    pub fn generation(self) -> i32 {
        match self {
            GroupAt::Classic(group) => group.generation.0,
            GroupAt::Modern { group, .. } => group.base.epoch.0,
        }
    }

    /// The assignor that its members have agreed on, or that the coordinator plans with.
    pub fn protocol(self) -> Rc<str> {
        match self {
            GroupAt::Classic(group) => Rc::from(group.protocol.as_deref().unwrap_or("no protocol yet")),
            GroupAt::Modern { assignor, .. } => format!("consumer protocol, {assignor}").into(),
        }
    }

    pub fn waiting(self, now: Time) -> Option<String> {
        match self {
            GroupAt::Classic(group) => classic_waiting(group, now),
            GroupAt::Modern { group, .. } => {
                let behind = |member: &&ConsumerMember| !member.pending_revocation.is_empty();
                let members = group.base.members.values().map(|member| &**member);
                let names: Vec<&str> = members.filter(behind).map(|member| member.client.as_str()).collect();
                (!names.is_empty()).then(|| {
                    format!("waits for {} to give up what others are to have", sentences::list(&names))
                })
            }
        }
    }

    /// Its members of whom `lives` says no.
    pub fn gone(self, lives: impl Fn(&ClientName) -> bool) -> Vec<Counted> {
        match self {
            GroupAt::Classic(group) => {
                let gone = group.members.values().filter(|member| !lives(&member.client));
                gone.map(classic_member).collect()
            }
            GroupAt::Modern { group, image, .. } => {
                let gone = group.base.members.values().filter(|member| !lives(&member.client));
                gone.map(|member| modern_member(group, member, image)).collect()
            }
        }
    }
}

fn classic_member(member: &Member) -> Counted {
    Counted {
        client: member.client.clone(),
        instance_id: member.instance_id.as_deref().map(Rc::from),
        owned: assigned_partitions(&member.assignment),
        expires_at: Some(member.expires_at),
    }
}

fn modern_member(group: &ConsumerGroup, member: &ConsumerMember, image: &ClusterImage) -> Counted {
    let owned = member.assigned.keys().chain(member.pending_revocation.keys());
    let named = |(topic, partition)| Some(TopicPartition::new(image.topic_name(topic)?, partition));
    Counted {
        client: member.client.clone(),
        instance_id: member.instance_id.as_deref().map(Rc::from),
        owned: owned.filter_map(named).collect(),
        expires_at: group.deadlines.get(&member.id).and_then(|deadlines| deadlines.session),
    }
}

fn classic_waiting(group: &ClassicGroup, now: Time) -> Option<String> {
    let names = |missing: &dyn Fn(&Member) -> bool| {
        let names: Vec<&str> = group
            .members
            .values()
            .filter(|member| missing(member))
            .map(|member| member.client.as_str())
            .collect();
        sentences::list(&names)
    };
    let left = |deadline: Option<Time>| match deadline {
        Some(at) => format!(", {} left", seconds(at.ms_since(now))),
        None => String::new(),
    };
    match group.state {
        GroupState::PreparingRebalance if group.initial_delay.is_some() => {
            Some(format!("waits for further members{}", left(group.join_deadline)))
        }
        GroupState::PreparingRebalance => {
            let missing = names(&|member| !member.awaits_join());
            Some(format!("waits for JoinGroup of {missing}{}", left(group.join_deadline)))
        }
        GroupState::CompletingRebalance => {
            let leader = group.leader.as_ref().and_then(|leader| group.members.get(leader));
            let leader = leader.map_or("the leader", |leader| leader.client.as_str());
            Some(format!("waits for the plan of {leader}{}", left(group.sync_deadline)))
        }
        GroupState::Empty | GroupState::Stable | GroupState::Dead => None,
    }
}
