//! The Sticky and CooperativeSticky assignors (R-ASG-4 to 8, `AbstractStickyAssignor`).
//!
//! A member that claims a partition which its topic does not have (a ghost) keeps it, as in Kafka, which does not check; the
//! algorithms then may hand partitions out twice or come to no end.
//!
//! **Invariant:** without ghosts each partition with a subscriber is somebody's, but for those that CooperativeSticky
//! withholds until their old owner has given them up.

mod claims;
mod constrained;
mod general;
mod movements;
pub(super) mod user_data;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use claims::Claimed;

use super::dense::Dense;
use super::{Plan, PlanError, Subscription, TopicShape, racks};
use crate::kafka::plant::{self, Plant};
use crate::kafka::types::{Generation, Topic, TopicPartition};

/// Where a member says what it owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    /// Eager: in the user data.
    UserData,
    /// Cooperative: in the subscription's own fields.
    Fields,
}

impl Claims {
    /// What the member owned, and in which generation it was given that.
    fn of(self, subscription: &Subscription) -> (Cow<'_, [TopicPartition]>, Option<Generation>) {
        match self {
            Claims::UserData => {
                let (owned, generation) = user_data::decode_owned(subscription.user_data.as_ref());
                (Cow::Owned(owned), generation)
            }
            Claims::Fields => {
                let in_user_data = || user_data::decode_generation(subscription.user_data.as_ref());
                (Cow::Borrowed(&subscription.owned), subscription.generation.or_else(in_user_data))
            }
        }
    }
}

/// What both algorithms work on.
struct Group<'a> {
    dense: Dense<'a>,
    /// Claimed partitions that their topics do not have; they are numbered after all others.
    ghosts: Vec<(u32, i32)>,
    /// The topic of each partition but ghosts.
    topic_of: Vec<u32>,
    /// Members' ranks by id.
    rank: Vec<u32>,
    racks_count: bool,
}

impl<'a> Group<'a> {
    fn new(dense: Dense<'a>) -> Group<'a> {
        let mut topic_of = Vec::with_capacity(dense.total as usize);
        for (number, topic) in (0..).zip(&dense.topics) {
            topic_of.resize(topic_of.len() + topic.partitions as usize, number);
        }
        let mut by_id: Vec<u32> = (0..dense.members.len() as u32).collect();
        let id = |member: &u32| &dense.members[*member as usize].member;
        by_id.sort_by(|a, b| id(a).cmp(id(b)));
        let mut rank = vec![0; by_id.len()];
        (0..).zip(&by_id).for_each(|(place, member)| rank[*member as usize] = place);
        let racks_count = racks::count(&dense, &by_id, dense.topics.iter());
        Group { dense, ghosts: Vec::new(), topic_of, rank, racks_count }
    }

    /// Topic and partition of a number.
    fn place(&self, tp: u32) -> (u32, i32) {
        match tp.checked_sub(self.dense.total) {
            Some(ghost) => self.ghosts[ghost as usize],
            None => {
                let topic = self.topic_of[tp as usize];
                (topic, (tp - self.dense.topics[topic as usize].first) as i32)
            }
        }
    }

    fn tp(&self, tp: u32) -> TopicPartition {
        let (topic, partition) = self.place(tp);
        TopicPartition::new(self.dense.topics[topic as usize].name, partition)
    }

    /// The number of a partition that exists.
    fn number(&self, topic: u32, partition: i32) -> Option<u32> {
        let topic = &self.dense.topics[topic as usize];
        u32::try_from(partition).ok().filter(|p| *p < topic.partitions).map(|p| topic.first + p)
    }

    /// Numbers, ghosts with them, that partitions may have.
    fn numbers(&self) -> usize {
        self.dense.total as usize + self.ghosts.len()
    }

    /// The rack that keeps a member to its own partitions.
    fn rack(&self, member: u32) -> Option<&str> {
        racks::rack_of(&self.dense.members[member as usize]).filter(|_| self.racks_count)
    }

    fn rack_has(&self, rack: &str, tp: u32) -> bool {
        let (topic, partition) = self.place(tp);
        let racks = racks::racks_of(&self.dense.topics[topic as usize], partition as u32);
        racks.is_some_and(|racks| racks.contains(rack))
    }

    fn racks_mismatch(&self, member: u32, tp: u32) -> bool {
        self.rack(member).is_some_and(|rack| !self.rack_has(rack, tp))
    }

    /// Those of `all` that are not in `assigned`, found as Kafka finds them: both are walked in one order, and a ghost in
    /// `assigned` stops its walk, so that all that comes later counts as free.
    fn unassigned(&self, all: Vec<u32>, assigned: &[u32], key: impl Fn(u32) -> (u32, u32, i32)) -> Vec<u32> {
        let mut is_assigned = vec![false; self.numbers()];
        assigned.iter().for_each(|tp| is_assigned[*tp as usize] = true);
        let ghosts = (self.dense.total..self.numbers() as u32).filter(|ghost| is_assigned[*ghost as usize]);
        let first_ghost = ghosts.map(&key).min();
        let passed = |tp: u32| first_ghost.is_some_and(|ghost| key(tp) > ghost);
        all.into_iter().filter(|tp| !is_assigned[*tp as usize] || passed(*tp)).collect()
    }

    fn plan(&self, lists: Vec<Vec<u32>>) -> Plan {
        let tps = |list: Vec<u32>| list.into_iter().map(|tp| self.tp(tp)).collect();
        self.dense.plan(lists.into_iter().map(tps).collect())
    }
}

/// Each member's partitions.
///
/// # Errors
/// The algorithm is stuck because of ghosts.
pub(super) fn assign(
    claims: Claims,
    members: &[Subscription],
    topics: &BTreeMap<Topic, TopicShape>,
) -> Result<Plan, PlanError> {
    if members.is_empty() {
        return Ok(Plan::new());
    }
    let mut group = Group::new(Dense::new(members, topics));
    let claimed = Claimed::new(claims, &mut group);
    let (mut lists, transferring) = match all_subscriptions_equal(members) {
        true => constrained::assign(&group, claimed)?,
        false => {
            let lists = general::assign(&group, claimed)?;
            let transferring = match claims {
                Claims::UserData => Vec::new(),
                Claims::Fields => changing_hands(&group, &lists),
            };
            (lists, transferring)
        }
    };
    if claims == Claims::Fields {
        withhold(&mut lists, if plant::is(Plant::RevokeNotAwaited) { Vec::new() } else { transferring });
    }
    Ok(group.plan(lists))
}

/// As Kafka sees it: an empty subscription before the first other one is equal to any.
fn all_subscriptions_equal(members: &[Subscription]) -> bool {
    let mut others = members.iter().skip_while(|member| member.topics.is_empty());
    let Some(first) = others.next() else { return true };
    let mut set: Option<BTreeSet<&Topic>> = None;
    others.all(|member| {
        if Rc::ptr_eq(&first.topics, &member.topics) || first.topics == member.topics {
            return true;
        }
        let set = set.get_or_insert_with(|| first.topics.iter().collect());
        member.topics.len() == set.len() && member.topics.iter().all(|topic| set.contains(topic))
    })
}

/// Partitions that one member owns and another is to get, each with who is to get it (R-ASG-8).
fn changing_hands(group: &Group<'_>, lists: &[Vec<u32>]) -> Vec<(u32, u32)> {
    const NOBODY: u32 = u32::MAX;
    let mut new_owner = vec![NOBODY; group.numbers()];
    let mut added_to = new_owner.clone();
    let mut given_up = vec![false; group.numbers()];
    for (member, list) in (0..).zip(lists) {
        let owned = &group.dense.members[member as usize].owned;
        let owned: Vec<u32> = owned.iter().filter_map(|tp| claims::number_of(group, tp)).collect();
        list.iter().for_each(|tp| new_owner[*tp as usize] = member);
        owned
            .iter()
            .filter(|tp| new_owner[**tp as usize] != member)
            .for_each(|tp| given_up[*tp as usize] = true);
        let owned: BTreeSet<u32> = owned.into_iter().collect();
        list.iter().filter(|tp| !owned.contains(tp)).for_each(|tp| added_to[*tp as usize] = member);
    }
    let changes = (0..).zip(added_to).filter(|(tp, member)| *member != NOBODY && given_up[*tp as usize]);
    changes.collect()
}

/// Nobody gets, in this generation, what is changing hands.
fn withhold(lists: &mut [Vec<u32>], transferring: Vec<(u32, u32)>) {
    let mut of_member: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (tp, member) in transferring {
        of_member.entry(member).or_default().insert(tp);
    }
    for (member, mut withheld) in of_member {
        lists[member as usize].retain(|tp| !withheld.remove(tp));
    }
}
