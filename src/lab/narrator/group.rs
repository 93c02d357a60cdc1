//! Consumer groups: who coordinates, who is a member, who owns what.

use std::collections::{BTreeMap, BTreeSet};

use super::{Sentence, Subject, Tone, group_admin};
use crate::kafka::event::{
    ConsumerGroupState, Event, GroupEvent, GroupState, MemberRemoval, RebalanceReason, RevokeReason,
};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, Generation, GroupEpoch, GroupId, TopicPartition};
use crate::lab::words::{count, duration, list};

#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// The group that a client last joined.
    group_of: BTreeMap<ClientName, GroupId>,
    /// The coordinator that was last told of a group.
    coordinators: BTreeMap<GroupId, BrokerId>,
    /// Groups whose members have lost the coordinator, until one of them commits again or another broker is found.
    lost: BTreeSet<GroupId>,
    /// Those of them whose search has found the old one once.
    found_again: BTreeSet<GroupId>,
    /// Groups of the newer protocol, which count epochs.
    modern: BTreeSet<GroupId>,
}

impl Groups {
    pub fn of(&self, client: &ClientName) -> Option<&GroupId> {
        self.group_of.get(client)
    }

    /// The same, as if nothing had been told.
    pub fn knowing_members(&self) -> Groups {
        Groups { group_of: self.group_of.clone(), modern: self.modern.clone(), ..Groups::default() }
    }

    pub fn tell(&mut self, time: Time, event: &Event) -> Option<Sentence> {
        self.note_protocol(event);
        match event {
            Event::CoordinatorFound { client, group, broker } => self.found(time, client, group, *broker),
            Event::CoordinatorLost { client, group, error } => {
                if !self.lost.insert(group.clone()) {
                    return None;
                }
                let title = format!("{group}: {client} has lost the coordinator: {error}");
                let sentence = about(time, Tone::Warn, group, title);
                Some(
                    sentence
                        .detail("Its members ask any broker for the new one (FindCoordinator).")
                        .rules(&["R-GRP-3"]),
                )
            }
            Event::CommitConfirmed { client, .. } => {
                if let Some(group) = self.group_of.get(client) {
                    self.lost.remove(group);
                    self.found_again.remove(group);
                }
                None
            }
            Event::JoinSent { client, group, owned, reason } => {
                self.group_of.insert(client.clone(), group.clone());
                (!owned.is_empty()).then(|| joins_with(time, client, owned, reason))
            }
            Event::PartitionsAssigned { client, group, generation, partitions, added } => {
                let era = match self.modern.contains(group) {
                    true => format!("epoch {generation}"),
                    false => format!("generation {generation}"),
                };
                Some(assigned(time, client, group, &era, partitions, added))
            }
            Event::PartitionsRevoked { client, partitions, reason, .. } if !partitions.is_empty() => {
                Some(revoked(time, client, partitions, *reason))
            }
            Event::Group(event) => coordinator(time, event),
            event => group_admin::tell(time, event),
        }
    }

    fn note_protocol(&mut self, event: &Event) {
        match event {
            Event::Group(GroupEvent::ConsumerGroupStateChanged { group, .. })
            | Event::Group(GroupEvent::GroupConverted { group, classic: false }) => {
                self.modern.insert(group.clone());
            }
            Event::Group(GroupEvent::GroupStateChanged { group, .. })
            | Event::Group(GroupEvent::GroupConverted { group, classic: true }) => {
                self.modern.remove(group);
            }
            _ => {}
        }
    }

    /// Told when the group's coordinator is another than was known, not for each member that asks; and once when a
    /// search finds the one that was lost.
    fn found(
        &mut self,
        time: Time,
        client: &ClientName,
        group: &GroupId,
        broker: BrokerId,
    ) -> Option<Sentence> {
        if self.coordinators.insert(group.clone(), broker) == Some(broker) {
            if !self.lost.contains(group) || !self.found_again.insert(group.clone()) {
                return None;
            }
            let title = format!("{group}: {client} is sent to broker {broker} again");
            let detail = "Until the controller fences it, it leads the partition of __consumer_offsets that keeps the \
                          group, so every broker names it. The members go on asking.";
            return Some(about(time, Tone::Info, group, title).detail(detail).rules(&["R-GRP-2"]));
        }
        self.lost.remove(group);
        self.found_again.remove(group);
        let title = format!("{group}: {client} found the coordinator, broker {broker}");
        let detail = "It leads the partition of __consumer_offsets that the group's name hashes to.";
        Some(about(time, Tone::Info, group, title).detail(detail).rules(&["R-GRP-1", "R-GRP-2"]))
    }
}

pub(super) fn about(time: Time, tone: Tone, group: &GroupId, title: String) -> Sentence {
    Sentence::new(time, tone, Subject::Group(group.clone()), title)
}

/// A cooperative member joins.
fn joins_with(time: Time, client: &ClientName, owned: &[TopicPartition], reason: &str) -> Sentence {
    let title = format!("{client} joins again and keeps {} meanwhile", list(owned));
    Sentence::new(time, Tone::Info, Subject::Client(client.clone()), title)
        .detail(format!(
            "All its assignors are cooperative: it reads on. The reason that it gives: {reason}."
        ))
        .rules(&["R-GRP-29", "R-GRP-31"])
}

fn assigned(
    time: Time,
    client: &ClientName,
    group: &GroupId,
    era: &str,
    partitions: &[TopicPartition],
    added: &[TopicPartition],
) -> Sentence {
    let about = Subject::Client(client.clone());
    if partitions.is_empty() {
        let title = format!("{client} owns nothing in {era} of {group}");
        return Sentence::new(time, Tone::Warn, about, title)
            .detail("The plan has no partition for it; it stands by.")
            .rules(&["R-GRP-30"]);
    }
    let kept: Vec<&TopicPartition> =
        partitions.iter().filter(|tp| added.binary_search(tp).is_err()).collect();
    if !kept.is_empty() {
        let (kept, added) = (list(&kept), list(added));
        let title = format!("{client} keeps {kept} and gets {added} in {era} of {group}");
        return Sentence::new(time, Tone::Good, about, title)
            .detail("Positions and fetch sessions of what it keeps go on as they were.")
            .rules(&["R-GRP-30", "R-GRP-31"]);
    }
    let title = format!("{client} owns {} in {era} of {group}", list(partitions));
    Sentence::new(time, Tone::Good, about, title)
        .detail("It asks for the committed offsets and reads on from there.")
        .rules(&["R-GRP-30"])
}

fn revoked(time: Time, client: &ClientName, partitions: &[TopicPartition], reason: RevokeReason) -> Sentence {
    let about = Subject::Client(client.clone());
    let owned = list(partitions);
    match reason {
        RevokeReason::Rebalance => {
            Sentence::new(time, Tone::Warn, about, format!("{client} gave up {owned} to join again"))
                .detail("With an eager assignor a member owns nothing until the new plan is there.")
                .rules(&["R-GRP-29"])
        }
        RevokeReason::Reassigned => {
            Sentence::new(time, Tone::Warn, about, format!("{client} gives up {owned} for another member"))
                .detail("The plan leaves them out, so nobody owns them until it has joined once more.")
                .rules(&["R-GRP-30", "R-ASG-8"])
        }
        RevokeReason::Reconciled => Sentence::new(
            time,
            Tone::Warn,
            about,
            format!("{client} gives up {owned} for another member"),
        )
        .detail(
            "It has committed and tells the coordinator at once, which gives them away; the rest is read on.",
        )
        .rules(&["R-CG8-11", "R-CG8-18"]),
        RevokeReason::Lost => Sentence::new(time, Tone::Bad, about, format!("{client} lost {owned}"))
            .detail("The group does not know it any more; it can commit nothing of what it has processed.")
            .rules(&["R-GRP-32"]),
        RevokeReason::Unsubscribed => {
            Sentence::new(time, Tone::Info, about, format!("{client} gave up {owned}: it has unsubscribed"))
                .rules(&["R-GRP-29"])
        }
        RevokeReason::Closing => {
            Sentence::new(time, Tone::Info, about, format!("{client} gave up {owned} to close"))
                .rules(&["R-CONS-27"])
        }
    }
}

/// What happens at the coordinator.
fn coordinator(time: Time, event: &GroupEvent) -> Option<Sentence> {
    let sentence = match event {
        GroupEvent::CoordinatorLoaded { broker, partition, records, groups } if !groups.is_empty() => {
            let noun = if groups.len() == 1 { "group" } else { "groups" };
            let title = format!("broker {broker} coordinates {noun} {} now", list(groups));
            Sentence::new(time, Tone::Good, Subject::Broker(*broker), title)
                .detail(format!("It read {} of __consumer_offsets-{partition}.", count(*records, "record")))
                .rules(&["R-GRP-4"])
        }
        GroupEvent::MemberAdded { group, client, leader, .. } => {
            let role = if *leader { " as its leader" } else { "" };
            about(time, Tone::Info, group, format!("{group}: {client} is a member{role}")).rules(&["R-GRP-9"])
        }
        GroupEvent::MemberRemoved { group, client, reason, .. } => {
            let (tone, why, rules) = removal(*reason);
            about(time, tone, group, format!("{group}: {client} {why}")).rules(rules)
        }
        GroupEvent::MemberKept { group, client, reason, error, .. } => {
            let title = format!("{group}: {client} stays a member: {error}");
            let detail = match reason {
                MemberRemoval::Left => {
                    "It has left, which could not be written, and its timers are cancelled: it may stay until another \
                     broker coordinates the group."
                }
                _ => "That it is gone could not be written; the coordinator tries again in half a second.",
            };
            about(time, Tone::Warn, group, title).detail(detail).rules(&["R-GRP-3", "R-CG8-14"])
        }
        GroupEvent::GroupStateChanged { group, to, generation, .. } => {
            return state(time, group, *to, *generation);
        }
        GroupEvent::RebalanceStarted { group, generation, reason, client } => {
            let why = rebalance(*reason, client);
            about(time, Tone::Warn, group, format!("{group}: rebalance after generation {generation}: {why}"))
                .detail("Members learn of it from their next heartbeat and join again in their next poll().")
                .rules(&["R-GRP-23"])
        }
        GroupEvent::JoinExtended { group, wait_ms } => {
            let title = format!("{group}: waits {} more, for further members", duration(*wait_ms));
            about(time, Tone::Info, group, title)
                .detail("A new group waits for group.initial.rebalance.delay.ms, again while members keep coming.")
                .rules(&["R-GRP-12"])
        }
        GroupEvent::AssignmentStored { group, generation, plan } => {
            about(time, Tone::Good, group, format!("{group}: generation {generation}: {}", plan_text(plan)))
                .detail("The group's leader made this plan; the coordinator stored it and is Stable.")
                .rules(&["R-GRP-18"])
        }
        GroupEvent::GroupConverted { group, classic } => {
            let protocol = if *classic { "classic" } else { "consumer" };
            about(time, Tone::Info, group, format!("{group}: its protocol is {protocol} from now on"))
                .detail("Members that speak the classic protocol stay; offsets do too.")
                .rules(&["R-CG8-25"])
        }
        GroupEvent::ConsumerGroupStateChanged { group, to, epoch, .. } => {
            return consumer_state(time, group, *to, *epoch);
        }
        GroupEvent::TargetAssigned { group, epoch, plan } => {
            let title = format!("{group}: target of epoch {epoch}: {}", plan_text(plan));
            about(time, Tone::Info, group, title)
                .detail("The coordinator made this plan; each member goes there by its own heartbeats.")
                .rules(&["R-CG8-8"])
        }
        GroupEvent::RevocationAsked { group, client, epoch, partitions } => {
            let title = format!("{group}: {client} is to give up {}", list(partitions));
            about(time, Tone::Info, group, title)
                .detail(format!("It stays in epoch {epoch} until it says that it did."))
                .rules(&["R-CG8-11", "R-CG8-13"])
        }
        GroupEvent::MemberReconciled { group, client, epoch, given, waits } => {
            let given = if given.is_empty() { String::new() } else { format!(" and gets {}", list(given)) };
            let sentence =
                about(time, Tone::Good, group, format!("{group}: {client} is in epoch {epoch}{given}"));
            let waiting = "It waits for partitions that other members have not given up yet.";
            if *waits { sentence.detail(waiting) } else { sentence }.rules(&["R-CG8-11", "R-CG8-12"])
        }
        GroupEvent::OffsetExpired { group, tp } => about(
            time,
            Tone::Warn,
            group,
            format!("{group}: the committed offset of {tp} has expired"),
        )
        .detail("Nobody had used it for offsets.retention.minutes; auto.offset.reset decides from now on.")
        .rules(&["R-GRP-40"]),
        GroupEvent::OffsetDeleted { group, tp, client } => {
            about(time, Tone::Warn, group, format!("{group}: {client} deleted the committed offset of {tp}"))
                .detail("auto.offset.reset decides where a member begins to read it.")
                .rules(&["R-GRP-41"])
        }
        GroupEvent::CommitRefused { group, error, client } => {
            about(time, Tone::Warn, group, format!("{group}: commit of {client} refused: {error}"))
                .rules(&["R-GRP-36"])
        }
        GroupEvent::CoordinatorLoaded { .. }
        | GroupEvent::CoordinatorElected { .. }
        | GroupEvent::CoordinatorResigned { .. }
        | GroupEvent::OffsetCommitted { .. }
        | GroupEvent::OffsetDropped { .. } => return None,
    };
    Some(sentence)
}

fn plan_text(plan: &[(ClientName, Vec<TopicPartition>)]) -> String {
    let plan: Vec<String> = plan.iter().map(|(client, owned)| format!("{client} {}", list(owned))).collect();
    plan.join("; ")
}

fn consumer_state(
    time: Time,
    group: &GroupId,
    to: ConsumerGroupState,
    epoch: GroupEpoch,
) -> Option<Sentence> {
    let title = |what: &str| format!("{group}: {what}");
    match to {
        ConsumerGroupState::Empty => {
            let sentence =
                about(time, Tone::Info, group, title(&format!("the group is empty, epoch {epoch}")));
            Some(sentence.detail("Its committed offsets stay.").rules(&["R-CG8-6"]))
        }
        ConsumerGroupState::Assigning => {
            let title = title(&format!("epoch {epoch} needs another assignment"));
            let sentence = about(time, Tone::Warn, group, title);
            let detail = "It is computed with a heartbeat, once in group.consumer.assignment.interval.ms of the \
                          coordinator's clock.";
            Some(sentence.detail(detail).rules(&["R-CG8-7", "R-CG8-8"]))
        }
        ConsumerGroupState::Stable => {
            let title = title(&format!("all members have what they are to have, epoch {epoch}"));
            Some(about(time, Tone::Good, group, title).rules(&["R-CG8-6"]))
        }
        ConsumerGroupState::Dead => Some(about(time, Tone::Info, group, title("the group is gone"))),
        ConsumerGroupState::Reconciling => None,
    }
}

/// States that no other event tells.
fn state(time: Time, group: &GroupId, to: GroupState, generation: Generation) -> Option<Sentence> {
    let title = |what: &str| format!("{group}: {what}");
    match to {
        GroupState::CompletingRebalance => {
            let title = title(&format!("all members have joined generation {generation}"));
            let sentence = about(time, Tone::Info, group, title);
            Some(sentence.detail("The leader works out who owns what.").rules(&["R-GRP-7", "R-GRP-17"]))
        }
        GroupState::Empty => {
            let title = title(&format!("the group is empty, generation {generation}"));
            Some(
                about(time, Tone::Info, group, title)
                    .detail("Its committed offsets stay.")
                    .rules(&["R-GRP-6"]),
            )
        }
        GroupState::Dead => Some(about(time, Tone::Info, group, title("the group is gone"))),
        GroupState::PreparingRebalance | GroupState::Stable => None,
    }
}

fn removal(reason: MemberRemoval) -> (Tone, &'static str, &'static [&'static str]) {
    match reason {
        MemberRemoval::Left => (Tone::Info, "left", &["R-GRP-22"]),
        MemberRemoval::GroupFull => {
            (Tone::Bad, "removed: the group has group.max.size members", &["R-GRP-8"])
        }
        MemberRemoval::SessionExpired => {
            (Tone::Bad, "removed: no heartbeat for its session.timeout.ms", &["R-GRP-21"])
        }
        MemberRemoval::DidNotRejoin => {
            (Tone::Bad, "removed: it did not join again within the rebalance timeout", &["R-GRP-13"])
        }
        MemberRemoval::DidNotRevoke => {
            (Tone::Bad, "removed: it did not give up partitions within its rebalance timeout", &["R-CG8-13"])
        }
        MemberRemoval::DidNotSync => (
            Tone::Bad,
            "removed: it did not ask for the new plan within the rebalance timeout",
            &["R-GRP-19"],
        ),
    }
}

fn rebalance(reason: RebalanceReason, client: &ClientName) -> String {
    match reason {
        RebalanceReason::MemberJoined => format!("{client} joins"),
        RebalanceReason::MemberRemoved(MemberRemoval::Left) => format!("{client} left"),
        RebalanceReason::MemberRemoved(_) => format!("{client} was removed"),
        RebalanceReason::MemberRejoined => format!("{client} joined again"),
        RebalanceReason::TargetOutdated => format!("{client} made the group a classic one"),
        RebalanceReason::GroupTooLarge => "it has more members than group.max.size".to_owned(),
        RebalanceReason::WriteFailed => "the plan could not be stored".to_owned(),
    }
}
