//! What a handler of the coordinator has at hand while it works on one input.
//!
//! **Invariant:** a handler changes its own shard and nothing else but through here.

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::messages as m;
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;
use uuid::Uuid;

use super::config::GroupConfig;
use super::{Append, GroupEffects, GroupTimer};
use crate::kafka::effects::RequestId;
use crate::kafka::event::Event;
use crate::kafka::protocol::Response;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, MemberId};

/// OffsetFetch requests whose groups, at several partitions of the topic, are not all answered.
pub(super) type Fetches = BTreeMap<RequestId, Vec<Option<OffsetFetchResponseGroup>>>;

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

pub(super) struct Context<'a> {
    pub now: Time,
    pub broker: BrokerId,
    /// The partition of `__consumer_offsets` that is worked on.
    pub partition: i32,
    pub config: &'a GroupConfig,
    pub ids: &'a mut MemberIds,
    pub fetches: &'a mut Fetches,
    pub fx: &'a mut GroupEffects,
}

impl Context<'_> {
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

    pub fn session_timer(&self, group: &GroupId, member: &MemberId) -> GroupTimer {
        GroupTimer::Session { partition: self.partition, group: group.clone(), member: member.clone() }
    }

    pub fn join_timer(&self, group: &GroupId) -> GroupTimer {
        GroupTimer::Join { partition: self.partition, group: group.clone() }
    }

    pub fn sync_timer(&self, group: &GroupId) -> GroupTimer {
        GroupTimer::Sync { partition: self.partition, group: group.clone() }
    }

    /// Takes one group's part of an OffsetFetch answer; the last part sends it.
    pub fn fetched(&mut self, to: RequestId, index: i32, group: OffsetFetchResponseGroup) {
        let Some(parts) = self.fetches.get_mut(&to) else { return };
        parts[index as usize] = Some(group);
        if parts.iter().all(Option::is_some) {
            let groups = self.fetches.remove(&to).into_iter().flatten().flatten().collect();
            self.respond(to, m::OffsetFetchResponse::default().with_groups(groups));
        }
    }
}
