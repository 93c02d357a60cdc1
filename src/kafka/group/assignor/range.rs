//! The Range assignor (R-ASG-1, 2, `RangeAssignor`).
//!
//! **Invariant:** per topic, the partitions are dealt out once each and the members' numbers differ by one at most;
//! without racks in consecutive ranges.

use std::collections::{BTreeMap, BTreeSet};

use super::dense::{Dense, Subscribers};
use super::{Plan, Subscription, TopicShape, in_order, racks};
use crate::kafka::types::{Topic, TopicPartition};

/// Each member's partitions, by topic.
pub(super) fn assign(members: &[Subscription], topics: &BTreeMap<Topic, TopicShape>) -> Plan {
    let dense = Dense::new(members, topics);
    let subscribers = dense.subscribers(in_order(members));
    let with_racks: BTreeSet<u32> = match members.iter().any(|member| racks::rack_of(member).is_some()) {
        true => {
            (0..dense.topics.len() as u32).filter(|topic| racks_count(&dense, &subscribers, *topic)).collect()
        }
        false => BTreeSet::new(),
    };
    let lists = match with_racks.is_empty() {
        true => ranges(&dense, &subscribers),
        false => WithRacks::new(&dense, &subscribers).lists(&with_racks),
    };
    dense.plan(lists)
}

/// How many of `partitions` each of `members` gets: the first ones one more if it does not come out even.
fn shares(partitions: u32, members: u32) -> impl Iterator<Item = u32> {
    let (all, more) = (partitions / members, partitions % members);
    // Who is after the last partition gets nothing and need not be visited.
    let last = if all == 0 { more } else { members };
    (0..last).map(move |place| all + u32::from(place < more))
}

fn ranges(dense: &Dense<'_>, subscribers: &Subscribers) -> Vec<Vec<TopicPartition>> {
    let mut lists = vec![Vec::new(); dense.members.len()];
    for (number, topic) in dense.topics.iter().enumerate() {
        let members = subscribers.of(number as u32);
        let mut next = 0;
        for (member, share) in members.iter().zip(shares(topic.partitions, members.len() as u32)) {
            lists[*member as usize].extend((next..next + share).map(|partition| topic.tp(partition)));
            next += share;
        }
    }
    lists
}

fn racks_count(dense: &Dense<'_>, subscribers: &Subscribers, topic: u32) -> bool {
    racks::count(dense, subscribers.of(topic), std::iter::once(&dense.topics[topic as usize]))
}

/// How one topic's partitions are dealt out so far.
struct TopicState<'a> {
    members: &'a [u32],
    /// By partition.
    owner: Vec<Option<u32>>,
    /// By the member's place in `members`.
    given: Vec<u32>,
    quota: u32,
    /// How many members may still get one more.
    extras: u32,
}

impl TopicState<'_> {
    fn room(&self, place: usize) -> u32 {
        (self.quota + u32::from(self.extras > 0)).saturating_sub(self.given[place])
    }

    fn give(&mut self, place: usize, partitions: &[u32]) {
        if partitions.is_empty() {
            return;
        }
        self.given[place] += partitions.len() as u32;
        if self.given[place] > self.quota {
            self.extras -= 1;
        }
        partitions.iter().for_each(|partition| self.owner[*partition as usize] = Some(self.members[place]));
    }

    /// Gives each member, in order, as many of the partitions that it may have as there is room for.
    fn give_ranges(&mut self, may: impl Fn(u32, u32) -> bool) {
        for (place, member) in self.members.iter().enumerate() {
            let free =
                (0..self.owner.len() as u32).filter(|partition| self.owner[*partition as usize].is_none());
            let mine = free.filter(|partition| may(*member, *partition)).take(self.room(place) as usize);
            let mine: Vec<u32> = mine.collect();
            self.give(place, &mine);
        }
    }
}

/// Range where racks count for some topic (R-ASG-2).
struct WithRacks<'a> {
    dense: &'a Dense<'a>,
    states: Vec<TopicState<'a>>,
}

impl<'a> WithRacks<'a> {
    fn new(dense: &'a Dense<'a>, subscribers: &'a Subscribers) -> WithRacks<'a> {
        let state = |(number, topic): (usize, &super::dense::DenseTopic<'_>)| {
            let members = subscribers.of(number as u32);
            let count = members.len() as u32;
            TopicState {
                members,
                owner: vec![None; topic.partitions as usize],
                given: vec![0; members.len()],
                quota: topic.partitions / count,
                extras: topic.partitions % count,
            }
        };
        WithRacks { dense, states: dense.topics.iter().enumerate().map(state).collect() }
    }

    fn lists(mut self, with_racks: &BTreeSet<u32>) -> Vec<Vec<TopicPartition>> {
        let mut alike: BTreeMap<(&[u32], usize), Vec<usize>> = BTreeMap::new();
        for (number, state) in self.states.iter().enumerate() {
            alike.entry((state.members, state.owner.len())).or_default().push(number);
        }
        let dense = self.dense;
        for ((members, partitions), topics) in alike {
            match topics.as_slice() {
                [topic] if with_racks.contains(&(*topic as u32)) => {
                    self.states[*topic]
                        .give_ranges(|member, partition| matches(dense, member, *topic, partition));
                }
                [_] => {}
                _ if members
                    .iter()
                    .any(|member| racks::rack_of(&dense.members[*member as usize]).is_some()) =>
                {
                    self.give_together(members, partitions as u32, &topics);
                }
                _ => {}
            }
        }
        let mut lists = vec![Vec::new(); dense.members.len()];
        for (state, topic) in self.states.iter_mut().zip(&dense.topics) {
            state.give_ranges(|_, _| true);
            for (partition, owner) in (0..).zip(&state.owner) {
                owner.iter().for_each(|member| lists[*member as usize].push(topic.tp(partition)));
            }
        }
        lists
    }

    /// Topics with the same members and numbers of partitions: the same member gets the same partition of each.
    fn give_together(&mut self, members: &[u32], partitions: u32, topics: &[usize]) {
        let dense = self.dense;
        let mut remaining: Vec<usize> = (0..members.len()).collect();
        for partition in 0..partitions {
            let fits = |place: &&usize| {
                let has = |topic: &usize| matches(dense, members[**place], *topic, partition);
                topics.iter().all(|topic| has(topic) && self.states[*topic].room(**place) > 0)
            };
            let Some(place) = remaining.iter().find(fits).copied() else { continue };
            topics.iter().for_each(|topic| self.states[*topic].give(place, &[partition]));
            if topics.iter().all(|topic| self.states[*topic].room(place) == 0) {
                remaining.retain(|other| *other != place);
            }
        }
    }
}

/// A member without a rack matches everything.
fn matches(dense: &Dense<'_>, member: u32, topic: usize, partition: u32) -> bool {
    let racks = racks::racks_of(&dense.topics[topic], partition);
    racks::rack_of(&dense.members[member as usize])
        .is_none_or(|rack| racks.is_some_and(|racks| racks.contains(rack)))
}
