//! Links between two processes: cut, healed, slowed.
//!
//! **Invariant:** what is held by a cut goes on in order when the link heals.

use super::check::refuse;
use crate::kafka::event::Event;
use crate::kafka::types::NodeId;
use crate::sim::command::{Refusal, Target};
use crate::sim::network::{ConnectionId, Packet};
use crate::sim::world::{Entry, World};

/// One hour.
const MAX_DELAY_US: i64 = 3_600_000_000;
impl World {
    pub(super) fn is_cut(&self, a: &Target, b: &Target) -> Result<bool, Refusal> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        if a == b { Err(refuse("a link has two different ends")) } else { Ok(self.network.is_cut(a, b)) }
    }

    pub(super) fn check_slow(&self, a: &Target, b: &Target, by_us: i64) -> Result<(), Refusal> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        if a == b {
            return Err(refuse("a link has two different ends"));
        }
        if !(0..=MAX_DELAY_US).contains(&by_us) {
            return Err(refuse("a link is slower by at most one hour"));
        }
        match self.network.delay_us(a, b) == by_us {
            true => Err(refuse("that link is as slow as that already")),
            false => Ok(()),
        }
    }

    pub(super) fn cut(&mut self, a: &Target, b: &Target) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            self.network.cut(a, b);
            self.tell(Event::LinkCut { a, b });
        }
    }

    pub(super) fn heal(&mut self, a: &Target, b: &Target) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            let held = self.network.heal(a, b);
            for (connection, packet) in held.into_iter().chain(self.take_flights(a, b)) {
                self.transmit(connection, packet);
            }
            self.tell(Event::LinkHealed { a, b });
        }
    }

    pub(super) fn slow(&mut self, a: &Target, b: &Target, by_us: i64) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            self.network.slow(a, b, by_us);
            self.tell(Event::LinkSlowed { a, b, by_us });
        }
    }

    /// What is on its way over a link, in order: it must not overtake what the cut held.
    fn take_flights(&mut self, a: NodeId, b: NodeId) -> Vec<(ConnectionId, Packet)> {
        let of_link = |entry: &Entry| match entry {
            Entry::Packet { connection, .. } => {
                (connection.client, connection.server) == (a, b)
                    || (connection.client, connection.server) == (b, a)
            }
            _ => false,
        };
        let under_way = self.queue.iter().filter(|(_, entry)| of_link(entry)).map(|(key, _)| *key);
        let keys: Vec<_> = under_way.collect();
        let mut flights = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some((_, Entry::Packet { connection, packet, .. })) = self.queue.remove(&key) {
                flights.push((connection, packet));
            }
        }
        flights
    }
}
