//! What the page shows and the one way to change it.
//!
//! The frame loop asks the store to go on; components subscribe to the slice that they draw.
//!
//! **Invariant:** a publication happens at most once a frame, after the engine's borrow has ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use yew::prelude::*;

use super::answer::Answer;
use super::compare::player::Player;
use super::crash;
use super::keep;
use super::run::{Run, Transport};
use crate::kafka::time::Time;
use crate::lab::compare::{CompareError, Comparison};
use crate::lab::history::{BranchId, MarkKind};
use crate::lab::link::Link;
use crate::lab::link::replay::OpenError;
use crate::lab::link::saved::Saved;
use crate::lab::pace::Step;
use crate::lab::scenario::ScenarioError;
use crate::view::build;
use crate::view::compare::{CompareView, compare_view};
use crate::view::ledger::{LedgerView, ledger_view};
use crate::view::model::{Focus, Model};
use crate::view::reason::{ReasonView, reason};
use crate::view::timeline::Timeline;

/// A number that ticks is published this often, in milliseconds.
const TICK_MS: f64 = 100.0;

/// What a run holds is looked through this often, in milliseconds.
const OUTLOOK_MS: f64 = 3000.0;

/// One publication.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The scenario's name: the file's, where it came from one.
    pub name: Rc<str>,
    pub model: Rc<Model>,
    pub transport: Rc<Transport>,
    pub timeline: Rc<Timeline>,
    /// Two runs side by side, while they are compared.
    pub compare: Option<Rc<CompareView>>,
    /// Whether flights can be followed with the eye at the present speed.
    pub shows_flights: bool,
    pub focus: Option<Focus>,
    pub answer: Option<Rc<Answer>>,
    /// The answer to the last question for a reason, until it is closed.
    pub reason: Option<Rc<ReasonView>>,
    /// What the page holds in memory, and for how long the run can go on.
    pub outlook: Rc<str>,
}

struct State {
    run: Run,
    /// While there is one the run stands still.
    comparison: Option<Player>,
    focus: Option<Focus>,
    answer: Option<Rc<Answer>>,
    reason: Option<Rc<ReasonView>>,
    /// Questions for a reason so far.
    asked: u64,
    last_frame_ms: Option<f64>,
    last_tick_ms: f64,
    last_outlook_ms: f64,
    /// The number under which this browser keeps the run.
    id: String,
    /// Something of the run is not kept yet.
    unkept: bool,
    /// Whether it was said that the browser does not keep runs.
    told_not_kept: bool,
    /// Something waits to be published.
    dirty: bool,
    /// What waits must not wait for the next tick.
    urgent: bool,
}

type Subscriber = Rc<dyn Fn(&Shown)>;

struct Inner {
    state: RefCell<State>,
    shown: RefCell<Shown>,
    subscribers: RefCell<BTreeMap<u32, Subscriber>>,
    next_subscriber: Cell<u32>,
}

/// A handle; clones are the same store.
#[derive(Clone)]
pub struct Store(Rc<Inner>);

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Store {
    pub fn new(run: Run) -> Store {
        crash::note(run.session().seed(), &run.journal());
        let shown = Shown {
            name: run.name.clone(),
            model: Rc::new(build::model(run.session(), None, None)),
            transport: Rc::new(run.transport()),
            timeline: Rc::new(Timeline::of(run.history(), None)),
            compare: None,
            shows_flights: run.shows_flights(),
            focus: None,
            answer: None,
            reason: None,
            outlook: Rc::from(run.outlook(held_bytes())),
        };
        let state = State {
            run,
            comparison: None,
            focus: None,
            answer: None,
            reason: None,
            asked: 0,
            last_frame_ms: None,
            last_tick_ms: 0.0,
            last_outlook_ms: 0.0,
            id: keep::new_id(),
            unkept: false,
            told_not_kept: false,
            dirty: true,
            urgent: true,
        };
        Store(Rc::new(Inner {
            state: RefCell::new(state),
            shown: RefCell::new(shown),
            subscribers: RefCell::default(),
            next_subscriber: Cell::new(0),
        }))
    }

    pub fn shown(&self) -> Shown {
        self.0.shown.borrow().clone()
    }

    /// The virtual time up to which the run has come, which the publication may not have shown yet.
    pub fn now(&self) -> Time {
        self.0.state.borrow().run.session().now()
    }

    /// What became of all records up to now.
    pub fn ledger(&self, before: Option<&Rc<LedgerView>>) -> Rc<LedgerView> {
        ledger_view(self.0.state.borrow().run.session().ledger(), before)
    }

    pub fn play_or_pause(&self) {
        self.change(|state| match &mut state.comparison {
            Some(player) => player.play_or_pause(),
            None => state.run.play_or_pause(),
        });
    }

    /// Puts the present branch beside another one.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn compare_with(&self, other: BranchId) -> Result<(), String> {
        self.compare(|run| Comparison::of_branches(run.history(), run.history().current(), other))
    }

    /// Puts the present run beside the same with one thing otherwise.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn compare_change(&self, change: &str) -> Result<(), String> {
        self.compare(|run| Comparison::of_change(run.session(), run.session().journal(), change))
    }

    fn compare(&self, begin: impl FnOnce(&Run) -> Result<Comparison, CompareError>) -> Result<(), String> {
        let comparison = begin(&self.0.state.borrow().run).map_err(|error| error.to_string())?;
        self.change(|state| {
            state.run.pause();
            state.comparison = Some(Player::new(comparison));
        });
        Ok(())
    }

    /// Goes back to the one run.
    pub fn end_comparison(&self) {
        self.change(|state| state.comparison = None);
    }

    /// Takes the last event back.
    pub fn step_back(&self) {
        self.move_run(|state| state.run.step_back());
    }

    /// Goes to a moment of what was already run.
    pub fn seek(&self, time: Time) {
        self.move_run(|state| state.run.seek(time));
    }

    /// Goes to the nearest mark before or after the present, of a kind if one is given.
    pub fn go_to_mark(&self, after: bool, kind: Option<MarkKind>) {
        self.move_run(|state| {
            if !state.run.go_to_mark(after, kind) {
                state.answer = Some(Rc::new(Answer::NoMark { after }));
            }
        });
    }

    pub fn switch(&self, branch: BranchId) {
        self.move_run(|state| state.run.switch(branch));
    }

    pub fn rename(&self, branch: BranchId, name: &str) {
        self.change(|state| {
            state.run.rename(branch, name);
            state.unkept = true;
        });
    }

    /// Measures how many events a second this browser carries out; the page stands still meanwhile.
    pub fn measure(&self) {
        self.change(|state| {
            state.answer = Some(Rc::new(Answer::Measured(state.run.measure(held_bytes(), &now_ms).into())))
        });
    }

    /// Takes one event from the queue.
    pub fn step(&self) {
        self.move_run(|state| state.run.step());
    }

    pub fn run_to_next_change(&self) {
        self.move_run(|state| state.run.run_to_next_change());
    }

    /// `None` is the automatic speed.
    pub fn choose_speed(&self, step: Option<Step>) {
        self.change(|state| match &mut state.comparison {
            Some(player) => player.choose_speed(step),
            None => state.run.choose_speed(step),
        });
    }

    pub fn choose(&self, focus: Option<Focus>) {
        self.change(|state| state.focus = focus);
    }

    /// Asks why something is so; the answer is shown until it is closed.
    pub fn ask(&self, question: &str) {
        self.change(|state| {
            state.ask(question);
        });
    }

    pub fn close_reason(&self) {
        self.change(|state| state.reason = None);
    }

    /// Gives a command or asks a question; what came of it is published as the answer.
    pub fn command(&self, text: &str) {
        self.change(|state| {
            if state.ask(text) {
                return;
            }
            if let Some(told) = state.run.session().ask(text) {
                state.answer = Some(Rc::new(match told {
                    Ok(lines) => {
                        let lines = lines.into_iter().map(Rc::from).collect();
                        Answer::Told { question: Rc::from(text), lines }
                    }
                    Err(error) => {
                        Answer::Refused { text: Rc::from(text), reason: Rc::from(error.to_string()) }
                    }
                }));
                return;
            }
            let refusal = state.run.command(text).err().map(Rc::from);
            state.unkept |= refusal.is_none();
            state.answer = Some(Answer::of_command(text, refusal));
            crash::note(state.run.session().seed(), &state.run.journal());
        });
    }

    /// Starts the run of a scenario file; a wrong one changes nothing.
    ///
    /// # Errors
    /// The place and the reason.
    pub fn open(&self, name: &str, text: &str) -> Result<(), ScenarioError> {
        self.begin(Run::open(name, text)?, keep::new_id());
        Ok(())
    }

    /// Starts the run that a link leads to; a wrong one changes nothing.
    ///
    /// # Errors
    /// Why this version cannot open it.
    pub fn open_link(&self, text: &str) -> Result<(), OpenError> {
        self.begin(Run::open_link(text)?, keep::new_id());
        Ok(())
    }

    /// Goes on with a run that this browser has kept; what cannot be read changes nothing.
    ///
    /// # Errors
    /// Why this version cannot open it.
    pub fn open_kept(&self, id: &str, text: &str) -> Result<(), OpenError> {
        self.begin(Run::open_link(text)?, id.to_owned());
        Ok(())
    }

    /// Has the browser keep the run if something of it is not kept yet, or where it stands may not be.
    pub fn keep(&self, even_if_unchanged: bool) {
        let mut state = self.0.state.borrow_mut();
        if !(even_if_unchanged || state.unkept) || !state.run.is_worth_keeping() {
            return;
        }
        match keep::keep(&state.id, &state.run.saved()) {
            Ok(()) => keep::note_tab(&state.id),
            Err(error) if !state.told_not_kept => {
                state.told_not_kept = true;
                state.answer = Some(Rc::new(Answer::NotKept(error)));
                (state.dirty, state.urgent) = (true, true);
            }
            Err(_) => {}
        }
        state.unkept = false;
    }

    /// The whole run, as a file holds it.
    pub fn saved(&self) -> Saved {
        self.0.state.borrow().run.saved()
    }

    /// As [`Self::open_link`]; why it cannot be opened is published as the answer.
    pub fn open_address(&self, text: &str) {
        if let Err(error) = self.open_link(text) {
            self.change(|state| state.answer = Some(Rc::new(Answer::BadLink(Rc::from(error.to_string())))));
        }
    }

    /// A link that leads to the present moment.
    pub fn link(&self) -> Link {
        self.0.state.borrow().run.link()
    }

    fn begin(&self, run: Run, id: String) {
        keep::forget_tab();
        self.change(|state| {
            crash::note(run.session().seed(), &run.journal());
            state.run = run;
            state.comparison = None;
            state.id = id;
            state.unkept = true;
            state.focus = None;
            state.answer = None;
            state.reason = None;
        });
        // Nothing of the run before is kept.
        self.0.shown.borrow_mut().model =
            Rc::new(build::model(self.0.state.borrow().run.session(), None, None));
    }

    /// As [`Self::change`], unless two runs are compared: then the one run stands still.
    fn move_run(&self, change: impl FnOnce(&mut State)) {
        if self.0.state.borrow().comparison.is_none() {
            self.change(change);
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.state.borrow_mut();
        change(&mut state);
        state.dirty = true;
        state.urgent = true;
    }

    /// One frame of the screen at `real_ms`: goes on with the run and publishes what changed.
    pub fn frame(&self, real_ms: f64) {
        let published = {
            let mut state = self.0.state.borrow_mut();
            state.go_on(real_ms);
            state.publication(real_ms, &self.0.shown.borrow())
        };
        let Some(shown) = published else { return };
        *self.0.shown.borrow_mut() = shown.clone();
        let subscribers: Vec<Subscriber> = self.0.subscribers.borrow().values().cloned().collect();
        for subscriber in subscribers {
            subscriber(&shown);
        }
    }

    /// Calls `subscriber` at every publication until the result is dropped.
    pub fn subscribe(&self, subscriber: impl Fn(&Shown) + 'static) -> Subscription {
        let number = self.0.next_subscriber.replace(self.0.next_subscriber.get() + 1);
        self.0.subscribers.borrow_mut().insert(number, Rc::new(subscriber));
        Subscription { store: self.clone(), number }
    }
}

impl State {
    /// Whether it is a question for a reason.
    fn ask(&mut self, text: &str) -> bool {
        let Some(reason) = reason(self.run.history(), text, self.asked) else { return false };
        self.asked += 1;
        let text = Rc::from(text);
        self.answer = Some(Rc::new(match reason {
            Ok(reason) => {
                let lines = Rc::from([reason.title.clone()]);
                self.reason = Some(Rc::new(reason));
                Answer::Told { question: text, lines }
            }
            Err(error) => Answer::Refused { text, reason: Rc::from(error.to_string()) },
        }));
        true
    }

    fn go_on(&mut self, real_ms: f64) {
        let elapsed_ms = real_ms - self.last_frame_ms.replace(real_ms).unwrap_or(real_ms);
        match &mut self.comparison {
            Some(player) if player.is_running() && self.run.fills_up(held_bytes()) => {
                player.fill_up();
                self.dirty = true;
            }
            Some(player) => self.dirty |= player.go_on(elapsed_ms, &now_ms),
            None => self.dirty |= self.run.go_on(elapsed_ms, held_bytes(), &now_ms),
        }
        if let Some(notice) = self.run.take_full() {
            self.answer = Some(Rc::new(Answer::Full(Rc::from(notice))));
            self.urgent = true;
        }
        if let Some(parting) = self.run.take_parting() {
            self.answer = Some(Rc::new(Answer::Parted(Rc::from(parting))));
            self.urgent = true;
        }
        // What the cluster itself has to decide is refused later than the command was given.
        if let Some((text, refusal)) = self.run.take_refusal() {
            self.answer = Some(Answer::of_command(&text, Some(Rc::from(refusal))));
            self.urgent = true;
        }
    }

    fn publication(&mut self, real_ms: f64, before: &Shown) -> Option<Shown> {
        let tick = self.urgent || real_ms - self.last_tick_ms >= TICK_MS;
        let shows_flights = self.run.shows_flights();
        // Faster than the eye, a picture ten times a second is enough.
        if !self.dirty || !(tick || shows_flights) {
            return None;
        }
        let transport = self.comparison.as_ref().map_or_else(|| self.run.transport(), Player::transport);
        let changed = transport.playing != before.transport.playing;
        let transport = if (tick || changed) && transport != *before.transport {
            Rc::new(transport)
        } else {
            before.transport.clone()
        };
        let compare = match &self.comparison {
            Some(player) if tick => Some(Rc::new(compare_view(player.comparison()))),
            Some(_) => before.compare.clone(),
            None => None,
        };
        if tick {
            self.last_tick_ms = real_ms;
        }
        let outlook = if real_ms - self.last_outlook_ms >= OUTLOOK_MS {
            self.last_outlook_ms = real_ms;
            Rc::from(self.run.outlook(held_bytes()))
        } else {
            before.outlook.clone()
        };
        self.dirty = false;
        self.urgent = false;
        let model = (!self.run.take_jump()).then_some(&before.model);
        let timeline = Timeline::of(self.run.history(), Some(&before.timeline));
        let timeline = if timeline == *before.timeline { before.timeline.clone() } else { Rc::new(timeline) };
        Some(Shown {
            name: self.run.name.clone(),
            model: Rc::new(build::model(
                self.run.session(),
                self.focus.as_ref(),
                model.map(|model| &**model),
            )),
            transport,
            timeline,
            compare,
            shows_flights,
            focus: self.focus.clone(),
            answer: self.answer.clone(),
            reason: self.reason.clone(),
            outlook,
        })
    }
}

/// Ends its subscription when dropped.
pub struct Subscription {
    store: Store,
    number: u32,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.store.0.subscribers.borrow_mut().remove(&self.number);
    }
}

/// What the page's program holds in memory; it never gives any back.
fn held_bytes() -> u64 {
    const PAGE_BYTES: u64 = 65_536;
    #[cfg(target_arch = "wasm32")]
    let pages = core::arch::wasm32::memory_size::<0>() as u64;
    #[cfg(not(target_arch = "wasm32"))]
    let pages = 0;
    pages * PAGE_BYTES
}

/// The reader's clock in milliseconds.
fn now_ms() -> f64 {
    web_sys::window().and_then(|window| window.performance()).map_or(0.0, |performance| performance.now())
}

#[hook]
pub fn use_store() -> Store {
    use_context::<Store>().expect("the page is drawn inside its store")
}

/// A part of what is shown; the component draws again when that part changed.
#[hook]
pub fn use_slice<T, F>(select: F) -> T
where
    T: PartialEq + Clone + 'static,
    F: Fn(&Shown) -> T + 'static,
{
    let store = use_store();
    let slice = use_state_eq(|| select(&store.shown()));
    let value = (*slice).clone();
    use_effect_with(store, move |store| {
        slice.set(select(&store.shown()));
        let subscription = store.subscribe(move |shown| slice.set(select(shown)));
        move || drop(subscription)
    });
    value
}
