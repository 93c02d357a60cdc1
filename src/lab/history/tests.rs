//! Going back and forth through random runs, compared with runs that never went back.

use proptest::prelude::*;

use super::*;

const DEFAULT: &str = include_str!("../../../static/scenarios/default.toml");
const OPTIONS: Options = Options { seed: None, strict: false };

/// Commands that may be given at any time; some are refused, which is as good.
const COMMANDS: [&str; 10] = [
    "kill broker 1",
    "kill broker 3",
    "start broker 1",
    "start broker 3",
    "freeze broker 2",
    "thaw broker 2",
    "add consumer consumer-c to billing",
    "close consumer-b",
    "pause checkout-api",
    "resume checkout-api",
];

fn at(ms: i64) -> Time {
    Time::from_ms(ms)
}

fn open() -> History {
    History::open(DEFAULT, OPTIONS).expect("the default scenario is right")
}

/// The run up to here without any going back.
fn straight(history: &History) -> Session {
    let mut straight = Session::open(DEFAULT, OPTIONS).expect("the default scenario is right");
    straight.follow(history.branch(history.current()).expect("it is there").journal().rewound());
    straight.go_to(history.present().position());
    straight
}

fn told(session: &Session) -> String {
    session.narrative().iter().map(|(_, sentence)| format!("{sentence}\n")).collect()
}

fn check_same_as_straight(history: &History) {
    let (straight, present) = (straight(history), history.present());
    assert_eq!(present.failures(), []);
    assert_eq!(straight.position(), present.position());
    assert_eq!(straight.digest(), present.digest(), "at {}", present.now());
    assert_eq!(straight.journal(), present.journal());
    assert_eq!(told(&straight), told(present));
    assert_eq!(straight.ledger().totals(), present.ledger().totals());
}

/// acks=1, and the leader dies with what its followers do not have yet (EX-8): the loss is a moment to go to.
#[test]
fn a_loss_has_a_mark_at_the_event_that_decides_it() {
    let text = DEFAULT
        .replace("acks = \"all\"", "acks = 1, \"linger.ms\" = 0")
        .replace("rate = \"12/s\"", "rate = \"200/s\"");
    let mut history = History::open(&text, OPTIONS).expect("the scenario is right");
    history.run(at(13_000), u64::MAX, StopsAt::Nothing);
    for command in [
        "slow broker 1 to broker 2 by 300ms",
        "slow broker 1 to broker 3 by 300ms",
        "slow broker 2 to broker 3 by 300ms",
    ] {
        history.command(command).expect("it runs");
    }
    history.run(at(15_000), u64::MAX, StopsAt::Nothing);
    history.command("kill broker 1").expect("it runs");
    history.run(at(40_000), u64::MAX, StopsAt::Nothing);
    let lost = history.present().ledger().totals().count(crate::lab::ledger::Count::Lost);
    let branch = history.branch(history.current()).expect("it is there");
    let losses: Vec<Mark> =
        branch.marks().iter().filter(|mark| mark.kind == MarkKind::Loss).copied().collect();
    assert!(lost > 0 && !losses.is_empty(), "{lost} lost, {losses:?}");
    history.go_to_mark(false, |kind| kind == MarkKind::Loss);
    assert_eq!(Some(history.present().now()), losses.last().map(|mark| mark.time));
    assert!(history.present().ledger().totals().count(crate::lab::ledger::Count::Lost) > 0);
}

#[test]
fn a_command_in_the_past_begins_a_branch_and_the_old_one_is_kept() {
    let mut history = open();
    history.run(at(20_000), u64::MAX, StopsAt::Nothing);
    history.command("kill broker 3").expect("broker 3 runs");
    history.run(at(40_000), u64::MAX, StopsAt::Nothing);
    let (end, first) = (history.end(), history.present().digest());

    assert!(history.go_to_mark(false, |kind| kind == MarkKind::Command));
    assert_eq!((history.present().now(), history.present().journal().entries().len()), (at(20_000), 1));
    assert!(history.go_to_mark(true, |kind| kind == MarkKind::Election));
    let elected_at = history.present().now();
    assert!(
        (at(28_000)..at(32_000)).contains(&elected_at),
        "its session ends 9 s after it was last heard: {elected_at}"
    );
    assert!(!history.go_to_mark(true, |kind| kind == MarkKind::Command), "there was only one");

    history.seek(at(25_000));
    assert!(history.is_in_the_past());
    assert_eq!(history.present().journal().entries().len(), 1, "it died before");
    history.command("kill broker 9").expect_err("there is no broker 9");
    assert_eq!((history.branches().count(), history.end()), (1, end), "a refused command begins nothing");

    history.command("start broker 3").expect("broker 3 is dead");
    let second = history.current();
    assert_eq!(
        history.branch(second).map(|branch| branch.name.as_str()),
        Some("start broker 3 at 00:25.000")
    );
    history.run(at(40_000), u64::MAX, StopsAt::Nothing);
    check_same_as_straight(&history);
    assert_ne!(history.present().digest(), first);
    let commands = |history: &History, id| {
        let marks = history.branch(id).expect("it is there").marks().iter();
        marks
            .filter(|mark| mark.kind == MarkKind::Command && mark.time > at(12_000))
            .map(|mark| mark.time)
            .collect::<Vec<_>>()
    };
    assert_eq!(commands(&history, second), [at(20_000), at(25_000)]);
    assert_eq!(commands(&history, BranchId::FIRST), [at(20_000)]);

    history.switch(BranchId::FIRST);
    assert_eq!((history.present().now(), history.present().digest()), (at(40_000), first));
    history.seek(at(30_000));
    history.switch(second);
    assert_eq!(history.present().now(), at(30_000));
    check_same_as_straight(&history);
    history.rename(second, "comes back");
    assert_eq!(
        history.branches().map(|(_, branch)| &*branch.name).collect::<Vec<_>>(),
        ["main", "comes back"]
    );
}

#[test]
fn commands_that_were_not_come_to_yet_are_kept_when_another_is_given_before_them() {
    let mut first = open();
    first.run(at(13_000), u64::MAX, StopsAt::Nothing);
    first.command("kill broker 3").expect("broker 3 runs");
    let mut again = open();
    again.follow(first.present().journal().rewound());
    again.run(at(12_500), u64::MAX, StopsAt::Nothing);
    assert_eq!(again.end().time, at(12_500), "it was never run further");
    again.command("kill broker 2").expect("broker 2 runs");
    assert_eq!((again.branches().count(), again.present().journal().to_come().len()), (2, 0));
    again.switch(BranchId::FIRST);
    again.run(at(14_000), u64::MAX, StopsAt::Nothing);
    assert_eq!(again.present().journal().entries()[0].text, "kill broker 3");
}

#[test]
fn what_was_done_is_done_again_when_a_rewound_run_plays_on() {
    let mut history = open();
    history.run(at(13_000), u64::MAX, StopsAt::Nothing);
    history.command("kill broker 3").expect("broker 3 runs");
    history.command("freeze broker 2").expect("broker 2 runs");
    history.run(at(20_000), u64::MAX, StopsAt::Nothing);
    let digest = history.present().digest();
    history.seek(at(5_000));
    assert_eq!(history.present().journal().to_come().len(), 2);
    history.run(at(20_000), u64::MAX, StopsAt::Nothing);
    assert_eq!(history.present().digest(), digest);
    assert!(!history.is_in_the_past());
    assert_eq!(history.branches().count(), 1);
}

#[test]
fn steps_back_take_events_back_one_by_one_and_commands_too() {
    let mut history = open();
    history.run(at(15_000), u64::MAX, StopsAt::Nothing);
    history.command("kill broker 3").expect("broker 3 runs");
    for _ in 0..30 {
        history.step();
    }
    let mut digests = Vec::new();
    for _ in 0..300 {
        digests.push((history.present().events_done(), history.present().digest()));
        assert!(history.step_back());
    }
    check_same_as_straight(&history);
    for (events, digest) in digests.into_iter().rev() {
        history.step();
        assert_eq!((history.present().events_done(), history.present().digest()), (events, digest));
    }
    let mut start = open();
    assert!(!start.step_back(), "nothing is before the start");
}

#[derive(Clone, Debug)]
enum Act {
    Run(i64),
    Steps(u16),
    Back(u8),
    Seek(i64),
    Command(usize),
    Switch(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..15_000_i64).prop_map(Act::Run),
        1 => (1..2_000_u16).prop_map(Act::Steps),
        1 => (1..5_u8).prop_map(Act::Back),
        3 => (0..60_000_i64).prop_map(Act::Seek),
        4 => (0..COMMANDS.len()).prop_map(Act::Command),
        1 => (0..6_usize).prop_map(Act::Switch),
    ]
}

fn carry_out(history: &mut History, act: &Act) {
    match act {
        Act::Run(ms) => {
            let until = history.present().now().plus_ms(*ms);
            history.run(until, u64::MAX, StopsAt::Nothing);
        }
        Act::Steps(steps) => (0..*steps).for_each(|_| {
            history.step();
        }),
        Act::Back(steps) => (0..*steps).for_each(|_| {
            history.step_back();
        }),
        Act::Seek(ms) => history.seek(at(*ms)),
        // Which of them may be given depends on the run.
        Act::Command(command) => drop(history.command(COMMANDS[*command])),
        Act::Switch(branch) => history.switch(BranchId(*branch)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn going_back_and_forth_through_branches_never_changes_what_happens(
        acts in prop::collection::vec(act(), 1..14),
    ) {
        let mut history = open();
        for act in &acts {
            carry_out(&mut history, act);
        }
        check_same_as_straight(&history);
        let ids: Vec<BranchId> = history.branches().map(|(id, _)| id).collect();
        for id in ids {
            history.switch(id);
            history.seek(Time::MAX);
            check_same_as_straight(&history);
        }
    }
}
