//! Virtual time.
//!
//! Kafka's rules count in milliseconds; the clock underneath counts microseconds so that two packets rarely tie.

use std::fmt;
use std::ops::{Add, Sub};

/// Microseconds since the start of the run. Time 0 is 2026-01-01T00:00:00Z in record timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// 2026-01-01T00:00:00Z in milliseconds since 1970.
const WALL_CLOCK_START_MS: i64 = 1_767_225_600_000;

impl Time {
    pub const ZERO: Time = Time(0);
    pub const MAX: Time = Time(i64::MAX);

    pub const fn from_us(us: i64) -> Time {
        Time(us)
    }

    pub const fn from_ms(ms: i64) -> Time {
        Time(ms * 1000)
    }

    pub const fn us(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the start of the run.
    pub const fn ms(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Milliseconds since 1970, as a record's timestamp.
    pub const fn wall_ms(self) -> i64 {
        WALL_CLOCK_START_MS + self.ms()
    }

    pub const fn plus_ms(self, ms: i64) -> Time {
        Time(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    pub const fn plus_us(self, us: i64) -> Time {
        Time(self.0.saturating_add(us))
    }

    /// Milliseconds from `earlier` to here, rounded down.
    pub const fn ms_since(self, earlier: Time) -> i64 {
        (self.0 - earlier.0).div_euclid(1000)
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
        self.0 - other.0
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
