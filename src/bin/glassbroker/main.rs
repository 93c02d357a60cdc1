//! The command-line tool: runs a scenario without a page, checks one, measures the engine, compares it with Kafka.
//!
//! Exit codes: 0 when it did what was asked, 1 when a case of the vectors, a seed of the swarm or an expectation of a scenario
//! failed, 2 when the arguments or a file are wrong.

mod compare;
mod conformance;
mod ledger;
mod rules;
mod run;
mod swarm;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use glassbroker::bench::{assign, engine, growth, history, speed};
use glassbroker::conformance::ConformanceError;
use glassbroker::kafka::time::{Time, parse_us};
use glassbroker::lab::command::CommandError;
use glassbroker::lab::compare::CompareError;
use glassbroker::lab::scenario::schema;
use glassbroker::lab::session::{Options, Session};
use glassbroker::lab::words::count;
use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

const USAGE: &str = "\
usage: glassbroker run FILE [--for 60s] [--seed N] [--strict] [--explain] [--ledger] [--story \"orders-0 17\"] [--ask TEXT]
       glassbroker check FILE
       glassbroker write FILE [--json]
       glassbroker schema
       glassbroker compare FILE --change \"producers acks=1\" [--for 60s] [--seed N]
       glassbroker bench [assign | history | hour | FILE] [--for 60s]
       glassbroker conformance [--vectors DIR]
       glassbroker rules [ID]
       glassbroker swarm --seeds N --virtual-minutes M [--from S] [--threads T] [--plant NAME]

run     prints the narrative of a scenario and, last, the digest of the run; fails if it expects what does not hold
check   says whether a scenario file is right, and where it departs from Kafka's defaults
write   prints a scenario anew, everything said and no comment, as TOML or as JSON
schema  prints the JSON Schema of scenarios
compare  runs a scenario twice, the second time with one thing changed, and says in a table what differs
bench   measures the engine: appends, replication, events at 12, 120 and 1,200 partitions, checkpoints, and the
        page's own cluster at 100 and 10,000 records a second, with its memory; with FILE, events a second on that
        scenario; with assign, what each assignor takes beside Kafka's own; with hour, what an hour keeps in memory;
        with history, how long it takes to go back in time
conformance  lives what Apache Kafka recorded again and says which cases come out as Kafka's
swarm   breaks clusters that are drawn from seeds and holds them to the rules (swarm --help says more)
rules   counts the rules of Kafka that hold here; with an id such as R-REPL-30, or R-REPL, tells them in full

--for   virtual time to run, such as 500ms, 60s, 5min (default 60s, or up to the scenario's last expectation)
--seed  instead of the scenario's seed
--strict  encode and decode every message on its way
--explain  tell the rules of Kafka that the narrative cites
--ledger  tell in numbers what became of the records
--story  tell what became of the record at this offset, or of a producer's record by its number (\"checkout-api 17\")
--change  what is otherwise: a config of all producers, consumers, share-consumers, topics or brokers, or where programs
        commit (\"programs commit before process\")
--ask   answer a question as the page does, such as \"ledger of partition orders-0\"
--vectors  a folder of recordings instead of tests/vectors; a file that nothing reads is an error";

const DEFAULT_SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");
const DEFAULT_TIME: Time = Time::from_ms(60_000);

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if words.next().is_some_and(|word| word == "swarm") {
        return swarm::main(words);
    }
    match arguments()
        .map_err(|error| Failure::Usage(error.to_string()))
        .and_then(|arguments| work(&arguments))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Cases) => ExitCode::FAILURE,
        Err(failure @ Failure::Expectations(_)) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
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
    #[error("{0}: no adapter and no test reads a file of this name")]
    UnreadVectors(String),
    #[error("{0}: there is no recording here that can be run")]
    NoVectors(String),
    #[error("there is no rule {0}")]
    NoRule(String),
    #[error("cases failed")]
    Cases,
    #[error("{} not as the scenario expects", count(*.0, "count"))]
    Expectations(i64),
    #[error(
        "{0:?} asks nothing; questions are ledger, ledger of orders, story orders-0 17, why isr orders-0, why idle consumer-a"
    )]
    NoQuestion(String),
    #[error("{question}: {error}")]
    Question { question: String, error: CommandError },
    #[error("compare needs what is otherwise, as in --change \"producers acks=1\"")]
    NoChange,
    #[error("--change: {0}")]
    Compare(#[from] CompareError),
    #[error("{0}")]
    Output(#[from] io::Error),
}

enum Task {
    Help,
    Run,
    Check,
    Write,
    Schema,
    Compare,
    Bench,
    Conformance,
    Rules,
}

struct Arguments {
    task: Task,
    /// Or the rule that is asked for.
    file: Option<String>,
    /// Another folder than the project's own.
    vectors: Option<String>,
    until: Option<Time>,
    explain: bool,
    /// To be answered at the end.
    questions: Vec<String>,
    /// As JSON and not as TOML.
    json: bool,
    /// What is otherwise in the run that is compared.
    change: Option<String>,
    options: Options,
}

fn arguments() -> Result<Arguments, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut task = None;
    let mut arguments = Arguments {
        task: Task::Help,
        file: None,
        vectors: None,
        until: None,
        explain: false,
        questions: Vec::new(),
        json: false,
        change: None,
        options: Options::default(),
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Arguments { task: Task::Help, ..arguments }),
            Long("for") => arguments.until = Some(parser.value()?.parse_with(duration)?),
            Long("seed") => arguments.options.seed = Some(parser.value()?.parse()?),
            Long("vectors") => arguments.vectors = Some(parser.value()?.string()?),
            Long("explain") => arguments.explain = true,
            Long("ledger") => arguments.questions.push("ledger".to_owned()),
            Long("story") => arguments.questions.push(format!("story {}", parser.value()?.string()?)),
            Long("ask") => arguments.questions.push(parser.value()?.string()?),
            Long("change") => arguments.change = Some(parser.value()?.string()?),
            Long("json") => arguments.json = true,
            Long("strict") => arguments.options.strict = true,
            Value(word) if task.is_none() => task = Some(word.parse_with(parse_task)?),
            Value(file) if arguments.file.is_none() => arguments.file = Some(file.string()?),
            other => return Err(other.unexpected()),
        }
    }
    arguments.task = task.ok_or("a command is missing")?;
    if arguments.file.is_none()
        && !matches!(arguments.task, Task::Bench | Task::Conformance | Task::Rules | Task::Schema)
    {
        return Err("a scenario file is missing".into());
    }
    Ok(arguments)
}

fn parse_task(word: &str) -> Result<Task, &'static str> {
    match word {
        "run" => Ok(Task::Run),
        "check" => Ok(Task::Check),
        "write" => Ok(Task::Write),
        "schema" => Ok(Task::Schema),
        "compare" => Ok(Task::Compare),
        "bench" => Ok(Task::Bench),
        "conformance" => Ok(Task::Conformance),
        "rules" => Ok(Task::Rules),
        _ => Err("it is none of run, check, write, schema, compare, bench, conformance, rules"),
    }
}

fn duration(text: &str) -> Result<Time, &'static str> {
    parse_us(text).map(Time::from_us).ok_or("it is no time such as 500ms, 60s or 5min")
}

fn clock() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Bytes of this process that are resident, as Linux tells them in pages of 4 KiB; 0 where nobody does.
fn memory() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = told.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    resident.unwrap_or(0) * PAGE_BYTES
}

fn work(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments.task {
        Task::Help => writeln!(out, "{USAGE}")?,
        Task::Run => run::run(arguments, &mut out)?,
        Task::Check => run::check(arguments, &mut out)?,
        Task::Write if arguments.json => writeln!(out, "{}", open(arguments)?.scenario().to_json())?,
        Task::Write => write!(out, "{}", open(arguments)?.scenario().to_toml())?,
        Task::Schema => writeln!(out, "{:#}", schema())?,
        Task::Compare => compare::run(arguments, &mut out)?,
        Task::Bench if arguments.file.as_deref() == Some("assign") => assign::run(clock, &mut out)?,
        Task::Bench if arguments.file.as_deref() == Some("hour") => growth::an_hour(memory, &mut out)?,
        Task::Bench if arguments.file.as_deref() == Some("history") => history::history(clock, &mut out)?,
        Task::Bench if arguments.file.is_some() => {
            open(arguments)?;
            let open = || open(arguments).expect("it was opened before");
            engine::scenario(clock, open, arguments.until.unwrap_or(DEFAULT_TIME), &mut out)?;
        }
        Task::Bench => {
            speed::default_cluster(clock, memory, &mut out)?;
            engine::engine(clock, &mut out)?;
        }
        Task::Conformance => conformance::run(arguments.vectors.as_deref(), &mut out)?,
        Task::Rules => rules::run(arguments.file.as_deref(), &mut out)?,
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
