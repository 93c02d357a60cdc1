//! Where the replicas of new partitions go: `StripedReplicaPlacer` (R-PLACE-2 to 6, EX-12).
//!
//! Racks take turns, and within a rack its brokers; the first replica's rack is skipped once for the others.
//! Kafka starts at random places and shuffles after a round; where that comes from is an input ([`Draws`]).
//!
//! **Invariant:** the replicas of a partition are distinct brokers.

use std::collections::BTreeMap;

use crate::kafka::types::BrokerId;

/// A broker that may take replicas: registered and not about to stop (R-PLACE-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsableBroker {
    pub id: BrokerId,
    pub rack: Option<String>,
    pub fenced: bool,
}

/// What Kafka leaves to chance.
pub enum Draws<'a> {
    /// Every list starts at its beginning and keeps its order, so that a person can predict a placement (D-2).
    InOrder,
    /// As Kafka draws: `below(n)` is its random number below `n`, and racks draw in the order of `racks`, which in Kafka
    /// is that of a hash map.
    Random { racks: &'a [Option<String>], below: &'a mut dyn FnMut(usize) -> usize },
}

impl Draws<'_> {
    fn start(&mut self, size: usize) -> usize {
        match self {
            Draws::Random { below, .. } if size > 0 => below(size),
            _ => 0,
        }
    }

    /// `Collections.shuffle`.
    fn shuffle<T>(&mut self, list: &mut [T]) {
        if let Draws::Random { below, .. } = self {
            for size in (2..=list.len()).rev() {
                list.swap(size - 1, below(size));
            }
        }
    }
}

/// The brokers of one rack that are alike; `next` walks them once an epoch, one further on each time.
#[derive(Debug, Default)]
struct BrokerList {
    brokers: Vec<BrokerId>,
    epoch: u32,
    index: usize,
    offset: usize,
}

impl BrokerList {
    /// R-PLACE-4.
    fn next(&mut self, epoch: u32) -> Option<BrokerId> {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.index = 0;
            self.offset = (self.offset + 1) % self.brokers.len().max(1);
        }
        if self.index >= self.brokers.len() {
            return None;
        }
        let broker = self.brokers[(self.index + self.offset) % self.brokers.len()];
        self.index += 1;
        Some(broker)
    }
}

#[derive(Debug, Default)]
struct Rack {
    unfenced: BrokerList,
    fenced: BrokerList,
}

/// The brokers that may take replicas, by rack.
struct RackList<'a, 'd> {
    racks: BTreeMap<Option<String>, Rack>,
    /// The order in which racks take turns.
    turns: Vec<Option<String>>,
    unfenced: u32,
    epoch: u32,
    offset: usize,
    draws: &'a mut Draws<'d>,
}

impl<'a, 'd> RackList<'a, 'd> {
    fn new(brokers: &[UsableBroker], draws: &'a mut Draws<'d>) -> RackList<'a, 'd> {
        let mut racks: BTreeMap<Option<String>, Rack> = BTreeMap::new();
        for broker in brokers {
            let rack = racks.entry(broker.rack.clone()).or_default();
            let list = if broker.fenced { &mut rack.fenced } else { &mut rack.unfenced };
            list.brokers.push(broker.id);
            list.brokers.sort();
        }
        let turns: Vec<Option<String>> = racks.keys().cloned().collect();
        let unfenced = brokers.iter().filter(|broker| !broker.fenced).count() as u32;
        let mut list = RackList { racks, turns, unfenced, epoch: 0, offset: 0, draws };
        list.each_rack(|rack, draws| {
            rack.fenced.offset = draws.start(rack.fenced.brokers.len());
            rack.unfenced.offset = draws.start(rack.unfenced.brokers.len());
        });
        list.offset = list.draws.start(list.turns.len());
        list
    }

    fn each_rack(&mut self, mut act: impl FnMut(&mut Rack, &mut Draws<'d>)) {
        let names = match &self.draws {
            Draws::InOrder => self.turns.clone(),
            Draws::Random { racks, .. } => racks.to_vec(),
        };
        for name in names {
            act(self.racks.get_mut(&name).expect("a rack of one of the brokers"), self.draws);
        }
    }

    fn rack(&mut self, turn: usize) -> &mut Rack {
        self.racks.get_mut(&self.turns[turn]).expect("every name in `turns` is a rack")
    }

    fn place(&mut self, replication_factor: usize) -> Vec<BrokerId> {
        if self.epoch == self.unfenced && self.unfenced > 1 {
            self.draws.shuffle(&mut self.turns);
            self.each_rack(|rack, draws| {
                draws.shuffle(&mut rack.fenced.brokers);
                draws.shuffle(&mut rack.unfenced.brokers);
            });
            self.epoch = 0;
        }
        if self.offset == self.turns.len() {
            self.offset = 0;
        }
        let mut placed = Vec::with_capacity(replication_factor);
        let (first, first_rack) = self.first_replica();
        placed.push(first);
        let mut turn = self.offset;
        let mut skip = Some(first_rack);
        while placed.len() < replication_factor {
            if skip == Some(turn) {
                skip = None;
            } else {
                let epoch = self.epoch;
                let rack = self.rack(turn);
                placed.extend(rack.unfenced.next(epoch).or_else(|| rack.fenced.next(epoch)));
            }
            turn = (turn + 1) % self.turns.len();
        }
        self.epoch += 1;
        self.offset += 1;
        placed
    }

    fn first_replica(&mut self) -> (BrokerId, usize) {
        let mut turn = self.offset;
        loop {
            let epoch = self.epoch;
            if let Some(broker) = self.rack(turn).unfenced.next(epoch) {
                return (broker, turn);
            }
            turn = (turn + 1) % self.turns.len();
        }
    }
}

/// Why no placement is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NotPositive(i16),
    #[error("All brokers are currently fenced, or have all their log directories cordoned.")]
    AllFenced,
    #[error(
        "The target replication factor of {wanted} cannot be reached because only {usable} broker(s) are registered or \
         some brokers have all their log directories cordoned."
    )]
    TooFewBrokers { wanted: i16, usable: i32 },
}

/// The replica lists of `partitions` new partitions, each with the preferred leader first.
pub fn place(
    brokers: &[UsableBroker],
    partitions: i32,
    replication_factor: i16,
    draws: &mut Draws<'_>,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let mut racks = RackList::new(brokers, draws);
    if replication_factor <= 0 {
        return Err(PlacementError::NotPositive(replication_factor));
    }
    if racks.unfenced == 0 {
        return Err(PlacementError::AllFenced);
    }
    let wanted = replication_factor as usize;
    if wanted > brokers.len() {
        let usable = brokers.len() as i32;
        return Err(PlacementError::TooFewBrokers { wanted: replication_factor, usable });
    }
    Ok((0..partitions).map(|_| racks.place(wanted)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(list: &[(i32, Option<&str>, bool)]) -> Vec<UsableBroker> {
        let usable = |&(id, rack, fenced): &(i32, Option<&str>, bool)| UsableBroker {
            id: BrokerId(id),
            rack: rack.map(str::to_string),
            fenced,
        };
        list.iter().map(usable).collect()
    }

    fn check(
        title: &str,
        cluster: &[(i32, Option<&str>, bool)],
        partitions: i32,
        factor: i16,
        expected: &str,
    ) {
        let text = match place(&brokers(cluster), partitions, factor, &mut Draws::InOrder) {
            Ok(lists) => {
                let list =
                    |ids: &Vec<BrokerId>| ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
                lists.iter().map(list).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected, "{title}");
    }

    /// R-PLACE-3.
    #[test]
    fn replicas_stripe_over_racks_and_brokers() {
        let plain = [(1, None, false), (2, None, false), (3, None, false), (4, None, false)];
        check("EX-12 without racks", &plain, 4, 2, "1,2 2,3 3,4 4,1");
        check("R-PLACE-5 without racks", &plain[..3], 3, 3, "1,2,3 2,3,1 3,1,2");
        let two =
            [(1, Some("a"), false), (2, Some("a"), false), (3, Some("b"), false), (4, Some("b"), false)];
        check("EX-12 with two racks", &two, 4, 2, "1,3 4,2 1,3 4,2");
        let three = [(1, Some("a"), false), (2, Some("b"), false), (3, Some("c"), false)];
        check("one broker a rack", &three, 3, 3, "1,2,3 2,3,1 3,1,2");
        let fenced = [(1, None, false), (2, None, true), (3, None, false)];
        check("a fenced broker comes last (R-PLACE-2)", &fenced, 1, 3, "1,3,2");
        check(
            "R-PLACE-1: all fenced",
            &[(1, None, true)],
            1,
            1,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        );
        check(
            "R-PLACE-1",
            &plain[..2],
            1,
            3,
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered or some brokers \
             have all their log directories cordoned.",
        );
    }
}
