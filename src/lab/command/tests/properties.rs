//! Whatever command there is, its text is read as it.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;
use crate::client::admin::{Area, OfEach, TransactionFilter, TransactionOperation};
use crate::client::group_metadata::GroupMetadata;
use crate::client::producer::{TransactionPace, Wish};
use crate::client::program::{Callback, Committed, Order, Passage, Reaction, Stop, Which};
use crate::client::saying::{self, Saying};
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::event::Halt;
use crate::kafka::share::AcknowledgeType;
use crate::kafka::types::Offset;
use crate::kafka::types::{BrokerId, ControllerId, Generation, GroupId, MemberId, TransactionalId};

/// A name with nothing in it that a command cannot hold.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z][a-z0-9-]{0,8}", "[^\\p{Cc}]{1,12}", Just("broker".to_owned())]
        .prop_filter("a name is not blank", |name: &String| !name.trim().is_empty())
}

fn topic() -> impl Strategy<Value = Topic> {
    "[a-zA-Z0-9._-]{1,12}".prop_map(|name| Topic::new(&name))
}

fn configs() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z.]{1,12}|[^\\p{Cc}]{1,8}", "[^\\p{Cc}]{0,12}", 0..4)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        (0..=i32::MAX).prop_map(|id| Target::Broker(BrokerId(id))),
        (0..=i32::MAX).prop_map(|id| Target::Controller(ControllerId(id))),
        name().prop_map(|name| Target::Client(ClientName::new(&name))),
    ]
}

fn transactions() -> impl Strategy<Value = Option<TransactionPace>> {
    option::of(
        (1..1000, 0u8..=100).prop_map(|(records, abort_percent)| TransactionPace { records, abort_percent }),
    )
}

fn producers() -> BoxedStrategy<ProducerSpec> {
    let rate = prop_oneof!["[1-9][0-9]{0,2}/s", "1/[1-9][0-9]{0,3}ms", "[1-9]/min", "1/2h"];
    let keys = prop_oneof!["[a-z \"\\\\]{1,8}", "[a-z-]{0,8}\\{0\\.\\.[0-9]{1,4}\\}[a-z=]{0,4}"];
    let rest = (
        option::of(0..100),
        option::of("[^\\p{Cc}]{0,20}"),
        option::of(0..100_000),
        transactions(),
        configs(),
    );
    (name(), topic(), rate, keys, rest)
        .prop_map(|(name, topic, rate, keys, (partition, value, value_size, transactions, config))| {
            let keys = keys.parse().expect("a key pattern");
            let value = value.map_or_else(|| ValuePattern::for_keys(&keys), |text| ValuePattern::new(&text));
            let rate = rate.parse().expect("a rate");
            let name = ClientName::new(&name);
            ProducerSpec { name, topic, rate, keys, partition, value, value_size, transactions, config }
        })
        .boxed()
}

/// A line of a callback.
fn callback_line() -> BoxedStrategy<Line> {
    let callback = prop_oneof![Just(Callback::Revoked), Just(Callback::Assigned), Just(Callback::Lost)];
    let reaction = prop_oneof![
        Just(Reaction::Commit),
        Just(Reaction::CommitAsync),
        Just(Reaction::CommitDone),
        (0..4_000_000i64).prop_map(|us| Reaction::Wait { us }),
        Just(Reaction::Throw),
    ];
    (callback, reaction).prop_map(|(callback, reaction)| Line::On(callback, reaction)).boxed()
}

fn line() -> BoxedStrategy<Line> {
    prop_oneof![
        (1..1_000_000i64).prop_map(|timeout_ms| Line::Poll { timeout_ms }),
        (0..4_000_000i64).prop_map(|us_per_record| Line::Process { us_per_record }),
        Just(Line::Commit),
        Just(Line::CommitAsync),
        Just(Line::CommitDone),
        Just(Line::Begin),
        Just(Line::SendResults),
        any::<bool>().prop_map(|with_metadata| Line::SendOffsets { with_metadata }),
        Just(Line::CommitTransaction),
        (0..4_000_000i64, 1..=1000)
            .prop_map(|(us_per_record, workers)| Line::HandOff { us_per_record, workers }),
        Just(Line::CommitRecord(Committed::Next)),
        Just(Line::CommitRecord(Committed::Own)),
        callback_line(),
        saying().prop_map(Line::Acknowledge),
    ]
    .boxed()
}

/// Boxed, as a value on the stack it would be too large for a test's thread.
fn order() -> BoxedStrategy<Order> {
    let word = |line: Line| Which::Word(line.word().to_owned());
    let at = prop_oneof![(1..=i32::MAX).prop_map(Which::Number), line().prop_map(word)];
    let record = (topic(), 0..=i32::MAX, 0..=i64::MAX);
    let record =
        record.prop_map(|(topic, n, offset)| Passage::Record(TopicPartition::new(&topic, n), Offset(offset)));
    let passage = prop_oneof![(1..=i32::MAX).prop_map(Passage::Nth), record];
    let how = prop_oneof![Just(Halt::Crash), Just(Halt::Freeze), Just(Halt::Hang)];
    let stop = (how, at, any::<bool>(), passage, option::of(0..1_000_000_000i64));
    let stop = stop.prop_map(|(how, at, after, passage, for_us)| Stop {
        how,
        at,
        after,
        passage,
        for_us: for_us.filter(|_| how == Halt::Hang),
    });
    let program = vec(line(), 0..4).prop_map(|mut lines| {
        lines.push(Line::Poll { timeout_ms: 100 });
        lines.sort_by_key(|line| line.callback().is_some());
        Order::Exchange(lines)
    });
    prop_oneof![
        stop.prop_map(Order::Stop),
        Just(Order::Stop(Stop::next(Halt::Hang))),
        Just(Order::Wake),
        program,
        (0..1_000_000_000i64).prop_map(|us_per_record| Order::Pace { us_per_record }),
    ]
    .boxed()
}

fn saying() -> impl Strategy<Value = Saying> {
    let kind = prop_oneof![
        Just(AcknowledgeType::Accept),
        Just(AcknowledgeType::Release),
        Just(AcknowledgeType::Reject),
        Just(AcknowledgeType::Renew),
    ];
    let of = prop_oneof![
        Just(saying::Choice::All),
        (1..=100u8).prop_map(saying::Choice::Percent),
        (0..=i64::MAX).prop_map(|offset| saying::Choice::Offset(Offset(offset))),
    ];
    (kind, of).prop_map(|(kind, of)| Saying { kind, of })
}

fn share_consumers() -> impl Strategy<Value = ShareConsumerSpec> {
    (name(), name(), vec(topic(), 1..4), vec(line(), 1..4), configs()).prop_map(
        |(name, group, topics, program, config)| {
            let (name, group) = (ClientName::new(&name), GroupId::new(&group));
            let mut program: Vec<Line> =
                program.into_iter().chain([Line::Poll { timeout_ms: 100 }]).collect();
            program.sort_by_key(|line| line.callback().is_some());
            ShareConsumerSpec { name, group, topics, program, config }
        },
    )
}

fn consumers() -> impl Strategy<Value = ConsumerSpec> {
    let partition = || (topic(), 0..=i32::MAX).prop_map(|(topic, n)| TopicPartition::new(&topic, n));
    let choice = prop_oneof![
        (name(), vec(topic(), 1..4)).prop_map(|(group, topics)| (group, Choice::Topics(topics))),
        (prop_oneof![name(), Just(String::new())], vec(partition(), 1..4))
            .prop_map(|(group, partitions)| (group, Choice::Partitions(partitions))),
        (name(), "[a-z.*\\[\\]]{1,6}").prop_filter_map("a pattern", |(group, text)| {
            Some((group, Choice::Pattern(crate::client::pattern::TopicPattern::new(&text).ok()?)))
        }),
        (name(), name()).prop_map(|(group, text)| (group, Choice::Re2j(text.into()))),
    ];
    (name(), choice, vec(line(), 0..4), configs()).prop_map(|(name, (group, choice), mut program, config)| {
        program.push(Line::Poll { timeout_ms: 100 });
        program.sort_by_key(|line| line.callback().is_some());
        ConsumerSpec { name: ClientName::new(&name), group: GroupId::new(&group), choice, program, config }
    })
}

fn groups() -> impl Strategy<Value = GroupOperation> {
    let group = || name().prop_map(|name| GroupId::new(&name));
    let scope = || {
        let numbers = btree_set(0..=i32::MAX, 1..4);
        prop_oneof![
            Just(Scope::AllTopics),
            topic().prop_map(Scope::Topic),
            (topic(), numbers).prop_map(|(topic, numbers)| Scope::Partitions(topic, numbers)),
        ]
    };
    let target = prop_oneof![
        Just(ResetTarget::Earliest),
        Just(ResetTarget::Latest),
        Just(ResetTarget::Current),
        any::<i64>().prop_map(ResetTarget::Offset),
        any::<i64>().prop_map(ResetTarget::Shift),
        (0..=i64::MAX / 1000).prop_map(|ms| ResetTarget::Ago { ms }),
        (0..253_402_300_800_000i64).prop_map(|wall_ms| ResetTarget::Since { wall_ms }),
    ];
    let partition = (name(), 0..=i32::MAX).prop_map(|(topic, n)| TopicPartition::new(&Topic::new(&topic), n));
    let goal = prop_oneof![
        (scope(), target).prop_map(|(scope, target)| Goal::All(scope, target)),
        btree_map(partition, any::<i64>(), 1..4).prop_map(Goal::Each),
    ];
    prop_oneof![
        (subsequence(GROUP_TYPES.to_vec(), 0..=3), subsequence(GROUP_STATES.to_vec(), 0..=7))
            .prop_map(|(types, states)| GroupOperation::List(ListFilter { types, states })),
        group().prop_map(GroupOperation::Describe),
        group().prop_map(GroupOperation::DescribeOffsets),
        group().prop_map(GroupOperation::Delete),
        (group(), scope()).prop_map(|(group, scope)| GroupOperation::DeleteOffsets { group, scope }),
        Just(GroupOperation::OfEach(OfEach::Describe)),
        Just(GroupOperation::OfEach(OfEach::DescribeOffsets)),
        Just(GroupOperation::OfEach(OfEach::Delete)),
        (goal.clone(), any::<bool>())
            .prop_map(|(goal, executes)| GroupOperation::OfEach(OfEach::Reset { goal, executes })),
        (group(), goal, any::<bool>()).prop_map(|(group, goal, executes)| GroupOperation::Reset(Reset {
            group,
            goal,
            executes
        })),
    ]
}

fn commands() -> impl Strategy<Value = Command> {
    let client = || name().prop_map(|name| ClientName::new(&name));
    let processes = prop_oneof![
        target().prop_map(Command::Kill),
        target().prop_map(Command::Start),
        target().prop_map(Command::CutPower),
        (0..=i32::MAX).prop_map(|id| Command::WipeDisk(BrokerId(id))),
        target().prop_map(Command::Freeze),
        target().prop_map(Command::Thaw),
        (target(), target()).prop_map(|(a, b)| Command::Cut { a, b }),
        (target(), target(), 0..=i64::MAX).prop_map(|(a, b, by_us)| Command::Slow { a, b, by_us }),
        (target(), -i64::MAX / 1000..=i64::MAX / 1000)
            .prop_map(|(target, ahead_ms)| Command::SetClock { target, ahead_ms }),
        (target(), target()).prop_map(|(a, b)| Command::Heal { a, b }),
        (0..=i32::MAX, option::of("[^\\p{Cc}]{0,8}"))
            .prop_map(|(id, rack)| Command::AddBroker { broker: BrokerId(id), rack }),
        (0..=i32::MAX).prop_map(|id| Command::Stop(BrokerId(id))),
        (0..=i32::MAX).prop_map(|id| Command::StopController(ControllerId(id))),
    ];
    let clients = prop_oneof![
        producers().prop_map(Command::AddProducer).boxed(),
        (client(), prop_oneof![Just(Wish::Begin), Just(Wish::Commit), Just(Wish::Abort)])
            .prop_map(|(client, wish)| Command::Transaction { client, wish })
            .boxed(),
        sent_offsets().boxed(),
        consumers().prop_map(Command::AddConsumer),
        share_consumers().prop_map(Command::AddShareConsumer),
        client().prop_map(Command::Pause),
        client().prop_map(Command::Resume),
        client().prop_map(Command::Flush),
        client().prop_map(Command::Close),
        client().prop_map(Command::Crash),
        (client(), order()).prop_map(|(client, order)| Command::Program { client, order }),
    ];
    let topics = prop_oneof![
        (topic(), any::<i32>(), any::<i16>(), configs()).prop_map(
            |(topic, partitions, replication_factor, config)| Command::CreateTopic {
                topic,
                partitions,
                replication_factor,
                config
            }
        ),
        (topic(), name(), option::of("[^\\p{Cc}]{0,12}"))
            .prop_map(|(topic, key, value)| Command::SetTopicConfig { topic, key, value }),
        (option::of(0..=i32::MAX), name(), option::of("[^\\p{Cc}]{0,12}")).prop_map(
            |(broker, key, value)| {
                let broker = broker.map(BrokerId);
                Command::SetBrokerConfig { broker, key, value }
            }
        ),
        (name(), name(), option::of("[^\\p{Cc}]{0,12}")).prop_map(|(group, key, value)| {
            Command::SetGroupConfig { group: GroupId::new(&group), key, value }
        }),
        topic().prop_map(|topic| Command::Describe(Resource::Topic(topic))),
        Just(Command::DescribeQuorum),
        Just(Command::DescribeFeatures),
        name().prop_map(|group| Command::Describe(Resource::Group(GroupId::new(&group)))),
        option::of(0..=i32::MAX).prop_map(|broker| Command::Describe(Resource::Broker(broker.map(BrokerId)))),
    ];
    let partition =
        || (name(), 0..=i32::MAX).prop_map(|(topic, n)| TopicPartition::new(&Topic::new(&topic), n));
    let kind = prop_oneof![Just(ElectionType::Preferred), Just(ElectionType::Unclean)];
    let replicas = vec((0..=i32::MAX).prop_map(BrokerId), 1..4);
    let partitions = prop_oneof![
        (topic(), any::<i32>()).prop_map(|(topic, count)| Command::AddPartitions { topic, count }),
        topic().prop_map(Command::DeleteTopic),
        (partition(), option::of(any::<i64>()))
            .prop_map(|(partition, before)| Command::DeleteRecords { partition, before }),
        (kind, option::of(partition()))
            .prop_map(|(kind, partition)| Command::ElectLeader { kind, partition }),
        (partition(), replicas).prop_map(|(partition, replicas)| Command::Reassign { partition, replicas }),
        partition().prop_map(Command::CancelReassignment),
        (name(), any::<i16>(), prop_oneof![Just(UpgradeType::Upgrade), Just(UpgradeType::SafeDowngrade)])
            .prop_map(|(feature, level, upgrade)| Command::UpdateFeature { feature, level, upgrade }),
    ];
    // A test's stack does not hold all of them at once.
    prop_oneof![
        processes.boxed(),
        clients.boxed(),
        topics.boxed(),
        partitions.boxed(),
        groups().prop_map(Command::Groups).boxed(),
        asked_of_transactions().prop_map(Command::Transactions).boxed(),
    ]
}

fn sent_offsets() -> impl Strategy<Value = Command> {
    let partition = (name(), 0..=i32::MAX).prop_map(|(topic, n)| TopicPartition::new(&Topic::new(&topic), n));
    let offsets = btree_map(partition, any::<i64>().prop_map(Offset), 1..4);
    let member = option::of((name(), any::<i32>(), option::of(name())));
    let client = name().prop_map(|name| ClientName::new(&name));
    (client, groups_name(), member, offsets).prop_map(|(client, group, member, offsets)| {
        let mut group = GroupMetadata::of_group(group);
        if let Some((member, generation, instance)) = member {
            group.member = MemberId::new(&member);
            group.generation = Generation(generation);
            group.instance = instance.map(|id| id.as_str().into());
        }
        Command::SendOffsets { client, offsets, group }
    })
}

fn groups_name() -> impl Strategy<Value = GroupId> {
    name().prop_map(|name| GroupId::new(&name))
}

fn asked_of_transactions() -> impl Strategy<Value = TransactionOperation> {
    let partition =
        || (name(), 0..=i32::MAX).prop_map(|(topic, n)| TopicPartition::new(&Topic::new(&topic), n));
    let longer_than = option::of(0..1_000_000_000i64);
    let broker = || option::of((0..=i32::MAX).prop_map(BrokerId));
    let area = prop_oneof![
        (topic(), broker()).prop_map(|(topic, broker)| Area::Topic(topic, broker)),
        (partition(), broker()).prop_map(|(tp, broker)| Area::Partition(tp, broker)),
        (0..=i32::MAX).prop_map(|id| Area::Broker(BrokerId(id))),
    ];
    let filter = (longer_than.clone(), option::of(name()));
    prop_oneof![
        filter.prop_map(|(longer_than_ms, pattern)| {
            TransactionOperation::List(TransactionFilter { longer_than_ms, pattern })
        }),
        name().prop_map(|id| TransactionOperation::Describe(TransactionalId::new(&id))),
        name().prop_map(|id| TransactionOperation::Terminate(TransactionalId::new(&id))),
        (partition(), broker())
            .prop_map(|(tp, broker)| TransactionOperation::DescribeProducers { tp, broker }),
        (area, longer_than)
            .prop_map(|(area, longer_than_ms)| TransactionOperation::FindHanging { area, longer_than_ms }),
        (partition(), any::<i64>())
            .prop_map(|(tp, start)| TransactionOperation::Abort { tp, start: Offset(start) }),
    ]
}

proptest! {
    #[test]
    fn print_and_parse_are_inverse(command in commands()) {
        let text = print(&command);
        prop_assert_eq!(parse(&text), Ok(Written::Whole(command)), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}|(add|set|cut|kill) [ -~]{0,60}") {
        if let Ok(Written::Whole(command)) = parse(&text) {
            prop_assert_eq!(parse(&print(&command)), Ok(Written::Whole(command)));
        }
    }
}
