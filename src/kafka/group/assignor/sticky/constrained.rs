//! Sticky where all subscribe to the same topics (R-ASG-4, 5, `ConstrainedAssignmentBuilder`).
//!
//! Members first keep what they own as far as their share goes, then the rest is dealt out in turn.
//!
//! **Invariant:** the sizes of two members' lists differ by one at most.

use super::claims::Claimed;
use super::{Group, racks};
use crate::kafka::group::assignor::PlanError;

/// The lists by member, and the partitions that change hands with who is to get them.
pub(super) type Assigned = (Vec<Vec<u32>>, Vec<(u32, u32)>);

pub(super) fn assign(group: &Group<'_>, claimed: Claimed) -> Result<Assigned, PlanError> {
    let mut builder = Builder::new(group, claimed);
    builder.keep_owned();
    let mut unassigned = builder.unassigned();
    builder.below_min.sort_unstable_by_key(|member| group.rank[*member as usize]);
    builder.at_min.sort_unstable_by_key(|member| group.rank[*member as usize]);
    if group.racks_count {
        unassigned.sort_by_key(|tp| builder.members_near(*tp));
        builder.deal_by_racks(&mut unassigned);
    }
    builder.deal_in_turn(&unassigned)?;
    builder.check()?;
    Ok((builder.lists, builder.transferring))
}

struct Builder<'a> {
    group: &'a Group<'a>,
    claimed: Claimed,
    lists: Vec<Vec<u32>>,
    /// Who loses each partition.
    revoked_from: Vec<u32>,
    transferring: Vec<(u32, u32)>,
    /// Members that have less than the smaller share.
    below_min: Vec<u32>,
    /// Members that have the smaller share and may get one more.
    at_min: Vec<u32>,
    min: usize,
    max: usize,
    /// How many members are to get the larger share, and how many have it.
    expected_over_min: usize,
    over_min: usize,
}

const NOBODY: u32 = u32::MAX;

impl<'a> Builder<'a> {
    fn new(group: &'a Group<'a>, claimed: Claimed) -> Builder<'a> {
        let (total, members) = (group.dense.total as usize, group.dense.members.len());
        let max = total.div_ceil(members);
        Builder {
            group,
            claimed,
            lists: (0..members).map(|_| Vec::with_capacity(max)).collect(),
            revoked_from: vec![NOBODY; group.numbers()],
            transferring: Vec::new(),
            below_min: Vec::new(),
            at_min: Vec::new(),
            min: total / members,
            max,
            expected_over_min: total % members,
            over_min: 0,
        }
    }

    /// Each member keeps, lowest partitions first, what it owns as far as its share goes.
    fn keep_owned(&mut self) {
        for member in 0..self.lists.len() as u32 {
            let owned = self.owned_by_partition(member);
            let keep = if owned.len() < self.min {
                self.below_min.push(member);
                owned.len()
            } else if owned.len() >= self.max && self.over_min < self.expected_over_min {
                self.over_min += 1;
                if self.over_min == self.expected_over_min {
                    self.at_min.clear();
                }
                self.max
            } else {
                if self.over_min < self.expected_over_min {
                    self.at_min.push(member);
                }
                self.min
            };
            self.lists[member as usize].extend_from_slice(&owned[..keep]);
            owned[keep..].iter().for_each(|tp| self.revoked_from[*tp as usize] = member);
        }
    }

    /// What a member owns and may keep, by partition, then by topic.
    fn owned_by_partition(&mut self, member: u32) -> Vec<u32> {
        let mut owned = std::mem::take(&mut self.claimed.owned[member as usize]);
        if self.group.rack(member).is_some() {
            owned.retain(|tp| {
                let mismatch = self.group.racks_mismatch(member, *tp);
                if mismatch {
                    self.revoked_from[*tp as usize] = member;
                }
                !mismatch
            });
        }
        if !self.claimed.by_several.is_empty() {
            owned.retain(|tp| !self.claimed.by_several.contains(tp));
        }
        let mut keyed: Vec<(u64, u32)> = Vec::with_capacity(owned.len());
        keyed.extend(owned.iter().map(|tp| {
            let (topic, partition) = self.group.place(*tp);
            // The sign bit turned: negative partitions, which only a ghost has, come first.
            (u64::from(partition as u32 ^ 1 << 31) << 32 | u64::from(topic), *tp)
        }));
        keyed.sort_unstable();
        owned.clear();
        owned.extend(keyed.into_iter().map(|(_, tp)| tp));
        owned
    }

    fn unassigned(&self) -> Vec<u32> {
        let all: Vec<u32> = (0..self.group.dense.total).collect();
        if self.lists.iter().all(Vec::is_empty) {
            return all;
        }
        let assigned = self.lists.concat();
        let key = |tp| {
            let (topic, partition) = self.group.place(tp);
            (0, topic, partition)
        };
        self.group.unassigned(all, &assigned, key)
    }

    /// How many members are in a partition's racks.
    fn members_near(&self, tp: u32) -> usize {
        let (topic, partition) = self.group.place(tp);
        let racks = racks::racks_of(&self.group.dense.topics[topic as usize], partition as u32);
        let near = |rack: &str| racks.is_some_and(|racks| racks.contains(rack));
        (0..self.lists.len() as u32).filter(|member| self.group.rack(*member).is_some_and(near)).count()
    }

    /// The place in `members` of the first one, from `from` on and round, that is in one of the partition's racks.
    fn next_near(&self, tp: u32, members: &[u32], from: usize) -> Option<usize> {
        let near = |place: &usize| {
            self.group.rack(members[*place]).is_some_and(|rack| self.group.rack_has(rack, tp))
        };
        (from..members.len()).chain(0..from.min(members.len())).find(near)
    }

    /// Deals out what a member in the right rack can take.
    fn deal_by_racks(&mut self, unassigned: &mut Vec<u32>) {
        let mut next = 0;
        unassigned.retain(|&tp| {
            let member = if let Some(place) = self.next_near(tp, &self.below_min, next) {
                let member = self.below_min[place];
                let size = self.lists[member as usize].len() + 1;
                next = place + 1;
                if size >= self.min {
                    next = place;
                    self.below_min.remove(place);
                    if size < self.max && self.over_min < self.expected_over_min {
                        self.at_min.push(member);
                    }
                }
                next = if self.below_min.is_empty() { 0 } else { next % self.below_min.len() };
                member
            } else if let Some(place) = self.next_near(tp, &self.at_min, 0) {
                let member = self.at_min[place];
                if self.lists[member as usize].len() + 1 == self.max {
                    self.at_min.remove(place);
                    self.over_min += 1;
                    if self.over_min == self.expected_over_min {
                        self.at_min.clear();
                    }
                }
                member
            } else {
                return true;
            };
            self.give(tp, member);
            false
        });
    }

    /// Deals out the rest: rounds over those below the smaller share, then one more each.
    fn deal_in_turn(&mut self, unassigned: &[u32]) -> Result<(), PlanError> {
        let (mut round, mut rest) = (std::mem::take(&mut self.below_min), unassigned);
        while !round.is_empty() && !rest.is_empty() {
            let (now, later) = rest.split_at(round.len().min(rest.len()));
            let mut any_full = false;
            for (tp, member) in now.iter().zip(&round) {
                if self.give(*tp, *member) == self.min {
                    self.at_min.push(*member);
                    any_full = true;
                }
            }
            if any_full {
                round.retain(|member| self.lists[*member as usize].len() < self.min);
            }
            rest = later;
        }
        self.below_min = round;
        let mut at_min = std::mem::take(&mut self.at_min).into_iter();
        for tp in rest {
            let member = at_min.next().ok_or_else(|| PlanError::NobodyLeft(self.group.tp(*tp)))?;
            let size = self.give(*tp, member);
            self.over_min += usize::from(size == self.max);
        }
        Ok(())
    }

    /// Gives a partition; the size of the member's list then.
    fn give(&mut self, tp: u32, member: u32) -> usize {
        self.lists[member as usize].push(tp);
        let from = self.revoked_from[tp as usize];
        if (from != NOBODY && from != member) || self.claimed.by_several.contains(&tp) {
            self.transferring.push((tp, member));
        }
        self.lists[member as usize].len()
    }

    /// Nobody may be left with less than the smaller share.
    fn check(&self) -> Result<(), PlanError> {
        let below = |member: &&u32| {
            self.over_min != self.expected_over_min || self.lists[**member as usize].len() != self.min
        };
        match self.below_min.iter().find(below) {
            Some(member) => {
                Err(PlanError::BelowShare(self.group.dense.members[*member as usize].member.clone()))
            }
            None => Ok(()),
        }
    }
}
