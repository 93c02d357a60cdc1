//! 07b: what Kafka made of one partition when its in-sync set, its brokers or the election changed (R-REPL-2, 3, 40 to
//! 47, 59).

use serde::Deserialize;

use super::partition::State;
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::controller::partition_change::{Election, PartitionChangeBuilder};
use crate::kafka::types::{BrokerId, TopicId};

const FILE: &str = "07b_leader_election.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    before: State,
    live: Vec<i32>,
    elr_enabled: bool,
    min_isr: i32,
    election: Kind,
    target_isr: Option<Vec<i32>>,
    unclean_shutdown: Option<Vec<i32>>,
    no_change: bool,
    elects_unavailable: bool,
    error: Option<String>,
    after: State,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Preferred,
    Online,
    Unclean,
}

/// Runs every case of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, case: &Case| Ok(outcome(case)))
}

fn outcome(case: &Case) -> Result<(), Failure> {
    let mut partition = case.before.registration();
    let live = |id: BrokerId| case.live.contains(&id.0);
    let mut builder = PartitionChangeBuilder::new(&partition, TopicId::default(), 0, &live);
    builder.election = match case.election {
        Kind::Preferred => Election::Preferred,
        Kind::Online => Election::Online,
        Kind::Unclean => Election::Unclean,
    };
    builder.elr_enabled = case.elr_enabled;
    builder.min_isr = case.min_isr;
    let ids = |list: &Vec<i32>| -> Vec<BrokerId> { list.iter().copied().map(BrokerId).collect() };
    if let Some(isr) = &case.target_isr {
        builder.target_isr = ids(isr);
    }
    builder.unclean_shutdown = case.unclean_shutdown.as_ref().map(ids).unwrap_or_default();
    let change = builder.build();
    check(|| "no change".to_owned(), &case.no_change, &change.is_none())?;
    if let Some(change) = change {
        partition.merge(&change);
    }
    check(|| "after".to_owned(), &case.after, &State::of(&partition))?;
    let dead_leader = partition.leader.is_some() && partition.leader != BrokerId(case.before.leader);
    check(
        || "elects a dead broker".to_owned(),
        &case.elects_unavailable,
        &(dead_leader && !live(partition.leader)),
    )?;
    check(|| "error".to_owned(), &case.error, &None)
}
