//! One run that a person works with: its scenario, its world, what was told of it and what was done to it.
//!
//! Knows no wall clock: who drives it says how far to go, and how many events that may take at most.
//!
//! **Invariant:** only a command or time changes the world, and a refused command changes nothing, the journal neither.

mod situation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::rc::Rc;

use super::boot::Boot;
use super::command::{Clients, CommandError, Question, Written, is_question, parse, print};
use super::journal::{Entry, Journal};
use super::ledger::Ledger;
use super::measures::Measures;
use super::narrative::Narrative;
use super::narrator::{Narrator, Sentence};
use super::pace::{self, StopsAt};
use super::scenario::{Scenario, ScenarioError};
use super::why::explain;
use super::why::past::Past;
use crate::kafka::event::{Event, GroupEvent, GroupState};
use crate::kafka::time::Time;
use crate::kafka::types::GroupId;
use crate::sim::{Command, Key, Refusal, World, WorldConfig};

/// What may differ from the scenario's own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Instead of the scenario's seed.
    pub seed: Option<u64>,
    /// Every message is encoded and decoded on its way and must come back equal.
    pub strict: bool,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandFailure {
    #[error(transparent)]
    Text(#[from] CommandError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a run stopped where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At the time that was asked for.
    Reached,
    /// At an event worth seeing, before that time.
    AtChange,
    /// After so many events, before that time.
    OutOfEvents,
}

/// Events of the trace that a checkpoint keeps: all of them in each would hold far more than the run itself does.
const KEPT_EVENTS: usize = 128;

/// A moment of a run: how many events were done by then, and the time, which may be after the last of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub events: u64,
    pub time: Time,
}

/// Copies share what does not change between them.
#[derive(Clone)]
pub struct Session {
    text: Rc<str>,
    scenario: Rc<Scenario>,
    options: Options,
    world: World,
    clients: Clients,
    journal: Journal,
    failures: Vec<(Entry, CommandFailure)>,
    narrator: Narrator,
    narrative: Narrative,
    ledger: Ledger,
    measures: Measures,
    /// Events of the trace that were heard.
    heard: u64,
    rebalancing: BTreeSet<GroupId>,
    changed_at: Time,
    boot: Boot,
    /// When the scenario's own commands are due, the earliest first.
    due: Rc<[Time]>,
}

impl Session {
    /// Opens a scenario at time 0.
    ///
    /// # Errors
    ///
    /// What is wrong in the text, with its place.
    pub fn open(text: &str, options: Options) -> Result<Session, ScenarioError> {
        let scenario = Scenario::parse(text)?;
        let mut world = World::new(WorldConfig {
            seed: options.seed.unwrap_or(scenario.seed),
            latency_us: scenario.latency_us.clone(),
            strict: options.strict,
            controllers: scenario.controllers.clone(),
            brokers: scenario.brokers.clone(),
            broker_config: scenario.broker_config.clone(),
            features: scenario.features.clone(),
        })
        .expect("the scenario's reader has checked its configs");
        let boot = Boot::start(&scenario, &mut world);
        let mut clients = Clients::default();
        scenario.topics.iter().for_each(|topic| clients.note(&topic.create()));
        let timed: Vec<(Time, Command)> = scenario.clients().into_iter().chain(scenario.at.clone()).collect();
        timed.iter().for_each(|(_, command)| clients.note(command));
        let mut due: Vec<Time> = timed.iter().map(|(at, _)| *at).collect();
        due.sort();
        Ok(Session {
            text: Rc::from(text),
            scenario: Rc::new(scenario),
            options,
            world,
            clients,
            journal: Journal::default(),
            failures: Vec::new(),
            narrator: Narrator::default(),
            narrative: Narrative::default(),
            ledger: Ledger::default(),
            measures: Measures::default(),
            heard: 0,
            rebalancing: BTreeSet::new(),
            changed_at: Time::ZERO,
            due: Rc::from(due),
            boot,
        })
    }

    /// The same run again, from its start to the present.
    pub fn replay(&self) -> Session {
        self.replay_with(Ledger::default())
    }

    fn replay_with(&self, ledger: Ledger) -> Session {
        let mut session = self.rewound();
        session.ledger = ledger;
        session.go_to(self.position());
        session
    }

    /// The same run at its start, with the commands that are to come.
    pub(super) fn rewound(&self) -> Session {
        let mut session = Session::open(&self.text, self.options).expect("the text was opened before");
        session.follow(self.journal.rewound());
        session
    }

    /// As [`Self::step`]; the step's place, and that of the step that scheduled it.
    pub(super) fn step_with_cause(&mut self) -> Option<(Key, Option<Key>)> {
        self.repeat(Time::MAX);
        let next = self.world.next_step();
        self.step();
        next
    }

    pub(super) fn narrator(&self) -> &Narrator {
        &self.narrator
    }

    /// The commands that are to come are from now on those of this journal, which begins with what was done here.
    pub fn follow(&mut self, journal: Journal) {
        self.journal = journal.at(&self.journal);
    }

    /// Goes on to a position that lies ahead.
    pub fn go_to(&mut self, position: Position) {
        while self.events_done() < position.events && self.step() {}
        if self.world.next_at().is_none_or(|next| next >= position.time) {
            self.world.advance_to(position.time);
        }
    }

    /// Reads a command and carries it out now.
    ///
    /// # Errors
    ///
    /// The text is no command, or it cannot be carried out; nothing has changed then.
    pub fn command(&mut self, text: &str) -> Result<(), CommandFailure> {
        let command = self.clients.complete(parse(text)?)?;
        self.world.check(&command)?;
        let (place, text) = (self.world.place(), print(&command));
        self.world.apply(command.clone(), &text)?;
        self.clients.note(&command);
        self.journal.push(Entry { place, text });
        self.changed_at = self.now();
        self.listen(StopsAt::Nothing);
        Ok(())
    }

    /// Gives the journal's commands whose turn comes before the next event, at the latest at `time`.
    fn repeat(&mut self, time: Time) {
        while let Some(entry) = self.next_command(time).cloned() {
            self.world.advance_to(entry.place.time);
            self.journal.take();
            self.changed_at = self.now();
            let given = self.check(&entry.text).and_then(|command| {
                self.world.give(command.clone(), &entry.text)?;
                self.clients.note(&command);
                Ok(())
            });
            if let Err(failure) = given {
                self.failures.push((entry, failure));
            }
        }
    }

    fn next_command(&self, time: Time) -> Option<&Entry> {
        let next = self.journal.next().filter(|entry| entry.place.time <= time)?;
        self.world.next_key().is_none_or(|key| next.place <= key).then_some(next)
    }

    /// Commands of the journal that could not be carried out again, which are none if journal and scenario belong together.
    pub fn failures(&self) -> &[(Entry, CommandFailure)] {
        &self.failures
    }

    /// A copy from which the same run goes on, and which holds few of the events before it.
    pub fn checkpoint(&self) -> Session {
        let mut copy = self.clone();
        copy.world.keep_newest_events(KEPT_EVENTS);
        copy
    }

    pub fn position(&self) -> Position {
        Position { events: self.events_done(), time: self.now() }
    }

    /// Whether a command could be carried out now, with what it comes to.
    ///
    /// # Errors
    ///
    /// As [`Self::command`].
    pub fn check(&self, text: &str) -> Result<Command, CommandFailure> {
        let command = self.clients.complete(parse(text)?)?;
        self.world.check(&command)?;
        Ok(command)
    }

    /// The answer to a question, line by line; `None` if the text is no question.
    ///
    /// # Errors
    ///
    /// The text cannot be read, or it names a record that there is not, with its place.
    pub fn ask(&self, text: &str) -> Option<Result<Vec<String>, CommandError>> {
        match parse(text) {
            Ok(Written::Question(question)) => Some(self.answer(&question)),
            Ok(_) => None,
            Err(error) => is_question(text).then_some(Err(error)),
        }
    }

    fn answer(&self, question: &Question) -> Result<Vec<String>, CommandError> {
        match question {
            Question::Ledger(within) => Ok(self.ledger.tell(within)),
            Question::Story { of, number, column } => {
                // What the ledger has let go is lived again, with a ledger that lets nothing go.
                let again = || self.replay_with(Ledger::whole()).ledger.story_named(of, *number);
                let story = self.ledger.story_named(of, *number);
                let story = story.or_else(|| self.ledger.has_forgotten().then(again).flatten());
                let missing = || {
                    let reason = format!(
                        "there is no record {number} of {of}: it is a partition and an offset, or a producer and the \
                         number of its record, of those that the ledger keeps"
                    );
                    CommandError::new(*column, reason)
                };
                story.map(|story| story.text()).ok_or_else(missing)
            }
            Question::Why { why, full, column } => {
                let past = Past::of(self, []);
                explain(&past, why, *column).map(|explanation| explanation.text(*full))
            }
        }
    }

    /// The line of the scenario that says this command.
    pub(super) fn scenario_line(&self, command: &str) -> Option<i32> {
        match parse(command) {
            Ok(Written::Whole(command)) => self.scenario.line_of(&self.text, &command),
            _ => None,
        }
    }

    /// Does one event, of which a command is one; `false` when there is none left.
    pub fn step(&mut self) -> bool {
        self.repeat(Time::MAX);
        let stepped = self.world.step().is_some();
        self.listen(StopsAt::Nothing);
        stepped
    }

    /// Runs to a time; `true` when it is reached within so many events.
    pub fn run_until(&mut self, time: Time, max_events: u64) -> bool {
        self.run(time, max_events, StopsAt::Nothing) == Stop::Reached
    }

    /// Runs to a time, or to an event that ends a wait if that is wished ([`pace::ends_a_wait`]).
    pub fn run(&mut self, time: Time, max_events: u64, stops_at: StopsAt) -> Stop {
        for _ in 0..max_events {
            self.repeat(time);
            if self.world.next_at().is_none_or(|at| at > time) {
                if time > self.now() {
                    self.world.advance_to(time);
                }
                return Stop::Reached;
            }
            self.world.step();
            if self.listen(stops_at) {
                return Stop::AtChange;
            }
        }
        Stop::OutOfEvents
    }

    /// Runs until a new sentence is told; `false` when none is within so many events.
    pub fn run_to_next_change(&mut self, max_events: u64) -> bool {
        let told = self.narrative.len_ever();
        for _ in 0..max_events {
            if !self.step() {
                break;
            }
            if self.narrative.len_ever() > told {
                return true;
            }
        }
        self.narrative.len_ever() > told
    }

    /// Takes in the trace's new events; whether one of them ends a wait.
    fn listen(&mut self, stops_at: StopsAt) -> bool {
        let mut ends_a_wait = false;
        let mut told: Vec<Sentence> = Vec::new();
        let trace = self.world.trace();
        if self.heard < trace.len_ever() {
            trace.for_each_since(self.heard, |entry| {
                ends_a_wait |= pace::ends_a_wait(&entry.event, stops_at);
                self.boot.on_event(&entry.event);
                follow_rebalances(&mut self.rebalancing, &entry.event);
                told.extend(self.narrator.tell(entry.key.time, &entry.event));
            });
            self.heard = trace.len_ever();
            self.ledger.follow(trace);
            let world = &self.world;
            self.measures.follow(trace, |topic| {
                let controller = world.active_controller();
                controller.map_or(1, |controller| {
                    controller.image().effective_min_isr(topic, world.broker_config())
                })
            });
        }
        self.boot.start_clients(&mut self.world);
        told.extend(self.narrator.settle(self.world.next_at().unwrap_or(Time::MAX)));
        for sentence in told {
            self.changed_at = sentence.time;
            self.narrative.push(sentence);
        }
        ends_a_wait
    }

    /// Counts what is seen from now on as new, as when a page opens.
    pub fn look_anew(&mut self) {
        self.changed_at = self.now();
    }

    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// 64 bits that fold every step; equal for equal runs.
    pub fn digest(&self) -> u64 {
        self.world.digest()
    }

    /// Entries taken from the queue so far.
    pub fn events_done(&self) -> u64 {
        self.world.events_done()
    }

    /// The scenario as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn seed(&self) -> u64 {
        self.options.seed.unwrap_or(self.scenario.seed)
    }

    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What became of every record.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How well the cluster and its groups did.
    pub fn measures(&self) -> &Measures {
        &self.measures
    }

    /// Measures count from now on alone.
    pub fn measure_anew(&mut self) {
        self.measures.begin_anew(self.now());
    }

    pub fn narrative(&self) -> &Narrative {
        &self.narrative
    }
}

/// Keeps the groups that prepare or complete a rebalance.
fn follow_rebalances(rebalancing: &mut BTreeSet<GroupId>, event: &Event) {
    match event {
        Event::Group(GroupEvent::GroupStateChanged {
            group,
            to: GroupState::PreparingRebalance | GroupState::CompletingRebalance,
            ..
        }) => {
            rebalancing.insert(group.clone());
        }
        Event::Group(GroupEvent::GroupStateChanged { group, .. }) => {
            rebalancing.remove(group);
        }
        // An unfinished rebalance is forgotten with its coordinator (R-GRP-4).
        Event::Group(GroupEvent::CoordinatorLoaded { groups, .. }) => {
            rebalancing.retain(|group| !groups.contains(group))
        }
        _ => {}
    }
}
