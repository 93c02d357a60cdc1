//! Which partition of `__share_group_state` keeps what a group has done in one partition (R-SHARE-3,
//! `SharePartitionKey`).

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::kafka::group::partition_for;
use crate::kafka::types::{GroupId, TopicId};

/// One partition of one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareKey {
    pub group: GroupId,
    pub topic_id: TopicId,
    pub partition: i32,
}

impl ShareKey {
    /// The partition, of `partitions` in all, that keeps its state.
    pub fn coordinator_partition(&self, partitions: i32) -> i32 {
        partition_for(&self.to_string(), partitions)
    }
}

/// `asCoordinatorKey`: what FindCoordinator is asked for.
impl fmt::Display for ShareKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.group, uuid_text(self.topic_id.0), self.partition)
    }
}

/// Of a uuid in base64, without padding, and the bits that each holds.
const DIGITS: u32 = 22;
const BITS: u32 = 6;
const BASE64_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A Kafka `Uuid` as text: base64 for addresses, without padding.
pub fn uuid_text(id: uuid::Uuid) -> String {
    // 128 bits and four more, so that the last digit is whole.
    let low = id.as_u128() << 4;
    let high = id.as_u128() >> (128 - BITS);
    let digit = |place: u32| match place {
        0 => high,
        _ => low << (BITS * place - 4) >> (128 - BITS),
    };
    (0..DIGITS).map(|place| char::from(BASE64_DIGITS[digit(place) as usize & 63])).collect()
}

/// A text that names no share partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not of the form group:topic-id:partition")]
pub struct BadShareKey(String);

/// `getInstance`: a group may have colons in its name.
impl FromStr for ShareKey {
    type Err = BadShareKey;

    fn from_str(text: &str) -> Result<ShareKey, BadShareKey> {
        let mut parts = text.rsplitn(3, ':');
        let partition = parts.next().and_then(|partition| partition.parse().ok());
        let topic_id = parts.next().and_then(parse_uuid);
        let group = parts.next().filter(|group| !group.trim().is_empty());
        match (group, topic_id, partition) {
            (Some(group), Some(topic_id), Some(partition)) => {
                Ok(ShareKey { group: GroupId::new(group), topic_id, partition })
            }
            _ => Err(BadShareKey(text.to_string())),
        }
    }
}

fn parse_uuid(text: &str) -> Option<TopicId> {
    if text.len() != DIGITS as usize {
        return None;
    }
    let mut id = 0_u128;
    for (digit, place) in text.bytes().zip(0..) {
        let value = BASE64_DIGITS.iter().position(|known| *known == digit)? as u128;
        // The last digit has four bits more than there are.
        id = if place == DIGITS - 1 { id << 2 | value >> 4 } else { id << BITS | value };
    }
    Some(TopicId(Uuid::from_u128(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, topic_id: u128, partition: i32) -> ShareKey {
        ShareKey { group: group.into(), topic_id: TopicId(Uuid::from_u128(topic_id)), partition }
    }

    #[test]
    fn a_key_is_the_group_the_topic_as_java_writes_it_and_the_partition_r_share_3() {
        let id = 0xff_00_a5_10_42_9b_4c_8d_87_1e_3f_00_01_02_03_fe;
        assert_eq!(key("g", id, 3).to_string(), "g:_wClEEKbTI2HHj8AAQID_g:3");
        assert_eq!(key("g", 1, 0).to_string(), "g:AAAAAAAAAAAAAAAAAAAAAQ:0");
    }

    #[test]
    fn a_key_reads_back_and_nothing_else_is_one() {
        let key = key("a:b", 0xff_00_a5_10_42_9b_4c_8d_87_1e_3f_00_01_02_03_fe, 12);
        assert_eq!(key.to_string().parse(), Ok(key));
        for text in [
            "",
            "g",
            "g:AAAAAAAAAAAAAAAAAAAAAQ",
            " :AAAAAAAAAAAAAAAAAAAAAQ:0",
            "g:AAAA:0",
            "g:AAAAAAAAAAAAAAAAAAAAAQ:x",
            "g:AAAAAAAAAAAAAAAAAAAAA!:0",
        ] {
            assert!(text.parse::<ShareKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn its_hash_picks_the_partition_r_share_3() {
        assert_eq!(key("share-group", 1, 0).coordinator_partition(50), 49);
    }
}
