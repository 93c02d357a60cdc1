//! What the narrator passes over, as sentences: packets and routine, which are steps on the way to something.

use crate::kafka::event::{Act, Event, GroupEvent, ShareEvent, TransactionEvent};
use crate::lab::words::{count, list};

pub fn text(event: &Event) -> String {
    match event {
        Event::Process { name, act, .. } => format!("{name} {}", act_word(act)),
        Event::BecameLeader { broker, tp, leader_epoch, start_offset, .. } => {
            format!("broker {broker} leads {tp} in epoch {leader_epoch}, from offset {start_offset}")
        }
        Event::BecameFollower { broker, tp, leader, .. } => {
            format!("broker {broker} follows broker {leader} in {tp}")
        }
        Event::IsrChangeProposed { broker, tp, isr, .. } => {
            format!("broker {broker} asks the controller for the in-sync set {} of {tp}", list(isr))
        }
        Event::ReplicaDeleted { broker, tp } => format!("broker {broker} deletes its replica of {tp}"),
        Event::QuorumVoted { voter, candidate, epoch } => {
            format!("controller {voter} votes for controller {candidate} in epoch {epoch}")
        }
        Event::QuorumLeaderElected { controller, epoch, .. } => {
            format!("controller {controller} is active from epoch {epoch}")
        }
        Event::Appended { broker, tp, base_offset, last_offset, .. } => {
            format!("broker {broker} appends {} to {tp}", offsets(base_offset.0, last_offset.0))
        }
        Event::Replicated { broker, tp, to, .. } => {
            format!("broker {broker} has copied {tp} up to offset {to}")
        }
        Event::HighWatermarkAdvanced { broker, tp, from, to, .. } => {
            format!("the high watermark of {tp} on broker {broker} moves from {from} to {to}")
        }
        Event::RecordBatched { client, tp, .. } => format!("{client} puts a record for {tp} into a batch"),
        Event::BatchSent { client, tp, records, attempt, to, .. } => {
            let records = count(*records, "record");
            format!("{client} sends {records} of {tp} to broker {to}, attempt {attempt}")
        }
        Event::BatchAcknowledged { client, tp, base_offset, .. } => {
            format!("{client} is told that its batch begins at offset {base_offset} of {tp}")
        }
        Event::BatchRetried { client, tp, error, .. } => {
            format!("{client}: a batch for {tp} will be sent again: {error}")
        }
        Event::BatchSplit { client, tp, .. } => format!("{client} splits a batch of {tp}"),
        Event::ConnectionLost { client, node, .. } => format!("{client} lost its connection to {node}"),
        Event::CoordinatorFound { client, group, broker } => {
            format!("{client} found the coordinator of {group}, broker {broker}")
        }
        Event::CoordinatorLost { client, group, .. } => {
            format!("{client} has lost the coordinator of {group}")
        }
        Event::JoinSent { client, group, .. } => format!("{client} asks to join {group}"),
        Event::CommitConfirmed { client, .. } => format!("{client} is told that its commit is written"),
        Event::Polled { client, tp, from, to, .. } => {
            format!("poll() returns {} of {tp} to {client}", offsets(from.0, to.0 - 1))
        }
        Event::Processed { client, tp, offset } => {
            format!("{client} has processed offset {offset} of {tp}")
        }
        Event::PartitionsRevoked { client, .. } => format!("{client} has nothing to give up"),
        Event::Group(event) => group(event),
        Event::Share(event) => share(event),
        Event::Transaction(event) => transaction(event),
        event => variant(event),
    }
}

fn act_word(act: &Act) -> &'static str {
    match act {
        Act::Started => "started",
        Act::Killed => "killed",
        Act::PowerCut => "has no power",
        Act::Frozen => "frozen",
        Act::Thawed => "thawed",
        Act::Ended => "ended",
    }
}

fn offsets(first: i64, last: i64) -> String {
    if first >= last { format!("offset {first}") } else { format!("offsets {first} to {last}") }
}

fn group(event: &GroupEvent) -> String {
    match event {
        GroupEvent::CoordinatorElected { broker, partition, .. } => {
            format!("broker {broker} is to coordinate what __consumer_offsets-{partition} keeps")
        }
        GroupEvent::CoordinatorLoaded { broker, partition, .. } => {
            format!("broker {broker} has read __consumer_offsets-{partition}")
        }
        GroupEvent::CoordinatorResigned { broker, partition } => {
            format!("broker {broker} coordinates no more what __consumer_offsets-{partition} keeps")
        }
        GroupEvent::GroupStateChanged { group, to, .. } => format!("{group} is {}", to.name()),
        GroupEvent::ConsumerGroupStateChanged { group, to, .. } => format!("{group} is {}", to.name()),
        GroupEvent::OffsetCommitted { group, tp, offset, client } => {
            format!("{client} commits offset {offset} of {tp} for {group}")
        }
        GroupEvent::OffsetDropped { group, tp } => {
            format!("the committed offset of {tp} goes with its topic or with {group}")
        }
        event => variant(event),
    }
}

fn share(event: &ShareEvent) -> String {
    match event {
        ShareEvent::Begun { broker, group, tp, start_offset, .. } => {
            format!("broker {broker} hands {tp} out to {group} from offset {start_offset} on")
        }
        ShareEvent::Acquired { group, tp, .. } => format!("a member of {group} is given records of {tp}"),
        ShareEvent::Acknowledged { group, tp, .. } => {
            format!("a member of {group} says what became of records of {tp}")
        }
        ShareEvent::StartMoved { group, tp, to, .. } => {
            format!("{group} is done with {tp} below offset {to}")
        }
        ShareEvent::Joins { client, group, .. } => format!("{client} asks to join {group}"),
        ShareEvent::Assigned { client, partitions, .. } => {
            format!("{client} reads {} from now on", list(partitions))
        }
        ShareEvent::Delivered { client, tp, records, .. } => {
            format!("poll() returns {} of {tp} to {client}", count(records.len() as i64, "record"))
        }
        ShareEvent::Heard { client, tp, .. } => {
            format!("{client} hears what became of its acknowledgements of {tp}")
        }
        event => variant(event),
    }
}

fn transaction(event: &TransactionEvent) -> String {
    match event {
        TransactionEvent::Added { id, partitions, .. } => {
            format!("{} in the transaction of {id}", list(partitions))
        }
        TransactionEvent::Completed { id, committed, .. } => {
            let how = if *committed { "committed" } else { "aborted" };
            format!("the transaction of {id} is {how} everywhere")
        }
        TransactionEvent::Marked { tp, committed, offset, .. } => {
            let how = if *committed { "commits" } else { "aborts" };
            format!("a marker at offset {offset} of {tp} {how} a transaction")
        }
        event => variant(event),
    }
}

/// The event's own name, in words.
fn variant(event: &impl std::fmt::Debug) -> String {
    let name = format!("{event:?}");
    let name = name.split([' ', '(', '{']).next().unwrap_or_default();
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::{BrokerId, NodeId};

    #[test]
    fn what_has_no_sentence_of_its_own_is_named() {
        let wiped = Event::DiskWiped { broker: BrokerId(1) };
        assert_eq!(text(&wiped), "disk wiped");
        let lost = Event::ConnectionLost {
            client: "checkout".into(),
            node: NodeId::Broker(BrokerId(2)),
            requests: 0,
        };
        assert_eq!(text(&lost), "checkout lost its connection to broker 2");
    }
}
