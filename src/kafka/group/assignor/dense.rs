//! A group's members, topics and partitions by numbers, so that the assignors compare no names while they work.
//!
//! **Invariant:** topics are numbered by name and partitions by (topic, partition), so numbers are ordered as what they
//! stand for; members keep their places in the slice.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::places::Places;
use super::{Plan, Subscription, TopicShape};
use crate::kafka::types::{Topic, TopicPartition};

/// A topic that somebody subscribes to and that has partitions.
pub(super) struct DenseTopic<'a> {
    pub name: &'a Topic,
    pub partitions: u32,
    /// The number of its partition 0.
    pub first: u32,
    pub racks: Option<&'a [BTreeSet<Rc<str>>]>,
}

impl DenseTopic<'_> {
    pub(super) fn tp(&self, partition: u32) -> TopicPartition {
        TopicPartition::new(self.name, partition as i32)
    }
}

pub(super) struct Dense<'a> {
    pub members: &'a [Subscription],
    /// By name.
    pub topics: Vec<DenseTopic<'a>>,
    /// How many partitions there are in all.
    pub total: u32,
    /// The topics of each different subscription, in its order.
    pub kinds: Vec<Vec<u32>>,
    /// Which of `kinds` each member has.
    pub kind_of: Vec<u32>,
    places: Places<&'a Topic>,
}

impl<'a> Dense<'a> {
    pub(super) fn new(members: &'a [Subscription], shapes: &'a BTreeMap<Topic, TopicShape>) -> Dense<'a> {
        let (lists, kind_of) = different_subscriptions(members);
        let mut known: Vec<(&Topic, &TopicShape)> =
            shapes.iter().filter(|(_, shape)| shape.partitions > 0).collect();
        let mut places = Places::new(known.iter().map(|(topic, _)| *topic).collect());
        let mut kinds = kinds_of(&lists, &places);
        let mut wanted = vec![false; known.len()];
        kinds.iter().flatten().for_each(|topic| wanted[*topic as usize] = true);
        if wanted.contains(&false) {
            let mut wanted = wanted.iter();
            known.retain(|_| wanted.next() == Some(&true));
            places = Places::new(known.iter().map(|(topic, _)| *topic).collect());
            kinds = kinds_of(&lists, &places);
        }
        let mut total = 0;
        let topics = known.iter().map(|(name, shape)| {
            let (partitions, first) = (shape.partitions as u32, total);
            total += partitions;
            DenseTopic { name, partitions, first, racks: shape.racks.as_deref() }
        });
        Dense { members, topics: topics.collect(), total, kinds, kind_of, places }
    }

    /// The number of a topic that somebody subscribes to and that has partitions.
    pub(super) fn topic(&self, name: &Topic) -> Option<u32> {
        self.places.find(&name)
    }

    /// The topics that a member subscribes to.
    pub(super) fn topics_of(&self, member: u32) -> &[u32] {
        &self.kinds[self.kind_of[member as usize] as usize]
    }

    /// For each kind of subscription whether each topic is in it.
    pub(super) fn wanted(&self) -> Vec<Vec<bool>> {
        let wanted = |kind: &Vec<u32>| {
            let mut wanted = vec![false; self.topics.len()];
            kind.iter().for_each(|topic| wanted[*topic as usize] = true);
            wanted
        };
        self.kinds.iter().map(wanted).collect()
    }

    /// Each topic's subscribers in the order of `members`.
    pub(super) fn subscribers(&self, members: Vec<u32>) -> Subscribers {
        if let [kind] = self.kinds.as_slice()
            && kind.len() == self.topics.len()
        {
            return Subscribers::All(members);
        }
        let mut of_topic = vec![Vec::new(); self.topics.len()];
        for member in members {
            self.topics_of(member).iter().for_each(|topic| of_topic[*topic as usize].push(member));
        }
        Subscribers::Each(of_topic)
    }

    /// The plan that gives each member its list.
    pub(super) fn plan(&self, lists: Vec<Vec<TopicPartition>>) -> Plan {
        self.members.iter().map(|subscription| subscription.member.clone()).zip(lists).collect()
    }
}

pub(super) enum Subscribers {
    /// The same for each topic.
    All(Vec<u32>),
    Each(Vec<Vec<u32>>),
}

impl Subscribers {
    pub(super) fn of(&self, topic: u32) -> &[u32] {
        match self {
            Subscribers::All(members) => members,
            Subscribers::Each(of_topic) => &of_topic[topic as usize],
        }
    }
}

/// The different subscriptions, and which one each member has.
fn different_subscriptions(members: &[Subscription]) -> (Vec<&[Topic]>, Vec<u32>) {
    let mut lists: Vec<&[Topic]> = Vec::new();
    let mut seen: BTreeMap<&[Topic], u32> = BTreeMap::new();
    let mut before: Option<(&Rc<[Topic]>, u32)> = None;
    let kind_of = members.iter().map(|subscription| {
        let topics = &subscription.topics;
        let kind = match before {
            Some((same, kind)) if Rc::ptr_eq(same, topics) || same == topics => kind,
            _ => *seen.entry(topics).or_insert_with(|| {
                lists.push(topics);
                lists.len() as u32 - 1
            }),
        };
        before = Some((topics, kind));
        kind
    });
    let kind_of = kind_of.collect();
    (lists, kind_of)
}

/// The numbers of the known topics in each list, each once.
fn kinds_of(lists: &[&[Topic]], places: &Places<&Topic>) -> Vec<Vec<u32>> {
    let numbers = |list: &&[Topic]| {
        let mut numbers: Vec<u32> = list.iter().filter_map(|topic| places.find(&topic)).collect();
        let different: BTreeSet<&u32> = numbers.iter().collect();
        if different.len() < numbers.len() {
            let mut seen = BTreeSet::new();
            numbers.retain(|topic| seen.insert(*topic));
        }
        numbers
    };
    lists.iter().map(numbers).collect()
}
