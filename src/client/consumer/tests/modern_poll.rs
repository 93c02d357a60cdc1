//! In which order the newer consumer's poll() goes about its work: R-CONS-35.

use super::modern::{RARELY, answer, in_epoch, member, member_reading_from};
use super::*;

/// Owns partition 0, and 1 since this moment, of which the committed offset is being asked for. The fetch of partition 0
/// from before is on its way to broker 1; broker 2 leads the other.
fn locating(config: &[(&str, &str)], committed: Option<i64>) -> Rig {
    let mut rig = member_reading_from([1, 2], &["poll", "process 1s"], &[&[RARELY], config].concat(), &[0]);
    rig.committed.remove(&1);
    rig.committed.extend(committed.map(|offset| (1, offset)));
    rig.held.insert(ApiKey::OffsetFetch);
    rig.run_until(5_000);
    answer(&mut rig, in_epoch(3, Some(&[0, 1])));
    rig.events.clear();
    rig
}

fn located(rig: &mut Rig) {
    rig.held.remove(&ApiKey::OffsetFetch);
    rig.settle();
}

/// The commits that are on their way: of which partitions and where.
fn commits(rig: &Rig) -> Vec<Vec<(i32, i64)>> {
    let commits = rig.pending.iter().filter(|pending| pending.request.api() == ApiKey::OffsetCommit);
    let positions = commits.map(|pending| {
        let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
        let partitions = commit.topics[0].partitions.iter();
        partitions.map(|p| (p.partition_index, p.committed_offset)).collect()
    });
    positions.collect()
}

/// What the background thread was asked for is done after poll() has returned. If answers wait then, the next poll() takes
/// them and asks for nothing: the interval commit waits for the one after it.
#[test]
fn a_poll_that_finds_answers_waiting_leaves_the_interval_commit_to_the_next_one_r_cons_35() {
    let mut rig = member(&["poll", "process 2s"], &[], &[0]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.deliver(1, &[(0, 3, 5)]);
    rig.events.clear();
    rig.run_until(6_000);
    rig.check_events(&["processed 0@0", "processed 0@1", "processed 0@2", "polled 2 of 0: 3..5"]);
    assert_eq!(commits(&rig), [[]; 0]);
    rig.run_until(10_000);
    assert_eq!(commits(&rig), [[(0, 5)]]);
}

#[test]
fn the_interval_commit_goes_before_records_are_taken_r_cons_35() {
    let mut rig = member(&["poll", "process 2s"], &[], &[0]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.run_until(6_000);
    rig.events.clear();
    rig.deliver(1, &[(0, 3, 5)]);
    rig.check_events(&["polled 2 of 0: 3..5"]);
    assert_eq!(commits(&rig), [[(0, 3)]], "what earlier polls returned");
}

/// Its gap between two polls is within the limit; but only every second one of them counts.
#[test]
fn a_poll_that_asks_for_nothing_does_not_begin_the_poll_interval_anew_r_cons_35() {
    let removed = |records: &[(i32, i64, i64)]| {
        let config = [RARELY, ("max.poll.interval.ms", "5000")];
        let mut rig = member(&["poll", "process 1s"], &config, &[0]);
        for answer in records {
            rig.deliver(1, &[*answer]);
        }
        rig.events.clear();
        rig.run_until(5_500);
        rig.events.iter().any(|event| event.contains("Lost")) || beat_says_goodbye(&rig)
    };
    assert!(!removed(&[(0, 0, 3)]), "a poll() at 3 s");
    assert!(removed(&[(0, 0, 3), (0, 3, 6)]), "the poll() at 3 s finds an answer, the next one is at 6 s");
}

fn beat_says_goodbye(rig: &Rig) -> bool {
    rig.pending.iter().any(|pending| match &*pending.request {
        Request::ConsumerGroupHeartbeat(beat) => beat.member_epoch < 0,
        _ => false,
    })
}

#[test]
fn a_reconciliation_goes_before_records_are_taken_and_before_the_interval_commit_r_cons_35() {
    let mut rig = member(&["poll", "process 2s"], &[], &[0, 1]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.run_until(5_000);
    answer(&mut rig, in_epoch(2, Some(&[0])));
    rig.run_until(6_000);
    rig.events.clear();
    rig.deliver(1, &[(0, 3, 4), (1, 0, 1)]);
    rig.check_events(&["polled 1 of 0: 3..4"]);
    assert_eq!(commits(&rig), [[(0, 3), (1, 0)]], "one commit, of both, as they were");
}

#[test]
fn while_a_position_is_looked_for_what_was_fetched_is_returned_and_fetched_on_r_cons_35() {
    let mut rig = locating(&[], Some(7));
    rig.deliver(1, &[(0, 0, 2)]);
    rig.check_events(&["polled 2 of 0: 0..2"]);
    assert_eq!(rig.fetching(1), [(0, 2)], "before poll() returns records it asks for the next");
}

#[test]
fn a_poll_without_records_fetches_nothing_until_all_positions_are_known_r_cons_35() {
    let mut rig = locating(&[], Some(7));
    let fetch = rig.fetch_at(1);
    rig.answer(&fetch, empty_answer(&fetch));
    rig.settle();
    assert_eq!(rig.count(ApiKey::Fetch), 0);
    located(&mut rig);
    assert_eq!((rig.fetching(1), rig.fetching(2)), (vec![(0, 0)], vec![(1, 7)]));
}

#[test]
fn the_background_thread_fetches_when_the_position_is_known_r_cons_35() {
    let mut rig = locating(&[], Some(7));
    rig.deliver(1, &[(0, 0, 2)]);
    assert_eq!(rig.count(ApiKey::Fetch), 1);
    located(&mut rig);
    assert!(matches!(rig.consumer.program().activity(), Activity::Processing { .. }));
    assert_eq!(rig.fetching(2), [(1, 7)]);
}

#[test]
fn what_an_answer_brings_is_thrown_by_the_next_poll_and_not_into_the_work_r_cons_11() {
    let mut rig = locating(&[("auto.offset.reset", "none")], None);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.events.clear();
    located(&mut rig);
    rig.check_events(&[]);
    rig.run_until(7_500);
    let told: Vec<&str> = rig.events.iter().map(String::as_str).take(3).collect();
    assert_eq!(told, ["processed 0@0", "processed 0@1", "no offset for [1]"]);
}
