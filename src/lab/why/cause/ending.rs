//! Transactions and share groups: what ends, and what somebody is given.

use super::cluster::{closed, process_of, silenced};
use super::command;
use super::group::{busy, joined};
use crate::kafka::event::{EndReason, Event, ShareEvent, TransactionEvent};
use crate::kafka::types::{ClientName, MemberId, TransactionalId};
use crate::lab::command::{Written, parse};
use crate::lab::why::past::Past;
use crate::sim::Command;

pub fn of_transaction(past: &Past, number: u64, event: &TransactionEvent) -> Option<u64> {
    match event {
        TransactionEvent::Decided { id, reason, .. } => match reason {
            EndReason::Client => wished(past, number, id),
            EndReason::NewInstance => owner_changed(past, number, id),
            EndReason::Timeout => {
                let silent = owner_changed(past, number, id);
                let begun = past.last(number, |event| {
                    matches!(event, Event::Transaction(TransactionEvent::Added { id: of, begins: true, .. }) if of == id)
                });
                silent.max(begun)
            }
        },
        TransactionEvent::Completed { id, .. } => decided(past, number, id),
        TransactionEvent::Marked { .. } => {
            past.last(number, |event| matches!(event, Event::Transaction(TransactionEvent::Decided { .. })))
        }
        TransactionEvent::Late { tp, .. } => {
            let added = past.last(number, |event| {
                matches!(event, Event::Transaction(TransactionEvent::Added { partitions, .. }) if partitions.contains(tp))
            })?;
            match &past.get(added)?.event {
                Event::Transaction(TransactionEvent::Added { id, .. }) => {
                    owner_changed(past, number, id).max(Some(added))
                }
                _ => Some(added),
            }
        }
        TransactionEvent::Forgotten { id, .. } => past.last(number, |event| {
            matches!(event, Event::Transaction(TransactionEvent::Completed { id: of, .. }) if of == id)
        }),
        TransactionEvent::Initialized { id, .. } => owner_changed(past, number, id),
        TransactionEvent::Added { id, .. } => wished(past, number, id),
    }
}

fn decided(past: &Past, number: u64, id: &TransactionalId) -> Option<u64> {
    past.last(
        number,
        |event| matches!(event, Event::Transaction(TransactionEvent::Decided { id: of, .. }) if of == id),
    )
}

/// How the process of whoever uses that id last changed.
fn owner_changed(past: &Past, number: u64, id: &TransactionalId) -> Option<u64> {
    owner(past, number, id).and_then(|name| process_of(past, number, &name))
}

/// The client that was last added with that id.
fn owner(past: &Past, number: u64, id: &TransactionalId) -> Option<ClientName> {
    past.before(number).find_map(|(_, happened)| added_with(&happened.event, id))
}

/// The client that this command adds with that id.
fn added_with(event: &Event, id: &TransactionalId) -> Option<ClientName> {
    let Event::CommandGiven { text } = event else { return None };
    let (name, config) = match parse(text) {
        Ok(Written::Whole(Command::AddProducer(spec))) => (spec.name, spec.config),
        Ok(Written::Whole(Command::AddApplication(spec))) => (spec.name, spec.config),
        _ => return None,
    };
    config.get("transactional.id").is_some_and(|of| of == id.as_str()).then_some(name)
}

/// What took a client's epoch from it: its coordinator ended a transaction of its own accord, or another instance began.
pub fn fenced(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Transaction(
            TransactionEvent::Decided { id, reason: EndReason::NewInstance | EndReason::Timeout, .. }
            | TransactionEvent::Initialized { id, .. },
        ) => uses(past, number, client, id),
        _ => false,
    })
}

/// Whether a client was added with that id.
fn uses(past: &Past, number: u64, client: &ClientName, id: &TransactionalId) -> bool {
    past.before(number)
        .any(|(_, happened)| added_with(&happened.event, id).is_some_and(|name| name == *client))
}

/// That a person had the client of that id begin or end a transaction, after it began with anything.
fn wished(past: &Past, number: u64, id: &TransactionalId) -> Option<u64> {
    let name = owner(past, number, id)?;
    command(past, number, |command| matches!(command, Command::Transaction { client, .. } if *client == name))
}

pub fn of_share(past: &Past, number: u64, event: &ShareEvent) -> Option<u64> {
    match event {
        ShareEvent::Joins { client, .. } => joined(past, number, client),
        ShareEvent::Assigned { client, .. } => past.last(
            number,
            |event| matches!(event, Event::Share(ShareEvent::Joins { client: of, .. }) if of == client),
        ),
        ShareEvent::Left { client, .. } => closed(past, number, client).max(process_of(past, number, client)),
        ShareEvent::GivenBack { member, .. } => member_went(past, number, member),
        ShareEvent::LocksEnded { group, tp, .. } => {
            let delivered = past.last(number, |event| {
                matches!(event, Event::Share(ShareEvent::Delivered { group: of, tp: which, .. })
                    if of == group && which == tp)
            })?;
            let Event::Share(ShareEvent::Delivered { client, .. }) = &past.get(delivered)?.event else {
                return Some(delivered);
            };
            let gone = past.world().node_of(client).and_then(|node| silenced(past, number, node, |_| true));
            let stuck = gone.max(busy(past, number, client));
            Some(stuck.unwrap_or(delivered).max(delivered))
        }
        ShareEvent::Delivered { client, group, tp, .. } => past.last(number, |event| match event {
            Event::Share(ShareEvent::Assigned { client: of, .. }) => of == client,
            Event::Share(
                ShareEvent::LocksEnded { group: of, tp: which, .. }
                | ShareEvent::GivenBack { group: of, tp: which, .. },
            ) => of == group && which == tp,
            _ => false,
        }),
        _ => None,
    }
}

/// How the process of a member last changed, or that it was to end.
fn member_went(past: &Past, number: u64, member: &MemberId) -> Option<u64> {
    let joins = past.last(
        number,
        |event| matches!(event, Event::Share(ShareEvent::Joins { member: of, .. }) if of == member),
    )?;
    match &past.get(joins)?.event {
        Event::Share(ShareEvent::Joins { client, .. }) => {
            closed(past, number, client).max(process_of(past, number, client))
        }
        _ => None,
    }
}
