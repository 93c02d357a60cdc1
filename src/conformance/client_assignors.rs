//! 04a to 04d: what Kafka's client assignors make of a group (R-ASG-1 to 8).
//!
//! Cases in which a member claims a partition that is not there (`ghost_ownership`) are run like the others, and come out as
//! Kafka's even where that throws.
//!
//! Members are passed in Java's order. Lists must come out in Kafka's order; only range's follow the order of Java's map of
//! topics, which it does not take as input, so its lists are brought into that.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::java_order::JavaTable;
use super::values::{Hex, Runs, partitions_of};
use super::{ConformanceError, Failure, Report, check, run_chained};
use crate::kafka::group::assignor::{ClientAssignor, Plan, Subscription, TopicShape};
use crate::kafka::group::java_map::java_hash;
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{Generation, MemberId, Topic, TopicPartition};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    topics: Vec<TopicFields>,
    broker_racks: Option<BTreeMap<i32, String>>,
    members: Vec<Member>,
    java_member_order: Vec<String>,
    #[serde(rename = "order_sensitive")]
    _order_sensitive: IgnoredAny,
    #[serde(rename = "ghost_ownership")]
    _ghost_ownership: Option<IgnoredAny>,
    /// Kafka's assignor throws; there is no assignment then.
    throws: Option<String>,
    assignment: Option<BTreeMap<String, Runs>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicFields {
    name: String,
    partitions: i32,
    /// The brokers of each partition.
    replicas: Option<Vec<Vec<i32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    id: String,
    topics: Vec<String>,
    instance_id: Option<String>,
    rack: Option<String>,
    #[serde(default)]
    owned: Runs,
    generation: Option<i32>,
    user_data: Option<Hex>,
    user_data_previous: Option<Previous>,
    user_data_generation: Option<i32>,
}

/// What sticky's user data means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Previous {
    partitions: Runs,
    generation: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chain {
    name: String,
    #[serde(rename = "heterogeneous")]
    _heterogeneous: IgnoredAny,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    event: String,
    topics: Vec<TopicFields>,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Round {
    generation: i32,
    members: Vec<Member>,
    java_member_order: Vec<String>,
    #[serde(rename = "order_sensitive")]
    _order_sensitive: IgnoredAny,
    assignment: BTreeMap<String, Runs>,
    revoked: Option<BTreeMap<String, Runs>>,
    added: Option<BTreeMap<String, Runs>>,
    needs_rejoin: Option<bool>,
}

/// 04a.
pub fn range(text: &str) -> Result<Report, ConformanceError> {
    run(ClientAssignor::Range, "04a_range_assignor.json", text)
}

/// 04b.
pub fn round_robin(text: &str) -> Result<Report, ConformanceError> {
    run(ClientAssignor::RoundRobin, "04b_roundrobin_assignor.json", text)
}

/// 04c.
pub fn sticky(text: &str) -> Result<Report, ConformanceError> {
    run(ClientAssignor::Sticky, "04c_sticky_assignor.json", text)
}

/// 04d.
pub fn cooperative_sticky(text: &str) -> Result<Report, ConformanceError> {
    run(ClientAssignor::CooperativeSticky, "04d_cooperative_sticky_assignor.json", text)
}

fn run(assignor: ClientAssignor, file: &str, text: &str) -> Result<Report, ConformanceError> {
    let case = |case: &Case| single(assignor, case).map_err(|failure| failure.within(&case.name));
    let chain = |chain: &Chain| chained(assignor, chain).map_err(|failure| failure.within(&chain.name));
    run_chained(text, file, case, chain)
}

fn single(assignor: ClientAssignor, case: &Case) -> Result<(), Failure> {
    let group = Group::new(
        assignor,
        &case.topics,
        case.broker_racks.as_ref(),
        &case.members,
        &case.java_member_order,
    );
    group.check_user_data()?;
    group.check_plan(case.throws.as_ref(), case.assignment.as_ref()).map(drop)
}

fn chained(assignor: ClientAssignor, chain: &Chain) -> Result<(), Failure> {
    for step in &chain.steps {
        for round in &step.rounds {
            let place = format!("{}, generation {}", step.event, round.generation);
            let group = Group::new(assignor, &step.topics, None, &round.members, &round.java_member_order);
            let outcome = group.check_user_data().and_then(|()| {
                let plan = group.check_plan(None, Some(&round.assignment))?;
                group.check_changes(round, &plan)
            });
            outcome.map_err(|failure| failure.within(&place))?;
        }
    }
    Ok(())
}

/// A group as the assignor is to see it.
struct Group<'a> {
    assignor: ClientAssignor,
    members: &'a [Member],
    /// In Java's order.
    subscriptions: Vec<Subscription>,
    topics: BTreeMap<Topic, TopicShape>,
}

impl<'a> Group<'a> {
    fn new(
        assignor: ClientAssignor,
        topics: &[TopicFields],
        broker_racks: Option<&BTreeMap<i32, String>>,
        members: &'a [Member],
        order: &[String],
    ) -> Group<'a> {
        let racks_of = |brokers: &Vec<i32>| {
            let rack = |broker: &i32| broker_racks?.get(broker).map(|rack| Rc::from(rack.as_str()));
            brokers.iter().filter_map(rack).collect::<BTreeSet<Rc<str>>>()
        };
        let shape = |topic: &TopicFields| {
            let racks = topic.replicas.as_ref().map(|replicas| replicas.iter().map(racks_of).collect());
            (Topic::new(&topic.name), TopicShape { partitions: topic.partitions, racks })
        };
        let place = |member: &&Member| order.iter().position(|id| *id == member.id);
        let mut in_order: Vec<&Member> = members.iter().collect();
        in_order.sort_by_key(place);
        Group {
            assignor,
            members,
            subscriptions: in_order.into_iter().map(subscription).collect(),
            topics: topics.iter().map(shape).collect(),
        }
    }

    /// What the assignor on the member's side writes is what the file holds.
    fn check_user_data(&self) -> Result<(), Failure> {
        for member in self.members {
            let Some(theirs) = &member.user_data else { continue };
            let ours = match (&member.user_data_previous, member.user_data_generation) {
                (Some(Previous { partitions, generation }), None) => {
                    self.assignor.user_data(Some(&partitions_of(partitions)), Generation(*generation))
                }
                (None, Some(generation)) => self.assignor.user_data(None, Generation(generation)),
                _ => None,
            };
            let theirs = match self.assignor {
                ClientAssignor::Sticky => by_topic(&theirs.0).ok(),
                _ => Some(theirs.0.clone()),
            };
            check(|| format!("user data of {}", member.id), &theirs.map(Hex), &ours.map(Hex))?;
        }
        Ok(())
    }

    fn check_plan(
        &self,
        throws: Option<&String>,
        assignment: Option<&BTreeMap<String, Runs>>,
    ) -> Result<Plan, Failure> {
        let plan = self.assignor.assign(&self.subscriptions, &self.topics);
        check(|| "throws".to_owned(), &throws.is_some(), &plan.is_err())?;
        let plan = plan.unwrap_or_default();
        let lists = |(member, runs): (&String, &Runs)| (MemberId::new(member), partitions_of(runs));
        let expected: Plan = assignment.into_iter().flatten().map(lists).collect();
        let as_listed = match self.assignor {
            ClientAssignor::Range if plan != expected => self.by_java_topics(&plan),
            _ => plan.clone(),
        };
        check(|| "plan".to_owned(), &expected, &as_listed)?;
        Ok(plan)
    }

    /// The lists with their topics in the order of the map that range walks.
    fn by_java_topics(&self, plan: &Plan) -> Plan {
        let (mut names, mut map) = (JavaTable::new(), JavaTable::new());
        for topic in self.subscriptions.iter().flat_map(|subscription| subscription.topics.iter()) {
            names.put(java_hash(topic.as_str()), topic.clone());
        }
        names.into_keys().into_iter().for_each(|topic| map.put(java_hash(topic.as_str()), topic));
        let order = map.into_keys();
        let sorted = |tps: &Vec<TopicPartition>| {
            let mut tps = tps.clone();
            tps.sort_by_key(|tp| order.iter().position(|topic| *topic == tp.topic));
            tps
        };
        plan.iter().map(|(member, tps)| (member.clone(), sorted(tps))).collect()
    }

    /// What a cooperative round revokes and adds; whoever must give something up joins again.
    fn check_changes(&self, round: &Round, plan: &Plan) -> Result<(), Failure> {
        let (mut revoked, mut added) = (BTreeMap::new(), BTreeMap::new());
        for subscription in &self.subscriptions {
            let set = |tps: &[TopicPartition]| tps.iter().cloned().collect::<BTreeSet<_>>();
            let (old, new) = (set(&subscription.owned), plan.get(&subscription.member).map(|tps| set(tps)));
            let new = new.unwrap_or_default();
            revoked.insert(subscription.member.clone(), &old - &new);
            added.insert(subscription.member.clone(), &new - &old);
        }
        let needs_rejoin = revoked.values().any(|tps| !tps.is_empty());
        for (what, expected, mut got) in
            [("revoked", &round.revoked, revoked), ("added", &round.added, added)]
        {
            let Some(expected) = expected else { continue };
            got.retain(|_, tps| !tps.is_empty());
            let set = |(member, runs): (&String, &Runs)| {
                (MemberId::new(member), partitions_of(runs).into_iter().collect())
            };
            check(|| what.to_owned(), &expected.iter().map(set).collect(), &got)?;
        }
        let expected = round.needs_rejoin.unwrap_or(needs_rejoin);
        check(|| "needs to rejoin".to_owned(), &expected, &needs_rejoin)
    }
}

fn subscription(member: &Member) -> Subscription {
    Subscription {
        member: MemberId::new(&member.id),
        instance_id: member.instance_id.clone(),
        topics: member.topics.iter().map(|topic| Topic::new(topic)).collect(),
        owned: partitions_of(&member.owned).into(),
        generation: member.generation.filter(|generation| *generation >= 0).map(Generation),
        rack: member.rack.as_deref().map(Rc::from),
        user_data: member.user_data.as_ref().map(|hex| hex.0.clone()),
    }
}

/// Sticky's user data with its topics by name; Kafka writes them in the order of a hash map.
fn by_topic(bytes: &Bytes) -> Result<Bytes, WireError> {
    let mut r = Reader::new("user data", bytes);
    let mut topics = r.array(|r| Ok((r.string()?.to_owned(), r.array(|r| r.i32())?)))?;
    topics.sort();
    let mut w = Writer::new();
    w.array(&topics, |w, (topic, partitions)| {
        w.string(topic);
        w.array(partitions, |w, partition| w.i32(*partition));
    });
    w.i32(r.i32()?);
    r.finish()?;
    Ok(w.finish())
}
