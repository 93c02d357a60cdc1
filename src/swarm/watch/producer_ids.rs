//! Which producer id belongs to which process, and how often each raised its epoch (R-PROD-23, R-PROD-29).
//!
//! An id with a transactional.id is that one's, whatever processes have it: each gets an epoch of its own. Whoever was given the
//! first epoch may hear of it last.
//!
//! **Invariant:** what is known of an id stays: it is never given again.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::event::Event;
use crate::kafka::types::{ClientName, NodeId, ProducerEpoch, ProducerId, TransactionalId};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// The process that an id was given to first.
#[derive(Clone, Debug)]
pub struct Given {
    pub client: ClientName,
    /// How often it raised its epoch.
    pub bumps: i64,
    transactional_id: Option<TransactionalId>,
    epochs: BTreeMap<ProducerEpoch, Option<NodeId>>,
}

impl Given {
    /// How many have had the id.
    pub fn processes(&self) -> i64 {
        self.epochs.values().collect::<BTreeSet<_>>().len() as i64
    }
}

/// A process that is given an id.
#[derive(Clone, Debug)]
struct Taker {
    client: ClientName,
    node: Option<NodeId>,
    transactional_id: Option<TransactionalId>,
    /// Whether its coordinator knows everything that it gave before.
    is_kept: bool,
}

#[derive(Default)]
pub struct ProducerIds {
    given: BTreeMap<ProducerId, Given>,
}

impl ProducerIds {
    pub fn get(&self, producer: ProducerId) -> Option<&Given> {
        self.given.get(&producer)
    }

    /// `is_kept`: whether nothing was lost of what its coordinator has written of a transactional.id.
    pub fn hear(
        &mut self,
        world: &World,
        event: &Event,
        is_kept: impl Fn(&TransactionalId) -> bool,
    ) -> Verdict {
        let Event::ProducerIdGiven { client, producer, epoch } = event else { return Ok(()) };
        // A process that has ended at once sends nothing with it.
        let Some(config) = world.producer(client).map(|producer| producer.config()) else { return Ok(()) };
        let transactional_id = config.transactional_id.clone();
        let is_kept = transactional_id.as_ref().is_none_or(is_kept);
        let taker = Taker { client: client.clone(), node: world.node_of(client), transactional_id, is_kept };
        self.take(taker, *producer, *epoch)
    }

    /// R-PROD-23: an id begins with epoch 0, and that once. R-TXN-12: with a transactional.id no two processes have one epoch.
    fn take(&mut self, taker: Taker, producer: ProducerId, epoch: ProducerEpoch) -> Verdict {
        let Taker { client, node, transactional_id, is_kept } = taker;
        let Some(given) = self.given.get_mut(&producer) else {
            let epochs = [(epoch, node)].into();
            self.given.insert(producer, Given { client, bumps: 0, transactional_id, epochs });
            return Ok(());
        };
        let is_free = match &transactional_id {
            None => epoch != ProducerEpoch(0),
            Some(_) => !is_kept || given.epochs.get(&epoch).is_none_or(|before| *before == node),
        };
        if !is_free || transactional_id != given.transactional_id {
            let (owner, id) = (&given.client, &given.transactional_id);
            let fault = format!(
                "{client} ({node:?}, {transactional_id:?}) is given producer id {producer} in epoch {epoch}, which {owner} \
                 ({:?}, {id:?}) has",
                given.epochs.get(&epoch)
            );
            return Err(Check::ProducerIds.broken(fault));
        }
        given.epochs.insert(epoch, node);
        given.bumps += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who (one number a process), its transactional.id, and the epoch of producer id 7 that it is given.
    fn found(gifts: &[(u32, Option<&str>, i16)]) -> Option<Check> {
        let mut ids = ProducerIds::default();
        let mut take = |(number, id, epoch): &(u32, Option<&str>, i16)| {
            let taker = Taker {
                client: ClientName::new(&format!("client-{number}")),
                node: Some(NodeId::Client(*number)),
                transactional_id: id.map(TransactionalId::new),
                is_kept: true,
            };
            ids.take(taker, ProducerId(7), ProducerEpoch(*epoch))
        };
        gifts.iter().find_map(|gift| take(gift).err()).map(|broken| broken.check)
    }

    #[test]
    fn a_producer_id_begins_once_r_prod_23() {
        assert_eq!(found(&[(1, None, 0), (1, None, 1), (1, None, 2)]), None);
        assert_eq!(found(&[(1, None, 0), (2, None, 0)]), Some(Check::ProducerIds));
        assert_eq!(found(&[(1, None, 0), (2, Some("a"), 0)]), Some(Check::ProducerIds));
        assert_eq!(found(&[(1, Some("a"), 0), (2, Some("b"), 0)]), Some(Check::ProducerIds));
    }

    #[test]
    fn each_process_with_a_transactional_id_has_an_epoch_of_its_own_r_txn_12() {
        assert_eq!(found(&[(1, Some("a"), 0), (2, Some("a"), 1), (1, Some("a"), 2)]), None);
        assert_eq!(found(&[(1, Some("a"), 1), (2, Some("a"), 0)]), None, "it hears of it later");
        assert_eq!(found(&[(1, Some("a"), 1), (1, Some("a"), 1)]), None, "told twice");
        assert_eq!(found(&[(1, Some("a"), 1), (2, Some("a"), 1)]), Some(Check::ProducerIds));
    }
}
