//! Values as the vectors write them.
//!
//! **Invariant:** a value that is not of its form is an error of the file, never another value.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error};
use uuid::Uuid;

use crate::kafka::types::{Topic, TopicId, TopicPartition};

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

/// A topic id in Java's text form: base64 for addresses, without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TopicIdText(pub(super) TopicId);

impl<'de> Deserialize<'de> for TopicIdText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TopicIdText, D::Error> {
        const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let text = String::deserialize(deserializer)?;
        // 22 digits are 132 bits, the last four of them zero.
        let number = text.chars().try_fold((0u128, 0u32), |(number, digits), digit| {
            let value = DIGITS.find(digit)? as u128;
            Some(if digits < 21 {
                (number << 6 | value, digits + 1)
            } else {
                (number << 2 | value >> 4, digits + 1)
            })
        });
        match number {
            Some((number, 22)) => Ok(TopicIdText(TopicId(Uuid::from_u128(number)))),
            _ => Err(D::Error::custom(format!("{text:?} is no topic id"))),
        }
    }
}

/// Partitions as `[topic, [partitions]]` runs.
pub(super) type Runs = Vec<(String, Vec<i32>)>;

/// The partitions of the runs, in their order.
pub(super) fn partitions_of(runs: &Runs) -> Vec<TopicPartition> {
    let of_run = |(topic, partitions): &(String, Vec<i32>)| {
        let topic = Topic::new(topic);
        partitions.iter().map(move |partition| TopicPartition::new(&topic, *partition)).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}
