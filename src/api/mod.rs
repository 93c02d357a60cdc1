//! The sandbox for programs: a small JavaScript class over a run that can be rewound.
//!
//! ```js
//! const sandbox = new Sandbox(scenarioText); // TOML or JSON
//! sandbox.run(10_000);                       // virtual milliseconds
//! sandbox.command("kill broker 1");          // throws an Error that says why not
//! sandbox.ask("story orders-0 17");          // what became of a record, and why
//! sandbox.snapshot().partitions[0].leader;
//! sandbox.digest();                          // "9aa20f47d291317b"
//! sandbox.seek(4_000);                       // back; a command given here begins a branch
//! sandbox.branches();                        // [{ name: "main", end: 10000, current: true }]
//! sandbox.compare("producers acks=1").rows;  // what would be otherwise
//! Sandbox.openLink(sandbox.link("demo"));    // the same run, at the same moment
//! ```
//!
//! - [`snapshot`]: what a program sees of the cluster
//! - [`comparison`]: what it sees of two runs
//!
//! **Invariant:** a call that throws has changed nothing.

mod comparison;
mod snapshot;

use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::kafka::time::Time;
use crate::lab::compare::Comparison;
use crate::lab::history::{BranchId, History};
use crate::lab::link::replay::{Progress, Replay};
use crate::lab::link::{self, Link};
use crate::lab::pace::StopsAt;
use crate::lab::session::Options;
pub use comparison::Compared;
pub use snapshot::Snapshot;

/// More than a day at once is a mistake.
const LONGEST_RUN_MS: f64 = 86_400_000.0;

#[wasm_bindgen]
pub struct Sandbox {
    history: History,
}

/// One course of the run.
#[derive(Serialize)]
struct Branch<'a> {
    name: &'a str,
    /// How far it was ever run, in virtual milliseconds.
    end: i64,
    current: bool,
}

fn error(reason: impl ToString) -> JsError {
    JsError::new(&reason.to_string())
}

fn to_js(value: &impl Serialize) -> Result<JsValue, JsError> {
    value.serialize(&serde_wasm_bindgen::Serializer::json_compatible()).map_err(error)
}

#[wasm_bindgen]
impl Sandbox {
    /// Opens a scenario (TOML or JSON) at virtual time 0.
    ///
    /// # Errors
    /// `line L: reason` for a scenario that is wrong.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str) -> Result<Sandbox, JsError> {
        let history = History::open(scenario, Options::default());
        let history = history.map_err(|wrong| error(format!("line {}: {}", wrong.line, wrong.reason)))?;
        Ok(Sandbox { history })
    }

    /// Opens what [`Sandbox::link`] gave, or the file of a saved run with its branches, and lives it again up to its moment.
    ///
    /// # Errors
    /// The text is none or of a newer version, or this version does otherwise than the one that made it, and from when on.
    #[wasm_bindgen(js_name = openLink)]
    pub fn open_link(text: &str) -> Result<Sandbox, JsError> {
        let (mut history, mut replay) =
            Replay::open(&link::text::decode(text).map_err(error)?).map_err(error)?;
        loop {
            match replay.go_on(&mut history, u64::MAX) {
                Progress::UnderWay => {}
                Progress::Arrived => return Ok(Sandbox { history }),
                Progress::Parted { same_until, before, refused: None } => {
                    return Err(error(format!("it is the same up to {same_until} and another at {before}")));
                }
                Progress::Parted { refused: Some((command, reason)), .. } => {
                    return Err(error(format!("{command}: {reason}")));
                }
            }
        }
    }

    /// Carries out a command in its text form, now. In the past it begins a branch, which becomes the present one.
    ///
    /// # Errors
    /// Why it was not carried out. What only the cluster can judge comes back in the narrative instead.
    pub fn command(&mut self, text: &str) -> Result<(), JsError> {
        self.history.command(text).map_err(error)
    }

    /// The answer to a question, such as `ledger of orders`, `story orders-0 17` or `why isr orders-0`, in lines.
    ///
    /// # Errors
    /// The text is no question, cannot be read, or asks for what there is not, with its place.
    pub fn ask(&self, text: &str) -> Result<String, JsError> {
        let answer = self.history.present().ask(text).ok_or_else(|| error("that asks nothing"))?;
        answer.map(|lines| lines.join("\n")).map_err(error)
    }

    /// Runs for `ms` of virtual time.
    ///
    /// # Errors
    /// A time that is negative, not a number or longer than a day.
    pub fn run(&mut self, ms: f64) -> Result<(), JsError> {
        let until = self.history.present().now().plus_us((checked("a run takes", ms)? * 1000.0) as i64);
        self.history.run(until, u64::MAX, StopsAt::Nothing);
        Ok(())
    }

    /// Goes to a moment of the present branch, `ms` after the start, at the latest to its end.
    ///
    /// # Errors
    /// A time that is negative, not a number or longer than a day.
    pub fn seek(&mut self, ms: f64) -> Result<(), JsError> {
        self.history.seek(Time::from_us((checked("a moment is at", ms)? * 1000.0) as i64));
        Ok(())
    }

    /// Takes the last event back; `false` at the start.
    #[wasm_bindgen(js_name = stepBack)]
    pub fn step_back(&mut self) -> bool {
        self.history.step_back()
    }

    /// The courses that the run has taken, the first first: `name`, `end` in virtual milliseconds, `current`.
    pub fn branches(&self) -> Result<JsValue, JsError> {
        let current = self.history.current();
        let branches = self.history.branches().map(|(id, branch)| Branch {
            name: &branch.name,
            end: branch.end.time.ms(),
            current: id == current,
        });
        to_js(&branches.collect::<Vec<_>>())
    }

    /// Goes over to another branch, the first is 0: to the present time if it has come so far, else to its end.
    ///
    /// # Errors
    /// There is no such branch.
    #[wasm_bindgen(js_name = switchTo)]
    pub fn switch_to(&mut self, branch: usize) -> Result<(), JsError> {
        if self.history.branch(BranchId(branch)).is_none() {
            let count = self.history.branches().count();
            return Err(error(format!("there is no branch {branch}: there are {count}, the first is 0")));
        }
        self.history.switch(BranchId(branch));
        Ok(())
    }

    /// A text of the run up to now, as the page's address has it behind `#/s/`; `name` is what the page calls it then.
    pub fn link(&self, name: &str) -> String {
        link::text::encode(&Link::to(name, &self.history))
    }

    /// The run so far, and the same with one thing otherwise: `producers acks=1`, `programs commit before process`. Both
    /// are lived from the start.
    ///
    /// # Errors
    /// The change is none, changes nothing, or gives a scenario that cannot be.
    pub fn compare(&self, change: &str) -> Result<JsValue, JsError> {
        let run = self.history.present();
        let mut comparison = Comparison::of_change(run, run.journal(), change).map_err(error)?;
        comparison.run(comparison.until(), u64::MAX);
        to_js(&Compared::of(&comparison))
    }

    /// The cluster, its clients and the latest sentences, as plain objects. Offsets are numbers below 2^53.
    pub fn snapshot(&self) -> Result<JsValue, JsError> {
        to_js(&Snapshot::of(self.history.present()))
    }

    /// Sixteen hexadecimal digits that say everything that has happened.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.history.present().digest())
    }

    /// Virtual milliseconds since the start.
    #[wasm_bindgen(getter)]
    pub fn now(&self) -> f64 {
        self.history.present().now().us() as f64 / 1000.0
    }
}

fn checked(what: &str, ms: f64) -> Result<f64, JsError> {
    if !(0.0..=LONGEST_RUN_MS).contains(&ms) {
        return Err(error(format!("{what} 0 to {LONGEST_RUN_MS} ms, not {ms}")));
    }
    Ok(ms)
}
