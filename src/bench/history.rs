//! The time machine: seeks, steps back, what checkpoints cost.

use std::io::{self, Write};
use std::time::Duration;

use super::{Clock, timed};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::lab::compare::Comparison;
use crate::lab::history::History;
use crate::lab::journal::Journal;
use crate::lab::pace::StopsAt;
use crate::lab::session::{Options, Session};

const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");
/// The run that is gone back through.
const RUN_MS: i64 = 600_000;
const SEEKS: usize = 200;

/// The time machine's figures for ten minutes of the page's default cluster.
pub fn history(clock: Clock, out: &mut impl Write) -> io::Result<()> {
    let open = || Session::open(SCENARIO, Options::default()).expect("the default scenario is right");
    let until = Time::from_ms(RUN_MS);
    let (without, session) = timed(clock, || {
        let mut session = open();
        session.run_until(until, u64::MAX);
        session
    });
    let (with, mut history) = timed(clock, || {
        let mut history = History::open(SCENARIO, Options::default()).expect("the default scenario is right");
        history.run(until, u64::MAX, StopsAt::Nothing);
        history
    });
    assert_eq!(session.digest(), history.present().digest());
    writeln!(
        out,
        "10 minutes of the default cluster, {} events: {:.1} ms, with {} checkpoints {:.1} ms, ratio {:.2}",
        session.events_done(),
        ms(without),
        history.checkpoints(),
        ms(with),
        ms(with) / ms(without),
    )?;
    let mut random = Random::stream(1, "bench seeks");
    let mut moment = || Time::from_ms(random.between(0, RUN_MS));
    let mut seeks: Vec<Duration> = (0..SEEKS).map(|_| timed(clock, || history.seek(moment())).0).collect();
    writeln!(out, "{}", spread("to a random moment", &mut seeks))?;
    let mut steps: Vec<Duration> = Vec::new();
    for _ in 0..SEEKS / 10 {
        history.seek(moment());
        steps.extend((0..10).map(|_| timed(clock, || history.step_back()).0));
    }
    writeln!(out, "{}", spread("a step back", &mut steps))?;
    history.seek(until);
    let mut seconds: Vec<Duration> = (0..SEEKS as i64)
        .map(|second| {
            let next = until.plus_ms((second + 1) * 1000);
            let kept = timed(clock, || history.present().checkpoint());
            kept.0 + timed(clock, || history.run(next, u64::MAX, StopsAt::Nothing)).0
        })
        .collect();
    writeln!(out, "{}", spread("checkpoint, 1 s of run", &mut seconds))?;
    compare(clock, history.present(), out)
}

/// Two runs on one clock: real seconds that a virtual one takes, of which there are a hundred in a real one at 100x.
fn compare(clock: Clock, run: &Session, out: &mut impl Write) -> io::Result<()> {
    const COMPARED_S: i64 = 120;
    let comparison = Comparison::of_change(run, &Journal::default(), "producers acks=1");
    let mut comparison = comparison.expect("acks is all in the default scenario");
    let mut seconds: Vec<Duration> = (1..=COMPARED_S)
        .map(|second| timed(clock, || comparison.run(Time::from_ms(second * 1000), u64::MAX)).0)
        .collect();
    writeln!(out, "{}", spread("1 s of two runs", &mut seconds))?;
    let (rows, _) = timed(clock, || comparison.rows());
    writeln!(out, "the table of what differs {:.2} ms", ms(rows))
}

fn ms(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1000.0
}

fn spread(what: &str, times: &mut [Duration]) -> String {
    times.sort();
    let at = |percent: usize| ms(times[(times.len() - 1) * percent / 100]);
    format!("{what:<24} median {:>7.2} ms, p95 {:>7.2} ms, longest {:>7.2} ms", at(50), at(95), at(100))
}
