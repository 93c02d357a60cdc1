//! Virtual time.
//!
//! Kafka's rules count in milliseconds; the clock underneath counts microseconds so that two packets rarely tie.
//!
//! What is measured between two moments (timers, sessions, lag) is true on every node, as a monotonic clock has it. What
//! is written down for others (a record's timestamp) or held against it (retention) is what the node's own clock shows,
//! and that may be wrong.
//!
//! **Invariant:** two moments are compared by when they are, whatever a clock showed then.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, Sub};

/// Microseconds since the start of the run. Time 0 is 2026-01-01T00:00:00Z in record timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Time {
    us: i64,
    /// By how much the clock of whoever looks is ahead of the true one; negative if it is behind.
    ahead_ms: i64,
}

/// 2026-01-01T00:00:00Z in milliseconds since 1970.
const WALL_CLOCK_START_MS: i64 = 1_767_225_600_000;

impl Time {
    pub const ZERO: Time = Time::from_us(0);
    pub const MAX: Time = Time::from_us(i64::MAX);

    pub const fn from_us(us: i64) -> Time {
        Time { us, ahead_ms: 0 }
    }

    pub const fn from_ms(ms: i64) -> Time {
        Time::from_us(ms * 1000)
    }

    pub const fn us(self) -> i64 {
        self.us
    }

    /// The same moment as a node sees it whose clock is ahead by `ahead_ms`.
    pub const fn on_clock(self, ahead_ms: i64) -> Time {
        Time { us: self.us, ahead_ms }
    }

    /// Whole milliseconds since the start of the run.
    pub const fn ms(self) -> i64 {
        self.us.div_euclid(1000)
    }

    /// Milliseconds since 1970 that the node's clock shows, as a record's timestamp.
    pub const fn wall_ms(self) -> i64 {
        WALL_CLOCK_START_MS + self.ms() + self.ahead_ms
    }

    pub const fn plus_ms(self, ms: i64) -> Time {
        self.plus_us(ms.saturating_mul(1000))
    }

    pub const fn plus_us(self, us: i64) -> Time {
        Time { us: self.us.saturating_add(us), ahead_ms: self.ahead_ms }
    }

    /// Milliseconds from `earlier` to here, rounded down.
    pub const fn ms_since(self, earlier: Time) -> i64 {
        (self.us - earlier.us).div_euclid(1000)
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Time) -> bool {
        self.us == other.us
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        self.us.cmp(&other.us)
    }
}

impl Hash for Time {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.us.hash(state);
    }
}

impl Add<std::time::Duration> for Time {
    type Output = Time;
    fn add(self, duration: std::time::Duration) -> Time {
        self.plus_us(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Sub for Time {
    type Output = i64;
    /// Microseconds between two moments.
    fn sub(self, other: Time) -> i64 {
        self.us - other.us
    }
}

impl fmt::Display for Time {
    /// `mm:ss.mmm`, or `h:mm:ss.mmm` from one hour on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ms();
        let (hours, minutes, seconds, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        if hours > 0 {
            write!(f, "{hours}:")?;
        }
        write!(f, "{minutes:02}:{seconds:02}.{ms:03}")
    }
}

/// Microseconds of `500us`, `20ms`, `8s`, `2min`, `1h`; `None` for anything else and beyond an i64.
pub fn parse_us(text: &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_with_a_unit() {
        let read: Vec<i64> = ["0us", "20ms", "8s", "2min", "1h"].into_iter().filter_map(parse_us).collect();
        assert_eq!(read, [0, 20_000, 8_000_000, 120_000_000, 3_600_000_000]);
        for text in ["", "s", "8", "8 s", "-1s", "1.5s", "8S", "9223372036854775807s", "٣s"] {
            assert_eq!(parse_us(text), None, "{text}");
        }
    }
}
