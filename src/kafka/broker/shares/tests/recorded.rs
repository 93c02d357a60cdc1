//! Kafka's recordings of share groups (`14_share_groups.json`), as far as they are about what a broker does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::lab::{Lab, connection_of};
use super::member::Member;
use crate::kafka::config::{Key, check_group_config, default_limit};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::BrokerId;

const RECORDINGS: &str = include_str!("../../../../../tests/vectors/14_share_groups.json");

/// What the brokers of the recordings were set to.
const BROKERS: &[(&str, &str)] = &[
    ("share.heartbeat.interval.ms", "1000"),
    ("share.session.timeout.ms", "6000"),
    ("share.record.lock.duration.ms", "5000"),
];

/// What bounds the configs of groups.
fn limit(key: &Key) -> i64 {
    match key.name {
        "group.share.min.record.lock.duration.ms" => 1000,
        _ => default_limit(key),
    }
}

/// What was done before a step, and is not among the steps.
fn do_untold(script: &str, step: usize, lab: &mut Lab) {
    match (script, step) {
        ("read_committed", 9) => lab.end_transaction(OPEN, true),
        ("read_uncommitted", 2) => {
            for committed in [true, false] {
                lab.produce_in_transaction(committed.into(), 1);
                lab.end_transaction(committed.into(), committed);
            }
        }
        _ => {}
    }
}

/// The producer whose transaction is open.
const OPEN: i64 = 3;

/// Members are drawn random ids in Kafka, and are given what their order says. Here a client's name is its id but for
/// these.
const IDS: &[(&str, &str, &str)] = &[("three_members_two_partitions", "B", "0")];

const TOOL_START_MS: i64 = 200;

struct Script<'a> {
    name: &'a str,
    lab: Lab,
    members: BTreeMap<String, Member>,
}

fn offsets(args: &Value) -> Vec<i64> {
    let records = args["records"].as_array().expect("records");
    records.iter().map(|record| record[1].as_i64().expect("an offset")).collect()
}

fn expected_records(result: &Value) -> Vec<(i64, i16)> {
    let records = result["records"].as_array().expect("records");
    let number = |value: &Value| value.as_i64().expect("a number");
    records
        .iter()
        .map(|record| {
            assert_eq!(number(&record[0]), 0, "all are of one partition");
            (number(&record[1]), number(&record[2]) as i16)
        })
        .collect()
}

/// As the administrator's client says it; nothing if all is well.
fn exception(error: ErrorCode) -> Option<&'static str> {
    match error {
        ErrorCode::None => None,
        ErrorCode::NonEmptyGroup => Some("GroupNotEmptyException"),
        other => panic!("{other}"),
    }
}

fn expected_exception(result: &Value) -> Option<&str> {
    result["error"].as_str().map(|text| text.split(':').next().unwrap_or_default())
}

fn expected_error(name: &str) -> ErrorCode {
    match name.split(':').next().unwrap_or_default() {
        "NONE" => ErrorCode::None,
        "InvalidRecordStateException" => ErrorCode::InvalidRecordState,
        "UnknownTopicOrPartitionException" => ErrorCode::UnknownTopicOrPartition,
        other => panic!("{other}"),
    }
}

impl Script<'_> {
    fn id<'b>(&self, client: &'b str) -> &'b str {
        let id = IDS.iter().find(|(script, name, _)| *script == self.name && *name == client);
        id.map_or(client, |(_, _, id)| id)
    }

    fn member(&mut self, args: &Value) -> (&mut Member, &mut Lab) {
        let name = args["client"].as_str().expect("a client");
        (self.members.get_mut(name).expect("it was made"), &mut self.lab)
    }

    /// Each client with its partitions.
    fn described(&mut self) -> (String, BTreeMap<String, Vec<i64>>) {
        let (state, assigned) = self.lab.describe_group();
        let clients = self.members.keys().filter_map(|client| {
            Some((client.clone(), assigned.get(self.id(client))?.iter().copied().map(i64::from).collect()))
        });
        (state, clients.collect())
    }

    fn run(&mut self, op: &str, args: &Value, result: &Value) {
        match op {
            "group_config" => {
                let configs = args.as_object().expect("configs").iter();
                let configs =
                    configs.map(|(key, value)| (key.clone(), value.as_str().expect("a value").to_string()));
                let configs: BTreeMap<String, String> = configs.collect();
                let refused = check_group_config(&configs, limit).err();
                let refused = refused.map(|text| format!("InvalidConfigurationException: {text}"));
                assert_eq!(result["error"].as_str(), refused.as_deref());
                if refused.is_none() {
                    self.lab.group_config.extend(configs);
                    self.lab.publish();
                }
            }
            "produce" => {
                let (records, batches) =
                    (args["records"].as_i64().expect("records"), args["batches"].as_i64().expect("batches"));
                self.lab.produce((0..batches).map(|_| records / batches));
            }
            "transactions" => {
                for (producer, offsets) in (1..).zip(["committed_offsets", "aborted_offsets", "open_offsets"])
                {
                    let records = result[offsets].as_array().expect("offsets").len();
                    self.lab.produce_in_transaction(producer, records as i64);
                    if producer != OPEN {
                        self.lab.end_transaction(producer, producer == 1);
                    }
                }
            }
            "new_consumer" => {
                let name = args["client"].as_str().expect("a client");
                let mut member = Member::new(self.id(name));
                member.is_in_group = true;
                member.connection = connection_of(2 + self.members.len() as u32);
                member.implicit = args["share.acknowledgement.mode"] == "implicit";
                member.is_strict = args["share.acquire.mode"] == "record_limit";
                let max = args["max.poll.records"].as_str().and_then(|max| max.parse().ok());
                member.max_records = max.unwrap_or(member.max_records);
                self.members.insert(name.to_string(), member);
            }
            "poll" => {
                self.lab.come_back();
                let (member, lab) = self.member(args);
                match member.poll(lab, args["up_to_ms"].as_i64().expect("a time")) {
                    Ok(records) => assert_eq!(records, expected_records(result)),
                    Err(error) => assert_eq!(result["error"], error),
                }
            }
            "acknowledge" => {
                let kind = match args["type"].as_str().expect("a type") {
                    "accept" => 1,
                    "release" => 2,
                    "reject" => 3,
                    "renew" => 4,
                    other => panic!("{other}"),
                };
                let (member, _) = self.member(args);
                match member.acknowledge(kind, &offsets(args)) {
                    Ok(()) => assert!(result["error"].is_null()),
                    Err(error) => assert_eq!(result["error"], error),
                }
            }
            "commit_sync" => {
                let (member, lab) = self.member(args);
                let expected = result["partitions"]["T-0"].as_str().map(expected_error);
                assert_eq!(member.commit(lab), expected);
            }
            "list_offsets" => {
                self.lab.come_back();
                let expected = &result["partitions"]["T-0"];
                let part = |name: &str| expected[name].as_i64();
                assert_eq!(self.lab.start_and_lag(), part("start_offset").zip(part("lag")));
            }
            "close" => {
                let (member, lab) = self.member(args);
                member.close(lab);
            }
            "describe_group" => {
                let members = result["members"].as_array().expect("members").iter().map(|member| {
                    let partitions = member["partitions"].as_array().expect("partitions").iter();
                    let partitions = partitions.map(|partition| partition.as_i64().expect("a number"));
                    (member["client"].as_str().expect("a client").to_string(), partitions.collect())
                });
                let state = result["state"].as_str().expect("a state").to_string();
                assert_eq!(self.described(), (state, members.collect()));
            }
            "alter_offsets" => {
                let error = self.lab.alter_offsets(args["offset"].as_i64().expect("an offset"));
                assert_eq!(exception(error), expected_exception(result));
            }
            "delete_group" => {
                let error = self.lab.delete_group();
                assert_eq!(exception(error), expected_exception(result));
            }
            "sleep" => self.lab.run_for(args["ms"].as_i64().expect("a time")),
            "delete_records" => self.lab.delete_records(args["before_offset"].as_i64().expect("an offset")),
            "move_leader" => {
                self.lab.move_leader(BrokerId(2));
                self.members.values_mut().for_each(|member| member.moves_on());
            }
            other => panic!("{other} is not known"),
        }
    }
}

/// What becomes of records.
const FATES: &[&str] = &[
    "accept_all",
    "release",
    "reject",
    "mixed",
    "out_of_order_accept",
    "implicit",
    "implicit_ack_refused",
    "explicit_unacked_poll",
    "batch_optimized",
    "record_limit",
];

const LOCKS: &[&str] = &[
    "lock_expiry",
    "delivery_limit",
    "delivery_limit_lock",
    "delivery_limit_partial",
    "renew",
    "renew_then_expire",
    "renew_poll",
    "renew_disabled",
    "max_record_locks",
];

const MEMBERS: &[&str] = &[
    "close_releases",
    "two_members_one_partition",
    "three_members_two_partitions",
    "four_partitions_two_members",
    "leader_moves",
];

/// Where a group starts, and what it reads.
const GROUPS: &[&str] = &[
    "reset_latest",
    "read_committed",
    "read_uncommitted",
    "delete_records",
    "alter_offsets",
    "delete_group",
    "config_bounds",
];

fn scripts() -> BTreeMap<String, Value> {
    let mut recordings: Value = serde_json::from_str(RECORDINGS).expect("it is JSON");
    let scripts = recordings["scripts"].as_array_mut().map(std::mem::take).expect("scripts");
    let name = |script: &Value| script["name"].as_str().expect("a name").to_string();
    scripts.into_iter().map(|script| (name(&script), script)).collect()
}

fn live_all(names: &[&str]) {
    let scripts = scripts();
    names.iter().for_each(|name| live(&scripts[*name]));
}

#[test]
fn every_recording_is_among_those_that_are_lived() {
    let lived: BTreeSet<&str> = [FATES, LOCKS, MEMBERS, GROUPS].into_iter().flatten().copied().collect();
    assert_eq!(scripts().keys().map(String::as_str).collect::<BTreeSet<_>>(), lived);
}

#[test]
fn recorded_records_have_the_fates_of_vector_14_r_share_5_6_11_13() {
    live_all(FATES);
}

#[test]
fn recorded_locks_end_as_in_vector_14_r_share_7_8_9_10() {
    live_all(LOCKS);
}

#[test]
fn recorded_members_share_partitions_as_in_vector_14_r_share_1_2_14() {
    live_all(MEMBERS);
}

#[test]
fn recorded_groups_start_and_end_as_in_vector_14_r_share_4_12_15() {
    live_all(GROUPS);
}

fn live(script: &Value) {
    let name = script["name"].as_str().expect("a name");
    let partitions = script["partitions"].as_i64().expect("a number") as i32;
    let lab = Lab::with_partitions(partitions, BROKERS);
    let began = lab.now;
    let mut run = Script { name, lab, members: BTreeMap::new() };
    for (step, number) in script["steps"].as_array().expect("steps").iter().zip(1..) {
        let (op, args) = (step["op"].as_str().expect("an op"), &step["args"]);
        println!("{name}, step {number}: {op} {args}");
        do_untold(name, number, &mut run.lab);
        let ended = began.plus_ms(100 * step["at_100ms"].as_i64().expect("a time"));
        if op == "poll" {
            let (member, lab) = run.member(args);
            lab.join(member.id());
        }
        // What took its time was over when a poll found something: joining the group, waiting for a lock. A tool starts,
        // and asks then.
        let found = step["result"]["records"].as_array().is_some_and(|records| !records.is_empty());
        match op {
            "poll" if found => run.lab.run_until(ended),
            "list_offsets" => run.lab.run_until(ended.min(run.lab.now.plus_ms(TOOL_START_MS))),
            _ => {}
        }
        run.run(op, args, &step["result"]);
        run.lab.run_until(ended);
    }
}
