//! 06b: groups of the newer protocol, heartbeat by heartbeat (R-CG8-1 to 21).
//!
//! The recorder looked at all deadlines of one moment, in the order of a heap, before the first of them took effect.
//!
//! **Invariant:** time moves only in a sleep, which stops at every deadline.

use std::collections::BTreeMap;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId as WireGroupId, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::values::TopicIdText;
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::ConsumerGroupConfig;
use crate::kafka::group::assignor::server::ServerAssignor;
use crate::kafka::group::modern::consumer::{
    ConsumerGroup, ConsumerMember, Outcome, Replayed, TimerChange, check_request,
};
use crate::kafka::group::modern::{MemberState, Partitions, Surroundings};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, CoordinatorRecord, RecordKey};
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, GroupEpoch, GroupId, MemberId, Offset, Topic, TopicId};

const FILE: &str = "06b_group_consumer_protocol_kip848.json";
const GROUP: &str = "g";
/// Commits are for the first partition of this topic.
const COMMITTED: &str = "foo";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    /// Says for readers what the script is about.
    #[serde(rename = "what")]
    _what: IgnoredAny,
    config: Config,
    topics: BTreeMap<String, i32>,
    topic_ids: BTreeMap<String, TopicIdText>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    session_timeout_ms: i32,
    heartbeat_interval_ms: i32,
    max_size: Option<i32>,
    assignors: Vec<String>,
    assignment_interval_ms: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: i64,
    #[serde(flatten)]
    act: Act,
    response: Option<Answer>,
    timers_fired: Option<Vec<(i64, String)>>,
    group: Group,
}

#[derive(Deserialize)]
#[serde(tag = "op", content = "args", rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Heartbeat {
        client: String,
        member_id: String,
        instance_id: Option<String>,
        epoch: i32,
        topics: Option<Vec<String>>,
        owned: Option<ByTopic>,
        rebalance_timeout_ms: Option<i32>,
        assignor: Option<String>,
    },
    Commit {
        #[serde(rename = "client")]
        _client: IgnoredAny,
        member_id: String,
        epoch: i32,
    },
    Metadata {
        topic: String,
        partitions: i32,
    },
    Sleep {
        ms: i64,
    },
}

type ByTopic = BTreeMap<String, Vec<i32>>;

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Answer {
    error: String,
    message: Option<String>,
    member_id: Option<String>,
    epoch: Option<i32>,
    heartbeat_interval_ms: Option<i32>,
    assignment: Option<ByTopic>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Group {
    state: String,
    epoch: Option<i32>,
    assignment_epoch: Option<i32>,
    members: Option<Vec<Member>>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Member {
    member_id: String,
    instance_id: Option<String>,
    epoch: i32,
    previous_epoch: i32,
    state: String,
    subscribed: Vec<String>,
    assigned: ByTopic,
    assignment_epochs: BTreeMap<String, BTreeMap<String, i32>>,
    pending_revocation: ByTopic,
    target: ByTopic,
    session_deadline: Option<i64>,
    rebalance_deadline: Option<i64>,
}

pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, script: &Script| {
        let mut world = World::new(script)?;
        let steps = script.steps.iter().enumerate().try_for_each(|(number, step)| {
            world.live(step).map_err(|failure| failure.within(&format!("{}, step {number}", script.name)))
        });
        Ok(steps.and_then(|()| world.check_log().map_err(|failure| failure.within(&script.name))))
    })
}

struct World {
    config: ConsumerGroupConfig,
    image: ClusterImage,
    ids: BTreeMap<String, TopicId>,
    now_ms: i64,
    group: Option<ConsumerGroup>,
    timers: Vec<(i64, Timer)>,
    log: Vec<CoordinatorRecord>,
}

#[derive(Clone, PartialEq, Eq)]
enum Timer {
    Session(MemberId),
    Rebalance(MemberId),
}

impl Timer {
    fn name(&self) -> String {
        match self {
            Timer::Session(member) => format!("session-timeout-{GROUP}-{member}"),
            Timer::Rebalance(member) => format!("rebalance-timeout-{GROUP}-{member}"),
        }
    }
}

impl World {
    fn new(script: &Script) -> Result<World, ConformanceError> {
        let known = |name: &String| {
            let unknown = || ConformanceError::Json(format!("{name} is no assignor"));
            ServerAssignor::of_name(name).ok_or_else(unknown)
        };
        let assignors = script.config.assignors.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let config = ConsumerGroupConfig {
            session_timeout_ms: script.config.session_timeout_ms,
            heartbeat_interval_ms: script.config.heartbeat_interval_ms,
            assignment_interval_ms: script.config.assignment_interval_ms,
            max_size: script.config.max_size.unwrap_or(i32::MAX),
            assignors: assignors.into(),
            ..ConsumerGroupConfig::default()
        };
        let ids = script.topic_ids.iter().map(|(name, id)| (name.clone(), id.0)).collect();
        let (image, timers, log) = (ClusterImage::default(), Vec::new(), Vec::new());
        let mut world = World { config, image, ids, now_ms: 0, group: None, timers, log };
        script.topics.iter().for_each(|(name, partitions)| world.set_partitions(name, *partitions));
        Ok(world)
    }

    /// Creates or enlarges a topic; one without partitions is deleted.
    fn set_partitions(&mut self, name: &str, partitions: i32) {
        let id = self.ids[name];
        let had = self.image.topic(&Topic::new(name)).map_or(0, |topic| topic.partitions.len() as i32);
        if partitions == 0 {
            self.image.replay(&MetadataRecord::RemoveTopic { id });
        } else if had == 0 {
            self.image.replay(&MetadataRecord::Topic { name: Topic::new(name), id });
        }
        for partition in had..partitions {
            let replicas = vec![BrokerId(0)];
            let record = PartitionRecord::new((id, partition), replicas.clone(), replicas, BrokerId(0));
            self.image.replay(&MetadataRecord::Partition(record));
        }
    }

    fn now(&self) -> Time {
        Time::from_ms(self.now_ms)
    }

    fn live(&mut self, step: &Step) -> Result<(), Failure> {
        let mut fired = Vec::new();
        let answer = match &step.act {
            Act::Sleep { ms } => {
                fired = self.sleep(*ms);
                None
            }
            Act::Metadata { topic, partitions } => {
                self.set_partitions(topic, *partitions);
                self.group.iter_mut().for_each(|group| group.base.request_metadata_refresh());
                None
            }
            Act::Commit { member_id, epoch, .. } => Some(self.commit(member_id, *epoch)),
            Act::Heartbeat { client, .. } => Some(self.heartbeat(&step.act, client)),
        };
        check(|| "time".to_owned(), &step.at, &self.now_ms)?;
        check(|| "response".to_owned(), &step.response, &answer)?;
        fired.sort();
        let mut expected = step.timers_fired.clone().unwrap_or_default();
        expected.sort();
        check(|| "timers".to_owned(), &expected, &fired)?;
        check(|| "group".to_owned(), &step.group, &self.group_fields())
    }

    fn sleep(&mut self, ms: i64) -> Vec<(i64, String)> {
        let end = self.now_ms + ms;
        let mut fired = Vec::new();
        while let Some(at) = self.timers.iter().map(|(at, _)| *at).min().filter(|at| *at <= end) {
            self.now_ms = at;
            let (due, later) = std::mem::take(&mut self.timers).into_iter().partition(|(due, _)| *due == at);
            self.timers = later;
            let due: Vec<(i64, Timer)> = due;
            let outcome = |(_, timer): &(i64, Timer)| {
                self.group.as_ref().and_then(|group| match timer {
                    Timer::Session(member) => group.session_expired(member, &self.image),
                    Timer::Rebalance(member) => group.rebalance_expired(member, &self.image),
                })
            };
            let outcomes: Vec<Outcome<()>> = due.iter().filter_map(outcome).collect();
            outcomes.iter().for_each(|outcome| self.carry_out(outcome));
            fired.extend(due.iter().map(|(at, timer)| (*at, timer.name())));
        }
        self.now_ms = end;
        fired
    }

    fn commit(&self, member: &str, epoch: i32) -> Answer {
        let checked = match &self.group {
            None if epoch < 0 => Ok(()),
            None => Err(ErrorCode::GroupIdNotFound),
            Some(group) => {
                let scope = group.validate_commit(&MemberId::new(member), GroupEpoch(epoch));
                scope.and_then(|scope| scope.check(&(self.ids[COMMITTED], 0)))
            }
        };
        Answer::of(checked.err().unwrap_or(ErrorCode::None), None)
    }

    fn heartbeat(&mut self, act: &Act, client: &str) -> Answer {
        let request = self.request(act);
        let around = Surroundings { now: self.now(), image: &self.image, topics_created_at: Offset::ZERO };
        let client = ClientName::new(client);
        let answer = check_request(&request, &self.config).and_then(|()| {
            ConsumerGroup::handle(self.group.as_ref(), &request, &client, &self.config, &around)
        });
        match answer {
            Err(refusal) => Answer::of(refusal.error, Some(refusal.message)),
            Ok(outcome) => {
                self.carry_out(&outcome);
                self.answer_fields(&outcome.response)
            }
        }
    }

    fn request(&self, act: &Act) -> ConsumerGroupHeartbeatRequest {
        let Act::Heartbeat {
            member_id,
            instance_id,
            epoch,
            topics,
            owned,
            rebalance_timeout_ms,
            assignor,
            ..
        } = act
        else {
            unreachable!("only a heartbeat is a request")
        };
        let text = |text: &String| StrBytes::from_string(text.clone());
        let owned_topic = |(topic, partitions): (&String, &Vec<i32>)| {
            let id = self.ids[topic].0;
            TopicPartitions::default().with_topic_id(id).with_partitions(partitions.clone())
        };
        let names = |topics: &Vec<String>| topics.iter().map(|topic| TopicName(text(topic))).collect();
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(WireGroupId(StrBytes::from_static_str(GROUP)))
            .with_member_id(text(member_id))
            .with_instance_id(instance_id.as_ref().map(text))
            .with_member_epoch(*epoch)
            .with_rebalance_timeout_ms(rebalance_timeout_ms.unwrap_or(-1))
            .with_subscribed_topic_names(topics.as_ref().map(names))
            .with_server_assignor(assignor.as_ref().map(text))
            .with_topic_partitions(owned.as_ref().map(|owned| owned.iter().map(owned_topic).collect()))
    }

    fn carry_out<R>(&mut self, outcome: &Outcome<R>) {
        let now = self.now();
        self.log.extend(outcome.records.iter().map(|record| record.encode(&GroupId::new(GROUP))));
        self.group.get_or_insert_with(|| ConsumerGroup::new(GroupId::new(GROUP))).carry_out(outcome, now);
        for change in &outcome.timers {
            let (member, set) = match change {
                TimerChange::Session { member, timeout_ms } => {
                    (member, Some((*timeout_ms, Timer::Session(member.clone()))))
                }
                TimerChange::Rebalance { member, timeout_ms, .. } => {
                    (member, Some((*timeout_ms, Timer::Rebalance(member.clone()))))
                }
                TimerChange::EndRebalance(member) | TimerChange::End(member) => (member, None),
                // Of classic members, who do not come in the scripts.
                _ => continue,
            };
            let (session, rebalance) = (Timer::Session(member.clone()), Timer::Rebalance(member.clone()));
            self.timers.retain(|(_, timer)| match change {
                TimerChange::Session { .. } => *timer != session,
                TimerChange::Rebalance { .. } | TimerChange::EndRebalance(_) => *timer != rebalance,
                _ => *timer != session && *timer != rebalance,
            });
            self.timers.extend(set.map(|(timeout_ms, timer)| (self.now_ms + timeout_ms, timer)));
        }
    }

    /// What a coordinator that reads the log makes of the group is what the group is.
    fn check_log(&self) -> Result<(), Failure> {
        let Some(lived) = &self.group else { return Ok(()) };
        let mut read = ConsumerGroup::new(GroupId::new(GROUP));
        read.deadlines = lived.deadlines.clone();
        for record in &self.log {
            let decoded = RecordKey::decode(&record.key).and_then(|key| match key {
                RecordKey::Consumer(_, key) => ConsumerRecord::decode(key, record.value.as_deref()).map(Some),
                _ => Ok(None),
            });
            check(|| "record".to_owned(), &Ok(true), &decoded.as_ref().map(Option::is_some))?;
            if let Ok(Some(record)) = decoded {
                check(|| "replayed".to_owned(), &Replayed::Kept, &read.replay(&record))?;
            }
        }
        check(|| "read back".to_owned(), &self.fields_of(lived), &self.fields_of(&read))
    }

    fn name_of(&self, id: TopicId) -> String {
        let known = self.ids.iter().find(|(_, known)| **known == id);
        known.map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }

    fn by_topic(&self, partitions: impl Iterator<Item = (TopicId, i32)>) -> ByTopic {
        let mut topics = ByTopic::new();
        for (topic, partition) in partitions {
            topics.entry(self.name_of(topic)).or_default().push(partition);
        }
        topics
    }

    fn answer_fields(&self, response: &ConsumerGroupHeartbeatResponse) -> Answer {
        let assigned = response.assignment.as_ref().map(|assignment| {
            let topics = assignment.topic_partitions.iter();
            topics.map(|topic| (self.name_of(TopicId(topic.topic_id)), topic.partitions.clone())).collect()
        });
        Answer {
            member_id: response.member_id.as_ref().map(|id| id.to_string()),
            epoch: Some(response.member_epoch),
            heartbeat_interval_ms: Some(response.heartbeat_interval_ms),
            assignment: assigned,
            ..Answer::of(ErrorCode::None, None)
        }
    }

    fn group_fields(&self) -> Group {
        let none = Group { state: "NO_GROUP".to_owned(), epoch: None, assignment_epoch: None, members: None };
        self.group.as_ref().map_or(none, |group| self.fields_of(group))
    }

    fn fields_of(&self, group: &ConsumerGroup) -> Group {
        Group {
            state: group.state().name().to_owned(),
            epoch: Some(group.base.epoch.0),
            assignment_epoch: Some(group.base.target.epoch.0),
            members: Some(
                group.base.members.values().map(|member| self.member_fields(group, member)).collect(),
            ),
        }
    }

    fn member_fields(&self, group: &ConsumerGroup, member: &ConsumerMember) -> Member {
        let state = match member.state {
            MemberState::Stable => "STABLE",
            MemberState::UnrevokedPartitions => "UNREVOKED_PARTITIONS",
            MemberState::UnreleasedPartitions => "UNRELEASED_PARTITIONS",
            MemberState::Unknown => "UNKNOWN",
        };
        let mut epochs: BTreeMap<String, BTreeMap<String, i32>> = BTreeMap::new();
        for ((topic, partition), epoch) in member.assigned.iter() {
            epochs.entry(self.name_of(topic)).or_default().insert(partition.to_string(), epoch.0);
        }
        let plain = |partitions: &Partitions| self.by_topic(partitions.keys());
        let target = group.base.target.of(&member.id);
        let target = target.iter().map(|(topic, partitions)| (self.name_of(topic), partitions.to_vec()));
        let deadlines = group.deadlines.get(&member.id).copied().unwrap_or_default();
        Member {
            member_id: member.id.to_string(),
            instance_id: member.instance_id.clone(),
            epoch: member.epoch.0,
            previous_epoch: member.previous_epoch.0,
            state: state.to_owned(),
            subscribed: member.topic_names.iter().map(Topic::to_string).collect(),
            assigned: plain(&member.assigned),
            assignment_epochs: epochs,
            pending_revocation: plain(&member.pending_revocation),
            target: target.collect(),
            session_deadline: deadlines.session.map(Time::ms),
            rebalance_deadline: deadlines.rebalance.map(|(at, _)| at.ms()),
        }
    }
}

impl Answer {
    fn of(error: ErrorCode, message: Option<String>) -> Answer {
        Answer {
            error: error.name().to_owned(),
            message,
            member_id: None,
            epoch: None,
            heartbeat_interval_ms: None,
            assignment: None,
        }
    }
}
