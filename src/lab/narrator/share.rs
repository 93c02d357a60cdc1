//! Share groups: who reads with whom, what became of records that somebody held, how far a group is.
//!
//! That records are handed out and accepted is routine. It is told where it begins, and where something is delivered
//! again, comes back, ends or waits.

use std::collections::{BTreeMap, BTreeSet};

use super::partition::PATIENCE_MS;
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{RevokeReason, ShareChange, ShareEvent, ShareOutcome};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::share::{AcknowledgeType, OffsetRange};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, MemberId, Offset, TopicPartition};
use crate::lab::words::{count, duration, list};

/// A partition as a group shares it.
type Shared = (GroupId, TopicPartition);

#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// Who is behind a member id.
    clients: BTreeMap<MemberId, ClientName>,
    /// Who was handed records of what.
    receivers: BTreeSet<(MemberId, Shared)>,
    /// When something of this kind was last told of a partition.
    told: BTreeMap<(Shared, &'static str), Time>,
    /// Since when a group's start waits for records that are held.
    waiting: BTreeMap<Shared, Time>,
}

impl Shares {
    /// The same, as if nothing had been told.
    pub fn knowing_members(&self) -> Shares {
        Shares { clients: self.clients.clone(), ..Shares::default() }
    }

    pub fn tell(&mut self, time: Time, event: &ShareEvent) -> Option<Sentence> {
        match event {
            ShareEvent::Joins { client, member, .. } => {
                self.clients.insert(member.clone(), client.clone());
                None
            }
            ShareEvent::Assigned { client, group, epoch, partitions } => {
                let what = if partitions.is_empty() { "nothing".to_owned() } else { list(partitions) };
                let title = format!("{client} reads {what} in epoch {epoch} of {group}");
                let detail = match partitions.is_empty() {
                    true => "The plan has no partition for it; it stands by.",
                    false => {
                        "Others of the group may read the same; each record is handed to one of them at a time."
                    }
                };
                let tone = if partitions.is_empty() { Tone::Warn } else { Tone::Good };
                Some(of_client(time, tone, client, title).detail(detail).rules(&["R-SHARE-1", "R-SHARE-2"]))
            }
            ShareEvent::Left { client, group, partitions, reason } => {
                let title = format!("{client} reads {} with {group} no more", list(partitions));
                let tone = if *reason == RevokeReason::Closing { Tone::Info } else { Tone::Warn };
                Some(of_client(time, tone, client, title).rules(&["R-SHARE-1"]))
            }
            ShareEvent::Begun { broker, group, tp, start_offset, .. } => {
                let title = format!("{group} shares {tp} from offset {start_offset} on, at broker {broker}");
                let detail = "The leader hands the records out and knows who has which; what is done it has persisted in \
                              __share_group_state.";
                Some(
                    of_partition(time, Tone::Info, tp, title)
                        .detail(detail)
                        .rules(&["R-SHARE-3", "R-SHARE-4"]),
                )
            }
            ShareEvent::Acquired { group, tp, member, records, .. } => {
                self.acquired(time, &(group.clone(), tp.clone()), member, records)
            }
            ShareEvent::Acknowledged { group, tp, member, changes, .. } => {
                let client = self.name(member);
                self.changed(time, &(group.clone(), tp.clone()), changes, &|text| format!("{client} {text}"))
            }
            ShareEvent::GivenBack { tp, member, changes, .. } => {
                let title =
                    format!("{} is gone and gives back {} of {tp}", self.name(member), records(changes));
                Some(came_back(time, tp, title, changes).rules(&["R-SHARE-14"]))
            }
            ShareEvent::LocksEnded { tp, changes, .. } => {
                let title =
                    format!("nothing was said of {} of {tp} in time: the locks end", records(changes));
                Some(came_back(time, tp, title, changes).rules(&["R-SHARE-7"]))
            }
            ShareEvent::StartMoved { group, tp, from, to, .. } => {
                self.start_moved(time, &(group.clone(), tp.clone()), *from, *to)
            }
            ShareEvent::GroupDeleted { group } => {
                let title = format!("{group}: the group is gone");
                let detail = "What it had shared was deleted from __share_group_state before it.";
                Some(Sentence::new(time, Tone::Info, Subject::Group(group.clone()), title).detail(detail))
            }
            ShareEvent::Heard { client, group, tp, said, error: Some(error) } => {
                self.refused(time, client, &(group.clone(), tp.clone()), said, *error)
            }
            ShareEvent::Heard { .. } | ShareEvent::Delivered { .. } => None,
        }
    }

    fn name(&self, member: &MemberId) -> String {
        self.clients.get(member).map_or_else(|| member.to_string(), ClientName::to_string)
    }

    /// Whether something of this kind is told now: not again and again while it goes on.
    fn is_news(&mut self, time: Time, shared: &Shared, kind: &'static str) -> bool {
        let told = self.told.insert((shared.clone(), kind), time);
        told.is_none_or(|told| time.ms_since(told) > PATIENCE_MS)
    }

    /// Told the first time that somebody is handed records of a partition, and where they were delivered before.
    fn acquired(
        &mut self,
        time: Time,
        shared: &Shared,
        member: &MemberId,
        acquired: &[(OffsetRange, i16)],
    ) -> Option<Sentence> {
        self.waiting.entry(shared.clone()).or_insert(time);
        let is_first = self.receivers.insert((member.clone(), shared.clone()));
        let (client, tp) = (self.name(member), &shared.1);
        let again: Vec<&(OffsetRange, i16)> =
            acquired.iter().filter(|(_, deliveries)| *deliveries > 1).collect();
        if let Some((_, deliveries)) = again.iter().max_by_key(|(_, deliveries)| *deliveries) {
            if !self.is_news(time, shared, "again") {
                return None;
            }
            let title =
                format!("{client} is handed {} of {tp} again", ranges(again.iter().map(|(range, _)| *range)));
            let detail = format!("Delivery {deliveries}: whoever had them before did not accept them.");
            return Some(of_partition(time, Tone::Warn, tp, title).detail(detail).rules(&["R-SHARE-8"]));
        }
        is_first.then(|| {
            let title = format!("{client} is handed {} of {tp}", ranges(acquired.iter().map(|(range, _)| *range)));
            let detail = "They are locked for it: nobody else of the group gets them until it says what became of them, \
                          or share.record.lock.duration.ms is over.";
            of_partition(time, Tone::Info, tp, title).detail(detail).rules(&["R-SHARE-5", "R-SHARE-7"])
        })
    }

    /// What a member said; the worst of it.
    fn changed(
        &mut self,
        time: Time,
        shared: &Shared,
        changes: &[ShareChange],
        by: &dyn Fn(String) -> String,
    ) -> Option<Sentence> {
        let tp = &shared.1;
        let of = |outcome| -> Vec<ShareChange> {
            changes.iter().filter(|change| change.outcome == outcome).copied().collect()
        };
        let worn = of(ShareOutcome::Worn);
        if !worn.is_empty() {
            return Some(archived(time, tp, by(format!("released {} of {tp}", records(&worn))), &worn));
        }
        let rejected = of(ShareOutcome::Rejected);
        if !rejected.is_empty() && self.is_news(time, shared, "rejected") {
            let title = by(format!("rejected {} of {tp}: archived", records(&rejected)));
            let detail = "Nobody of the group gets them any more. They stay in the log, for other groups.";
            return Some(
                of_partition(time, Tone::Bad, tp, title).detail(detail).rules(&["R-SHARE-5", "R-SHARE-6"]),
            );
        }
        let released = of(ShareOutcome::Available);
        if !released.is_empty() && self.is_news(time, shared, "released") {
            let title = by(format!("released {} of {tp}", records(&released)));
            let detail = "They can be handed out again, to anybody of the group.";
            return Some(
                of_partition(time, Tone::Warn, tp, title).detail(detail).rules(&["R-SHARE-5", "R-SHARE-6"]),
            );
        }
        let renewed = of(ShareOutcome::Renewed);
        if !renewed.is_empty() && self.is_news(time, shared, "renewed") {
            let title = by(format!("renews the locks of {} of {tp}", records(&renewed)));
            return Some(of_partition(time, Tone::Info, tp, title).rules(&["R-SHARE-6"]));
        }
        None
    }

    /// Told if the start had waited.
    fn start_moved(&mut self, time: Time, shared: &Shared, from: Offset, to: Offset) -> Option<Sentence> {
        let since = self.waiting.remove(shared)?;
        let waited_ms = time.ms_since(since);
        if waited_ms <= PATIENCE_MS || !self.is_news(time, shared, "start") {
            return None;
        }
        let (group, tp) = shared;
        let title = format!("{group}: all of {tp} below offset {to} is done");
        let detail = format!(
            "The start was at {from} for {}: one record that is not done holds it.",
            duration(waited_ms)
        );
        Some(of_partition(time, Tone::Good, tp, title).detail(detail).rules(&["R-SHARE-11"]))
    }

    fn refused(
        &mut self,
        time: Time,
        client: &ClientName,
        shared: &Shared,
        said: &[(Offset, AcknowledgeType)],
        error: ErrorCode,
    ) -> Option<Sentence> {
        if !self.is_news(time, shared, "refused") {
            return None;
        }
        let title = format!(
            "{client}: what it said of {} of {} is in vain: {error}",
            count(said.len() as i64, "record"),
            shared.1
        );
        let detail = "It has processed them, and somebody of the group will be handed them again.";
        Some(of_client(time, Tone::Warn, client, title).detail(detail).rules(&["R-SHARE-7", "R-SHARE-14"]))
    }
}

/// Records that nobody holds any more: available again, or worn.
fn came_back(time: Time, tp: &TopicPartition, title: String, changes: &[ShareChange]) -> Sentence {
    let worn: Vec<ShareChange> =
        changes.iter().filter(|change| change.outcome == ShareOutcome::Worn).copied().collect();
    match worn.is_empty() {
        true => of_partition(time, Tone::Warn, tp, title)
            .detail("They can be handed out again, to anybody of the group."),
        false => archived(time, tp, title, &worn),
    }
}

fn archived(time: Time, tp: &TopicPartition, title: String, worn: &[ShareChange]) -> Sentence {
    let deliveries = worn.iter().map(|change| change.delivery_count).max().unwrap_or_default();
    let detail = format!(
        "Archived: {}. That was delivery {deliveries}, the last that share.delivery.count.limit allows; so a record that \
         nobody can process holds up nothing.",
        ranges(worn.iter().map(|change| change.range))
    );
    of_partition(time, Tone::Bad, tp, title).detail(detail).rules(&["R-SHARE-8"])
}

/// `record 3`, `records 3 to 5`, `records 3, 5 to 8`.
fn records(changes: &[ShareChange]) -> String {
    ranges(changes.iter().map(|change| change.range))
}

fn ranges(ranges: impl Iterator<Item = OffsetRange>) -> String {
    let mut joined: Vec<OffsetRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.last + 1 == range.first => last.last = range.last,
            _ => joined.push(range),
        }
    }
    let text = |range: &OffsetRange| match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{} to {}", range.first, range.last),
    };
    let records: i64 = joined.iter().map(|range| range.count()).sum();
    let noun = if records == 1 { "record" } else { "records" };
    match joined.len() {
        0..=3 => format!("{noun} {}", list(joined.iter().map(text))),
        _ => count(records, "record"),
    }
}

fn of_partition(time: Time, tone: Tone, tp: &TopicPartition, title: String) -> Sentence {
    Sentence::new(time, tone, Subject::Partition(tp.clone()), title)
}

fn of_client(time: Time, tone: Tone, client: &ClientName, title: String) -> Sentence {
    Sentence::new(time, tone, Subject::Client(client.clone()), title)
}
