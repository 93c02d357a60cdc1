//! What a power failure takes: the page cache. Why replication, and not the disk, protects what was acknowledged; and
//! what becomes of a replica whose disk is empty.

use glassbroker::kafka::event::{Act, ChangeReason, Event};
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config, controller, quorum, tp};

fn broker(id: i32) -> Target {
    Target::Broker(BrokerId(id))
}

fn cut_power(c: &mut Cluster, ids: &[i32]) {
    ids.iter().for_each(|id| c.give(Command::CutPower(broker(*id))));
}

fn start(c: &mut Cluster, ids: &[i32]) {
    ids.iter().for_each(|id| c.start(*id));
}

/// Fifty records, acknowledged by all three replicas of t-0.
fn fifty(pairs: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[&[("min.insync.replicas", "2")], pairs].concat());
    c.producer("p", "t", "100/s", &[("acks", "all")]);
    c.send("p", 50);
    c.until("all are acknowledged", 5_000, |c| c.producer_state("p").counts().acknowledged == 50);
    c.run_ms(1_000);
    assert_eq!(c.replicas("t-0"), "1:50/50 2:50/50 3:50/50");
    c
}

fn ends(c: &Cluster) -> Vec<i64> {
    let end = |id| c.partition(id, "t-0").map_or(-1, |partition| partition.log.log_end_offset().0);
    vec![end(1), end(2), end(3)]
}

/// What brokers lost with their page cache: broker, partitions, offsets.
fn lost(c: &Cluster) -> Vec<(i32, i32, i64)> {
    let lost = |event: &Event| match event {
        Event::UnflushedLost { broker, ends, offsets } => Some((broker.0, ends.len() as i32, *offsets)),
        _ => None,
    };
    c.events().filter_map(lost).collect()
}

#[test]
fn the_power_of_one_replica_fails_and_nothing_that_was_acknowledged_is_lost() {
    let mut c = fifty(&[]);
    cut_power(&mut c, &[1]);
    assert_eq!(lost(&c), [(1, 1, 50)], "acknowledged, replicated, and not on its disk");
    c.until("another leads", 20_000, |c| !c.registration("t-0").starts_with("1 "));
    start(&mut c, &[1]);
    c.until("all are in sync", 30_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    c.run_ms(1_000);
    assert_eq!(c.replicas("t-0"), "1:50/50 2:50/50 3:50/50", "it was copied again");
}

#[test]
fn the_power_of_all_replicas_fails_at_once_and_acknowledged_records_are_gone() {
    let mut c = fifty(&[]);
    cut_power(&mut c, &[1, 2, 3]);
    assert_eq!(lost(&c), [(1, 1, 50), (2, 1, 50), (3, 1, 50)]);
    c.until("nobody leads", 20_000, |c| c.registration("t-0").starts_with("-1 "));
    start(&mut c, &[1, 2, 3]);
    c.until("somebody leads", 60_000, |c| !c.registration("t-0").starts_with("-1 "));
    c.run_ms(30_000);
    assert_eq!(ends(&c), [0, 0, 0], "replication, not fsync, protects: R-LOG-14, M-53");
    let unclean = c.events().any(|event| matches!(event, Event::LeaderElected { unclean: true, .. }));
    assert!(unclean, "R-REPL-46, R-REPL-56: none of them is trusted, and the last leader leads");
}

#[test]
fn a_scenario_cuts_the_power_of_several_brokers_in_the_same_moment_and_the_page_shows_what_is_left() {
    use glassbroker::kafka::time::Time;
    use glassbroker::lab::session::{Options, Session};
    use glassbroker::view::build;

    let file = include_str!("../../static/scenarios/default.toml");
    let acts =
        ["cut power of broker 1", "cut power of broker 2", "cut power of broker 3", "wipe disk of broker 3"];
    let at: String = acts.map(|act| format!("\n[[at]]\ntime = \"20s\"\ndo = \"{act}\"\n")).concat();
    let options = Options { seed: Some(3), strict: true };
    let mut session = Session::open(&format!("{file}{at}"), options).expect("a scenario");
    session.run_until(Time::from_ms(21_000), u64::MAX);
    let cut = session
        .world()
        .trace()
        .entries()
        .filter(|entry| matches!(&entry.event, Event::Process { act: Act::PowerCut, .. }));
    let times: Vec<i64> = cut.map(|entry| entry.key.time.us()).collect();
    assert_eq!(times, [20_000_000; 3]);
    let model = build::model(&session, None, None);
    assert_eq!(model.brokers.len(), 3);
    for command in ["start broker 1", "start broker 2", "start broker 3", "delete records of orders-0"] {
        session.command(command).expect(command);
    }
    session.run_until(Time::from_ms(120_000), u64::MAX);
    let model = build::model(&session, None, Some(&model));
    assert_eq!(model.brokers.len(), 3);
    let told = |part: &str| session.narrative().iter().any(|(_, sentence)| sentence.title.contains(part));
    assert!(told("has no power") && told("that were not flushed") && told("did not stop in order"));
}

#[test]
fn with_flush_messages_1_the_power_of_all_replicas_may_fail() {
    let mut c = fifty(&[("flush.messages", "1")]);
    cut_power(&mut c, &[1, 2, 3]);
    assert_eq!(lost(&c), []);
    c.until("nobody leads", 20_000, |c| c.registration("t-0").starts_with("-1 "));
    start(&mut c, &[1, 2, 3]);
    c.until("all are in sync", 90_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    assert_eq!(ends(&c), [50, 50, 50]);
}

#[test]
fn killing_all_replicas_at_once_loses_nothing_for_the_page_cache_outlives_a_process() {
    let mut c = fifty(&[]);
    [1, 2, 3].into_iter().for_each(|id| c.kill(id));
    c.until("nobody leads", 20_000, |c| c.registration("t-0").starts_with("-1 "));
    start(&mut c, &[1, 2, 3]);
    c.until("all are in sync", 90_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    assert_eq!(ends(&c), [50, 50, 50]);
    let recovered =
        c.events().filter(|event| matches!(event, Event::LogsRecovered { logs: 1, segments: 1, .. }));
    assert_eq!(recovered.count(), 3, "each log is read again from its recovery point");
}

#[test]
fn what_a_killed_broker_left_in_the_page_cache_goes_with_the_power_after_all() {
    let mut c = fifty(&[]);
    c.kill(3);
    c.run_ms(100);
    cut_power(&mut c, &[3]);
    assert_eq!(lost(&c), [(3, 1, 50)]);
    let refusal = c.try_give(Command::CutPower(broker(3))).expect_err("it has none");
    assert_eq!(refusal.reason, "broker 3 has no power already");
    let refusal = c.try_give(Command::CutPower(Target::Client("p".into()))).expect_err("a client");
    assert_eq!(refusal.reason, "p is a client: it has no disk, and its crash is enough");
}

#[test]
fn a_broker_that_stopped_in_order_has_everything_on_its_disk() {
    let mut c = fifty(&[]);
    c.give(Command::Stop(BrokerId(1)));
    c.until("its process is gone", 10_000, |c| c.world.broker(BrokerId(1)).is_none());
    cut_power(&mut c, &[1]);
    assert_eq!(lost(&c), []);
    start(&mut c, &[1]);
    c.until("it is in sync", 20_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    let recovered = c.events().any(|event| matches!(event, Event::LogsRecovered { .. }));
    assert!(!recovered, "the clean-shutdown file says that nothing is to be read again");
}

#[test]
fn nobody_is_told_of_a_power_failure_and_a_machine_that_is_on_again_resets_what_others_held() {
    let lost_after = |act: fn(Target) -> Command| {
        let mut c = fifty(&[]);
        c.send("p", 1);
        c.give(act(broker(1)));
        let at = c.now_ms();
        let told = |event: &Event| match event {
            Event::ConnectionLost { client, .. } | Event::RequestTimedOut { client, .. } => {
                client.as_str() == "p"
            }
            _ => false,
        };
        (c.until_event("the producer gives up its connection", 60_000, told) - at, c)
    };
    let (killed_ms, _) = lost_after(Command::Kill);
    assert!(killed_ms < 100, "R-PROD-16: a dead process's kernel closes its connections: {killed_ms} ms");
    let (silent_ms, mut c) = lost_after(Command::CutPower);
    assert!(silent_ms > 5_000, "R-PROD-16: the request has to time out: {silent_ms} ms");
    start(&mut c, &[1]);
    c.until("all are in sync", 60_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
}

#[test]
fn the_flusher_comes_once_unless_it_is_told_how_often() {
    let flushed = |broker_config: &[(&str, &str)]| {
        let broker_config = config(broker_config);
        let mut c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic(
            "t",
            1,
            3,
            &[("flush.ms", "1000")],
        );
        c.producer("p", "t", "100/s", &[("acks", "all")]);
        c.send("p", 10);
        c.run_ms(32_000 - c.now_ms());
        let at_first = c.partition(1, "t-0").expect("a replica").log.flushed();
        c.send("p", 10);
        c.run_ms(60_000);
        (at_first, c.partition(1, "t-0").expect("a replica").log.flushed())
    };
    assert_eq!(flushed(&[]), (Offset(10), Offset(10)), "log.flush.scheduler.interval.ms is for ever");
    assert_eq!(flushed(&[("log.flush.scheduler.interval.ms", "500")]), (Offset(10), Offset(20)));
}

#[test]
fn a_log_start_that_was_not_noted_yet_goes_back_when_the_only_replica_is_killed() {
    let mut c = cluster(3).topic("one", 1, 1, &[]);
    c.producer("p", "one", "100/s", &[("acks", "all")]);
    c.send("p", 10);
    c.run_ms(1_000);
    let home = c.registration("one-0")[..1].parse().expect("a leader");
    let restart = |c: &mut Cluster| {
        c.kill(home);
        c.run_ms(100);
        c.start(home);
        c.run_ms(30_000);
        c.partition(home, "one-0").expect("a replica").log.log_start_offset()
    };
    let delete = |c: &mut Cluster, before| {
        c.give(Command::DeleteRecords { partition: tp("one-0"), before: Some(before) });
        c.run_ms(500);
        assert_eq!(c.partition(home, "one-0").expect("a replica").log.log_start_offset(), Offset(before));
    };
    delete(&mut c, 4);
    assert_eq!(restart(&mut c), Offset(0), "log-start-offset-checkpoint is written once a minute");
    delete(&mut c, 4);
    c.run_ms(90_000);
    assert_eq!(restart(&mut c), Offset(4));
}

#[test]
fn controllers_have_on_their_disks_what_they_count_on_and_a_broker_reads_the_metadata_log_again() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    for id in 101..=103 {
        c.give(Command::CutPower(controller(id)));
    }
    c.give(Command::CutPower(broker(2)));
    c.run_ms(5_000);
    for id in 101..=103 {
        c.start_controller(id);
    }
    c.start(2);
    let read = |c: &Cluster| c.world.broker(BrokerId(2)).expect("it runs").raft().log().end_offset();
    assert_eq!(read(&c), Offset(0), "KafkaRaftClient: an observer does not flush");
    c.until("a controller is active", 20_000, |c| c.active().is_some());
    assert!(!c.registration("t-0").is_empty(), "R-CTRL-5: what was committed is there");
    c.until("broker 2 has read it", 30_000, |c| read(c) > Offset(0) && c.is_in_service(2));
}

#[test]
fn a_replica_with_a_wiped_disk_starts_from_nothing_and_is_in_sync_when_it_has_everything() {
    let mut c = fifty(&[]);
    let refusal = c.try_give(Command::WipeDisk(BrokerId(3))).expect_err("it runs");
    assert_eq!(refusal.reason, "broker 3 is running: a disk can be wiped while its broker is down");
    c.kill(3);
    c.until("broker 3 is out", 15_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.give(Command::WipeDisk(BrokerId(3)));
    c.cut(1, 3);
    c.start(3);
    c.run_ms(20_000);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]", "R-REPL-23: it has nothing of what is committed");
    assert_eq!(ends(&c), [50, 50, 0]);
    c.heal(1, 3);
    c.until("it is in sync", 30_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    assert_eq!(ends(&c), [50, 50, 50]);
}

#[test]
fn the_disk_of_the_last_replica_in_sync_is_wiped_and_the_data_is_lost() {
    let mut c = fifty(&[("min.insync.replicas", "1")]);
    c.kill(2);
    c.kill(3);
    c.until("broker 1 is in sync alone", 20_000, |c| c.registration("t-0").ends_with("isr[1]"));
    c.send("p", 10);
    c.until("all are acknowledged", 10_000, |c| c.producer_state("p").counts().acknowledged == 60);
    c.kill(1);
    c.until("nobody leads", 20_000, |c| c.registration("t-0").starts_with("-1 "));
    c.give(Command::WipeDisk(BrokerId(1)));
    start(&mut c, &[1]);
    let reason = c.until_event("it leads again", 60_000, |event| {
        matches!(
            event,
            Event::LeaderElected { to: BrokerId(1), unclean: true, reason: ChangeReason::BrokerUnfenced, .. }
        )
    });
    assert!(reason > 0, "R-REPL-46: it was the last known leader");
    start(&mut c, &[2, 3]);
    c.until("all are in sync", 60_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    assert_eq!(ends(&c), [0, 0, 0], "the others cut what they had to its empty log");
    let wiped = c.events().any(|event| matches!(event, Event::DiskWiped { broker: BrokerId(1) }));
    let cut = c.events().any(|event| matches!(event, Event::Process { act: Act::PowerCut, .. }));
    assert!(wiped && !cut);
}
