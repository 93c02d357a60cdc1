//! What a run holds in memory, and for how long it can be held.
//!
//! Trace, ledger, narrative and checkpoints have bounds. Logs have none but Kafka's own, retention.ms and retention.bytes,
//! which by default let nothing go within seven days; nor has the metadata log before its first snapshots. So a long run
//! grows by what its logs get.
//!
//! **Invariant:** looking costs what there is of partitions, whatever they hold.

use std::collections::BTreeMap;

use super::session::Session;
use crate::kafka::record::Batch;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{NodeId, TopicPartition};
use crate::sim::{TraceEntry, World};

pub const MIB: u64 = 1 << 20;
/// What a page holds before it asks for the first time whether to go on.
const FIRST_LIMIT_BYTES: u64 = 1024 * MIB;
/// What it may hold more each time that a person goes on.
const MORE_BYTES: u64 = 512 * MIB;

/// Beside its bytes a batch has a place in each log, and what counts those who share it.
const PER_BATCH_BYTES: i64 = size_of::<Batch>() as i64 + 32;
/// A metadata record with its share of a batch; most are small.
const PER_METADATA_RECORD_BYTES: i64 = 100;
/// Names and lists of an event.
const PER_EVENT_BYTES: i64 = size_of::<TraceEntry>() as i64 + 32;
/// A record in the ledger, with who has met it.
const PER_LEDGER_RECORD_BYTES: i64 = 500;
/// Before this time growth says little.
const SETTLED: Time = Time::from_ms(60_000);

/// Estimated bytes of the parts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Of all replicas; a batch that several have is there once.
    pub logs: i64,
    pub metadata: i64,
    pub trace: i64,
    pub ledger: i64,
    /// Since when it has grown.
    age: Time,
}

impl Footprint {
    pub fn of(session: &Session) -> Footprint {
        let (world, trace) = (session.world(), session.world().trace());
        let mut footprint = Footprint {
            trace: (trace.len_ever() - trace.first_kept()) as i64 * PER_EVENT_BYTES,
            ledger: session.ledger().records() * PER_LEDGER_RECORD_BYTES,
            age: session.now(),
            ..Footprint::default()
        };
        let mut largest: BTreeMap<&TopicPartition, i64> = BTreeMap::new();
        for partition in replicas(world) {
            footprint.logs += partition.log.batch_count() * PER_BATCH_BYTES;
            let bytes = largest.entry(&partition.tp).or_default();
            *bytes = partition.log.size_bytes().max(*bytes);
        }
        footprint.logs += largest.values().sum::<i64>();
        let longest = metadata_records(world).max().unwrap_or(0);
        footprint.metadata =
            metadata_records(world).sum::<i64>() * PER_BATCH_BYTES + longest * PER_METADATA_RECORD_BYTES;
        footprint
    }

    pub fn total(&self) -> u64 {
        (self.logs + self.metadata + self.trace + self.ledger).max(0) as u64
    }

    /// Bytes by which the run grows in a virtual hour, as it did so far; `None` while it is young.
    pub fn growth_an_hour(&self) -> Option<u64> {
        const HOUR_MS: i128 = 3_600_000;
        let grown = i128::from(self.logs + self.metadata);
        let an_hour = grown * HOUR_MS / i128::from(self.age.ms().max(1));
        (self.age >= SETTLED).then(|| u64::try_from(an_hour).unwrap_or(0))
    }
}

/// All replicas of all brokers.
pub fn replicas(world: &World) -> impl Iterator<Item = &Partition> {
    let brokers = world.processes().filter_map(|(node, _)| match node {
        NodeId::Broker(id) => world.broker(id),
        _ => None,
    });
    brokers.flat_map(|broker| broker.replicas().partitions().map(|partition| &**partition))
}

/// How many records the metadata log of each node has.
pub fn metadata_records(world: &World) -> impl Iterator<Item = i64> {
    world.processes().filter_map(|(node, _)| {
        let raft = match node {
            NodeId::Broker(id) => world.broker(id)?.raft(),
            NodeId::Controller(id) => world.controller(id)?.raft(),
            NodeId::Client(_) => return None,
        };
        Some(raft.log().end_offset() - raft.log().start_offset())
    })
}

/// How much a page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    bytes: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { bytes: FIRST_LIMIT_BYTES }
    }
}

impl Limit {
    /// Whether `held` bytes have come to it; it lies higher then, for who goes on all the same.
    pub fn is_reached(&mut self, held: u64) -> bool {
        let is_reached = held >= self.bytes;
        if is_reached {
            self.bytes = held + MORE_BYTES;
        }
        is_reached
    }

    /// `The page holds 120 MiB. As this run grows it can go on for about 18 virtual hours, up to 1024 MiB.`
    pub fn outlook(&self, held: u64, footprint: &Footprint) -> String {
        let limit_mib = self.bytes / MIB;
        let holds = format!("The page holds {} MiB.", held / MIB);
        match footprint.growth_an_hour() {
            None => format!("{holds} It stops to ask at {limit_mib} MiB."),
            Some(growth) => {
                let left = self.bytes.saturating_sub(held) as f64 / growth.max(1) as f64;
                let left = match left {
                    ..1.0 => format!("{:.0} virtual minutes", left * 60.0),
                    1.0..10_000.0 => format!("{left:.0} virtual hours"),
                    _ => "10000 virtual hours and more".to_owned(),
                };
                format!("{holds} As this run grows it can go on for about {left}, up to {limit_mib} MiB.")
            }
        }
    }

    /// Why the page stands still, once `held` bytes have come to the limit.
    pub fn notice(&self, held: u64) -> String {
        format!(
            "Paused: the page holds {} MiB. The logs of a run grow, for Kafka keeps records for retention.ms, which is 7 days by \
             default. Press play to go on up to {} MiB, or open the scenario with a lower rate.",
            held / MIB,
            self.bytes / MIB
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::{BrokerId, Offset};
    use crate::lab::session::Options;

    const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");

    fn run(seconds: i64) -> Session {
        let mut session = Session::open(SCENARIO, Options::default()).expect("the default scenario is right");
        assert!(session.run_until(Time::from_ms(seconds * 1000), u64::MAX));
        session
    }

    /// Where the batches of a replica are in memory.
    fn places(session: &Session, broker: i32, tp: &TopicPartition) -> Vec<*const u8> {
        let broker = session.world().broker(BrokerId(broker)).expect("it runs");
        let partition = broker.replicas().partition(tp).expect("it has a replica");
        partition.log.batches_from(Offset::ZERO).map(|batch| batch.bytes().as_ptr()).collect()
    }

    #[test]
    fn replicas_hold_most_batches_once() {
        let session = run(60);
        for partition in 0..3 {
            let tp = TopicPartition::new(&"orders".into(), partition);
            let (first, second) = (places(&session, 1, &tp), places(&session, 2, &tp));
            let shared = first.iter().zip(&second).filter(|(one, other)| one == other).count();
            assert!(first.len() > 20 && shared * 10 >= first.len() * 9, "{shared} of {}", first.len());
        }
    }

    #[test]
    fn a_run_grows_by_its_logs() {
        let (young, old) = (Footprint::of(&run(30)), Footprint::of(&run(120)));
        assert_eq!(young.growth_an_hour(), None);
        assert!(old.logs > 2 * young.logs && old.metadata > 2 * young.metadata, "{young:?} {old:?}");
        assert!(old.total() > young.total());
        let an_hour = old.growth_an_hour().expect("it is old enough");
        assert_eq!(an_hour, (old.logs + old.metadata) as u64 * 30, "two minutes are a thirtieth of an hour");
    }

    #[test]
    fn a_page_asks_at_its_limit_and_then_higher_up() {
        let mut limit = Limit::default();
        assert!(!limit.is_reached(1024 * MIB - 1));
        assert!(limit.is_reached(1030 * MIB));
        assert!(!limit.is_reached(1500 * MIB) && limit.is_reached(1542 * MIB));
        assert!(
            limit.notice(1542 * MIB).contains("holds 1542 MiB") && limit.notice(0).contains("up to 2054 MiB")
        );
    }

    #[test]
    fn the_outlook_is_what_is_left_by_what_it_grows() {
        let limit = Limit::default();
        let grown = |logs| Footprint { logs, age: Time::from_ms(3_600_000), ..Footprint::default() };
        let outlook = |logs, held_mib| limit.outlook(held_mib * MIB, &grown(logs));
        assert!(outlook(100 * MIB as i64, 24).contains("about 10 virtual hours, up to 1024 MiB"));
        assert!(outlook(1000 * MIB as i64, 524).contains("about 30 virtual minutes"));
        assert!(outlook(0, 24).contains("10000 virtual hours and more"));
        let young = limit.outlook(24 * MIB, &Footprint::default());
        assert_eq!(young, "The page holds 24 MiB. It stops to ask at 1024 MiB.");
    }
}
