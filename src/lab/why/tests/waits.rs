//! Why nothing happens: who waits for what, and how long.

use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(session: &Session, of: &str, expected: &Expect) {
    let answer = session.ask(&format!("why idle {of}")).expect("it is a question");
    expected.assert_eq(&(answer.unwrap_or_else(|error| vec![error.to_string()]).join("\n") + "\n"));
}

#[test]
fn a_producer_waits_r_prod_16() {
    check(
        &run("calm", &[(8_000, "pause checkout")], 9_000),
        "checkout",
        &expect![[r#"
        checkout is paused: its application sends nothing until it is resumed.
          00:08.000  checkout paused
          00:08.000  you gave the command: pause checkout
    "#]],
    );
    let dead = [(8_000, "kill broker 3"), (8_000, "kill broker 2")];
    check(
        &run("calm", &dead, 13_000),
        "checkout",
        &expect![[r#"
        checkout connects to broker 2, which leads where its records go.
          00:08.000  broker 2 killed: its connections are reset
          00:08.000  you gave the command: kill broker 2
    "#]],
    );
    check(
        &run("calm", &[(8_000, "kill broker 3")], 10_000),
        "checkout",
        &expect![[r#"
            checkout waits for the answer to 1 record of orders-1, 1 min 58 s left of delivery.timeout.ms: orders-1 waits for broker 3 to fetch 1 record, or to fall out of the in-sync set by replica.lag.time.max.ms, 27.8 s left; 2 records more stay here until then, as broker 2 has max.in.flight.requests.per.connection=5.
              00:08.000  broker 3 killed: its connections are reset
              00:08.000  you gave the command: kill broker 3
        "#]],
    );
    check(
        &run("calm", &[(8_000, "freeze checkout")], 9_000),
        "checkout",
        &expect![[r#"
        checkout stands still since 00:08.000, until it is thawed.
          00:08.000  checkout frozen: its connections stay open and silent
          00:08.000  you gave the command: freeze checkout
    "#]],
    );
    let lingers = "add producer slow to orders rate 1/s keys none linger.ms=900";
    check(
        &run("calm", &[(8_000, lingers)], 9_500),
        "slow",
        &expect![[r#"
        slow lets 1 record for orders-1 linger for linger.ms, 404 ms left.
    "#]],
    );
    let by_hand = "add producer bank to orders rate 2/s keys none transactional.id=bank-1";
    let steps = [(8_000, by_hand), (11_000, "begin transaction of bank")];
    check(
        &run("calm", &steps[..1], 10_000),
        "bank",
        &expect![[r#"
        bank has no transaction under way: bank-1 is ready to begin one.
    "#]],
    );
    check(
        &run("calm", &steps, 14_000),
        "bank",
        &expect![[r#"
        bank lets 1 record for orders-1 linger for linger.ms, 5 ms left.
    "#]],
    );
}

#[test]
fn a_consumer_waits_r_cons_3() {
    let session = run("calm", &[(8_000, "pause checkout")], 12_000);
    check(
        &session,
        "consumer-a",
        &expect![[r#"
        consumer-a has read all that there is of orders-0: its fetches wait for more, each up to fetch.max.wait.ms=500; poll() returns, 74 ms left.
          00:07.087  poll() returns offset 6 of orders-0 to consumer-a
          00:01.229  consumer-a reads orders-0 from offset 0
          00:01.213  consumer-a owns orders-0 in generation 1 of billing
          00:01.210  billing: generation 1: consumer-a orders-0; consumer-b orders-1
          00:00.202  billing: rebalance after generation 0: consumer-b joins
          00:00.074  consumer-b started
          00:00.074  the scenario says (line 42): add consumer consumer-b to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
    "#]],
    );
    let steps = [(8_000, "add consumer consumer-c to billing")];
    check(
        &run("calm", &steps, 20_000),
        "consumer-c",
        &expect![[r#"
        consumer-c owns no partition: billing has 3 members, and each partition has one owner.
          00:09.221  billing: generation 2: consumer-a orders-0; consumer-b orders-1; consumer-c none
          00:08.023  billing: rebalance after generation 1: consumer-c joins
          00:08.000  consumer-c started
          00:08.000  you gave the command: add consumer consumer-c to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
    "#]],
    );
    check(
        &run("calm", &[(8_000, "freeze consumer-a at commit")], 12_000),
        "consumer-a",
        &expect![[r#"
            consumer-a stands still since 00:09.091, until it is thawed.
              00:09.091  consumer-a frozen: its connections stay open and silent
              00:09.091  consumer-a stands still before line 3, commit
              00:08.000  you gave the command: freeze consumer-a at commit
        "#]],
    );
    check(
        &run("calm", &[(8_000, "hang consumer-b at process for 3s")], 9_000),
        "consumer-b",
        &expect![[r#"
            consumer-b hangs at the line process 5ms since 00:08.087, 2 s left.
              00:08.087  consumer-b hangs before line 2, process 5ms
              00:08.000  you gave the command: hang consumer-b at process for 3s
        "#]],
    );
    check(
        &run("calm", &[(8_000, "unsubscribe consumer-a")], 12_000),
        "consumer-a",
        &expect![[r#"
        consumer-a has subscribed to nothing, and waits until it is told to.
    "#]],
    );
    check(
        &run("calm", &[(8_000, "crash consumer-a")], 9_000),
        "consumer-a",
        &expect![[r#"
        consumer-a does nothing more: its process ended at 00:08.000.
          00:08.000  consumer-a crashed without leaving its group
          00:08.000  you gave the command: crash consumer-a
    "#]],
    );
    let steps = [(8_000, "pause consumer-a orders-0"), (9_000, "close consumer-b")];
    check(
        &run("calm", &steps[..1], 8_900),
        "consumer-a",
        &expect![[r#"
        consumer-a has paused all that it owns: orders-0.
          00:08.000  consumer-a pauses orders-0
          00:08.000  you gave the command: pause consumer-a orders-0
    "#]],
    );
    let open = [
        (8_000, "add producer bank to orders rate 4/s keys none transactional.id=bank-1"),
        (10_000, "begin transaction of bank"),
        (
            11_000,
            "add consumer careful to audit topics orders program \"poll; process 5ms\" isolation.level=read_committed",
        ),
        (12_000, "pause checkout"),
    ];
    check(
        &run("calm", &open, 20_000),
        "careful",
        &expect![[r#"
            careful reads committed data and stands at 32 of orders-1, behind an open transaction of bank-1, which its coordinator aborts by its timeout, 50.2 s left; the high watermark is 77.
              00:10.275  orders-1 in the transaction of bank-1
              00:10.000  you gave the command: begin transaction of bank
        "#]],
    );
    // Others end theirs in the same partition, behind the one that is open.
    let other =
        "add producer other to orders rate 4/s keys none transaction every 2 records transactional.id=bank-2";
    let two = [&open[..], &[(12_500, other)]].concat();
    check(
        &run("calm", &two, 20_000),
        "careful",
        &expect![[r#"
        careful reads committed data and stands at 32 of orders-1, behind an open transaction of bank-1, which its coordinator aborts by its timeout, 50.2 s left; the high watermark is 120.
          00:10.275  orders-1 in the transaction of bank-1
          00:10.000  you gave the command: begin transaction of bank
    "#]],
    );
}

#[test]
fn a_group_waits_r_grp_11() {
    let frozen = [(8_000, "freeze consumer-b"), (9_000, "add consumer consumer-c to billing")];
    check(
        &run("calm", &frozen[..1], 9_000),
        "group billing",
        &expect![[r#"
        billing counts on consumer-b, which is silent, until session.timeout.ms is over, 4.9 s left.
          00:08.000  consumer-b frozen: its connections stay open and silent
          00:08.000  you gave the command: freeze consumer-b
    "#]],
    );
    check(
        &run("calm", &frozen, 10_000),
        "group billing",
        &expect![[r#"
        billing waits for JoinGroup of consumer-b, 4 min 59 s left of the rebalance timeout.
          00:08.000  consumer-b frozen: its connections stay open and silent
          00:08.000  you gave the command: freeze consumer-b
    "#]],
    );
    check(
        &run("calm", &frozen, 10_000),
        "consumer-c",
        &expect![[r#"
        consumer-c waits for its group: billing waits for JoinGroup of consumer-b, 4 min 59 s left of the rebalance timeout.
          00:08.000  consumer-b frozen: its connections stay open and silent
          00:08.000  you gave the command: freeze consumer-b
    "#]],
    );
    let gone = [(8_000, "close consumer-a"), (8_000, "close consumer-b")];
    check(
        &run("calm", &gone, 10_000),
        "group billing",
        &expect![[r#"
        billing has no members: nobody reads for it.
          00:08.002  billing: consumer-b left
          00:08.000  you gave the command: close consumer-b
    "#]],
    );
    check(
        &run("calm", &[], 8_000),
        "group billing",
        &expect![[r#"
        billing waits for nothing: it is at work.
    "#]],
    );
    check(
        &run("calm", &[], 8_000),
        "group nobody",
        &expect![[r#"
        column 10: there is no group nobody
    "#]],
    );
    check(
        &run("calm", &[], 500),
        "group billing",
        &expect![[r#"
        billing waits for further members, as group.initial.rebalance.delay.ms says, 202 ms left.
          00:00.230  billing: consumer-a is a member
          00:00.074  consumer-a started
          00:00.074  the scenario says (line 35): add consumer consumer-a to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false heartbeat.interval.ms=2000 session.timeout.ms=6000
    "#]],
    );
}

#[test]
fn a_partition_waits_r_repl_42() {
    check(
        &run("calm", &[(8_000, "kill broker 1")], 10_000),
        "orders-0",
        &expect![[r#"
        orders-0 has broker 1 as its leader, which is dead: the controller fences it after broker.session.timeout.ms, at most 7 s left.
          00:08.000  broker 1 killed: its connections are reset
          00:08.000  you gave the command: kill broker 1
    "#]],
    );
    check(
        &run("calm", &[(8_000, "kill broker 3")], 12_000),
        "orders-0",
        &expect![[r#"
        orders-0 waits for broker 3 to fetch 1 record, or to fall out of the in-sync set by replica.lag.time.max.ms, 25.9 s left.
          00:08.000  broker 3 killed: its connections are reset
          00:08.000  you gave the command: kill broker 3
    "#]],
    );
    let two = [(8_000, "kill broker 3"), (8_000, "kill broker 2"), (25_000, "kill broker 1")];
    check(
        &run("calm", &two[..2], 24_000),
        "orders-0",
        &expect![[r#"
        orders-0 has 1 in sync and needs min.insync.replicas=2: acks=all is refused, and the high watermark stands at 7.
          00:15.750  orders-0: broker 3 left the ISR; in-sync 1
          00:15.750  broker 3 fenced: no heartbeat for 9.6 s
          00:08.000  broker 3 killed: its connections are reset
          00:08.000  you gave the command: kill broker 3
    "#]],
    );
    check(
        &run("calm", &two, 45_000),
        "orders-0",
        &expect![[r#"
            orders-0 has no leader since 00:33.750: it waits until a broker that may lead is back, of 1, 3.
              00:33.750  orders-0: broker 1 leads no more and none takes over, epoch 0 to 1; in-sync none
              00:33.750  broker 1 fenced: no heartbeat for 9.6 s
              00:25.000  broker 1 killed: its connections are reset
              00:25.000  you gave the command: kill broker 1
        "#]],
    );
    check(
        &run("calm", &[], 8_000),
        "orders-0",
        &expect![[r#"
        orders-0 waits for nothing: it is at work.
    "#]],
    );
    check(
        &run("calm", &[], 8_000),
        "orders-9",
        &expect![[r#"
        column 10: there is no client and no partition orders-9
    "#]],
    );
}
