//! Batches, positions and polls of clients.

use super::cluster::silenced;
use super::{command, ending};
use crate::kafka::event::{
    ApplicationEvent, Event, GroupEvent, PositionSource, ProducerEvent, ShareEvent, TransactionEvent,
};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BatchId, ClientName, TopicPartition};
use crate::lab::why::past::Past;
use crate::sim::Command;

pub fn of(past: &Past, number: u64, event: &Event) -> Option<u64> {
    match event {
        Event::ConnectionLost { node, .. } => {
            past.last(number, |event| matches!(event, Event::Process { node: other, .. } if other == node))
        }
        Event::RequestTimedOut { client, node, .. } => {
            let own = past.world().node_of(client);
            let broken = silenced(past, number, *node, |other| Some(other) == own);
            let lately = || {
                past.last(
                    number,
                    |event| matches!(event, Event::Process { node: other, .. } if other == node),
                )
            };
            broken.or_else(lately)
        }
        Event::RecordBatched { client, .. } => running_since(past, number, client),
        Event::BatchSent { client, tp, batch, attempt, .. } => match attempt {
            1 => past.last(number, |event| {
                matches!(event, Event::RecordBatched { client: by, tp: of, batch: to, .. }
                    if by == client && of == tp && to == batch)
            }),
            _ => retried(past, number, (client, tp, *batch)),
        },
        Event::BatchAcknowledged { tp, base_offset, .. } => past.last(number, |event| match event {
            Event::HighWatermarkAdvanced { tp: of, leader: true, from, to, .. } => {
                of == tp && from <= base_offset && base_offset < to
            }
            Event::DuplicateBatch { tp: of, base_offset: base, .. } => of == tp && base == base_offset,
            Event::Appended { tp: of, base_offset: base, .. } => of == tp && base == base_offset,
            _ => false,
        }),
        Event::BatchRetried { client, tp, batch, error, .. } => {
            unanswered(past, number, (client, tp, *batch), *error)
        }
        Event::BatchFailed { client, tp, batch: Some(batch), error, .. } => {
            let id = (client, tp, *batch);
            retried(past, number, id).or_else(|| unanswered(past, number, id, *error))
        }
        Event::DuplicateBatch { request, .. } => past.last(number, |event| {
            matches!(event, Event::BatchSent { client, correlation, .. }
                if *correlation == request.correlation && past.world().node_of(client) == Some(request.from))
        }),
        Event::Producer(ProducerEvent::Abandoned { client, .. } | ProducerEvent::Forced { client, .. }) => {
            let given_up = past.last(number, |event| match event {
                Event::BatchRetried { client: of, .. } | Event::BatchFailed { client: of, .. } => of == client,
                _ => false,
            });
            let closed = command(past, number, |command| match command {
                Command::Close(of) | Command::CloseWith { client: of, .. } => of == client,
                _ => false,
            });
            given_up.max(closed)
        }
        Event::Producer(ProducerEvent::Thrown { client, exception, .. }) if is_of_epochs(exception) => {
            ending::fenced(past, number, client)
        }
        Event::Application(ApplicationEvent::CallThrew { client, exception, .. })
            if is_of_epochs(exception) =>
        {
            ending::fenced(past, number, client)
        }
        Event::CommitCalledBack { client, .. } => past.last(number, |event| match event {
            Event::Group(GroupEvent::CommitRefused { client: of, .. })
            | Event::CoordinatorLost { client: of, .. }
            | Event::RequestTimedOut { client: of, .. }
            | Event::ConnectionLost { client: of, .. } => of == client,
            _ => false,
        }),
        Event::Producer(ProducerEvent::StickyPartitionChosen { client, .. }) => {
            running_since(past, number, client)
        }
        Event::PositionSet { client, tp, source, .. } => position_set(past, number, client, tp, *source),
        Event::PositionOutOfRange { client, tp, .. } => past.last(number, |event| match event {
            Event::LogStartMoved { tp: of, .. } | Event::Truncated { tp: of, .. } => of == tp,
            Event::LeaderElected { tp: of, .. } => of == tp,
            Event::PositionSet { client: by, tp: of, .. } => by == client && of == tp,
            _ => false,
        }),
        Event::TruncationDetected { tp, .. } => past.last(number, |event| match event {
            Event::Truncated { tp: of, .. } | Event::LeaderElected { tp: of, .. } => of == tp,
            _ => false,
        }),
        Event::AbortedPassedOver { tp, .. } => past.last(number, |event| {
            matches!(event, Event::Transaction(TransactionEvent::Marked { tp: of, committed: false, .. }) if of == tp)
        }),
        Event::ReadReplicaChosen { client, .. } => running_since(past, number, client),
        // What it read from is what a person wants to know, not the poll before.
        Event::Polled { client, tp, .. } => past.last(number, |event| {
            matches!(event, Event::PositionSet { client: by, tp: of, .. } if by == client && of == tp)
        }),
        Event::Processed { client, tp, offset } => past.last(number, |event| match event {
            Event::Polled { client: by, tp: of, from, to, .. } => {
                by == client && of == tp && from <= offset && offset < to
            }
            Event::Share(ShareEvent::Delivered { client: by, tp: of, .. }) => by == client && of == tp,
            _ => false,
        }),
        _ => None,
    }
}

/// Whether a client is told that its epoch counts no more.
fn is_of_epochs(exception: &str) -> bool {
    exception.contains("ProducerFenced") || exception.contains("InvalidProducerEpoch")
}

/// What has it send: its start, or that it was resumed.
fn running_since(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Process { name, .. } => name == client,
        Event::ProducerResumed { client: of } => of == client,
        _ => false,
    })
}

fn retried(
    past: &Past,
    number: u64,
    (client, tp, batch): (&ClientName, &TopicPartition, BatchId),
) -> Option<u64> {
    past.last(number, |event| {
        matches!(event, Event::BatchRetried { client: by, tp: of, batch: which, .. }
            if by == client && of == tp && *which == batch)
    })
}

/// Why the attempt before did not succeed.
fn unanswered(
    past: &Past,
    number: u64,
    (client, tp, batch): (&ClientName, &TopicPartition, BatchId),
    error: ErrorCode,
) -> Option<u64> {
    let sent = |event: &Event| matches!(event, Event::BatchSent { client: by, batch: which, .. } if by == client && *which == batch);
    match error {
        ErrorCode::NetworkException | ErrorCode::RequestTimedOut => past.last(number, |event| match event {
            Event::ConnectionLost { client: of, .. } | Event::RequestTimedOut { client: of, .. } => {
                of == client
            }
            event => sent(event),
        }),
        _ => past.last(number, |event| match event {
            Event::ProduceRefused { tp: of, .. } => of == tp,
            Event::LeaderElected { tp: of, .. } | Event::IsrShrunk { tp: of, .. } => of == tp,
            event => sent(event),
        }),
    }
}

fn position_set(
    past: &Past,
    number: u64,
    client: &ClientName,
    tp: &TopicPartition,
    source: PositionSource,
) -> Option<u64> {
    if source == PositionSource::Seek {
        return command(
            past,
            number,
            |command| matches!(command, Command::Ask { client: of, .. } if of == client),
        );
    }
    past.last(number, |event| match event {
        Event::PartitionsAssigned { client: of, partitions, .. } => of == client && partitions.contains(tp),
        Event::PositionOutOfRange { client: of, tp: which, .. }
        | Event::TruncationDetected { client: of, tp: which, .. } => of == client && which == tp,
        Event::Process { name, .. } => name == client,
        _ => false,
    })
}
