//! Kafka's own coordinator, step by step: answers, state, deadlines and timers of scripted clients.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use glassbroker::kafka::event::GroupState;
use glassbroker::kafka::group::{GroupConfig, GroupTimer};
use glassbroker::kafka::protocol::{ErrorCode, Request, Response};
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::MemberId;
use kafka_protocol::messages as m;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::protocol::StrBytes;
use serde_json::{Value, json};

use super::cluster::{Cluster, group_id};

const JOINING: &[&str] = &[
    "single_member",
    "two_members",
    "zero_delay",
    "third_joins_stable",
    "unknown_member_join",
    "inconsistent_protocol",
    "max_size",
    "max_size_rejoin",
    "pending_member_expires",
    "pending_blocks_nothing",
];
const REJOINING: &[&str] = &[
    "follower_same_metadata",
    "follower_new_metadata",
    "leader_same_metadata",
    "rejoin_completing",
    "rejoin_completing_changed",
    "join_keeps_alive",
];
const JOIN_PHASE: &[&str] = &[
    "delay_extension",
    "rebalance_timeout",
    "rebalance_timeout_leader",
    "leave_leader",
    "session_expiry_all",
    "empty_then_join",
];
const PROTOCOL: &[&str] = &["protocol_selection", "protocol_selection_votes"];
const SYNC: &[&str] = &["sync_timeout", "sync_timeout_leader"];
const SESSION: &[&str] = &[
    "heartbeat_states",
    "wrong_generation",
    "no_group",
    "session_expiry",
    "leave_follower",
    "static_leave_by_instance",
];
const STATIC: &[&str] = &[
    "static_basic",
    "static_follower_restart",
    "static_leader_restart",
    "static_restart_changed",
    "static_fenced_duplicate",
    "static_duplicate_while_joining",
    "static_session_expiry",
    "static_unknown_id_with_instance",
    "mixed_static_dynamic",
];
const COMMITS: &[&str] = &["commit_during_rebalance", "simple_consumer_commit"];

fn scripts() -> Vec<Value> {
    let vectors: Value =
        serde_json::from_str(include_str!("../vectors/group_classic_protocol.json")).expect("JSON");
    vectors["scripts"].as_array().expect("scripts").clone()
}

fn replay(names: &[&str]) {
    let scripts = scripts();
    for name in names {
        let script = scripts.iter().find(|script| script["name"] == *name);
        let script = script.unwrap_or_else(|| panic!("no script {name}"));
        Replay::new(&script["config"]).run(script);
    }
}

#[test]
fn a_new_member_is_let_in_as_kafka_lets_it_in_r_grp_8_9_17() {
    replay(JOINING);
}

#[test]
fn a_member_that_joins_again_starts_a_rebalance_where_kafka_does_r_grp_10_11() {
    replay(REJOINING);
}

#[test]
fn a_join_phase_ends_when_kafkas_does_r_grp_6_12_13_14_15() {
    replay(JOIN_PHASE);
}

#[test]
fn the_protocol_that_most_members_name_is_chosen_r_grp_16() {
    replay(PROTOCOL);
}

#[test]
fn who_sends_no_sync_group_is_removed_r_grp_18_19() {
    replay(SYNC);
}

#[test]
fn heartbeats_and_goodbyes_are_answered_as_by_kafka_r_grp_20_21_22() {
    replay(SESSION);
}

#[test]
fn static_members_come_back_and_are_fenced_as_by_kafka_r_grp_24_25_26_27() {
    replay(STATIC);
}

#[test]
fn commits_are_accepted_in_the_states_that_kafka_accepts_them_in_r_grp_36_r_cons_10() {
    replay(COMMITS);
}

#[test]
fn well_and_ill_timed_clients_meet_the_same_as_at_kafkas_coordinator() {
    let named = [JOINING, REJOINING, JOIN_PHASE, PROTOCOL, SYNC, SESSION, STATIC, COMMITS].concat();
    let all = scripts();
    let rest: Vec<&str> =
        all.iter().map(|script| text(&script["name"])).filter(|name| !named.contains(name)).collect();
    assert!(!rest.is_empty() && rest.iter().all(|name| name.starts_with("random_")), "{rest:?}");
    replay(&rest);
}

/// One script. Member ids are Kafka's on one side and ours on the other.
struct Replay {
    cluster: Cluster,
    ours: BTreeMap<String, String>,
    kafkas: BTreeMap<String, String>,
    /// Who sent a request.
    senders: BTreeMap<i32, String>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

fn int(value: &Value) -> i32 {
    value.as_i64().map(|n| n as i32).expect("an integer")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn hex(bytes: &Bytes) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn error_name(code: i16) -> &'static str {
    ErrorCode::from_code(code).name()
}

/// The scripts speak to the state machine, which refuses to leave an unknown group as a whole; the request layer then
/// answers for each member.
fn as_answered(recorded: &Value) -> Value {
    let mut answer = recorded.clone();
    if recorded["api"] == "leave" && recorded["member_errors"].is_null() {
        answer["member_errors"] = json!([recorded["error"]]);
        answer["error"] = json!("NONE");
    }
    answer
}

impl Replay {
    fn new(config: &Value) -> Replay {
        let config = GroupConfig {
            initial_rebalance_delay_ms: config["initial_rebalance_delay_ms"].as_i64().expect("a delay"),
            min_session_timeout_ms: int(&config["min_session_timeout_ms"]),
            max_session_timeout_ms: int(&config["max_session_timeout_ms"]),
            max_size: config["group_max_size"].as_i64().map_or(i32::MAX, |size| size as i32),
            new_member_join_timeout_ms: config["new_member_join_timeout_ms"].as_i64().expect("a timeout"),
            ..GroupConfig::default()
        };
        Replay {
            cluster: Cluster::new(config),
            ours: BTreeMap::new(),
            kafkas: BTreeMap::new(),
            senders: BTreeMap::new(),
        }
    }

    fn run(&mut self, script: &Value) {
        for (number, step) in list(&script["steps"]).iter().enumerate() {
            let place = format!("{} step {number}: {}", script["name"], step["op"]);
            if step["op"] == "sleep" {
                self.sleep(step, &place);
            } else {
                let request = self.request(text(&step["op"]), &step["args"]);
                let number = self.cluster.send("client", request);
                self.senders.insert(number, text(&step["args"]["client"]).to_string());
            }
            self.check_answers(list(&step["responses"]), &place);
            self.check_group(&step["group"], &place);
        }
    }

    /// An id that Kafka gave, as the one that was given here; ids that a script made up stay as they are.
    fn our_id(&self, kafkas: &Value) -> String {
        let kafkas = text(kafkas);
        self.ours.get(kafkas).cloned().unwrap_or_else(|| kafkas.to_string())
    }

    fn kafka_id(&self, ours: &str) -> String {
        self.kafkas.get(ours).cloned().unwrap_or_else(|| ours.to_string())
    }

    fn same_member(&mut self, kafkas: &str, ours: &str) {
        if !kafkas.is_empty() && !ours.is_empty() && !self.ours.contains_key(kafkas) {
            self.ours.insert(kafkas.to_string(), ours.to_string());
            self.kafkas.insert(ours.to_string(), kafkas.to_string());
        }
    }

    fn request(&self, op: &str, args: &Value) -> Request {
        let group = m::GroupId(group_id().to_wire());
        let member = wire(&self.our_id(&args["member_id"]));
        let instance = args["instance_id"].as_str().map(wire);
        match op {
            "join" => m::JoinGroupRequest::default()
                .with_group_id(group)
                .with_member_id(member)
                .with_group_instance_id(instance)
                .with_session_timeout_ms(int(&args["session_timeout_ms"]))
                .with_rebalance_timeout_ms(int(&args["rebalance_timeout_ms"]))
                .with_protocol_type(wire("consumer"))
                .with_protocols(
                    list(&args["protocols"])
                        .iter()
                        .map(|protocol| {
                            JoinGroupRequestProtocol::default()
                                .with_name(wire(text(&protocol[0])))
                                .with_metadata(unhex(text(&protocol[1])))
                        })
                        .collect(),
                )
                .into(),
            "sync" => {
                m::SyncGroupRequest::default()
                    .with_group_id(group)
                    .with_member_id(member)
                    .with_group_instance_id(instance)
                    .with_generation_id(int(&args["generation"]))
                    .with_protocol_type(args["protocol_type"].as_str().map(wire))
                    // The recorded clients name this one where the script is silent.
                    .with_protocol_name(Some(wire(args["protocol"].as_str().unwrap_or("range"))))
                    .with_assignments(
                        list(&args["assignments"])
                            .iter()
                            .map(|assignment| {
                                SyncGroupRequestAssignment::default()
                                    .with_member_id(wire(&self.our_id(&assignment[0])))
                                    .with_assignment(Bytes::from(text(&assignment[1]).to_string()))
                            })
                            .collect(),
                    )
                    .into()
            }
            "heartbeat" => m::HeartbeatRequest::default()
                .with_group_id(group)
                .with_member_id(member)
                .with_group_instance_id(instance)
                .with_generation_id(int(&args["generation"]))
                .into(),
            "leave" => m::LeaveGroupRequest::default()
                .with_group_id(group)
                .with_members(vec![
                    MemberIdentity::default().with_member_id(member).with_group_instance_id(instance),
                ])
                .into(),
            "commit" => m::OffsetCommitRequest::default()
                .with_group_id(group)
                .with_member_id(member)
                .with_group_instance_id(instance)
                .with_generation_id_or_member_epoch(int(&args["generation"]))
                .with_topics(vec![
                    OffsetCommitRequestTopic::default()
                        .with_name(m::TopicName(wire("orders")))
                        .with_partitions(vec![OffsetCommitRequestPartition::default()]),
                ])
                .into(),
            other => panic!("unknown step {other}"),
        }
    }

    /// Timers with one deadline run out in the order that Kafka's did.
    fn sleep(&mut self, step: &Value, place: &str) {
        for fired in list(&step["timers_fired"]) {
            let timer = self.timer(text(&fired[1]));
            let at = self.cluster.timers.get(&timer).copied();
            assert_eq!(at.map(Time::ms), fired[0].as_i64(), "{place}: {timer:?}");
            let earliest = self.cluster.timers.values().min().copied();
            assert_eq!(at, earliest, "{place}: an earlier timer than {timer:?}");
            self.cluster.fire(&timer);
        }
        self.cluster.now = Time::from_ms(step["at"].as_i64().expect("a time"));
        let due = self.cluster.timers.values().filter(|at| **at <= self.cluster.now).count();
        assert_eq!(due, 0, "{place}: {:?}", self.cluster.timers);
    }

    fn timer(&self, key: &str) -> GroupTimer {
        let (partition, group) = (self.cluster.partition(), group_id());
        match key {
            "join-g" => GroupTimer::Join { partition, group },
            "sync-g" => GroupTimer::Sync { partition, group },
            _ => {
                let member = key.strip_prefix("heartbeat-g-").expect("a heartbeat timer");
                let member = MemberId::new(&self.our_id(&json!(member)));
                GroupTimer::Session { partition, group, member }
            }
        }
    }

    fn check_answers(&mut self, expected: &[Value], place: &str) {
        let answers = self.cluster.take_answers();
        let mut answered: Vec<(String, &Response)> = answers
            .iter()
            .map(|(request, response)| (self.senders[request].clone(), response.as_ref()))
            .collect();
        let mut wanted: Vec<&Value> = expected.iter().collect();
        answered.sort_by_key(|(to, response)| (to.clone(), response.api()));
        wanted.sort_by_key(|answer| (text(&answer["to"]).to_string(), text(&answer["api"]).to_string()));
        for ((_, response), wanted) in answered.iter().zip(&wanted) {
            if let Response::JoinGroup(body) = response {
                self.same_member(text(&wanted["member_id"]), &body.member_id);
            }
        }
        let answered: Vec<Value> =
            answered.iter().map(|(to, response)| self.describe(to, response)).collect();
        let wanted: Vec<Value> = wanted.into_iter().map(as_answered).collect();
        assert_eq!(answered, wanted, "{place}");
    }

    fn describe(&self, to: &str, response: &Response) -> Value {
        match response {
            Response::JoinGroup(body) => {
                let mut members: Vec<Value> = body
                    .members
                    .iter()
                    .map(|member| {
                        json!({
                            "member_id": self.kafka_id(&member.member_id),
                            "instance_id": member.group_instance_id.as_deref(),
                            "metadata": hex(&member.metadata),
                        })
                    })
                    .collect();
                members.sort_by_key(|member| text(&member["member_id"]).to_string());
                json!({
                    "to": to, "api": "join", "error": error_name(body.error_code),
                    "member_id": self.kafka_id(&body.member_id), "generation": body.generation_id,
                    "protocol_type": body.protocol_type.as_deref(), "protocol": body.protocol_name.as_deref(),
                    "leader": self.kafka_id(&body.leader), "skip_assignment": body.skip_assignment,
                    "members": members,
                })
            }
            Response::SyncGroup(body) => json!({
                "to": to, "api": "sync", "error": error_name(body.error_code),
                "protocol_type": body.protocol_type.as_deref(), "protocol": body.protocol_name.as_deref(),
                "assignment": String::from_utf8_lossy(&body.assignment),
            }),
            Response::Heartbeat(body) => {
                json!({"to": to, "api": "heartbeat", "error": error_name(body.error_code)})
            }
            Response::LeaveGroup(body) => {
                let errors: Vec<&str> =
                    body.members.iter().map(|member| error_name(member.error_code)).collect();
                json!({"to": to, "api": "leave", "error": error_name(body.error_code), "member_errors": errors})
            }
            Response::OffsetCommit(body) => {
                let error = error_name(body.topics[0].partitions[0].error_code);
                json!({"to": to, "api": "commit", "error": error})
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    fn check_group(&mut self, expected: &Value, place: &str) {
        let Some(group) = self.cluster.group().cloned() else {
            assert_eq!(expected["state"], "NO_GROUP", "{place}");
            return;
        };
        // A static member's id shows here first; its instance id says who it is.
        for wanted in list(&expected["members"]) {
            let same = group.members.values().find(|member| {
                member.is_static()
                    && member.instance_id.as_deref() == wanted["instance_id"].as_str()
                    && !self.kafkas.contains_key(member.id.as_str())
            });
            if let Some(same) = same {
                self.same_member(text(&wanted["member_id"]), same.id.as_str());
            }
        }
        let deadline = |at: Option<Time>| at.map(Time::ms);
        let partition = self.cluster.partition();
        let mut members: Vec<Value> = group
            .members
            .values()
            .map(|member| {
                let timer = GroupTimer::Session { partition, group: group_id(), member: member.id.clone() };
                json!({
                    "member_id": self.kafka_id(member.id.as_str()),
                    "instance_id": member.instance_id.as_deref(),
                    "awaiting_join": member.awaits_join(),
                    "awaiting_sync": member.parked_sync.is_some(),
                    "assignment": String::from_utf8_lossy(&member.assignment),
                    "session_expires_at": deadline(self.cluster.timers.get(&timer).copied()),
                })
            })
            .collect();
        members.sort_by_key(|member| text(&member["member_id"]).to_string());
        let pending_sync: BTreeSet<String> =
            group.pending_sync.iter().map(|id| self.kafka_id(id.as_str())).collect();
        let state = json!({
            "state": GroupState::name(group.state),
            "generation": group.generation.0,
            "protocol": group.protocol.as_deref(),
            "leader": group.leader.as_ref().map(|id| self.kafka_id(id.as_str())),
            "pending_join": group.pending.len(),
            "pending_sync": pending_sync,
            "join_deadline": deadline(group.join_deadline),
            "sync_deadline": deadline(group.sync_deadline),
            "members": members,
        });
        assert_eq!(&state, expected, "{place}");
    }
}
