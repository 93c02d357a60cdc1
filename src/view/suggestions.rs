//! Whole lines that would be understood now, offered while a person types a command.
//!
//! A few verbs have a line for each config or partition. These lists are long, so they are there only once their verb is
//! begun.
//!
//! **Invariant:** each line is a command in its one form.

use super::act;
use super::model::{ConsumerView, Model, ReplicaView, Role};
use crate::client::admin::{Goal, GroupOperation, ListFilter, Reset, Scope, Target as ResetTarget};
use crate::client::consumer::{Ask, Choice, CloseOptions, GroupMembership, SeekTo};
use crate::kafka::config::{Key, NULL, TOPIC_KEYS, UpdateMode, broker_keys, update_mode};
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::types::{BrokerId, ClientName, GroupId, Offset, Topic, TopicPartition};
use crate::lab::command::print;
use crate::sim::{Command, Target};

type Lines = fn(&Model) -> Vec<Command>;

/// The verbs that are told of at length, and how.
const AT_LENGTH: [(&str, Lines); 17] = [
    ("set", |model| configs(model, |key| Some(key.default.to_owned()))),
    ("unset", |model| configs(model, |_| None)),
    ("reassign", reassignments),
    ("cancel", |model| partitions(model).map(Command::CancelReassignment).collect()),
    ("delete", |model| [deletions_of_records(model), deletions_of_offsets(model)].concat()),
    ("plan", |model| resets(model, false)),
    ("reset", |model| resets(model, true)),
    ("elect", elections),
    ("add", more_partitions),
    ("subscribe", |model| asks(model, |_| choices(topics(model), Choice::Topics))),
    ("assign", |model| asks(model, |_| choices(partitions(model), Choice::Partitions))),
    ("unsubscribe", |model| asks(model, |_| vec![Ask::Unsubscribe])),
    ("pause", |model| asks(model, |view| of_owned(view, |tp| vec![Ask::Pause(vec![tp])]))),
    ("resume", |model| asks(model, |view| of_owned(view, |tp| vec![Ask::Resume(vec![tp])]))),
    ("seek", |model| asks(model, |view| of_owned(view, seeks))),
    ("commit", |model| {
        asks(model, |_| [true, false].map(|waits| Ask::Commit { offsets: None, waits }).to_vec())
    }),
    ("close", closings),
];

/// The verb that a text begins with, whole or in part.
pub fn verb(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Lines that would be understood now; `verb` is what was typed of the first word.
pub fn suggestions(model: &Model, verb: &str) -> Vec<String> {
    let mut commands = commands(model);
    let begun = AT_LENGTH.iter().filter(|(name, _)| !verb.is_empty() && name.starts_with(verb));
    commands.extend(begun.flat_map(|(_, lines)| lines(model)));
    let mut lines: Vec<String> = commands.iter().map(print).collect();
    lines.push(act::add_broker(model));
    lines.extend(model.groups.iter().map(|group| act::add_consumer(model, group)));
    lines
}

/// What the servers, the links between them, the clients and the topics may be told.
fn commands(model: &Model) -> Vec<Command> {
    let mut commands = Vec::new();
    for broker in model.brokers.iter() {
        commands.push(Command::Stop(broker.id));
        commands.extend(of_server(Target::Broker(broker.id)));
        commands.extend([Command::WipeDisk(broker.id), Command::Describe(Resource::Broker(Some(broker.id)))]);
    }
    for controller in model.controllers.iter() {
        commands.push(Command::StopController(controller.id));
        commands.extend(of_server(Target::Controller(controller.id)));
    }
    commands.extend(links(model).into_iter().flat_map(|(a, b)| of_link(&a, &b)));
    commands.extend(of_clients(model));
    for topic in topics(model) {
        commands.extend([Command::Describe(Resource::Topic(topic.clone())), Command::DeleteTopic(topic)]);
    }
    commands.push(Command::Groups(GroupOperation::List(ListFilter::default())));
    for group in model.groups.iter().filter(|group| group.is_group()) {
        commands.extend([
            Command::Groups(GroupOperation::Describe(group.id.clone())),
            Command::Groups(GroupOperation::DescribeOffsets(group.id.clone())),
            Command::Groups(GroupOperation::Delete(group.id.clone())),
            Command::Describe(Resource::Group(group.id.clone())),
        ]);
    }
    let kinds = [ElectionType::Preferred, ElectionType::Unclean];
    commands.extend(kinds.map(|kind| Command::ElectLeader { kind, partition: None }));
    commands.extend([Command::Describe(Resource::Broker(None)), Command::DescribeQuorum]);
    commands
}

fn of_server(target: Target) -> [Command; 7] {
    let clock = |ahead_ms| Command::SetClock { target: target.clone(), ahead_ms };
    [
        Command::Kill(target.clone()),
        Command::CutPower(target.clone()),
        Command::Start(target.clone()),
        Command::Freeze(target.clone()),
        Command::Thaw(target.clone()),
        clock(300_000),
        clock(0),
    ]
}

fn of_link(a: &Target, b: &Target) -> [Command; 3] {
    let ends = || (a.clone(), b.clone());
    let ((cut_a, cut_b), (heal_a, heal_b), (a, b)) = (ends(), ends(), ends());
    [
        Command::Cut { a: cut_a, b: cut_b },
        Command::Heal { a: heal_a, b: heal_b },
        Command::Slow { a, b, by_us: 200_000 },
    ]
}

/// Each two brokers, and each broker with each controller.
fn links(model: &Model) -> Vec<(Target, Target)> {
    let brokers: Vec<Target> = model.brokers.iter().map(|broker| Target::Broker(broker.id)).collect();
    let controllers: Vec<Target> =
        model.controllers.iter().map(|controller| Target::Controller(controller.id)).collect();
    let mut links = Vec::new();
    for (index, a) in brokers.iter().enumerate() {
        let others = brokers[index + 1..].iter().chain(&controllers);
        links.extend(others.map(|b| (a.clone(), b.clone())));
    }
    links
}

fn of_clients(model: &Model) -> Vec<Command> {
    let members = model.groups.iter().flat_map(|group| group.members.iter());
    let consumers = members.flat_map(|member| {
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
fn asks(model: &Model, of_consumer: impl Fn(&ConsumerView) -> Vec<Ask>) -> Vec<Command> {
    let consumers = model.groups.iter().flat_map(|group| group.members.iter());
    let commands = consumers.flat_map(|view| {
        let client = ClientName::new(&view.name);
        of_consumer(view).into_iter().map(move |ask| Command::Ask { client: client.clone(), ask })
    });
    commands.collect()
}

/// Each of them alone.
fn choices<T>(all: impl Iterator<Item = T>, choice: impl Fn(Vec<T>) -> Choice) -> Vec<Ask> {
    all.map(|one| Ask::Choose(choice(vec![one]))).collect()
}

fn of_owned(view: &ConsumerView, asks: impl Fn(TopicPartition) -> Vec<Ask>) -> Vec<Ask> {
    view.owned.iter().cloned().flat_map(asks).collect()
}

fn seeks(partition: TopicPartition) -> Vec<Ask> {
    let to = [SeekTo::Beginning, SeekTo::End, SeekTo::Offset(0)];
    to.map(|to| Ask::Seek { partition: partition.clone(), to }).to_vec()
}

fn closings(model: &Model) -> Vec<Command> {
    let consumers = model.groups.iter().flat_map(|group| group.members.iter());
    let closings = consumers.flat_map(|view| {
        [GroupMembership::Leave, GroupMembership::Remain].map(|membership| Command::CloseWith {
            client: ClientName::new(&view.name),
            options: CloseOptions { membership, timeout_ms: None },
        })
    });
    closings.collect()
}

fn topics(model: &Model) -> impl Iterator<Item = Topic> {
    model.scenario.topics.iter().map(|name| Topic::new(name))
}

/// One replica of each partition, by name: its leader's, if it has one.
fn leaders(model: &Model) -> Vec<&ReplicaView> {
    let mut replicas: Vec<&ReplicaView> =
        model.brokers.iter().flat_map(|broker| broker.replicas.iter()).map(|replica| &**replica).collect();
    replicas.sort_by_key(|replica| (&replica.tp, replica.role != Role::Leader));
    replicas.dedup_by_key(|replica| &replica.tp);
    replicas
}

fn partitions(model: &Model) -> impl Iterator<Item = TopicPartition> {
    leaders(model).into_iter().map(|replica| replica.tp.clone())
}

/// A line for each config that has its effect here, of each topic, of each broker and of the cluster. One that is null
/// by default cannot be set to that.
fn configs(model: &Model, value: impl Fn(&Key) -> Option<String>) -> Vec<Command> {
    let can_be_said = |key: &Key| value(key).is_none_or(|value| value != NULL);
    let mut commands = Vec::new();
    for topic in topics(model) {
        commands.extend(TOPIC_KEYS.iter().filter(|key| can_be_said(key)).map(|key| {
            Command::SetTopicConfig { topic: topic.clone(), key: key.name.to_owned(), value: value(key) }
        }));
    }
    let brokers = model.brokers.iter().map(|broker| Some(broker.id));
    for key in broker_keys().filter(can_be_said) {
        let changes = match update_mode(key.name) {
            UpdateMode::ReadOnly => continue,
            UpdateMode::PerBroker => brokers.clone().collect::<Vec<_>>(),
            UpdateMode::ClusterWide => brokers.clone().chain([None]).collect(),
        };
        commands.extend(changes.into_iter().map(|broker| Command::SetBrokerConfig {
            broker,
            key: key.name.to_owned(),
            value: value(&key),
        }));
    }
    commands
}

/// Each partition to the same brokers with the leader last, and to a broker that has none of it in the leader's place.
fn reassignments(model: &Model) -> Vec<Command> {
    let of_partition = |replica: &ReplicaView| {
        let holds = |broker: &BrokerId| {
            let of_broker = model.brokers.iter().filter(|view| view.id == *broker);
            of_broker.flat_map(|view| view.replicas.iter()).any(|other| other.tp == replica.tp)
        };
        let (held, free): (Vec<_>, Vec<_>) = model.brokers.iter().map(|view| view.id).partition(holds);
        let others = held.into_iter().filter(|broker| *broker != replica.broker);
        let to = |last: BrokerId| Command::Reassign {
            partition: replica.tp.clone(),
            replicas: others.clone().chain([last]).collect(),
        };
        [Some(replica.broker), free.first().copied()].into_iter().flatten().map(to).collect::<Vec<_>>()
    };
    leaders(model).into_iter().flat_map(of_partition).collect()
}

/// All that is committed, and what is before the last round offset of it.
fn deletions_of_records(model: &Model) -> Vec<Command> {
    const ROUND: i64 = 10;
    let of_partition = |replica: &ReplicaView| {
        let round = replica.high_watermark.0 / ROUND * ROUND;
        let before = Some(round).filter(|round| Offset(*round) > replica.log_start);
        let to = |before| Command::DeleteRecords { partition: replica.tp.clone(), before };
        [Some(to(None)), before.map(|before| to(Some(before)))].into_iter().flatten()
    };
    leaders(model).into_iter().flat_map(of_partition).collect()
}

/// What each group committed for each topic.
fn deletions_of_offsets(model: &Model) -> Vec<Command> {
    let of_group = |group: GroupId| {
        topics(model).map(move |topic| {
            let scope = Scope::Topic(topic);
            Command::Groups(GroupOperation::DeleteOffsets { group: group.clone(), scope })
        })
    };
    let groups = model.groups.iter().filter(|group| group.is_group());
    groups.flat_map(|group| of_group(group.id.clone())).collect()
}

/// Each group to both ends of each topic, to a minute ago, and by ten records back and on.
fn resets(model: &Model, executes: bool) -> Vec<Command> {
    const TARGETS: [ResetTarget; 5] = [
        ResetTarget::Earliest,
        ResetTarget::Latest,
        ResetTarget::Ago { ms: 60_000 },
        ResetTarget::Shift(-10),
        ResetTarget::Shift(10),
    ];
    let of_group = |group: GroupId| {
        let reset = move |topic: Topic, target| {
            let goal = Goal::All(Scope::Topic(topic), target);
            Command::Groups(GroupOperation::Reset(Reset { group: group.clone(), goal, executes }))
        };
        topics(model).flat_map(move |topic| TARGETS.map(|target| reset(topic.clone(), target)))
    };
    let groups = model.groups.iter().filter(|group| group.is_group());
    groups.flat_map(|group| of_group(group.id.clone())).collect()
}

fn elections(model: &Model) -> Vec<Command> {
    let kinds = [ElectionType::Preferred, ElectionType::Unclean];
    partitions(model)
        .flat_map(|tp| kinds.map(|kind| Command::ElectLeader { kind, partition: Some(tp.clone()) }))
        .collect()
}

/// Each topic with one partition more.
fn more_partitions(model: &Model) -> Vec<Command> {
    let count = |topic: &Topic| partitions(model).filter(|tp| tp.topic == *topic).count() as i32;
    topics(model).map(|topic| Command::AddPartitions { count: count(&topic) + 1, topic }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;
    use crate::lab::command::{Written, parse};
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;

    const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");

    fn running() -> Model {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(20_000), u64::MAX);
        model(&session, None, None)
    }

    fn offered(model: &Model, verb: &str) -> Vec<String> {
        suggestions(model, verb)
    }

    #[test]
    fn each_line_is_a_command_in_its_one_form() {
        let model = running();
        for verb in AT_LENGTH.map(|(verb, _)| verb).into_iter().chain([""]) {
            for line in offered(&model, verb) {
                match parse(&line) {
                    Ok(Written::Whole(command)) => assert_eq!(print(&command), line),
                    Ok(Written::Consumer(..)) => {
                        let is_added =
                            line.starts_with("add consumer ") || line.starts_with("add share consumer ");
                        assert!(is_added, "{line}");
                    }
                    other => panic!("{line} is read as {other:?}"),
                }
            }
        }
    }

    #[test]
    fn configs_are_offered_under_their_own_names_once_their_verb_is_begun() {
        let model = running();
        let has = |verb: &str, line: &str| offered(&model, verb).iter().any(|offered| offered == line);
        for line in [
            "set topic orders min.insync.replicas=1",
            "set broker 2 message.max.bytes=1048588",
            "set cluster min.insync.replicas=1",
        ] {
            assert!(has("set", line) && has("s", line), "{line}");
            let unset = format!("un{}", line.split('=').next().expect("a key"));
            assert!(has("unset", &unset), "{unset}");
            assert!(!has("", line) && !has("kill", line), "{line} waits for its verb");
        }
        let lines = offered(&model, "set");
        assert!(!lines.iter().any(|line| line.contains("broker.rack")), "it changes with a restart only");
        assert!(!lines.iter().any(|line| line.contains("segment.jitter.ms")), "it has no effect here");
    }

    #[test]
    fn a_partition_can_be_moved_emptied_and_led_anew() {
        let model = running();
        let has = |verb: &str, line: &str| offered(&model, verb).iter().any(|offered| offered == line);
        assert!(has("cancel", "cancel reassignment orders-0"));
        assert!(has("delete", "delete records of orders-0"));
        assert!(has("elect", "elect preferred leader orders-0"));
        assert!(has("elect", "elect unclean leader orders-2"));
        assert!(has("add", "add partitions to orders up to 4"));
        let leader = leaders(&model).into_iter().find(|leader| leader.tp.to_string() == "orders-1");
        let leader = leader.expect("there is orders-1");
        let lines = offered(&model, "reassign");
        let moves: Vec<&String> =
            lines.iter().filter(|line| line.starts_with("reassign orders-1 to ")).collect();
        assert_eq!(moves.len(), 1, "all three brokers have it: {moves:?}");
        assert!(moves[0].ends_with(&format!(",{}", leader.broker)), "{moves:?}");
    }
}
