//! 05a, 05b: what the coordinator's assignors make of a group of the newer protocol (R-CG8-22 to 24).
//!
//! Members, topics and what members have are passed in Java's order.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::values::{Hex, Runs, TopicIdText};
use super::{ConformanceError, Failure, Report, check, run_chained};
use crate::kafka::group::assignor::server::{Assigned, GroupSpec, MemberSpec, ServerAssignor, Taken};
use crate::kafka::types::{MemberId, TopicId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// A case's name, or a step's event.
    #[serde(alias = "event")]
    name: String,
    topics: Vec<TopicFields>,
    members: Vec<Member>,
    java_member_order: Vec<String>,
    /// Only of a homogeneous group.
    java_topic_order: Option<Vec<String>>,
    #[serde(rename = "member_order_sensitive")]
    _member_order_sensitive: IgnoredAny,
    #[serde(rename = "topic_id_hash_sensitive")]
    _topic_id_hash_sensitive: IgnoredAny,
    assignment: BTreeMap<String, BTreeMap<String, Vec<i32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicFields {
    name: String,
    id: TopicIdText,
    id_hex: Hex,
    partitions: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    id: String,
    topics: Vec<String>,
    previous_target: Runs,
    instance_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chain {
    name: String,
    #[serde(rename = "heterogeneous")]
    _heterogeneous: IgnoredAny,
    steps: Vec<Case>,
}

/// 05a.
pub fn uniform(text: &str) -> Result<Report, ConformanceError> {
    run(ServerAssignor::Uniform, "05a_uniform_assignor_kip848.json", text)
}

/// 05b.
pub fn range(text: &str) -> Result<Report, ConformanceError> {
    run(ServerAssignor::Range, "05b_range_assignor_kip848.json", text)
}

fn run(assignor: ServerAssignor, file: &str, text: &str) -> Result<Report, ConformanceError> {
    let case = |case: &Case| single(assignor, case).map_err(|failure| failure.within(&case.name));
    let chain = |chain: &Chain| {
        let outcome = chain.steps.iter().try_for_each(case);
        outcome.map_err(|failure| failure.within(&chain.name))
    };
    run_chained(text, file, case, chain)
}

fn single(assignor: ServerAssignor, case: &Case) -> Result<(), Failure> {
    let ids: BTreeMap<&str, &TopicFields> =
        case.topics.iter().map(|topic| (topic.name.as_str(), topic)).collect();
    for topic in &case.topics {
        check(
            || format!("id of {}", topic.name),
            &topic.id_hex.0.to_vec(),
            &topic.id.0.0.as_bytes().to_vec(),
        )?;
    }
    let names: Vec<&str> = match &case.java_topic_order {
        Some(order) => order.iter().map(String::as_str).collect(),
        None => ids.keys().copied().filter(|name| case.members.iter().any(|m| m.subscribes(name))).collect(),
    };
    let topics: Vec<(TopicId, i32)> =
        names.iter().filter_map(|name| ids.get(name)).map(|topic| (topic.id.0, topic.partitions)).collect();
    let mut members: Vec<&Member> = case.members.iter().collect();
    members.sort_by_key(|member| case.java_member_order.iter().position(|id| *id == member.id));
    let facts: Vec<Facts> = members.iter().map(|member| Facts::new(member, &names, &ids)).collect();
    let specs: Vec<MemberSpec<'_>> =
        members.iter().zip(&facts).map(|(member, facts)| facts.spec(member)).collect();
    let taken = Taken::of(facts.iter().map(|facts| &facts.target));
    let homogeneous = case.java_topic_order.is_some();
    let spec = GroupSpec { members: &specs, topics: &topics, homogeneous, taken: &taken };
    let got: BTreeMap<String, BTreeMap<String, Vec<i32>>> = members
        .iter()
        .zip(assignor.assign(&spec))
        .map(|(member, assigned)| (member.id.clone(), by_name(&assigned, &case.topics)))
        .collect();
    check(|| "assignment".to_owned(), &case.assignment, &got)
}

impl Member {
    fn subscribes(&self, topic: &str) -> bool {
        self.topics.iter().any(|name| name == topic)
    }
}

/// What the assignor is to know of a member.
struct Facts {
    id: MemberId,
    topics: Vec<u32>,
    target: Assigned,
}

impl Facts {
    fn new(member: &Member, names: &[&str], ids: &BTreeMap<&str, &TopicFields>) -> Facts {
        let topics = (0..).zip(names).filter(|(_, name)| member.subscribes(name)).map(|(place, _)| place);
        let target = |(topic, partitions): &(String, Vec<i32>)| {
            ids.get(topic.as_str()).map(|topic| (topic.id.0, partitions.clone()))
        };
        let target = Assigned::new(member.previous_target.iter().filter_map(target));
        Facts { id: MemberId::new(&member.id), topics: topics.collect(), target }
    }

    fn spec<'a>(&'a self, member: &'a Member) -> MemberSpec<'a> {
        let instance_id = member.instance_id.as_deref();
        MemberSpec { id: &self.id, instance_id, topics: &self.topics, target: &self.target }
    }
}

/// By topic's name, partitions rising, as the file lists them.
fn by_name(assigned: &Assigned, topics: &[TopicFields]) -> BTreeMap<String, Vec<i32>> {
    let named = |(id, partitions): (TopicId, &[i32])| {
        let name = topics.iter().find(|topic| topic.id.0 == id).map(|topic| topic.name.clone());
        let mut partitions = partitions.to_vec();
        partitions.sort_unstable();
        (name.unwrap_or_else(|| id.to_string()), partitions)
    };
    assigned.iter().map(named).collect()
}
