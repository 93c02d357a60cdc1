//! Where the replicas of new partitions go: `StripedReplicaPlacer` (R-PLACE-2 to 6, EX-12).
//!
//! Racks take turns, and within a rack its brokers; the first replica's rack is skipped once for the others.
//! Kafka starts at random places and shuffles after a round; here placement starts at the lowest rack and id and keeps
//! their order, so that a person can predict it (D-2).
//!
//! **Invariant:** the replicas of a partition are distinct brokers.

use std::collections::BTreeMap;

use super::image::BrokerRegistration;
use crate::kafka::types::BrokerId;

/// The brokers of one rack that are alike; `next` walks them once an epoch, one further on each time.
#[derive(Debug, Default)]
struct BrokerList {
    brokers: Vec<BrokerId>,
    epoch: u32,
    index: usize,
    offset: usize,
}

impl BrokerList {
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
#[derive(Debug)]
struct RackList {
    racks: Vec<Rack>,
    unfenced: u32,
    usable: usize,
    epoch: u32,
    offset: usize,
}

impl RackList {
    fn new(brokers: &BTreeMap<BrokerId, BrokerRegistration>) -> RackList {
        let usable = || brokers.iter().filter(|(_, b)| !b.in_controlled_shutdown);
        let mut racks: BTreeMap<Option<&String>, Rack> = BTreeMap::new();
        for (id, broker) in usable() {
            let rack = racks.entry(broker.rack.as_ref()).or_default();
            let list = if broker.fenced { &mut rack.fenced } else { &mut rack.unfenced };
            list.brokers.push(*id);
        }
        RackList {
            racks: racks.into_values().collect(),
            unfenced: usable().filter(|(_, b)| !b.fenced).count() as u32,
            usable: usable().count(),
            epoch: 0,
            offset: 0,
        }
    }

    fn place(&mut self, replication_factor: usize) -> Vec<BrokerId> {
        if self.epoch == self.unfenced && self.unfenced > 1 {
            // Kafka shuffles here and counts anew.
            self.epoch = 0;
        }
        if self.offset == self.racks.len() {
            self.offset = 0;
        }
        let mut placed = Vec::with_capacity(replication_factor);
        let (first, first_rack) = self.first_replica();
        placed.push(first);
        let mut rack = self.offset;
        let mut skip = Some(first_rack);
        while placed.len() < replication_factor {
            if skip == Some(rack) {
                skip = None;
            } else {
                let list = &mut self.racks[rack];
                placed.extend(list.unfenced.next(self.epoch).or_else(|| list.fenced.next(self.epoch)));
            }
            rack = (rack + 1) % self.racks.len();
        }
        self.epoch += 1;
        self.offset += 1;
        placed
    }

    fn first_replica(&mut self) -> (BrokerId, usize) {
        let mut rack = self.offset;
        loop {
            if let Some(broker) = self.racks[rack].unfenced.next(self.epoch) {
                return (broker, rack);
            }
            rack = (rack + 1) % self.racks.len();
        }
    }
}

/// Why no placement is possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("All brokers are currently fenced.")]
    AllFenced,
    #[error(
        "The target replication factor of {wanted} cannot be reached because only {usable} broker(s) are registered."
    )]
    TooFewBrokers { wanted: i32, usable: i32 },
}

/// The replica lists of `partitions` new partitions, each with the preferred leader first.
pub fn place(
    brokers: &BTreeMap<BrokerId, BrokerRegistration>,
    partitions: i32,
    replication_factor: i16,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let mut racks = RackList::new(brokers);
    if racks.unfenced == 0 {
        return Err(PlacementError::AllFenced);
    }
    let wanted = replication_factor as usize;
    if wanted > racks.usable {
        let usable = racks.usable as i32;
        return Err(PlacementError::TooFewBrokers { wanted: i32::from(replication_factor), usable });
    }
    Ok((0..partitions).map(|_| racks.place(wanted)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::{BrokerEpoch, Offset};

    fn brokers(list: &[(i32, Option<&str>, bool)]) -> BTreeMap<BrokerId, BrokerRegistration> {
        let registration = |rack: Option<&str>, fenced| BrokerRegistration {
            epoch: BrokerEpoch(1),
            registered_at: Offset(1),
            incarnation: uuid::Uuid::nil(),
            rack: rack.map(str::to_string),
            fenced,
            in_controlled_shutdown: false,
        };
        list.iter().map(|(id, rack, fenced)| (BrokerId(*id), registration(*rack, *fenced))).collect()
    }

    fn check(
        title: &str,
        cluster: &[(i32, Option<&str>, bool)],
        partitions: i32,
        factor: i16,
        expected: &str,
    ) {
        let text = match place(&brokers(cluster), partitions, factor) {
            Ok(lists) => {
                let list =
                    |ids: &Vec<BrokerId>| ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
                lists.iter().map(list).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected, "{title}");
    }

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
        check("all fenced", &[(1, None, true)], 1, 1, "All brokers are currently fenced.");
        check(
            "R-PLACE-1",
            &plain[..2],
            1,
            3,
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered.",
        );
    }
}
