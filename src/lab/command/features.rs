//! Commands about levels of features, as `kafka-features` has them: reading and writing them.
//!
//! `upgrade feature transaction.version=2`, `downgrade feature transaction.version=1`.

use super::CommandError;
use super::tokens::quote;
use super::words::Words;
use crate::kafka::controller::features::UpgradeType;
use crate::sim::Command;

/// `feature transaction.version=2`, after `upgrade` or `downgrade`.
pub(super) fn update(words: &mut Words, upgrade: UpgradeType) -> Result<Command, CommandError> {
    const WHAT: &str = "a feature and its level, such as transaction.version=2";
    words.expect("feature")?;
    let token = words.take(WHAT)?;
    let level = token.value.as_ref().and_then(|level| level.parse().ok());
    match level {
        Some(level) if !token.text.is_empty() => {
            Ok(Command::UpdateFeature { feature: token.text.clone(), level, upgrade })
        }
        _ => Err(CommandError::new(token.column, format!("expected {WHAT}"))),
    }
}

pub(super) fn print(feature: &str, level: i16, upgrade: UpgradeType) -> String {
    let verb = match upgrade {
        UpgradeType::Upgrade => "upgrade",
        UpgradeType::SafeDowngrade => "downgrade",
    };
    format!("{verb} feature {}={level}", quote(feature))
}
