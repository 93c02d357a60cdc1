//! The simple assignor of share groups (R-SHARE-2, `SimpleAssignor`).
//!
//! A partition may be several members'. Where all subscribe to the same topics all partitions are spread at once, else each
//! topic's by itself.
//!
//! **Invariant:** no member gets more than its number of partitions, and no partition more than its number of members.

use std::collections::{BTreeMap, BTreeSet};

use super::quota::shares;
use super::{Assigned, Building, GroupSpec};
use crate::kafka::types::TopicId;

/// A topic's place in the spec and a partition.
type Pair = (u32, i32);

/// Says whether a partition may be assigned: one whose state the share coordinator has initialised.
pub type Assignable<'a> = &'a dyn Fn(&TopicId, i32) -> bool;

/// Each member's new target, in the order of the members. What is not assignable is given to nobody anew.
pub fn assign(spec: &GroupSpec<'_>, assignable: Assignable<'_>) -> Vec<Assigned> {
    if spec.members.is_empty() {
        return Vec::new();
    }
    let everyone: Vec<u32> = (0..spec.members.len() as u32).collect();
    let old = old_pairs(spec);
    if spec.homogeneous {
        let topics = spec.members[0].topics;
        return finish(spec, &old, Spread::new(spec, assignable, topics, &everyone, &old).run(), |_| false);
    }
    let mut new = vec![Vec::new(); spec.members.len()];
    for topic in 0..spec.topics.len() as u32 {
        let subscribes = |member: &u32| spec.members[*member as usize].topics.binary_search(&topic).is_ok();
        let members: Vec<u32> = everyone.iter().copied().filter(subscribes).collect();
        if members.is_empty() {
            continue;
        }
        for (all, of_topic) in
            new.iter_mut().zip(Spread::new(spec, assignable, &[topic], &members, &old).run())
        {
            all.extend(of_topic);
        }
    }
    // Kafka looks at no topic that nobody subscribes to any more, so members keep such.
    let places = spec.places();
    finish(spec, &old, new, |topic| places.find(&topic).is_none())
}

/// What the members have of the topics in the spec.
fn old_pairs(spec: &GroupSpec<'_>) -> Vec<Vec<Pair>> {
    let places = spec.places();
    let of_topic = |(topic, partitions): (TopicId, &[i32])| {
        let place = places.find(&topic);
        partitions.iter().filter_map(move |p| place.map(|place| (place, *p))).collect::<Vec<_>>()
    };
    spec.members.iter().map(|member| member.target.iter().flat_map(of_topic).collect()).collect()
}

fn finish(
    spec: &GroupSpec<'_>,
    old: &[Vec<Pair>],
    new: Vec<Vec<Pair>>,
    stays: impl Fn(TopicId) -> bool,
) -> Vec<Assigned> {
    let mut building = Building::default();
    let finish = |((member, old), mut new): ((&super::MemberSpec<'_>, &Vec<Pair>), Vec<Pair>)| {
        let set = |pairs: &[Pair]| pairs.iter().copied().collect::<BTreeSet<_>>();
        let staying = member.target.iter().filter(|(topic, _)| stays(*topic));
        let staying: Vec<_> = staying.map(|(topic, partitions)| (topic, partitions.to_vec())).collect();
        let kept = old.len() + staying.iter().map(|(_, partitions)| partitions.len()).sum::<usize>();
        if kept == member.target.len() && set(old) == set(&new) {
            return member.target.clone();
        }
        let changed = building.of_pairs(&mut new, spec.topics);
        let changed = changed.iter().map(|(topic, partitions)| (topic, partitions.to_vec()));
        Assigned::new(staying.into_iter().chain(changed))
    };
    spec.members.iter().zip(old).zip(new).map(finish).collect()
}

/// Some topics' partitions, spread over some members.
struct Spread<'a> {
    members: &'a [u32],
    /// How many members a partition is to have.
    sharing: usize,
    /// How many partitions each member is to have.
    wanted: Vec<usize>,
    by_partition: BTreeMap<Pair, BTreeSet<u32>>,
    by_member: Vec<Vec<Pair>>,
}

impl<'a> Spread<'a> {
    fn new(
        spec: &GroupSpec<'_>,
        assignable: Assignable<'_>,
        topics: &[u32],
        members: &'a [u32],
        old: &[Vec<Pair>],
    ) -> Spread<'a> {
        let partitions = |place: u32| {
            let (topic, count) = &spec.topics[place as usize];
            (0..*count).filter(|partition| assignable(topic, *partition)).map(move |p| (place, p))
        };
        let mut by_partition: BTreeMap<Pair, BTreeSet<u32>> =
            topics.iter().copied().flat_map(partitions).map(|pair| (pair, BTreeSet::new())).collect();
        let sharing = match by_partition.len() {
            0 => 0,
            partitions => members.len().div_ceil(partitions),
        };
        let mut wanted = vec![0; spec.members.len()];
        let assignments = (sharing * by_partition.len()) as u64;
        for (member, share) in members.iter().zip(shares(assignments, members.len() as u64)) {
            wanted[*member as usize] = share as usize;
        }
        let mut by_member = vec![Vec::new(); spec.members.len()];
        for (member, pairs) in (0..).zip(old) {
            for pair in pairs.iter().filter(|(topic, _)| topics.binary_search(topic).is_ok()) {
                by_partition.entry(*pair).or_default().insert(member);
                by_member[member as usize].push(*pair);
            }
        }
        Spread { members, sharing, wanted, by_partition, by_member }
    }

    fn run(mut self) -> Vec<Vec<Pair>> {
        self.revoke_from_overfilled();
        self.revoke_overshared();
        self.assign_remaining();
        self.by_member
    }

    /// Members give up the first of what they have too much.
    fn revoke_from_overfilled(&mut self) {
        for (member, pairs) in (0..).zip(&mut self.by_member) {
            let too_many = pairs.len().saturating_sub(self.wanted[member as usize]);
            for pair in pairs.drain(..too_many) {
                self.by_partition.entry(pair).or_default().remove(&member);
            }
        }
    }

    /// Partitions lose the first of the members that are too many.
    fn revoke_overshared(&mut self) {
        for (pair, members) in &mut self.by_partition {
            while members.len() > self.sharing
                && let Some(member) = members.pop_first()
            {
                self.by_member[member as usize].retain(|other| other != pair);
            }
        }
    }

    /// Members that have too few take turns. A round in which nobody could take anything is the last one.
    fn assign_remaining(&mut self) {
        let wanted = &self.wanted;
        let is_unfilled =
            |member: &u32, pairs: &[Vec<Pair>]| pairs[*member as usize].len() < wanted[*member as usize];
        let mut round: Vec<u32> =
            self.members.iter().copied().filter(|member| is_unfilled(member, &self.by_member)).collect();
        let (mut at, mut next_round, mut any) = (0, Vec::new(), false);
        for (pair, members) in &mut self.by_partition {
            while members.len() < self.sharing {
                if at == round.len() {
                    if !any || next_round.is_empty() {
                        break;
                    }
                    round = std::mem::take(&mut next_round);
                    (at, any) = (0, false);
                }
                let member = round[at];
                at += 1;
                if members.insert(member) {
                    self.by_member[member as usize].push(*pair);
                    any = true;
                }
                if is_unfilled(&member, &self.by_member) {
                    next_round.push(member);
                }
            }
        }
    }
}
