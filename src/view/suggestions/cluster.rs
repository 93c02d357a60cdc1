//! What the servers, the links between them, the topics and the groups may be told.

use crate::client::admin::{Goal, GroupOperation, ListFilter, OfEach, Reset, Scope, Target as ResetTarget};
use crate::kafka::api_versions::supported_levels;
use crate::kafka::config::{
    FEATURE_KEYS, GROUP_KEYS, Key, NULL, TOPIC_KEYS, UpdateMode, broker_keys, update_mode,
};
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::types::{BrokerId, GroupId, Offset, Topic, TopicPartition};
use crate::sim::{Command, Target};
use crate::view::model::{Model, ReplicaView, Role};

pub fn servers(model: &Model) -> Vec<Command> {
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

/// Topics, groups, and what is of the cluster as a whole.
pub fn of_cluster(model: &Model) -> Vec<Command> {
    let mut commands = Vec::new();
    for topic in topics(model) {
        commands.extend([Command::Describe(Resource::Topic(topic.clone())), Command::DeleteTopic(topic)]);
    }
    commands.push(Command::Groups(GroupOperation::List(ListFilter::default())));
    for group in groups(model) {
        commands.extend([
            Command::Groups(GroupOperation::Describe(group.clone())),
            Command::Groups(GroupOperation::DescribeOffsets(group.clone())),
            Command::Groups(GroupOperation::Delete(group.clone())),
            Command::Describe(Resource::Group(group)),
        ]);
    }
    let each = [OfEach::Describe, OfEach::DescribeOffsets, OfEach::Delete];
    commands.extend(each.map(|of_each| Command::Groups(GroupOperation::OfEach(of_each))));
    let kinds = [ElectionType::Preferred, ElectionType::Unclean];
    commands.extend(kinds.map(|kind| Command::ElectLeader { kind, partition: None }));
    commands.extend([
        Command::Describe(Resource::Broker(None)),
        Command::DescribeQuorum,
        Command::DescribeFeatures,
    ]);
    commands
}

/// Each level of each feature that can be changed.
pub fn levels(upgrade: UpgradeType) -> Vec<Command> {
    let levels = |key: &Key| {
        let name = key.name;
        supported_levels(name).map(move |level| Command::UpdateFeature {
            feature: name.to_owned(),
            level,
            upgrade,
        })
    };
    FEATURE_KEYS.iter().flat_map(levels).collect()
}

pub fn groups(model: &Model) -> impl Iterator<Item = GroupId> {
    model.groups.iter().filter(|group| group.is_group()).map(|group| group.id.clone())
}

pub fn topics(model: &Model) -> impl Iterator<Item = Topic> {
    model.scenario.topics.iter().map(|name| Topic::new(name))
}

/// One replica of each partition, by name: its leader's, if it has one.
pub fn leaders(model: &Model) -> Vec<&ReplicaView> {
    let mut replicas: Vec<&ReplicaView> =
        model.brokers.iter().flat_map(|broker| broker.replicas.iter()).map(|replica| &**replica).collect();
    replicas.sort_by_key(|replica| (&replica.tp, replica.role != Role::Leader));
    replicas.dedup_by_key(|replica| &replica.tp);
    replicas
}

pub fn partitions(model: &Model) -> impl Iterator<Item = TopicPartition> {
    leaders(model).into_iter().map(|replica| replica.tp.clone())
}

/// A line for each config that has its effect here, of each topic, of each broker and of the cluster. One that is null
/// by default cannot be set to that.
pub fn configs(model: &Model, value: impl Fn(&Key) -> Option<String>) -> Vec<Command> {
    let can_be_said = |key: &Key| value(key).is_none_or(|value| value != NULL);
    let mut commands = Vec::new();
    for topic in topics(model) {
        commands.extend(TOPIC_KEYS.iter().filter(|key| can_be_said(key)).map(|key| {
            Command::SetTopicConfig { topic: topic.clone(), key: key.name.to_owned(), value: value(key) }
        }));
    }
    for group in groups(model) {
        commands.extend(GROUP_KEYS.iter().filter(|key| can_be_said(key)).map(|key| {
            Command::SetGroupConfig { group: group.clone(), key: key.name.to_owned(), value: value(key) }
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
pub fn reassignments(model: &Model) -> Vec<Command> {
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
pub fn deletions_of_records(model: &Model) -> Vec<Command> {
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
pub fn deletions_of_offsets(model: &Model) -> Vec<Command> {
    let of_group = |group: GroupId| {
        topics(model).map(move |topic| {
            let scope = Scope::Topic(topic);
            Command::Groups(GroupOperation::DeleteOffsets { group: group.clone(), scope })
        })
    };
    groups(model).flat_map(of_group).collect()
}

/// Each group to both ends of each topic, to a minute ago, and by ten records back and on.
pub fn resets(model: &Model, executes: bool) -> Vec<Command> {
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
    let all = OfEach::Reset { goal: Goal::All(Scope::AllTopics, ResetTarget::Current), executes };
    let of_all = Command::Groups(GroupOperation::OfEach(all));
    groups(model).flat_map(of_group).chain([of_all]).collect()
}

pub fn elections(model: &Model) -> Vec<Command> {
    let kinds = [ElectionType::Preferred, ElectionType::Unclean];
    partitions(model)
        .flat_map(|tp| kinds.map(|kind| Command::ElectLeader { kind, partition: Some(tp.clone()) }))
        .collect()
}

/// Each topic with one partition more.
pub fn more_partitions(model: &Model) -> Vec<Command> {
    let count = |topic: &Topic| partitions(model).filter(|tp| tp.topic == *topic).count() as i32;
    topics(model).map(|topic| Command::AddPartitions { count: count(&topic) + 1, topic }).collect()
}
