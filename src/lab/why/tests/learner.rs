//! What a learner sees stand still, and asks why: who waits, for what, how long, and since when.

use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(name: &str, steps: &[(i64, &str)], until_ms: i64, of: &str, expected: &Expect) {
    let session = run(name, steps, until_ms);
    let answer = session.ask(&format!("why {of}")).expect("it is a question");
    expected.assert_eq(&(answer.unwrap_or_else(|error| vec![error.to_string()]).join("\n") + "\n"));
}

#[test]
fn a_producer_has_no_room_left_r_prod_13() {
    let full = "add producer full to orders rate 1000/s keys none buffer.memory=40000 batch.size=16384";
    let steps = [(8_000, full), (8_500, "kill broker 1"), (8_500, "kill broker 2")];
    check(
        "calm",
        &steps,
        12_000,
        "idle full",
        &expect![[r#"
            full has filled buffer.memory=40000; the oldest batch frees its part when it is answered, or fails by delivery.timeout.ms, 1 min 56 s left.
              00:08.500  broker 2 killed: its connections are reset
              00:08.500  you gave the command: kill broker 2
        "#]],
    );
}

#[test]
fn a_producer_has_as_many_requests_under_way_as_it_may_r_prod_21() {
    let one = "add producer one to orders rate 100/s keys \"cart-{0..9}\" max.in.flight.requests.per.connection=1 linger.ms=0 batch.size=200";
    let steps = [
        (8_000, "reassign orders-0 to 2,1,3"),
        (9_000, "elect preferred leader orders-0"),
        (10_000, one),
        (10_500, "freeze broker 2"),
    ];
    check(
        "calm",
        &steps,
        11_000,
        "idle one",
        &expect![[r#"
            one waits for the answer to 1 record of orders-1, 1 min 59 s left of delivery.timeout.ms: orders-1 has broker 2 as its leader, which stands still: the controller fences it after broker.session.timeout.ms, at most 8.5 s left; 50 records more stay here until then, as broker 2 has max.in.flight.requests.per.connection=1.
              00:10.500  broker 2 frozen: its connections stay open and silent
              00:10.500  you gave the command: freeze broker 2
        "#]],
    );
}

#[test]
fn a_producer_waits_before_it_sends_again_r_prod_15() {
    let slow =
        "add producer slow to orders rate 2/s keys none retry.backoff.ms=5000 retry.backoff.max.ms=5000";
    let steps = [(7_000, slow), (8_000, "kill broker 2"), (8_000, "kill broker 3")];
    check(
        "calm",
        &steps,
        30_000,
        "idle slow",
        &expect![[r#"
            slow sends 20 records for orders-1 again after retry.backoff.ms, 2.5 s left: orders-1 has 1 in sync and needs min.insync.replicas=2: acks=all is refused, and the high watermark stands at 24.
              00:15.750  orders-1: broker 3 left the ISR; in-sync 1
              00:15.750  broker 3 fenced: no heartbeat for 9.6 s
              00:08.000  broker 3 killed: its connections are reset
              00:08.000  you gave the command: kill broker 3
        "#]],
    );
}

/// It is decided, and one partition does not hear of it; what comes next in it has to wait.
#[test]
fn a_transaction_waits_for_its_markers_r_txn_19() {
    let careful = "add consumer careful to audit topics orders program \"poll; process 5ms\" isolation.level=read_committed";
    let steps = [
        (8_000, "add producer bank to orders rate 4/s keys none transactional.id=bank-1"),
        (9_000, careful),
        (10_000, "begin transaction of bank"),
        (13_000, "pause checkout"),
        (14_000, "slow broker 1 to broker 2 by 2000ms"),
        (14_100, "commit transaction of bank"),
    ];
    check(
        "calm",
        &steps,
        20_000,
        "idle careful",
        &expect![[r#"
        careful reads committed data and stands at 32 of orders-1, behind an open transaction of bank-1, which its coordinator aborts by its timeout, 50.2 s left; the high watermark is 58.
          00:10.275  orders-1 in the transaction of bank-1
          00:10.000  you gave the command: begin transaction of bank
    "#]],
    );
    check(
        "calm",
        &steps,
        20_000,
        "idle bank",
        &expect![[r#"
        bank waits for the end of its transaction: bank-1 is COMMITTING_TRANSACTION.
    "#]],
    );
    check(
        "calm",
        &steps,
        24_000,
        "idle careful",
        &expect![[r#"
        careful reads committed data and stands at 32 of orders-1, behind an open transaction of bank-1, which is decided: its coordinator sends the marker until this partition has it; the high watermark is 58.
          00:22.102  bank-1: the transaction in orders-1 is committed
          00:14.100  you gave the command: commit transaction of bank
    "#]],
    );
}

#[test]
fn a_consumer_has_paused_some_and_read_the_rest_r_cons_8() {
    let steps =
        [(7_000, "close consumer-b"), (9_000, "pause consumer-a orders-0"), (12_000, "pause checkout")];
    check(
        "calm",
        &steps,
        14_000,
        "idle consumer-a",
        &expect![[r#"
            consumer-a has paused orders-0, 1 record behind, and has read all that there is of orders-1: its fetches wait for more, each up to fetch.max.wait.ms=500; poll() returns, 9 ms left.
              00:11.838  poll() returns offset 37 of orders-1 to consumer-a
              00:07.228  consumer-a reads orders-1 from offset 21
              00:07.223  consumer-a owns orders-0, orders-1 in generation 2 of billing
              00:07.221  billing: generation 2: consumer-a orders-0, orders-1
              00:07.001  billing: rebalance after generation 1: consumer-b left
              00:07.001  billing: consumer-b left
              00:07.000  you gave the command: close consumer-b
        "#]],
    );
}

#[test]
fn a_consumer_waits_for_the_rebalance_of_its_group_r_grp_11() {
    let steps =
        [(8_000, "hang consumer-b at process for 1min"), (9_000, "add consumer consumer-c to billing")];
    check(
        "calm",
        &steps,
        13_000,
        "idle consumer-a",
        &expect![[r#"
            consumer-a waits for its group: billing waits for JoinGroup of consumer-b, 4 min 56 s left of the rebalance timeout.
              00:08.087  consumer-b hangs before line 2, process 5ms
              00:08.000  you gave the command: hang consumer-b at process for 1min
        "#]],
    );
}

#[test]
fn members_of_the_newer_protocol_wait_r_cg8_11() {
    // Nobody is left to say whether it goes: the session is all that counts.
    check(
        "modern",
        &[(8_000, "freeze consumer-b")],
        9_000,
        "idle group billing",
        &expect![[r#"
            billing counts on consumer-b, which is silent, until its session is over, 41.5 s left.
              00:08.000  consumer-b frozen: its connections stay open and silent
              00:08.000  you gave the command: freeze consumer-b
        "#]],
    );
    // It is asked for what another is to have, and says nothing.
    let slow = [(1_500, "slow consumer-a to broker 1 by 500ms"), (5_900, "freeze consumer-a")];
    check(
        "modern",
        &slow,
        8_000,
        "idle group billing",
        &expect![[r#"
            billing waits for consumer-a to give up what others are to have, 4 min 58 s left.
              00:05.900  consumer-a frozen: its connections stay open and silent
              00:05.900  you gave the command: freeze consumer-a
        "#]],
    );
    check(
        "modern",
        &slow,
        8_000,
        "idle consumer-b",
        &expect![[r#"
            consumer-b owns no partition yet: billing waits for consumer-a to give up what others are to have, 4 min 58 s left.
              00:05.900  consumer-a frozen: its connections stay open and silent
              00:05.900  you gave the command: freeze consumer-a
        "#]],
    );
    let more = [(12_000, "add consumer consumer-d to billing")];
    check(
        "modern",
        &more,
        15_500,
        "idle consumer-d",
        &expect![[r#"
            consumer-d owns no partition: billing has 4 members, and each partition has one owner.
              00:12.021  billing: target of epoch 5: consumer-d none; consumer-c none; consumer-b orders-1; consumer-a orders-0
              00:12.021  billing: consumer-d is a member
              00:12.000  consumer-d started
              00:12.000  you gave the command: add consumer consumer-d to billing topics orders program "poll; process 5ms; commit" auto.offset.reset=earliest enable.auto.commit=false group.protocol=consumer max.poll.interval.ms=8000
        "#]],
    );
    check(
        "modern",
        &[(13_000, "hang consumer-a at process for 30s")],
        15_000,
        "idle consumer-a",
        &expect![[r#"
            consumer-a hangs at the line process 5ms since 00:14.086, 29 s left.
              00:14.086  consumer-a hangs before line 2, process 5ms
              00:13.000  you gave the command: hang consumer-a at process for 30s
        "#]],
    );
    check(
        "modern",
        &[(13_000, "close consumer-a"), (13_000, "close consumer-b"), (13_000, "close consumer-c")],
        15_000,
        "idle group billing",
        &expect![[r#"
            billing has no members: nobody reads for it.
              00:13.002  billing: consumer-b left
              00:13.000  you gave the command: close consumer-b
        "#]],
    );
}

const SHARED: &str = "add share consumer s-1 to payments topics orders program \"poll; process 20ms\"";

#[test]
fn members_of_share_groups_wait_r_share_7() {
    check(
        "calm",
        &[(8_000, SHARED)],
        9_000,
        "idle s-1",
        &expect![[r#"
            s-1 is assigned no partition of payments: its next heartbeat asks again, 4 s left.
              00:08.000  s-1 asks to join payments
              00:08.000  s-1 started
              00:08.000  you gave the command: add share consumer s-1 to payments topics orders program "poll; process 20ms"
        "#]],
    );
    check(
        "calm",
        &[(8_000, SHARED), (16_000, "pause checkout")],
        20_000,
        "idle s-1",
        &expect![[r#"
            s-1 waits for records of orders-0, orders-1: all there are that nobody holds are done with; poll() returns, 56 ms left.
              00:15.836  poll() returns 1 record of orders-1 to s-1
              00:13.034  s-1 reads orders-0, orders-1 in epoch 3 of payments
              00:08.000  s-1 started
              00:08.000  you gave the command: add share consumer s-1 to payments topics orders program "poll; process 20ms"
        "#]],
    );
    let [second, third] = ["s-2", "s-3"].map(|name| SHARED.replace("s-1", name));
    let held = [
        (8_000, SHARED),
        (8_000, second.as_str()),
        (8_000, third.as_str()),
        (19_000, "hang s-1 at process for 1min"),
        (21_000, "pause checkout"),
    ];
    check(
        "calm",
        &held,
        30_000,
        "idle s-2",
        &expect![[r#"
            s-2 waits for records of orders-1: s-1 holds 1 record of it until it says what became of them, or its lock ends, 19 s left.
              00:19.088  s-1 hangs before line 2, process 20ms
              00:19.000  you gave the command: hang s-1 at process for 1min
        "#]],
    );
    check(
        "calm",
        &held,
        30_000,
        "idle s-1",
        &expect![[r#"
            s-1 hangs at the line process 20ms since 00:19.088, 49 s left.
              00:19.088  s-1 hangs before line 2, process 20ms
              00:19.000  you gave the command: hang s-1 at process for 1min
        "#]],
    );
    check(
        "calm",
        &[(8_000, SHARED), (16_000, "crash s-1")],
        20_000,
        "idle group payments",
        &expect![[r#"
            payments counts on s-1, which is silent, until its session is over, 38 s left.
              00:16.000  s-1 crashed
              00:16.000  you gave the command: crash s-1
        "#]],
    );
    check(
        "calm",
        &[(8_000, SHARED), (16_000, "close s-1")],
        20_000,
        "idle group payments",
        &expect![[r#"
            payments has no members: nobody reads for it.
              00:16.376  payments: s-1 left
              00:16.000  you gave the command: close s-1
        "#]],
    );
    check(
        "calm",
        &[(8_000, SHARED), (16_000, "kill broker 1")],
        18_000,
        "idle s-1",
        &expect![[r#"
            s-1 looks for the coordinator of payments.
              00:17.878  payments: s-1 has lost the coordinator: NETWORK_EXCEPTION
              00:16.000  broker 1 killed: its connections are reset
              00:16.000  you gave the command: kill broker 1
        "#]],
    );
}

#[test]
fn a_partition_waits_for_a_follower_that_is_cut_off_r_repl_21() {
    let steps = [(8_000, "cut broker 1 from broker 3"), (8_000, "cut broker 2 from broker 3")];
    check(
        "calm",
        &steps,
        12_000,
        "idle orders-0",
        &expect![[r#"
            orders-0 waits for broker 3 to fetch 1 record, or to fall out of the in-sync set by replica.lag.time.max.ms, 25.9 s left.
              00:08.000  link between broker 1 and broker 3 cut
              00:08.000  you gave the command: cut broker 1 from broker 3
        "#]],
    );
}

#[test]
fn a_broker_is_fenced_and_asks_to_be_let_in_r_repl_51() {
    check(
        "calm",
        &[(8_000, "cut broker 3 from controller 101")],
        20_000,
        "broker 3",
        &expect![[r#"
            broker 3 runs since 00:00.000; the controllers have it fenced.
              00:15.750  broker 3 fenced: no heartbeat for 9.6 s
              00:08.000  link between broker 3 and controller 101 cut
              00:08.000  you gave the command: cut broker 3 from controller 101
        "#]],
    );
    check(
        "calm",
        &[(8_000, "freeze broker 3")],
        12_000,
        "broker 3",
        &expect![[r#"
            broker 3 stands still since 00:08.000; the controllers count it as in service, and fence it after broker.session.timeout.ms without a heartbeat, at most 5 s left.
              00:08.000  broker 3 frozen: its connections stay open and silent
              00:08.000  you gave the command: freeze broker 3
        "#]],
    );
    check(
        "calm",
        &[],
        12_000,
        "broker 3",
        &expect![[r#"
            broker 3 runs since 00:00.000; the controllers count it as in service.
              00:00.056  broker 3 unfenced
              00:00.000  broker 3 started
              00:00.000  the run begins with the servers of the scenario
        "#]],
    );
}
