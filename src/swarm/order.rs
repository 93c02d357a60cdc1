//! What idempotence promises, read from the logs alone: the records of a producer stand once and in order.
//!
//! Each record says in its value which one of its producer's it is; which producer that was says the batch.

use std::collections::BTreeMap;

use super::plan::Plan;
use super::watch::{Given, Watch};
use crate::kafka::log::Log;
use crate::kafka::record::{BatchError, Record};
use crate::kafka::types::ProducerId;
use crate::sim::World;

/// R-PROD-21, 25, 29: the records of an idempotent producer stand once and in order, but for where it began anew.
pub fn fault(world: &World, plan: &Plan, watch: &Watch) -> Option<String> {
    let image = world.active_controller()?.image();
    for (tp, partition) in image.partitions().filter(|(tp, _)| watch.is_whole(tp)) {
        let Some(leader) = world.broker(partition.leader).and_then(|broker| broker.replicas().partition(&tp))
        else {
            continue;
        };
        let numbers = match numbers_by_producer(&leader.log) {
            Ok(numbers) => numbers,
            Err(error) => return Some(format!("{tp}: {error}")),
        };
        for (producer, numbers) in numbers {
            let Some(given) = watch.producer(producer) else { continue };
            let Some(allowed) = breaks_of(plan, given) else { continue };
            let breaks = numbers.windows(2).filter(|pair| pair[0] >= pair[1]).count() as i64;
            if breaks > allowed {
                let client = &given.client;
                return Some(format!(
                    "{tp}: {client} ({producer}) began anew {allowed} times, its records stand as {numbers:?}"
                ));
            }
        }
    }
    None
}

/// How often a producer's records may begin anew: one without transactions sends anew with a raised epoch, one with them gives
/// up what it had in flight, but each process with the transactional.id counts from the start.
fn breaks_of(plan: &Plan, given: &Given) -> Option<i64> {
    let planned = plan.producers.iter().find(|planned| planned.spec.name == given.client)?;
    match plan.transactions.producers.contains(&given.client) {
        true => Some(given.processes() - 1),
        false => planned.idempotent.then_some(given.bumps),
    }
}

/// The numbers of the records that each producer wrote, as they stand.
fn numbers_by_producer(log: &Log) -> Result<BTreeMap<ProducerId, Vec<i64>>, BatchError> {
    let mut numbers: BTreeMap<ProducerId, Vec<i64>> = BTreeMap::new();
    for batch in log.batches_from(log.log_start_offset()) {
        if batch.producer_id().is_some() && !batch.is_control() {
            let records = batch.records()?;
            numbers.entry(batch.producer_id()).or_default().extend(records.iter().filter_map(number));
        }
    }
    Ok(numbers)
}

/// Which one of its producer's records it is: 7 of `{"n":7,...`.
fn number(record: &Record) -> Option<i64> {
    let value = std::str::from_utf8(record.value.as_ref()?).ok()?;
    value.strip_prefix("{\"n\":")?.split([',', '}']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::log::{LogConfig, Origin};
    use crate::kafka::record::{BatchBuilder, NewRecord};
    use crate::kafka::time::Time;
    use crate::kafka::types::{LeaderEpoch, ProducerEpoch};

    #[test]
    fn records_are_told_apart_by_the_producers_that_wrote_them() {
        let mut log = Log::new();
        let mut write = |producer: i64, sequence: i32, numbers: &[i64]| {
            let mut batch = BatchBuilder::new();
            for n in numbers {
                let value = format!("{{\"n\":{n}}}");
                batch.append(&NewRecord { value: Some(value.as_bytes()), ..NewRecord::default() });
            }
            let bytes = batch.finish(Some((ProducerId(producer), ProducerEpoch(0), sequence))).into_bytes();
            let config = LogConfig::default();
            log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), Origin::Client, &config).expect("sound");
        };
        write(7, 0, &[1, 2]);
        write(8, 0, &[1]);
        write(7, 2, &[3]);
        let expected = BTreeMap::from([(ProducerId(7), vec![1, 2, 3]), (ProducerId(8), vec![1])]);
        assert_eq!(numbers_by_producer(&log), Ok(expected));
    }
}
