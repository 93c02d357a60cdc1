//! What an event is about, to tell which of several that one step brought led to another.

use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::types::{ClientName, GroupId, TopicPartition};
use crate::lab::why::past::Past;

/// What two events can have in common.
#[derive(Default, PartialEq)]
struct About<'a> {
    tp: Option<&'a TopicPartition>,
    client: Option<&'a ClientName>,
    group: Option<&'a GroupId>,
}

/// The last of these events that is about what `event` is about.
pub fn nearest(past: &Past, event: &Event, among: &[u64]) -> Option<u64> {
    let wanted = about(event);
    let fits = |number: &u64| {
        past.get(*number).is_some_and(|other| {
            let other = about(&other.event);
            let same = |a: bool, is_known: bool| a && is_known;
            same(wanted.tp == other.tp, wanted.tp.is_some())
                || same(wanted.client == other.client, wanted.client.is_some())
                || same(wanted.group == other.group, wanted.group.is_some())
        })
    };
    among.iter().copied().rev().find(fits)
}

fn about(event: &Event) -> About<'_> {
    match event {
        Event::LeaderElected { tp, .. }
        | Event::ReplicasChanged { tp, .. }
        | Event::IsrShrunk { tp, .. }
        | Event::IsrExpanded { tp, .. }
        | Event::ElrChanged { tp, .. }
        | Event::IsrChangeRefused { tp, .. }
        | Event::BecameLeader { tp, .. }
        | Event::BecameFollower { tp, .. }
        | Event::ReplicaDeleted { tp, .. }
        | Event::Appended { tp, .. }
        | Event::Replicated { tp, .. }
        | Event::HighWatermarkAdvanced { tp, .. }
        | Event::Truncated { tp, .. }
        | Event::LogStartMoved { tp, .. }
        | Event::SegmentsDeleted { tp, .. }
        | Event::LogCleaned { tp, .. }
        | Event::DuplicateBatch { tp, .. }
        | Event::ProduceRefused { tp, .. }
        | Event::IsrChangeProposed { tp, .. } => About { tp: Some(tp), ..About::default() },
        Event::RecordBatched { client, tp, .. }
        | Event::BatchSent { client, tp, .. }
        | Event::BatchAcknowledged { client, tp, .. }
        | Event::BatchRetried { client, tp, .. }
        | Event::BatchSplit { client, tp, .. }
        | Event::BatchFailed { client, tp, .. }
        | Event::PositionOutOfRange { client, tp, .. }
        | Event::PositionSet { client, tp, .. }
        | Event::TruncationDetected { client, tp, .. }
        | Event::AbortedPassedOver { client, tp, .. }
        | Event::Polled { client, tp, .. }
        | Event::Processed { client, tp, .. } => {
            About { tp: Some(tp), client: Some(client), ..About::default() }
        }
        Event::CoordinatorFound { client, group, .. }
        | Event::CoordinatorLost { client, group, .. }
        | Event::JoinSent { client, group, .. }
        | Event::PartitionsAssigned { client, group, .. }
        | Event::PartitionsRevoked { client, group, .. } => {
            About { client: Some(client), group: Some(group), ..About::default() }
        }
        Event::ConnectionLost { client, .. }
        | Event::RequestTimedOut { client, .. }
        | Event::ProducerIdGiven { client, .. }
        | Event::ProducerPaused { client }
        | Event::ProducerResumed { client }
        | Event::CommitConfirmed { client, .. }
        | Event::CommitFailed { client, .. }
        | Event::CommitCalledBack { client, .. }
        | Event::SubscriptionChanged { client, .. }
        | Event::ClientFailed { client, .. } => About { client: Some(client), ..About::default() },
        Event::Group(event) => of_group(event),
        _ => About::default(),
    }
}

fn of_group(event: &GroupEvent) -> About<'_> {
    match event {
        GroupEvent::MemberAdded { group, client, .. }
        | GroupEvent::MemberRemoved { group, client, .. }
        | GroupEvent::MemberKept { group, client, .. }
        | GroupEvent::RebalanceStarted { group, client, .. }
        | GroupEvent::RevocationAsked { group, client, .. }
        | GroupEvent::MemberReconciled { group, client, .. }
        | GroupEvent::CommitRefused { group, client, .. } => {
            About { client: Some(client), group: Some(group), ..About::default() }
        }
        GroupEvent::OffsetCommitted { group, tp, client, .. }
        | GroupEvent::OffsetDeleted { group, tp, client } => {
            About { tp: Some(tp), client: Some(client), group: Some(group) }
        }
        GroupEvent::OffsetExpired { group, tp } | GroupEvent::OffsetDropped { group, tp } => {
            About { tp: Some(tp), group: Some(group), ..About::default() }
        }
        GroupEvent::GroupStateChanged { group, .. }
        | GroupEvent::JoinExtended { group, .. }
        | GroupEvent::AssignmentStored { group, .. }
        | GroupEvent::GroupConverted { group, .. }
        | GroupEvent::ConsumerGroupStateChanged { group, .. }
        | GroupEvent::TargetAssigned { group, .. } => About { group: Some(group), ..About::default() },
        GroupEvent::CoordinatorElected { .. }
        | GroupEvent::CoordinatorLoaded { .. }
        | GroupEvent::CoordinatorResigned { .. } => About::default(),
    }
}
