//! Runs of the default cluster, driven as a page drives them.

use super::*;
use crate::lab::pace::Reason;

const DEFAULT: &str = include_str!("../../../static/scenarios/default.toml");
const STRICT: Options = Options { seed: None, strict: true };

fn at(seconds: i64) -> Time {
    Time::from_ms(seconds * 1000)
}

/// The default cluster at a time in seconds.
fn session(seconds: i64) -> Session {
    let mut session = Session::open(DEFAULT, STRICT).expect("the default scenario is right");
    assert!(session.run_until(at(seconds), u64::MAX));
    session
}

fn told(session: &Session) -> String {
    session.narrative().iter().map(|(_, sentence)| format!("{sentence}\n")).collect()
}

/// The narrative has a line with each of these, in this order.
fn check_told(session: &Session, expected: &[&str]) {
    let told = told(session);
    let mut lines = told.lines();
    for part in expected {
        assert!(
            lines.any(|line| line.contains(part)),
            "{part:?} is not told after what is before it, in\n{told}"
        );
    }
}

#[test]
fn the_default_cluster_comes_up_and_its_group_gets_its_plan_before_the_page_opens() {
    let session = session(12);
    check_told(
        &session,
        &["started", "broker 1 registered", "topic orders created", "rebalance", "generation 1: consumer-a"],
    );
    assert_eq!(session.now(), session.scenario().start);
}

#[test]
fn a_dead_leader_is_fenced_and_replaced_and_the_narrative_says_so() {
    let mut session = session(12);
    session.command("kill broker 3").expect("broker 3 is there");
    session.run_until(at(30), u64::MAX);
    check_told(
        &session,
        &[
            "broker 3 killed",
            "checkout-api lost its connection to broker 3",
            "broker 3 fenced",
            "leader moved from broker 3 to ",
        ],
    );
    check_told(&session, &["broker 3 fenced", "acknowledged after"]);
    session.command("start broker 3").expect("broker 3 is dead");
    session.run_until(at(60), u64::MAX);
    check_told(
        &session,
        &["broker 3 fenced", "broker 3 started", "broker 3 unfenced", "broker 3 is back in the ISR"],
    );
}

#[test]
fn a_third_consumer_joins_by_a_command_that_leaves_the_rest_open() {
    let mut session = session(12);
    session.command("add consumer consumer-c to billing").expect("billing has members to be like");
    let whole = "add consumer consumer-c to billing topics orders program \"poll; process 20ms; commit\" \
                 auto.offset.reset=earliest enable.auto.commit=false";
    let journal: Vec<&str> = session.journal().entries().iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(journal, [whole]);
    session.run_until(at(20), u64::MAX);
    check_told(&session, &["consumer-c joins", "generation 2: consumer-a", "consumer-c owns orders-"]);
}

#[test]
fn a_refused_command_changes_nothing() {
    let mut refused = session(12);
    for text in [
        "kil broker 3",
        "kill broker 9",
        "start broker 1",
        "close nobody",
        "add consumer x to audit topics orders program commit",
        "add consumer consumer-a to billing",
        "add producer p to orders acks=7",
    ] {
        let before = (refused.digest(), refused.events_done(), refused.world().trace().len_ever());
        let failure = refused.command(text).map(|()| text).unwrap_err();
        let after = (refused.digest(), refused.events_done(), refused.world().trace().len_ever());
        assert_eq!(before, after, "{text}: {failure}");
    }
    assert_eq!(refused.journal().entries(), []);
    refused.run_until(at(20), u64::MAX);
    assert_eq!(refused.digest(), session(20).digest(), "the run goes on unchanged");
}

#[test]
fn what_the_cluster_refuses_is_told_with_kafkas_error() {
    let mut session = session(12);
    let mut check = |text: &str, error: &str| {
        session.command(text).expect("the cluster judges it, not the session");
        session.run_until(session.now().plus_ms(1000), u64::MAX);
        check_told(&session, &[&format!("refused with {error}: {text}")]);
    };
    check("create topic x partitions 0 replication-factor 3", "INVALID_PARTITIONS");
    check("create topic x partitions 1 replication-factor 4", "INVALID_REPLICATION_FACTOR");
    check("create topic orders partitions 1 replication-factor 1", "TOPIC_ALREADY_EXISTS");
    check("create topic x partitions 1 replication-factor 1 min.insync.replicas=0", "INVALID_CONFIG");
    check("set topic orders min.insync.replicas=0", "INVALID_CONFIG");
    check("set topic orders no.such.config=1", "INVALID_CONFIG");
    check("set topic nothing min.insync.replicas=1", "UNKNOWN_TOPIC_OR_PARTITION");
}

#[test]
fn the_same_scenario_and_seed_give_the_same_run_and_another_seed_another() {
    let digest = |seed| {
        let mut session = Session::open(DEFAULT, Options { seed, strict: false }).expect("it is right");
        session.run_until(at(20), u64::MAX);
        (session.digest(), told(&session))
    };
    assert_eq!(digest(None), digest(Some(42)));
    assert_ne!(digest(None).0, digest(Some(43)).0);
    assert_eq!(digest(None).0, session(20).digest(), "strict mode changes nothing");
}

#[test]
fn how_far_a_frame_gets_never_changes_what_happens() {
    let mut small = Session::open(DEFAULT, STRICT).expect("it is right");
    for ms in (0..=12_000).step_by(7) {
        while !small.run_until(Time::from_ms(ms), 3) {}
    }
    let mut stepped = Session::open(DEFAULT, STRICT).expect("it is right");
    while stepped.world().next_at().is_some_and(|next| next <= at(12)) {
        stepped.step();
    }
    stepped.run_until(at(12), 1);
    small.run_until(at(12), u64::MAX);
    let whole = session(12);
    assert_eq!((small.digest(), stepped.digest()), (whole.digest(), whole.digest()));
    assert_eq!((told(&small), told(&stepped)), (told(&whole), told(&whole)));
}

#[test]
fn scenario_and_journal_are_the_whole_run() {
    let mut first = session(9);
    first.command("kill broker 2").expect("broker 2 is there");
    for _ in 0..500 {
        first.step();
    }
    first.command("add consumer consumer-c to billing").expect("billing has members to be like");
    first.run_until(at(25), u64::MAX);
    first.command("start broker 2").expect("broker 2 is dead");
    first.command("pause checkout-api").expect("checkout-api runs");
    first.run_until(at(40), u64::MAX);
    let second = first.replay();
    assert_eq!(second.failures(), []);
    assert_eq!((second.digest(), second.journal()), (first.digest(), first.journal()));
    assert_eq!(told(&second), told(&first));
}

#[test]
fn the_next_change_is_the_next_sentence() {
    let mut session = session(12);
    session.command("kill broker 3").expect("broker 3 is there");
    let number = session.narrative().len_ever();
    assert!(!session.run_to_next_change(0));
    assert!(session.run_to_next_change(100_000));
    assert!(session.narrative().len_ever() > number);
    let last = session.narrative().last().map(|sentence| sentence.time);
    assert!(last.is_some_and(|time| time <= session.now()));
}

#[test]
fn the_situation_tells_traffic_from_a_rebalance() {
    let mut session = session(20);
    let mut seen = Vec::new();
    let mut pace = pace::Pace::default();
    let mut watch = |session: &mut Session, frames: i32| {
        for _ in 0..frames {
            let frame = pace.frame(16.0, &session.situation());
            let until = session.now().plus_us(frame.virtual_us);
            session.run(until, u64::MAX, frame.stops_at());
            if seen.last() != Some(&frame.reason) {
                seen.push(frame.reason);
            }
        }
        std::mem::take(&mut seen)
    };
    assert_eq!(watch(&mut session, 1000), [Reason::TrafficBegins, Reason::TrafficGoesOn]);
    session.command("close consumer-b").expect("consumer-b runs");
    let rebalance = watch(&mut session, 2000);
    assert_eq!(rebalance[0], Reason::JustChanged);
    for reason in [Reason::GroupRequests, Reason::TrafficBegins] {
        assert!(rebalance.contains(&reason), "{reason:?}: {rebalance:?}");
    }
    session.run_until(at(60), u64::MAX);
    assert_eq!(watch(&mut session, 1000).last(), Some(&Reason::TrafficGoesOn));
}

/// The seconds on the watch of a person who sees frames of 16 ms at automatic speed, until each of these is told in
/// this order.
fn watched(session: &mut Session, parts: &[&str]) -> Vec<f64> {
    let mut pace = pace::Pace::default();
    let (mut heard, mut frames) = (session.narrative().len_ever(), 0);
    let mut until_told = |part: &str| loop {
        let told = session.narrative().since(heard).find(|(_, told)| told.title.contains(part));
        if let Some((number, _)) = told {
            heard = number;
            return f64::from(frames) * 0.016;
        }
        let frame = pace.frame(16.0, &session.situation());
        let until = session.now().plus_us(frame.virtual_us);
        session.run(until, u64::MAX, frame.stops_at());
        frames += 1;
        assert!(frames < 10_000, "{part} is not told within {frames} frames");
    };
    parts.iter().map(|part| until_told(part)).collect()
}

/// What the last of these takes is within `seconds` of a person's time.
fn check_watched(
    session: &mut Session,
    command: &str,
    parts: &[&str],
    seconds: std::ops::RangeInclusive<f64>,
) {
    session.command(command).expect("the command is right");
    let watched = watched(session, parts);
    assert!(watched.last().is_some_and(|last| seconds.contains(last)), "{command}: {parts:?} at {watched:?}");
}

#[test]
fn at_automatic_speed_a_fault_and_its_outcome_take_a_quarter_of_a_minute_to_watch() {
    let mut session = session(12);
    session.look_anew();
    check_watched(
        &mut session,
        "kill broker 3",
        &["broker 3 fenced", "leader moved from broker 3 to broker 1"],
        4.0..=8.0,
    );
    check_watched(&mut session, "start broker 3", &["unfenced", "orders-1: broker 3 is back"], 6.0..=17.0);
    let joined = ["consumer-c joins", "gave up", "generation 2:", "consumer-c reads"];
    check_watched(&mut session, "add consumer consumer-c to billing", &joined, 8.0..=16.0);
    session.run_until(session.now().plus_ms(5000), u64::MAX);
    check_watched(&mut session, "crash consumer-b", &["removed", "generation 3:", "reads"], 6.0..=15.0);
}

#[test]
fn after_a_leaders_death_its_partition_has_traffic_again_in_about_a_quarter_of_a_minute() {
    let mut session = session(12);
    let again =
        ["broker 3 fenced", "leader moved from broker 3 to broker 1", "record of orders-2 acknowledged"];
    check_watched(&mut session, "kill broker 3", &again, 6.0..=16.0);
}

#[test]
fn the_active_controller_dies_and_another_takes_over_r_ctrl_7() {
    let mut session = session(12);
    let active = session.world().active_controller().expect("one was elected").id();
    session.command(&format!("kill controller {active}")).expect("it runs");
    session.run_until(at(13), u64::MAX);
    assert!(session.situation().missing, "the others have not noticed yet");
    session.run_until(at(17), u64::MAX);
    assert!(!session.situation().missing);
    check_told(
        &session,
        &[
            "elected by 2 of 3 votes: it is active from epoch 1",
            &format!("controller {active} killed"),
            "stands for election in epoch 2",
            "elected by 2 of 3 votes",
        ],
    );
    session.command("kill controller 104").expect_err("there is none");
}

#[test]
fn the_story_of_a_record_that_the_ledger_let_go_is_lived_again() {
    let whole = || {
        let mut session = Session::open(DEFAULT, Options::default()).expect("the scenario is right");
        session.run_until(Time::from_ms(13_000), u64::MAX);
        session
    };
    let mut short = Session::open(DEFAULT, Options::default()).expect("the scenario is right");
    short.ledger = Ledger::new(20);
    short.run_until(Time::from_ms(13_000), u64::MAX);
    assert!(short.ledger.has_forgotten() && short.ledger.story_named("checkout-api", 1).is_none());
    let (told, expected) = (short.ask("story checkout-api 1"), whole().ask("story checkout-api 1"));
    assert_eq!(told, expected);
    assert!(told.is_some_and(|told| told.is_ok_and(|lines| lines.len() > 2)));
    assert!(short.ask("story checkout-api 100000").is_some_and(|told| told.is_err()));
}
