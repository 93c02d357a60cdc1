//! The swarm: a few short seeds, and the tool around them. The long list of seeds is `cargo xtask test swarm`.

#![cfg(feature = "native")]

use std::process::{Command, Output};

use glassbroker::kafka::plant::{self, CAN_PLANT};
use glassbroker::swarm::finders::finders;
use glassbroker::swarm::{Counts, pool, run};

fn glassbroker(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassbroker"));
    command.arg("swarm").args(arguments).output().expect("the tool starts")
}

fn check_refused(arguments: &[&str], message: &str) {
    let output = glassbroker(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.lines().next(), Some(message), "{arguments:?}");
}

#[test]
fn a_seed_is_one_run() {
    let first = run::run(7, 1).expect("the seed is calm");
    assert_eq!(run::run(7, 1), Ok(first));
    assert_ne!(run::run(8, 1).expect("the seed is calm").digest, first.digest);
    assert!(first.events > 1_000 && first.checks > 0, "{first:?}");
}

/// D-6, in strict mode for seed 0.
#[test]
fn short_storms_break_no_invariant_and_come_to_rest() {
    let order = pool::Order { from: 0, seeds: 8, virtual_minutes: 1, threads: 2, last_events: 40 };
    let sum = pool::run(order, |_, _| {});
    assert_eq!((sum.seeds, sum.faults.len()), (8, 0), "{:#?}", sum.faults);
}

/// Seeds that each have several kinds of what is counted, and each kind is in at least two; the last three have transactions.
const COUNTED: [u64; 14] = [1, 31, 41, 50, 61, 66, 82, 88, 142, 169, 330, 1_000_009, 1_000_017, 1_000_019];

/// A calm run says little if nothing was compared in it, or nothing happened.
#[test]
fn a_few_storms_have_something_of_each_kind() {
    let mut counts = Counts::default();
    for seed in COUNTED {
        counts += run::run(seed, 1).unwrap_or_else(|fault| panic!("{fault:#?}")).counts;
    }
    for (what, count) in counts.named() {
        assert!(count > 0, "no {what}: {counts:?}");
    }
}

/// A consumer told a standing session only what had changed since it forgot all metadata, and kept asking for a partition
/// of which it no longer knew the topic.
#[test]
fn a_consumer_that_forgets_its_metadata_lists_anew_what_it_fetches() {
    run::run(105, 1).unwrap_or_else(|fault| panic!("{fault:#?}"));
}

#[test]
fn what_the_swarm_cannot_do_is_said_with_exit_code_2() {
    check_refused(&["--seeds", "none"], "error: --seeds needs a number from 1, not \"none\"");
    check_refused(&["--seeds", "0"], "error: --seeds needs a number from 1, not \"0\"");
    check_refused(&["--from"], "error: --from needs a value");
    check_refused(&["--sedes", "1"], "error: there is no argument --sedes");
    check_refused(&["--plant", "weeds"], "error: \"weeds\" is none of the faults that --plants lists");
    if !CAN_PLANT {
        check_refused(
            &["--plant", "hw-before-isr"],
            "error: this build cannot plant a fault; build it with --features plant",
        );
    }
}

#[test]
fn the_faults_that_can_be_planted_are_listed_with_who_finds_them_without_the_feature_too() {
    let output = glassbroker(&["--plants"]);
    let listed = String::from_utf8(output.stdout).expect("names are text");
    assert!(output.status.success());
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let expected = plant::named().map(|(name, plant)| {
        let checks: Vec<&str> = finders(plant).iter().map(|check| check.name()).collect();
        words(&format!("{name} {}", checks.join(", ")))
    });
    assert_eq!(listed.lines().map(words).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// Found by a check that is made for it, in a seed that is calm without it.
#[cfg(feature = "plant")]
#[test]
fn planted_faults_are_found_by_the_checks_that_name_them() {
    for (name, plant) in plant::named() {
        let from = glassbroker::swarm::finders::first_seed(plant);
        let order = pool::Order { from, seeds: 60, virtual_minutes: 5, threads: 2, last_events: 40 };
        let found = pool::hunt(pool::Hunt { plant, order }, |_, _| {});
        let check = found.unwrap_or_else(|| panic!("{name} was not found")).check;
        assert!(finders(plant).contains(&check), "{name} by {check}");
    }
}
