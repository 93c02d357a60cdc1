//! What a consumer waits for.

use super::super::cause::cluster::process_of;
use super::super::cause::group::{busy, last_plan};
use super::super::past::Past;
use super::{Unmet, group, left, partition};
use crate::client::consumer::config::IsolationLevel;
use crate::client::consumer::{Consumer, Waiting};
use crate::client::program::{Activity, Program};
use crate::kafka::event::{ConsumerGroupState, Event, TransactionEvent};
use crate::kafka::types::{ClientName, GroupId, Offset, ProducerId, TopicPartition, TransactionalId};
use crate::lab::words::{count, duration, list};
use crate::sim::Machine;

pub fn unmet(past: &Past, client: &ClientName, consumer: &Consumer) -> Option<Unmet> {
    let now = past.present().now();
    let group = &consumer.spec().group;
    let program = consumer.program();
    if let Some(unmet) = at_line(past, client, program) {
        return Some(unmet);
    }
    let what = match consumer.waiting() {
        Waiting::Nothing => return None,
        Waiting::Hanging { .. } => return hangs(past, client, program),
        Waiting::Choice => "has subscribed to nothing, and waits until it is told to".to_owned(),
        Waiting::ToFindCoordinator { retry_at } => {
            return Some(of_coordinator(past, group, &left(now, retry_at)));
        }
        Waiting::CoordinatorAnswer => return Some(of_coordinator(past, group, "")),
        Waiting::CommitBeforeJoin { until } => {
            format!("commits before it gives up its partitions{}", left(now, until))
        }
        Waiting::JoinBackoff { until } => {
            format!("joins {group} again with its next poll(){}", left(now, until))
        }
        Waiting::JoinAnswer { .. } | Waiting::SyncAnswer { .. } | Waiting::FirstHeartbeat => {
            return Some(in_group(past, group));
        }
        Waiting::MetadataForPlan { .. } => "waits for metadata, to plan for its group".to_owned(),
        Waiting::CommittedOffsets { retry_at } => {
            let left = retry_at.map(|at| left(now, at)).unwrap_or_default();
            format!("waits for the committed offsets of {group}{left}")
        }
        Waiting::OffsetReset => "waits for ListOffsets: it has no committed offset to begin at".to_owned(),
        Waiting::Validation => "asks a new leader whether its log holds what was read".to_owned(),
        Waiting::Commit { retry_at } => {
            let left = retry_at.map(|at| left(now, at)).unwrap_or_default();
            format!("waits in commitSync(){left}")
        }
        Waiting::LeaveAnswer => "waits for the answer to LeaveGroup, to close".to_owned(),
        Waiting::FetchSessionEnd => "waits for the brokers to end its fetch sessions, to close".to_owned(),
        Waiting::Records { .. } => return reading(past, client, consumer),
    };
    Some(Unmet::new(what))
}

/// The program's line takes its time.
pub(super) fn at_line(past: &Past, client: &ClientName, program: &Program) -> Option<Unmet> {
    let now = past.present().now();
    match program.activity() {
        Activity::Processing { until } if until.ms_since(now) > LONG_MS => {
            let what = format!("works on a record in the line {}{}", program.line(), left(now, until));
            Some(Unmet::new(what).since(busy(past, past.end(), client)))
        }
        Activity::Stopped => {
            Some(Unmet::new("has no program that runs").since(process_of(past, past.end(), client)))
        }
        _ => None,
    }
}

/// Processing for longer is worth a word.
const LONG_MS: i64 = 100;

pub(super) fn hangs(past: &Past, client: &ClientName, program: &Program) -> Option<Unmet> {
    let Activity::Hanging { since, until, .. } = program.activity() else { return None };
    let until = match until {
        Some(until) => left(past.present().now(), until),
        None => ", until it is woken".to_owned(),
    };
    let what = format!("hangs at the line {} since {since}{until}", program.line());
    Some(Unmet::new(what).since(busy(past, past.end(), client)))
}

pub(super) fn of_coordinator(past: &Past, group: &GroupId, left: &str) -> Unmet {
    let lost = past.newest(|event| matches!(event, Event::CoordinatorLost { group: of, .. } if of == group));
    Unmet::new(format!("looks for the coordinator of {group}{left}")).since(lost)
}

fn in_group(past: &Past, group: &GroupId) -> Unmet {
    match group::unmet(past, group) {
        Ok(Some(unmet)) => {
            Unmet::new(format!("waits for its group: {group} {}", unmet.what)).since(unmet.since)
        }
        _ => Unmet::new(format!("waits for the answer of the coordinator of {group}")),
    }
}

/// In poll(), and nothing comes.
fn reading(past: &Past, client: &ClientName, consumer: &Consumer) -> Option<Unmet> {
    let subscription = consumer.subscription();
    let group = &consumer.spec().group;
    let owned: Vec<TopicPartition> = subscription.partitions();
    if owned.is_empty() {
        return Some(match subscription.is_in_group() {
            true => owns_nothing(past, group),
            false => Unmet::new("has assigned nothing to itself"),
        });
    }
    let paused: Vec<&TopicPartition> =
        subscription.owned().iter().filter(|(_, owned)| owned.paused).map(|(tp, _)| tp).collect();
    if paused.len() == owned.len() {
        let event =
            past.newest(|event| matches!(event, Event::PartitionsPaused { client: of, .. } if of == client));
        return Some(Unmet::new(format!("has paused all that it owns: {}", list(&owned))).since(event));
    }
    let isolation = consumer.config().isolation;
    let behind = subscription.owned().iter().filter(|(_, owned)| !owned.paused).find_map(|(tp, owned)| {
        let position = owned.position()?.offset;
        behind_transaction(past, tp, position, isolation).or_else(|| unreachable(past, tp, position))
    });
    behind.or_else(|| at_the_end(past, client, consumer, &owned))
}

fn owns_nothing(past: &Past, group: &GroupId) -> Unmet {
    // What it is to have, somebody may not have given up yet.
    if group::modern(past.world(), group).is_some_and(|group| group.state() != ConsumerGroupState::Stable)
        && let Ok(Some(unmet)) = group::unmet(past, group)
    {
        return Unmet::new(format!("owns no partition yet: {group} {}", unmet.what)).since(unmet.since);
    }
    let members = group::classic(past.world(), group).map(|group| group.members.len());
    let members =
        members.or_else(|| group::modern(past.world(), group).map(|group| group.base.members.len()));
    let what = match members {
        Some(members) if members > 1 => {
            format!("owns no partition: {group} has {members} members, and each partition has one owner")
        }
        _ => format!("owns no partition of {group}"),
    };
    Unmet::new(what).since(last_plan(past, past.end(), group))
}

/// A reader of committed data comes no further than an open transaction.
fn behind_transaction(
    past: &Past,
    tp: &TopicPartition,
    position: Offset,
    isolation: IsolationLevel,
) -> Option<Unmet> {
    let leader = past.world().newest_image()?.partition(tp)?.leader;
    let partition = past.world().broker(leader)?.replicas().partition(tp)?;
    let (stable, mark) = (partition.log.last_stable_offset(), partition.log.high_watermark());
    if isolation != IsolationLevel::ReadCommitted || position < stable || stable >= mark {
        return None;
    }
    let open = partition.log.producers().oldest_open().and_then(|producer| open_transaction(past, producer));
    let what = format!(
        "reads committed data and stands at {position} of {tp}, behind an open transaction{}; the high watermark is {mark}",
        open.as_ref().map(|(id, left)| format!(" of {id}{left}")).unwrap_or_default()
    );
    let changed = open.and_then(|(id, _)| {
        past.newest(|event| match event {
            Event::Transaction(
                TransactionEvent::Added { id: of, partitions, .. }
                | TransactionEvent::Decided { id: of, partitions, .. },
            ) => *of == id && partitions.contains(tp),
            _ => false,
        })
    });
    Some(Unmet::new(what).since(changed))
}

/// The id under which a producer has a transaction open, and `, which its coordinator aborts by its timeout, 40 s left`, or
/// that it is decided.
fn open_transaction(past: &Past, producer: ProducerId) -> Option<(TransactionalId, String)> {
    let mut brokers = past.world().processes().filter_map(|(_, process)| match process.machine() {
        Some(Machine::Broker(broker)) => Some(broker),
        _ => None,
    });
    let (id, facts) = brokers.find_map(|broker| {
        let mut shards = broker.transactions().shards();
        shards.find_map(|(_, shard)| {
            let mut known = shard.transactions().map(|(id, transaction)| (id, transaction.facts()));
            known.find(|(_, facts)| facts.producer_id == producer)
        })
    })?;
    if facts.state.is_prepared() {
        let left = ", which is decided: its coordinator sends the marker until this partition has it";
        return Some((id.clone(), left.to_owned()));
    }
    let open_ms = past.present().now().wall_ms() - facts.start_timestamp_ms;
    let left = match i64::from(facts.timeout_ms) - open_ms {
        left_ms @ 1.. => format!(", which its coordinator aborts by its timeout, {} left", duration(left_ms)),
        _ => String::new(),
    };
    Some((id.clone(), left))
}

/// There is something to read, and its leader does not hand it out.
fn unreachable(past: &Past, tp: &TopicPartition, position: Offset) -> Option<Unmet> {
    let unmet = partition::unmet(past, tp)?;
    Some(Unmet::new(format!("is at offset {position} of {tp}, and {tp} {}", unmet.what)).since(unmet.since))
}

fn at_the_end(
    past: &Past,
    client: &ClientName,
    consumer: &Consumer,
    owned: &[TopicPartition],
) -> Option<Unmet> {
    let isolation = consumer.config().isolation;
    let all = consumer.subscription().owned();
    let lag = |is_paused: bool| -> i64 {
        let of = all.values().filter(|owned| owned.paused == is_paused);
        of.filter_map(|owned| owned.lag(isolation)).sum()
    };
    if lag(false) > 0 {
        return None;
    }
    let (paused, owned): (Vec<_>, Vec<_>) =
        owned.iter().partition(|tp| all.get(tp).is_some_and(|owned| owned.paused));
    let beside = match paused.is_empty() {
        true => String::new(),
        false => format!("has paused {}, {} behind, and ", list(&paused), count(lag(true), "record")),
    };
    let until = match consumer.program().activity() {
        Activity::Polling { until, .. } => left(past.present().now(), until),
        _ => String::new(),
    };
    let wait = consumer.config().fetch_max_wait_ms;
    let read = past.newest(|event| matches!(event, Event::Polled { client: of, .. } if of == client));
    let what = format!(
        "{beside}has read all that there is of {}: its fetches wait for more, each up to fetch.max.wait.ms={wait}; poll() returns{until}",
        list(&owned)
    );
    Some(Unmet::new(what).since(read))
}
