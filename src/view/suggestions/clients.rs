//! What clients may be told: their calls, their programs, their transactions; and new ones.

use super::cluster::{groups, leaders, partitions, topics};
use crate::client::admin::{Area, TransactionFilter, TransactionOperation};
use crate::client::consumer::{Ask, Choice, CloseOptions, GroupMembership, Lookup, SeekTo};
use crate::client::group_metadata::GroupMetadata;
use crate::client::pattern::TopicPattern;
use crate::client::producer::Wish;
use crate::client::program::{Line, Order, Passage, Stop, Which};
use crate::kafka::event::Halt;
use crate::kafka::types::{ClientName, Offset, TopicPartition, TransactionalId};
use crate::sim::{Command, Target};
use crate::view::model::{ConsumerView, Model};

fn consumers(model: &Model) -> impl Iterator<Item = &ConsumerView> {
    model.groups.iter().flat_map(|group| group.members.iter()).map(|view| &**view)
}

/// Whom a person can do something to, briefly.
pub fn clients(model: &Model) -> Vec<Command> {
    let consumers = consumers(model).flat_map(|member| {
        let name = ClientName::new(&member.name);
        let target = Target::Client(name.clone());
        [
            Command::Close(name.clone()),
            Command::Crash(name),
            Command::Freeze(target.clone()),
            Command::Thaw(target),
        ]
    });
    let producers = model.producers.iter().flat_map(|producer| {
        let name = ClientName::new(&producer.name);
        [
            Command::Pause(name.clone()),
            Command::Resume(name.clone()),
            Command::Flush(name.clone()),
            Command::Close(name.clone()),
            Command::Crash(name),
        ]
    });
    consumers.chain(producers).collect()
}

/// What each consumer may be asked for.
pub fn asks(model: &Model, of_consumer: impl Fn(&ConsumerView) -> Vec<Ask>) -> Vec<Command> {
    let consumers = model.groups.iter().flat_map(|group| group.members.iter());
    let commands = consumers.flat_map(|view| {
        let client = ClientName::new(&view.name);
        of_consumer(view).into_iter().map(move |ask| Command::Ask { client: client.clone(), ask })
    });
    commands.collect()
}

/// Each of them alone.
pub fn choices<T>(all: impl Iterator<Item = T>, choice: impl Fn(Vec<T>) -> Choice) -> Vec<Ask> {
    all.map(|one| Ask::Choose(choice(vec![one]))).collect()
}

pub fn of_owned(view: &ConsumerView, asks: impl Fn(TopicPartition) -> Vec<Ask>) -> Vec<Ask> {
    view.owned.iter().cloned().flat_map(asks).collect()
}

pub fn seeks(partition: TopicPartition) -> Vec<Ask> {
    let to = [SeekTo::Beginning, SeekTo::End, SeekTo::Offset(0)];
    to.map(|to| Ask::Seek { partition: partition.clone(), to }).to_vec()
}

pub fn lookups(partition: TopicPartition) -> Vec<Ask> {
    let what = [Lookup::End, Lookup::Beginning, Lookup::Lag];
    what.map(|what| Ask::Look { what, partitions: vec![partition.clone()] }).to_vec()
}

pub fn closings(model: &Model) -> Vec<Command> {
    let consumers = model.groups.iter().flat_map(|group| group.members.iter());
    let closings = consumers.flat_map(|view| {
        [GroupMembership::Leave, GroupMembership::Remain].map(|membership| Command::CloseWith {
            client: ClientName::new(&view.name),
            options: CloseOptions { membership, timeout_ms: None },
        })
    });
    closings.collect()
}

/// All topics whose names begin as the first one's does.
pub fn patterns(model: &Model) -> Vec<Ask> {
    let pattern = topics(model).next().and_then(|topic| TopicPattern::new(&format!("{topic}.*")).ok());
    pattern.into_iter().map(|pattern| Ask::Choose(Choice::Pattern(pattern))).collect()
}

/// An end, a standstill or a hang at each line of each program.
pub fn stops(model: &Model, how: Halt) -> Vec<Command> {
    let mut commands = Vec::new();
    for view in consumers(model) {
        let mut order = |stop| {
            commands.push(Command::Program { client: ClientName::new(&view.name), order: Order::Stop(stop) });
        };
        if how == Halt::Hang {
            order(Stop::next(how));
            order(Stop { for_us: Some(360_000_000), ..Stop::next(how) });
        }
        for number in 1..=view.program.len() as i32 {
            for after in [false, true] {
                let at = Which::Number(number);
                order(Stop { how, at, after, passage: Passage::Nth(1), for_us: None });
            }
        }
    }
    commands
}

pub fn wakes(model: &Model) -> Vec<Command> {
    orders(model, |_| vec![Order::Wake])
}

fn orders(model: &Model, of: impl Fn(&ConsumerView) -> Vec<Order>) -> Vec<Command> {
    let of_view = |view: &ConsumerView| {
        let client = ClientName::new(&view.name);
        let order = move |order| Command::Program { client: client.clone(), order };
        of(view).into_iter().map(order).collect::<Vec<_>>()
    };
    consumers(model).flat_map(of_view).collect()
}

/// The programs that each guarantee is told by.
const PROGRAMS: [&[&str]; 6] = [
    &["poll", "process 20ms", "commit"],
    &["poll", "commit", "process 20ms"],
    &["poll", "process 20ms", "commit record"],
    &["poll", "process 20ms"],
    &["poll", "process 20ms", "on revoked commit"],
    &["poll", "process 20ms", "commit", "on revoked wait 10s"],
];
const OF_APPLICATIONS: [&[&str]; 3] = [
    &["poll", "begin", "process 5ms", "send results", "send offsets", "commit transaction"],
    &["poll", "begin", "process 5ms", "send results", "send offsets", "abort"],
    &["poll", "process 5ms", "send results", "flush", "commit"],
];

/// Other programs, and a slower or a faster pace.
pub fn programs(model: &Model) -> Vec<Command> {
    let exchange = |lines: &&[&str]| Line::parse_program(lines).ok().map(Order::Exchange);
    orders(model, |view| {
        let programs: &[&[&str]] = if view.producing.is_some() { &OF_APPLICATIONS } else { &PROGRAMS };
        let paces = [0, 500_000].map(|us_per_record| Order::Pace { us_per_record });
        programs.iter().filter_map(exchange).chain(paces).collect()
    })
}

/// What transactional producers whom a person drives may be told.
pub fn wishes(model: &Model, wish: Wish) -> Vec<Command> {
    let transactional = model.producers.iter().filter(|view| view.sending.transaction.is_some());
    transactional.map(|view| Command::Transaction { client: ClientName::new(&view.name), wish }).collect()
}

/// They commit the first offset of a partition in the name of a group, as nobody in it.
pub fn sent_offsets(model: &Model) -> Vec<Command> {
    let transactional = model.producers.iter().filter(|view| view.sending.transaction.is_some());
    let of = |client: ClientName| {
        groups(model).flat_map(move |group| {
            let send = {
                let client = client.clone();
                move |tp: TopicPartition| Command::SendOffsets {
                    client: client.clone(),
                    offsets: [(tp, Offset::ZERO)].into(),
                    group: GroupMetadata::of_group(group.clone()),
                }
            };
            partitions(model).map(send)
        })
    };
    transactional.flat_map(|view| of(ClientName::new(&view.name))).collect()
}

/// What `kafka-transactions.sh` tells of.
pub fn of_transactions(model: &Model) -> Vec<Command> {
    let described = transactional_ids(model).map(TransactionOperation::Describe);
    let list = |longer_than_ms| {
        TransactionOperation::List(TransactionFilter { longer_than_ms, ..TransactionFilter::default() })
    };
    let find =
        |topic| TransactionOperation::FindHanging { area: Area::Topic(topic, None), longer_than_ms: None };
    let operations = [list(None), list(Some(10_000))].into_iter().chain(described);
    operations.chain(self::topics(model).map(find)).map(Command::Transactions).collect()
}

fn transactional_ids(model: &Model) -> impl Iterator<Item = TransactionalId> {
    let topics = model.brokers.iter().flat_map(|broker| broker.internal.iter());
    topics.flat_map(|topic| topic.transactions.iter()).map(|known| TransactionalId::new(&known.id))
}

/// Each transactional id, ended by its coordinator, with its producer fenced.
pub fn terminations(model: &Model) -> Vec<Command> {
    let terminate = |id| Command::Transactions(TransactionOperation::Terminate(id));
    transactional_ids(model).map(terminate).collect()
}

/// Who has written to each partition.
pub fn writers(model: &Model) -> Vec<Command> {
    let of = |tp| TransactionOperation::DescribeProducers { tp, broker: None };
    let operations = partitions(model).map(of);
    operations.map(Command::Transactions).collect()
}

/// Each open transaction, ended in one partition without its coordinator.
pub fn aborts(model: &Model) -> Vec<Command> {
    let open = leaders(model).into_iter().flat_map(|replica| {
        let abort = |start| TransactionOperation::Abort { tp: replica.tp.clone(), start };
        replica.open.iter().map(move |open| Command::Transactions(abort(open.first)))
    });
    open.collect()
}
