//! Requests that wait for something that is there already, and fetch sessions that know less than they seem to
//! (R-REPL-16, 29, KIP-227).

use crate::kafka::broker::Broker;
use crate::kafka::fetch_session::Wanted;
use crate::kafka::replication::context::FetchContext;
use crate::kafka::replication::purgatory::{DelayedFetch, Operation};
use crate::kafka::types::{NodeId, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// That a broker has forgotten nothing.
pub fn check(world: &World, node: NodeId) -> Verdict {
    let NodeId::Broker(id) = node else { return Ok(()) };
    let Some(broker) = world.broker(id) else { return Ok(()) };
    let place = |fault: String| format!("broker {id}: {fault}");
    Check::Purgatory.verdict(forgotten(broker).map(place))?;
    Check::FetchSession.verdict(neglected(broker).map(place))
}

/// Something in the purgatory that should have been answered.
fn forgotten(broker: &Broker) -> Option<String> {
    let replicas = broker.replicas();
    replicas.purgatory().iter().find_map(|(_, waiting)| match &waiting.operation {
        Operation::Produce(produce) => {
            let mut pending = produce.pending.iter();
            let done = pending.find(|pending| {
                let outcome = replicas.partition(&pending.tp).map(|p| p.acks_all_outcome(pending.required));
                outcome != Some(None)
            })?;
            Some(format!("a write to {} waits on", done.tp))
        }
        Operation::Markers(markers) => {
            let mut pending = markers.pending.iter();
            let done = pending.find(|pending| {
                let outcome = replicas.partition(&pending.tp).map(|p| p.acks_all_outcome(pending.required));
                outcome != Some(None)
            })?;
            Some(format!("the end of a transaction in {} waits on", done.tp))
        }
        Operation::DeleteRecords(parked) => {
            let led = |tp: &TopicPartition| replicas.partition(tp).is_some_and(|p| p.is_leader());
            let pending = parked.pending.iter().find(|pending| !led(&pending.tp))?;
            Some(format!("a deletion of records of {} waits on", pending.tp))
        }
        Operation::Fetch(parked) => fetch_fault(broker, parked),
    })
}

/// The `isolation.level` of a request that wants nothing of open transactions.
const READ_COMMITTED: i8 = 1;

fn fetch_fault(broker: &Broker, parked: &DelayedFetch) -> Option<String> {
    let is_follower = parked.fetch.replica_state.replica_id.0 >= 0;
    waited_for(broker, parked).into_iter().find_map(|(tp, wanted)| {
        let partition = broker.replicas().partition(&tp)?;
        let log = &partition.log;
        let bound = match parked.fetch.isolation_level {
            _ if is_follower => log.log_end_offset(),
            READ_COMMITTED => log.last_stable_offset(),
            _ => log.high_watermark(),
        };
        let offset = wanted.fetch_offset;
        // Where the cleaner has left nothing up to the bound there is nothing to answer with. A log's start that passes what is
        // waited for, and moves the last stable offset, wakes nobody (`Partition.deleteRecordsOnLeader`).
        let is_passed = offset < log.log_start_offset();
        let is_there = !is_passed && (offset > bound || log.readable_bytes(offset, bound, 1) > 0);
        // A consumer may read from a follower (KIP-392).
        let is_done = is_there || (is_follower && !partition.is_leader());
        is_done.then(|| format!("a fetch of {tp} at {offset} waits on"))
    })
}

/// Everything that a parked fetch waits for: what it names, or all of its session, but for what it could not find when it
/// came.
fn waited_for(broker: &Broker, parked: &DelayedFetch) -> Vec<(TopicPartition, Wanted)> {
    let name = |id, partition| Some(TopicPartition::new(broker.image().topic_name(id)?, partition));
    match &parked.context {
        FetchContext::Incremental(id) => {
            let Some(session) = broker.replicas().sessions().get(*id) else { return Vec::new() };
            let waited = session.iter().filter(|(key, _)| !parked.has_answer(key));
            waited.filter_map(|(key, cached)| Some((name(key.0, key.1)?, cached.wanted))).collect()
        }
        FetchContext::Sessionless(asked) | FetchContext::Full(asked) => {
            let waited = asked.iter().filter(|asked| !parked.has_answer(&asked.key));
            waited.filter_map(|asked| Some((asked.tp.clone()?, asked.wanted))).collect()
        }
    }
}

/// A partition of a fetch session that is left alone although its fetcher does not know how it stands.
fn neglected(broker: &Broker) -> Option<String> {
    let replicas = broker.replicas();
    for session in replicas.sessions().iter() {
        for tp in session.quiet() {
            let Some(partition) = replicas.partition(&tp) else {
                return Some(format!("{tp}, which is not here, is quiet in a session"));
            };
            let cached = session.get(&(partition.topic_id, tp.partition))?;
            let log = &partition.log;
            let offset = cached.wanted.fetch_offset;
            // A session does not say whether its fetcher waits for open transactions.
            let is_at_end = match session.follower {
                Some(_) => offset == log.log_end_offset(),
                None => offset == log.high_watermark() || offset == log.last_stable_offset(),
            };
            let told = (offset, cached.high_watermark, cached.log_start_offset);
            if !is_at_end || (told.1, told.2) != (log.high_watermark(), log.log_start_offset()) {
                return Some(format!("a session of {:?} knows {told:?} of {tp}", session.follower));
            }
        }
    }
    None
}
