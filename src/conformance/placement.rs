//! 07a: where Kafka put the replicas of new topics, given its random draws (R-PLACE-1 to 5).

use std::collections::VecDeque;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::controller::placement::{Draws, UsableBroker, place};
use crate::kafka::types::BrokerId;

const FILE: &str = "07a_replica_placement.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Where the draws came from.
    #[serde(rename = "random")]
    _random: IgnoredAny,
    brokers: Vec<Broker>,
    partitions: i32,
    replication_factor: i16,
    rack_init_order: Vec<Option<String>>,
    /// Each a bound and the number that was drawn below it.
    draws: Vec<(usize, usize)>,
    replicas: Option<Vec<Vec<i32>>>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broker {
    id: i32,
    rack: Option<String>,
    fenced: bool,
}

/// Runs every case of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, case: &Case| Ok(outcome(case)))
}

fn outcome(case: &Case) -> Result<(), Failure> {
    let usable = |broker: &Broker| UsableBroker {
        id: BrokerId(broker.id),
        rack: broker.rack.clone(),
        fenced: broker.fenced,
    };
    let brokers: Vec<UsableBroker> = case.brokers.iter().map(usable).collect();
    let mut recorded: VecDeque<(usize, usize)> = case.draws.iter().copied().collect();
    let mut bounds = Vec::new();
    let mut below = |bound: usize| {
        bounds.push(bound);
        recorded.pop_front().map_or(0, |(_, drawn)| drawn.min(bound - 1))
    };
    let mut draws = Draws::Random { racks: &case.rack_init_order, below: &mut below };
    let placed = place(&brokers, case.partitions, case.replication_factor, &mut draws);
    let ids = |lists: Vec<Vec<BrokerId>>| -> Vec<Vec<i32>> {
        lists.into_iter().map(|list| list.into_iter().map(|id| id.0).collect()).collect()
    };
    check(|| "replicas".to_owned(), &case.replicas, &placed.clone().ok().map(ids))?;
    let error = placed.err().map(|error| format!("InvalidReplicationFactorException: {error}"));
    check(|| "error".to_owned(), &case.error, &error)?;
    check(|| "draws".to_owned(), &case.draws.iter().map(|(bound, _)| *bound).collect::<Vec<_>>(), &bounds)
}
