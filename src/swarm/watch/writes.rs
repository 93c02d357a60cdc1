//! What producers sent, what they were told of it, and what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::Watch;
use super::history::body_of;
use super::touched::Acknowledged;
use crate::client::config::producer::Acks;
use crate::kafka::protocol::Request;
use crate::kafka::record::split_batches;
use crate::kafka::types::{ClientName, Offset, Topic, TopicId, TopicPartition};
use crate::sim::{Packet, World};
use crate::swarm::check::{Check, Verdict};

/// Checksums of the batches that each producer sent to a partition and was not told of yet.
pub(super) type Sent = BTreeMap<(ClientName, TopicPartition), BTreeSet<u32>>;

impl Watch {
    /// Reads what is on the wire since this step.
    pub(super) fn note_sent(&mut self, world: &World, clients: &BTreeSet<ClientName>) {
        let strict = clients.intersection(&self.acks_all);
        let senders: Vec<_> =
            strict.filter_map(|client| Some((world.node_of(client)?, client.clone()))).collect();
        if senders.is_empty() {
            return;
        }
        for flight in world.flights().filter(|flight| flight.sent_at == world.now()) {
            let Packet::Request { request, .. } = &flight.packet else { continue };
            let Request::Produce(request) = &**request else { continue };
            let Some((_, client)) = senders.iter().find(|(node, _)| *node == flight.from) else { continue };
            for topic in &request.topic_data {
                let id = TopicId(topic.topic_id);
                let by_name = || self.metadata.image.topic(&Topic::new(&topic.name)).map(|topic| &topic.name);
                let current = self.metadata.image.topic_name(id).or_else(by_name);
                let Some(name) = current.or_else(|| self.former.get(&id)) else { continue };
                for data in &topic.partition_data {
                    let tp = TopicPartition::new(name, data.index);
                    if current.is_none() {
                        self.sent_to_former.insert((client.clone(), tp), world.now());
                        continue;
                    }
                    let batches = split_batches(data.records.clone().unwrap_or_default());
                    let bodies = batches.filter_map(|batch| Some(body_of(&batch.ok()?)));
                    self.sent.entry((client.clone(), tp)).or_default().extend(bodies);
                }
            }
        }
    }

    /// R-REPL-29: without acks nobody tells an offset; with acks=1 the leader does, as soon as it has the batch, which may be
    /// lost later all the same.
    pub(super) fn check_told(&mut self, world: &World, acknowledged: &Acknowledged) -> Verdict {
        let Acknowledged { client, tp, base_offset, records, .. } = acknowledged;
        let Some(acks) = world.producer(client).map(|producer| producer.config().acks) else {
            return Ok(());
        };
        let told = format!("{tp}: {client} with acks={} is told of {base_offset}", acks.name());
        let fault = match acks {
            Acks::All => return Ok(()),
            Acks::None => (*base_offset != Offset::UNKNOWN).then(|| format!("{told}, which nobody told it")),
            Acks::Leader => {
                let batch = (*base_offset, *base_offset + (*records - 1));
                let is_written = self.written.get(tp).is_some_and(|written| written.contains(&batch));
                (!is_written).then(|| format!("{told}, where nobody wrote {records} records"))
            }
        };
        self.checks += 1;
        self.counts.loose_acknowledgements_checked += 1;
        Check::Told.verdict(fault)
    }

    /// R-REPL-29: what an acks=all producer is told is written is committed, and it is what it wrote and was not told of
    /// before.
    pub(super) fn check_acknowledged(&mut self, acknowledged: &Acknowledged) -> Verdict {
        let Acknowledged { client, tp, base_offset, records, created_at } = acknowledged;
        let Some(watch) = self.partitions.get(tp).filter(|_| self.acks_all.contains(client)) else {
            return Ok(());
        };
        let (end, committed) = (*base_offset + *records, watch.history.end());
        let former = self.sent_to_former.get(&(client.clone(), tp.clone()));
        // A latency is told in whole milliseconds.
        let is_of_former = former.is_some_and(|sent| *created_at <= sent.plus_ms(1));
        let is_older = *created_at < watch.since.max(watch.made_at) || is_of_former;
        let unknown = watch.is_torn || is_older || *base_offset < watch.history.start();
        if unknown || end <= watch.deposed_end {
            return Ok(());
        }
        self.checks += 1;
        let told = format!("{tp}: {client} is told of {base_offset} to {end}");
        if end > committed {
            let fault = format!("{told}, committed is what is below {committed}");
            return Err(Check::Acknowledged.broken(fault));
        }
        let Some(batch) = watch.history.batch_at(*base_offset).filter(|batch| batch.records() == *records)
        else {
            return Err(Check::AcknowledgedContent.broken(format!("{told}, which is no batch")));
        };
        let sent = self.sent.get_mut(&(client.clone(), tp.clone()));
        // The cleaner may have been there before the answer was: it comes again for a batch that is sent again.
        let may_be_cleaned = watch.history.is_compacted();
        if !sent.is_some_and(|sent| sent.remove(&batch.body)) && !may_be_cleaned {
            let fault = format!("{told}, which it did not send, or was told of before");
            return Err(Check::AcknowledgedContent.broken(fault));
        }
        self.counts.acknowledgements_checked += 1;
        Ok(())
    }
}
