//! What the page shows and the one way to change it.
//!
//! The frame loop asks the store to go on; components subscribe to the slice that they draw.
//!
//! **Invariant:** a publication happens at most once a frame, after the engine's borrow has ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use yew::prelude::*;

use super::crash;
use super::engine::{Engine, OpenError};
use crate::kafka::time::Time;
use crate::view::model::{Focus, Model};
use crate::view::pace::{self, Speed};

/// A number that ticks is published this often, in milliseconds.
const TICK_MS: f64 = 100.0;
/// Time of the reader that one frame may spend on the run, in milliseconds.
const BUDGET_MS: f64 = 4.0;
/// Queue entries that one frame may take.
const ENTRIES_PER_FRAME: u32 = 20_000;
/// A longer frame counts as this long: a tab that was hidden does not catch up.
const LONGEST_FRAME_MS: f64 = 100.0;
/// "Run to the next change" gives up after this much virtual time.
const LONGEST_SEARCH_MS: i64 = 600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Paused,
    Playing,
    /// Runs until the narrative grows beyond `sentences`, at the latest until `deadline`.
    ToNextChange {
        sentences: u64,
        deadline: Time,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedChoice {
    Automatic,
    Fixed(Speed),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    pub playing: bool,
    pub automatic: bool,
    pub speed: Speed,
    /// Why the present speed is what it is.
    pub reason: Rc<str>,
    pub clock: Rc<str>,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: Rc<str>,
    /// The reason in one sentence, when it was refused.
    pub refusal: Option<Rc<str>>,
}

/// One publication.
#[derive(Clone, Debug)]
pub struct Shown {
    pub model: Rc<Model>,
    pub transport: Rc<Transport>,
    pub focus: Option<Focus>,
    pub answer: Option<Rc<Answer>>,
}

struct State {
    engine: Engine,
    mode: Mode,
    choice: SpeedChoice,
    speed: Speed,
    reason: Rc<str>,
    focus: Option<Focus>,
    answer: Option<Rc<Answer>>,
    last_frame_ms: Option<f64>,
    last_tick_ms: f64,
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
    pub fn new(mut engine: Engine) -> Store {
        crash::note(engine.seed(), &engine.journal());
        let model = engine.model(None);
        let state = State {
            engine,
            mode: Mode::Playing,
            choice: SpeedChoice::Automatic,
            speed: Speed::SLOWEST,
            reason: Rc::from("starting"),
            focus: None,
            answer: None,
            last_frame_ms: None,
            last_tick_ms: 0.0,
            dirty: true,
            urgent: true,
        };
        let shown =
            Shown { model, transport: Rc::new(state.transport()), focus: state.focus.clone(), answer: None };
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
        self.0.state.borrow().engine.now()
    }

    pub fn play_or_pause(&self) {
        self.change(|state| {
            state.mode = match state.mode {
                Mode::Paused => Mode::Playing,
                Mode::Playing | Mode::ToNextChange { .. } => Mode::Paused,
            };
        });
    }

    /// Takes one entry from the event queue.
    pub fn step(&self) {
        self.change(|state| {
            state.mode = Mode::Paused;
            state.engine.step();
        });
    }

    pub fn run_to_next_change(&self) {
        self.change(|state| {
            let deadline = state.engine.now().plus_ms(LONGEST_SEARCH_MS);
            state.mode = Mode::ToNextChange { sentences: state.engine.sentences(), deadline };
        });
    }

    pub fn choose_speed(&self, choice: SpeedChoice) {
        self.change(|state| state.choice = choice);
    }

    pub fn choose(&self, focus: Option<Focus>) {
        self.change(|state| state.focus = focus);
    }

    /// Gives a command; what came of it is published as the answer.
    pub fn command(&self, text: &str) {
        self.change(|state| {
            let refusal = state.engine.command(text).err().map(Rc::from);
            state.answer = Some(Rc::new(Answer { text: Rc::from(text), refusal }));
            crash::note(state.engine.seed(), &state.engine.journal());
        });
    }

    /// Starts the run of a scenario file; a wrong one changes nothing.
    ///
    /// # Errors
    /// The line and the reason.
    pub fn open(&self, text: &str) -> Result<(), OpenError> {
        let engine = Engine::open(text)?;
        self.change(|state| {
            crash::note(engine.seed(), &engine.journal());
            state.engine = engine;
            state.mode = Mode::Playing;
            state.focus = None;
            state.answer = None;
        });
        Ok(())
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
    fn transport(&self) -> Transport {
        Transport {
            playing: self.mode != Mode::Paused,
            automatic: self.choice == SpeedChoice::Automatic,
            speed: self.speed,
            reason: self.reason.clone(),
            clock: Rc::from(self.engine.now().to_string()),
        }
    }

    fn go_on(&mut self, real_ms: f64) {
        let elapsed_ms = real_ms - self.last_frame_ms.replace(real_ms).unwrap_or(real_ms);
        let elapsed_ms = elapsed_ms.clamp(0.0, LONGEST_FRAME_MS);
        match self.mode {
            Mode::Paused => self.pace(0.0),
            Mode::Playing => self.play(elapsed_ms),
            Mode::ToNextChange { sentences, deadline } => self.search(sentences, deadline),
        }
    }

    /// Sets speed and reason for what is coming, `elapsed_ms` after the last choice.
    fn pace(&mut self, elapsed_ms: f64) {
        let (speed, reason) = match self.choice {
            SpeedChoice::Fixed(speed) => (speed, Rc::from("fixed")),
            SpeedChoice::Automatic => {
                let pace = self.engine.pace();
                (pace::ease(self.speed, pace.speed, elapsed_ms as u32), pace.reason)
            }
        };
        self.speed = speed;
        self.reason = reason;
    }

    fn play(&mut self, elapsed_ms: f64) {
        self.pace(elapsed_ms);
        let started_ms = now_ms();
        let mut left_ms = elapsed_ms;
        for entry in 0..ENTRIES_PER_FRAME {
            let target = self.engine.now().plus_us((left_ms * f64::from(self.speed.us_per_ms())) as i64);
            let next = self.engine.next_at().filter(|next| *next <= target);
            let Some(next) = next else {
                self.engine.advance_to(target);
                self.dirty |= left_ms > 0.0;
                return;
            };
            let passed_us = next - self.engine.now();
            left_ms = (left_ms - passed_us as f64 / f64::from(self.speed.us_per_ms())).max(0.0);
            self.engine.step();
            self.dirty = true;
            self.pace(0.0);
            if entry % 32 == 31 && now_ms() - started_ms > BUDGET_MS {
                break;
            }
        }
        self.reason = Rc::from("as fast as this machine can");
    }

    fn search(&mut self, sentences: u64, deadline: Time) {
        let started_ms = now_ms();
        while now_ms() - started_ms < BUDGET_MS {
            for _ in 0..32 {
                let found = self.engine.sentences() > sentences;
                if found || self.engine.next_at().is_none_or(|next| next > deadline) {
                    self.mode = Mode::Paused;
                    self.urgent = true;
                    self.dirty = true;
                    return;
                }
                self.engine.step();
            }
        }
        self.dirty = true;
        self.reason = Rc::from("running to the next change");
    }

    fn publication(&mut self, real_ms: f64, before: &Shown) -> Option<Shown> {
        let tick = real_ms - self.last_tick_ms >= TICK_MS;
        // Faster than the eye, a picture ten times a second is enough.
        if !self.dirty || !(self.urgent || tick || self.speed.shows_flights()) {
            return None;
        }
        let ticks = tick || self.urgent;
        if ticks {
            self.last_tick_ms = real_ms;
        }
        self.dirty = false;
        self.urgent = false;
        let transport = if ticks { Rc::new(self.transport()) } else { before.transport.clone() };
        Some(Shown {
            model: self.engine.model(self.focus.as_ref()),
            transport: if *transport == *before.transport { before.transport.clone() } else { transport },
            focus: self.focus.clone(),
            answer: self.answer.clone(),
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
