//! How fast the page's own cluster runs, and the memory that takes.

use std::io::{self, Write};

use crate::kafka::time::Time;
use crate::lab::session::{Options, Session};

use super::{Clock, Memory, RUNS, timed};

/// What the page opens with.
const DEFAULT: &str = include_str!("../../static/scenarios/default.toml");
/// As the default scenario has them.
const RATE: &str = "rate = \"12/s\"";
const PACE: &str = "process 20ms";
const CONFIG: &str = "\"enable.auto.commit\" = false";

/// By then the cluster is up and the group has its plan.
const WARM_S: i64 = 15;
/// Virtual seconds after which the memory is told.
const LOOKS_S: [i64; 3] = [60, 300, 600];
pub(super) const MIB: f64 = 1024.0 * 1024.0;

/// So many records a second that the application sends, each of which takes a consumer so long that it does not hold the group
/// up.
pub(super) struct Load {
    records: i64,
    pace: &'static str,
    measured_s: i64,
}

pub(super) const LOADS: [Load; 2] = [
    Load { records: 100, pace: "5ms", measured_s: 120 },
    Load { records: 10_000, pace: "50us", measured_s: 10 },
];
/// What one poll returns, as a commit over the slow links takes longer than 500 records take to come.
const MAX_POLL_RECORDS: &str = "\"max.poll.records\" = 5000";

impl Load {
    pub(super) fn open(&self) -> Session {
        let text = DEFAULT
            .replace(RATE, &format!("rate = \"{}/s\"", self.records))
            .replace(PACE, &format!("process {}", self.pace))
            .replace(CONFIG, &format!("{CONFIG}, {MAX_POLL_RECORDS}"));
        Session::open(&text, Options::default()).expect("the default scenario is right")
    }
}

pub(super) fn run_to(session: &mut Session, second: i64) {
    while !session.run_until(Time::from_ms(second * 1000), u64::MAX) {}
}

/// The cluster that the page opens with, at 100 and at 10,000 records a second; its memory first, as what is measured after it
/// takes more.
pub fn default_cluster(clock: Clock, memory: Memory, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "the page's own cluster: 3 controllers, 3 brokers, 3 partitions, one producer, a group of two\n"
    )?;
    writeln!(out, "the memory of the whole program after so many virtual seconds, in MiB")?;
    let heads = LOOKS_S.map(|second| format!("{second} s"));
    writeln!(
        out,
        "{:>16} {:>12} {:>12} {:>12} {:>12}",
        "records a second", "0 s", heads[0], heads[1], heads[2]
    )?;
    for load in &LOADS {
        let mut session = load.open();
        write!(out, "{:>16} {:>12.1}", load.records, memory() as f64 / MIB)?;
        for second in LOOKS_S {
            run_to(&mut session, second);
            write!(out, " {:>12.1}", memory() as f64 / MIB)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\neach speed is the median of {RUNS} runs")?;
    writeln!(
        out,
        "{:>16} {:>12} {:>30} {:>14}",
        "records a second", "ns an event", "virtual seconds a real second", "least to most"
    )?;
    for load in &LOADS {
        let mut runs: Vec<(f64, f64)> = (0..RUNS).map(|_| speed(clock, load)).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (speed, ns) = runs[RUNS / 2];
        let range = format!("{:.0} to {:.0}", runs[0].0, runs[RUNS - 1].0);
        writeln!(out, "{:>16} {ns:>12.0} {speed:>30.0} {range:>14}", load.records)?;
    }
    Ok(())
}

/// Virtual seconds a real second, and nanoseconds an event.
fn speed(clock: Clock, load: &Load) -> (f64, f64) {
    let mut session = load.open();
    run_to(&mut session, WARM_S);
    let before = session.events_done();
    let (elapsed, ()) = timed(clock, || run_to(&mut session, WARM_S + load.measured_s));
    let events = session.events_done() - before;
    (load.measured_s as f64 / elapsed.as_secs_f64(), elapsed.as_secs_f64() * 1e9 / events as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::program::Line;
    use crate::lab::ledger::Count;

    /// The scenario has the lines that are exchanged.
    #[test]
    fn the_default_cluster_has_the_load_that_is_measured() {
        for (load, us_per_record) in LOADS.iter().zip([5_000, 50]) {
            let mut session = load.open();
            run_to(&mut session, WARM_S);
            let before = session.ledger().totals().count(Count::Produced);
            run_to(&mut session, WARM_S + 1);
            assert_eq!(session.ledger().totals().count(Count::Produced) - before, load.records);
            let consumer = session.world().consumer(&"consumer-a".into()).expect("it is there");
            assert!(consumer.program().lines().contains(&Line::Process { us_per_record }));
            assert_eq!(consumer.config().max_poll_records, 5000);
        }
    }
}
