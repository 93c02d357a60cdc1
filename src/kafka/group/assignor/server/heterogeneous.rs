//! Uniform where subscriptions differ (R-CG8-24, `UniformHeterogeneousAssignmentBuilder`).
//!
//! Three steps: drop what is no longer subscribed to, deal out the rest topic by topic to the least loaded, then balance
//! the subscribers of one topic after the other.
//!
//! **Invariant:** `sizes` counts, over all topics, what `owner` says each member has.

use std::cmp::Ordering;

use super::balancer::Balancer;
use super::{Assigned, Building, GroupSpec};

/// Laps over the topics at most.
const MAX_LAPS: u32 = 16;
const NOBODY: u32 = u32::MAX;

pub(super) fn assign(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    let mut builder = Builder::new(spec);
    builder.deal_out();
    builder.balance();
    builder.finish()
}

struct Builder<'a> {
    spec: &'a GroupSpec<'a>,
    /// Each topic's subscribers.
    subscribers: Vec<Vec<u32>>,
    /// By topic and partition.
    owner: Vec<Vec<u32>>,
    /// How many partitions each member has.
    sizes: Vec<u32>,
    /// Members whose target changes.
    changed: Vec<bool>,
}

impl<'a> Builder<'a> {
    /// With what members may keep.
    fn new(spec: &'a GroupSpec<'a>) -> Builder<'a> {
        let mut subscribers = vec![Vec::new(); spec.topics.len()];
        for (place, member) in (0..).zip(spec.members) {
            member.topics.iter().for_each(|topic| subscribers[*topic as usize].push(place));
        }
        let nobody = |(_, partitions): &(_, i32)| vec![NOBODY; *partitions as usize];
        let mut builder = Builder {
            spec,
            subscribers,
            owner: spec.topics.iter().map(nobody).collect(),
            sizes: vec![0; spec.members.len()],
            changed: vec![false; spec.members.len()],
        };
        builder.keep();
        builder
    }

    fn keep(&mut self) {
        let places = self.spec.places();
        for (place, member) in (0..).zip(self.spec.members) {
            for (topic, partitions) in member.target.iter() {
                let subscribed =
                    places.find(&topic).filter(|topic| member.topics.binary_search(topic).is_ok());
                let Some(topic) = subscribed else {
                    self.changed[place as usize] = true;
                    continue;
                };
                for partition in partitions {
                    self.owner[topic as usize][*partition as usize] = place;
                }
                self.sizes[place as usize] += partitions.len() as u32;
            }
        }
    }

    /// Most partitions a subscriber first, then fewest subscribers, then the lower id.
    fn cmp_topics(&self, a: u32, b: u32) -> Ordering {
        let facts = |topic: u32| {
            let (id, partitions) = &self.spec.topics[topic as usize];
            (id, i64::from(*partitions), self.subscribers[topic as usize].len() as i64)
        };
        let ((a, a_partitions, a_members), (b, b_partitions, b_members)) = (facts(a), facts(b));
        (b_partitions * a_members)
            .cmp(&(a_partitions * b_members))
            .then(a_members.cmp(&b_members))
            .then_with(|| a.cmp_as_java(b))
    }

    fn sorted_topics(&self, which: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut topics: Vec<u32> = (0..self.spec.topics.len() as u32).filter(|topic| which(*topic)).collect();
        topics.sort_by(|a, b| self.cmp_topics(*a, *b));
        topics
    }

    /// Each free partition goes to the least loaded subscriber.
    fn deal_out(&mut self) {
        let is_subscribed = |topic: u32| !self.subscribers[topic as usize].is_empty();
        let has_free = |topic: u32| self.owner[topic as usize].contains(&NOBODY);
        for topic in self.sorted_topics(|topic| is_subscribed(topic) && has_free(topic)) {
            let mut balancer = Balancer::new(&self.subscribers[topic as usize], &self.sizes);
            for partition in 0..self.owner[topic as usize].len() {
                if self.owner[topic as usize][partition] == NOBODY {
                    let member = balancer.next_least_loaded(&self.sizes);
                    self.give(topic, partition, member);
                }
            }
        }
    }

    fn give(&mut self, topic: u32, partition: usize, member: u32) {
        let owner = &mut self.owner[topic as usize][partition];
        if *owner != NOBODY {
            self.sizes[*owner as usize] -= 1;
            self.changed[*owner as usize] = true;
        }
        *owner = member;
        self.sizes[member as usize] += 1;
        self.changed[member as usize] = true;
    }

    /// Laps over the topics until nothing was moved since the last topic that was changed.
    fn balance(&mut self) {
        let topics = self.sorted_topics(|topic| self.subscribers[topic as usize].len() >= 2);
        let mut last_changed = None;
        for _ in 0..MAX_LAPS {
            for (place, topic) in topics.iter().enumerate() {
                if last_changed == Some(place) {
                    return;
                }
                if self.balance_topic(*topic) || last_changed.is_none() {
                    last_changed = Some(place);
                }
            }
        }
    }

    /// Moves partitions of a topic from its most to its least loaded subscribers; whether any was moved.
    fn balance_topic(&mut self, topic: u32) -> bool {
        let subscribers = &self.subscribers[topic as usize];
        let sizes = subscribers.iter().map(|member| self.sizes[*member as usize]);
        if sizes.clone().max() <= sizes.min().map(|least| least + 1) {
            return false;
        }
        let mut balancer = Balancer::new(subscribers, &self.sizes);
        let mut owned = self.owned_by_member(topic);
        let mut moved = false;
        while !balancer.is_balanced() {
            let Some((_, partition)) = self.next_given_up(&mut balancer, &mut owned) else { break };
            let to = balancer.next_least_loaded(&self.sizes);
            if balancer.is_balanced() {
                break;
            }
            self.give(topic, partition as usize, to);
            moved = true;
        }
        moved
    }

    /// Each subscriber's partitions of the topic, rising; at the places of the members.
    fn owned_by_member(&self, topic: u32) -> Vec<Vec<u32>> {
        let mut owned = vec![Vec::new(); self.spec.members.len()];
        for (partition, owner) in (0..).zip(&self.owner[topic as usize]) {
            if *owner != NOBODY {
                owned[*owner as usize].push(partition);
            }
        }
        owned
    }

    /// The most loaded member that has partitions of the topic, and its last one of those.
    fn next_given_up(&self, balancer: &mut Balancer, owned: &mut [Vec<u32>]) -> Option<(u32, u32)> {
        loop {
            let member = balancer.next_most_loaded(&self.sizes)?;
            match owned[member as usize].pop() {
                Some(partition) => return Some((member, partition)),
                None => balancer.exclude_most_loaded(),
            }
        }
    }

    fn finish(self) -> Vec<Assigned> {
        let mut pairs = vec![Vec::new(); self.spec.members.len()];
        for (topic, owners) in (0..).zip(&self.owner) {
            for (partition, owner) in (0..).zip(owners) {
                if *owner != NOBODY && self.changed[*owner as usize] {
                    pairs[*owner as usize].push((topic, partition));
                }
            }
        }
        let members = self.spec.members.iter().zip(self.changed).zip(pairs);
        let mut building = Building::default();
        let finish = |((member, changed), mut pairs): ((&super::MemberSpec<'_>, bool), Vec<_>)| match changed
        {
            true => building.of_pairs(&mut pairs, self.spec.topics),
            false => member.target.clone(),
        };
        members.map(finish).collect()
    }
}
