//! `auto.offset.reset` (Kafka's `AutoOffsetResetStrategy`).
//!
//! **Invariant:** what is read can be asked of a leader.

use crate::client::config::ConfigError;
use crate::kafka::config::by_duration_ms;
use crate::kafka::time::Time;

/// Where a partition starts without a usable position (R-CONS-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OffsetReset {
    Earliest,
    Latest,
    /// The first record that is not older than so long.
    ByDuration {
        ms: i64,
    },
}

impl OffsetReset {
    /// `None`: not at all, which ends the program.
    pub(super) fn read(text: &str) -> Result<Option<OffsetReset>, ConfigError> {
        const KEY: &str = "auto.offset.reset";
        let by_duration = || by_duration_ms(text).map(|ms| OffsetReset::ByDuration { ms });
        Ok(Some(match text {
            "none" => return Ok(None),
            "earliest" => OffsetReset::Earliest,
            "latest" => OffsetReset::Latest,
            _ => by_duration().ok_or_else(|| {
                let reason = format!(
                    "Invalid value `{text}` for configuration {KEY}. The value must be either 'earliest', 'latest', \
                     'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'."
                );
                ConfigError::new(KEY, text, reason)
            })?,
        }))
    }

    /// The timestamp that ListOffsets asks for.
    pub fn timestamp(self, now: Time) -> i64 {
        match self {
            OffsetReset::Latest => -1,
            OffsetReset::Earliest => -2,
            OffsetReset::ByDuration { ms } => now.wall_ms().saturating_sub(ms),
        }
    }
}
