//! What the coordinator assigns to the members of the newer group protocols (R-CG8-22 to 24, R-SHARE-2).
//!
//! Where Kafka walks a hash map, the order is an input: members are walked as [`GroupSpec::members`] lists them, topics as
//! [`GroupSpec::topics`] does, and what a member has as its [`Assigned`] lists it.
//!
//! **Invariant:** a member whose partitions stay the same keeps the very list it had; a new list has its topics in the
//! order of [`GroupSpec::topics`] and its partitions rising.

mod balancer;
mod heterogeneous;
mod quota;
mod range;
mod simple;
mod taken;
mod uniform;

use std::rc::Rc;

use super::places::Places;
use crate::kafka::types::{MemberId, TopicId};

pub use simple::{Assignable, assign as simple};
pub use taken::Taken;

/// The partitions of one member. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assigned {
    /// Each topic with where its partitions end.
    topics: Rc<[(TopicId, u32)]>,
    partitions: Rc<[i32]>,
}

impl Assigned {
    /// From topics with their partitions, in the order in which they will be walked.
    pub fn new<P: AsRef<[i32]>>(topics: impl IntoIterator<Item = (TopicId, P)>) -> Assigned {
        let mut assigned = Building::default();
        for (topic, partitions) in topics {
            assigned.partitions.extend_from_slice(partitions.as_ref());
            assigned.end_topic(topic);
        }
        assigned.finish()
    }

    /// The topics that there are partitions of.
    pub fn iter(&self) -> impl Iterator<Item = (TopicId, &[i32])> {
        let mut begin = 0;
        self.topics.iter().map(move |(topic, end)| {
            let partitions = &self.partitions[begin as usize..*end as usize];
            begin = *end;
            (*topic, partitions)
        })
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Whether both are the same list in memory.
    pub fn is_same(&self, other: &Assigned) -> bool {
        Rc::ptr_eq(&self.topics, &other.topics) && Rc::ptr_eq(&self.partitions, &other.partitions)
    }
}

/// An [`Assigned`] that is being written, one after the other in the same memory.
#[derive(Default)]
struct Building {
    topics: Vec<(TopicId, u32)>,
    partitions: Vec<i32>,
}

impl Building {
    /// All partitions since the last topic are this one's.
    fn end_topic(&mut self, topic: TopicId) {
        let (begin, end) = (self.topics.last().map_or(0, |(_, end)| *end), self.partitions.len() as u32);
        if begin < end {
            self.topics.push((topic, end));
        }
    }

    /// What was written, and begins anew.
    fn finish(&mut self) -> Assigned {
        let assigned =
            Assigned { topics: self.topics.as_slice().into(), partitions: self.partitions.as_slice().into() };
        self.topics.clear();
        self.partitions.clear();
        assigned
    }

    /// From (topic's place, partition) in any order.
    fn of_pairs(&mut self, pairs: &mut [(u32, i32)], topics: &[(TopicId, i32)]) -> Assigned {
        pairs.sort_unstable();
        for of_topic in pairs.chunk_by(|a, b| a.0 == b.0) {
            self.partitions.extend(of_topic.iter().map(|(_, partition)| *partition));
            self.end_topic(topics[of_topic[0].0 as usize].0);
        }
        self.finish()
    }
}

/// One member of a group.
#[derive(Clone, Copy, Debug)]
pub struct MemberSpec<'a> {
    pub id: &'a MemberId,
    pub instance_id: Option<&'a str>,
    /// What it subscribes to: places in [`GroupSpec::topics`], rising.
    pub topics: &'a [u32],
    /// What it has in the target assignment so far.
    pub target: &'a Assigned,
}

/// A group that is to be assigned.
#[derive(Clone, Copy, Debug)]
pub struct GroupSpec<'a> {
    pub members: &'a [MemberSpec<'a>],
    /// Each topic that somebody subscribes to, once, with its number of partitions.
    pub topics: &'a [(TopicId, i32)],
    /// All members name the same topics, those that do not exist included.
    pub homogeneous: bool,
    /// What the members' targets hold.
    pub taken: &'a Taken,
}

impl GroupSpec<'_> {
    fn places(&self) -> Places<TopicId> {
        Places::new(self.topics.iter().map(|(topic, _)| *topic).collect())
    }
}

/// The assignors of consumer groups (`group.consumer.assignors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerAssignor {
    Uniform,
    Range,
}

impl ServerAssignor {
    pub const ALL: [ServerAssignor; 2] = [ServerAssignor::Uniform, ServerAssignor::Range];

    pub fn name(self) -> &'static str {
        match self {
            ServerAssignor::Uniform => "uniform",
            ServerAssignor::Range => "range",
        }
    }

    /// By the name that a heartbeat or the config gives.
    pub fn of_name(name: &str) -> Option<ServerAssignor> {
        Self::ALL.into_iter().find(|assignor| assignor.name() == name)
    }

    /// Each member's new target, in the order of the members.
    pub fn assign(self, spec: &GroupSpec<'_>) -> Vec<Assigned> {
        match self {
            _ if spec.members.is_empty() => Vec::new(),
            ServerAssignor::Range => range::assign(spec),
            ServerAssignor::Uniform if spec.homogeneous => uniform::assign(spec),
            ServerAssignor::Uniform => heterogeneous::assign(spec),
        }
    }
}

#[cfg(test)]
mod tests;
