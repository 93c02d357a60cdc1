//! 06a: what Kafka's coordinator answered to scripted clients of one classic group, and what became of the group (R-GRP-6 to
//! 27, 36).
//!
//! **Invariant:** the clock moves only where a script sleeps, and timers run out in the recorded order.

mod bench;
mod request;
mod said;

use std::collections::{BTreeSet, VecDeque};

use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::values::Hex;
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::group::GroupConfig;
use bench::Bench;
use said::{Group, Said};

const FILE: &str = "06a_group_classic_protocol.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    #[serde(rename = "what")]
    _what: IgnoredAny,
    config: Config,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// `None`: any number.
    group_max_size: Option<i32>,
    initial_rebalance_delay_ms: i64,
    min_session_timeout_ms: i32,
    max_session_timeout_ms: i32,
    new_member_join_timeout_ms: i64,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Step {
    Join(Asked<Join>),
    Sync(Asked<Sync>),
    Heartbeat(Asked<Caller>),
    Leave(Asked<Leaver>),
    Commit(Asked<Caller>),
    Sleep(Slept),
}

/// A request, the answers that it set free, and the group afterwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<T> {
    at: i64,
    args: T,
    responses: Vec<Said>,
    group: Group,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Slept {
    at: i64,
    args: Sleep,
    /// Each a deadline and the timer's name.
    timers_fired: Vec<(i64, String)>,
    responses: Vec<Said>,
    group: Group,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Join {
    client: String,
    member_id: String,
    instance_id: Option<String>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    /// The newest version of JoinGroup, or one that does not know of this.
    requires_known_member_id: bool,
    protocols: Vec<(String, Hex)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sync {
    client: String,
    member_id: String,
    instance_id: Option<String>,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    assignments: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Caller {
    client: String,
    member_id: String,
    instance_id: Option<String>,
    generation: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leaver {
    client: String,
    member_id: String,
    instance_id: Option<String>,
}

/// Runs every script of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, script: &Script| Ok(outcome(script)))
}

fn outcome(script: &Script) -> Result<(), Failure> {
    let mut bench = Bench::new(script.config.settings(), script.given_ids());
    for (number, step) in script.steps.iter().enumerate() {
        let place = format!("{} step {number}", script.name);
        step.at(&mut bench).map_err(|failure| failure.within(&place))?;
    }
    Ok(())
}

impl Config {
    fn settings(&self) -> GroupConfig {
        GroupConfig {
            initial_rebalance_delay_ms: self.initial_rebalance_delay_ms,
            min_session_timeout_ms: self.min_session_timeout_ms,
            max_session_timeout_ms: self.max_session_timeout_ms,
            max_size: self.group_max_size.unwrap_or(i32::MAX),
            new_member_join_timeout_ms: self.new_member_join_timeout_ms,
            ..GroupConfig::default()
        }
    }
}

impl Script {
    /// What Kafka's coordinator took for the member ids that it gave, in turn.
    fn given_ids(&self) -> VecDeque<Uuid> {
        let mut seen = BTreeSet::new();
        let mut given = VecDeque::new();
        for step in &self.steps {
            let (responses, group, made_up) = match step {
                Step::Join(asked) => (&asked.responses, &asked.group, Some(&asked.args.member_id)),
                Step::Sync(asked) => (&asked.responses, &asked.group, None),
                Step::Heartbeat(asked) | Step::Commit(asked) => (&asked.responses, &asked.group, None),
                Step::Leave(asked) => (&asked.responses, &asked.group, None),
                Step::Sleep(slept) => (&slept.responses, &slept.group, None),
            };
            seen.extend(made_up.cloned());
            for id in responses.iter().filter_map(Said::member_id).chain(group.member_ids()) {
                if seen.insert(id.to_owned()) {
                    given.extend(
                        id.split_at_checked(id.len().saturating_sub(36))
                            .and_then(|(_, id)| id.parse::<Uuid>().ok()),
                    );
                }
            }
        }
        given
    }
}

impl Step {
    fn at(&self, bench: &mut Bench) -> Result<(), Failure> {
        match self {
            Step::Join(asked) => asked.at(bench, |args, bench| bench.join(args)),
            Step::Sync(asked) => asked.at(bench, |args, bench| bench.send(&args.client, args.request())),
            Step::Heartbeat(asked) => {
                asked.at(bench, |args, bench| bench.send(&args.client, args.heartbeat()))
            }
            Step::Commit(asked) => asked.at(bench, |args, bench| bench.send(&args.client, args.commit())),
            Step::Leave(asked) => asked.at(bench, |args, bench| bench.send(&args.client, args.request())),
            Step::Sleep(slept) => slept.at(bench),
        }
    }
}

impl<T> Asked<T> {
    fn at(&self, bench: &mut Bench, ask: impl FnOnce(&T, &mut Bench)) -> Result<(), Failure> {
        check(|| "time".to_owned(), &self.at, &bench.now.ms())?;
        ask(&self.args, bench);
        compare(bench, &self.responses, &self.group)
    }
}

impl Slept {
    fn at(&self, bench: &mut Bench) -> Result<(), Failure> {
        let end = bench.now.plus_ms(self.args.ms);
        let fired = bench.sleep(end, &self.timers_fired);
        check(|| "timers fired".to_owned(), &self.timers_fired, &fired)?;
        check(|| "time".to_owned(), &self.at, &bench.now.ms())?;
        compare(bench, &self.responses, &self.group)
    }
}

/// The scripts give no order to the answers of one step.
fn compare(bench: &mut Bench, responses: &[Said], group: &Group) -> Result<(), Failure> {
    let sorted = |mut answers: Vec<Said>| {
        answers.sort_by_key(|said| format!("{said:?}"));
        answers
    };
    let expected = responses.iter().map(Said::as_answered).collect();
    check(|| "answers".to_owned(), &sorted(expected), &sorted(bench.take_answers()))?;
    check(|| "group".to_owned(), group, &bench.group())
}
