//! How fast the engine is: what `glassbroker bench` prints natively and `cargo xtask bench-web` in a browser.
//!
//! - [`speed`]: the page's own cluster, and the memory it takes; [`growth`]: what a long run of it keeps
//! - [`engine`]: appends, replication, partitions, checkpoints; [`assign`]: the assignors
//!
//! Every figure is the median or the best of some runs. The clock is the caller's, for a browser has another one.

pub mod assign;
pub mod engine;
pub mod growth;
pub mod history;
pub mod speed;

use std::time::Duration;

/// The time since some moment that stays the same.
pub type Clock = fn() -> Duration;

/// The memory that the program holds, in bytes; it is the caller's to know.
pub type Memory = fn() -> u64;

const RUNS: usize = 5;

fn median<T: Copy + PartialOrd>(measure: impl FnMut() -> T) -> T {
    let mut runs: Vec<T> = std::iter::repeat_with(measure).take(RUNS).collect();
    runs.sort_by(|a, b| a.partial_cmp(b).expect("a measure is a number"));
    runs[RUNS / 2]
}

fn timed<T>(clock: Clock, work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = clock();
    let result = work();
    (clock() - begin, result)
}
