use super::table::{Compared, Row};
use super::*;
use crate::kafka::event::Event;
use crate::lab::ledger::{Count, GroupCount};
use crate::lab::measures::Measure;

const DEFAULT: &str = include_str!("../../../static/scenarios/default.toml");

fn at(ms: i64) -> Time {
    Time::from_ms(ms)
}

fn row(comparison: &Comparison, compared: Compared) -> Row {
    comparison.rows().into_iter().find(|row| row.compared == compared).expect("it is compared")
}

fn values(comparison: &Comparison, compared: Compared) -> [i64; 2] {
    row(comparison, compared).cells.map(|cell| cell.value)
}

fn history_up_to(ms: i64) -> History {
    let mut history = History::open(DEFAULT, Options::default()).expect("the scenario is right");
    history.run(at(ms), u64::MAX, StopsAt::Nothing);
    history
}

#[test]
fn two_futures_are_compared_from_where_they_parted() {
    let mut history = history_up_to(13_000);
    history.run(at(40_000), u64::MAX, StopsAt::Nothing);
    history.seek(at(15_000));
    history.command("kill broker 3").expect("it runs");
    history.run(at(35_000), u64::MAX, StopsAt::Nothing);
    let (before, digest) = (history.present().position(), history.present().digest());

    let mut comparison = Comparison::of_branches(&history, BranchId(0), BranchId(1)).expect("there are two");
    assert_eq!((comparison.from(), comparison.until()), (at(15_000), at(40_000)));
    assert!(comparison.run(comparison.until(), u64::MAX));
    let [leaderless, lost] = [Compared::Measure(Measure::LeaderlessUs), Compared::Records(Count::Lost)];
    let [left, right] = values(&comparison, leaderless);
    assert!(left == 0 && right > 7_000_000, "{left}, {right}");
    assert_eq!(values(&comparison, lost), [0, 0], "acks=all lost nothing");
    let since = row(&comparison, leaderless);
    assert!(matches!(since.since(), Some((1, (time, _))) if *time == at(15_000)), "{since:?}");
    let parting = comparison.parting().expect("one of them lost a broker");
    assert_eq!(parting.time, at(15_000));
    let [left, right] = &parting.sentences;
    assert!(
        left.is_none() && right.as_ref().is_some_and(|told| told.title.contains("broker 3")),
        "{parting:?}"
    );

    assert_eq!((history.present().position(), history.present().digest()), (before, digest));
    assert_eq!(
        Comparison::of_branches(&history, BranchId(1), BranchId(1)).err(),
        Some(CompareError::SameBranch)
    );
    assert_eq!(
        Comparison::of_branches(&history, BranchId(1), BranchId(7)).err(),
        Some(CompareError::NoBranch(8))
    );
}

/// Both sides of a comparison are the runs that the branches are: to the digest.
#[test]
fn each_side_is_the_run_of_its_branch() {
    let mut history = history_up_to(20_000);
    history.seek(at(14_000));
    history.command("crash consumer-a").expect("it runs");
    history.run(at(18_000), u64::MAX, StopsAt::Nothing);
    history.seek(at(16_000));
    history.command("kill broker 1").expect("it runs");
    history.run(at(20_000), u64::MAX, StopsAt::Nothing);
    let mut comparison =
        Comparison::of_branches(&history, BranchId(2), BranchId(0)).expect("there are three");
    assert_eq!(comparison.from(), at(14_000), "what the third shares with the first it has from the second");
    comparison.run(at(20_000), u64::MAX);
    for (side, branch) in [(0, 2), (1, 0)] {
        history.switch(BranchId(branch));
        history.seek(at(20_000));
        assert_eq!(comparison.sides()[side].run().digest(), history.present().digest(), "side {side}");
    }
}

fn changed(text: &str, journal: &[(i64, &str)], change: &str, until_ms: i64) -> Comparison {
    let mut history = History::open(text, Options::default()).expect("the scenario is right");
    for (ms, command) in journal {
        history.run(at(*ms), u64::MAX, StopsAt::Nothing);
        history.command(command).expect(command);
    }
    let run = history.present();
    let mut comparison = Comparison::of_change(run, run.journal(), change).expect(change);
    assert!(comparison.run(at(until_ms), u64::MAX));
    comparison
}

/// R-GRP-29, 30: eager members give everything up at a rebalance; cooperative ones what moves alone, for which they need a
/// second round.
#[test]
fn cooperative_members_keep_what_does_not_move_and_need_a_second_round() {
    let eager = DEFAULT.replace(
        "\"auto.offset.reset\" = \"earliest\"",
        "\"auto.offset.reset\" = \"earliest\", \"partition.assignment.strategy\" = \"roundrobin\"",
    );
    let journal = [(15_000, "add consumer consumer-c to billing")];
    let change = "consumers partition.assignment.strategy=cooperative-sticky";
    let comparison = changed(&eager, &journal, change, 30_000);
    let [once, twice] = values(&comparison, Compared::Measure(Measure::Rebalances));
    assert_eq!(twice, once + 1);
    let since = row(&comparison, Compared::Measure(Measure::Rebalances));
    let (side, (time, _)) = since.since().expect("there is one more");
    assert!(side == 1 && *time > at(15_000), "the round that only they have: {since:?}");
    let gaps = comparison.sides().each_ref().map(|side| {
        let spans = side.run().measures().spans(side.run().now());
        let of = |name: &str| {
            let of: Vec<_> =
                spans.iter().filter(|span| span.client.as_str() == name && span.until > at(15_000)).collect();
            of.windows(2).filter(|pair| pair[0].until < pair[1].from).count()
        };
        of("consumer-a") + of("consumer-b")
    });
    assert_eq!(
        gaps,
        [2, 0],
        "whoever had two partitions keeps one of them all the time, and the other its own"
    );
}

/// Members of the two protocols send other requests from the start, and the first sentences tell the same all the same.
#[test]
fn what_both_say_at_one_moment_is_no_parting() {
    let comparison = changed(DEFAULT, &[], "consumers group.protocol=consumer", 14_000);
    let parting = comparison.parting().expect("one group is of another protocol");
    let [left, right] = parting.sentences.each_ref().map(|told| told.as_ref().map(|told| &told.title));
    assert_ne!(left, right, "at {}", parting.time);
}

/// A49 by two runs: who commits first loses what a crash interrupts, who commits last repeats it.
#[test]
fn committing_before_processing_loses_what_committing_after_it_repeats() {
    let journal =
        [(13_000, "set pace of consumer-a to 400ms"), (16_000, "crash consumer-a at process passage 9")];
    let comparison = changed(DEFAULT, &journal, "programs commit before process", 75_000);
    let [after, before] = values(&comparison, Compared::ByGroups(GroupCount::Missed));
    assert!(after == 0 && before > 0, "missed: {after}, {before}");
    let [after, before] = values(&comparison, Compared::ByGroups(GroupCount::ProcessedTwice));
    assert!(after > 0 && before == 0, "processed twice: {after}, {before}");
    let since = |count| {
        let row = row(&comparison, Compared::ByGroups(count));
        let (side, (time, what)) = row.since().expect("they differ");
        (side, *time, what.to_string())
    };
    let (side, repeated_at, record) = since(GroupCount::ProcessedTwice);
    let told = comparison.sides()[side].run().world().trace().entries();
    let of_record = told.filter(|entry| match &entry.event {
        Event::Processed { tp, offset, .. } => record.starts_with(&format!("{tp} {offset} ")),
        _ => false,
    });
    let processed: Vec<Time> = of_record.map(|entry| entry.key.time).collect();
    assert!(side == 0 && processed.get(1) == Some(&repeated_at), "{record} {repeated_at} {processed:?}");
    let (side, missed_at, record) = since(GroupCount::Missed);
    let (_, crashed) = journal[1];
    assert!(
        side == 1 && missed_at > at(16_000) && missed_at < repeated_at,
        "{crashed}: {missed_at} {record}"
    );
    let table = comparison.tell().join("\n");
    assert!(table.contains("records missed by a group                              0"), "{table}");
    assert!(table.contains("A: as it is\nB: programs commit before process\n"), "{table}");
}

#[test]
fn a_change_that_cannot_be_is_refused_with_the_reason() {
    let history = history_up_to(1_000);
    let run = history.present();
    let check = |change: &str, reason: &str| {
        let error = Comparison::of_change(run, run.journal(), change).err().map(|error| error.to_string());
        assert!(error.as_deref().is_some_and(|error| error.contains(reason)), "{change}: {error:?}");
    };
    check("producers acks=all", "nothing in this run is otherwise");
    check("producers acks=some", "acks");
    check("consumers group.protocol=consumers", "group.protocol");
    check("share-consumers max.poll.records=1", "nothing in this run is otherwise");
    check("everything", "is no change");
}

#[test]
fn a_command_that_the_other_run_refuses_is_told() {
    let journal = [(13_000, "set topic orders min.insync.replicas=3")];
    let comparison = changed(DEFAULT, &journal, "topics min.insync.replicas=1", 14_000);
    assert_eq!(comparison.failures().count(), 0);
    let mut history = history_up_to(20_000);
    history.command("kill broker 3").expect("it runs");
    let entries = [(13_000, "kill broker 9")].map(|(ms, text)| Entry {
        place: crate::sim::Key { time: at(ms), sequence: 0 },
        text: text.to_owned(),
    });
    let journal = Journal::of(entries.to_vec()).expect("there is one");
    let mut comparison =
        Comparison::of_change(history.present(), &journal, "producers acks=1").expect("acks is all now");
    comparison.run(at(14_000), u64::MAX);
    let failures: Vec<(usize, String)> = comparison.failures().collect();
    assert_eq!(failures.iter().map(|(side, _)| *side).collect::<Vec<_>>(), [0, 1]);
    assert!(failures[0].1.starts_with("00:13.000 kill broker 9: "), "{failures:?}");
}
