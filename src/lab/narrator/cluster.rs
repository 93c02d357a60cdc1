//! Processes, links, commands, and what the controller decides about brokers and topics.

use std::collections::BTreeMap;

use super::{Sentence, Subject, Tone};
use crate::kafka::api_versions::{FeatureStatus, level_name};
use crate::kafka::controller::configs::Resource;
use crate::kafka::event::{Act, Event};
use crate::kafka::raft::{QuorumStatus, ReplicaStatus};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, NodeId, Offset};
use crate::lab::words::{count, duration};

/// The names of client processes; events name nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes {
    clients: BTreeMap<NodeId, ClientName>,
}

impl Processes {
    pub fn on_act(&mut self, node: NodeId, name: &ClientName, act: &Act) {
        if matches!((node, act), (NodeId::Client(_), Act::Started)) {
            self.clients.insert(node, name.clone());
        }
    }

    /// `broker 3`, `controller 101`, or the client's own name.
    pub fn name(&self, node: NodeId) -> String {
        self.clients.get(&node).map_or_else(|| node.to_string(), |name| name.to_string())
    }

    /// Everything that can happen to a process but its start, which [`super::moment`] tells.
    pub fn tell(
        &self,
        time: Time,
        node: NodeId,
        name: &ClientName,
        act: &Act,
        group: Option<&GroupId>,
    ) -> Sentence {
        let about = subject(node, name);
        let named = match node {
            NodeId::Client(_) => name.to_string(),
            node => node.to_string(),
        };
        let say = |tone, what: &str| Sentence::new(time, tone, about.clone(), format!("{named} {what}"));
        match act {
            Act::Started => say(Tone::Info, "started"),
            Act::Killed => match (node, group) {
                (NodeId::Client(_), Some(group)) => say(Tone::Bad, "crashed without leaving its group")
                    .detail(format!(
                        "It sends no LeaveGroup: {group} waits for its heartbeats until session.timeout.ms has passed."
                    ))
                    .rules(&["R-CONS-26"]),
                (NodeId::Client(_), None) => say(Tone::Bad, "crashed")
                    .detail("Batches that were not acknowledged are gone with it, written or not."),
                (NodeId::Broker(_), _) => say(Tone::Bad, "killed: its connections are reset")
                    .detail("The controller learns of it only when heartbeats stay away for broker.session.timeout.ms.")
                    .rules(&["R-REPL-52"]),
                (NodeId::Controller(_), _) => say(Tone::Bad, "killed: its connections are reset")
                    .detail("While no majority of the controllers is left, no leader is elected and no in-sync set can change.")
                    .rules(&["R-CTRL-9"]),
            },
            Act::PowerCut => say(Tone::Bad, "has no power: its connections say nothing more")
                .detail("Nobody closes them: the others notice by the timeouts of the requests they wait for."),
            Act::Frozen => say(Tone::Warn, "frozen: its connections stay open and silent")
                .detail("Nobody is told. The others notice by the timeouts of the requests they wait for."),
            Act::Thawed => say(Tone::Info, "thawed: it goes on where it stood"),
            Act::Ended => say(Tone::Info, "ended after it said goodbye"),
        }
    }
}

fn subject(node: NodeId, name: &ClientName) -> Subject {
    match node {
        NodeId::Controller(id) => Subject::Controller(id),
        NodeId::Broker(id) => Subject::Broker(id),
        NodeId::Client(_) => Subject::Client(name.clone()),
    }
}

fn link_slowed(processes: &Processes, time: Time, a: NodeId, b: NodeId, by_us: i64) -> Sentence {
    let link = format!("link between {} and {}", processes.name(a), processes.name(b));
    match by_us {
        0 => Sentence::new(time, Tone::Good, Subject::Link(a, b), format!("{link} as fast as before")),
        _ => {
            let by = duration((by_us / 1000).max(1));
            Sentence::new(time, Tone::Warn, Subject::Link(a, b), format!("{link} slower by {by} each way"))
                .detail("What is on its way keeps its pace; what is sent from now on takes longer.")
        }
    }
}

fn clock_set(processes: &Processes, time: Time, node: NodeId, ahead_ms: i64) -> Sentence {
    let name = processes.name(node);
    let about = subject(node, &ClientName::new(&name.to_string()));
    let by = duration(ahead_ms.abs());
    let title = match ahead_ms {
        0 => return Sentence::new(time, Tone::Good, about, format!("clock of {name} right again")),
        1.. => format!("clock of {name} ahead by {by}"),
        _ => format!("clock of {name} behind by {by}"),
    };
    Sentence::new(time, Tone::Warn, about, title)
        .detail("Timestamps and retention go by it; timers and sessions run by a clock that only counts.")
        .rules(&["R-LOG-19", "R-LOG-35"])
}

pub(super) fn tell(processes: &Processes, time: Time, event: &Event) -> Option<Sentence> {
    let sentence = match event {
        Event::LinkCut { a, b } => Sentence::new(
            time,
            Tone::Bad,
            Subject::Link(*a, *b),
            format!("link between {} and {} cut", processes.name(*a), processes.name(*b)),
        )
        .detail("What they send to each other does not arrive until it heals; a timeout may close the connection before."),
        Event::LinkHealed { a, b } => Sentence::new(
            time,
            Tone::Good,
            Subject::Link(*a, *b),
            format!("link between {} and {} healed", processes.name(*a), processes.name(*b)),
        ),
        Event::LinkSlowed { a, b, by_us } => link_slowed(processes, time, *a, *b, *by_us),
        Event::ClockSet { node, ahead_ms } => clock_set(processes, time, *node, *ahead_ms),
        Event::CommandRefused { text, error, message } => {
            Sentence::new(time, Tone::Warn, Subject::Cluster, format!("refused with {error}: {text}"))
                .detail(message.clone())
        }
        Event::QuorumCandidate { controller, epoch } => {
            let title = format!("controller {controller} stands for election in epoch {epoch}");
            Sentence::new(time, Tone::Warn, Subject::Controller(*controller), title)
                .detail("It has not heard from a leader of the quorum, and a majority would vote for it.")
                .rules(&["R-CTRL-2"])
        }
        // A quorum of one elects itself.
        Event::QuorumLeaderElected { voters: 1, .. } => return None,
        Event::QuorumLeaderElected { controller, epoch, votes, voters } => {
            let title = format!(
                "controller {controller} elected by {} of {voters} votes: it is active from epoch {epoch}",
                votes.len()
            );
            Sentence::new(time, Tone::Good, Subject::Controller(*controller), title)
                .detail("Every broker in service gets a full session from it, whenever it was heard last.")
                .rules(&["R-CTRL-4", "R-CTRL-10"])
        }
        Event::QuorumLeaderResigned { controller, epoch, silent_ms } => {
            let (why, tone, rules): (_, _, &[&str]) = match silent_ms {
                Some(ms) => {
                    (format!("no majority heard for {}", duration(*ms)), Tone::Bad, &["R-CTRL-6", "R-CTRL-7"])
                }
                None => ("it is about to stop".to_owned(), Tone::Warn, &["R-CTRL-2", "R-CTRL-7"]),
            };
            let title = format!("controller {controller} resigns in epoch {epoch}: {why}");
            Sentence::new(time, tone, Subject::Controller(*controller), title)
                .detail("What it had not committed is forgotten; requests that waited for it are refused.")
                .rules(rules)
        }
        Event::MetadataTruncated { node, from, to } => {
            let title = format!("{node} dropped metadata records {to} to {}", from.0 - 1);
            Sentence::new(time, Tone::Warn, server(*node), title)
                .detail("No majority had them, so they were never committed.")
                .rules(&["R-CTRL-5"])
        }
        Event::SnapshotWritten { node, end_offset, size_bytes } => {
            let title = format!("{node} wrote a snapshot of the metadata log below {end_offset}, {size_bytes} bytes");
            Sentence::new(time, Tone::Info, server(*node), title)
                .detail("It says in one what all records below come to, so that they can go and a restart is short.")
        }
        Event::SnapshotFetched { node, end_offset, size_bytes } => {
            let title = format!("{node} took over a snapshot of the metadata log, {size_bytes} bytes: it goes on at {end_offset}");
            Sentence::new(time, Tone::Warn, server(*node), title)
                .detail("It lacked records that the active controller's log has no more.")
        }
        Event::MetadataLogCleaned { node, start_offset } => {
            let title = format!("{node} dropped the metadata log below {start_offset}");
            Sentence::new(time, Tone::Info, server(*node), title)
                .detail("A snapshot says what it came to.")
        }
        Event::BrokerRegistered { broker, epoch, rack } => {
            let rack = rack.as_ref().map(|rack| format!(" in rack {rack}")).unwrap_or_default();
            let title = format!("broker {broker} registered{rack} with broker epoch {epoch}");
            Sentence::new(time, Tone::Info, Subject::Broker(*broker), title)
                .detail("It is fenced until it has read the metadata log up to its own registration.")
                .rules(&["R-REPL-51"])
        }
        Event::BrokerFenced { broker, silent_ms } => {
            let title = format!("broker {broker} fenced: no heartbeat for {}", duration(*silent_ms));
            Sentence::new(time, Tone::Bad, Subject::Broker(*broker), title)
                .detail(
                    "The controller takes it out of every in-sync set and elects new leaders where it led.",
                )
                .rules(&["R-REPL-52"])
        }
        Event::BrokerUnfenced { broker } => {
            Sentence::new(time, Tone::Good, Subject::Broker(*broker), format!("broker {broker} unfenced"))
                .detail("Its metadata is up to date; it may lead and be in sync again.")
                .rules(&["R-REPL-51"])
        }
        Event::ShutdownBegun { broker } => {
            let title = format!("broker {broker} is about to stop");
            Sentence::new(time, Tone::Warn, Subject::Broker(*broker), title)
                .detail(
                    "The controller gives its leaderships to others and takes it out of every in-sync set.",
                )
                .rules(&["R-REPL-55"])
        }
        Event::ShutdownGranted { broker } => {
            let title = format!("broker {broker} may stop: it is fenced");
            Sentence::new(time, Tone::Info, Subject::Broker(*broker), title)
                .detail("It leads nothing, and every other broker knows who leads instead.")
                .rules(&["R-REPL-54"])
        }
        Event::TopicCreated { topic, partitions, replication_factor } => Sentence::new(
            time,
            Tone::Info,
            Subject::Topic(topic.clone()),
            format!(
                "topic {topic} created: {}, replication factor {replication_factor}",
                count(*partitions, "partition")
            ),
        )
        .detail("Of each partition's replicas those in service are in sync, and the first of them leads.")
        .rules(&["R-PLACE-1", "R-PLACE-6"]),
        Event::PartitionsAdded { topic, from, to } => {
            let title = format!("topic {topic}: {from} -> {}", count(*to, "partition"));
            Sentence::new(time, Tone::Info, Subject::Topic(topic.clone()), title)
                .detail(
                    "Keys may go to other partitions from now on; the records there are stay where they are.",
                )
                .rules(&["R-PLACE-7"])
        }
        Event::TopicDeleted { topic } => Sentence::new(
            time,
            Tone::Bad,
            Subject::Topic(topic.clone()),
            format!("topic {topic} deleted"),
        )
        .detail("Its records are gone. A topic of the same name would be another one, with an id of its own.")
        .rules(&["R-PLACE-9"]),
        Event::ConfigChanged { topic, key, value } => {
            let title = match value {
                Some(value) => format!("topic {topic}: {key} set to {value}"),
                None => format!("topic {topic}: {key} is back at its default"),
            };
            Sentence::new(time, Tone::Info, Subject::Topic(topic.clone()), title).rules(&["R-LOG-53"])
        }
        Event::QuorumDescribed { status } => {
            let QuorumStatus { leader, epoch, high_watermark, .. } = status;
            let title = format!(
                "controller {leader} leads in epoch {epoch}; the metadata log is committed below {high_watermark}"
            );
            let replica = |of: &ReplicaStatus| match of.log_end_offset {
                Offset::UNKNOWN => format!("{} has not fetched", of.node),
                end => format!("{} ends at {end}", of.node),
            };
            let replicas: Vec<String> = status.voters.iter().chain(&status.observers).map(replica).collect();
            let lag = count(status.max_follower_lag(), "record");
            let detail = format!("The slowest voter lacks {lag}. {}.", replicas.join(", "));
            Sentence::new(time, Tone::Info, Subject::Controller(*leader), title)
                .detail(&detail)
                .rules(&["R-CTRL-5"])
        }
        Event::FeaturesDescribed { features, epoch } => {
            let epoch = epoch.map_or("-".to_owned(), |epoch| epoch.to_string());
            let line = |of: &FeatureStatus| {
                let name = |level| level_name(&of.feature, level);
                let (min, max, finalized) = (name(of.min_level), name(of.max_level), name(of.finalized));
                format!(
                    "Feature: {}  SupportedMinVersion: {min}  SupportedMaxVersion: {max}  FinalizedVersionLevel: \
                     {finalized}  Epoch: {epoch}",
                    of.feature
                )
            };
            let title = format!("{} at epoch {epoch}", count(features.len() as i64, "feature"));
            let lines: Vec<String> = features.iter().map(line).collect();
            Sentence::new(time, Tone::Info, Subject::Cluster, title)
                .detail(lines.join("; ") + ".")
                .rules(&["R-CTRL-12"])
        }
        Event::ConfigsDescribed { resource, configs } => {
            let (subject, whose) = match resource {
                Resource::Topic(topic) => (Subject::Topic(topic.clone()), format!("topic {topic}")),
                Resource::Broker(Some(broker)) => (Subject::Broker(*broker), format!("broker {broker}")),
                Resource::Broker(None) => (Subject::Cluster, "the cluster's default".to_owned()),
                Resource::Group(group) => (Subject::Group(group.clone()), format!("group {group}")),
            };
            let list: Vec<String> = configs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let title = match list.is_empty() {
                true => format!("{whose}: no config of its own"),
                false => format!("{whose}: {}", list.join(", ")),
            };
            Sentence::new(time, Tone::Info, subject, title)
                .detail("These were set while the cluster ran; everything else is as the brokers' files or Kafka's defaults have it.")
                .rules(&["R-LOG-53"])
        }
        Event::BrokerConfigChanged { broker, key, value } => {
            let subject = broker.map_or(Subject::Cluster, Subject::Broker);
            let whose = broker.map_or("the cluster's default".to_owned(), |broker| format!("broker {broker}"));
            let title = match value {
                Some(value) => format!("{whose}: {key} set to {value}"),
                None => format!("{whose}: {key} removed"),
            };
            let detail = match (value, broker) {
                (None, _) => "What stands below it counts again: the cluster's default, the broker's file, Kafka's default.",
                (Some(_), Some(_)) => "It stands above the cluster's default and above the broker's file.",
                (Some(_), None) => "It holds for topics and brokers that have no value of their own.",
            };
            Sentence::new(time, Tone::Info, subject, title).detail(detail).rules(&["R-LOG-53"])
        }
        Event::FeatureUpdated { feature, level } => {
            Sentence::new(time, Tone::Info, Subject::Cluster, format!("{feature} is at level {level} from here on"))
                .detail("Brokers hear of it by the metadata log at once; clients by ApiVersions, with their next connection.")
                .rules(&["R-CTRL-12"])
        }
        Event::GroupConfigChanged { group, key, value } => {
            let (title, detail) = match value {
                Some(value) => (format!("group {group}: {key} set to {value}"), "It holds for this group alone."),
                None => (format!("group {group}: {key} removed"), "Kafka's default counts again."),
            };
            Sentence::new(time, Tone::Info, Subject::Group(group.clone()), title).detail(detail)
        }
        _ => return None,
    };
    Some(sentence)
}

/// A broker or a controller.
fn server(node: NodeId) -> Subject {
    match node {
        NodeId::Broker(id) => Subject::Broker(id),
        NodeId::Controller(id) => Subject::Controller(id),
        NodeId::Client(_) => Subject::Cluster,
    }
}
