//! The run that the page drives: a session and how fast it goes.
//!
//! **Invariant:** a frame does at most a few milliseconds of work; what does not fit is done in the next one.

use std::rc::Rc;

use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::lab::pace::{self, FLIGHTS_UP_TO, Pace, Step, StopsAt};
use crate::lab::scenario::ScenarioError;
use crate::lab::session::{CommandFailure, Options, Session, Stop};
use crate::sim::Refusal;

/// The cluster that the page opens with.
pub const DEFAULT_SCENARIO: &str = include_str!("../../static/scenarios/default.toml");
/// Time of the reader that one frame may spend on the run, in milliseconds.
const BUDGET_MS: f64 = 4.0;
/// How long a measurement takes, in milliseconds.
const MEASURED_MS: f64 = 1000.0;
/// Events between two looks at the clock.
const EVENTS_AT_ONCE: u64 = 32;
/// "Run to the next change" gives up after this much virtual time.
const LONGEST_SEARCH_MS: i64 = 120_000;
/// As [`BUDGET_MS`], while there is nothing to look at.
const UNSEEN_BUDGET_MS: f64 = 12.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Paused,
    Playing,
    /// Runs unseen up to the moment at which the scenario opens.
    Opening,
    /// Runs until the narrative has another sentence, at the latest until `deadline`.
    ToNextChange {
        deadline: Time,
    },
}

/// What the transport shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    pub playing: bool,
    pub automatic: bool,
    /// Virtual milliseconds in a real millisecond.
    pub speed: f64,
    /// Why the present speed is what it is.
    pub reason: &'static str,
    pub clock: Rc<str>,
}

pub struct Run {
    pub name: Rc<str>,
    pub session: Session,
    pace: Pace,
    mode: Mode,
    reason: &'static str,
    /// Events of the trace that were looked through for refusals.
    heard: u64,
}

impl Run {
    /// Opens a scenario; it comes to its start in the frames that follow.
    ///
    /// # Errors
    /// What is wrong in the text, with its place.
    pub fn open(name: &str, text: &str) -> Result<Run, ScenarioError> {
        let session = Session::open(text, Options::default())?;
        Ok(Run {
            name: Rc::from(name),
            session,
            pace: Pace::default(),
            mode: Mode::Opening,
            reason: "opening",
            heard: 0,
        })
    }

    pub fn transport(&self) -> Transport {
        Transport {
            playing: self.mode != Mode::Paused,
            automatic: self.pace.mode == pace::Mode::Automatic,
            speed: self.pace.speed(),
            reason: self.reason,
            clock: Rc::from(self.session.now().to_string()),
        }
    }

    /// Whether a flight of some tens of milliseconds can be followed with the eye.
    pub fn shows_flights(&self) -> bool {
        self.pace.speed() <= FLIGHTS_UP_TO
    }

    pub fn play_or_pause(&mut self) {
        self.mode = match self.mode {
            Mode::Paused if self.session.now() < self.session.scenario().start => Mode::Opening,
            Mode::Paused => Mode::Playing,
            Mode::Opening | Mode::Playing | Mode::ToNextChange { .. } => Mode::Paused,
        };
        self.reason = match self.mode {
            Mode::Paused => "paused",
            Mode::Opening => "opening",
            Mode::Playing | Mode::ToNextChange { .. } => "playing",
        };
    }

    /// Takes one event from the queue.
    pub fn step(&mut self) {
        self.mode = Mode::Paused;
        self.reason = "paused";
        self.session.step();
    }

    pub fn run_to_next_change(&mut self) {
        let deadline = self.session.now().plus_ms(LONGEST_SEARCH_MS);
        self.mode = Mode::ToNextChange { deadline };
    }

    /// `None` is the automatic speed.
    pub fn choose_speed(&mut self, step: Option<Step>) {
        self.pace.mode = step.map_or(pace::Mode::Automatic, pace::Mode::Fixed);
    }

    /// Gives a command.
    ///
    /// # Errors
    /// Why it was not carried out, in one sentence.
    pub fn command(&mut self, text: &str) -> Result<(), String> {
        self.session.command(text).map_err(|failure| sentence(&failure))
    }

    /// A command that Kafka has refused since the last look, and why.
    pub fn take_refusal(&mut self) -> Option<(String, String)> {
        let trace = self.session.world().trace();
        let new = trace.since(self.heard);
        self.heard = trace.len_ever();
        let mut refusals = new.filter_map(|entry| match &entry.event {
            Event::CommandRefused { text, error, message } => {
                Some((text.clone(), format!("{}: {message}", error.name())))
            }
            _ => None,
        });
        refusals.next_back()
    }

    /// The commands so far, one a line.
    pub fn journal(&self) -> String {
        let lines =
            self.session.journal().entries().iter().map(|entry| format!("{}  {}", entry.time, entry.text));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Runs a copy of the scenario from its start for a good second of the reader's time, and says how far it came.
    pub fn measure(&self, clock: &dyn Fn() -> f64) -> String {
        let Ok(mut copy) = Session::open(self.session.text(), Options::default()) else {
            return String::new();
        };
        let started_ms = clock();
        while clock() < started_ms + MEASURED_MS {
            copy.run(Time::MAX, EVENTS_AT_ONCE * 32, StopsAt::Nothing);
        }
        let seconds = (clock() - started_ms) / 1000.0;
        let (events, virtual_s) =
            (copy.events_done() as f64 / seconds, copy.now().ms() as f64 / 1000.0 / seconds);
        format!(
            "This browser carries out {events:.0} events a second: {virtual_s:.0} virtual seconds in a real one."
        )
    }

    /// Goes on for a frame of `elapsed_ms`; whether there is anything new.
    pub fn go_on(&mut self, elapsed_ms: f64, clock: &dyn Fn() -> f64) -> bool {
        match self.mode {
            Mode::Paused => {
                self.pace.frame(0.0, &self.session.situation());
                false
            }
            Mode::Playing => {
                self.play(elapsed_ms, clock);
                true
            }
            Mode::Opening => {
                self.come_up(clock);
                true
            }
            Mode::ToNextChange { deadline } => {
                self.search(deadline, clock);
                true
            }
        }
    }

    fn play(&mut self, elapsed_ms: f64, clock: &dyn Fn() -> f64) {
        let frame = self.pace.frame(elapsed_ms, &self.session.situation());
        self.reason = frame.reason.text();
        let target = self.session.now().plus_us(frame.virtual_us);
        // A frame that comes upon something worth seeing ends there, and the next one is slow.
        if self.run_to(target, frame.stops_at(), BUDGET_MS, clock) == Stop::OutOfEvents {
            self.reason = "as fast as this machine can";
        }
    }

    fn come_up(&mut self, clock: &dyn Fn() -> f64) {
        if self.run_to(self.session.scenario().start, StopsAt::Nothing, UNSEEN_BUDGET_MS, clock)
            == Stop::Reached
        {
            self.session.look_anew();
            self.mode = Mode::Playing;
        }
    }

    fn search(&mut self, deadline: Time, clock: &dyn Fn() -> f64) {
        self.reason = "running to the next change";
        let until_ms = clock() + UNSEEN_BUDGET_MS;
        while clock() < until_ms {
            let found = self.session.run_to_next_change(EVENTS_AT_ONCE);
            if found || self.session.now() >= deadline {
                self.mode = Mode::Paused;
                self.reason = if found { "at the next change" } else { "nothing new in two minutes" };
                return;
            }
        }
    }

    fn run_to(&mut self, target: Time, stops_at: StopsAt, budget_ms: f64, clock: &dyn Fn() -> f64) -> Stop {
        let until_ms = clock() + budget_ms;
        loop {
            let stop = self.session.run(target, EVENTS_AT_ONCE, stops_at);
            if stop != Stop::OutOfEvents || clock() >= until_ms {
                return stop;
            }
        }
    }
}

/// Kafka's name of the error, if it has one, and the reason.
fn sentence(failure: &CommandFailure) -> String {
    match failure {
        CommandFailure::Refused(Refusal { error: Some(error), reason }) if *error != ErrorCode::None => {
            format!("{}: {reason}", error.name())
        }
        other => other.to_string(),
    }
}
