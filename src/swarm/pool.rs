//! Many seeds, on as many threads as there are processors.
//!
//! A panic is a fault too: it is caught, told with its seed, and the other seeds go on.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::counts::Counts;
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
    /// The fault that is planted, in a build that can.
    pub plant: Option<Plant>,
    /// Ends at the first seed that fails.
    pub first_only: bool,
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
    let (next, end) = (AtomicU64::new(order.from), order.from.saturating_add(order.seeds));
    let sum = Mutex::new(Sum::default());
    let work = || {
        plant::choose(order.plant);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let outcome = run_caught(seed, order.virtual_minutes);
            tell(seed, &outcome);
            let mut sum = sum.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            sum.seeds += 1;
            match outcome {
                Ok(calm) => sum.add(calm),
                Err(fault) => {
                    sum.faults.push(fault);
                    if order.first_only {
                        next.store(end, Ordering::Relaxed);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..order.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    sum.faults.sort_by_key(|fault| fault.seed);
    sum
}

/// Runs one seed; a panic becomes its fault.
fn run_caught(seed: u64, virtual_minutes: i64) -> Result<Calm, Fault> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run::run(seed, virtual_minutes)));
    outcome.unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let place = run::place();
        Err(Fault {
            seed,
            digest: place.digest,
            event: place.event,
            at: Time::ZERO,
            what: format!("panic after this event: {message}"),
            before: Vec::new(),
        })
    })
}
