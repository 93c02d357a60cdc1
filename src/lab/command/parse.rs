//! Reading a command.

use super::CommandError;
use super::application;
use super::complete::{ConsumerDraft, ProducerDraft, Written};
use super::consumers;
use super::features;
use super::forms::verbs;
use super::groups;
use super::program as programs;
use super::question;
use super::share;
use super::tokens::tokens;
use super::transactions;
use super::words::{Words, check_filled, duration_us, one_of};
use crate::client::admin::{GroupOperation, OfEach};
use crate::client::consumer::{Choice, Line};
use crate::client::producer::workload::SpecError;
use crate::client::producer::{TransactionPace, Wish};
use crate::client::profile::Profile;
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::event::Halt;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, Topic, TopicPartition};
use crate::lab::words::{partition_of, suggestion};
use crate::sim::{Command, Target};

/// Reads one command.
///
/// # Errors
///
/// The column of the word that is wrong or missing, and what belongs there.
pub fn parse(text: &str) -> Result<Written, CommandError> {
    let tokens = tokens(text)?;
    let mut words = Words::of(text, &tokens);
    let verb = words.keyword("a command")?;
    // A verb is known when its forms are listed, so that none goes without help.
    let known = verbs().find(|known| *known == verb.text).unwrap_or_default();
    let written = match known {
        "kill" => Command::Kill(target(&mut words)?).into(),
        "stop" => stop(&mut words)?.into(),
        "start" => Command::Start(target(&mut words)?).into(),
        "freeze" => freeze(&mut words)?.into(),
        "thaw" => Command::Thaw(target(&mut words)?).into(),
        "cut" if words.accept("power").is_some() => {
            words.expect("of")?;
            Command::CutPower(target(&mut words)?).into()
        }
        "wipe" => {
            words.expect("disk")?;
            words.expect("of")?;
            words.expect("broker")?;
            Command::WipeDisk(BrokerId(words.id("a broker id")?)).into()
        }
        "cut" => {
            let (a, b) = link(&mut words)?;
            Command::Cut { a, b }.into()
        }
        "heal" => {
            let (a, b) = link(&mut words)?;
            Command::Heal { a, b }.into()
        }
        "slow" => slow(&mut words)?.into(),
        "add" => match one_of(
            &mut words,
            &["broker", "producer", "consumer", "share", "application", "partitions"],
        )? {
            "broker" => add_broker(&mut words)?.into(),
            "partitions" => add_partitions(&mut words)?.into(),
            "producer" => Written::producer(producer(&mut words)?),
            "share" => share::add(&mut words)?,
            "application" => application::add(&mut words)?.into(),
            _ => Written::consumer(consumer(&mut words)?),
        },
        "commit" if words.starts_with(&["transaction", "of"]) => wish(&mut words, Wish::Commit)?.into(),
        "pause" | "resume" | "flush" | "close" | "subscribe" | "unsubscribe" | "assign" | "seek" | "look"
        | "commit" => {
            let client = client(&mut words)?;
            call(known, &mut words, client)?.into()
        }
        "begin" => wish(&mut words, Wish::Begin)?.into(),
        "abort" if words.starts_with(&["transaction", "on"]) => transactions::abort(&mut words)?.into(),
        "find" => transactions::find(&mut words)?.into(),
        "send" => transactions::send_offsets(&mut words)?.into(),
        "terminate" => transactions::terminate(&mut words)?.into(),
        "abort" => wish(&mut words, Wish::Abort)?.into(),
        "crash" => crash(&mut words)?.into(),
        "hang" => {
            let client = client(&mut words)?;
            programs::hang(&mut words, client)?.into()
        }
        "wake" => programs::wake(client(&mut words)?).into(),
        "create" => create_topic(&mut words)?.into(),
        "delete" => match one_of(&mut words, &["topic", "records", "group", "all", "offsets"])? {
            "topic" => Command::DeleteTopic(topic(&mut words)?).into(),
            "group" => Command::Groups(GroupOperation::Delete(groups::group(&mut words)?)).into(),
            "all" => groups::of_each(&mut words, OfEach::Delete)?.into(),
            "offsets" => groups::delete_offsets(&mut words)?.into(),
            _ => delete_records(&mut words)?.into(),
        },
        "elect" => elect(&mut words)?.into(),
        "upgrade" => features::update(&mut words, UpgradeType::Upgrade)?.into(),
        "downgrade" => features::update(&mut words, UpgradeType::SafeDowngrade)?.into(),
        "reassign" => reassign(&mut words)?.into(),
        "cancel" => cancel(&mut words)?.into(),
        "set" if words.accept("clock").is_some() => set_clock(&mut words)?.into(),
        "set" if words.accept("program").is_some() => programs::set_program(&mut words)?.into(),
        "set" if words.accept("pace").is_some() => programs::set_pace(&mut words)?.into(),
        "set" => set(&mut words)?.into(),
        "unset" => unset(&mut words)?.into(),
        "describe" => describe(&mut words)?.into(),
        "list" => match one_of(&mut words, &["groups", "transactions"])? {
            "groups" => groups::list(&mut words)?.into(),
            _ => transactions::list(&mut words)?.into(),
        },
        "ledger" => Written::Question(question::ledger(&mut words)?),
        "story" => Written::Question(question::story(&mut words)?),
        "why" => Written::Question(question::why(&mut words)?),
        "plan" => groups::reset(&mut words, false)?.into(),
        "reset" => groups::reset(&mut words, true)?.into(),
        _ => {
            let reason = format!("{} is no command{}", verb.text, suggestion(&verb.text, verbs()));
            return Err(CommandError::new(verb.column, reason));
        }
    };
    words.finish()?;
    Ok(written)
}

/// At once, or a client at a line of its program.
fn freeze(words: &mut Words) -> Result<Command, CommandError> {
    match target(words)? {
        Target::Client(client) if programs::says_where(words) => programs::stop(words, client, Halt::Freeze),
        target => Ok(Command::Freeze(target)),
    }
}

/// At once, or at a line of its program.
fn crash(words: &mut Words) -> Result<Command, CommandError> {
    let client = client(words)?;
    match programs::says_where(words) {
        true => programs::stop(words, client, Halt::Crash),
        false => Ok(Command::Crash(client)),
    }
}

/// `transaction of bank`
fn wish(words: &mut Words, wish: Wish) -> Result<Command, CommandError> {
    words.expect("transaction")?;
    words.expect("of")?;
    Ok(Command::Transaction { client: client(words)?, wish })
}

/// What a client is to do, after the verb and its name.
fn call(verb: &str, words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    match verb {
        "flush" => Ok(Command::Flush(client)),
        "pause" => consumers::pause(words, client),
        "resume" => consumers::resume(words, client),
        "subscribe" => consumers::subscribe(words, client),
        "unsubscribe" => Ok(consumers::unsubscribe(client)),
        "assign" => consumers::assign(words, client),
        "seek" => consumers::seek(words, client),
        "look" => consumers::look(words, client),
        "commit" => consumers::commit(words, client),
        _ => consumers::close(words, client),
    }
}

fn target(words: &mut Words) -> Result<Target, CommandError> {
    if words.accept("broker").is_some() {
        return Ok(Target::Broker(BrokerId(words.id("a broker id")?)));
    }
    if words.accept("controller").is_some() {
        return Ok(Target::Controller(ControllerId(words.id("a controller id")?)));
    }
    Ok(Target::Client(name(words, "broker ID, controller ID or a client's name")?))
}

pub(super) fn client(words: &mut Words) -> Result<ClientName, CommandError> {
    name(words, "a client's name")
}

fn name(words: &mut Words, what: &str) -> Result<ClientName, CommandError> {
    let token = words.plain(what)?;
    check_filled(token, what)?;
    Ok(ClientName::new(&token.text))
}

fn link(words: &mut Words) -> Result<(Target, Target), CommandError> {
    let a = target(words)?;
    words.expect("from")?;
    Ok((a, target(words)?))
}

fn add_broker(words: &mut Words) -> Result<Command, CommandError> {
    let broker = BrokerId(words.id("a broker id")?);
    let rack = match words.accept("rack") {
        Some(_) => Some(words.plain("a rack's name")?.text.clone()),
        None => None,
    };
    Ok(Command::AddBroker { broker, rack })
}

fn topic(words: &mut Words) -> Result<Topic, CommandError> {
    Ok(Topic::new(&words.plain("a topic's name")?.text))
}

fn create_topic(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("topic")?;
    let topic = topic(words)?;
    words.expect("partitions")?;
    let partitions = words.parsed("a number of partitions")?;
    words.expect("replication-factor")?;
    let replication_factor = words.parsed("a replication factor")?;
    Ok(Command::CreateTopic { topic, partitions, replication_factor, config: words.configs()? })
}

fn stop(words: &mut Words) -> Result<Command, CommandError> {
    Ok(match one_of(words, &["broker", "controller"])? {
        "broker" => Command::Stop(BrokerId(words.id("a broker id")?)),
        _ => Command::StopController(ControllerId(words.id("a controller id")?)),
    })
}

fn add_partitions(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("to")?;
    let topic = topic(words)?;
    words.expect("up")?;
    words.expect("to")?;
    Ok(Command::AddPartitions { topic, count: words.parsed("a number of partitions")? })
}

/// `delete records of orders-0 before 40`; without an offset, all that are committed.
fn delete_records(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("of")?;
    let partition = partition(words)?;
    let before = match words.accept("before") {
        Some(_) => Some(words.parsed("an offset")?),
        None => None,
    };
    Ok(Command::DeleteRecords { partition, before })
}

/// `elect preferred leader orders-0`, `elect unclean leaders`.
fn elect(words: &mut Words) -> Result<Command, CommandError> {
    let kind = match one_of(words, &["preferred", "unclean"])? {
        "preferred" => ElectionType::Preferred,
        _ => ElectionType::Unclean,
    };
    let partition = match one_of(words, &["leader", "leaders"])? {
        "leader" => Some(partition(words)?),
        _ => None,
    };
    Ok(Command::ElectLeader { kind, partition })
}

fn reassign(words: &mut Words) -> Result<Command, CommandError> {
    const WHAT: &str = "brokers such as 3,1,2";
    let partition = partition(words)?;
    words.expect("to")?;
    let token = words.plain(WHAT)?;
    let id = |text: &str| text.trim().parse().ok().filter(|id| *id >= 0).map(BrokerId);
    let replicas: Option<Vec<BrokerId>> = token.text.split(',').map(id).collect();
    let wrong = || CommandError::new(token.column, format!("expected {WHAT}, not {:?}", token.text));
    Ok(Command::Reassign { partition, replicas: replicas.ok_or_else(wrong)? })
}

fn cancel(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("reassignment")?;
    Ok(Command::CancelReassignment(partition(words)?))
}

/// A topic and the number of one of its partitions: `orders-0`.
pub(super) fn partition(words: &mut Words) -> Result<TopicPartition, CommandError> {
    const WHAT: &str = "a partition such as orders-0";
    let token = words.plain(WHAT)?;
    let wrong = || CommandError::new(token.column, format!("expected {WHAT}, not {:?}", token.text));
    partition_of(&token.text).ok_or_else(wrong)
}

fn describe(words: &mut Words) -> Result<Command, CommandError> {
    const WHAT: [&str; 11] = [
        "topic",
        "broker",
        "cluster",
        "group",
        "all",
        "quorum",
        "features",
        "configs",
        "offsets",
        "transaction",
        "producers",
    ];
    Ok(match one_of(words, &WHAT)? {
        "transaction" => transactions::describe(words)?,
        "producers" => transactions::describe_producers(words)?,
        "quorum" => Command::DescribeQuorum,
        "features" => Command::DescribeFeatures,
        "group" => Command::Groups(GroupOperation::Describe(groups::group(words)?)),
        "all" => groups::of_each(words, OfEach::Describe)?,
        "offsets" => {
            words.expect("of")?;
            let each = GroupOperation::OfEach(OfEach::DescribeOffsets);
            Command::Groups(groups::group_or_all(words)?.map_or(each, GroupOperation::DescribeOffsets))
        }
        "configs" => {
            words.expect("of")?;
            words.expect("group")?;
            Command::Describe(Resource::Group(groups::group(words)?))
        }
        what => Command::Describe(owner(what, words)?.into()),
    })
}

/// `slow broker 2 to broker 3 by 200ms`
fn slow(words: &mut Words) -> Result<Command, CommandError> {
    let a = target(words)?;
    words.expect("to")?;
    let b = target(words)?;
    words.expect("by")?;
    Ok(Command::Slow { a, b, by_us: duration_us(words)? })
}

/// `set clock of broker 2 ahead by 5min`, `set clock of broker 2 right`
fn set_clock(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("of")?;
    let target = target(words)?;
    let sign = match one_of(words, &["ahead", "behind", "right"])? {
        "ahead" => 1,
        "behind" => -1,
        _ => return Ok(Command::SetClock { target, ahead_ms: 0 }),
    };
    words.expect("by")?;
    let column = words.column();
    let us = duration_us(words)?;
    match us % 1000 {
        0 => Ok(Command::SetClock { target, ahead_ms: sign * (us / 1000) }),
        _ => Err(CommandError::new(column, "expected whole milliseconds, which is what a clock shows")),
    }
}

/// What has configs that have an effect: `topic orders`, `broker 2` or `cluster`.
enum Owner {
    Topic(Topic),
    Broker(Option<BrokerId>),
    Group(GroupId),
}

impl From<Owner> for Resource {
    fn from(owner: Owner) -> Resource {
        match owner {
            Owner::Topic(topic) => Resource::Topic(topic),
            Owner::Broker(broker) => Resource::Broker(broker),
            Owner::Group(group) => Resource::Group(group),
        }
    }
}

fn configurable(words: &mut Words) -> Result<Owner, CommandError> {
    let kind = one_of(words, &["topic", "broker", "group", "cluster"])?;
    owner(kind, words)
}

fn owner(kind: &str, words: &mut Words) -> Result<Owner, CommandError> {
    Ok(match kind {
        "topic" => Owner::Topic(topic(words)?),
        "broker" => Owner::Broker(Some(BrokerId(words.id("a broker id")?))),
        "group" => Owner::Group(groups::group(words)?),
        _ => Owner::Broker(None),
    })
}

fn configured(owner: Owner, key: String, value: Option<String>) -> Command {
    match owner {
        Owner::Topic(topic) => Command::SetTopicConfig { topic, key, value },
        Owner::Broker(broker) => Command::SetBrokerConfig { broker, key, value },
        Owner::Group(group) => Command::SetGroupConfig { group, key, value },
    }
}

fn set(words: &mut Words) -> Result<Command, CommandError> {
    const WHAT: &str = "a config such as min.insync.replicas=1";
    let owner = configurable(words)?;
    let token = words.take(WHAT)?;
    match &token.value {
        Some(value) if !token.text.is_empty() => {
            Ok(configured(owner, token.text.clone(), Some(value.clone())))
        }
        _ => Err(CommandError::new(token.column, format!("expected {WHAT}"))),
    }
}

fn unset(words: &mut Words) -> Result<Command, CommandError> {
    let owner = configurable(words)?;
    let token = words.plain("the name of a config")?;
    check_filled(token, "the name of a config")?;
    Ok(configured(owner, token.text.clone(), None))
}

fn producer(words: &mut Words) -> Result<ProducerDraft, CommandError> {
    let mut draft = ProducerDraft::new(client(words)?);
    if words.accept("to").is_some() {
        draft.topic = Some(topic(words)?);
    }
    if words.accept("rate").is_some() {
        draft.rate = Some(words.parsed("a rate such as 12/s, 1/5s or 300/min")?);
    }
    if words.accept("keys").is_some() {
        draft.keys = Some(words.parsed("keys such as \"cart-{0..7}\", or none")?);
    }
    if words.accept("partition").is_some() {
        draft.partition = Some(words.id("a partition's number")?);
    }
    if words.accept("value").is_some() {
        draft.value = Some(words.plain("a value's text")?.text.clone());
    }
    if words.accept("value-size").is_some() {
        draft.value_size = Some(words.id("a size in bytes")?);
    }
    if words.accept("transaction").is_some() {
        draft.transactions = Some(pace(words)?);
    }
    let profile = profile(words)?;
    draft.config = words.configs()?;
    profile.into_iter().for_each(|profile| profile.add_to(&mut draft.config));
    Ok(draft)
}

/// `every 10 records`, perhaps with `abort 10%`, after `transaction`.
fn pace(words: &mut Words) -> Result<TransactionPace, CommandError> {
    let column = words.column();
    words.expect("every")?;
    let records = words.id("a number of records")?;
    words.expect("records")?;
    let abort = match words.accept("abort") {
        Some(_) => format!(" abort {}", words.plain("a share such as 10%")?.text),
        None => String::new(),
    };
    let text = format!("every {records} records{abort}");
    text.parse().map_err(|error: SpecError| CommandError::new(column, error.to_string()))
}

fn consumer(words: &mut Words) -> Result<ConsumerDraft, CommandError> {
    let name = client(words)?;
    let group = match words.accept("without") {
        Some(_) => {
            words.expect("group")?;
            GroupId::new("")
        }
        None => {
            words.expect("to")?;
            let token = words.plain("a group's name")?;
            check_filled(token, "a group's name")?;
            GroupId::new(&token.text)
        }
    };
    let mut draft = ConsumerDraft::new(name, group);
    if words.accept("topics").is_some() {
        draft.choice = Some(Choice::Topics(consumers::topics(words)?));
    } else if words.accept("partitions").is_some() {
        draft.choice = Some(Choice::Partitions(consumers::partitions(words)?));
    } else {
        draft.choice = consumers::pattern(words)?;
    }
    let profile = profile(words)?;
    draft.program = profile.map(Profile::program);
    if words.accept("program").is_some() {
        draft.program = Some(program(words)?);
    }
    draft.config = words.configs()?;
    profile.into_iter().for_each(|profile| profile.add_to(&mut draft.config));
    Ok(draft)
}

/// `profile librdkafka`: which library the client is, and how it is used.
fn profile(words: &mut Words) -> Result<Option<Profile>, CommandError> {
    match words.accept("profile") {
        None => Ok(None),
        Some(_) => Ok(Profile::of_name(one_of(words, &Profile::ALL.map(Profile::name))?)),
    }
}

pub(super) fn program(words: &mut Words) -> Result<Vec<Line>, CommandError> {
    let token = words.plain("a program such as \"poll; process 20ms; commit\"")?;
    let lines: Vec<&str> = token.text.split(';').collect();
    Line::parse_program(&lines).map_err(|error| CommandError::new(token.column, error.to_string()))
}
