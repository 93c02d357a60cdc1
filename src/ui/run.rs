//! The run that the page drives: a history, where it stands, and how fast it goes.
//!
//! **Invariant:** a frame does at most a few milliseconds of work; what does not fit is done in the next one.

use std::rc::Rc;

use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::lab::footprint::{Footprint, Limit};
use crate::lab::history::{BranchId, History, MarkKind};
use crate::lab::link::replay::{OpenError, Progress, Replay};
use crate::lab::link::saved::Saved;
use crate::lab::link::{self, Link};
use crate::lab::pace::{self, FLIGHTS_UP_TO, Pace, Step, StopsAt};
use crate::lab::scenario::ScenarioError;
use crate::lab::session::{CommandFailure, Options, Session, Stop};
use crate::sim::Refusal;

/// The cluster that the page opens with.
pub const DEFAULT_NAME: &str = "Default cluster";
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
pub const UNSEEN_BUDGET_MS: f64 = 12.0;

/// Why a run stands still that nobody has paused.
pub const FULL: &str = "the page holds as much as it may";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Paused,
    Playing,
    /// Runs unseen up to the moment at which the scenario opens.
    Opening,
    /// Lives a linked run again, unseen, up to the moment that is linked to.
    Replaying,
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
    /// There are no steps and no marks.
    pub plays_only: bool,
}

pub struct Run {
    pub name: Rc<str>,
    history: History,
    pace: Pace,
    mode: Mode,
    /// Where the reader wants to be, who may move faster than a frame can follow.
    wanted: Option<Time>,
    /// What is left of a linked run.
    replay: Option<Replay>,
    /// That it went otherwise here.
    parted: Option<String>,
    /// The run is not where it was at the last look: nothing of the picture before may be kept.
    jumped: bool,
    reason: &'static str,
    /// Events of the trace that were looked through for refusals.
    heard: u64,
    limit: Limit,
    /// That the page holds as much as it may.
    full: Option<String>,
}

impl Run {
    /// Opens a scenario; it comes to its start in the frames that follow.
    ///
    /// # Errors
    /// What is wrong in the text, with its place.
    pub fn open(name: &str, text: &str) -> Result<Run, ScenarioError> {
        let history = History::open(text, Options::default())?;
        Ok(Run {
            name: Rc::from(name),
            history,
            pace: Pace::default(),
            mode: Mode::Opening,
            wanted: None,
            replay: None,
            parted: None,
            jumped: false,
            reason: "opening",
            heard: 0,
            limit: Limit::default(),
            full: None,
        })
    }

    /// Opens a link; the run comes to the moment that is linked to in the frames that follow.
    ///
    /// # Errors
    /// Why this version cannot open it.
    pub fn open_link(text: &str) -> Result<Run, OpenError> {
        let content = link::text::decode(text)?;
        let (history, replay) = Replay::open(&content)?;
        Ok(Run {
            name: Rc::from(content.name()),
            history,
            pace: Pace::default(),
            mode: Mode::Replaying,
            wanted: None,
            replay: Some(replay),
            parted: None,
            jumped: false,
            reason: "living the run again",
            heard: 0,
            limit: Limit::default(),
            full: None,
        })
    }

    /// Whether somebody would miss it: it is no longer, or never was, the cluster that the page opens with.
    pub fn is_worth_keeping(&self) -> bool {
        let is_own =
            self.session().text() != DEFAULT_SCENARIO || !self.session().journal().entries().is_empty();
        self.replay.is_none() && (is_own || self.history.branches().count() > 1)
    }

    /// All of it, with its branches.
    pub fn saved(&self) -> Saved {
        Saved::of(&self.name, &self.history)
    }

    /// A link that leads to the present.
    pub fn link(&self) -> Link {
        Link::to(&self.name, &self.history)
    }

    pub fn session(&self) -> &Session {
        self.history.present()
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// Whether the run stands elsewhere than where it went on from the last look.
    pub fn take_jump(&mut self) -> bool {
        let jumped = std::mem::take(&mut self.jumped);
        if jumped {
            self.heard = self.session().world().trace().len_ever();
        }
        jumped
    }

    pub fn transport(&self) -> Transport {
        Transport {
            playing: self.mode != Mode::Paused,
            automatic: self.pace.mode == pace::Mode::Automatic,
            speed: self.pace.speed(),
            reason: self.reason,
            clock: Rc::from(self.session().now().to_string()),
            plays_only: false,
        }
    }

    /// Whether a flight of some tens of milliseconds can be followed with the eye.
    pub fn shows_flights(&self) -> bool {
        self.pace.speed() <= FLIGHTS_UP_TO
    }

    pub fn play_or_pause(&mut self) {
        self.mode = match self.mode {
            Mode::Paused if self.replay.is_some() => Mode::Replaying,
            Mode::Paused if self.session().now() < self.session().scenario().start => Mode::Opening,
            Mode::Paused => Mode::Playing,
            Mode::Replaying | Mode::Opening | Mode::Playing | Mode::ToNextChange { .. } => Mode::Paused,
        };
        self.reason = match self.mode {
            Mode::Paused => "paused",
            Mode::Opening => "opening",
            Mode::Replaying => "living the run again",
            Mode::Playing | Mode::ToNextChange { .. } => "playing",
        };
    }

    pub fn pause(&mut self) {
        if self.mode != Mode::Paused {
            self.play_or_pause();
        }
    }

    /// Takes one event from the queue.
    pub fn step(&mut self) {
        self.stand_still();
        self.arrive();
        self.history.step();
    }

    /// Takes the last event back.
    pub fn step_back(&mut self) {
        self.stand_still();
        self.arrive();
        self.jumped |= self.history.step_back();
    }

    /// Goes to a moment of what was already run, with the next frame.
    pub fn seek(&mut self, time: Time) {
        self.stand_still();
        self.wanted = Some(time);
    }

    /// Goes to the nearest mark before or after the present, of a kind if one is given; `false` if there is none.
    pub fn go_to_mark(&mut self, after: bool, kind: Option<MarkKind>) -> bool {
        self.stand_still();
        self.arrive();
        let found = self.history.go_to_mark(after, |of| kind.is_none_or(|kind| kind == of));
        self.jumped |= found;
        found
    }

    /// Goes over to another branch.
    pub fn switch(&mut self, branch: BranchId) {
        self.stand_still();
        self.wanted = None;
        self.history.switch(branch);
        self.jumped = true;
    }

    pub fn rename(&mut self, branch: BranchId, name: &str) {
        self.history.rename(branch, name);
    }

    /// What a person does ends the replay of a link: the rest of its commands is the future of this run.
    fn stand_still(&mut self) {
        self.replay = None;
        self.mode = Mode::Paused;
        self.reason = "paused";
    }

    fn arrive(&mut self) -> bool {
        let Some(time) = self.wanted.take() else { return false };
        self.history.seek(time);
        self.jumped = true;
        true
    }

    pub fn run_to_next_change(&mut self) {
        self.stand_still();
        self.arrive();
        let deadline = self.session().now().plus_ms(LONGEST_SEARCH_MS);
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
        if self.replay.is_some() {
            self.stand_still();
        }
        self.arrive();
        self.history.command(text).map_err(|failure| sentence(&failure))
    }

    /// A command that Kafka has refused since the last look, and why.
    pub fn take_refusal(&mut self) -> Option<(String, String)> {
        let trace = self.history.present().world().trace();
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
        let lines = self
            .session()
            .journal()
            .entries()
            .iter()
            .map(|entry| format!("{}  {}", entry.place.time, entry.text));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Runs a copy of the scenario from its start for a good second of the reader's time, and says how far it came, and how long
    /// this run can be held.
    pub fn measure(&self, held_bytes: u64, clock: &dyn Fn() -> f64) -> String {
        let Ok(mut copy) = Session::open(self.session().text(), Options::default()) else {
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
            "This browser carries out {events:.0} events a second: {virtual_s:.0} virtual seconds in a real one. {}",
            self.outlook(held_bytes)
        )
    }

    /// What the page holds in memory, and for how long the run can go on.
    pub fn outlook(&self, held_bytes: u64) -> String {
        self.limit.outlook(held_bytes, &Footprint::of(self.session()))
    }

    /// Goes on for a frame of `elapsed_ms`; whether there is anything new. `held_bytes`: what the page holds in memory.
    pub fn go_on(&mut self, elapsed_ms: f64, held_bytes: u64, clock: &dyn Fn() -> f64) -> bool {
        let arrived = self.arrive();
        if self.mode != Mode::Paused && self.fills_up(held_bytes) {
            self.mode = Mode::Paused;
            self.reason = FULL;
            return true;
        }
        match self.mode {
            Mode::Paused => {
                self.pace.frame(0.0, &self.history.present().situation());
                arrived
            }
            Mode::Playing => {
                self.play(elapsed_ms, clock);
                true
            }
            Mode::Opening => {
                self.come_up(clock);
                true
            }
            Mode::Replaying => {
                self.live_again(clock);
                true
            }
            Mode::ToNextChange { deadline } => {
                self.search(deadline, clock);
                true
            }
        }
    }

    fn play(&mut self, elapsed_ms: f64, clock: &dyn Fn() -> f64) {
        let frame = self.pace.frame(elapsed_ms, &self.history.present().situation());
        self.reason = frame.reason.text();
        let target = self.session().now().plus_us(frame.virtual_us);
        // A frame that comes upon something worth seeing ends there, and the next one is slow.
        if self.run_to(target, frame.stops_at(), BUDGET_MS, clock) == Stop::OutOfEvents {
            self.reason = "as fast as this machine can";
        }
    }

    fn come_up(&mut self, clock: &dyn Fn() -> f64) {
        if self.run_to(self.session().scenario().start, StopsAt::Nothing, UNSEEN_BUDGET_MS, clock)
            == Stop::Reached
        {
            self.history.look_anew();
            self.mode = Mode::Playing;
        }
    }

    fn live_again(&mut self, clock: &dyn Fn() -> f64) {
        let until_ms = clock() + UNSEEN_BUDGET_MS;
        while let Some(replay) = &mut self.replay {
            let progress = replay.go_on(&mut self.history, EVENTS_AT_ONCE);
            if progress != Progress::UnderWay {
                self.replay = None;
                self.history.look_anew();
                self.stand_still();
                self.parted = match progress {
                    Progress::Parted { same_until, before, refused } => {
                        Some(parting(same_until, before, refused))
                    }
                    Progress::UnderWay | Progress::Arrived => None,
                };
            } else if clock() >= until_ms {
                return;
            }
        }
    }

    /// Whether the page holds as much as it may, for this run and what it is compared with; it may hold more from then on.
    pub fn fills_up(&mut self, held_bytes: u64) -> bool {
        let is_full = self.limit.is_reached(held_bytes);
        if is_full {
            self.full = Some(self.limit.notice(held_bytes));
        }
        is_full
    }

    /// That the page holds as much as it may and stands still, in words.
    pub fn take_full(&mut self) -> Option<String> {
        self.full.take()
    }

    /// That a linked run went otherwise here, in words.
    pub fn take_parting(&mut self) -> Option<String> {
        self.parted.take()
    }

    fn search(&mut self, deadline: Time, clock: &dyn Fn() -> f64) {
        self.reason = "running to the next change";
        let until_ms = clock() + UNSEEN_BUDGET_MS;
        while clock() < until_ms {
            let found = self.history.run_to_next_change(EVENTS_AT_ONCE);
            if found || self.session().now() >= deadline {
                self.mode = Mode::Paused;
                self.reason = if found { "at the next change" } else { "nothing new in two minutes" };
                return;
            }
        }
    }

    fn run_to(&mut self, target: Time, stops_at: StopsAt, budget_ms: f64, clock: &dyn Fn() -> f64) -> Stop {
        let until_ms = clock() + budget_ms;
        loop {
            let stop = self.history.run(target, EVENTS_AT_ONCE, stops_at);
            if stop != Stop::OutOfEvents || clock() >= until_ms {
                return stop;
            }
        }
    }
}

fn parting(same_until: Time, before: Time, refused: Option<(String, String)>) -> String {
    let here = match refused {
        Some((text, reason)) => format!("{text}: {reason}"),
        None => "it stands where it went otherwise".to_owned(),
    };
    format!(
        "This version parts from the one that made the link between {same_until} and {before}; up to \
         {same_until} the two are the same. {here}."
    )
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
