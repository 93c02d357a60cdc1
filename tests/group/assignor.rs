//! Plans of the client-side assignors.

use std::collections::{BTreeMap, BTreeSet};

use glassbroker::kafka::group::assignor::{Subscription, range};
use glassbroker::kafka::types::{MemberId, Topic, TopicPartition};
use serde_json::Value;

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn name(value: &Value) -> &str {
    value.as_str().expect("a name")
}

#[test]
fn range_gives_each_member_the_partitions_that_kafka_gives_r_asg_1() {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/range_assignor.json")).expect("JSON");
    for case in list(&vectors["cases"]) {
        let members = list(&case["members"]).iter().map(|member| Subscription {
            member: MemberId::new(name(&member["id"])),
            instance_id: member["instance_id"].as_str().map(str::to_string),
            topics: list(&member["topics"]).iter().map(|topic| Topic::new(name(topic))).collect(),
        });
        let partitions = list(&case["topics"]).iter().map(|topic| {
            (Topic::new(name(&topic["name"])), topic["partitions"].as_i64().expect("a count") as i32)
        });
        let plan = range::assign(&members.collect::<Vec<_>>(), &partitions.collect());
        let plan: BTreeMap<&str, BTreeSet<TopicPartition>> =
            plan.iter().map(|(member, tps)| (member.as_str(), tps.iter().cloned().collect())).collect();
        let expected: BTreeMap<&str, BTreeSet<TopicPartition>> = case["assignment"]
            .as_object()
            .expect("members")
            .iter()
            .map(|(member, runs)| (member.as_str(), list(runs).iter().flat_map(partitions_of_run).collect()))
            .collect();
        assert_eq!(plan, expected, "{}", case["name"]);
    }
}

/// A run is `[topic, [partitions]]`.
fn partitions_of_run(run: &Value) -> Vec<TopicPartition> {
    let topic = Topic::new(name(&run[0]));
    list(&run[1])
        .iter()
        .map(|p| TopicPartition::new(&topic, p.as_i64().expect("a partition") as i32))
        .collect()
}
