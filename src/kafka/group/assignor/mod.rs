//! Assignors: who gets which partitions (sections 6.8 and 7.6 of the reference).
//!
//! [`ClientAssignor`] makes the plan of a classic group's leader, [`server`] what the coordinator computes for the groups
//! of the newer protocols.
//!
//! Some of Kafka's ties are settled by the order in which Java walks a hash map. Here that order is an input: members are
//! walked as the slice lists them.
//!
//! **Invariant:** a plan depends on what is passed in and on nothing else, and is Kafka's for the same input, the order of
//! each member's partitions included.

mod dense;
mod places;
mod racks;
mod range;
mod round_robin;
pub mod server;
mod sticky;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;

use crate::kafka::types::{Generation, MemberId, Topic, TopicPartition};

/// What an assignor knows of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub member: MemberId,
    pub instance_id: Option<String>,
    /// Members with the same subscription best share it.
    pub topics: Rc<[Topic]>,
    /// What the member says it owns.
    pub owned: Rc<[TopicPartition]>,
    /// Of `owned`; an older member does not say.
    pub generation: Option<Generation>,
    pub rack: Option<Rc<str>>,
    /// What the assignor on the member's side added.
    pub user_data: Option<Bytes>,
}

impl Subscription {
    /// Of a dynamic member that owns nothing.
    pub fn new(member: MemberId, topics: Rc<[Topic]>) -> Subscription {
        Subscription {
            member,
            instance_id: None,
            topics,
            owned: Rc::default(),
            generation: None,
            rack: None,
            user_data: None,
        }
    }
}

/// What an assignor knows of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicShape {
    pub partitions: i32,
    /// The racks of each partition's replicas, live or not; none where brokers have no racks.
    pub racks: Option<Rc<[BTreeSet<Rc<str>>]>>,
}

impl TopicShape {
    /// Of a topic on brokers without racks.
    pub fn of_partitions(partitions: i32) -> TopicShape {
        TopicShape { partitions, racks: None }
    }
}

/// Each member's partitions, in Kafka's order.
pub type Plan = BTreeMap<MemberId, Vec<TopicPartition>>;

/// No plan comes out, where Kafka's assignor throws. The first two need a member that claims a partition which is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("no member may take {0}")]
    NobodyLeft(TopicPartition),
    #[error("member {0} gets less than its share")]
    BelowShare(MemberId),
    /// A member claims, for an older generation, what it does not subscribe to any more, and takes part in no move.
    #[error("{0} cannot go back to a member whose partitions are fixed")]
    FixedOwner(TopicPartition),
}

/// How members hand partitions over (R-GRP-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RebalanceProtocol {
    /// All are given up before the join.
    Eager,
    /// Only those that change hands are given up, after the join.
    Cooperative,
}

/// The assignors that Kafka's consumer brings along (`partition.assignment.strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientAssignor {
    Range,
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

impl ClientAssignor {
    pub const ALL: [ClientAssignor; 4] = [
        ClientAssignor::Range,
        ClientAssignor::RoundRobin,
        ClientAssignor::Sticky,
        ClientAssignor::CooperativeSticky,
    ];

    /// The name by which it is known in JoinGroup.
    pub fn name(self) -> &'static str {
        match self {
            ClientAssignor::Range => "range",
            ClientAssignor::RoundRobin => "roundrobin",
            ClientAssignor::Sticky => "sticky",
            ClientAssignor::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The class that the config names, without its package.
    fn class(self) -> &'static str {
        match self {
            ClientAssignor::Range => "RangeAssignor",
            ClientAssignor::RoundRobin => "RoundRobinAssignor",
            ClientAssignor::Sticky => "StickyAssignor",
            ClientAssignor::CooperativeSticky => "CooperativeStickyAssignor",
        }
    }

    /// By its name in JoinGroup, by its class, or by its class with Kafka's package.
    pub fn of_config(text: &str) -> Option<ClientAssignor> {
        let class = text.strip_prefix("org.apache.kafka.clients.consumer.").unwrap_or(text);
        Self::ALL.into_iter().find(|assignor| assignor.name() == text || assignor.class() == class)
    }

    /// What it can do, the better first.
    pub fn protocols(self) -> &'static [RebalanceProtocol] {
        match self {
            ClientAssignor::CooperativeSticky => &[RebalanceProtocol::Cooperative, RebalanceProtocol::Eager],
            _ => &[RebalanceProtocol::Eager],
        }
    }

    /// What the member's next subscription carries for it (R-ASG-7). `last` is the last assignment, none before the
    /// first; `generation` is that of the last assignment, NONE before the first.
    pub fn user_data(self, last: Option<&[TopicPartition]>, generation: Generation) -> Option<Bytes> {
        match self {
            ClientAssignor::Range | ClientAssignor::RoundRobin => None,
            ClientAssignor::Sticky => last.map(|last| sticky::user_data::encode_owned(last, generation)),
            ClientAssignor::CooperativeSticky => Some(sticky::user_data::encode_generation(generation)),
        }
    }

    /// Members are walked in the order of `members`. `topics` need not hold what has no metadata, and may hold what
    /// nobody subscribes to.
    ///
    /// # Errors
    /// The sticky algorithms do not get over some claims; see [`PlanError`].
    pub fn assign(
        self,
        members: &[Subscription],
        topics: &BTreeMap<Topic, TopicShape>,
    ) -> Result<Plan, PlanError> {
        match self {
            ClientAssignor::Range => Ok(range::assign(members, topics)),
            ClientAssignor::RoundRobin => Ok(round_robin::assign(members, topics)),
            ClientAssignor::Sticky => sticky::assign(sticky::Claims::UserData, members, topics),
            ClientAssignor::CooperativeSticky => sticky::assign(sticky::Claims::Fields, members, topics),
        }
    }
}

/// Members in the order in which range and round robin serve them, as places in the slice: static ones first, by instance
/// id, then the others by member id (`AbstractPartitionAssignor.MemberInfo`).
fn in_order(members: &[Subscription]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..members.len() as u32).collect();
    let key = |place: &u32| {
        let subscription = &members[*place as usize];
        let instance_id = subscription.instance_id.as_deref();
        (instance_id.is_none(), instance_id, instance_id.is_none().then_some(&subscription.member))
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

#[cfg(test)]
mod tests;
