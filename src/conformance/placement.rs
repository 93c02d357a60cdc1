//! 07a: where Kafka put the replicas of new topics, given its random draws (R-PLACE-1 to 5).

use std::collections::VecDeque;

use serde::Deserialize;

use super::{Difference, Report, Unreadable, read, same};
use crate::kafka::controller::placement::{Draws, UsableBroker, place};
use crate::kafka::types::BrokerId;

const FILE: &str = "07a_replica_placement.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    #[serde(rename = "header")]
    _header: serde_json::Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    random: String,
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
pub fn replica_placement(text: &str) -> Result<Report, Unreadable> {
    let recording: Recording = read(FILE, text)?;
    let mut report = Report::new(FILE);
    for (number, case) in recording.cases.iter().enumerate() {
        report.add(format!("{number} ({})", case.random), check(case));
    }
    Ok(report)
}

fn check(case: &Case) -> Result<(), Difference> {
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
    same("replicas", &case.replicas, &placed.clone().ok().map(ids))?;
    let error = placed.err().map(|error| format!("InvalidReplicationFactorException: {error}"));
    same("error", &case.error, &error)?;
    same("draws", &case.draws.iter().map(|(bound, _)| *bound).collect::<Vec<_>>(), &bounds)
}
