//! What each assignor takes for the groups that Kafka's own was measured with.
//!
//! As there, every member subscribes to every topic, building the subscriptions counts for the client's assignors, the
//! best of many runs is told, and what is thrown away afterwards does not count.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use crate::kafka::group::assignor::server::{Assigned, GroupSpec, MemberSpec, ServerAssignor, Taken};
use crate::kafka::group::assignor::{ClientAssignor, Plan, Subscription, TopicShape};
use crate::kafka::types::{Generation, MemberId, Topic, TopicId, TopicPartition};
use serde::Deserialize;
use uuid::Uuid;

use super::{Clock, timed};

/// `10_performance_reference.json`: times of Kafka 4.3.1.
const REFERENCE: &str = include_str!("../../tests/vectors/10_performance_reference.json");

const WARM_RUNS: u32 = 3;
const MOST_RUNS: u32 = 200;
/// A browser's clock goes by steps of 0.1 ms; what is shorter than this is done several times in one run.
const LEAST_TOLD: Duration = Duration::from_millis(2);
/// No run begins after this time, but for the first.
const TIME: Duration = Duration::from_millis(1500);

#[derive(Deserialize)]
struct Reference {
    assignors: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    what: String,
    members: u32,
    partitions: u32,
    topics: u32,
    min_ms: f64,
}

/// One of the things that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    First(ClientAssignor),
    /// Every member owns what it was given before.
    Unchanged,
    /// The same, but the last member is gone.
    OneLeft,
    ServerFirst(ServerAssignor),
    /// The last member is new.
    OneJoined,
}

impl What {
    fn of(row: &Row) -> Option<What> {
        Some(match row.what.as_str() {
            "CooperativeSticky, first assignment" => What::First(ClientAssignor::CooperativeSticky),
            "CooperativeSticky, nothing changed" => What::Unchanged,
            "CooperativeSticky, one member left" => What::OneLeft,
            "Range (client)" => What::First(ClientAssignor::Range),
            "RoundRobin (client)" => What::First(ClientAssignor::RoundRobin),
            "Uniform (server), first assignment" => What::ServerFirst(ServerAssignor::Uniform),
            "Uniform (server), one member joined" => What::OneJoined,
            "Range (server)" => What::ServerFirst(ServerAssignor::Range),
            _ => return None,
        })
    }
}

/// Prints a line for each row of the reference.
pub fn run(clock: Clock, out: &mut impl Write) -> io::Result<()> {
    let reference: Reference = serde_json::from_str(REFERENCE).expect("the reference is JSON");
    writeln!(
        out,
        "ms, the best of up to {MOST_RUNS} runs; Kafka's are those of its Java code on a like machine\n"
    )?;
    writeln!(
        out,
        "{:<37} {:>7} {:>10} {:>10} {:>10} {:>7}",
        "assignor", "members", "partitions", "ms", "Kafka's ms", "ratio"
    )?;
    for row in &reference.assignors {
        let what = What::of(row).expect("every row is known");
        let ms = best(clock, &Sizes::of(row), what, MOST_RUNS).as_secs_f64() * 1000.0;
        let Row { what, members, partitions, min_ms, .. } = row;
        writeln!(
            out,
            "{what:<37} {members:>7} {partitions:>10} {ms:>10.4} {min_ms:>10.3} {:>7.4}",
            ms / min_ms
        )?;
    }
    Ok(())
}

struct Sizes {
    members: u32,
    topics: u32,
    partitions_a_topic: i32,
}

impl Sizes {
    fn of(row: &Row) -> Sizes {
        Sizes {
            members: row.members,
            topics: row.topics,
            partitions_a_topic: (row.partitions / row.topics) as i32,
        }
    }

    fn member_ids(&self) -> Vec<MemberId> {
        (0..self.members).map(|i| MemberId::new(&format!("consumer-billing-{i:05}"))).collect()
    }
}

/// The time of the best run.
fn best(clock: Clock, sizes: &Sizes, what: What, most_runs: u32) -> Duration {
    match what {
        What::First(assignor) => Client::new(sizes, assignor).best(clock, most_runs),
        What::Unchanged => {
            Client::new(sizes, ClientAssignor::CooperativeSticky).again(0).best(clock, most_runs)
        }
        What::OneLeft => {
            Client::new(sizes, ClientAssignor::CooperativeSticky).again(1).best(clock, most_runs)
        }
        What::ServerFirst(assignor) => Server::new(sizes, assignor).best(clock, most_runs),
        What::OneJoined => Server::new(sizes, ServerAssignor::Uniform).one_joined().best(clock, most_runs),
    }
}

/// The time of one piece of work: as often as the clock needs to tell it, many times over, the best.
fn best_of<T>(clock: Clock, most_runs: u32, mut work: impl FnMut() -> T) -> Duration {
    let begin = clock();
    let (mut best, mut runs, mut at_once) = (Duration::MAX, 0, 1);
    while runs == 0 || runs < most_runs && clock() - begin < TIME {
        // What it made is dropped after the clock stopped.
        let (elapsed, _made) = timed(clock, || (0..at_once).map(|_| work()).collect::<Vec<T>>());
        if elapsed < LEAST_TOLD {
            at_once *= 2;
            continue;
        }
        if runs >= WARM_RUNS.min(most_runs - 1) {
            best = best.min(elapsed / at_once);
        }
        runs += 1;
    }
    best
}

/// A classic group.
struct Client {
    assignor: ClientAssignor,
    members: Vec<MemberId>,
    topics: Rc<[Topic]>,
    shapes: BTreeMap<Topic, TopicShape>,
    /// What each member owns.
    owned: Vec<Rc<[TopicPartition]>>,
    generation: Option<Generation>,
}

impl Client {
    fn new(sizes: &Sizes, assignor: ClientAssignor) -> Client {
        let topics: Rc<[Topic]> = (0..sizes.topics).map(|i| Topic::new(&format!("topic-{i:05}"))).collect();
        let shape = TopicShape::of_partitions(sizes.partitions_a_topic);
        Client {
            assignor,
            members: sizes.member_ids(),
            shapes: topics.iter().map(|topic| (topic.clone(), shape.clone())).collect(),
            topics,
            owned: vec![Rc::default(); sizes.members as usize],
            generation: None,
        }
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let member = |(member, owned): (&MemberId, &Rc<[TopicPartition]>)| Subscription {
            member: member.clone(),
            instance_id: None,
            topics: self.topics.clone(),
            owned: owned.clone(),
            generation: self.generation,
            rack: None,
            user_data: None,
        };
        self.members.iter().zip(&self.owned).map(member).collect()
    }

    fn assign(&self) -> Plan {
        self.plan(&self.subscriptions())
    }

    fn plan(&self, members: &[Subscription]) -> Plan {
        self.assignor.assign(members, &self.shapes).expect("no member claims what is not there")
    }

    /// The group in its next generation, without as many of its members.
    fn again(mut self, gone: usize) -> Client {
        let mut plan = self.assign();
        self.owned =
            self.members.iter().map(|member| plan.remove(member).unwrap_or_default().into()).collect();
        self.generation = Some(Generation(1));
        self.members.truncate(self.members.len() - gone);
        self
    }

    fn best(&self, clock: Clock, most_runs: u32) -> Duration {
        best_of(clock, most_runs, || self.assign())
    }
}

/// A group of the newer protocol.
struct Server {
    assignor: ServerAssignor,
    members: Vec<MemberId>,
    topics: Vec<(TopicId, i32)>,
    all: Vec<u32>,
    targets: Vec<Assigned>,
}

impl Server {
    fn new(sizes: &Sizes, assignor: ServerAssignor) -> Server {
        // Ids as spread as those that a controller draws, and by their order.
        let id = |i: u32| (u128::from(i) + 1) << 96 | u128::from(i.wrapping_mul(0x9e37_79b9));
        let topic = |i| (TopicId(Uuid::from_u128(id(i))), sizes.partitions_a_topic);
        Server {
            assignor,
            members: sizes.member_ids(),
            topics: (0..sizes.topics).map(topic).collect(),
            all: (0..sizes.topics).collect(),
            targets: vec![Assigned::default(); sizes.members as usize],
        }
    }

    fn assign(&self, members: usize, taken: &Taken) -> Vec<Assigned> {
        let member = |(id, target)| MemberSpec { id, instance_id: None, topics: &self.all, target };
        let members: Vec<MemberSpec<'_>> =
            self.members.iter().zip(&self.targets).take(members).map(member).collect();
        let spec = GroupSpec { members: &members, topics: &self.topics, homogeneous: true, taken };
        self.assignor.assign(&spec)
    }

    /// All but the last member are assigned.
    fn one_joined(mut self) -> Server {
        let others = self.members.len() - 1;
        self.targets = self.assign(others, &Taken::default());
        self.targets.push(Assigned::default());
        self
    }

    fn best(&self, clock: Clock, most_runs: u32) -> Duration {
        let taken = Taken::of(&self.targets);
        best_of(clock, most_runs, || self.assign(self.members.len(), &taken))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::Instant;

    use super::*;

    fn clock() -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    /// What is told of are the rows of `10_performance_reference.json`, all of them, and each can be measured.
    #[test]
    fn every_row_of_the_reference_is_measured() {
        let reference: Reference = serde_json::from_str(REFERENCE).expect("JSON");
        assert_eq!(reference.assignors.len(), 40);
        for row in &reference.assignors {
            let what = What::of(row);
            assert!(what.is_some(), "{}", row.what);
            assert_eq!(row.partitions % row.topics, 0);
            if row.members <= 100 {
                let elapsed = what.map(|what| best(clock, &Sizes::of(row), what, 1));
                assert!(elapsed > Some(Duration::ZERO), "{}", row.what);
            }
        }
    }

    /// A group of 2,000 members and 200,000 partitions can be assigned, by every assignor.
    #[test]
    fn a_group_of_2000_members_and_200000_partitions_is_assigned_evenly() {
        let sizes = Sizes { members: 2000, topics: 2000, partitions_a_topic: 100 };
        for assignor in ClientAssignor::ALL {
            let plan = Client::new(&sizes, assignor).assign();
            assert_eq!(plan.values().map(Vec::len).sum::<usize>(), 200_000);
        }
        let again = Client::new(&sizes, ClientAssignor::CooperativeSticky).again(0);
        assert!(
            again.assign().values().zip(&again.owned).all(|(new, old)| new.len() == 100 && old.len() == 100)
        );
        let joined = Server::new(&sizes, ServerAssignor::Uniform).one_joined();
        let assigned = joined.assign(2000, &Taken::of(&joined.targets));
        assert!(assigned.iter().all(|assigned| assigned.len() == 100));
        let kept = assigned.iter().zip(&joined.targets).filter(|(new, old)| new.is_same(old));
        assert_eq!(kept.count(), 1899, "of 1,999 members 100 had one too many");
    }

    /// The same where every other member leaves a topic out; one that joins gets its share of what the others had.
    #[test]
    fn a_group_of_2000_members_with_different_subscriptions_is_assigned_evenly() {
        let sizes = Sizes { members: 2000, topics: 2000, partitions_a_topic: 100 };
        let client = Client::new(&sizes, ClientAssignor::Sticky);
        let mut members = client.subscriptions();
        let fewer: Rc<[Topic]> = client.topics[1..].into();
        members.iter_mut().step_by(2).for_each(|member| member.topics = fewer.clone());
        let mut plan = client.plan(&members[1..]);
        let evenly = |plan: &Plan, sizes: [usize; 2]| plan.values().all(|tps| sizes.contains(&tps.len()));
        assert!(evenly(&plan, [100, 101]));
        for member in &mut members {
            let owned = plan.remove(&member.member).unwrap_or_default();
            member.user_data = client.assignor.user_data(Some(&owned), Generation(1));
        }
        assert!(evenly(&client.plan(&members), [100, 100]));
    }
}
