//! Kafka's recordings of share groups (`14_share_groups.json`), as far as they are about what a broker does.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lab::Lab;
use super::member::Member;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::BrokerId;

const RECORDINGS: &str = include_str!("../../../../../tests/vectors/14_share_groups.json");

/// Recordings that are left out, and what they are about.
const LEFT_OUT: &[(&str, &str)] = &[
    ("alter_offsets", "the group coordinator sets the start anew"),
    ("config_bounds", "the controller checks configs"),
    ("delete_group", "the group coordinator deletes states"),
    ("four_partitions_two_members", "assignments"),
    ("implicit_ack_refused", "the client refuses"),
    ("read_committed", "open transactions"),
    ("read_uncommitted", "aborted transactions"),
    ("three_members_two_partitions", "assignments"),
    ("two_members_one_partition", "two clients whose fetches wait at the same time, which of them is first"),
];

const TOOL_START_MS: i64 = 200;

struct Script {
    lab: Lab,
    members: BTreeMap<String, Member>,
}

fn offsets(args: &Value) -> Vec<i64> {
    let records = args["records"].as_array().expect("records");
    records.iter().map(|record| record[1].as_i64().expect("an offset")).collect()
}

fn expected_records(result: &Value) -> Vec<(i64, i16)> {
    let records = result["records"].as_array().expect("records");
    records
        .iter()
        .map(|record| (record[1].as_i64().expect("an offset"), record[2].as_i64().expect("a count") as i16))
        .collect()
}

fn expected_error(name: &str) -> ErrorCode {
    match name.split(':').next().unwrap_or_default() {
        "NONE" => ErrorCode::None,
        "InvalidRecordStateException" => ErrorCode::InvalidRecordState,
        "UnknownTopicOrPartitionException" => ErrorCode::UnknownTopicOrPartition,
        other => panic!("{other}"),
    }
}

impl Script {
    fn member(&mut self, args: &Value) -> (&mut Member, &mut Lab) {
        let name = args["client"].as_str().expect("a client");
        (self.members.get_mut(name).expect("it was made"), &mut self.lab)
    }

    fn run(&mut self, op: &str, args: &Value, result: &Value) {
        match op {
            "group_config" => {
                for (key, value) in args.as_object().expect("configs") {
                    self.lab.group_config.insert(key.clone(), value.as_str().expect("a value").to_string());
                }
                self.lab.publish();
            }
            "produce" => {
                let (records, batches) =
                    (args["records"].as_i64().expect("records"), args["batches"].as_i64().expect("batches"));
                self.lab.produce((0..batches).map(|_| records / batches));
            }
            "new_consumer" => {
                let name = args["client"].as_str().expect("a client");
                let mut member = Member::new(name);
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
                let expected = &result["partitions"]["T-0"];
                let part = |name: &str| expected[name].as_i64();
                assert_eq!(self.lab.start_and_lag(), part("start_offset").zip(part("lag")));
            }
            "close" => {
                let (member, lab) = self.member(args);
                member.close(lab);
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

/// R-SHARE-4, 7, 8, 9, 14.
#[test]
fn recorded_share_groups_go_as_kafkas_vector_14() {
    let recordings: Value = serde_json::from_str(RECORDINGS).expect("it is JSON");
    let scripts = recordings["scripts"].as_array().expect("scripts");
    let mut lived = 0;
    for script in scripts {
        let name = script["name"].as_str().expect("a name");
        if LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
            continue;
        }
        // As the brokers of the recordings were set.
        let lab = Lab::new(&[("share.record.lock.duration.ms", "5000")]);
        let began = lab.now;
        let mut run = Script { lab, members: BTreeMap::new() };
        for (step, number) in script["steps"].as_array().expect("steps").iter().zip(1..) {
            let op = step["op"].as_str().expect("an op");
            println!("{name}, step {number}: {op} {}", step["args"]);
            let ended = began.plus_ms(100 * step["at_100ms"].as_i64().expect("a time"));
            // What took its time was over when a poll found something: joining the group, waiting for a lock. A tool
            // starts, and asks then.
            let found = step["result"]["records"].as_array().is_some_and(|records| !records.is_empty());
            match op {
                "poll" if found => run.lab.run_until(ended),
                "list_offsets" => run.lab.run_until(ended.min(run.lab.now.plus_ms(TOOL_START_MS))),
                _ => {}
            }
            run.run(op, &step["args"], &step["result"]);
            run.lab.run_until(ended);
        }
        lived += 1;
    }
    assert_eq!(lived + LEFT_OUT.len(), scripts.len());
}
