//! What an application wants to read (`SubscriptionState.SubscriptionType`, with what was given for it).
//!
//! **Invariant:** a consumer has one choice at a time, and comes to one of another kind only by unsubscribe().

use std::fmt;
use std::rc::Rc;

use crate::client::pattern::TopicPattern;
use crate::kafka::types::{Topic, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// subscribe(topics): their partitions are shared out among the members of the group.
    Topics(Vec<Topic>),
    /// subscribe(Pattern): the topics of the client's metadata whose names match.
    Pattern(TopicPattern),
    /// subscribe(SubscriptionPattern): the coordinator looks for them, with group.protocol=consumer only (R-CG8-13).
    Re2j(Rc<str>),
    /// assign(partitions): exactly these, whoever else reads them (R-CONS-10).
    Partitions(Vec<TopicPartition>),
}

impl Choice {
    /// Whether the consumer has to be a member of its group.
    pub fn is_in_group(&self) -> bool {
        !matches!(self, Choice::Partitions(_))
    }

    /// The topics that it names, each once; those that match only metadata knows.
    pub fn topics(&self) -> Vec<Topic> {
        let named: Vec<&Topic> = match self {
            Choice::Topics(topics) => topics.iter().collect(),
            Choice::Pattern(_) | Choice::Re2j(_) => Vec::new(),
            Choice::Partitions(partitions) => partitions.iter().map(|tp| &tp.topic).collect(),
        };
        let mut topics: Vec<Topic> = Vec::new();
        for topic in named {
            if !topics.contains(topic) {
                topics.push(topic.clone());
            }
        }
        topics
    }

    /// Whether one may follow the other without unsubscribe() between them.
    pub fn is_of_one_kind_with(&self, other: &Choice) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// `topics orders, payments`, as a sentence goes on after "reads".
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: Vec<String>| names.join(", ");
        match self {
            Choice::Topics(topics) => {
                write!(f, "topics {}", list(topics.iter().map(Topic::to_string).collect()))
            }
            Choice::Pattern(pattern) => write!(f, "topics that match {}", pattern.as_str()),
            Choice::Re2j(pattern) => write!(f, "topics that the coordinator finds to match {pattern}"),
            Choice::Partitions(partitions) => {
                write!(f, "partitions {}", list(partitions.iter().map(TopicPartition::to_string).collect()))
            }
        }
    }
}
