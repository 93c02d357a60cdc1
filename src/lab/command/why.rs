//! Questions that ask for a reason: of a state, an event, or of that nothing happens.
//!
//! **Invariant:** reading what is printed gives the question itself.

use std::fmt;

use super::CommandError;
use super::groups::group;
use super::parse::{client, partition};
use super::tokens::quote;
use super::words::{Words, check_filled, one_of};
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Why the in-sync set is as it is.
    Isr(TopicPartition),
    HighWatermark(TopicPartition),
    Leader(TopicPartition),
    LogStart(TopicPartition),
    /// Why a group is as far behind in a partition as it is.
    Lag {
        group: GroupId,
        tp: TopicPartition,
    },
    Committed {
        group: GroupId,
        tp: TopicPartition,
    },
    /// Why a record, by its partition and offset or by its producer and number, was read more than once.
    ReadTwice {
        of: String,
        number: i64,
    },
    Lost {
        of: String,
        number: i64,
    },
    OwnsNothing(ClientName),
    /// Why what a sentence of the narrative tells has happened.
    Event(u64),
    Broker(BrokerId),
    Controller(ControllerId),
    Client(ClientName),
    Group(GroupId),
    /// Why nothing happens at a client or a partition.
    Idle(String),
    IdleGroup(GroupId),
}

const SUBJECTS: &[&str] = &[
    "isr",
    "high",
    "leader",
    "log",
    "lag",
    "committed",
    "read",
    "lost",
    "owns",
    "event",
    "broker",
    "controller",
    "client",
    "group",
    "idle",
];

/// What follows `why`, and where it names what it is about.
pub(super) fn why(words: &mut Words) -> Result<(Why, i32), CommandError> {
    let subject = one_of(words, SUBJECTS)?;
    match subject {
        "high" => words.expect("watermark")?,
        "log" => words.expect("start")?,
        "read" => words.expect("twice")?,
        "owns" => words.expect("nothing")?,
        "lag" | "committed" => words.expect("of")?,
        _ => {}
    }
    let column = words.column();
    let why = match subject {
        "isr" => Why::Isr(partition(words)?),
        "high" => Why::HighWatermark(partition(words)?),
        "leader" => Why::Leader(partition(words)?),
        "log" => Why::LogStart(partition(words)?),
        "lag" => Why::Lag { group: group(words)?, tp: partition(words)? },
        "committed" => Why::Committed { group: group(words)?, tp: partition(words)? },
        "read" => {
            let (of, number) = super::question::record(words)?;
            Why::ReadTwice { of, number }
        }
        "lost" => {
            let (of, number) = super::question::record(words)?;
            Why::Lost { of, number }
        }
        "owns" => Why::OwnsNothing(client(words)?),
        "event" => Why::Event(words.parsed("the number of a line of the narrative")?),
        "broker" => Why::Broker(BrokerId(words.id("a broker id")?)),
        "controller" => Why::Controller(ControllerId(words.id("a controller id")?)),
        "client" => Why::Client(client(words)?),
        "group" => Why::Group(group(words)?),
        _ => idle(words)?,
    };
    Ok((why, column))
}

/// `idle consumer-a`, `idle orders-0`, `idle group billing`
fn idle(words: &mut Words) -> Result<Why, CommandError> {
    const WHAT: &str = "a client's name, a partition such as orders-0, or group and its name";
    if words.accept("group").is_some() {
        return Ok(Why::IdleGroup(group(words)?));
    }
    let token = words.plain(WHAT)?;
    check_filled(token, WHAT)?;
    Ok(Why::Idle(token.text.clone()))
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |tp: &TopicPartition| quote(&tp.to_string());
        match self {
            Why::Isr(tp) => write!(f, "why isr {}", of(tp)),
            Why::HighWatermark(tp) => write!(f, "why high watermark {}", of(tp)),
            Why::Leader(tp) => write!(f, "why leader {}", of(tp)),
            Why::LogStart(tp) => write!(f, "why log start {}", of(tp)),
            Why::Lag { group, tp } => write!(f, "why lag of {} {}", quote(group.as_str()), of(tp)),
            Why::Committed { group, tp } => {
                write!(f, "why committed of {} {}", quote(group.as_str()), of(tp))
            }
            Why::ReadTwice { of, number } => write!(f, "why read twice {} {number}", quote(of)),
            Why::Lost { of, number } => write!(f, "why lost {} {number}", quote(of)),
            Why::OwnsNothing(client) => write!(f, "why owns nothing {}", quote(client.as_str())),
            Why::Event(number) => write!(f, "why event {number}"),
            Why::Broker(id) => write!(f, "why broker {id}"),
            Why::Controller(id) => write!(f, "why controller {id}"),
            Why::Client(client) => write!(f, "why client {}", quote(client.as_str())),
            Why::Group(group) => write!(f, "why group {}", quote(group.as_str())),
            // Without quotes it would be the word before a group.
            Why::Idle(name) if name == "group" => write!(f, "why idle \"group\""),
            Why::Idle(name) => write!(f, "why idle {}", quote(name)),
            Why::IdleGroup(group) => write!(f, "why idle group {}", quote(group.as_str())),
        }
    }
}
