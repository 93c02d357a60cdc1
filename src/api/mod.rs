//! The sandbox for programs: a small JavaScript class over a session.
//!
//! ```js
//! const sandbox = new Sandbox(scenarioText);
//! sandbox.run(10_000);                       // virtual milliseconds
//! sandbox.command("kill broker 1");          // throws an Error that says why not
//! sandbox.ask("story orders-0 17");          // what became of a record, and why
//! sandbox.snapshot().partitions[0].leader;
//! sandbox.digest();                          // "9aa20f47d291317b"
//! ```
//!
//! **Invariant:** a call that throws has changed nothing.

mod snapshot;

use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::lab::session::{Options, Session};
pub use snapshot::Snapshot;

/// More than a day at once is a mistake.
const LONGEST_RUN_MS: f64 = 86_400_000.0;

#[wasm_bindgen]
pub struct Sandbox {
    session: Session,
}

#[wasm_bindgen]
impl Sandbox {
    /// Opens a scenario (TOML) at virtual time 0.
    ///
    /// # Errors
    /// `line L: reason` for a scenario that is wrong.
    #[wasm_bindgen(constructor)]
    pub fn new(scenario: &str) -> Result<Sandbox, JsError> {
        let session = Session::open(scenario, Options::default());
        let session =
            session.map_err(|error| JsError::new(&format!("line {}: {}", error.line, error.reason)))?;
        Ok(Sandbox { session })
    }

    /// Carries out a command in its text form, now.
    ///
    /// # Errors
    /// Why it was not carried out. What only the cluster can judge comes back in the narrative instead.
    pub fn command(&mut self, text: &str) -> Result<(), JsError> {
        self.session.command(text).map_err(|failure| JsError::new(&failure.to_string()))
    }

    /// The answer to a question, such as `ledger of orders` or `story orders-0 17`, in lines.
    ///
    /// # Errors
    /// The text is no question, cannot be read, or asks for what there is not, with its place.
    pub fn ask(&self, text: &str) -> Result<String, JsError> {
        let answer = self.session.ask(text).ok_or_else(|| JsError::new("that asks nothing"))?;
        answer.map(|lines| lines.join("\n")).map_err(|error| JsError::new(&error.to_string()))
    }

    /// Runs for `ms` of virtual time.
    ///
    /// # Errors
    /// A time that is negative, not a number or longer than a day.
    pub fn run(&mut self, ms: f64) -> Result<(), JsError> {
        if !(0.0..=LONGEST_RUN_MS).contains(&ms) {
            return Err(JsError::new(&format!("a run takes 0 to {LONGEST_RUN_MS} ms, not {ms}")));
        }
        let until = self.session.now().plus_us((ms * 1000.0) as i64);
        self.session.run_until(until, u64::MAX);
        Ok(())
    }

    /// The cluster, its clients and the latest sentences, as plain objects. Offsets are numbers below 2^53.
    pub fn snapshot(&self) -> Result<JsValue, JsError> {
        let serializer = serde_wasm_bindgen::Serializer::json_compatible();
        Snapshot::of(&self.session).serialize(&serializer).map_err(|error| JsError::new(&error.to_string()))
    }

    /// Sixteen hexadecimal digits that say everything that has happened.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.session.digest())
    }

    /// Virtual milliseconds since the start.
    #[wasm_bindgen(getter)]
    pub fn now(&self) -> f64 {
        self.session.now().us() as f64 / 1000.0
    }
}
