//! Clients that are added with less than everything: the rest is as the others have it.
//!
//! `add consumer consumer-c to billing` means one more member like the others. What it comes to is settled when it is
//! given, so that a journal holds commands that say everything.

use std::collections::BTreeMap;

use super::question::{NO_COMMAND, Question};
use super::share::ShareConsumerDraft;
use crate::client::consumer::config::INSTANCE_ID;
use crate::client::consumer::{Choice, ConsumerSpec, Line};
use crate::client::producer::TransactionPace;
use crate::client::producer::workload::{KeyPattern, ProducerSpec, Rate, ValuePattern};
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::types::{ClientName, GroupId, Topic};
use crate::sim::{Command, Refusal};

/// A command as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It says everything.
    Whole(Command),
    /// `add producer` that leaves something open.
    Producer(ProducerDraft),
    /// `add consumer` that leaves something open.
    Consumer(ConsumerDraft),
    /// `add share consumer` that leaves something open.
    ShareConsumer(ShareConsumerDraft),
    /// It only asks.
    Question(Question),
}

impl From<Command> for Written {
    fn from(command: Command) -> Written {
        Written::Whole(command)
    }
}

/// What was said of a new producer.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerDraft {
    pub name: ClientName,
    pub topic: Option<Topic>,
    pub rate: Option<Rate>,
    pub keys: Option<KeyPattern>,
    pub partition: Option<i32>,
    pub value: Option<String>,
    pub value_size: Option<i32>,
    pub transactions: Option<TransactionPace>,
    pub config: BTreeMap<String, String>,
}

/// What was said of a new consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerDraft {
    pub name: ClientName,
    /// Empty for none.
    pub group: GroupId,
    /// `None`: as the group's other members.
    pub choice: Option<Choice>,
    pub program: Option<Vec<Line>>,
    pub config: BTreeMap<String, String>,
}

impl ProducerDraft {
    pub fn new(name: ClientName) -> ProducerDraft {
        ProducerDraft {
            name,
            topic: None,
            rate: None,
            keys: None,
            partition: None,
            value: None,
            value_size: None,
            transactions: None,
            config: BTreeMap::new(),
        }
    }
}

impl ConsumerDraft {
    pub fn new(name: ClientName, group: GroupId) -> ConsumerDraft {
        ConsumerDraft { name, group, choice: None, program: None, config: BTreeMap::new() }
    }
}

impl Written {
    /// The whole command if the draft leaves nothing open, so that a printed one needs no others.
    pub(super) fn producer(draft: ProducerDraft) -> Written {
        let said_all = draft.topic.is_some() && draft.rate.is_some() && draft.keys.is_some();
        match Clients::default().producer(&draft) {
            Ok(spec) if said_all => Written::Whole(Command::AddProducer(spec)),
            _ => Written::Producer(draft),
        }
    }

    pub(super) fn consumer(draft: ConsumerDraft) -> Written {
        let said_all = draft.choice.is_some() && draft.program.is_some();
        match Clients::default().consumer(&draft) {
            Ok(spec) if said_all => Written::Whole(Command::AddConsumer(spec)),
            _ => Written::Consumer(draft),
        }
    }
}

/// The clients that new ones may be like, the oldest first, and the topics there are.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    pub topics: Vec<Topic>,
    pub producers: Vec<ProducerSpec>,
    pub consumers: Vec<ConsumerSpec>,
    pub share_consumers: Vec<ShareConsumerSpec>,
}

const DEFAULT_RATE: &str = "5/s";
const DEFAULT_KEYS: &str = "key-{0..7}";
const DEFAULT_PROGRAM: [&str; 3] = ["poll", "process 20ms", "commit"];

impl Clients {
    /// Takes note of what a command brings.
    pub fn note(&mut self, command: &Command) {
        match command {
            Command::CreateTopic { topic, .. } => self.topics.push(topic.clone()),
            Command::AddProducer(spec) => self.producers.push(spec.clone()),
            Command::AddConsumer(spec) => self.consumers.push(spec.clone()),
            Command::AddShareConsumer(spec) => self.share_consumers.push(spec.clone()),
            _ => {}
        }
    }

    /// Fills what was left open.
    ///
    /// # Errors
    ///
    /// There is nobody to be like, and no topic to use; or it is a question.
    pub fn complete(&self, written: Written) -> Result<Command, Refusal> {
        match written {
            Written::Whole(command) => Ok(command),
            Written::Producer(draft) => self.producer(&draft).map(Command::AddProducer),
            Written::Consumer(draft) => self.consumer(&draft).map(Command::AddConsumer),
            Written::Question(_) => Err(refusal(NO_COMMAND.to_owned())),
            Written::ShareConsumer(draft) => draft.complete(self).map(Command::AddShareConsumer),
        }
    }

    /// What is open is as the newest producer of the topic has it, else a few keys at a calm rate; without a topic, the
    /// first there is.
    fn producer(&self, draft: &ProducerDraft) -> Result<ProducerSpec, Refusal> {
        let topic = draft.topic.as_ref().or(self.topics.first());
        let topic = topic.ok_or_else(|| refusal(format!("{}: there is no topic to send to", draft.name)))?;
        let like = self.producers.iter().rev().find(|other| other.topic == *topic);
        let rate = draft.rate.or(like.map(|other| other.rate)).unwrap_or_else(default_rate);
        let keys =
            draft.keys.as_ref().or(like.map(|other| &other.keys)).cloned().unwrap_or_else(default_keys);
        let value = match (&draft.value, like) {
            (Some(text), _) => ValuePattern::new(text),
            (None, Some(other)) if draft.keys.is_none() => other.value.clone(),
            (None, _) => ValuePattern::for_keys(&keys),
        };
        Ok(ProducerSpec {
            name: draft.name.clone(),
            topic: topic.clone(),
            rate,
            keys,
            partition: draft.partition.or(like.and_then(|other| other.partition)),
            value,
            value_size: draft.value_size.or(like.and_then(|other| other.value_size)),
            transactions: draft.transactions,
            config: merged(like.map(|other| plain(&other.config)).as_ref(), &draft.config),
        })
    }

    /// What is open is as the group's newest member has it, but for who that is as a static member. The first member of a
    /// group says at least its topics, unless there is only one; who is in no group says its partitions.
    fn consumer(&self, draft: &ConsumerDraft) -> Result<ConsumerSpec, Refusal> {
        let has_group = !draft.group.as_str().is_empty();
        let like = self.consumers.iter().rev().find(|other| has_group && other.group == draft.group);
        let choice = match (&draft.choice, like, &self.topics[..]) {
            (Some(choice), _, _) => choice.clone(),
            (None, Some(other), _) => other.choice.clone(),
            (None, None, _) if !has_group => {
                return Err(refusal(format!("{} is in no group; say its partitions", draft.name)));
            }
            (None, None, [only]) => Choice::Topics(vec![only.clone()]),
            (None, None, _) => {
                let reason = format!("group {} has no member to be like; say its topics", draft.group);
                return Err(refusal(reason));
            }
        };
        let mut config = like.map(|other| other.config.clone()).unwrap_or_default();
        config.remove(INSTANCE_ID);
        let program = draft.program.clone().or_else(|| like.map(|other| other.program.clone()));
        Ok(ConsumerSpec {
            name: draft.name.clone(),
            group: draft.group.clone(),
            choice,
            program: program.unwrap_or_else(default_program),
            config: merged(Some(&config), &draft.config),
        })
    }
}

pub(super) fn refusal(reason: String) -> Refusal {
    Refusal { error: None, reason }
}

/// Without what must not be shared: who has another's transactional.id fences it.
fn plain(config: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_shared = |key: &str| !matches!(key, "transactional.id" | "transaction.timeout.ms");
    config.iter().filter(|(key, _)| is_shared(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The other's configs, with what was said above them.
pub(super) fn merged(
    other: Option<&BTreeMap<String, String>>,
    said: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut config = other.cloned().unwrap_or_default();
    config.extend(said.clone());
    config
}

pub(in crate::lab) fn default_rate() -> Rate {
    DEFAULT_RATE.parse().expect("a rate")
}

pub(in crate::lab) fn default_keys() -> KeyPattern {
    DEFAULT_KEYS.parse().expect("a key pattern")
}

pub(in crate::lab) fn default_program() -> Vec<Line> {
    Line::parse_program(&DEFAULT_PROGRAM).expect("a program")
}
