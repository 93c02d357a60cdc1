//! Many seeds, on as many threads as there are processors.
//!
//! A panic is a fault too: it is caught, told with its seed, and the other seeds go on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::check::Check;
use super::counts::Counts;
use super::finders::finders;
use super::run::{self, Calm, Fault};
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub from: u64,
    pub seeds: u64,
    pub virtual_minutes: i64,
    pub threads: usize,
    /// How many of its last events a failure tells.
    pub last_events: usize,
}

/// A fault to plant, in a build that can, and the seeds to look for it in.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    pub plant: Plant,
    pub order: Order,
}

/// What came of a seed with a planted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catch {
    /// A check that has to find it found it, and the seed is calm without it.
    Found(Fault),
    /// It failed in another way, or fails without the fault too.
    Elsewhere(Fault),
    Nothing,
}

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub seeds: u64,
    pub events: u64,
    pub checks: u64,
    pub counts: Counts,
    pub virtual_ms: i64,
    /// In the order of their seeds.
    pub faults: Vec<Fault>,
}

impl Sum {
    fn add(&mut self, calm: Calm) {
        self.events += calm.events;
        self.checks += calm.checks;
        self.counts += calm.counts;
        self.virtual_ms += calm.virtual_ms;
    }
}

/// Runs the seeds; `tell` hears of each as it ends, from whichever thread ran it.
pub fn run(order: Order, tell: impl Fn(u64, &Result<Calm, Fault>) + Sync) -> Sum {
    let sum = Mutex::new(Sum::default());
    on_threads(order, |seed| {
        let outcome = run_caught(seed, order);
        tell(seed, &outcome);
        let mut sum = sum.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sum.seeds += 1;
        match outcome {
            Ok(calm) => sum.add(calm),
            Err(fault) => sum.faults.push(fault),
        }
        true
    });
    let mut sum = sum.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    sum.faults.sort_by_key(|fault| fault.seed);
    sum
}

/// Runs seeds with a planted fault until one finds it; gives what found it. `tell` hears of each seed as it ends.
pub fn hunt(hunt: Hunt, tell: impl Fn(u64, &Catch) + Sync) -> Option<Fault> {
    let found = Mutex::new(None);
    on_threads(hunt.order, |seed| {
        let catch = catch(hunt.plant, seed, hunt.order);
        tell(seed, &catch);
        let Catch::Found(fault) = catch else { return true };
        let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        found.get_or_insert(fault);
        false
    });
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn catch(planted: Plant, seed: u64, order: Order) -> Catch {
    plant::choose(Some(planted));
    let outcome = run_caught(seed, order);
    plant::choose(None);
    judge(planted, outcome, || run_caught(seed, order).is_ok())
}

fn judge(planted: Plant, outcome: Result<Calm, Fault>, is_calm_without: impl FnOnce() -> bool) -> Catch {
    match outcome {
        Ok(_) => Catch::Nothing,
        Err(fault) if finders(planted).contains(&fault.check) && is_calm_without() => Catch::Found(fault),
        Err(fault) => Catch::Elsewhere(fault),
    }
}

/// Has the seeds run, until one says that no further ones are needed.
fn on_threads(order: Order, run: impl Fn(u64) -> bool + Sync) {
    let (next, end) = (AtomicU64::new(order.from), order.from.saturating_add(order.seeds));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            if !run(seed) {
                next.store(end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..order.threads.max(1) {
            scope.spawn(work);
        }
    });
}

/// Runs one seed; a panic becomes its fault.
fn run_caught(seed: u64, order: Order) -> Result<Calm, Fault> {
    let run = || run::run_telling(seed, order.virtual_minutes, order.last_events);
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    outcome.unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let place = run::place();
        Err(Fault {
            seed,
            digest: place.digest,
            event: place.event,
            at: Time::ZERO,
            check: Check::Panic,
            what: format!("panic after this event: {message}"),
            before: Vec::new(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(check: Check) -> Fault {
        Fault { seed: 1, digest: 2, event: 3, at: Time::ZERO, check, what: String::new(), before: Vec::new() }
    }

    #[test]
    fn a_planted_fault_is_found_by_a_check_made_for_it_in_a_seed_that_is_calm_without_it() {
        let judged = |check, calm| judge(Plant::AckBeforeIsr, Err(fault(check)), || calm);
        assert_eq!(judged(Check::Acknowledged, true), Catch::Found(fault(Check::Acknowledged)));
        assert_eq!(judged(Check::Acknowledged, false), Catch::Elsewhere(fault(Check::Acknowledged)));
        for check in [Check::Panic, Check::Rest, Check::Outcome, Check::InSync] {
            assert_eq!(judged(check, true), Catch::Elsewhere(fault(check)));
        }
        assert_eq!(judge(Plant::AckBeforeIsr, Ok(Calm::default()), || true), Catch::Nothing);
    }
}
