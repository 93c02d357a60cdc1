//! Why a member has no partitions.

use super::super::cause::cluster::process_of;
use super::super::cause::group::{added, last_plan};
use super::super::past::Past;
use super::Explanation;
use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::types::{ClientName, GroupId};
use crate::lab::words::{count, list};

pub fn explain(past: &Past, client: &ClientName) -> Result<Explanation, String> {
    let world = past.world();
    let process = world.node_of(client).and_then(|node| world.process(node));
    let Some(process) = process else { return Err(format!("there is no client {client}")) };
    if process.is_dead() {
        let title = format!("{client} has ended, so it owns nothing.");
        return Ok(Explanation::of(past, title, process_of(past, past.end(), client)));
    }
    if let Some(consumer) = world.share_consumer(client) {
        let owned = list(consumer.assigned());
        let title = format!("{client} is in a share group and reads {owned}, with whoever else does.");
        return Ok(Explanation::of(past, title, added(past, past.end(), client)));
    }
    let Some(consumer) = world.consumer(client) else {
        return Err(format!("{client} is no consumer"));
    };
    let owned = consumer.subscription().partitions();
    let group = &consumer.spec().group;
    if !owned.is_empty() {
        let title = format!("{client} owns {}.", list(&owned));
        return Ok(Explanation::of(past, title, given(past, client)));
    }
    if !consumer.subscription().is_in_group() {
        let title =
            format!("{client} is in no group's plan: it reads what it assigned to itself, which is nothing.");
        return Ok(Explanation::of(past, title, process_of(past, past.end(), client)));
    }
    Ok(of_member(past, client, group))
}

/// When it was last given anything.
fn given(past: &Past, client: &ClientName) -> Option<u64> {
    past.newest(|event| {
        matches!(event, Event::PartitionsAssigned { client: of, partitions, .. }
            if of == client && !partitions.is_empty())
    })
}

fn of_member(past: &Past, client: &ClientName, group: &GroupId) -> Explanation {
    let plan = last_plan(past, past.end(), group).and_then(|number| plan_of(past, number));
    let share = plan.as_ref().and_then(|plan| plan.iter().find(|(member, _)| member == client));
    let title = match (&plan, share) {
        (Some(plan), Some((_, share))) if share.is_empty() => {
            let partitions: i64 = plan.iter().map(|(_, partitions)| partitions.len() as i64).sum();
            format!(
                "{client} owns nothing: {group} has {} for {}, and a partition has one owner.",
                count(plan.len() as i64, "member"),
                count(partitions, "partition")
            )
        }
        (_, Some((_, share))) => {
            format!("{client} does not own yet what it is to have in {group}: {}.", list(share))
        }
        (Some(_), None) => format!("{client} owns nothing: it is not in the newest plan of {group}."),
        (None, None) => format!("{client} owns nothing: {group} has no plan yet."),
    };
    let taken = past.newest(|event| match event {
        Event::PartitionsRevoked { client: of, partitions, .. } => of == client && !partitions.is_empty(),
        Event::Group(GroupEvent::MemberRemoved { client: of, .. }) => of == client,
        Event::Process { name, .. } => name == client,
        Event::SubscriptionChanged { client: of, .. } => of == client,
        _ => false,
    });
    Explanation::of(past, title, taken.max(added(past, past.end(), client)))
}

fn plan_of(past: &Past, number: u64) -> Option<Vec<(ClientName, Vec<crate::kafka::types::TopicPartition>)>> {
    match &past.get(number)?.event {
        Event::Group(GroupEvent::AssignmentStored { plan, .. } | GroupEvent::TargetAssigned { plan, .. }) => {
            Some(plan.clone())
        }
        _ => None,
    }
}
