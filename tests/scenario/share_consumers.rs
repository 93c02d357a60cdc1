//! Share consumers: records that are handed out one by one under a lock, to whoever of the group asks (EX-33, A71, R-SHARE).

use glassbroker::client::consumer::Line;
use glassbroker::client::share_consumer::{ShareConsumer, ShareConsumerSpec};
use glassbroker::kafka::event::{Event, ShareEvent, ShareOutcome};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::share::{RecordState, SharePartition};
use glassbroker::kafka::types::{ClientName, Offset};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, config, tp};

pub const EXPLICIT: (&str, &str) = ("share.acknowledgement.mode", "explicit");

/// A cluster whose group `g` begins with the first record there is.
pub fn earliest(partitions: i32) -> Cluster {
    let mut c = cluster(3).topic("t", partitions, 3, &[]);
    set_group(&mut c, "share.auto.offset.reset", "earliest");
    c
}

fn set_group(c: &mut Cluster, key: &str, value: &str) {
    let value = Some(value.to_owned());
    c.give(Command::SetGroupConfig { group: "g".into(), key: key.to_owned(), value });
    c.run_ms(1_000);
}

/// So many records, which are committed.
pub fn write(c: &mut Cluster, records: i64) {
    let name = format!("p{}", c.world.processes().count());
    c.producer(&name, "t", "100/s", &[]);
    c.send(&name, records);
    c.until("they are acknowledged", 10_000, |c| c.producer_state(&name).counts().acknowledged >= records);
    assert_eq!(c.producer_state(&name).counts().acknowledged, records);
}

pub fn share(c: &mut Cluster, name: &str, program: &[&str], pairs: &[(&str, &str)]) {
    let program = Line::parse_program(program).expect("a program");
    let spec = ShareConsumerSpec {
        name: name.into(),
        group: "g".into(),
        topics: vec!["t".into()],
        program,
        config: config(pairs),
    };
    c.give(Command::AddShareConsumer(spec));
}

fn consumer<'a>(c: &'a Cluster, name: &str) -> &'a ShareConsumer {
    c.world.share_consumer(&ClientName::new(name)).unwrap_or_else(|| panic!("no share consumer {name}"))
}

/// What poll() returned to a consumer: partition, offset and delivery count.
pub fn delivered(c: &Cluster, name: &str) -> Vec<(i32, i64, i16)> {
    let mut all = Vec::new();
    for event in c.events() {
        if let Event::Share(ShareEvent::Delivered { client, tp, records, .. }) = event
            && client.as_str() == name
        {
            all.extend(records.iter().map(|(offset, count)| (tp.partition, offset.0, *count)));
        }
    }
    all
}

/// The share partition at whichever broker leads it.
fn shared<'a>(c: &'a Cluster, partition: &str) -> Option<&'a SharePartition> {
    let controller = c.world.active_controller()?;
    let leader = controller.image().partition(&tp(partition))?.leader;
    let broker = c.world.broker(leader)?;
    let topic_id = controller.image().topic(&tp(partition).topic)?.id;
    let mut partitions = broker.shares().partitions();
    let found =
        partitions.find(|(key, _)| (key.topic_id, key.partition) == (topic_id, tp(partition).partition));
    found.map(|(_, partition)| partition)
}

fn start(c: &Cluster, partition: &str) -> i64 {
    shared(c, partition).map_or(-1, |partition| partition.start_offset().0)
}

/// State and delivery count of a record in flight.
fn state(c: &Cluster, partition: &str, offset: i64) -> Option<(RecordState, i16)> {
    let mut in_flight = shared(c, partition)?.in_flight();
    let holds =
        |range: &glassbroker::kafka::share::OffsetRange| range.first.0 <= offset && offset <= range.last.0;
    let found = in_flight.find(|(range, _)| holds(range));
    found.map(|(_, state)| (state.state(), state.delivery_count()))
}

fn outcomes(c: &Cluster) -> Vec<(i64, i64, ShareOutcome, i16)> {
    let mut all = Vec::new();
    for event in c.events() {
        if let Event::Share(
            ShareEvent::Acknowledged { changes, .. }
            | ShareEvent::LocksEnded { changes, .. }
            | ShareEvent::GivenBack { changes, .. },
        ) = event
        {
            let shape = |change: &glassbroker::kafka::event::ShareChange| {
                (change.range.first.0, change.range.last.0, change.outcome, change.delivery_count)
            };
            all.extend(changes.iter().map(shape));
        }
    }
    all
}

#[test]
fn ex_33_each_record_has_its_own_fate_and_the_start_waits_for_the_slowest_r_share_5_8_11() {
    let mut c = earliest(1);
    write(&mut c, 5);
    let program = [
        "poll",
        "accept offset 0",
        "accept offset 1",
        "accept offset 3",
        "release offset 2",
        "commit",
        "process 20s",
        "accept",
    ];
    share(&mut c, "s1", &program, &[EXPLICIT]);
    c.until("0 and 1 are done", 10_000, |c| start(c, "t-0") == 2);
    let acquired_at =
        c.time_of("s1 has acquired", |event| matches!(event, Event::Share(ShareEvent::Acquired { .. })));
    assert_eq!(delivered(&c, "s1"), (0..5).map(|offset| (0, offset, 1)).collect::<Vec<_>>());
    assert_eq!(shared(&c, "t-0").map(|partition| partition.end_offset()), Some(Offset(4)));
    assert_eq!(state(&c, "t-0", 4), Some((RecordState::Acquired, 1)));

    share(&mut c, "s2", &["poll", "release offset 4", "accept"], &[EXPLICIT]);
    c.until("2 and 3 are done", 10_000, |c| start(c, "t-0") == 4);
    assert_eq!(delivered(&c, "s2"), [(0, 2, 2)]);

    let ended_at = c.until_event("the lock ends", 40_000, |event| {
        matches!(event, Event::Share(ShareEvent::LocksEnded { .. }))
    });
    assert_eq!(ended_at - acquired_at, 30_000, "R-SHARE-7");
    c.until("4 is done", 60_000, |c| start(c, "t-0") == 5);
    let tries: Vec<(i32, i64, i16)> = (2..=5).map(|count| (0, 4, count)).collect();
    assert_eq!(delivered(&c, "s2")[1..], tries, "five times in all");
    assert_eq!(outcomes(&c).last(), Some(&(4, 4, ShareOutcome::Worn, 5)));

    // s1 comes to it when it is done: what is said of it then is passed over.
    c.until_event("s1 says its word too late", 120_000, |event| {
        matches!(event, Event::Share(ShareEvent::Heard { client, error: None, said, .. })
            if client.as_str() == "s1" && said.iter().any(|(offset, _)| *offset == Offset(4)))
    });
    assert_eq!(outcomes(&c).last(), Some(&(4, 4, ShareOutcome::Worn, 5)));
}

#[test]
fn a_lock_that_has_ended_is_another_members_and_the_old_one_is_refused_r_share_7() {
    let mut c = earliest(1);
    write(&mut c, 1);
    share(&mut c, "s1", &["poll", "process 32s"], &[]);
    c.until("s1 has it", 10_000, |c| !delivered(c, "s1").is_empty());
    share(&mut c, "s2", &["poll", "process 10s"], &[]);
    let refused = |event: &Event| {
        matches!(event, Event::Share(ShareEvent::Heard { client, error: Some(ErrorCode::InvalidRecordState), .. })
            if client.as_str() == "s1")
    };
    c.until_event("s1 accepts what s2 has by now", 60_000, refused);
    assert_eq!(delivered(&c, "s2"), [(0, 0, 2)]);
    assert_eq!(state(&c, "t-0", 0), Some((RecordState::Acquired, 2)));
    c.until("s2 accepts it", 20_000, |c| start(c, "t-0") == 1);
}

#[test]
fn a71_a_share_group_begins_with_what_comes_r_share_4() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    write(&mut c, 10);
    share(&mut c, "s1", &["poll", "process 1ms"], &[]);
    c.run_ms(20_000);
    assert_eq!(delivered(&c, "s1"), [], "share.auto.offset.reset is latest");
    write(&mut c, 3);
    c.run_ms(5_000);
    assert_eq!(delivered(&c, "s1"), [(0, 10, 1), (0, 11, 1), (0, 12, 1)]);
}

/// All four read the one partition, and a record that cannot be processed holds up none of the others.
#[test]
fn a71_more_members_than_partitions_work_and_a_poison_record_ends_after_five_tries_r_share_1_2_8() {
    let mut c = earliest(1);
    let names = ["s1", "s2", "s3", "s4"];
    for name in names {
        let program = ["poll", "process 300ms", "release offset 3", "accept"];
        share(
            &mut c,
            name,
            &program,
            &[EXPLICIT, ("max.poll.records", "1"), ("share.acquire.mode", "record_limit")],
        );
    }
    c.until("each has the partition", 30_000, |c| {
        names.iter().all(|name| consumer(c, name).assigned() == [tp("t-0")])
    });
    write(&mut c, 40);
    c.until("all is done", 60_000, |c| start(c, "t-0") == 40);
    let all: Vec<(i64, i16)> =
        names.iter().flat_map(|name| delivered(&c, name)).map(|(_, offset, count)| (offset, count)).collect();
    let of_3: Vec<i16> = {
        let mut counts: Vec<i16> =
            all.iter().filter(|(offset, _)| *offset == 3).map(|(_, count)| *count).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(of_3, [1, 2, 3, 4, 5]);
    assert_eq!(all.len(), 39 + 5, "every other record is delivered once");
    assert!(names.iter().all(|name| delivered(&c, name).len() > 4), "all work: {all:?}");
    let worn = outcomes(&c).into_iter().filter(|(_, _, outcome, _)| *outcome == ShareOutcome::Worn);
    assert_eq!(worn.collect::<Vec<_>>(), [(3, 3, ShareOutcome::Worn, 5)]);
}

/// Its connection is reset, so that its session ends at once: what it held goes to others without the lock's end. The
/// group hears of it only by the session timeout.
#[test]
fn a_crashed_consumers_records_are_given_back_at_once_r_share_14() {
    let mut c = earliest(1);
    write(&mut c, 2);
    share(&mut c, "s1", &["poll", "process 60s"], &[]);
    c.until("s1 holds both", 10_000, |c| delivered(c, "s1").len() == 2);
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.run_ms(10_000);
    assert_eq!(delivered(&c, "s2"), []);
    let crashed_at = c.now_ms();
    c.give(Command::Crash("s1".into()));
    c.until("s2 gets them", 10_000, |c| delivered(c, "s2") == [(0, 0, 2), (0, 1, 2)]);
    assert!(c.now_ms() - crashed_at < 1_000, "{}", c.now_ms() - crashed_at);
    c.until("they are done", 10_000, |c| start(c, "t-0") == 2);
}

/// A71: whoever stands still keeps its connections, and its locks end after 30 s.
#[test]
fn a_frozen_consumers_records_come_back_when_the_locks_end_r_share_7_8() {
    let mut c = earliest(1);
    write(&mut c, 2);
    share(&mut c, "s1", &["poll", "process 60s"], &[]);
    c.until("s1 holds both", 10_000, |c| delivered(c, "s1").len() == 2);
    let acquired_at =
        c.time_of("s1 has acquired", |event| matches!(event, Event::Share(ShareEvent::Acquired { .. })));
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.give(Command::Freeze(Target::Client("s1".into())));
    c.until("s2 gets them", 60_000, |c| delivered(c, "s2") == [(0, 0, 2), (0, 1, 2)]);
    let waited = c.now_ms() - acquired_at;
    assert!((30_000..31_000).contains(&waited), "{waited}");
    c.until("they are done", 10_000, |c| start(c, "t-0") == 2);
    // It wakes up and accepts what is done, which is passed over.
    c.give(Command::Thaw(Target::Client("s1".into())));
    c.run_ms(200_000);
    assert_eq!((start(&c, "t-0"), state(&c, "t-0", 0)), (2, None));
}

#[test]
fn a_slow_consumer_that_renews_its_locks_keeps_its_records_r_share_6() {
    let mut c = earliest(1);
    write(&mut c, 1);
    // The poll() that sends the renewal returns nothing; the next one returns the record again.
    let program = ["poll 30s", "process 20s", "renew", "poll", "accept", "poll", "process 20s", "accept"];
    share(&mut c, "s1", &program, &[EXPLICIT]);
    c.until("s1 has it", 10_000, |c| !delivered(c, "s1").is_empty());
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.until("it is done", 60_000, |c| start(c, "t-0") == 1);
    assert_eq!((delivered(&c, "s1"), delivered(&c, "s2")), (vec![(0, 0, 1), (0, 0, 1)], vec![]));
    assert_eq!(outcomes(&c), [(0, 0, ShareOutcome::Renewed, 1), (0, 0, ShareOutcome::Accepted, 1)]);
}

/// close() accepts nothing, even with implicit acknowledgement: what was processed and not acknowledged is delivered
/// again, and so are records that were fetched and not returned.
#[test]
fn who_closes_gives_back_what_it_did_not_acknowledge_r_share_13_14() {
    let mut c = earliest(1);
    write(&mut c, 4);
    share(&mut c, "s1", &["poll", "process 100ms"], &[("max.poll.records", "2")]);
    c.until("s1 works", 10_000, |c| delivered(c, "s1").len() == 2);
    c.give(Command::Close("s1".into()));
    c.until("s1 has left", 10_000, |c| {
        c.events().any(|event| {
            matches!(event, Event::Process { name, act: glassbroker::kafka::event::Act::Ended, .. } if name.as_str() == "s1")
        })
    });
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.until("all is done", 20_000, |c| start(c, "t-0") == 4);
    let of_s1 = delivered(&c, "s1").len() as i64;
    let counts: Vec<(i64, i16)> =
        delivered(&c, "s2").into_iter().map(|(_, offset, count)| (offset, count)).collect();
    assert_eq!(counts.iter().filter(|(_, count)| *count == 2).count() as i64, of_s1, "{counts:?}");
    assert_eq!(counts.len(), 4);
}

/// What was held when the leader changed comes back with the next delivery count once the old leader has let its locks
/// end, or at once if it was not persisted; late words of the old holder fail (R-SHARE-14).
#[test]
fn a_new_leader_hands_out_again_what_was_held_r_share_14() {
    let mut c = earliest(1);
    write(&mut c, 6);
    let program = ["poll", "accept offset 0", "accept offset 2", "commit", "process 5s", "accept"];
    share(&mut c, "s1", &program, &[EXPLICIT]);
    c.until("0 and 2 are accepted", 10_000, |c| state(c, "t-0", 2) == Some((RecordState::Acknowledged, 1)));
    c.until("the start has moved", 10_000, |c| start(c, "t-0") == 1);
    c.run_ms(2_000);
    let leader = c
        .world
        .active_controller()
        .and_then(|controller| controller.image().partition(&tp("t-0")))
        .map(|p| p.leader.0);
    let leader = leader.expect("a leader");
    c.kill(leader);
    c.until("another leads", 30_000, |c| {
        shared(c, "t-0").is_some_and(|partition| partition.leader_epoch().0 > 0)
    });
    assert_eq!(start(&c, "t-0"), 1, "what was persisted is read back");
    c.until("all is done", 60_000, |c| start(c, "t-0") == 6);
    let again: Vec<i64> = delivered(&c, "s1")[6..].iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!(again, [1, 3, 4, 5], "what was accepted is not delivered again");
    let failed = c.events().any(|event| {
        matches!(event, Event::Share(ShareEvent::Heard { client, error: Some(_), .. }) if client.as_str() == "s1")
    });
    assert!(failed, "the acknowledgements of the others came too late");
}

#[test]
fn three_partitions_are_shared_out_and_every_record_is_done_r_share_2_11() {
    let mut c = earliest(3);
    for name in ["s1", "s2", "s3"] {
        share(&mut c, name, &["poll", "process 1ms"], &[]);
    }
    c.until("each has one", 30_000, |c| {
        ["s1", "s2", "s3"].iter().all(|name| consumer(c, name).assigned().len() == 1)
    });
    for _ in 0..3 {
        write(&mut c, 10);
    }
    c.until("all is done", 30_000, |c| {
        (0..3).map(|partition| start(c, &format!("t-{partition}")).max(0)).sum::<i64>() == 30
    });
}
