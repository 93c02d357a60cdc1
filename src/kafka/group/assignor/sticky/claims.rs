//! What members say they owned, and whom to believe.
//!
//! **Invariant:** a partition is in one list at most, however many members claim it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Claims, Group};
use crate::kafka::types::{Generation, TopicPartition};

/// The claims of a group, by numbers.
pub(super) struct Claimed {
    /// What each member is believed to have owned, in its order.
    pub owned: Vec<Vec<u32>>,
    /// What two members claimed for the same generation.
    pub by_several: BTreeSet<u32>,
    /// The last owner by an older generation than the newest, and that generation.
    pub previous: BTreeMap<u32, (u32, Generation)>,
}

/// What one member claims.
struct Claim {
    numbers: Vec<u32>,
    generation: Option<Generation>,
}

const NOBODY: u32 = u32::MAX;

impl Claimed {
    /// Reads all claims; `group` learns of the ghosts among them.
    pub(super) fn new(from: Claims, group: &mut Group<'_>) -> Claimed {
        let claims = claims(from, group);
        let mut claimed = Claimed {
            owned: vec![Vec::new(); claims.len()],
            by_several: BTreeSet::new(),
            previous: BTreeMap::new(),
        };
        claimed.settle(&claims, group);
        claimed.remember_older(&claims);
        claimed
    }

    /// Of two claims the newer generation's counts, of two of the same generation none.
    fn settle(&mut self, claims: &[Claim], group: &Group<'_>) {
        let mut owner = vec![NOBODY; group.numbers()];
        for (member, claim) in (0u32..).zip(claims) {
            let mine = claim.generation.unwrap_or(Generation::NONE);
            self.owned[member as usize].reserve(claim.numbers.len());
            for &tp in &claim.numbers {
                let other = owner[tp as usize];
                if other == NOBODY {
                    self.owned[member as usize].push(tp);
                    owner[tp as usize] = member;
                    continue;
                }
                // The other one's generation is read from its field, whatever its user data says.
                let others = group.dense.members[other as usize].generation.unwrap_or(Generation::NONE);
                if mine < others {
                    continue;
                }
                if mine == others {
                    self.by_several.insert(tp);
                } else {
                    self.owned[member as usize].push(tp);
                }
                let list = &mut self.owned[other as usize];
                if let Some(place) = list.iter().position(|listed| *listed == tp) {
                    list.remove(place);
                }
                owner[tp as usize] = member;
            }
        }
    }

    fn remember_older(&mut self, claims: &[Claim]) {
        let newest = claims.iter().filter_map(|claim| claim.generation).max().unwrap_or(Generation::NONE);
        for (member, claim) in (0..).zip(claims) {
            let generation = match claim.generation {
                Some(generation) if generation < newest => generation,
                None if newest > Generation::NONE => Generation::NONE,
                _ => continue,
            };
            for tp in &claim.numbers {
                let known = self.previous.get(tp).map(|(_, generation)| *generation);
                if known.is_none_or(|known| generation > known) {
                    self.previous.insert(*tp, (member, generation));
                }
            }
        }
    }
}

/// Each member's claims to partitions of topics that somebody subscribes to.
fn claims(from: Claims, group: &mut Group<'_>) -> Vec<Claim> {
    let members = group.dense.members;
    let mut ghosts = BTreeMap::new();
    let claim = |subscription| {
        let (owned, generation) = from.of(subscription);
        let mut numbers = Vec::with_capacity(owned.len());
        for tp in owned.iter() {
            let Some(topic) = group.dense.topic(&tp.topic) else { continue };
            let number = group.number(topic, tp.partition).unwrap_or_else(|| {
                let next = group.dense.total + ghosts.len() as u32;
                *ghosts.entry((topic, tp.partition)).or_insert(next)
            });
            numbers.push(number);
        }
        Claim { numbers, generation }
    };
    let claims = members.iter().map(claim).collect();
    let mut by_number: Vec<_> = ghosts.into_iter().map(|(place, number)| (number, place)).collect();
    by_number.sort_unstable();
    group.ghosts = by_number.into_iter().map(|(_, place)| place).collect();
    claims
}

/// The number of a partition, be it a ghost, if its topic counts.
pub(super) fn number_of(group: &Group<'_>, tp: &TopicPartition) -> Option<u32> {
    let topic = group.dense.topic(&tp.topic)?;
    let ghost = || {
        let place = group.ghosts.iter().position(|ghost| *ghost == (topic, tp.partition))?;
        Some(group.dense.total + place as u32)
    };
    group.number(topic, tp.partition).or_else(ghost)
}
