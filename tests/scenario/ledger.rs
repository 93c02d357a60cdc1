//! What became of records, as the ledger tells it from outside: the cases of real questions by their outcome.

use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{BrokerId, GroupId, Offset};
use glassbroker::lab::ledger::{Count, GroupCount, Ledger, Within};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];

/// So many records in t-0 of three brokers, all committed; the producer `p` sent them.
fn records(count: i64, topic: &[(&str, &str)], producer: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, topic);
    c.producer("p", "t", "100/s", producer);
    c.send("p", count);
    c.run_ms(2_000);
    c
}

/// The story of what is or was at an offset of t-0, and how it ends.
fn story(c: &Cluster, offset: i64) -> (Vec<String>, Vec<String>) {
    let story = c.ledger().story_at(&tp("t-0"), Offset(offset)).expect("a record was there");
    (story.lines.into_iter().map(|line| line.text).collect(), story.now)
}

#[test]
fn a_record_that_goes_its_way_is_told_from_send_to_its_last_reader() {
    let mut c = records(1, &[], &[]);
    c.consumer("a", "g", &["t"], &["poll", "process 1ms"], &[("auto.offset.reset", "earliest")]);
    c.run_ms(10_000);
    let (lines, now) = story(&c, 0);
    assert_eq!(
        lines,
        [
            "p hands it to send(); it goes into a batch for t-0",
            "the batch is sent to broker 1",
            "broker 1, leader in epoch 0, stores it in t-0 at offset 0",
            "the high watermark of t-0 passes it",
            "p is told: written at offset 0",
            "poll() returns it to a of group g",
            "a of group g has processed it",
        ]
    );
    assert_eq!(now, ["It is in t-0 at offset 0, on 1, 2, 3; the high watermark is 1: readers may see it."]);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1");
    assert_eq!(c.outcome_of("g", "t"), "delivered 1, processed 1");
}

#[test]
fn a16_the_two_records_that_went_with_their_leader_are_lost_and_the_leader_change_is_named() {
    let mut c = records(5, &[], LOOSE);
    c.cut(1, 2);
    c.cut(1, 3);
    c.send("p", 2);
    c.run_ms(500);
    assert_eq!(c.outcome("t"), "produced 7, acknowledged 7, stored 7, not visible 2");
    c.kill(1);
    c.until("broker 2 leads", 12_000, |c| c.registration("t-0").starts_with("2 "));
    c.run_ms(1_000);
    assert_eq!(c.outcome("t"), "produced 7, acknowledged 7, stored 5, lost 2");
    let (lines, now) = story(&c, 6);
    assert_eq!(
        lines.last().map(String::as_str),
        Some("broker 2 leads t-0 in epoch 1 and does not have it: it goes from offset 6")
    );
    assert_eq!(
        now,
        ["It is lost: its producer takes it for written. Broker 2, leader since epoch 1, does not have it."]
    );
    c.heal(1, 2);
    c.heal(1, 3);
    c.start(1);
    c.send("p", 1);
    c.run_ms(20_000);
    assert_eq!(c.outcome("t"), "produced 8, acknowledged 8, stored 6, lost 2");
}

#[test]
fn a17_acks_all_that_waits_for_every_in_sync_replica_loses_nothing() {
    let mut c = records(5, &[("min.insync.replicas", "2")], &[]);
    c.give(Command::Freeze(Target::Broker(BrokerId(3))));
    c.send("p", 1);
    c.run_ms(4_000);
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 5, unanswered 1, stored 6, not visible 1");
    let (_, now) = story(&c, 5);
    assert_eq!(
        now,
        ["It is in t-0 at offset 5, on 1, 2; the high watermark is 5: readers do not see it yet."]
    );
    c.give(Command::Thaw(Target::Broker(BrokerId(3))));
    c.run_ms(1_000);
    c.kill(1);
    c.until("another leads", 12_000, |c| !c.registration("t-0").starts_with("1 "));
    c.run_ms(1_000);
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 6");
}

#[test]
fn a18_acks_all_with_one_replica_in_sync_loses_it_by_an_unclean_election() {
    let mut c = records(5, &[], &[]);
    for id in [3, 2] {
        c.give(Command::Stop(BrokerId(id)));
        c.until("it is gone", 10_000, |c| c.world.broker(BrokerId(id)).is_none());
    }
    c.send("p", 1);
    c.run_ms(500);
    c.kill(1);
    c.run_ms(12_000);
    c.start(2);
    c.start(3);
    c.run_ms(10_000);
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 6", "its disk has it");
    c.give(Command::ElectLeader { kind: ElectionType::Unclean, partition: Some(tp("t-0")) });
    c.run_ms(3_000);
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 5, lost 1");
}

#[test]
fn a26_an_unclean_election_loses_8_of_10_acks_1_records() {
    let mut c = records(2, &[], LOOSE);
    c.cut(3, 1);
    c.send("p", 3);
    c.run_ms(1_000);
    c.cut(2, 1);
    c.send("p", 5);
    c.until("broker 1 alone is in sync", 50_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.run_ms(1_000);
    c.kill(1);
    c.kill(2);
    c.until("nobody leads", 12_000, |c| c.eligible("t-0") == "-1 isr[] elr[1] last[1]");
    c.heal(3, 1);
    c.heal(2, 1);
    c.give(Command::ElectLeader { kind: ElectionType::Unclean, partition: Some(tp("t-0")) });
    c.run_ms(3_000);
    assert_eq!(c.outcome("t"), "produced 10, acknowledged 10, stored 2, lost 8");
}

/// Four records a millisecond apart, all on their way at once, while the leader comes to accept what it refused before: how
/// the topic is told `wait_ms` earlier decides which of them meet the refusal.
fn refused_for_a_moment(wait_ms: i64, idempotent: bool) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "3")]);
    let idempotent = idempotent.to_string();
    let pairs = [("enable.idempotence", idempotent.as_str()), ("acks", "all"), ("batch.size", "0")];
    c.producer("p", "t", "1000/s", &pairs);
    c.kill(3);
    c.until("two are in sync", 15_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.order("set topic t min.insync.replicas=1");
    c.run_ms(wait_ms);
    c.send("p", 4);
    c.run_ms(5_000);
    c
}

#[test]
fn a09_a_retry_stands_behind_what_was_sent_later_without_idempotence() {
    let last = |c: &Cluster| c.values(1, "t-0", 0).last().cloned().unwrap_or_default();
    let overtaken = |c: &Cluster| !last(c).starts_with("{\"n\":4,");
    let met = (0..100).map(|wait_ms| (wait_ms, refused_for_a_moment(wait_ms, false)));
    let (wait_ms, c) = { met }.find(|(_, c)| overtaken(c)).expect("some wait splits them");
    let first = c.ledger().totals().records(&Within::All).first(Count::Reordered).cloned();
    let first = first.unwrap_or_else(|| panic!("{}: {}", c.outcome("t"), c.report()));
    // Each that is refused goes to the front of the queue: the last of them comes first (RecordAccumulator.reenqueue).
    assert_eq!((first.number, first.offset), (3, Some(Offset(1))));
    assert!(c.outcome("t").starts_with("produced 4, acknowledged 4, stored 4, reordered "));
    let c = refused_for_a_moment(wait_ms, true);
    assert_eq!(c.outcome("t"), "produced 4, acknowledged 4, stored 4", "R-PROD-21");
    assert!(!overtaken(&c));
}

/// Makes the leader's answer to the next record wait until the client has given the request up.
fn lose_the_answer(c: &mut Cluster) {
    let client = || Target::Client("p".into());
    c.send("p", 1);
    c.until("it is stored", 1_000, |c| c.replicas("t-0").starts_with("1:1"));
    c.give(Command::Cut { a: client(), b: Target::Broker(BrokerId(1)) });
    c.run_ms(31_000);
    c.give(Command::Heal { a: client(), b: Target::Broker(BrokerId(1)) });
    c.run_ms(10_000);
}

#[test]
fn a10_a_retry_is_one_record_with_idempotence_and_two_without() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    lose_the_answer(&mut c);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1", "R-PROD-25");
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", LOOSE);
    lose_the_answer(&mut c);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1, stored twice 1");
    let (_, now) = story(&c, 0);
    assert!(now.contains(&"It is stored 2 times, at offsets 0, 1.".to_owned()), "{now:?}");
}

/// What the application sends again is another record to everybody.
#[test]
fn a10_an_application_that_sends_again_has_made_two_records() {
    let mut c = records(1, &[], &[]);
    c.give(Command::Crash("p".into()));
    c.order("add producer again to t rate 100/s keys key");
    c.until("it has sent the same", 10_000, |c| c.producer_state("again").counts().acknowledged >= 1);
    c.give(Command::Crash("again".into()));
    c.run_ms(1_000);
    let values = c.values(1, "t-0", 0);
    assert_eq!(values[0], values[1], "the same bytes");
    let totals = c.ledger().totals();
    assert_eq!(totals.count(Count::StoredTwice), 0);
    assert_eq!(totals.count(Count::Produced) as usize, values.len());
}

/// EX-16: what was finished before the crash and not committed is done again.
#[test]
fn a_crash_before_the_commit_processes_twice_and_misses_nothing() {
    let mut c = records(10, &[], &[]);
    let config = &[("max.poll.records", "10"), ("auto.offset.reset", "earliest")];
    c.consumer("first", "g", &["t"], &["poll", "process 500ms"], config);
    c.until("seven are processed", 30_000, |c| {
        c.outcome_of("g", "t") == "delivered 10, in hand 3, processed 7"
    });
    c.give(Command::Crash("first".into()));
    c.consumer("second", "g", &["t"], &["poll", "process 500ms"], config);
    c.run_ms(90_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 10, processed twice 7");
    let (_, now) = story(&c, 6);
    assert!(now.contains(&"Group g has processed it 2 times.".to_owned()), "{now:?}");
}

/// EX-17: a commit before the work loses what was in hand at the crash.
#[test]
fn a_commit_before_processing_misses_what_was_in_hand_and_the_commit_is_named() {
    let mut c = records(10, &[], &[]);
    let config = &[("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    c.consumer("first", "g", &["t"], &["poll", "commit", "process 500ms"], config);
    c.until("four are processed", 30_000, |c| {
        c.outcome_of("g", "t") == "delivered 10, in hand 6, processed 4"
    });
    c.give(Command::Crash("first".into()));
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 4, missed 6");
    c.consumer("second", "g", &["t"], &["poll", "commit", "process 500ms"], config);
    c.run_ms(90_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 4, missed 6");
    let (lines, now) = story(&c, 9);
    assert!(lines.contains(&"first commits a position of group g past it before it is processed".to_owned()));
    let missed = now.last().expect("how it stands");
    assert!(missed.starts_with("Group g has missed it: first committed past it at "), "{missed}");
    assert!(missed.ends_with("and nobody who has it lives."), "{missed}");
}

/// A32: whoever is too slow for max.poll.interval.ms is put out, and its commit is refused.
#[test]
fn a32_a_slow_batch_is_processed_twice() {
    let mut c = records(10, &[], &[]);
    let config = &[
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("max.poll.interval.ms", "10000"),
    ];
    let program = ["poll", "process 2s", "commit"];
    c.consumer("c1", "g", &["t"], &program, config);
    c.until("c1 works", 20_000, |c| c.outcome_of("g", "t").starts_with("delivered 10"));
    c.consumer("c2", "g", &["t"], &program, config);
    c.run_ms(60_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 10, processed twice 10");
}

#[test]
fn a48_a_commit_of_the_last_records_own_offset_processes_it_again_after_every_restart() {
    let mut c = records(3, &[], &[]);
    let manual = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    for (name, times) in [("first", 1), ("second", 2), ("third", 3)] {
        c.consumer(name, "g", &["t"], &["poll", "process 1ms"], &manual);
        c.run_ms(10_000);
        c.give(Command::Close(name.into()));
        c.run_ms(2_000);
        let ledger = c.ledger();
        let (_, record) = ledger.record_at(&tp("t-0"), Offset(2)).expect("the last one");
        assert_eq!(record.seen[0].processed, times);
        c.order("reset offsets of group g topic t to offset 2");
        c.run_ms(2_000);
    }
    assert_eq!(c.outcome_of("g", "t"), "delivered 3, processed 3, processed twice 1");
}

/// Thirty records of which a group has committed five when retention takes the oldest; who comes then, with this reset,
/// and a last record. Where the log begins, and what the group has met.
fn outrun(reset: &str) -> (i64, String) {
    let broker_config = config(&[("log.retention.check.interval.ms", "1000")]);
    let pairs = [("internal.segment.bytes", "800"), ("retention.bytes", "800")];
    let c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() });
    let mut c = c.topic("t", 1, 3, &pairs);
    c.producer("p", "t", "100/s", &[("batch.size", "0")]);
    let program = ["poll", "process 1ms", "commit"];
    let with = |reset| [("auto.offset.reset", reset), ("enable.auto.commit", "false")];
    c.send("p", 5);
    c.consumer("early", "g", &["t"], &program, &with("earliest"));
    c.until("five are processed", 20_000, |c| c.outcome_of("g", "t") == "delivered 5, processed 5");
    c.run_ms(1_000);
    c.give(Command::Close("early".into()));
    c.run_ms(1_000);
    c.send("p", 25);
    c.run_ms(40_000);
    c.consumer("late", "g", &["t"], &program, &with(reset));
    c.run_ms(20_000);
    c.send("p", 1);
    c.run_ms(5_000);
    (c.partition(1, "t-0").expect("the leader").log.log_start_offset().0, c.outcome_of("g", "t"))
}

#[test]
fn a53_who_comes_after_retention_misses_what_is_gone_and_with_latest_the_rest_too() {
    let (start, met) = outrun("earliest");
    let (read, gone) = (31 - (start - 5), start - 5);
    assert!(gone > 5, "{start}");
    assert_eq!(met, format!("delivered {read}, processed {read}, missed {gone}"));
    assert_eq!(outrun("latest"), (start, "delivered 6, processed 6, missed 25".to_owned()));
}

#[test]
fn what_falls_out_of_the_bound_is_counted_and_a_greater_bound_brings_it_back() {
    let c = records(20, &[], &[("batch.size", "0")]);
    let mut small = Ledger::new(5);
    small.follow(c.world.trace());
    assert_eq!(small.batches().map(|batch| batch.records.len()).sum::<usize>(), 5);
    let (few, all) = (small.totals(), c.ledger().totals());
    assert_eq!((few.forgotten, all.forgotten), (15, 0));
    assert_eq!(few.count(Count::Produced), all.count(Count::Produced));
    assert!(small.record_of(&"p".into(), 3).is_none());
    assert!(c.ledger().record_of(&"p".into(), 3).is_some());
}

/// The first example of a count is the one that came to it first, not the record that was made first.
#[test]
fn the_first_example_is_the_first_to_come_to_it() {
    let mut c = records(10, &[], &[("batch.size", "0")]);
    let manual = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    c.consumer("first", "g", &["t"], &["poll", "process 10ms"], &manual);
    c.run_ms(8_000);
    c.order("seek first t-0 to 6");
    c.run_ms(2_000);
    c.order("seek first t-0 to 2");
    c.run_ms(2_000);
    let (ledger, group) = (c.ledger(), GroupId::new("g"));
    let totals = ledger.totals();
    let of = totals.group(&group, &Within::All);
    let first = of.first_of(GroupCount::ProcessedTwice).expect("it read some twice");
    assert_eq!((of.count_of(GroupCount::ProcessedTwice), first.offset), (8, Some(Offset(6))));
    let all = ledger.occasions_of_groups(GroupCount::ProcessedTwice, Time::ZERO, 32);
    let offsets: Vec<i64> = all.iter().filter_map(|of| of.offset).map(|offset| offset.0).collect();
    assert_eq!(offsets, [6, 7, 8, 9, 2, 3, 4, 5]);
    let later = ledger.occasions_of_groups(GroupCount::ProcessedTwice, all[5].at.time, 2);
    assert_eq!(later, all[5..7]);
    assert_eq!(all.first(), Some(first));
    c.order("crash first");
    c.send("p", 1);
    c.run_ms(1_000);
    let waiting = c.ledger().occasions_of_groups(GroupCount::Waiting, Time::ZERO, 32);
    assert_eq!(waiting.iter().map(|of| of.offset).collect::<Vec<_>>(), [Some(Offset(10))]);
}

/// A client that lives and does not go on may still finish what it has; until then it is told of by name.
#[test]
fn what_a_client_has_in_hand_that_hangs_or_stands_still_is_stuck() {
    let mut c = records(10, &[], &[]);
    let manual = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    c.consumer("first", "g", &["t"], &["poll", "process 10ms", "commit"], &manual);
    c.order("hang first at process record t-0 offset 3");
    c.run_ms(10_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, in hand 7, stuck 7, processed 3");
    let (_, now) = story(&c, 5);
    let hangs = now.last().expect("how it stands");
    assert!(
        hangs.starts_with("first of group g has it in hand, and hangs at line 2, process 10ms since "),
        "{hangs}"
    );
    c.order("freeze first");
    let (_, now) = story(&c, 5);
    assert!(now.last().expect("how it stands").contains("stands still since"), "{now:?}");
    c.order("thaw first");
    c.order("wake first");
    c.run_ms(1_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 10");
}

/// R-CONS-17: who never processes lets go of what it has with its next poll(), and its commit goes past it.
#[test]
fn what_a_program_without_process_was_given_is_in_its_hand_until_its_next_poll() {
    let mut c = records(10, &[], &[]);
    c.consumer("first", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.until("it has all", 20_000, |c| c.outcome_of("g", "t") == "delivered 10, in hand 10");
    c.run_ms(2_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, waiting 10");
    c.run_ms(6_000);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, missed 10");
}

#[test]
fn an_attempt_that_is_not_kept_is_counted() {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    c.producer("p", "t", "100/s", &[]);
    for broker in [2, 3] {
        c.kill(broker);
    }
    c.until("only broker 1 is in sync", 30_000, |c| c.registration("t-0").ends_with("isr[1]"));
    c.send("p", 1);
    c.run_ms(60_000);
    let ledger = c.ledger();
    let batch = ledger.batches().last().expect("one is on its way");
    let attempts = i64::from(batch.sends.last().expect("sent").attempt);
    assert!(attempts > 20 && batch.sends.len() == 16, "{attempts}");
    assert_eq!(batch.unkept_sends, attempts - 16);
}
