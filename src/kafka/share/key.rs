//! Which partition of `__share_group_state` keeps what a group has done in one partition (R-SHARE-3,
//! `SharePartitionKey`).

use std::fmt;

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
        write!(f, "{}:{}:{}", self.group, uuid_text(&self.topic_id), self.partition)
    }
}

const BASE64_DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A Kafka `Uuid` as text: base64 for addresses, without padding.
fn uuid_text(id: &TopicId) -> String {
    const DIGITS: u32 = 22;
    const BITS: u32 = 6;
    // 128 bits and four more, so that the last digit is whole.
    let low = id.0.as_u128() << 4;
    let high = id.0.as_u128() >> (128 - BITS);
    let digit = |place: u32| match place {
        0 => high,
        _ => low << (BITS * place - 4) >> (128 - BITS),
    };
    (0..DIGITS).map(|place| char::from(BASE64_DIGITS[digit(place) as usize & 63])).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

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
    fn its_hash_picks_the_partition_r_share_3() {
        assert_eq!(key("share-group", 1, 0).coordinator_partition(50), 49);
    }
}
