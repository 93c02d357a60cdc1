//! Values as the vectors write them.
//!
//! **Invariant:** a value that is not of its form is an error of the file, never another value.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error};

/// Bytes in lower-case hex.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hex(pub(super) Bytes);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
        let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
        let bytes: Option<Bytes> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Hex).ok_or_else(|| D::Error::custom(format!("{text:?} is not hex")))
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
