//! A comparison that the page drives: how far it is, and how fast it goes.
//!
//! **Invariant:** as for the run, a frame does at most a few milliseconds of work.

use std::rc::Rc;

use crate::kafka::time::Time;
use crate::lab::compare::Comparison;
use crate::lab::pace::{LONGEST_FRAME_MS, Step};
use crate::ui::run::{FULL, Transport, UNSEEN_BUDGET_MS};

/// Events between two looks at the clock.
const EVENTS_AT_ONCE: u64 = 64;
/// Virtual milliseconds in a real one unless the reader chooses otherwise.
const SPEED: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Runs as fast as it can up to where the runs had come that are compared.
    Arriving,
    Paused,
    /// Paused since the page holds as much as it may.
    Full,
    Playing,
}

pub struct Player {
    comparison: Comparison,
    mode: Mode,
    /// `None` until the reader chooses one.
    speed: Option<Step>,
    /// Where the two shall be.
    target: Time,
    is_behind: bool,
}

impl Player {
    pub fn new(comparison: Comparison) -> Player {
        let target = comparison.until();
        Player { comparison, mode: Mode::Arriving, speed: None, target, is_behind: false }
    }

    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    pub fn play_or_pause(&mut self) {
        self.mode = match self.mode {
            Mode::Paused | Mode::Full if self.comparison.now() < self.comparison.until() => Mode::Arriving,
            Mode::Paused | Mode::Full => Mode::Playing,
            Mode::Arriving | Mode::Playing => Mode::Paused,
        };
    }

    pub fn is_running(&self) -> bool {
        matches!(self.mode, Mode::Arriving | Mode::Playing)
    }

    /// Stands still since the page holds as much as it may, until somebody plays on.
    pub fn fill_up(&mut self) {
        self.mode = Mode::Full;
    }

    pub fn choose_speed(&mut self, speed: Option<Step>) {
        self.speed = speed;
    }

    /// Goes on for a frame of `elapsed_ms`; whether there is anything new.
    pub fn go_on(&mut self, elapsed_ms: f64, clock: &dyn Fn() -> f64) -> bool {
        match self.mode {
            Mode::Paused | Mode::Full => return false,
            Mode::Arriving => self.target = self.comparison.until(),
            Mode::Playing if !self.is_behind => {
                let virtual_us = elapsed_ms.min(LONGEST_FRAME_MS) * self.speed() * 1000.0;
                self.target = self.comparison.now().plus_us(virtual_us as i64);
            }
            Mode::Playing => {}
        }
        let until_ms = clock() + UNSEEN_BUDGET_MS;
        let mut arrived = false;
        while !arrived && clock() < until_ms {
            arrived = self.comparison.run(self.target, EVENTS_AT_ONCE);
        }
        self.is_behind = !arrived;
        if arrived && self.mode == Mode::Arriving {
            self.mode = Mode::Paused;
        }
        true
    }

    fn speed(&self) -> f64 {
        self.speed.map_or(SPEED, Step::speed)
    }

    pub fn transport(&self) -> Transport {
        Transport {
            playing: self.is_running(),
            automatic: self.speed.is_none(),
            speed: self.speed(),
            reason: match self.mode {
                Mode::Arriving => "running both up to where they were",
                Mode::Paused => "paused",
                Mode::Full => FULL,
                Mode::Playing if self.is_behind => "as fast as this machine can",
                Mode::Playing => "both on one clock",
            },
            clock: Rc::from(self.comparison.now().to_string()),
            plays_only: true,
        }
    }
}
