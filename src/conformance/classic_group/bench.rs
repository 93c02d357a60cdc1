//! A coordinator with its clock, its timers and a log that is committed as soon as it is written.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use uuid::Uuid;

use super::Join;
use super::said::{Group, Member, Said, text};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effect, RequestId};
use crate::kafka::event::GroupState;
use crate::kafka::group::{self, At, GroupConfig, GroupCoordinator, GroupEffects, GroupTimer, MemberIds};
use crate::kafka::protocol::{ApiKey, Request, Response};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, ClientName, GroupId, LeaderEpoch, MemberId, NodeId, Offset, TopicId, TopicPartition,
};

pub(super) const GROUP: &str = "g";
pub(super) const TOPIC: &str = "orders";
/// Of every client.
const CLIENT: &str = "client";
/// The newest JoinGroup that knows nothing of MEMBER_ID_REQUIRED.
const OLD_JOIN: i16 = 3;

pub(super) struct Bench {
    pub(super) now: Time,
    image: ClusterImage,
    coordinator: GroupCoordinator,
    timers: BTreeMap<GroupTimer, Time>,
    log_end: Offset,
    /// Who sent each request.
    senders: Vec<String>,
    answers: BTreeMap<i32, Rc<Response>>,
}

impl Bench {
    /// Elected and loaded from an empty log.
    pub(super) fn new(config: GroupConfig, ids: VecDeque<Uuid>) -> Bench {
        let mut bench = Bench {
            now: Time::ZERO,
            image: ClusterImage::default(),
            coordinator: GroupCoordinator::new(BrokerId(1), config, MemberIds::Recorded(ids)),
            timers: BTreeMap::new(),
            log_end: Offset::ZERO,
            senders: Vec::new(),
            answers: BTreeMap::new(),
        };
        let partition = bench.partition();
        bench.step(|c, _, fx| assert!(c.on_elected(partition, LeaderEpoch(1), fx), "it begins"));
        bench.step(|c, at, fx| {
            let loaded = c.on_loaded(at, partition, std::iter::empty(), Offset::ZERO, Offset::ZERO, fx);
            loaded.expect("there is nothing to read");
        });
        bench
    }

    fn partition(&self) -> i32 {
        self.coordinator.partition_for(&GroupId::new(GROUP))
    }

    fn sent_by(&mut self, client: &str) -> RequestId {
        self.senders.push(client.to_owned());
        RequestId {
            from: NodeId::Client(1),
            channel: Channel::Coordinator,
            connection: 1,
            correlation: self.senders.len() as i32 - 1,
            version: ApiKey::JoinGroup.version(),
        }
    }

    pub(super) fn join(&mut self, join: &Join) {
        let id = self.sent_by(&join.client);
        let (client, request) = (ClientName::new(CLIENT), join.request());
        let version = if join.requires_known_member_id { ApiKey::JoinGroup.version() } else { OLD_JOIN };
        let join = group::Join { id, client: &client, version, request: &request };
        self.step(|c, at, fx| c.join(at, join, fx));
    }

    pub(super) fn send(&mut self, client: &str, request: impl Into<Request>) {
        let id = self.sent_by(client);
        let request = request.into();
        let topics = |tp: &TopicPartition| (tp.topic.as_str() == TOPIC).then(|| TopicId(Uuid::from_u128(7)));
        self.step(|c, at, fx| c.handle(at, id, &ClientName::new(CLIENT), &request, &topics, fx));
    }

    /// Lets the timers run out that are due until `end`, those with one deadline in the order of `recorded`. The ones that
    /// did, in the form in which they are recorded.
    pub(super) fn sleep(&mut self, end: Time, recorded: &[(i64, String)]) -> Vec<(i64, String)> {
        let mut fired = Vec::new();
        loop {
            let rank = |(timer, at): &(&GroupTimer, &Time)| {
                let name = (at.ms(), name_of(timer));
                (
                    **at,
                    recorded.iter().skip(fired.len()).position(|known| *known == name).unwrap_or(usize::MAX),
                )
            };
            let next = self.timers.iter().filter(|(_, at)| **at <= end).min_by_key(rank);
            let Some((timer, at)) = next.map(|(timer, at)| (timer.clone(), *at)) else { break };
            self.timers.remove(&timer);
            self.now = at;
            fired.push((at.ms(), name_of(&timer)));
            self.step(|c, at, fx| c.on_timer(at, &timer, fx));
        }
        self.now = end;
        // Kafka's scripts had no look at old offsets.
        fired.retain(|(_, name)| !name.is_empty());
        fired
    }

    pub(super) fn take_answers(&mut self) -> Vec<Said> {
        let answers = std::mem::take(&mut self.answers);
        let said = |(number, response): (i32, Rc<Response>)| {
            Said::of(self.senders[number as usize].clone(), &response)
        };
        answers.into_iter().filter_map(said).collect()
    }

    pub(super) fn group(&self) -> Group {
        let Some(group) = self.coordinator.group(&GroupId::new(GROUP)) else { return Group::absent() };
        let expires_at = |id: &MemberId| {
            let (partition, group) = (self.partition(), GroupId::new(GROUP));
            self.timers.get(&GroupTimer::Session { partition, group, member: id.clone() }).copied()
        };
        let members = group.members.values().map(|member| Member {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.as_ref().map(|id| id.to_string()),
            awaiting_join: member.awaits_join(),
            awaiting_sync: member.parked_sync.is_some(),
            assignment: text(&member.assignment),
            session_expires_at: expires_at(&member.id).map(Time::ms),
        });
        Group {
            state: GroupState::name(group.state).to_owned(),
            generation: Some(group.generation.0),
            protocol: group.protocol.as_ref().map(|name| name.to_string()),
            leader: group.leader.as_ref().map(ToString::to_string),
            pending_join: Some(group.pending.len() as i64),
            pending_sync: Some(group.pending_sync.iter().map(ToString::to_string).collect()),
            join_deadline: group.join_deadline.map(Time::ms),
            sync_deadline: group.sync_deadline.map(Time::ms),
            members: Some(members.collect()),
        }
    }

    fn step(&mut self, work: impl FnOnce(&mut GroupCoordinator, At<'_>, &mut GroupEffects)) {
        let mut fx = GroupEffects::default();
        work(&mut self.coordinator, At { now: self.now, image: &self.image }, &mut fx);
        self.carry_out(fx);
    }

    fn carry_out(&mut self, fx: GroupEffects) {
        for effect in fx.effects.into_vec() {
            match effect {
                Effect::Respond { to, response } => drop(self.answers.insert(to.correlation, response)),
                Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                _ => {}
            }
        }
        for append in fx.appends {
            self.log_end += append.records.len() as i64;
            let (partition, token, end) = (append.partition, append.token, self.log_end);
            self.step(|c, at, fx| c.on_appended(at, partition, token, end + -1, fx));
            self.step(|c, at, fx| c.on_high_watermark(at, partition, end, fx));
        }
    }
}

/// As the scripts call it; nothing for what they do not have.
fn name_of(timer: &GroupTimer) -> String {
    match timer {
        GroupTimer::Session { group, member, .. } => format!("heartbeat-{group}-{member}"),
        GroupTimer::Join { group, .. } => format!("join-{group}"),
        GroupTimer::Sync { group, .. } => format!("sync-{group}"),
        GroupTimer::Rebalance { .. }
        | GroupTimer::MemberJoin { .. }
        | GroupTimer::MemberSync { .. }
        | GroupTimer::Regex { .. } => String::new(),
        GroupTimer::Write { .. } | GroupTimer::Expiration { .. } => String::new(),
    }
}
