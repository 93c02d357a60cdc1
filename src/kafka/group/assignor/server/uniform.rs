//! Uniform where all members subscribe to the same topics (R-CG8-23, `UniformHomogeneousAssignmentBuilder`).
//!
//! **Invariant:** the sizes of two members' lists differ by one at most, and a partition moves only if its owner has more
//! than its quota or left.

use super::{Assigned, Building, GroupSpec};
use crate::kafka::group::assignor::places::Places;
use crate::kafka::types::TopicId;

/// A topic's place in the spec and a partition.
type Pair = (u32, i32);

pub(super) fn assign(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    if spec.members[0].topics.is_empty() {
        return vec![Assigned::default(); spec.members.len()];
    }
    let mut builder = Builder::new(spec);
    let walk = spec.members.iter().map(|member| builder.keep(member.target)).collect::<Vec<_>>();
    let (mut next, mut pairs, mut building) = (0, Vec::new(), Building::default());
    let deal = |(kept, room): (Kept, u32)| {
        let begin = next;
        next = builder.unassigned.len().min(begin + room as usize);
        match kept {
            Kept::All(target) if begin == next => return target,
            Kept::All(target) => builder.pairs(&target, usize::MAX, &mut pairs),
            Kept::Some(kept) => pairs.extend(kept),
        }
        pairs.extend_from_slice(&builder.unassigned[begin..next]);
        let assigned = building.of_pairs(&mut pairs, spec.topics);
        pairs.clear();
        assigned
    };
    let assigned = walk.into_iter().map(deal).collect();
    assert!(next == builder.unassigned.len(), "a partition is in two members' targets");
    assigned
}

/// What a member keeps of its target.
enum Kept {
    All(Assigned),
    /// What is left of it.
    Some(Vec<Pair>),
}

struct Builder {
    places: Places<TopicId>,
    subscribed: Vec<bool>,
    /// What is dealt out, in this order.
    unassigned: Vec<Pair>,
    quota: u32,
    /// How many members may still have one more.
    extras: u32,
    /// Members that are not walked yet.
    members_left: u32,
}

impl Builder {
    fn new(spec: &GroupSpec<'_>) -> Builder {
        let mut subscribed = vec![false; spec.topics.len()];
        spec.members[0].topics.iter().for_each(|topic| subscribed[*topic as usize] = true);
        let (mut unassigned, mut total) = (Vec::new(), 0);
        for ((place, (_, count)), taken) in (0..).zip(spec.topics).zip(spec.taken.of_topics(spec.topics)) {
            if subscribed[place as usize] {
                unassigned.extend(taken.free(*count).map(|partition| (place, partition)));
                total += *count as u32;
            }
        }
        let members = spec.members.len() as u32;
        Builder {
            places: spec.places(),
            subscribed,
            unassigned,
            quota: total / members,
            extras: total % members,
            members_left: members,
        }
    }

    fn subscribed_place(&self, topic: &TopicId) -> Option<u32> {
        self.places.find(topic).filter(|place| self.subscribed[*place as usize])
    }

    /// What a member may keep, and how much more it is to get. A member without an extra one leaves that to later ones.
    fn keep(&mut self, target: &Assigned) -> (Kept, u32) {
        let mut has_extra = self.extras > 0;
        let mut room = self.quota + u32::from(has_extra);
        let mut kept: Option<Vec<Pair>> = None;
        for (number, (topic, partitions)) in target.iter().enumerate() {
            let place = self.subscribed_place(&topic);
            let fits = match place {
                Some(_) => partitions.len().min(room as usize),
                None => 0,
            };
            room -= fits as u32;
            if fits < partitions.len() && kept.is_none() {
                let mut pairs = Vec::with_capacity(target.len());
                self.pairs(target, number, &mut pairs);
                kept = Some(pairs);
            }
            let Some(place) = place else { continue };
            if let Some(kept) = &mut kept {
                kept.extend(partitions[..fits].iter().map(|partition| (place, *partition)));
            }
            self.unassigned.extend(partitions[fits..].iter().map(|partition| (place, *partition)));
        }
        if room > 0 && has_extra && self.members_left > self.extras {
            room -= 1;
            has_extra = false;
        }
        self.extras -= u32::from(has_extra);
        self.members_left -= 1;
        (kept.map_or_else(|| Kept::All(target.clone()), Kept::Some), room)
    }

    /// Adds the first `topics` topics of a target, all of which are subscribed to.
    fn pairs(&self, target: &Assigned, topics: usize, pairs: &mut Vec<Pair>) {
        for (topic, partitions) in target.iter().take(topics) {
            let place = self.places.find(&topic);
            pairs.extend(place.into_iter().flat_map(|place| partitions.iter().map(move |p| (place, *p))));
        }
    }
}
