//! The command-line tool: runs a scenario without a page, checks one, measures the engine, compares it with Kafka.
//!
//! Exit codes: 0 when it did what was asked, 1 when a case of the vectors failed, 2 when the arguments or a file are
//! wrong.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use glassbroker::conformance::{self, ADAPTERS, ConformanceError};
use glassbroker::kafka::time::Time;
use glassbroker::lab::scenario::classroom_settings;
use glassbroker::lab::session::{Options, Session};
use glassbroker::lab::words::{count, parse_us};
use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

const USAGE: &str = "\
usage: glassbroker run FILE [--for 60s] [--seed N] [--strict]
       glassbroker check FILE
       glassbroker bench [FILE] [--for 60s]
       glassbroker conformance [--vectors DIR]

run     prints the narrative of a scenario and, last, the digest of the run
check   says whether a scenario file is right, and where it departs from Kafka's defaults
bench   measures events a second on a scenario (the default cluster without FILE)
conformance  lives what Apache Kafka recorded again and says which cases come out as Kafka's

--for   virtual time to run, such as 500ms, 60s, 5min (default 60s)
--seed  instead of the scenario's seed
--strict  encode and decode every message on its way
--vectors  the folder of recordings (default tests/vectors)";

const DEFAULT_SCENARIO: &str = include_str!("../../static/scenarios/default.toml");
const DEFAULT_TIME: Time = Time::from_ms(60_000);
const BENCH_RUNS: usize = 5;
/// Failures of one file that are printed.
const FIRST_FAILURES: usize = 3;

fn main() -> ExitCode {
    match arguments()
        .map_err(|error| Failure::Usage(error.to_string()))
        .and_then(|arguments| work(&arguments))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Cases) => ExitCode::FAILURE,
        // Who reads has gone (`glassbroker run ... | head`): nothing is wrong.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}\n\n{USAGE}")]
    Usage(String),
    #[error("{0}: {1}")]
    File(String, io::Error),
    #[error("{file}:{line}: {reason}")]
    Scenario { file: String, line: i32, reason: String },
    #[error("{file}: {reason}")]
    Vectors { file: String, reason: ConformanceError },
    #[error("cases failed")]
    Cases,
    #[error("{0}")]
    Output(#[from] io::Error),
}

enum Task {
    Help,
    Run,
    Check,
    Bench,
    Conformance,
}

struct Arguments {
    task: Task,
    file: Option<String>,
    vectors: String,
    until: Time,
    options: Options,
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut task = None;
    let mut arguments = Arguments {
        task: Task::Help,
        file: None,
        vectors: "tests/vectors".to_owned(),
        until: DEFAULT_TIME,
        options: Options::default(),
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Arguments { task: Task::Help, ..arguments }),
            Long("for") => arguments.until = parser.value()?.parse_with(duration)?,
            Long("seed") => arguments.options.seed = Some(parser.value()?.parse()?),
            Long("vectors") => arguments.vectors = parser.value()?.string()?,
            Long("strict") => arguments.options.strict = true,
            Value(word) if task.is_none() => task = Some(word.parse_with(parse_task)?),
            Value(file) if arguments.file.is_none() => arguments.file = Some(file.string()?),
            other => return Err(other.unexpected()),
        }
    }
    arguments.task = task.ok_or("a command is missing")?;
    if arguments.file.is_none() && !matches!(arguments.task, Task::Bench | Task::Conformance) {
        return Err("a scenario file is missing".into());
    }
    Ok(arguments)
}

fn parse_task(word: &str) -> Result<Task, &'static str> {
    match word {
        "run" => Ok(Task::Run),
        "check" => Ok(Task::Check),
        "bench" => Ok(Task::Bench),
        "conformance" => Ok(Task::Conformance),
        _ => Err("it is none of run, check, bench, conformance"),
    }
}

fn duration(text: &str) -> Result<Time, &'static str> {
    parse_us(text).map(Time::from_us).ok_or("it is no time such as 500ms, 60s or 5min")
}

fn work(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments.task {
        Task::Help => writeln!(out, "{USAGE}")?,
        Task::Run => run(arguments, &mut out)?,
        Task::Check => check(arguments, &mut out)?,
        Task::Bench => bench(arguments, &mut out)?,
        Task::Conformance => conformance(&arguments.vectors, &mut out)?,
    }
    Ok(out.flush()?)
}

fn open(arguments: &Arguments) -> Result<Session, Failure> {
    let Some(file) = &arguments.file else {
        return Ok(Session::open(DEFAULT_SCENARIO, arguments.options).expect("the default scenario is right"));
    };
    let text = std::fs::read_to_string(file).map_err(|error| Failure::File(file.clone(), error))?;
    Session::open(&text, arguments.options).map_err(|error| Failure::Scenario {
        file: file.clone(),
        line: error.line,
        reason: error.reason,
    })
}

/// Prints each sentence as it is told.
fn run(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    const EVENTS_AT_A_TIME: u64 = 1000;
    let mut session = open(arguments)?;
    let mut reached = false;
    let mut printed = 0;
    while !reached {
        reached = session.run_until(arguments.until, EVENTS_AT_A_TIME);
        for (number, sentence) in session.narrative().since(printed) {
            writeln!(out, "{sentence}")?;
            printed = number;
        }
    }
    writeln!(out, "digest {:016x}", session.digest())?;
    Ok(())
}

fn check(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let session = open(arguments)?;
    let scenario = session.scenario();
    let parts = [
        count(scenario.brokers.len() as i64, "broker"),
        count(scenario.topics.len() as i64, "topic"),
        count(scenario.producers.len() as i64, "producer"),
        count(scenario.consumers.len() as i64, "consumer"),
        count(scenario.at.len() as i64, "timed command"),
    ];
    writeln!(out, "a scenario with {}", parts.join(", "))?;
    for setting in classroom_settings(scenario) {
        writeln!(out, "{setting}")?;
    }
    Ok(())
}

/// Prints a line for each file of recordings, then the first failures.
fn conformance(folder: &str, out: &mut impl Write) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (name, adapter) in ADAPTERS {
        let file = format!("{folder}/{name}");
        let text = std::fs::read_to_string(&file).map_err(|error| Failure::File(file.clone(), error))?;
        let report = adapter(&text).map_err(|reason| Failure::Vectors { file, reason })?;
        writeln!(out, "{name:<40} {:>5} cases {:>5} passed", report.cases, report.passed)?;
        failures.extend(report.failures.into_iter().take(FIRST_FAILURES).map(|failure| (name, failure)));
    }
    for (name, failure) in &failures {
        let conformance::Failure { place, expected, got } = failure;
        writeln!(out, "{name}: {place}\n  expected {expected}\n  got      {got}")?;
    }
    out.flush()?;
    if failures.is_empty() { Ok(()) } else { Err(Failure::Cases) }
}

/// The median of some runs of the same scenario.
fn bench(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for _ in 0..BENCH_RUNS {
        let mut session = open(arguments)?;
        let begin = Instant::now();
        while !session.run_until(arguments.until, u64::MAX) {}
        runs.push((begin.elapsed(), session.events_done()));
    }
    runs.sort();
    let (elapsed, events) = runs[BENCH_RUNS / 2];
    let seconds = elapsed.as_secs_f64();
    let virtual_s = arguments.until.us() as f64 / 1e6;
    writeln!(out, "{events} events in {:.1} ms, the median of {BENCH_RUNS} runs", seconds * 1000.0)?;
    writeln!(out, "{:.0} events a second", events as f64 / seconds)?;
    writeln!(out, "{:.0} virtual seconds in a real second", virtual_s / seconds)?;
    Ok(())
}
