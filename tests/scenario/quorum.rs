//! The controllers' quorum: elections, the commit point, and what goes on without a majority (R-CTRL-2 to 10, EX-32).

use glassbroker::kafka::event::{ChangeReason, Event};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::raft::QuorumRole;
use glassbroker::kafka::types::{BrokerId, ControllerId, LeaderEpoch, NodeId, Offset, Topic};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster_with, config, controller, ids, quorum, tp};
use glassbroker::swarm::watch::unrest_of_quorum;

fn role(c: &Cluster, id: i32) -> QuorumRole {
    c.world.controller(ControllerId(id)).expect("it runs").raft().role()
}

fn epoch(c: &Cluster) -> i32 {
    c.world.active_controller().and_then(|controller| controller.active_epoch()).expect("one is active").0
}

/// The other controllers of three.
fn others(leader: i32) -> [i32; 2] {
    match leader {
        101 => [102, 103],
        102 => [101, 103],
        _ => [101, 102],
    }
}

fn create(name: &str) -> Command {
    let topic = Topic::new(name);
    Command::CreateTopic { topic, partitions: 1, replication_factor: 3, config: config(&[]) }
}

fn has_topic(c: &Cluster, name: &str) -> bool {
    let image = c.world.active_controller().map(|controller| controller.image());
    image.is_some_and(|image| image.topic(&Topic::new(name)).is_some())
}

fn until_elected(c: &mut Cluster, limit_ms: i64) -> i64 {
    let elected = c.until_event("another controller is elected", limit_ms, |event| {
        matches!(event, Event::QuorumLeaderElected { .. })
    });
    c.until("it is active", 1_000, |c| c.active().is_some());
    elected
}

/// R-CTRL-13.
#[test]
fn the_active_controller_writes_a_no_op_record_twice_a_second() {
    let end = |c: &Cluster, id: i32| {
        c.world.controller(ControllerId(id)).map_or(Offset::ZERO, |it| it.image().next_offset)
    };
    let written = |pairs: &[(&str, &str)]| {
        let mut c = quorum(3, pairs);
        c.run_ms(1_000);
        let (leader, events) = (c.leader(), c.events().count());
        let (before, image) = (end(&c, leader), c.world.newest_image().expect("an image").records());
        c.run_ms(10_000);
        assert_eq!(c.world.newest_image().expect("an image").records(), image, "they say nothing");
        let told = c.events().skip(events).filter(|event| !matches!(event, Event::Process { .. }));
        assert_eq!(told.count(), 0, "and nothing is told of them\n{}", c.report());
        end(&c, leader) - before
    };
    assert_eq!(written(&[]), 20, "metadata.max.idle.interval.ms");
    assert_eq!(written(&[("metadata.max.idle.interval.ms", "2000")]), 5);
    assert_eq!(written(&[("metadata.max.idle.interval.ms", "0")]), 0);
}

/// R-CTRL-13: a controller that takes over goes on with them, and who lost the lead does not.
#[test]
fn only_the_active_controller_writes_no_op_records() {
    let mut c = quorum(3, &[]);
    c.kill_controller(c.leader());
    until_elected(&mut c, 10_000);
    let before = c.world.newest_image().expect("an image").next_offset;
    c.run_ms(10_000);
    let written = c.world.newest_image().expect("an image").next_offset - before;
    assert!((19..=24).contains(&written), "{written}: no-op records and one dead broker's at most");
}

fn check_at_rest(c: &Cluster) {
    assert_eq!(unrest_of_quorum(&c.world), None, "{}", c.report());
}

fn check_election(controllers: i32) {
    let mut c = quorum(controllers, &[]);
    c.run_ms(1_000);
    let elected = c.time_of("an election", |event| matches!(event, Event::QuorumLeaderElected { .. }));
    // R-CTRL-3: nobody stands before its election timeout is over, the first within twice that.
    let expected = if controllers == 1 { 0..=0 } else { 1_000..=2_100 };
    assert!(expected.contains(&elected), "{controllers}: {elected} ms");
    let votes = c.events().find_map(|event| match event {
        Event::QuorumLeaderElected { votes, epoch: LeaderEpoch(1), .. } => Some(votes.len() as i32),
        _ => None,
    });
    assert!(votes >= Some(controllers / 2 + 1), "R-CTRL-4: a majority: {votes:?}");
    check_at_rest(&c);
}

#[test]
fn one_three_or_five_controllers_elect_one_of_them_r_ctrl_3_4() {
    [1, 3, 5].into_iter().for_each(check_election);
}

#[test]
fn the_death_of_the_active_controller_is_over_in_seconds_r_ctrl_3() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    let (dead, before) = (c.leader(), epoch(&c));
    c.kill_controller(dead);
    let (killed, elected) = (c.now_ms(), until_elected(&mut c, 5_000));
    // The fetch timeout, shortened by what has passed since the last answer, and rounds of pre-votes and votes; if both
    // stand at once, as Kafka's recording has it too (15_quorum: epoch 1, then 3), one election timeout more.
    assert!((1_400..=4_200).contains(&(elected - killed)), "{} ms", elected - killed);
    assert!(epoch(&c) > before && c.leader() != dead);
    c.give(create("after"));
    c.run_ms(1_000);
    assert!(has_topic(&c, "after"), "{}", c.report());
    c.start_controller(dead);
    c.run_ms(3_000);
    assert_eq!(role(&c, dead), QuorumRole::Follower, "R-CTRL-2: it follows the one that leads");
    check_at_rest(&c);
}

#[test]
fn the_first_election_waits_for_one_to_two_election_timeouts_r_ctrl_3() {
    for timeout_ms in [300, 1_000, 3_000] {
        let timeout = timeout_ms.to_string();
        let c = quorum(3, &[("controller.quorum.election.timeout.ms", &timeout)]);
        let elected = c.time_of("an election", |event| matches!(event, Event::QuorumLeaderElected { .. }));
        assert!((timeout_ms..=2 * timeout_ms + 100).contains(&elected), "{timeout_ms}: {elected} ms");
    }
}

#[test]
fn a_follower_stands_when_it_has_heard_nothing_for_the_fetch_timeout_r_ctrl_3() {
    for timeout_ms in [1_000, 5_000, 8_000] {
        let timeout = timeout_ms.to_string();
        let mut c = quorum(3, &[("controller.quorum.fetch.timeout.ms", &timeout)]);
        c.run_ms(1_000);
        let dead = c.leader();
        c.kill_controller(dead);
        let killed = c.now_ms();
        // Its last answer may be as old as a fetch waits.
        c.run_ms(timeout_ms - 600);
        let roles = others(dead).map(|id| role(&c, id));
        assert_eq!(roles, [QuorumRole::Follower; 2], "{timeout_ms}: too early");
        let elected = until_elected(&mut c, 20_000) - killed;
        assert!(elected <= timeout_ms + 2_200, "{timeout_ms}: {elected} ms");
    }
}

/// A broker that the controllers do not reach goes on with what it knows, while others know better.
#[test]
fn two_brokers_may_disagree_about_who_leads_r_ctrl_8() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    c.run_ms(1_000);
    let seen = |c: &Cluster, broker: i32| {
        let broker = c.world.broker(BrokerId(broker)).expect("it runs");
        let partition = broker.image().partition(&tp("t-0")).expect("it is known");
        (partition.leader.0, partition.leader_epoch.0)
    };
    assert_eq!([seen(&c, 2), seen(&c, 3)], [(1, 0), (1, 0)]);
    let links = |c: &mut Cluster, link: fn(Target, Target) -> Command| {
        (101..=103).for_each(|id| c.give(link(Target::Broker(BrokerId(3)), controller(id))));
    };
    links(&mut c, |a, b| Command::Cut { a, b });
    c.give(Command::Stop(BrokerId(1)));
    c.until("broker 2 knows that it leads", 5_000, |c| seen(c, 2).0 == 2);
    assert_eq!(seen(&c, 3), (1, 0), "broker 3 knows of the old leader only");
    links(&mut c, |a, b| Command::Heal { a, b });
    c.until("they agree", 20_000, |c| seen(c, 2) == seen(c, 3));
}

#[test]
fn a_follower_that_was_cut_off_disturbs_nobody_when_it_returns_r_ctrl_2_4() {
    let mut c = quorum(3, &[]);
    let (leader, before) = (c.leader(), epoch(&c));
    let [away, _] = others(leader);
    c.isolate(away, true);
    c.run_ms(20_000);
    assert_eq!(epoch(&c), before);
    let raft = c.world.controller(ControllerId(away)).expect("it runs").raft();
    assert_eq!(raft.epoch().0, before, "KIP-996: a pre-vote raises no epoch");
    c.isolate(away, false);
    c.run_ms(5_000);
    assert_eq!((c.leader(), epoch(&c), role(&c, away)), (leader, before, QuorumRole::Follower));
    check_at_rest(&c);
}

#[test]
fn a_leader_that_hears_no_majority_resigns_after_three_seconds_r_ctrl_6() {
    let mut c = quorum(3, &[]);
    let leader = c.leader();
    for other in others(leader) {
        c.kill_controller(other);
    }
    let killed = c.now_ms();
    let resigned = c.until_event("it resigns", 5_000, |event| {
        matches!(event, Event::QuorumLeaderResigned { silent_ms: Some(3_000), .. })
    });
    assert!((2_400..=3_000).contains(&(resigned - killed)), "{} ms", resigned - killed);
    assert_eq!(c.active(), None);
    // It does not lead the same epoch again.
    c.run_ms(5_000);
    assert_eq!(c.active(), None);
    let [other, _] = others(leader);
    c.start_controller(other);
    until_elected(&mut c, 10_000);
}

#[test]
fn what_no_majority_has_is_never_seen_and_goes_when_the_quorum_is_whole_r_ctrl_5_7() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    let old = c.leader();
    let image = c.world.active_controller().expect("active").image().clone();
    // The active controller still hears the brokers, and no other controller.
    for other in others(old) {
        c.give(Command::Cut { a: controller(old), b: controller(other) });
    }
    let end = |c: &Cluster| c.world.controller(ControllerId(old)).expect("it runs").raft().log().end_offset();
    let before = end(&c);
    c.give(create("lost"));
    c.run_ms(500);
    let written = end(&c);
    assert!(written > before, "it appends at once");
    let isolated = c.world.controller(ControllerId(old)).expect("it runs");
    assert_eq!(isolated.image().next_offset, image.next_offset, "and applies nothing as committed");
    for broker in 1..=3 {
        let broker = c.world.broker(BrokerId(broker)).expect("it runs");
        assert!(
            broker.raft().log().end_offset() >= written,
            "R-CTRL-1: observers fetch what is not committed"
        );
        assert!(broker.image().topic(&Topic::new("lost")).is_none(), "R-CTRL-8: and apply what is");
    }
    c.until("another one leads and the old one has resigned", 10_000, |c| {
        c.active().is_some_and(|id| id != old) && role(c, old) != QuorumRole::Leader
    });
    for other in others(old) {
        c.give(Command::Heal { a: controller(old), b: controller(other) });
    }
    c.until("the old leader cuts its log", 10_000, |c| {
        c.events().any(|event| {
            matches!(event, Event::MetadataTruncated { node: NodeId::Controller(id), .. } if id.0 == old)
        })
    });
    c.run_ms(5_000);
    check_at_rest(&c);
    // The broker that forwarded the request asked the next controller when the first refused (R-CTRL-7).
    assert!(has_topic(&c, "lost"), "{}", c.report());
    let created = c
        .events()
        .filter(|event| matches!(event, Event::TopicCreated { topic, .. } if topic.as_str() == "lost"));
    assert_eq!(created.count(), 1, "told once, when it is committed");
}

#[test]
fn a_decision_that_a_majority_has_outlives_its_controller_r_ctrl_5_8() {
    // The decision is all that is written.
    let mut c = quorum(3, &[("metadata.max.idle.interval.ms", "0")]).topic("t", 1, 3, &[]);
    c.run_ms(1_000);
    let old = c.leader();
    let end = |c: &Cluster, id: i32| {
        c.world.controller(ControllerId(id)).map(|controller| controller.raft().log().end_offset())
    };
    c.kill(1);
    let before = end(&c, old);
    c.until("broker 1 is fenced in the active controller's log", 11_000, |c| end(c, old) > before);
    let written = end(&c, old);
    c.until("another controller has the record", 100, |c| {
        others(old).iter().any(|id| end(c, *id) == written)
    });
    assert!(c.is_in_service(1), "R-CTRL-7: it is not committed");
    c.kill_controller(old);
    until_elected(&mut c, 10_000);
    c.run_ms(1_000);
    assert!(!c.is_in_service(1) && c.registration("t-0").starts_with("2 e1"), "{}", c.report());
    let told = |event: &&Event| match event {
        Event::LeaderElected { reason, tp: p, .. } => {
            *reason == ChangeReason::EarlierController && *p == tp("t-0")
        }
        _ => false,
    };
    assert_eq!(c.events().filter(told).count(), 1, "its successor tells it");
}

#[test]
fn a_new_active_controller_gives_every_broker_a_full_session_r_ctrl_10() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    let old = c.leader();
    c.kill(3);
    c.run_ms(5_000);
    c.kill_controller(old);
    let elected = until_elected(&mut c, 5_000);
    let fenced = c.until_event("broker 3 is fenced", 15_000, |event| {
        matches!(event, Event::BrokerFenced { broker: BrokerId(3), .. })
    });
    assert!((9_000..=10_200).contains(&(fenced - elected)), "{} ms after the election", fenced - elected);
}

#[test]
fn heartbeats_move_to_the_new_active_controller_in_time() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    let old = c.leader();
    c.kill_controller(old);
    c.run_ms(60_000);
    assert!(!c.events().any(|event| matches!(event, Event::BrokerFenced { .. })), "{}", c.report());
    c.start_controller(old);
    let next = c.leader();
    c.give(Command::Freeze(controller(next)));
    c.run_ms(60_000);
    // A request to the frozen one is given up after broker.session.timeout.ms.
    assert!((1..=3).all(|id| c.is_in_service(id)), "{}", c.report());
    c.give(Command::Thaw(controller(next)));
    c.run_ms(5_000);
    check_at_rest(&c);
}

/// EX-32: two of three controllers die; then broker 3, which follows in every partition.
fn without_quorum() -> Cluster {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    c.producer("all", "t", "100/s", &[]);
    c.producer("one", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.send("all", 5);
    c.run_ms(2_000);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2,3]");
    let leader = c.leader();
    c.kill_controller(leader);
    c.kill_controller(others(leader)[0]);
    c.run_ms(10_000);
    assert_eq!(c.active(), None);
    c
}

/// R-REPL-12.
#[test]
fn ex_32_without_a_quorum_data_flows_and_nothing_can_change() {
    let mut c = without_quorum();
    c.send("all", 5);
    c.run_ms(1_000);
    assert_eq!(c.producer_state("all").counts().acknowledged, 10, "R-CTRL-9: the data plane goes on");
    c.give(create("impossible"));
    c.kill(3);
    let died = c.now_ms();
    c.send("all", 1);
    c.until_event("acks=all times out", 40_000, |event| {
        matches!(event, Event::BatchRetried { error: ErrorCode::RequestTimedOut, .. })
    });
    c.send("one", 1);
    c.run_ms(1_000);
    assert_eq!(c.producer_state("one").counts().acknowledged, 1, "acks=1 is accepted");
    let high_watermark = |c: &Cluster| c.partition(1, "t-0").expect("leader").log.high_watermark();
    assert_eq!(high_watermark(&c), Offset(10), "R-REPL-22: and unseen, the high watermark is frozen");
    c.until("60 s", 60_000, |c| c.now_ms() >= died + 60_000);
    let proposed = |event: &Event| matches!(event, Event::IsrChangeProposed { tp: p, isr, .. } if *p == tp("t-0") && *isr == ids(&[1, 2]));
    assert!(c.events().any(proposed), "the leader wants ISR {{1, 2}}");
    assert!(!c.events().any(|event| matches!(event, Event::IsrShrunk { .. } | Event::BrokerFenced { .. })));
    let refused = c.events().find_map(|event| match event {
        Event::CommandRefused { error, .. } => Some(*error),
        _ => None,
    });
    assert_eq!(refused, Some(ErrorCode::RequestTimedOut), "no topic can be created");
    let dead = [101, 102, 103].into_iter().find(|id| c.world.controller(ControllerId(*id)).is_none());
    c.start_controller(dead.expect("two are dead"));
    let elected = until_elected(&mut c, 10_000);
    c.until("ISR {1, 2} is committed", 2_000, |c| {
        c.active().is_some() && c.registration("t-0") == "1 e0 isr[1,2]"
    });
    c.until("pending data is visible", 1_000, |c| high_watermark(c) >= Offset(12));
    assert!(c.now_ms() - elected < 3_000);
    assert!(!has_topic(&c, "impossible"), "nobody waits for it any more");
}

#[test]
fn a_leader_that_dies_without_a_quorum_leaves_its_partitions_down_a72() {
    let mut c = without_quorum();
    c.kill(1);
    c.run_ms(60_000);
    assert!(!c.events().any(|event| matches!(event, Event::LeaderElected { .. })), "R-CTRL-9: no election");
    let registered = c.world.broker(BrokerId(2)).expect("it runs").image().partition(&tp("t-0")).cloned();
    assert_eq!(registered.expect("known").leader, BrokerId(1));
    for id in 101..=103 {
        if c.world.controller(ControllerId(id)).is_none() {
            c.start_controller(id);
        }
    }
    let elected = until_elected(&mut c, 10_000);
    let led = c.until_event("t-0 has a leader again", 15_000, |event| {
        matches!(event, Event::LeaderElected { tp: p, to, .. } if *p == tp("t-0") && *to != BrokerId(1))
    });
    assert!((9_000..=10_300).contains(&(led - elected)), "R-CTRL-10: {} ms", led - elected);
}

#[test]
fn a_quorum_of_five_outlives_two_of_them_r_ctrl_11() {
    let mut c = quorum(5, &[]);
    for _ in 0..2 {
        let leader = c.leader();
        c.kill_controller(leader);
        until_elected(&mut c, 10_000);
        c.run_ms(1_000);
    }
    c.give(create("with-three"));
    c.run_ms(2_000);
    assert!(has_topic(&c, "with-three"), "{}", c.report());
    let leader = c.leader();
    c.kill_controller(leader);
    c.run_ms(20_000);
    assert_eq!(c.active(), None, "two of five are no majority");
}

#[test]
fn a_restarted_quorum_finds_all_that_was_committed() {
    let mut c = quorum(3, &[]).topic("t", 2, 3, &[("min.insync.replicas", "2")]);
    c.run_ms(2_000);
    let before = c.world.active_controller().expect("active").image().clone();
    let epoch_before = epoch(&c);
    (101..=103).for_each(|id| c.kill_controller(id));
    c.run_ms(3_000);
    (101..=103).for_each(|id| c.start_controller(id));
    until_elected(&mut c, 10_000);
    c.run_ms(2_000);
    let after = c.world.active_controller().expect("active").image();
    assert!(after.topics().eq(before.topics()) && epoch(&c) > epoch_before);
    check_at_rest(&c);
    let registered = c.events().filter(|event| matches!(event, Event::BrokerRegistered { .. }));
    assert_eq!(registered.count(), 3, "what was told before is not told again");
}

#[test]
fn a_broker_that_starts_finds_the_leader_through_any_controller() {
    let mut c = quorum(3, &[]);
    c.give(Command::AddBroker { broker: BrokerId(4), rack: None });
    c.until("broker 4 is in service", 2_000, |c| c.is_in_service(4));
}

#[test]
fn the_same_seed_elects_the_same_controller() {
    let run = |seed| {
        let controllers = (101..=103).map(ControllerId).collect();
        let mut c = cluster_with(3, WorldConfig { seed, controllers, ..WorldConfig::default() });
        c.run_ms(20_000);
        let leader = c.leader();
        c.kill_controller(leader);
        c.run_ms(20_000);
        (c.world.digest(), leader, c.leader())
    };
    assert_eq!(run(5), run(5));
    let leaders: std::collections::BTreeSet<i32> = (0..12).map(|seed| run(seed).1).collect();
    assert_eq!(leaders.len(), 3, "R-CTRL-3: the election timeout is drawn from the seed: {leaders:?}");
}

/// R-CTRL-2.
#[test]
fn a_controller_that_stops_in_order_gives_its_place_away_at_once() {
    for controllers in [3, 5] {
        let mut c = quorum(controllers, &[]);
        let leader = c.leader();
        let stopped = c.now_ms();
        c.give(Command::StopController(ControllerId(leader)));
        c.until("another leads", 1_000, |c| c.active().is_some_and(|id| id != leader));
        c.until("its process is gone", 1_000, |c| c.world.controller(ControllerId(leader)).is_none());
        assert!(c.now_ms() - stopped < 500, "nobody had to miss it: {} ms", c.now_ms() - stopped);
        let follower =
            (101..101 + controllers).find(|id| ![leader, c.leader()].contains(id)).expect("another");
        c.run_ms(3_000);
        c.give(Command::StopController(ControllerId(follower)));
        c.run_ms(1);
        assert!(c.world.controller(ControllerId(follower)).is_none(), "nobody needs a follower's leave");
        c.start_controller(leader);
        c.start_controller(follower);
        c.run_ms(3_000);
        assert!(c.active().is_some(), "{}", c.report());
    }
}

/// R-CTRL-2.
#[test]
fn a_controller_without_a_successor_stops_all_the_same() {
    let mut c = quorum(1, &[]);
    c.give(Command::StopController(ControllerId(101)));
    assert!(c.world.controller(ControllerId(101)).is_none(), "nobody else could lead");
    let mut c = quorum(3, &[]);
    let leader = c.leader();
    others(leader).into_iter().for_each(|other| c.kill_controller(other));
    let stopped = c.now_ms();
    c.give(Command::StopController(ControllerId(leader)));
    c.until("its process is gone", 10_000, |c| c.world.controller(ControllerId(leader)).is_none());
    assert_eq!(c.now_ms() - stopped, 5_000);
}
