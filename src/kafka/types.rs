//! Ids, offsets and epochs as newtypes, so that one cannot be taken for another.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, AddAssign, Sub};
use std::rc::Rc;

use uuid::Uuid;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

newtype!(
    /// `broker.id` / `node.id` of a broker.
    BrokerId(i32)
);
newtype!(
    /// `node.id` of a controller.
    ControllerId(i32)
);
newtype!(
    /// A position in a partition's log: the offset of the record that is, or will be, there.
    Offset(i64)
);
newtype!(
    /// Raised by the controller whenever a partition's leader is set (R-REPL-2).
    LeaderEpoch(i32)
);
newtype!(
    /// Raised by the controller at every change of a partition (R-REPL-2).
    PartitionEpoch(i32)
);
newtype!(
    /// Offset of a broker's registration record in the metadata log (R-REPL-51).
    BrokerEpoch(i64)
);
newtype!(
    /// Generation of a classic consumer group (R-GRP-7).
    Generation(i32)
);
newtype!(
    /// Epoch of a group of the newer protocols, of its target assignment, of a member, or of a partition's assignment:
    /// one count serves for all of them (R-CG8-2).
    GroupEpoch(i32)
);
newtype!(
    /// A batch's number within its producer's process.
    BatchId(i64)
);
newtype!(
    /// Id of an idempotent producer.
    ProducerId(i64)
);
newtype!(
    /// Epoch of an idempotent producer.
    ProducerEpoch(i16)
);

/// `cluster.id`: every cluster here has the same.
pub const CLUSTER_ID: &str = "glassbroker";

impl BrokerId {
    /// NO_LEADER.
    pub const NONE: BrokerId = BrokerId(-1);

    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl Offset {
    pub const ZERO: Offset = Offset(0);
    /// UNKNOWN_OFFSET.
    pub const UNKNOWN: Offset = Offset(-1);
}

impl LeaderEpoch {
    /// UNDEFINED_EPOCH, NO_PARTITION_LEADER_EPOCH.
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

impl Generation {
    /// UNKNOWN_GENERATION.
    pub const NONE: Generation = Generation(-1);
}

impl GroupEpoch {
    /// A member with this epoch joins.
    pub const JOINING: GroupEpoch = GroupEpoch(0);
    /// LEAVE_GROUP_MEMBER_EPOCH: the member leaves or has left.
    pub const LEFT: GroupEpoch = GroupEpoch(-1);
    /// LEAVE_GROUP_STATIC_MEMBER_EPOCH: a static member leaves for a while.
    pub const AWAY: GroupEpoch = GroupEpoch(-2);

    pub fn next(self) -> GroupEpoch {
        GroupEpoch(self.0 + 1)
    }
}

impl ProducerId {
    /// NO_PRODUCER_ID.
    pub const NONE: ProducerId = ProducerId(-1);

    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl ProducerEpoch {
    /// NO_PRODUCER_EPOCH.
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

impl Add<i64> for Offset {
    type Output = Offset;
    fn add(self, records: i64) -> Offset {
        Offset(self.0 + records)
    }
}

impl AddAssign<i64> for Offset {
    fn add_assign(&mut self, records: i64) {
        self.0 += records;
    }
}

impl Sub for Offset {
    type Output = i64;
    fn sub(self, other: Offset) -> i64 {
        self.0 - other.0
    }
}

/// A topic's id: given at creation, never used again (R-PLACE-9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub Uuid);

impl TopicId {
    /// Where a topic has no id, or is named otherwise.
    pub const NONE: TopicId = TopicId(Uuid::nil());

    /// The order of Java's `Uuid`: by its halves, as signed numbers. Some ties go to the lower id in that order.
    pub fn cmp_as_java(&self, other: &TopicId) -> Ordering {
        let halves = |id: &TopicId| {
            let (high, low) = id.0.as_u64_pair();
            (high as i64, low as i64)
        };
        halves(self).cmp(&halves(other))
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const PREFIX_BYTES: usize = 8;

/// The first bytes as one number that is ordered as they are; what a shorter text lacks counts as zero.
fn prefix_of(text: &str) -> u64 {
    let mut bytes = [0; PREFIX_BYTES];
    let length = text.len().min(PREFIX_BYTES);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Eq)]
        pub struct $name {
            /// The first bytes, which settle most comparisons without a look at the text.
            prefix: u64,
            text: Rc<str>,
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.text).finish()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.text.hash(state);
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            /// The order of the texts. Most names that are alike are copies of one.
            fn cmp(&self, other: &Self) -> Ordering {
                self.prefix.cmp(&other.prefix).then_with(|| {
                    if self.text.len().max(other.text.len()) <= PREFIX_BYTES {
                        self.text.len().cmp(&other.text.len())
                    } else if Rc::ptr_eq(&self.text, &other.text) {
                        Ordering::Equal
                    } else {
                        self.text.cmp(&other.text)
                    }
                })
            }
        }

        impl $name {
            pub fn new(text: &str) -> Self {
                Self { prefix: prefix_of(text), text: Rc::from(text) }
            }

            pub fn as_str(&self) -> &str {
                &self.text
            }

            /// The form that requests carry.
            pub fn to_wire(&self) -> kafka_protocol::protocol::StrBytes {
                kafka_protocol::protocol::StrBytes::from_string(self.text.to_string())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.text)
            }
        }
    };
}

name!(
    /// A topic's name.
    Topic
);
name!(
    /// `group.id`.
    GroupId
);
name!(
    /// A group member's id, given by the coordinator (R-GRP-9).
    MemberId
);
name!(
    /// `transactional.id` (R-TXN-1).
    TransactionalId
);
name!(
    /// The name a person gave to a client; it is its `client.id` too.
    ClientName
);

impl MemberId {
    /// UNKNOWN_MEMBER_ID.
    pub fn unknown() -> MemberId {
        MemberId::new("")
    }

    pub fn is_unknown(&self) -> bool {
        self.text.is_empty()
    }
}

/// One partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: Topic,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: &Topic, partition: i32) -> Self {
        Self { topic: topic.clone(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A process on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    Controller(ControllerId),
    Broker(BrokerId),
    /// A client process by its number; numbers are never used again.
    Client(u32),
}

impl From<BrokerId> for NodeId {
    fn from(id: BrokerId) -> Self {
        NodeId::Broker(id)
    }
}

impl From<ControllerId> for NodeId {
    fn from(id: ControllerId) -> Self {
        NodeId::Controller(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeId::Controller(id) => write!(f, "controller {id}"),
            NodeId::Broker(id) => write!(f, "broker {id}"),
            NodeId::Client(number) => write!(f, "client {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_their_texts() {
        let texts =
            ["", "\0", "a", "a\0", "a\0b", "ab", "orders", "orders-1", "orders-10", "orders-2", "ünder"];
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let (left, right) = (Topic::new(a), Topic::new(b));
            assert_eq!(left.cmp(&right), a.cmp(b), "{a:?} {b:?}");
            assert_eq!(left == right, a == b, "{a:?} {b:?}");
        }
        assert_eq!(Topic::new("orders"), Topic::new("orders"));
    }
}
