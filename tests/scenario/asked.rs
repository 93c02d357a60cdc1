//! What an application calls beside its program in a whole cluster: other topics, partitions of its own choice, commits
//! (R-CONS-8 to R-CONS-10; A30, A45).

use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::Offset;
use glassbroker::lab::command::{Written, parse};
use glassbroker::sim::WorldConfig;

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};

const BOTH_PROTOCOLS: [&str; 2] = ["classic", "consumer"];
const FROM_START: (&str, &str) = ("auto.offset.reset", "earliest");

/// Gives a command by its text.
fn order(c: &mut Cluster, text: &str) {
    match parse(text) {
        Ok(Written::Whole(command)) => c.give(command),
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(c: &mut Cluster, text: &str) -> String {
    match parse(text) {
        Ok(Written::Whole(command)) => c.try_give(command).expect_err("it cannot be").to_string(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Topics `t` and `u` with two partitions each and ten records in each topic.
fn two_topics() -> Cluster {
    let mut c = cluster(3).topic("t", 2, 3, &[]).topic("u", 2, 3, &[]);
    for topic in ["t", "u"] {
        let name = format!("to-{topic}");
        c.producer(&name, topic, "100/s", &[]);
        c.send(&name, 10);
    }
    c.run_ms(1_000);
    c
}

fn owned(c: &Cluster, name: &str) -> String {
    let partitions = c.consumer_state(name).subscription().partitions();
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn committed(c: &Cluster, name: &str) -> Option<Offset> {
    c.consumer_state(name).subscription().owned().get(&tp("t-0"))?.committed
}

#[test]
fn a_member_that_subscribes_to_another_topic_comes_to_own_it_r_grp_20() {
    for protocol in BOTH_PROTOCOLS {
        let mut c = two_topics();
        let config = [("group.protocol", protocol), FROM_START];
        c.consumer("a", "g", &["t"], &["poll", "process 1ms"], &config);
        c.until(protocol, 20_000, |c| owned(c, "a") == "t-0 t-1");
        order(&mut c, "subscribe a to u");
        c.until(protocol, 20_000, |c| owned(c, "a") == "u-0 u-1");
        order(&mut c, "unsubscribe a");
        c.until(protocol, 1_000, |c| owned(c, "a").is_empty());
        c.run_ms(10_000);
        order(&mut c, "subscribe a to t,u");
        c.until(protocol, 20_000, |c| owned(c, "a") == "t-0 t-1 u-0 u-1");
    }
}

#[test]
fn what_a_member_unsubscribes_from_goes_to_who_still_reads_it() {
    for protocol in BOTH_PROTOCOLS {
        let mut c = two_topics();
        for name in ["a", "b"] {
            c.consumer(name, "g", &["t"], &["poll"], &[("group.protocol", protocol), FROM_START]);
        }
        let both = |c: &Cluster| !owned(c, "a").is_empty() && !owned(c, "b").is_empty();
        c.until(protocol, 30_000, both);
        order(&mut c, "unsubscribe a");
        c.until(protocol, 10_000, |c| owned(c, "b") == "t-0 t-1");
    }
}

#[test]
fn a_pause_lasts_until_it_is_resumed_r_cons_8() {
    for protocol in BOTH_PROTOCOLS {
        let mut c = two_topics();
        c.consumer("a", "g", &["t"], &["poll"], &[("group.protocol", protocol), FROM_START]);
        let position =
            |c: &Cluster| c.consumer_state("a").subscription().position(&tp("t-1")).map(|p| p.offset);
        c.until(protocol, 20_000, |c| owned(c, "a") == "t-0 t-1" && position(c).is_some());
        c.run_ms(1_000);
        order(&mut c, "pause a t-0,t-1");
        let before = position(&c);
        c.send("to-t", 10);
        c.run_ms(5_000);
        assert_eq!(position(&c), before);
        order(&mut c, "resume a t-0,t-1");
        let read = |c: &Cluster| {
            let owned = c.consumer_state("a").subscription().owned();
            owned.values().filter_map(|owned| owned.position()).map(|at| at.offset.0).sum::<i64>()
        };
        c.until(protocol, 2_000, |c| read(c) == 20);
        order(&mut c, "seek a t-0 to beginning");
        order(&mut c, "seek a t-1 to 0");
        c.until("both are read again (R-CONS-9)", 2_000, |c| read(c) == 20);
        assert_eq!(refusal(&mut c, "pause a u-0"), "No current assignment for partition u-0");
    }
}

#[test]
fn a45_a_commit_with_assign_is_refused_while_the_group_has_members_and_overwrites_afterwards_r_cons_10() {
    let mut c = two_topics();
    let by_hand = ("enable.auto.commit", "false");
    c.consumer("c1", "g", &["t"], &["poll", "commit"], &[by_hand, FROM_START]);
    c.until("c1 has committed", 20_000, |c| committed(c, "c1").is_some());
    order(&mut c, "add consumer c2 to g partitions t-0 program poll enable.auto.commit=false");
    c.until("c2 begins where c1 has committed", 5_000, |c| {
        committed(c, "c2").is_some() && committed(c, "c2") == committed(c, "c1")
    });
    order(&mut c, "commit c2 t-0=7");
    c.until_event("UNKNOWN_MEMBER_ID(25)", 1_000, |event| {
        matches!(event, Event::CommitFailed { client, error: ErrorCode::UnknownMemberId } if client.as_str() == "c2")
    });
    order(&mut c, "close c1");
    c.run_ms(2_000);
    order(&mut c, "commit c2 t-0=7");
    c.until("the group is empty: the commit counts", 1_000, |c| committed(c, "c2") == Some(Offset(7)));
    c.consumer("c3", "g", &["t"], &["poll", "process 5s"], &[by_hand, FROM_START]);
    c.until_event("and who joins begins there", 20_000, |event| {
        matches!(event, Event::PositionSet { client, tp: at, offset: Offset(7), .. }
            if client.as_str() == "c3" && *at == tp("t-0"))
    });
    let mixed = "Subscription to topics, partitions and pattern are mutually exclusive";
    assert_eq!(refusal(&mut c, "subscribe c2 to t"), mixed);
    assert_eq!(refusal(&mut c, "assign c3 t-0"), mixed);
}

#[test]
fn a30_without_offsets_topic_a_group_waits_and_who_is_in_none_reads() {
    let three = config(&[("offsets.topic.replication.factor", "3")]);
    let mut c = cluster_with(1, WorldConfig { broker_config: three, ..WorldConfig::default() });
    c = c.topic("t", 1, 1, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 5);
    c.run_ms(1_000);
    c.consumer("c1", "g", &["t"], &["poll"], &[FROM_START]);
    order(&mut c, "add consumer c2 without group partitions t-0 program poll auto.offset.reset=earliest");
    c.until_event(
        "c2 reads all",
        5_000,
        |event| matches!(event, Event::Polled { client, to: Offset(5), .. } if client.as_str() == "c2"),
    );
    c.run_ms(60_000);
    assert!(c.consumer_state("c1").membership().coordinator().is_none());
    assert!(owned(&c, "c1").is_empty());
}

#[test]
fn two_that_assign_the_same_overwrite_each_others_commits_r_cons_10() {
    let mut c = two_topics();
    for name in ["x", "y"] {
        order(
            &mut c,
            &format!("add consumer {name} to g partitions t-0 program poll enable.auto.commit=false"),
        );
    }
    c.run_ms(2_000);
    order(&mut c, "commit x t-0=5");
    c.run_ms(100);
    order(&mut c, "commit y t-0=3");
    c.run_ms(100);
    order(&mut c, "add consumer z to g partitions t-0 program poll");
    c.until("the last commit counts", 2_000, |c| committed(c, "z") == Some(Offset(3)));
}

/// Two members share `t`; `a` closes as `text` says. After how long `b` owns both partitions.
fn taken_over_after_ms(protocol: &str, instance: Option<&str>, text: &str) -> i64 {
    let mut c = two_topics();
    let protocol = ("group.protocol", protocol);
    let mut of_a = vec![protocol, FROM_START];
    of_a.extend(instance.map(|id| ("group.instance.id", id)));
    c.consumer("a", "g", &["t"], &["poll"], &of_a);
    c.consumer("b", "g", &["t"], &["poll"], &[protocol, FROM_START]);
    c.until("each owns one", 40_000, |c| !owned(c, "a").is_empty() && !owned(c, "b").is_empty());
    c.run_ms(5_000);
    let closed = c.now_ms();
    order(&mut c, text);
    c.until(text, 60_000, |c| owned(c, "b") == "t-0 t-1");
    c.now_ms() - closed
}

#[test]
fn close_leaves_or_remains_as_it_is_told_r_cons_27() {
    for protocol in BOTH_PROTOCOLS {
        let check = |instance, text, at_once| {
            let ms = taken_over_after_ms(protocol, instance, text);
            let expected = if at_once { 0..=11_000 } else { 30_000..=50_000 };
            assert!(expected.contains(&ms), "{protocol} {instance:?} {text}: {ms} ms");
        };
        check(None, "close a", true);
        check(None, "close a remaining in group", false);
        check(Some("i1"), "close a", false);
        check(Some("i1"), "close a leaving group", true);
        check(Some("i1"), "close a within 1s leaving group", true);
    }
}

/// R-GRP-34.
#[test]
fn who_subscribes_to_a_pattern_reads_what_matches_and_what_comes_to_match() {
    for (protocol, kind) in [("classic", "pattern"), ("consumer", "pattern"), ("consumer", "re2j")] {
        let mut c = two_topics();
        // exclude.internal.topics is the client's: the coordinator leaves nothing out.
        let internal = if kind == "pattern" { "|__.*" } else { "" };
        let text = format!(
            "add consumer a to g {kind} \"u|v.*{internal}\" program poll group.protocol={protocol} \
             auto.offset.reset=earliest metadata.max.age.ms=5000"
        );
        order(&mut c, &text);
        c.until(&text, 30_000, |c| owned(c, "a") == "u-0 u-1");
        let c = &mut c.topic("v1", 1, 3, &[]);
        c.until(&text, 40_000, |c| owned(c, "a") == "u-0 u-1 v1-0");
        let state = c.consumer_state("a");
        assert_eq!(state.subscription().regex().is_some(), kind == "re2j");
        assert_eq!(
            refusal(c, "subscribe a to t"),
            "Subscription to topics, partitions and pattern are mutually exclusive"
        );
    }
}
