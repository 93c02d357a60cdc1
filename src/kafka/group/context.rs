//! What a handler of the coordinator has at hand while it works on one input.
//!
//! **Invariant:** a handler changes its own shard and nothing else but through here.

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;
use uuid::Uuid;

use super::config::{ConsumerGroupConfig, GroupConfig};
use super::modern::Surroundings;
use super::modern::share::ShareGroupConfig;
use super::{Append, GroupEffects, GroupTimer, StateAsk};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::event::Event;
use crate::kafka::protocol::Response;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, MemberId, Offset};

/// One of the answers, of several partitions of the topic, that make up the answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// Of OffsetFetch.
    Fetched(OffsetFetchResponseGroup),
    /// Of DeleteGroups.
    Deleted(Vec<DeletableGroupResult>),
}

/// Requests of which not all parts are answered.
pub(super) type Gathered = BTreeMap<RequestId, Vec<Option<Part>>>;

/// Where the part of a member's id comes from that no other has.
#[derive(Clone, Debug)]
pub enum MemberIds {
    Random(Random),
    /// Those that another coordinator gave, in turn, and nil ones thereafter.
    Recorded(VecDeque<Uuid>),
}

impl From<Random> for MemberIds {
    fn from(random: Random) -> MemberIds {
        MemberIds::Random(random)
    }
}

impl MemberIds {
    pub(super) fn next(&mut self) -> Uuid {
        match self {
            MemberIds::Random(random) => random.uuid(),
            MemberIds::Recorded(ids) => ids.pop_front().unwrap_or_default(),
        }
    }
}

/// When an input is handled, and what the broker knows of the cluster then.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub now: Time,
    pub image: &'a ClusterImage,
}

pub(super) struct Context<'a> {
    pub now: Time,
    pub image: &'a ClusterImage,
    pub topics_created_at: Offset,
    pub broker: BrokerId,
    /// The partition of `__consumer_offsets` that is worked on.
    pub partition: i32,
    pub config: &'a GroupConfig,
    pub ids: &'a mut MemberIds,
    pub gathered: &'a mut Gathered,
    pub fx: &'a mut GroupEffects,
}

impl<'a> Context<'a> {
    pub fn respond(&mut self, to: RequestId, response: impl Into<Response>) {
        self.fx.effects.respond(to, response);
    }

    pub fn event(&mut self, event: Event) {
        self.fx.effects.event(event);
    }

    pub fn set_timer(&mut self, timer: GroupTimer, at: Time) {
        self.fx.effects.set_timer(timer, at);
    }

    pub fn cancel_timer(&mut self, timer: GroupTimer) {
        self.fx.effects.cancel_timer(timer);
    }

    pub fn append(&mut self, append: Append) {
        self.fx.appends.push(append);
    }

    pub fn around(&self) -> Surroundings<'a> {
        Surroundings { now: self.now, image: self.image, topics_created_at: self.topics_created_at }
    }

    /// What counts for a consumer group: the broker's settings, and those of the group over them.
    pub fn consumer_config(&self, group: &GroupId) -> ConsumerGroupConfig {
        let mut config = self.config.consumer.clone();
        if let Some(own) = self.image.group_configs.get(group.as_str()) {
            config.overlay(own);
        }
        config
    }

    /// The same for a share group.
    pub fn share_config(&self, group: &GroupId) -> ShareGroupConfig {
        let mut config = self.config.share;
        if let Some(own) = self.image.group_configs.get(group.as_str()) {
            config.overlay(own);
        }
        config
    }

    pub fn ask_for_states(&mut self, asks: impl IntoIterator<Item = StateAsk>) {
        self.fx.states.extend(asks);
    }

    pub fn rebalance_timer(&self, group: &GroupId, member: &MemberId) -> GroupTimer {
        GroupTimer::Rebalance { partition: self.partition, group: group.clone(), member: member.clone() }
    }

    pub fn member_join_timer(&self, group: &GroupId, member: &MemberId) -> GroupTimer {
        GroupTimer::MemberJoin { partition: self.partition, group: group.clone(), member: member.clone() }
    }

    pub fn member_sync_timer(&self, group: &GroupId, member: &MemberId) -> GroupTimer {
        GroupTimer::MemberSync { partition: self.partition, group: group.clone(), member: member.clone() }
    }

    pub fn regex_timer(&self, group: &GroupId) -> GroupTimer {
        GroupTimer::Regex { partition: self.partition, group: group.clone() }
    }

    pub fn session_timer(&self, group: &GroupId, member: &MemberId) -> GroupTimer {
        GroupTimer::Session { partition: self.partition, group: group.clone(), member: member.clone() }
    }

    pub fn join_timer(&self, group: &GroupId) -> GroupTimer {
        GroupTimer::Join { partition: self.partition, group: group.clone() }
    }

    pub fn sync_timer(&self, group: &GroupId) -> GroupTimer {
        GroupTimer::Sync { partition: self.partition, group: group.clone() }
    }

    /// Takes one part of an answer; the last part sends it.
    pub fn gather(&mut self, to: RequestId, index: i32, part: Part) {
        let Some(parts) = self.gathered.get_mut(&to) else { return };
        parts[index as usize] = Some(part);
        if parts.iter().all(Option::is_some) {
            let parts = self.gathered.remove(&to).into_iter().flatten().flatten();
            self.respond(to, whole(parts));
        }
    }
}

/// All parts of an answer are of one kind.
fn whole(parts: impl Iterator<Item = Part>) -> Response {
    let (mut groups, mut results) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Fetched(group) => groups.push(group),
            Part::Deleted(deleted) => results.extend(deleted),
        }
    }
    match results.is_empty() {
        true => m::OffsetFetchResponse::default().with_groups(groups).into(),
        false => m::DeleteGroupsResponse::default().with_results(results).into(),
    }
}
