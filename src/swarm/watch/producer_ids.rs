//! Which producer id belongs to which process, and how often each raised its epoch (R-PROD-23, R-PROD-29).
//!
//! **Invariant:** what is known of an id stays: it is never given again.

use std::collections::BTreeMap;

use crate::kafka::event::Event;
use crate::kafka::types::{ClientName, NodeId, ProducerEpoch, ProducerId};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// The process that an id was given to.
#[derive(Clone, Debug)]
pub struct Given {
    pub client: ClientName,
    node: Option<NodeId>,
    /// How often it raised its epoch.
    pub bumps: i64,
}

#[derive(Default)]
pub struct ProducerIds {
    given: BTreeMap<ProducerId, Given>,
}

impl ProducerIds {
    pub fn get(&self, producer: ProducerId) -> Option<&Given> {
        self.given.get(&producer)
    }

    /// R-PROD-23: an id begins with epoch 0, and that once.
    pub fn hear(&mut self, world: &World, event: &Event) -> Verdict {
        let Event::ProducerIdGiven { client, producer, epoch } = event else { return Ok(()) };
        let node = world.node_of(client);
        match self.given.get_mut(producer) {
            None => {
                self.given.insert(*producer, Given { client: client.clone(), node, bumps: 0 });
            }
            Some(given) if *epoch == ProducerEpoch(0) => {
                let (owner, before) = (&given.client, given.node);
                let fault =
                    format!("{client} is given producer id {producer}, which {owner} ({before:?}) has");
                return Err(Check::ProducerIds.broken(fault));
            }
            Some(given) => given.bumps += 1,
        }
        Ok(())
    }
}
