//! The questions that are asked most end at what a person did.

use expect_test::{Expect, expect};

use super::*;
use crate::kafka::types::{ClientName, Offset, Topic, TopicPartition};
use crate::lab::ledger::Fate;

#[track_caller]
fn check(session: &Session, question: &str, expected: &Expect) {
    let answer = session.ask(question).expect("it is a question");
    expected.assert_eq(&(answer.unwrap_or_else(|error| vec![error.to_string()]).join("\n") + "\n"));
}

/// The first record that a group has processed twice, by its partition and offset.
fn read_twice(session: &Session) -> (i32, i64) {
    let processed = |partition, offset| {
        let tp = TopicPartition::new(&Topic::new("orders"), partition);
        let (_, record) = session.ledger().record_at(&tp, Offset(offset))?;
        record.seen.iter().map(|seen| seen.processed).max()
    };
    let places = (0..2).flat_map(|partition| (0..200).map(move |offset| (partition, offset)));
    let mut twice = places.filter(|(partition, offset)| processed(*partition, *offset) == Some(2));
    twice.next().expect("one is read twice")
}

#[test]
fn why_is_this_broker_not_in_the_isr() {
    let session = run("calm", &[(8_000, "kill broker 3")], 25_000);
    check(
        &session,
        "why isr orders-0",
        &expect![[r#"
        orders-0: in-sync 1, 2; not in sync: 3.
          00:15.750  orders-0: broker 3 left the ISR; in-sync 1, 2
          00:15.750  broker 3 fenced: no heartbeat for 9.6 s
          00:08.000  broker 3 killed: its connections are reset
          00:08.000  you gave the command: kill broker 3
    "#]],
    );
    let cut = [(8_000, "cut broker 1 from broker 3"), (8_000, "cut broker 2 from broker 3")];
    let session = run("calm", &cut, 60_000);
    check(
        &session,
        "why isr orders-0",
        &expect![[r#"
            orders-0: in-sync 1, 2; not in sync: 3.
              00:45.010  orders-0: broker 3 left the ISR; in-sync 1, 2
              00:08.000  link between broker 1 and broker 3 cut
              00:08.000  you gave the command: cut broker 1 from broker 3
        "#]],
    );
    let session = run("calm", &[(8_000, "kill broker 3"), (20_000, "start broker 3")], 25_000);
    check(
        &session,
        "why isr orders-0",
        &expect![[r#"
        orders-0: every replica is in sync: 1, 2, 3.
          00:20.065  orders-0: broker 3 is back in the ISR; in-sync 1, 2, 3
          00:20.000  broker 3 started
          00:20.000  you gave the command: start broker 3
    "#]],
    );
}

#[test]
fn why_did_the_high_watermark_not_move() {
    let session = run("calm", &[(8_000, "kill broker 3")], 10_000);
    check(
        &session,
        "why high watermark orders-0",
        &expect![[r#"
            orders-0: the high watermark is 7 and 1 record waits: broker 3, in sync, has the log up to 7.
              00:08.000  broker 3 killed: its connections are reset
              00:08.000  you gave the command: kill broker 3
        "#]],
    );
    let session = run("calm", &[(8_000, "kill broker 3"), (8_000, "kill broker 2")], 30_000);
    check(
        &session,
        "why high watermark orders-0",
        &expect![[r#"
            orders-0: the high watermark is 7 and 1 record waits: 1 in sync, min.insync.replicas=2.
              00:15.750  orders-0: broker 3 left the ISR; in-sync 1
              00:15.750  broker 3 fenced: no heartbeat for 9.6 s
              00:08.000  broker 3 killed: its connections are reset
              00:08.000  you gave the command: kill broker 3
        "#]],
    );
    let all = [(8_000, "kill broker 3"), (8_000, "kill broker 2"), (20_000, "kill broker 1")];
    check(
        &run("calm", &all, 40_000),
        "why high watermark orders-0",
        &expect![[r#"
        orders-0: nobody leads it, so its high watermark cannot move.
          00:28.125  orders-0: broker 1 leads no more and none takes over, epoch 0 to 1; in-sync none
          00:28.125  broker 1 fenced: no heartbeat for 10 s
          00:20.000  broker 1 killed: its connections are reset
          00:20.000  you gave the command: kill broker 1
    "#]],
    );
}

#[test]
fn why_was_this_read_twice() {
    let session = run("calm", &[(8_000, "crash consumer-a at commit")], 25_000);
    let (partition, offset) = read_twice(&session);
    check(
        &session,
        &format!("why read twice orders-{partition} {offset}"),
        &expect![[r#"
            record 36 of checkout came to group billing 2 times, processed 2 times. By then the group had committed up to offset 7 only, at 00:09.055.
              00:15.246  consumer-b has processed offset 7 of orders-0
              00:15.225  consumer-b reads orders-0 from offset 7
              00:15.220  consumer-b owns orders-0, orders-1 in generation 2 of billing
              00:15.218  billing: generation 2: consumer-b orders-0, orders-1
              00:15.051  billing: rebalance after generation 1: consumer-a was removed
              00:15.051  billing: consumer-a removed: no heartbeat for its session.timeout.ms
              00:09.091  consumer-a crashed without leaving its group
              00:09.091  consumer-a is killed before line 3, commit
              00:08.000  you gave the command: crash consumer-a at commit
        "#]],
    );
    check(
        &session,
        "why read twice orders-0 0",
        &expect![[r#"
        record 3 of checkout was not read twice by any group.
    "#]],
    );
    check(
        &session,
        "why read twice orders-0 9999",
        &expect![[r#"
        column 16: there is no record 9999 of orders-0 among those that the ledger keeps
    "#]],
    );
}

#[test]
fn why_was_this_lost() {
    let steps = [(8_000, "kill broker 2"), (20_000, "kill broker 1"), (32_000, "start broker 2")];
    let session = run("lossy", &steps, 40_000);
    let ledger = session.ledger();
    let lost = (1..500).find(|number| {
        let record = ledger.record_of(&ClientName::new("checkout"), *number);
        record.is_some_and(|(batch, record)| matches!(ledger.judge(batch, record).fate, Fate::Lost(_)))
    });
    let lost = lost.unwrap_or_else(|| panic!("none is lost: {:?}", session.ask("ledger")));
    check(
        &session,
        &format!("why lost checkout {lost}"),
        &expect![[r#"
            record 32 of checkout is lost: its producer takes it for written, and orders-0 does not have it.
              00:08.000  broker 2 killed: its connections are reset
              00:08.000  you gave the command: kill broker 2
            and
              00:20.000  broker 1 killed: its connections are reset
              00:20.000  you gave the command: kill broker 1
            and
              00:32.046  broker 2 leads orders-0 in epoch 2, from offset 31
              00:32.045  orders-0: leader moved uncleanly from none to broker 2, epoch 1 to 2; in-sync 2
              00:32.045  broker 2 unfenced
              00:32.000  broker 2 started
              00:32.000  you gave the command: start broker 2
        "#]],
    );
    check(
        &session,
        "why lost orders-0 0",
        &expect![[r#"
        record 1 of checkout is not lost: it is in orders-0 at offset 0.
    "#]],
    );
}

#[test]
fn why_does_this_consumer_own_nothing() {
    let steps = [(8_000, "add consumer consumer-c to billing")];
    check(
        &run("calm", &steps, 20_000),
        "why owns nothing consumer-c",
        &expect![[r#"
        consumer-c owns nothing: billing has 3 members for 2 partitions, and a partition has one owner.
          00:08.023  billing: consumer-c is a member
          00:08.000  consumer-c started
          00:08.000  you gave the command: add consumer consumer-c to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
    "#]],
    );
    let steps = [(8_000, "freeze consumer-a")];
    check(
        &run("calm", &steps, 30_000),
        "why owns nothing consumer-a",
        &expect![[r#"
        consumer-a owns orders-0.
          00:01.213  consumer-a owns orders-0 in generation 1 of billing
          00:01.210  billing: generation 1: consumer-a orders-0; consumer-b orders-1
          00:00.202  billing: rebalance after generation 0: consumer-b joins
          00:00.074  consumer-b started
          00:00.074  the scenario says (line 42): add consumer consumer-b to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
    "#]],
    );
    let steps = [(8_000, "crash consumer-a")];
    let session = run("calm", &steps, 10_000);
    check(
        &session,
        "why owns nothing consumer-a",
        &expect![[r#"
        consumer-a has ended, so it owns nothing.
          00:08.000  consumer-a crashed without leaving its group
          00:08.000  you gave the command: crash consumer-a
    "#]],
    );
    check(
        &session,
        "why owns nothing nobody",
        &expect![[r#"
        column 18: there is no client nobody
    "#]],
    );
}

#[test]
fn other_states_lead_back_too() {
    let session = run("calm", &[(8_000, "kill broker 1"), (20_000, "crash consumer-a")], 22_000);
    for (question, expected) in [
        (
            "why leader orders-0",
            expect![[r#"
            orders-0: broker 2 leads it, in epoch 1.
              00:15.750  orders-0: leader moved from broker 1 to broker 2, epoch 0 to 1; in-sync 2, 3
              00:15.750  broker 1 fenced: no heartbeat for 9.6 s
              00:08.000  broker 1 killed: its connections are reset
              00:08.000  you gave the command: kill broker 1
        "#]],
        ),
        (
            "why log start orders-0",
            expect![[r#"
            orders-0: the log begins at offset 0; nothing was removed.
        "#]],
        ),
        (
            "why lag of billing orders-0",
            expect![[r#"
            billing is 2 records behind in orders-0: committed 13, high watermark 15; nobody of the group reads it.
              00:20.000  consumer-a crashed without leaving its group
              00:20.000  you gave the command: crash consumer-a
        "#]],
        ),
        (
            "why committed of billing orders-1 in full",
            expect![[r#"
            billing has committed offset 72 of orders-1.
              00:21.952  consumer-b commits offset 72 of orders-1 for billing
              00:21.841  consumer-b has processed offset 71 of orders-1
              00:21.836  poll() returns offset 71 of orders-1 to consumer-b
              00:01.219  consumer-b reads orders-1 from offset 0
              00:01.211  consumer-b owns orders-1 in generation 1 of billing
              00:01.210  billing: generation 1: consumer-a orders-0; consumer-b orders-1
              00:00.202  billing: rebalance after generation 0: consumer-b joins
              00:00.074  consumer-b started
              00:00.074  the scenario says (line 42): add consumer consumer-b to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
        "#]],
        ),
        (
            "why broker 1",
            expect![[r#"
            broker 1 is dead since 00:08.000; the controllers have it fenced.
              00:15.750  broker 1 fenced: no heartbeat for 9.6 s
              00:08.000  broker 1 killed: its connections are reset
              00:08.000  you gave the command: kill broker 1
        "#]],
        ),
        (
            "why client consumer-a",
            expect![[r#"
            consumer-a has ended since 00:20.000.
              00:20.000  consumer-a crashed without leaving its group
              00:20.000  you gave the command: crash consumer-a
        "#]],
        ),
        (
            "why group billing",
            expect![[r#"
            Broker 2 coordinates billing; this is what last changed it.
              00:01.210  billing is Stable
              00:00.230  billing: consumer-a is a member
              00:00.074  consumer-a started
              00:00.074  the scenario says (line 35): add consumer consumer-a to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
        "#]],
        ),
        (
            "why event 9999",
            expect![[r#"
            column 11: the narrative has no line 9999: it has the lines 1 to 38
        "#]],
        ),
    ] {
        check(&session, question, &expected);
    }
}

/// A run that was gone back in keeps few events of its own.
#[test]
fn the_answer_is_the_same_wherever_the_past_is_lived_again_from() {
    let mut session = open("calm");
    let mut kept = vec![session.checkpoint()];
    for (ms, command) in
        [(8_000, Some("kill broker 3")), (12_000, None), (20_000, Some("start broker 3")), (24_000, None)]
    {
        session.run_until(Time::from_ms(ms), u64::MAX);
        if let Some(command) = command {
            session.command(command).expect(command);
        }
        kept.push(session.checkpoint());
    }
    session.run_until(Time::from_ms(26_000), u64::MAX);
    let why = crate::lab::command::Why::Isr(TopicPartition::new(&Topic::new("orders"), 0));
    let whole = explain(&Past::of(&session, []), &why, 1);
    assert!(whole.as_ref().is_ok_and(|whole| whole.chains.len() == 1), "{whole:?}");
    assert_eq!(explain(&Past::of(&session, kept.iter()), &why, 1), whole);
    let mut gone_back = kept[3].clone();
    gone_back.follow(session.journal().clone());
    gone_back.run_until(Time::from_ms(26_000), u64::MAX);
    assert_eq!(gone_back.digest(), session.digest());
    assert_eq!(explain(&Past::of(&gone_back, kept.iter()), &why, 1), whole);
    assert_eq!(explain(&Past::of(&gone_back, []), &why, 1), whole);
}
