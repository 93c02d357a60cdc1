//! What a producer waits for.

use super::super::past::Past;
use super::{Unmet, left, partition};
use crate::client::producer::status::{BatchState, BatchStatus, Waiting};
use crate::client::producer::transaction_manager::State;
use crate::client::producer::{Phase, Producer};
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, TopicPartition};
use crate::lab::words::{count, duration, list};

pub fn unmet(past: &Past, client: &ClientName, producer: &Producer) -> Option<Unmet> {
    let now = past.present().now();
    if let Phase::Failed { at, error } = producer.phase() {
        let failed =
            past.newest(|event| matches!(event, Event::ClientFailed { client: of, .. } if of == client));
        return Some(Unmet::new(format!("does nothing more since {at}: {error}")).since(failed));
    }
    let batches: Vec<BatchStatus> = producer.batches(now).collect();
    blocked(past, producer)
        .or_else(|| batches.iter().find_map(|batch| unfinished(past, producer, batch)))
        .or_else(|| paused(past, client, producer))
        .or_else(|| in_transaction(producer))
}

/// What holds it up altogether.
fn blocked(past: &Past, producer: &Producer) -> Option<Unmet> {
    let waits = producer.waits_for();
    let config = producer.config();
    Some(match waits.first()? {
        Waiting::Metadata(topic, ErrorCode::None) => Unmet::new(format!(
            "waits for metadata of {topic}; send() gives up after max.block.ms={}",
            config.max_block_ms
        )),
        Waiting::Metadata(topic, error) => Unmet::new(format!(
            "waits for metadata of {topic}, and hears {error}; send() gives up after max.block.ms={}",
            config.max_block_ms
        )),
        Waiting::Memory => {
            let now = past.present().now();
            let oldest = producer.batches(now).map(|batch| batch.created_at).min();
            let until = oldest.map(|at| at.plus_ms(config.delivery_timeout_ms));
            let until = until.map(|until| format!(
                "; the oldest batch frees its part when it is answered, or fails by delivery.timeout.ms{}",
                left(now, until)
            ));
            let what =
                format!("has filled buffer.memory={}{}", config.buffer_memory, until.unwrap_or_default());
            let stuck = producer.batches(now).next();
            let why = stuck.and_then(|batch| partition::unmet(past, &batch.tp)).and_then(|unmet| unmet.since);
            Unmet::new(what).since(why)
        }
        Waiting::ProducerId => Unmet::new("waits for a producer id"),
        Waiting::Leader(tp) => {
            let why = partition::unmet(past, tp).and_then(|unmet| unmet.since);
            Unmet::new(format!("has records for {tp}, which has no leader that it knows")).since(why)
        }
        Waiting::Connection(broker) => {
            let node = (*broker).into();
            let changed =
                past.newest(|event| matches!(event, Event::Process { node: of, .. } if *of == node));
            Unmet::new(format!("connects to broker {broker}, which leads where its records go"))
                .since(changed.filter(|_| past.world().process(*broker).is_some_and(|p| !p.is_running())))
        }
    })
}

/// Why a batch has no outcome yet.
fn unfinished(past: &Past, producer: &Producer, batch: &BatchStatus) -> Option<Unmet> {
    let now = past.present().now();
    let (tp, records) = (&batch.tp, count(batch.records, "record"));
    match batch.state {
        BatchState::Lingering { until } => {
            Some(Unmet::new(format!("lets {records} for {tp} linger for linger.ms{}", left(now, until))))
        }
        BatchState::BackingOff { until } => {
            let what = format!("sends {records} for {tp} again after retry.backoff.ms{}", left(now, until));
            Some(match partition::unmet(past, tp) {
                Some(cause) => Unmet::new(format!("{what}: {tp} {}", cause.what)).since(cause.since),
                None => Unmet::new(what),
            })
        }
        BatchState::InFlight => unanswered(past, producer, batch, &records),
        BatchState::Ready(_) | BatchState::Behind | BatchState::GivenUp => None,
    }
}

/// `; 3 records for orders-0 stay behind it, ...`, where the leader has as many requests as it may.
fn behind(past: &Past, producer: &Producer, tp: &TopicPartition) -> Option<String> {
    let leader_of = |tp: &TopicPartition| Some(past.world().newest_image()?.partition(tp)?.leader);
    let leader = leader_of(tp)?;
    let most = producer.config().max_in_flight;
    let requests = producer.requests_in_flight();
    requests.iter().find(|(broker, requests)| *broker == leader && *requests >= most)?;
    let waiting = producer.batches(past.present().now()).filter(|batch| {
        matches!(batch.state, BatchState::Ready(_) | BatchState::Behind)
            && leader_of(&batch.tp) == Some(leader)
    });
    let records: i32 = waiting.map(|batch| batch.records).sum();
    (records > 0).then(|| {
        format!(
            "; {} more stay here until then, as broker {leader} has max.in.flight.requests.per.connection={most}",
            count(records, "record")
        )
    })
}

fn unanswered(past: &Past, producer: &Producer, batch: &BatchStatus, records: &str) -> Option<Unmet> {
    let now = past.present().now();
    let tp: &TopicPartition = &batch.tp;
    let fails_at = batch.created_at.plus_ms(producer.config().delivery_timeout_ms);
    let waits =
        format!("waits for the answer to {records} of {tp}{} of delivery.timeout.ms", left(now, fails_at));
    let behind = behind(past, producer, tp).unwrap_or_default();
    Some(match partition::unmet(past, tp) {
        Some(cause) => Unmet::new(format!("{waits}: {tp} {}{behind}", cause.what)).since(cause.since),
        None => Unmet::new(waits + &behind),
    })
}

fn paused(past: &Past, client: &ClientName, producer: &Producer) -> Option<Unmet> {
    let what = match producer.phase() {
        Phase::Paused => "is paused: its application sends nothing until it is resumed",
        Phase::Closing => "is closing: it waits for the outcome of what it has sent",
        Phase::Closed => "is closed",
        Phase::Running | Phase::Failed { .. } => return None,
    };
    let event = past.newest(|event| match event {
        Event::ProducerPaused { client: of } => of == client,
        Event::Process { name, .. } => name == client,
        _ => false,
    });
    Some(Unmet::new(what).since(event))
}

/// A transactional producer without a pace does what a person has it do.
fn in_transaction(producer: &Producer) -> Option<Unmet> {
    let manager = producer.transaction_manager()?;
    let id = manager.id();
    let timeout = duration(i64::from(producer.config().transaction_timeout_ms));
    match manager.state() {
        State::Uninitialized | State::Initializing => {
            Some(Unmet::new(format!("waits for the coordinator of {id} to let it begin")))
        }
        State::Ready => Some(Unmet::new(format!("has no transaction under way: {id} is ready to begin one"))),
        State::InTransaction => {
            let partitions = list(manager.partitions());
            Some(Unmet::new(format!(
                "has a transaction open in {partitions}; its coordinator aborts it after transaction.timeout.ms, {timeout}"
            )))
        }
        state if manager.is_completing() => {
            Some(Unmet::new(format!("waits for the end of its transaction: {id} is {}", state.name())))
        }
        _ => None,
    }
}
