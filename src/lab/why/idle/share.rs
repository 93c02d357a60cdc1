//! What a consumer of a share group waits for.

use super::super::cause::cluster::silenced;
use super::super::cause::group::busy;
use super::super::past::Past;
use super::consumer::{at_line, hangs, of_coordinator};
use super::{Unmet, left, partition};
use crate::client::program::Activity;
use crate::client::share_consumer::{ShareConsumer, Waiting};
use crate::kafka::event::{Event, ShareEvent};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, MemberId, TopicPartition};
use crate::lab::words::{count, list};

pub fn unmet(past: &Past, client: &ClientName, consumer: &ShareConsumer) -> Option<Unmet> {
    let now = past.present().now();
    let group = &consumer.spec().group;
    if let Some(unmet) = at_line(past, client, consumer.program()) {
        return Some(unmet);
    }
    match consumer.waiting() {
        Waiting::Nothing => None,
        Waiting::Hanging { .. } => hangs(past, client, consumer.program()),
        Waiting::ToFindCoordinator { retry_at } => Some(of_coordinator(past, group, &left(now, retry_at))),
        Waiting::CoordinatorAnswer => Some(of_coordinator(past, group, "")),
        Waiting::FirstHeartbeat => {
            Some(Unmet::new(format!("waits for the coordinator of {group} to take it in")))
        }
        Waiting::Acknowledged => Some(Unmet::new("waits for what becomes of its acknowledgements")),
        Waiting::LeaveAnswer => Some(Unmet::new("waits for the answer to its goodbye, to close")),
        Waiting::Records => Some(reading(past, client, consumer)),
    }
}

/// In poll(), and nothing comes.
fn reading(past: &Past, client: &ClientName, consumer: &ShareConsumer) -> Unmet {
    let now = past.present().now();
    let group = &consumer.spec().group;
    let assigned = consumer.assigned();
    if assigned.is_empty() {
        let asks = left(now, consumer.member().clock.due_at);
        let joined = past.newest(
            |event| matches!(event, Event::Share(ShareEvent::Joins { client: of, .. }) if of == client),
        );
        let what = format!("is assigned no partition of {group}: its next heartbeat asks again{asks}");
        return Unmet::new(what).since(joined);
    }
    let mut broken = assigned.iter().filter_map(|tp| Some((tp, partition::unmet(past, tp)?)));
    if let Some((tp, unmet)) = broken.next() {
        return Unmet::new(format!("is to read {tp}, and {tp} {}", unmet.what)).since(unmet.since);
    }
    if let Some(held) = held_by_another(past, &consumer.member().id, group, assigned) {
        return held;
    }
    let until = match consumer.program().activity() {
        Activity::Polling { until, .. } => left(now, until),
        _ => String::new(),
    };
    let delivered = past.newest(
        |event| matches!(event, Event::Share(ShareEvent::Delivered { client: of, .. }) if of == client),
    );
    let what = format!(
        "waits for records of {}: all there are that nobody holds are done with; poll() returns{until}",
        list(assigned)
    );
    Unmet::new(what).since(delivered)
}

/// Records that another member has and says nothing of: until its lock ends.
fn held_by_another(
    past: &Past,
    me: &MemberId,
    group: &GroupId,
    assigned: &[TopicPartition],
) -> Option<Unmet> {
    let held = assigned.iter().filter_map(|tp| first_to_end(past, me, group, tp));
    let (ends, records, tp, holder) = held.min_by_key(|(ends, ..)| *ends)?;
    let joins = past
        .newest(|event| matches!(event, Event::Share(ShareEvent::Joins { member, .. }) if *member == holder));
    let client = joins.and_then(|number| match &past.get(number)?.event {
        Event::Share(ShareEvent::Joins { client, .. }) => Some(client.clone()),
        _ => None,
    })?;
    let what = format!(
        "waits for records of {tp}: {client} holds {} of it until it says what became of them, or its lock ends{}",
        count(records, "record"),
        left(past.present().now(), ends)
    );
    let node = past.world().node_of(&client);
    let gone = node.and_then(|node| silenced(past, past.end(), node, |_| true));
    Some(Unmet::new(what).since(gone.max(busy(past, past.end(), &client))))
}

/// The lock of another that ends first in a partition, how many records there are of its holder, and who that is.
fn first_to_end<'a>(
    past: &Past,
    me: &MemberId,
    group: &GroupId,
    tp: &'a TopicPartition,
) -> Option<(Time, i64, &'a TopicPartition, MemberId)> {
    let image = past.world().newest_image()?;
    let topic_id = image.topic(&tp.topic)?.id;
    let shares = past.world().broker(image.partition(tp)?.leader)?.shares();
    let is_it = |of: &crate::kafka::share::ShareKey| {
        of.group == *group && of.topic_id == topic_id && of.partition == tp.partition
    };
    let (_, shared) = shares.partitions().find(|(of, _)| is_it(of))?;
    let others = || {
        shared.in_flight().filter_map(|(range, state)| {
            let (holder, ends) = (state.holder()?, state.lock_ends()?);
            (holder != me).then(|| (ends, range.count(), holder.clone()))
        })
    };
    let (ends, _, holder) = others().min_by_key(|(ends, ..)| *ends)?;
    let records = others().filter(|(_, _, of)| *of == holder).map(|(_, records, _)| records).sum();
    Some((ends, records, tp, holder))
}
