//! Sticky where subscriptions differ (R-ASG-6, `GeneralAssignmentBuilder`).
//!
//! Members keep what they own, the rest goes one by one to the least loaded subscriber, then partitions are moved one by
//! one as long as that helps.
//!
//! **Invariant:** `order` holds every member that takes part, by the size of its list, then by id.

use std::collections::{BTreeMap, BTreeSet};

use super::Group;
use super::claims::Claimed;
use super::movements::Movements;
use crate::kafka::group::assignor::PlanError;
use crate::kafka::group::assignor::dense::Subscribers;
use crate::kafka::types::Generation;

/// Each member's list.
pub(super) fn assign(group: &Group<'_>, claimed: Claimed) -> Result<Vec<Vec<u32>>, PlanError> {
    let mut builder = Builder::new(group, claimed);
    let assigned = builder.keep_owned();
    let all = builder.all_partitions();
    let key = |tp| builder.key(tp);
    let unassigned = group.unassigned(all.clone(), &assigned, key);
    builder.order = (0..builder.lists.len() as u32).map(|member| builder.place(member)).collect();
    builder.balance(all, unassigned)?;
    Ok(builder.lists)
}

const NOBODY: u32 = u32::MAX;

struct Builder<'a> {
    group: &'a Group<'a>,
    previous: BTreeMap<u32, (u32, Generation)>,
    lists: Vec<Vec<u32>>,
    /// By partition.
    owner: Vec<u32>,
    subscribers: Subscribers,
    /// By kind of subscription and topic.
    wanted: Vec<Vec<bool>>,
    /// Members that take part: size of the list, rank, place.
    order: BTreeSet<(u32, u32, u32)>,
    movements: Movements,
    revocation_required: bool,
    /// Whether the lists are balanced, if that is known.
    balanced: Option<bool>,
}

impl<'a> Builder<'a> {
    fn new(group: &'a Group<'a>, claimed: Claimed) -> Builder<'a> {
        let mut owner = vec![NOBODY; group.numbers()];
        for (member, list) in (0..).zip(&claimed.owned) {
            list.iter().for_each(|tp| owner[*tp as usize] = member);
        }
        Builder {
            group,
            previous: claimed.previous,
            lists: claimed.owned,
            owner,
            subscribers: group.dense.subscribers((0..group.dense.members.len() as u32).collect()),
            wanted: group.dense.wanted(),
            order: BTreeSet::new(),
            movements: Movements::default(),
            revocation_required: false,
            balanced: None,
        }
    }

    fn place(&self, member: u32) -> (u32, u32, u32) {
        (self.size(member), self.group.rank[member as usize], member)
    }

    fn size(&self, member: u32) -> u32 {
        self.lists[member as usize].len() as u32
    }

    fn topic(&self, tp: u32) -> u32 {
        self.group.place(tp).0
    }

    fn wants(&self, member: u32, topic: u32) -> bool {
        self.wanted[self.group.dense.kind_of[member as usize] as usize][topic as usize]
    }

    fn takes_part(&self, member: u32) -> bool {
        self.order.contains(&self.place(member))
    }

    /// Partitions stand by how many subscribe to their topic, then by topic and partition.
    fn key(&self, tp: u32) -> (u32, u32, i32) {
        let (topic, partition) = self.group.place(tp);
        (self.subscribers.of(topic).len() as u32, topic, partition)
    }

    fn all_partitions(&self) -> Vec<u32> {
        let mut topics: Vec<u32> = (0..self.group.dense.topics.len() as u32).collect();
        topics.sort_by_key(|topic| self.subscribers.of(*topic).len());
        let partitions = |topic: u32| {
            let topic = &self.group.dense.topics[topic as usize];
            topic.first..topic.first + topic.partitions
        };
        topics.into_iter().flat_map(partitions).collect()
    }

    /// Drops what its owner does not subscribe to any more or has not in its rack; what is kept.
    fn keep_owned(&mut self) -> Vec<u32> {
        let mut lists = std::mem::take(&mut self.lists);
        for (member, list) in (0..).zip(&mut lists) {
            let before = list.len();
            list.retain(|tp| self.wants(member, self.topic(*tp)) && !self.group.racks_mismatch(member, *tp));
            self.revocation_required |= list.len() < before;
        }
        self.lists = lists;
        self.lists.concat()
    }

    fn balance(&mut self, mut all: Vec<u32>, mut unassigned: Vec<u32>) -> Result<(), PlanError> {
        let initial = self.order.last().is_none_or(|(size, ..)| *size == 0);
        let mut left = unassigned.clone();
        if self.group.racks_count {
            left.retain(|tp| !self.give_to_least_loaded(*tp, true));
        }
        for tp in left {
            self.give_to_least_loaded(tp, false);
        }

        let moves = |tp: &u32| self.subscribers.of(self.topic(*tp)).len() >= 2;
        all.retain(moves);
        unassigned.retain(moves);
        let stays: Vec<u32> =
            (0..self.lists.len() as u32).filter(|member| !self.can_take_part(*member)).collect();
        for member in stays {
            self.order.remove(&self.place(member));
        }
        self.balanced = None;

        let before = self.lists.clone();
        if !self.revocation_required {
            self.reassign(&unassigned)?;
        }
        let reassigned = self.reassign(&all)?;
        if !initial && reassigned && self.score(&self.lists) >= self.score(&before) {
            self.lists = before;
        }
        Ok(())
    }

    /// Gives a partition to the least loaded subscriber, if asked for of those in its racks.
    fn give_to_least_loaded(&mut self, tp: u32, by_rack: bool) -> bool {
        let topic = self.topic(tp);
        let may =
            |member: u32| self.wants(member, topic) && !(by_rack && self.group.racks_mismatch(member, tp));
        let Some(place) = self.order.iter().copied().find(|(.., member)| may(*member)) else { return false };
        let (.., member) = place;
        self.order.remove(&place);
        self.lists[member as usize].push(tp);
        self.owner[tp as usize] = member;
        self.order.insert(self.place(member));
        true
    }

    /// How many partitions a member could have at most.
    fn most(&self, member: u32) -> u32 {
        let of_topic = |topic: &u32| self.group.dense.topics[*topic as usize].partitions;
        self.group.dense.topics_of(member).iter().map(of_topic).sum()
    }

    /// A member that has all it could have, none of it wanted by others, keeps it.
    fn can_take_part(&self, member: u32) -> bool {
        let list = &self.lists[member as usize];
        let wanted_by_others = |tp: &u32| self.subscribers.of(self.topic(*tp)).len() >= 2;
        self.size(member) < self.most(member) || list.iter().any(wanted_by_others)
    }

    /// Whether no move of one partition would bring two members nearer to each other. Nothing but a move changes that.
    fn is_balanced(&mut self) -> bool {
        if let Some(balanced) = self.balanced {
            return balanced;
        }
        let balanced = self.find_balanced();
        self.balanced = Some(balanced);
        balanced
    }

    fn find_balanced(&self) -> bool {
        let (Some(least), Some(most)) = (self.order.first(), self.order.last()) else { return true };
        if least.0 + 1 >= most.0 {
            return true;
        }
        // The size of the biggest list that holds a partition of the topic.
        let mut biggest = vec![0; self.group.dense.topics.len()];
        for (size, _, member) in &self.order {
            for tp in &self.lists[*member as usize] {
                let topic = self.topic(*tp) as usize;
                biggest[topic] = (*size).max(biggest[topic]);
            }
        }
        let gains = |(size, _, member): &(u32, u32, u32)| {
            *size != self.most(*member)
                && self.group.dense.topics_of(*member).iter().any(|topic| size + 1 < biggest[*topic as usize])
        };
        !self.order.iter().any(gains)
    }

    /// Moves partitions one by one until no move helps; whether any was moved.
    fn reassign(&mut self, partitions: &[u32]) -> Result<bool, PlanError> {
        let mut any = false;
        loop {
            let mut modified = false;
            for &tp in partitions {
                if self.is_balanced() {
                    break;
                }
                if let Some(to) = self.better_owner(tp)? {
                    self.move_or_undo(tp, to);
                    modified = true;
                }
            }
            any |= modified;
            if !modified {
                return Ok(any);
            }
        }
    }

    /// Who should rather have the partition.
    fn better_owner(&self, tp: u32) -> Result<Option<u32>, PlanError> {
        let owner = self.owner[tp as usize];
        let has_more = |other: u32| self.size(owner) > self.size(other) + 1;
        if let Some((previous, _)) = self.previous.get(&tp) {
            if !self.takes_part(*previous) {
                return Err(PlanError::FixedOwner(self.group.tp(tp)));
            }
            if has_more(*previous) {
                return Ok(Some(*previous));
            }
        }
        let topic = self.topic(tp);
        let subscribers = self.subscribers.of(topic);
        if !subscribers.iter().any(|other| has_more(*other)) {
            return Ok(None);
        }
        let least_loaded = self.order.iter().find(|(.., member)| self.wants(*member, topic));
        Ok(least_loaded.map(|(.., member)| *member))
    }

    /// Moves the partition, or back the one that came the other way.
    fn move_or_undo(&mut self, tp: u32, to: u32) {
        let topic = self.topic(tp);
        let tp = self.movements.instead_of(topic, tp, self.owner[tp as usize], to);
        let from = self.owner[tp as usize];
        self.order.remove(&self.place(from));
        self.order.remove(&self.place(to));
        self.movements.record(topic, tp, from, to);
        let list = &mut self.lists[from as usize];
        if let Some(place) = list.iter().position(|listed| *listed == tp) {
            list.remove(place);
        }
        self.lists[to as usize].push(tp);
        self.owner[tp as usize] = to;
        self.order.insert(self.place(to));
        self.order.insert(self.place(from));
        self.balanced = None;
    }

    /// The sum of the differences between the sizes of all pairs that take part, as Java's int.
    fn score(&self, lists: &[Vec<u32>]) -> i32 {
        let mut sizes: Vec<i64> =
            self.order.iter().map(|(.., member)| lists[*member as usize].len() as i64).collect();
        sizes.sort_unstable();
        let (mut sum, mut score) = (0, 0i64);
        for (count, size) in (0..).zip(sizes) {
            score += size * count - sum;
            sum += size;
        }
        score as i32
    }
}
