//! States that one can ask about: how each stands, and which event made it so.
//!
//! - [`isr`]: who is in sync
//! - [`high_watermark`]: what it waits for
//! - [`ownership`]: why a member has no partitions
//! - [`record`]: records read twice, or lost
//! - [`standing`]: leaders, log starts, what is committed, servers, clients, groups, lines of the narrative
//!
//! **Invariant:** a title says how things stand now; the event behind it is the newest one that made them so.

mod high_watermark;
mod isr;
mod ownership;
mod record;
mod standing;

use super::Explanation;
use super::past::Past;
use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::types::TopicPartition;
use crate::lab::command::Why;

/// The answer, or why there is none.
pub fn explain(past: &Past, why: &Why) -> Result<Explanation, String> {
    match why {
        Why::Isr(tp) => isr::explain(past, tp),
        Why::HighWatermark(tp) => high_watermark::explain(past, tp),
        Why::OwnsNothing(client) => ownership::explain(past, client),
        Why::ReadTwice { of, number } => record::read_twice(past, of, *number),
        Why::Lost { of, number } => record::lost(past, of, *number),
        Why::Leader(tp) => standing::leader(past, tp),
        Why::LogStart(tp) => standing::log_start(past, tp),
        Why::Lag { group, tp } => standing::lag(past, group, tp),
        Why::Committed { group, tp } => standing::committed(past, group, tp),
        Why::Event(number) => standing::event(past, *number),
        Why::Broker(id) => standing::server(past, (*id).into()),
        Why::Controller(id) => standing::server(past, (*id).into()),
        Why::Client(client) => standing::client(past, client),
        Why::Group(group) => standing::group(past, group),
        Why::Idle(_) | Why::IdleGroup(_) => Err("that is asked of the present alone".to_owned()),
    }
}

/// A partition as the cluster has it.
pub fn registration<'a>(past: &Past<'a>, tp: &TopicPartition) -> Result<&'a PartitionRegistration, String> {
    let found = past.world().newest_image().and_then(|image| image.partition(tp));
    found.map(|registration| &**registration).ok_or_else(|| format!("there is no partition {tp}"))
}
