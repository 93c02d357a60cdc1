use super::*;
use crate::kafka::event::{Act, RevokeReason};
use crate::kafka::types::{
    BrokerId, Generation, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId, TopicPartition,
};
use crate::lab::pace::StopsAt;
use crate::lab::session::{Options, Session};
use crate::sim::{Key, TraceEntry};

/// A trace by hand, with its measures.
#[derive(Default)]
struct Told {
    trace: Trace,
    measures: Measures,
}

impl Told {
    fn at(&mut self, ms: i64, event: Event) -> &mut Told {
        let key = Key { time: Time::from_ms(ms), sequence: 0 };
        self.trace.push(TraceEntry { key, cause: None, event }, 0);
        self.measures.follow(&self.trace, |_| 2);
        self
    }

    fn assigned(&mut self, ms: i64, client: &str, partitions: &[i32]) -> &mut Told {
        let partitions: Vec<TopicPartition> = partitions.iter().map(|index| tp(*index)).collect();
        let (group, generation) = (GroupId::new("billing"), Generation(1));
        let client = ClientName::new(client);
        self.at(
            ms,
            Event::PartitionsAssigned { client, group, generation, added: partitions.clone(), partitions },
        )
    }

    fn revoked(&mut self, ms: i64, client: &str, partitions: &[i32]) -> &mut Told {
        let partitions = partitions.iter().map(|index| tp(*index)).collect();
        let (client, group, reason) =
            (ClientName::new(client), GroupId::new("billing"), RevokeReason::Rebalance);
        self.at(ms, Event::PartitionsRevoked { client, group, partitions, reason })
    }

    fn check(&self, measure: Measure, now_ms: i64, value: i64, first: &str) {
        let reading = self.measures.read(measure, Time::from_ms(now_ms));
        let first_read = reading
            .occasions
            .first()
            .map(|first| format!("{} {}", first.time.ms(), first.what))
            .unwrap_or_default();
        let value_read = if measure.is_time() { reading.value / 1000 } else { reading.value };
        assert_eq!((value_read, first_read.as_str()), (value, first), "{measure:?}");
    }
}

fn tp(index: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("orders"), index)
}

#[test]
fn a_partition_is_ownerless_from_when_it_is_given_up_until_somebody_has_it() {
    let mut told = Told::default();
    told.assigned(10, "a", &[0, 1]).revoked(100, "a", &[0, 1]);
    told.check(Measure::OwnerlessUs, 150, 100, "100 orders-0 of billing, given up by a");
    told.assigned(200, "a", &[0]).assigned(250, "b", &[1]);
    told.check(Measure::OwnerlessUs, 900, 250, "100 orders-0 of billing, given up by a");
    told.check(Measure::OwnersChanged, 900, 1, "250 orders-1, from a to b");
    told.check(Measure::TwiceOwnedUs, 900, 0, "");
    let spans: Vec<String> = told
        .measures
        .spans(Time::from_ms(900))
        .iter()
        .map(|span| {
            format!("{} {}..{} {}", span.client, span.from.ms(), span.until.ms(), span.partitions.len())
        })
        .collect();
    assert_eq!(spans, ["a 10..100 2", "a 200..900 1", "b 250..900 1"]);
}

#[test]
fn a_frozen_member_still_owns_and_a_dead_one_does_not() {
    let mut told = Told::default();
    let act = |name: &str, act| Event::Process { node: NodeId::Client(3), name: ClientName::new(name), act };
    told.assigned(0, "a", &[0]).at(100, act("a", Act::Frozen));
    told.check(Measure::OwnerlessUs, 200, 0, "");
    told.assigned(200, "b", &[0]);
    told.check(Measure::TwiceOwnedUs, 300, 100, "200 orders-0 of billing, a and b");
    told.at(400, act("a", Act::Killed));
    told.check(Measure::TwiceOwnedUs, 900, 200, "200 orders-0 of billing, a and b");
    told.check(Measure::OwnerlessUs, 900, 0, "");
    told.at(500, act("b", Act::Ended));
    told.check(Measure::OwnerlessUs, 900, 400, "500 orders-0 of billing, given up by b");
}

#[test]
fn what_is_counted_anew_forgets_what_was_and_keeps_what_is() {
    let mut told = Told::default();
    told.assigned(0, "a", &[0, 1]).revoked(100, "a", &[0, 1]).assigned(200, "b", &[0]);
    told.measures.begin_anew(Time::from_ms(300));
    told.check(Measure::OwnerlessUs, 400, 100, "300 since before");
    told.check(Measure::OwnersChanged, 400, 0, "");
    told.at(500, Event::TopicDeleted { topic: Topic::new("orders") });
    told.check(Measure::OwnerlessUs, 900, 200, "300 since before");
}

#[test]
fn a_partition_is_leaderless_until_another_broker_acts_as_its_leader() {
    let mut told = Told::default();
    let leads = |broker, epoch| Event::BecameLeader {
        broker: BrokerId(broker),
        tp: tp(0),
        topic_id: TopicId::default(),
        leader_epoch: LeaderEpoch(epoch),
        start_offset: Offset(0),
        open_below: Vec::new(),
    };
    let act = |broker, act| Event::Process {
        node: NodeId::Broker(BrokerId(broker)),
        name: ClientName::new("x"),
        act,
    };
    told.at(0, leads(1, 0)).at(100, act(1, Act::Frozen));
    told.check(Measure::LeaderlessUs, 200, 100, "100 orders-0, led by broker 1 before");
    told.at(200, act(1, Act::Thawed)).at(300, act(1, Act::Killed)).at(400, act(1, Act::Started));
    told.check(Measure::LeaderlessUs, 500, 300, "100 orders-0, led by broker 1 before");
    told.at(500, leads(2, 1));
    told.check(Measure::LeaderlessUs, 900, 300, "100 orders-0, led by broker 1 before");
    told.check(Measure::LeadersChanged, 900, 1, "500 orders-0, from broker 1 to broker 2");
    // R-REPL-13: a led partition with too few in-sync replicas refuses acks=all.
    let isr = |isr: &[i32]| Event::IsrExpanded {
        tp: tp(0),
        added: Vec::new(),
        isr: isr.iter().map(|id| BrokerId(*id)).collect(),
        partition_epoch: PartitionEpoch(1),
    };
    told.at(600, isr(&[2])).at(750, isr(&[2, 1]));
    told.check(Measure::UnderMinIsrUs, 900, 150, "600 orders-0, 1 in sync of 2 demanded");
}

/// The default cluster, one broker of which is killed: its partitions are led by nobody until the controller has fenced it,
/// 9 s after its last heartbeat, and then have two in-sync replicas, which is enough.
#[test]
fn the_default_cluster_loses_a_broker() {
    let text = include_str!("../../../static/scenarios/default.toml");
    let mut session = Session::open(text, Options::default()).expect("the scenario is right");
    session.run(Time::from_ms(13_000), u64::MAX, StopsAt::Nothing);
    session.measure_anew();
    let read = |session: &Session, measure| session.measures().read(measure, session.now());
    assert_eq!(read(&session, Measure::LeaderlessUs), Reading::default());
    session.command("kill broker 3").expect("it runs");
    session.run(Time::from_ms(30_000), u64::MAX, StopsAt::Nothing);
    let led = read(&session, Measure::LeadersChanged).value;
    let leaderless_ms = read(&session, Measure::LeaderlessUs).value / 1000;
    assert!(led > 0 && (led * 6_500..led * 9_700).contains(&leaderless_ms), "{led} led, {leaderless_ms} ms");
    assert_eq!(read(&session, Measure::UnderMinIsrUs), Reading::default());
    session.command("kill broker 2").expect("it runs");
    session.run(Time::from_ms(45_000), u64::MAX, StopsAt::Nothing);
    assert!(read(&session, Measure::UnderMinIsrUs).value > 3 * 4_000_000, "one in-sync replica is too few");
}
