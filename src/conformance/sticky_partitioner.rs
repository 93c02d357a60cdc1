//! 11a: where the producer puts records that have no key.
//!
//! **Invariant:** a step draws exactly the random numbers that Kafka drew.

use serde::Deserialize;

use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::client::partitioner::{Choices, StickyPartitioner, WeighedQueue};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    partitions: i32,
    without_leader: Vec<i32>,
    sticky_batch_size: i32,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    LoadStats {
        queue_sizes: Vec<i32>,
        length: usize,
        cumulative_end: Option<i32>,
    },
    Append {
        partition: i32,
        bytes: i32,
        enable_switch: bool,
        switched: bool,
        random_used: Vec<i32>,
        next_partition: i32,
    },
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "11a_sticky_partitioner.json", |_, case: &Case| Ok(live(case)))
}

fn live(case: &Case) -> Result<(), Failure> {
    let available: Vec<i32> =
        (0..case.partitions).filter(|partition| !case.without_leader.contains(partition)).collect();
    let choices = Choices { available: &available, partitions: case.partitions };
    let mut sticky = StickyPartitioner::new(case.sticky_batch_size);
    for (number, step) in case.steps.iter().enumerate() {
        let place = |what: &str| format!("{} step {number}: {what}", case.name);
        match step {
            Step::LoadStats { queue_sizes, length, cumulative_end } => {
                let weighed = (0..).zip(queue_sizes).take(*length);
                let queues =
                    weighed.map(|(partition, batches)| WeighedQueue { partition, batches: *batches });
                sticky.weigh(&queues.collect::<Vec<_>>(), queue_sizes.len());
                check(|| place("cumulative_end"), cumulative_end, &sticky.weights())?;
            }
            Step::Append { partition, bytes, enable_switch, switched, random_used, next_partition } => {
                let mut drawn = 0;
                let mut draw = || {
                    drawn += 1;
                    random_used.get(drawn - 1).copied().unwrap_or(0)
                };
                check(|| place("partition"), partition, &sticky.current(choices, &mut draw))?;
                let switches = sticky.on_appended(*bytes, *enable_switch, choices, &mut draw);
                check(|| place("switched"), switched, &switches)?;
                check(|| place("next_partition"), next_partition, &sticky.current(choices, &mut draw))?;
                check(|| place("random numbers"), &random_used.len(), &drawn)?;
            }
        }
    }
    Ok(())
}
