//! The automatic speed: slow enough for the eye while something new happens, fast while only timers wait.
//!
//! A batch flies for 20 to 60 ms and a session lasts 45 s: no single speed shows both. So the speed follows what is
//! on its way and how long ago something last changed. A reader looks at news first, at routine for a while, and
//! does not want to wait for a timer.
//!
//! **Invariant:** the pace is a pure function of the situation; it decides when a person sees something, never what
//! happens.

use std::fmt;
use std::rc::Rc;

use super::model::{Flight, FlightKind};
use crate::kafka::time::Time;

/// Virtual microseconds that pass in one millisecond of the reader's time: 1000 is the speed of a real cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed(u32);

impl Speed {
    pub const REAL: Speed = Speed(1000);
    /// 1/1000.
    pub const SLOWEST: Speed = Speed(1);
    /// 1000 times.
    pub const FASTEST: Speed = Speed(1_000_000);

    pub fn from_us_per_ms(us: u32) -> Speed {
        Speed(us.clamp(Speed::SLOWEST.0, Speed::FASTEST.0))
    }

    pub fn us_per_ms(self) -> u32 {
        self.0
    }

    /// Whether a flight of some tens of milliseconds can be followed with the eye.
    pub fn shows_flights(self) -> bool {
        self.0 <= 400
    }
}

impl fmt::Display for Speed {
    /// `1/20×`, `1×`, `2.5×`, `40×`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0;
        if us < 950 {
            write!(f, "1/{}×", (1000 + us / 2) / us)
        } else if us < 9_950 && (us + 50) % 1000 >= 100 {
            write!(f, "{}.{}×", (us + 50) / 1000, (us + 50) % 1000 / 100)
        } else {
            write!(f, "{}×", (us + 500) / 1000)
        }
    }
}

/// What the automatic speed looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    pub now: Time,
    /// When something other than the flow of records last changed: a command, a leader, an in-sync set, a group.
    pub last_change: Time,
    /// When a batch was last on its way.
    pub last_records: Time,
    pub group_requests: u32,
    pub control_requests: u32,
    /// A known wait that ends with news: "broker 3's session ends in 6 s".
    pub countdown: Option<Rc<str>>,
}

impl Situation {
    /// The flights' part of a situation; `before` is the situation of an earlier moment.
    pub fn observe(&mut self, now: Time, flights: &[Flight]) {
        let count = |kind| flights.iter().filter(|flight| flight.kind == kind).count() as u32;
        self.now = now;
        self.group_requests = count(FlightKind::Group);
        self.control_requests = count(FlightKind::Control);
        if count(FlightKind::Records) > 0 {
            self.last_records = now;
        }
    }
}

/// A speed and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    pub speed: Speed,
    pub reason: Rc<str>,
}

/// The speed at which news is shown: a flight of 40 ms takes almost a second.
const NEWS: u32 = 50;
/// Routine is never faster than this unless something is waited for: a flight stays visible.
const ROUTINE: u32 = 250;
const ROUTINE_WHILE_WAITING: u32 = 4_000;
const TIMERS: u32 = 4_000;
const TIMERS_WHILE_WAITING: u32 = 10_000;
/// News stays news for this long.
const FRESH_MS: i64 = 400;
/// With nothing on its way for this long, only timers wait.
const QUIET_MS: i64 = 250;

/// The speed for a situation.
pub fn choose(situation: &Situation) -> Pace {
    let pace = |speed: u32, reason: &str| Pace { speed: Speed(speed), reason: Rc::from(reason) };
    if situation.group_requests > 0 {
        return pace(NEWS, "group requests in flight");
    }
    if situation.control_requests > 0 {
        return pace(NEWS, "news from the controller in flight");
    }
    let settled_ms = situation.now.ms_since(situation.last_change);
    if settled_ms < FRESH_MS {
        return pace(NEWS, "something just changed");
    }
    let flowing = situation.now.ms_since(situation.last_records) < QUIET_MS;
    match (&situation.countdown, flowing) {
        (Some(wait), true) => pace(ramp(settled_ms, ROUTINE_WHILE_WAITING), wait),
        (Some(wait), false) => pace(ramp(settled_ms, TIMERS_WHILE_WAITING), wait),
        (None, true) => pace(ramp(settled_ms, ROUTINE), "batches in flight"),
        (None, false) => pace(ramp(settled_ms, TIMERS), "only timers wait"),
    }
}

/// From the speed of news to `limit`: doubled each time that what passed since the last change has grown by half.
fn ramp(settled_ms: i64, limit: u32) -> u32 {
    let mut speed = NEWS;
    let mut passed_ms = FRESH_MS;
    while speed < limit && settled_ms >= passed_ms + passed_ms / 2 {
        passed_ms += passed_ms / 2;
        speed *= 2;
    }
    speed.min(limit)
}

/// Slower at once, faster little by little: `elapsed_ms` of the reader's time pass between the two.
pub fn ease(present: Speed, wanted: Speed, elapsed_ms: u32) -> Speed {
    if wanted <= present {
        return wanted;
    }
    let step = (u64::from(present.0) * u64::from(elapsed_ms) / 400).max(1);
    Speed(wanted.0.min(u32::try_from(u64::from(present.0) + step).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(settled_ms: i64) -> Situation {
        Situation {
            now: Time::from_ms(100_000),
            last_change: Time::from_ms(100_000 - settled_ms),
            last_records: Time::from_ms(100_000),
            group_requests: 0,
            control_requests: 0,
            countdown: None,
        }
    }

    fn check(situation: Situation, speed: &str, reason: &str) {
        let pace = choose(&situation);
        assert_eq!((pace.speed.to_string().as_str(), &*pace.reason), (speed, reason));
    }

    #[test]
    fn news_is_slow_routine_is_visible_and_timers_run() {
        let quiet = Time::from_ms(99_000);
        let wait: Option<Rc<str>> = Some(Rc::from("broker 3's session ends"));
        check(Situation { group_requests: 2, ..situation(60_000) }, "1/20×", "group requests in flight");
        check(
            Situation { control_requests: 1, ..situation(60_000) },
            "1/20×",
            "news from the controller in flight",
        );
        check(situation(0), "1/20×", "something just changed");
        check(situation(700), "1/10×", "batches in flight");
        check(situation(60_000), "1/4×", "batches in flight");
        check(Situation { countdown: wait.clone(), ..situation(60_000) }, "4×", "broker 3's session ends");
        check(Situation { last_records: quiet, ..situation(60_000) }, "4×", "only timers wait");
        check(
            Situation { last_records: quiet, countdown: wait, ..situation(60_000) },
            "10×",
            "broker 3's session ends",
        );
    }

    #[test]
    fn braking_is_immediate_and_speeding_up_is_gradual() {
        assert_eq!(ease(Speed(1000), Speed(50), 16), Speed(50));
        assert_eq!(ease(Speed(100), Speed(1000), 40), Speed(110));
        assert_eq!(ease(Speed(1), Speed(1000), 16), Speed(2));
        assert_eq!(ease(Speed(990), Speed(1000), 400), Speed(1000));
    }

    #[test]
    fn a_speed_reads_as_a_fraction_below_one() {
        let shown = |us| Speed(us).to_string();
        assert_eq!(
            [1, 50, 333, 1000, 2500, 3000, 10_000, 1_000_000].map(shown),
            ["1/1000×", "1/20×", "1/3×", "1×", "2.5×", "3×", "10×", "1000×"]
        );
    }
}
