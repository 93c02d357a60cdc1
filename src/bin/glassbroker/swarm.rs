//! `glassbroker swarm`: its arguments, and what it prints.

use std::io::{self, Write};
use std::panic;
use std::process::{self, ExitCode};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use glassbroker::kafka::plant::{self, CAN_PLANT, Plant};
use glassbroker::swarm::finders::{finders, first_seed};
use glassbroker::swarm::pool::{self, Catch, Hunt, Order, Sum};
use glassbroker::swarm::run::{self, Calm, Fault};

const USAGE: &str = "\
usage: glassbroker swarm --seeds N --virtual-minutes M [--from S] [--threads T] [--events E] [--plant NAME]
       glassbroker swarm --plants

Each seed draws a cluster, its topics, its clients and the faults that hit it for M virtual minutes. Every step is held to
the rules from outside; then all faults end and the cluster must come to rest. A failure prints the seed, the digest, the
event and how to run it again, and the exit code is 1.

--seeds            how many seeds (default 20)
--virtual-minutes  how long the faults last in each (default 10)
--from             the first seed (default 0; seeds from 1000000 on have transactions, and there the faults of transactions
                   are planted)
--threads          how many run at a time (default: as many as there are processors)
--events           how many of the last events a failure prints (default 40)
--plant            a fault to plant in the engine; it ends at the first seed that finds it: one of the checks that have to
                   fails, and the seed is calm without the fault. Exit code 1 says that it was found. Needs a build with
                   --features plant
--plants           lists the faults, each with the checks that have to find it";

/// Reads the arguments behind `swarm` and does what they ask for.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let task = match Task::parse(arguments) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match work(task, &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Who reads has gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// What the arguments ask for.
#[derive(Clone, Copy, Debug)]
enum Task {
    Help,
    Plants,
    Run(Order),
    Hunt(Hunt),
}

/// An argument that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ArgumentError {
    #[error("{name} needs a number from {least}, not {value:?}")]
    Number { name: &'static str, least: u64, value: String },
    #[error("{0:?} is none of the faults that --plants lists")]
    NoSuchPlant(String),
    #[error("this build cannot plant a fault; build it with --features plant")]
    CannotPlant,
    #[error("{0} needs a value")]
    NoValue(&'static str),
    #[error("there is no argument {0}")]
    Unknown(String),
}

impl Task {
    /// Reads the arguments behind `swarm`.
    ///
    /// # Errors
    ///
    /// The first argument that cannot be used.
    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Task, ArgumentError> {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        let last_events = run::LAST_EVENTS;
        let mut order = Order { from: 0, seeds: 20, virtual_minutes: 10, threads, last_events };
        let (mut planted, mut from) = (None, None);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = |name, least| number(name, least, arguments.next());
            match argument.as_str() {
                "--help" | "-h" => return Ok(Task::Help),
                "--plants" => return Ok(Task::Plants),
                "--seeds" => order.seeds = number("--seeds", 1)?,
                "--from" => from = Some(number("--from", 0)?),
                "--virtual-minutes" => order.virtual_minutes = number("--virtual-minutes", 1)? as i64,
                "--threads" => order.threads = number("--threads", 1)? as usize,
                "--events" => order.last_events = number("--events", 0)? as usize,
                "--plant" => {
                    let name = arguments.next().ok_or(ArgumentError::NoValue("--plant"))?;
                    planted = Some(plant(&name)?);
                }
                other => return Err(ArgumentError::Unknown(other.to_owned())),
            }
        }
        order.from = from.or(planted.map(first_seed)).unwrap_or(order.from);
        Ok(planted.map_or(Task::Run(order), |plant| Task::Hunt(Hunt { plant, order })))
    }
}

/// A year of minutes is more than anybody waits for, and no sum of them overflows.
const MOST: u64 = 1 << 32;

fn number(name: &'static str, least: u64, value: Option<String>) -> Result<u64, ArgumentError> {
    let value = value.ok_or(ArgumentError::NoValue(name))?;
    let number = value.parse().ok().filter(|number| (least..=MOST).contains(number));
    number.ok_or(ArgumentError::Number { name, least, value })
}

fn plant(name: &str) -> Result<Plant, ArgumentError> {
    let known = plant::named().find(|(known, _)| *known == name);
    let (_, plant) = known.ok_or_else(|| ArgumentError::NoSuchPlant(name.to_owned()))?;
    if CAN_PLANT { Ok(plant) } else { Err(ArgumentError::CannotPlant) }
}

/// Does what was asked for. Whether no seed failed.
fn work(task: Task, out: &mut (impl Write + Send)) -> io::Result<bool> {
    match task {
        Task::Help => writeln!(out, "{USAGE}")?,
        Task::Plants => {
            for (name, plant) in plant::named() {
                let checks: Vec<&str> = finders(plant).iter().map(|check| check.name()).collect();
                writeln!(out, "{name:<33}{}", checks.join(", "))?;
            }
        }
        Task::Run(order) => return run_all(order, out),
        Task::Hunt(hunt) => return find(hunt, out),
    }
    Ok(true)
}

fn run_all(order: Order, out: &mut (impl Write + Send)) -> io::Result<bool> {
    print_panics();
    let start = Instant::now();
    let printed = Mutex::new((&mut *out, Ok(())));
    let sum = pool::run(order, |seed, outcome| {
        let mut printed = printed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (out, result) = &mut *printed;
        if result.is_ok() {
            *result = tell(seed, outcome, order, *out);
        }
    });
    printed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1?;
    summarize(&sum, order, start.elapsed(), out)?;
    Ok(sum.faults.is_empty())
}

fn tell(seed: u64, outcome: &Result<Calm, Fault>, order: Order, out: &mut impl Write) -> io::Result<()> {
    let Err(fault) = outcome else {
        const LINE_EACH: u64 = 100;
        if (seed - order.from + 1).is_multiple_of(LINE_EACH) {
            writeln!(out, "seed {seed} is calm")?;
            out.flush()?;
        }
        return Ok(());
    };
    describe(fault, out)?;
    let minutes = order.virtual_minutes;
    writeln!(out, "  again: glassbroker swarm --from {seed} --seeds 1 --virtual-minutes {minutes}")?;
    out.flush()
}

fn describe(fault: &Fault, out: &mut impl Write) -> io::Result<()> {
    for line in &fault.before {
        writeln!(out, "    {line}")?;
    }
    let Fault { seed, event, at, digest, check, what, .. } = fault;
    writeln!(out, "seed {seed} failed at event {event} ({at}), digest {digest:016x}, check {check}")?;
    writeln!(out, "  {what}")
}

/// Runs seeds with a planted fault. Whether it was not found.
fn find(hunt: Hunt, out: &mut (impl Write + Send)) -> io::Result<bool> {
    print_panics();
    let Hunt { plant, order } = hunt;
    let printed = Mutex::new((&mut *out, Ok(())));
    let found = pool::hunt(hunt, |_, catch| {
        let mut printed = printed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (out, result) = &mut *printed;
        if result.is_ok() {
            *result = tell_catch(catch, *out);
        }
    });
    printed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).1?;
    let name = plant::named().find(|(_, known)| *known == plant).map_or("", |(name, _)| name);
    let Some(Fault { seed, check, .. }) = found else {
        writeln!(out, "{name} is not found in {} seeds from {} on", order.seeds, order.from)?;
        return Ok(true);
    };
    let minutes = order.virtual_minutes;
    writeln!(out, "{name} is found by {check} in seed {seed}, which is calm without it")?;
    writeln!(
        out,
        "  again: glassbroker swarm --from {seed} --seeds 1 --virtual-minutes {minutes} --plant {name}"
    )?;
    Ok(false)
}

fn tell_catch(catch: &Catch, out: &mut impl Write) -> io::Result<()> {
    match catch {
        Catch::Nothing => Ok(()),
        Catch::Found(fault) => describe(fault, out),
        Catch::Elsewhere(Fault { seed, check, what, .. }) => {
            writeln!(out, "seed {seed} failed by check {check}, which does not count: {what}")
        }
    }
}

fn summarize(sum: &Sum, order: Order, elapsed: Duration, out: &mut impl Write) -> io::Result<()> {
    let seconds = elapsed.as_secs_f64();
    let (events, virtual_s) = (sum.events, sum.virtual_ms / 1000);
    writeln!(
        out,
        "{} seeds of {} virtual minutes, {} failed, {events} events, {} checks",
        sum.seeds,
        order.virtual_minutes,
        sum.faults.len(),
        sum.checks,
    )?;
    for (what, count) in sum.counts.named() {
        writeln!(out, "{count:>12} {what}")?;
    }
    writeln!(
        out,
        "{seconds:.1} s on {} threads, {:.0} virtual seconds a second",
        order.threads,
        virtual_s as f64 / seconds
    )
}

/// A panic is told with the place of the run that it ends; where it cannot be caught, it ends the program as a failure
/// does.
fn print_panics() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        default(info);
        let run::Place { seed, digest, event } = run::place();
        eprintln!("seed {seed}: a panic after event {event}, digest {digest:016x}");
        if cfg!(panic = "abort") {
            process::exit(1);
        }
    }));
}
