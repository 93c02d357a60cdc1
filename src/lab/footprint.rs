//! What a run holds in memory, and for how long it can be held.
//!
//! Trace and ledger have bounds in bytes, narrative, marks and checkpoints in number. Logs have Kafka's own, retention.ms and
//! retention.bytes, which by default let nothing go within seven days. So a long run grows by what its logs get until these
//! have come to their retention.
//!
//! **Invariant:** looking costs what there is of partitions, whatever they hold.

use std::collections::BTreeMap;

use super::session::Session;
use crate::kafka::log::LogConfig;
use crate::kafka::record::Batch;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{NodeId, TopicPartition};
use crate::sim::World;

pub const MIB: u64 = 1 << 20;
/// What a page holds before it asks for the first time whether to go on.
const FIRST_LIMIT_BYTES: u64 = 1024 * MIB;
/// What it may hold more each time that a person goes on.
const MORE_BYTES: u64 = 512 * MIB;

/// Beside its bytes a batch has a place in each log, and what counts those who share it.
const PER_BATCH_BYTES: i64 = size_of::<Batch>() as i64 + 32;
/// A metadata record with its share of a batch; most are small.
const PER_METADATA_RECORD_BYTES: i64 = 100;
/// Before this time growth says little.
const SETTLED: Time = Time::from_ms(60_000);
const HOUR_MS: f64 = 3_600_000.0;

/// A log with all its replicas, and what Kafka's retention lets it come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Growing {
    bytes: f64,
    /// `None`: nothing bounds it.
    most: Option<f64>,
}

/// Estimated bytes of the parts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Of all replicas; a batch that several have is there once.
    pub logs: i64,
    pub metadata: i64,
    pub trace: i64,
    pub ledger: i64,
    /// Since when it has grown.
    age: Time,
    growing: Vec<Growing>,
}

impl Footprint {
    pub fn of(session: &Session) -> Footprint {
        let world = session.world();
        let mut footprint = Footprint {
            trace: world.trace().bytes() as i64,
            ledger: session.ledger().bytes() as i64,
            age: session.now(),
            ..Footprint::default()
        };
        let mut logs: BTreeMap<&TopicPartition, (&Partition, i64)> = BTreeMap::new();
        for partition in replicas(world) {
            let (largest, batches) = logs.entry(&partition.tp).or_insert((partition, 0));
            *batches += partition.log.batch_count();
            if partition.log.size_bytes() > largest.log.size_bytes() {
                *largest = partition;
            }
        }
        for (partition, batches) in logs.into_values() {
            let bytes = partition.log.size_bytes() + batches * PER_BATCH_BYTES;
            footprint.logs += bytes;
            let most = most_of_log(&partition.config.log, partition.log.size_bytes(), footprint.age);
            footprint.grows(bytes, partition.log.size_bytes(), most);
        }
        let longest = metadata_records(world).max().unwrap_or(0);
        footprint.metadata =
            metadata_records(world).sum::<i64>() * PER_BATCH_BYTES + longest * PER_METADATA_RECORD_BYTES;
        let config = &world.broker_config().metadata_log;
        let on_disk = longest * PER_METADATA_RECORD_BYTES;
        let by_time = by_time(on_disk, config.max_retention_ms, footprint.age);
        let most = least(by_size(config.max_retention_bytes, config.segment_bytes), by_time);
        footprint.grows(footprint.metadata, on_disk, most);
        footprint
    }

    /// Notes a part that has so many bytes in memory of `on_disk` bytes of a log, which come to `most`.
    fn grows(&mut self, bytes: i64, on_disk: i64, most: Option<f64>) {
        let bytes = bytes as f64;
        self.growing.push(Growing { bytes, most: most.map(|most| bytes * most / on_disk.max(1) as f64) });
    }

    pub fn total(&self) -> u64 {
        (self.logs + self.metadata + self.trace + self.ledger).max(0) as u64
    }

    /// Bytes by which the run grows in a virtual hour, as it did so far; `None` while it is young.
    pub fn growth_an_hour(&self) -> Option<u64> {
        let grown = (self.logs + self.metadata) as f64;
        (self.age >= SETTLED).then(|| (grown / self.hours()) as u64)
    }

    fn hours(&self) -> f64 {
        self.age.ms().max(1) as f64 / HOUR_MS
    }

    /// Virtual hours until it has grown by `room` bytes, each part as fast as so far and no further than its retention lets
    /// it; `None` if it never does.
    fn hours_until_grown_by(&self, room: f64) -> Option<f64> {
        let hours = self.hours();
        let until_full = |part: &Growing| {
            part.most.map_or(f64::INFINITY, |most| (most - part.bytes).max(0.0) * hours / part.bytes.max(1.0))
        };
        let mut parts: Vec<(f64, f64)> =
            self.growing.iter().map(|part| (until_full(part), part.bytes / hours)).collect();
        parts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut at, mut room, mut rate) = (0.0, room, parts.iter().map(|(_, rate)| rate).sum::<f64>());
        for (full_at, part_rate) in parts {
            let grown = rate * (full_at - at);
            if rate > 0.0 && grown >= room {
                return Some(at + room / rate);
            }
            (at, room, rate) = (full_at, room - grown, (rate - part_rate).max(0.0));
        }
        None
    }
}

/// What a log of this config comes to on a disk that has grown to `bytes` in `age`.
fn most_of_log(config: &LogConfig, bytes: i64, age: Time) -> Option<f64> {
    let deleted = || {
        let in_time = by_time(bytes, config.retention_ms, age);
        let with_last_segment =
            in_time.and(by_time(bytes, config.retention_ms.saturating_add(config.max_segment_ms()), age));
        least(by_size(config.retention_bytes, config.segment_bytes), with_last_segment)
    };
    // Compaction waits for a segment that is not written to, and for as much that is dirty as is clean. Who has outgrown
    // that has ever more keys.
    let compacted = || {
        by_size(i64::from(config.segment_bytes), config.segment_bytes).filter(|most| bytes as f64 <= *most)
    };
    least(config.deletes.then(deleted).flatten(), config.compacted.then(compacted).flatten())
}

/// What goes is whole segments, and none that is written to.
fn by_size(retention_bytes: i64, segment_bytes: i32) -> Option<f64> {
    (retention_bytes >= 0).then(|| retention_bytes as f64 + 2.0 * f64::from(segment_bytes))
}

fn by_time(bytes: i64, retention_ms: i64, age: Time) -> Option<f64> {
    (retention_ms >= 0).then(|| bytes as f64 * retention_ms as f64 / age.ms().max(1) as f64)
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (bound, None) | (None, bound) => bound,
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
        if footprint.growth_an_hour().is_none() {
            return format!("{holds} It stops to ask at {limit_mib} MiB.");
        }
        let room = self.bytes.saturating_sub(held) as f64;
        let Some(left) = footprint.hours_until_grown_by(room) else {
            return format!(
                "{holds} This run can go on for ever: retention bounds its logs below {limit_mib} MiB."
            );
        };
        let left = match left {
            ..1.0 => format!("{:.0} virtual minutes", left * 60.0),
            1.0..100.0 => format!("{left:.0} virtual hours"),
            _ => format!("{:.0} virtual days", left / 24.0),
        };
        format!("{holds} As this run grows it can go on for about {left}, up to {limit_mib} MiB.")
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
        let grown = (old.logs + old.metadata) as u64;
        assert!(
            an_hour.abs_diff(grown * 30) <= 1,
            "two minutes are a thirtieth of an hour: {an_hour} {grown}"
        );
        let parts: f64 = old.growing.iter().map(|part| part.bytes).sum();
        assert_eq!(parts as i64, old.logs + old.metadata);
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

    /// A run of an hour with these parts: MiB now, and at most.
    fn grown(parts: &[(i64, Option<i64>)]) -> Footprint {
        const MIB: f64 = super::MIB as f64;
        let growing = parts.iter().map(|(now, most)| Growing {
            bytes: *now as f64 * MIB,
            most: most.map(|most| most as f64 * MIB),
        });
        let logs = parts.iter().map(|(now, _)| now * super::MIB as i64).sum();
        Footprint { logs, age: Time::from_ms(3_600_000), growing: growing.collect(), ..Footprint::default() }
    }

    fn outlook(held_mib: u64, parts: &[(i64, Option<i64>)]) -> String {
        Limit::default().outlook(held_mib * MIB, &grown(parts))
    }

    #[test]
    fn the_outlook_is_what_is_left_by_what_it_grows() {
        assert!(outlook(24, &[(100, None)]).contains("about 10 virtual hours, up to 1024 MiB"));
        assert!(outlook(524, &[(1000, None)]).contains("about 30 virtual minutes"));
        assert!(outlook(24, &[(1, None)]).contains("about 42 virtual days"));
        let young = Limit::default().outlook(24 * MIB, &Footprint::default());
        assert_eq!(young, "The page holds 24 MiB. It stops to ask at 1024 MiB.");
    }

    #[test]
    fn a_part_that_has_come_to_its_retention_grows_no_more() {
        let for_ever =
            "The page holds 24 MiB. This run can go on for ever: retention bounds its logs below 1024 MiB.";
        assert_eq!(outlook(24, &[(100, Some(600)), (0, None)]), for_ever);
        assert_eq!(outlook(24, &[(100, Some(80)), (0, None)]), for_ever);
        let both = outlook(24, &[(100, Some(600)), (10, None)]);
        assert!(both.contains("about 50 virtual hours"), "five hours at 110 MiB, then 450 MiB at 10: {both}");
    }

    #[test]
    fn retention_by_size_or_time_is_what_a_log_comes_to() {
        let hour = Time::from_ms(3_600_000);
        let kafkas = LogConfig::default();
        let week = 2.0 * 7.0 * 24.0;
        assert_eq!(
            most_of_log(&kafkas, 1000, hour),
            Some(1000.0 * week),
            "seven days, and a segment of as long"
        );
        let small = LogConfig { retention_bytes: 5000, segment_bytes: 100, ..kafkas.clone() };
        assert_eq!(most_of_log(&small, 1000, hour), Some(5200.0));
        assert_eq!(most_of_log(&LogConfig { retention_ms: -1, ..kafkas.clone() }, 1000, hour), None);
        let compacted = LogConfig { deletes: false, compacted: true, ..small };
        assert_eq!(most_of_log(&compacted, 250, hour), Some(300.0), "its keys have come again so far");
        assert_eq!(most_of_log(&compacted, 1000, hour), None, "its keys are ever more");
    }

    #[test]
    fn the_pages_own_cluster_goes_on_for_ever() {
        let session = run(300);
        let outlook = Limit::default().outlook(60 * MIB, &Footprint::of(&session));
        assert!(outlook.contains("for ever"), "{outlook}");
    }
}
