//! What is known of one broker or controller: its place in the cluster, and its copy of the metadata log.

use std::rc::Rc;

use super::inspect::{because, fact};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::raft::{MetadataLog, RaftClient};
use crate::kafka::types::{BrokerId, NodeId, TopicPartition};
use crate::lab::command::Why;
use crate::lab::words::count;
use crate::sim::{Machine, ProcessState, Remains, World};
use crate::view::model::{Fact, Focus, Inspected, Tone};
use crate::view::sentences::list;

pub fn inspect_server(focus: &Focus, node: NodeId, world: &World, image: &ClusterImage) -> Inspected {
    let mut facts = Vec::new();
    if let NodeId::Broker(id) = node {
        facts.extend(registration(id, image));
    }
    if let Some(process) = world.process(node) {
        match (process.machine(), &process.state) {
            (Some(Machine::Broker(broker)), _) => {
                facts.extend(alive("observer", broker.raft()));
                facts.extend(late_transactions(broker.replicas().late_transactions(world.now())));
            }
            (Some(Machine::Controller(controller)), _) => {
                let raft = controller.raft();
                facts.extend(alive(raft.role().name(), raft));
            }
            (_, ProcessState::Dead(Remains::Broker(disk))) => facts.extend(metadata_log(&disk.metadata.log)),
            (_, ProcessState::Dead(Remains::Controller(disk))) => facts.extend(metadata_log(&disk.log)),
            _ => {}
        }
    }
    let why = match node {
        NodeId::Broker(id) => Some(Why::Broker(id)),
        NodeId::Controller(id) => Some(Why::Controller(id)),
        NodeId::Client(_) => None,
    };
    if let (Some(first), Some(why)) = (facts.first_mut(), why) {
        *first = because(first.clone(), why);
    }
    let (title, facts) = (node.to_string().into(), facts.into());
    Inspected {
        focus: focus.clone(),
        title,
        facts,
        sections: Rc::from([]),
        idle: None,
        story: None,
        bytes: None,
    }
}

/// As the cluster's metadata has it.
fn registration(id: BrokerId, image: &ClusterImage) -> Vec<Fact> {
    let Some(broker) = image.brokers.get(&id) else {
        return vec![fact("registered", "no")];
    };
    let led = image.partitions().filter(|(_, partition)| partition.leader == id).count();
    let (state, tone) = match (broker.fenced, broker.in_controlled_shutdown) {
        (true, _) => ("fenced", Tone::Bad),
        (false, true) => ("about to stop", Tone::Warning),
        (false, false) => ("in service", Tone::Good),
    };
    let mut facts = vec![Fact { tone, ..fact("registered", state) }, fact("broker epoch", broker.epoch)];
    facts.extend(broker.rack.as_ref().map(|rack| fact("rack", rack)));
    facts.push(fact("leads", count(led as i64, "partition")));
    facts
}

fn alive(place: &str, raft: &RaftClient) -> Vec<Fact> {
    let leader = raft.leader().map_or("none known".to_owned(), |leader| format!("controller {leader}"));
    let mut facts = vec![
        fact("in the quorum", place),
        fact("quorum leader", format!("{leader}, epoch {}", raft.epoch())),
    ];
    facts.extend(metadata_log(raft.log()));
    facts
}

/// PartitionsWithLateTransactionsCount, where it is not 0 (R-TXN-25).
fn late_transactions<'a>(late: impl Iterator<Item = &'a TopicPartition>) -> Option<Fact> {
    let late: Vec<&TopicPartition> = late.collect();
    let named = format!("{} ({})", late.len(), list(&late));
    (!late.is_empty()).then(|| Fact { tone: Tone::Bad, ..fact("partitions with late transactions", named) })
}

/// Positions in `__cluster_metadata`, and the snapshot that stands for what is before it.
fn metadata_log(log: &MetadataLog) -> Vec<Fact> {
    let snapshot = match log.latest_snapshot() {
        None => "none yet".to_owned(),
        Some(snapshot) => {
            let id = snapshot.id();
            format!("{}-{}, {} bytes", id.end_offset, id.epoch, snapshot.size_bytes())
        }
    };
    vec![
        fact("metadata log start", log.start_offset()),
        Fact { tone: Tone::Good, ..fact("metadata HW", log.high_watermark()) },
        fact("metadata LEO", log.end_offset()),
        fact("last snapshot", snapshot),
    ]
}

#[cfg(test)]
mod tests {
    use crate::kafka::time::Time;
    use crate::kafka::types::{BrokerId, ControllerId};
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::model::{Focus, Inspected};

    const SCENARIO: &str = r#"
        format = 1
        controllers = 1
        [[broker]]
        id = 1
        [broker-defaults]
        "metadata.log.max.record.bytes.between.snapshots" = 300
        [[topic]]
        name = "orders"
        partitions = 2
        replication-factor = 1
    "#;

    fn told(inspected: &Inspected) -> Vec<(&str, &str)> {
        inspected.facts.iter().map(|fact| (&*fact.name, &*fact.value)).collect()
    }

    /// KIP-630: a snapshot is named by the end offset and the epoch of what it contains.
    #[test]
    fn servers_tell_of_their_metadata_log_and_its_last_snapshot_alive_and_dead() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        let inspect = |session: &Session, focus: Focus| {
            model(session, Some(&focus), None).inspected.expect("it is there")
        };
        let of = |inspected: &Inspected, name: &str| {
            let facts = told(inspected);
            facts.iter().find(|(each, _)| *each == name).map(|(_, value)| value.to_string())
        };
        let controller = Focus::Controller(ControllerId(101));
        let patient = SCENARIO.replace("= 300", "= 20971520");
        let mut young = Session::open(&patient, Options::default()).expect("it is right");
        young.run_until(Time::from_ms(2_000), u64::MAX);
        assert_eq!(of(&inspect(&young, controller.clone()), "last snapshot").as_deref(), Some("none yet"));
        session.run_until(Time::from_ms(20_000), u64::MAX);
        let raft = session.world().controller(ControllerId(101)).expect("it runs").raft();
        let latest = raft.log().latest_snapshot().expect("300 bytes are many records");
        let (id, bytes) = (latest.id(), latest.size_bytes());
        let snapshot = format!("{}-{}, {bytes} bytes", id.end_offset, id.epoch);
        let expected = [raft.log().start_offset(), raft.log().high_watermark(), raft.log().end_offset()];
        let shown = inspect(&session, controller.clone());
        assert_eq!(&*shown.title, "controller 101");
        assert_eq!(of(&shown, "last snapshot"), Some(snapshot.clone()));
        let names = ["metadata log start", "metadata HW", "metadata LEO"];
        assert_eq!(names.map(|name| of(&shown, name)), expected.map(|offset| Some(offset.to_string())));
        let broker = inspect(&session, Focus::Broker(BrokerId(1)));
        assert_eq!(of(&broker, "registered").as_deref(), Some("in service"));
        assert_eq!(of(&broker, "in the quorum").as_deref(), Some("observer"));
        assert!(of(&broker, "last snapshot").is_some_and(|text| text != "none yet"), "{:?}", told(&broker));
        session.command("kill controller 101").expect("it runs");
        assert_eq!(of(&inspect(&session, controller), "last snapshot"), Some(snapshot));
    }
}
