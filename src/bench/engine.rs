//! Appends, replication, events of the simulated whole, checkpoints.

use std::io::{self, Write};
use std::time::Duration;

use crate::kafka::event::Event;
use crate::kafka::log::{Log, LogConfig, Origin};
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::types::LeaderEpoch;
use crate::lab::session::{Options, Session};
use crate::sim::World;

use super::{Clock, RUNS, median, timed};

/// How many partitions the cluster of three brokers has; the records a second are the same in all.
const SIZES: [u32; 3] = [12, 120, 1200];
/// By then the cluster is up and the group has its plan.
const WARM: Time = Time::from_ms(15_000);
const MEASURED_S: i64 = 30;

/// Events a second of a session that `open` opens, until its clock says `until`.
pub fn scenario(
    clock: Clock,
    open: impl Fn() -> Session,
    until: Time,
    out: &mut impl Write,
) -> io::Result<()> {
    let (elapsed, events) = median(|| {
        let mut session = open();
        let (elapsed, ()) = timed(clock, || while !session.run_until(until, u64::MAX) {});
        (elapsed, session.events_done())
    });
    let seconds = elapsed.as_secs_f64();
    let virtual_s = until.us() as f64 / 1e6;
    writeln!(out, "{events} events in {:.1} ms, the median of {RUNS} runs", seconds * 1000.0)?;
    writeln!(out, "{:.0} events a second", events as f64 / seconds)?;
    writeln!(out, "{:.0} virtual seconds in a real second", virtual_s / seconds)
}

/// The engine's own figures.
pub fn engine(clock: Clock, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\neach figure is the median of {RUNS} runs\n")?;
    writeln!(
        out,
        "appends at a leader, batches of 10 records   {:>12.0} a second",
        median(|| appends_a_second(clock))
    )?;
    writeln!(
        out,
        "fetches of a follower that carry a batch      {:>12.0} a second",
        median(|| fetches_a_second(clock))
    )?;
    writeln!(out, "\n3 brokers, replication factor 3, 300 records a second in all, a group of two")?;
    writeln!(
        out,
        "{:>10} {:>12} {:>16} {:>14} {:>8}",
        "partitions", "events", "events a second", "ns an event", "ratio"
    )?;
    let mut first_ns = None;
    for partitions in SIZES {
        let (ns, events) = median(|| cost_of_events(clock, partitions));
        let ratio = ns / *first_ns.get_or_insert(ns);
        writeln!(out, "{partitions:>10} {events:>12} {:>16.0} {ns:>14.0} {ratio:>8.2}", 1e9 / ns)?;
    }
    writeln!(out, "\na checkpoint and one second of run after it, in ms")?;
    writeln!(
        out,
        "{:>10} {:>12} {:>16} {:>14}",
        "partitions", "checkpoint", "second after it", "without one"
    )?;
    for partitions in SIZES {
        let (clone, with, without) = median(|| cost_of_checkpoint(clock, partitions));
        writeln!(out, "{partitions:>10} {clone:>12.4} {with:>16.2} {without:>14.2}")?;
    }
    Ok(())
}

fn appends_a_second(clock: Clock) -> f64 {
    const BATCHES: u32 = 100_000;
    let mut builder = BatchBuilder::new();
    for _ in 0..10 {
        builder.append(&NewRecord {
            timestamp_ms: 0,
            key: Some(b"cart-7"),
            value: Some(&[b'v'; 100]),
            headers: &[],
        });
    }
    let batch = builder.finish(None);
    let (mut log, config) = (Log::new(), LogConfig::default());
    let (elapsed, ()) = timed(clock, || {
        for _ in 0..BATCHES {
            let appended = log.append_as_leader(
                Time::ZERO,
                batch.bytes().clone(),
                LeaderEpoch(0),
                Origin::Client,
                &config,
            );
            assert!(appended.is_ok(), "{appended:?}");
        }
    });
    f64::from(BATCHES) / elapsed.as_secs_f64()
}

/// Round trips of the simulated whole (network, broker, log) in a second, of two brokers with one partition.
fn fetches_a_second(clock: Clock) -> f64 {
    let mut session = warm(2, 1, "");
    let (mut fetches, mut elapsed) = (0, Duration::ZERO);
    for second in 1..=MEASURED_S {
        let (heard, until) = (session.world().trace().len_ever(), WARM.plus_ms(second * 1000));
        elapsed += timed(clock, || while !session.run_until(until, u64::MAX) {}).0;
        let is_fetch = |event: &Event| matches!(event, Event::Replicated { .. });
        fetches += session.world().trace().since(heard).filter(|entry| is_fetch(&entry.event)).count();
    }
    fetches as f64 / elapsed.as_secs_f64()
}

const GROUP: &str = r#"

[[consumer]]
name = "consumer-a"
group = "billing"
topics = ["orders"]
program = ["poll"]

[[consumer]]
name = "consumer-b"
group = "billing"
topics = ["orders"]
program = ["poll"]
"#;

/// Three brokers, a producer and a group of two.
fn warm_cluster(partitions: u32) -> Session {
    warm(3, partitions, GROUP)
}

/// A cluster whose partitions are all replicated to all brokers, with 300 records a second in all, and what else there
/// is.
fn warm(brokers: u32, partitions: u32, others: &str) -> Session {
    let ids: String = (1..=brokers).map(|id| format!("[[broker]]\nid = {id}\n")).collect();
    let text = format!(
        r#"
format = 1
seed = 1
network = {{ latency = "1ms..3ms" }}
controllers = 3
{ids}
[[topic]]
name = "orders"
partitions = {partitions}
replication-factor = {brokers}

[[producer]]
name = "checkout-api"
topic = "orders"
rate = "300/s"
keys = "cart-{{0..9999}}"
config = {{ acks = "all" }}
{others}"#
    );
    let mut session = Session::open(&text, Options::default()).expect("the scenario is right");
    while !session.run_until(WARM, u64::MAX) {}
    session
}

/// Nanoseconds an event, and the events.
fn cost_of_events(clock: Clock, partitions: u32) -> (f64, u64) {
    let mut session = warm_cluster(partitions);
    let (begin, until) = (session.events_done(), WARM.plus_ms(MEASURED_S * 1000));
    let (elapsed, _) = timed(clock, || while !session.run_until(until, u64::MAX) {});
    let events = session.events_done() - begin;
    (elapsed.as_secs_f64() * 1e9 / events as f64, events)
}

/// Milliseconds: the clone of a world, the second after it while the clone is kept, a second without.
fn cost_of_checkpoint(clock: Clock, partitions: u32) -> (f64, f64, f64) {
    let ms = |elapsed: Duration| elapsed.as_secs_f64() * 1000.0;
    let mut world = warm_cluster(partitions).world().clone();
    let second = |world: &mut World| {
        let until = world.now().plus_ms(1000);
        timed(clock, || world.run_until(until)).0
    };
    second(&mut world);
    let without = second(&mut world);
    let (clone, checkpoint) = timed(clock, || world.clone());
    let with = second(&mut world);
    assert!(checkpoint.now() < world.now());
    (ms(clone), ms(with), ms(without))
}
