//! Why a record was read twice, and why it was lost.

use super::super::cause::cluster::{silenced, was_silenced};
use super::super::past::Past;
use super::Explanation;
use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::types::{ClientName, Offset};
use crate::lab::ledger::{Batch, Fate, Gone, GoneWhy, LostWhy, MissedWhy, Record, Seen, Told, Verdict};
use crate::lab::words::{count, list, partition_of};

/// The record that a person names, as `story` does.
fn find<'a>(past: &Past<'a>, of: &str, number: i64) -> Result<(&'a Batch, &'a Record), String> {
    let ledger = past.present().ledger();
    let by_offset = partition_of(of).and_then(|tp| ledger.record_at(&tp, Offset(number)));
    let found = by_offset.or_else(|| ledger.record_of(&ClientName::new(of), number));
    found.ok_or_else(|| format!("there is no record {number} of {of} among those that the ledger keeps"))
}

fn name(batch: &Batch, record: &Record) -> String {
    format!("record {} of {}", record.number, batch.client)
}

pub fn read_twice(past: &Past, of: &str, number: i64) -> Result<Explanation, String> {
    let (batch, record) = find(past, of, number)?;
    let again: Vec<&Seen> =
        record.seen.iter().filter(|seen| seen.delivered > 1 || seen.processed > 1).collect();
    let verdict = past.present().ledger().judge(batch, record);
    let name = name(batch, record);
    if again.is_empty() && verdict.offsets.len() < 2 {
        return Ok(Explanation::of(past, format!("{name} was not read twice by any group."), None));
    }
    if verdict.offsets.len() > 1 {
        let offsets = list(&verdict.offsets);
        let title = format!(
            "{name} is stored {} times, at offsets {offsets}, so it is read as often.",
            verdict.offsets.len()
        );
        return Ok(Explanation::of(past, title, batch.in_place().last().map(|copy| copy.at.event)));
    }
    let title = again.iter().map(|seen| told_twice(past, batch, seen, &name)).collect::<Vec<_>>().join(" ");
    let events =
        again.iter().filter_map(|seen| second_reading(past, batch, seen, verdict.offsets.first().copied()));
    Ok(Explanation::of_all(past, title, events))
}

fn told_twice(past: &Past, batch: &Batch, seen: &Seen, name: &str) -> String {
    let times = |times: i32| count(times, "time");
    let mut title = format!(
        "{name} came to group {} {}, processed {}.",
        seen.group,
        times(seen.delivered),
        times(seen.processed)
    );
    let Some(at) = seen.delivered_at.as_ref().map(|(at, _)| at.event) else { return title };
    let committed = past.last(at, |event| {
        matches!(event, Event::Group(GroupEvent::OffsetCommitted { group, tp, .. })
            if *group == seen.group && *tp == batch.tp)
    });
    title +=
        &match committed.and_then(|number| past.get(number)).map(|happened| (&happened.event, happened.time))
        {
            Some((Event::Group(GroupEvent::OffsetCommitted { offset, .. }), time)) => {
                format!(" By then the group had committed up to offset {offset} only, at {time}.")
            }
            _ => " By then the group had committed nothing.".to_owned(),
        };
    title
}

/// The poll() that returned it again.
fn second_reading(past: &Past, batch: &Batch, seen: &Seen, offset: Option<Offset>) -> Option<u64> {
    if let Some(second) = seen.processings.get(1) {
        return Some(second.at.event);
    }
    let (at, _) = seen.delivered_at.as_ref()?;
    let polled = past.last(at.event + 1, |event| match (event, offset) {
        (Event::Polled { group, tp, from, to, .. }, Some(offset)) => {
            *group == seen.group && *tp == batch.tp && *from <= offset && offset < *to
        }
        _ => false,
    });
    polled.or(Some(at.event))
}

pub fn lost(past: &Past, of: &str, number: i64) -> Result<Explanation, String> {
    let (batch, record) = find(past, of, number)?;
    let verdict = past.present().ledger().judge(batch, record);
    let (name, tp) = (name(batch, record), &batch.tp);
    let (title, event) = match verdict.fate {
        Fate::Lost(LostWhy::Gone(gone)) => return Ok(without_copies(past, &name, batch, gone)),
        Fate::Lost(LostWhy::Refused(at, error)) => (
            format!("{name} is lost: a broker refused it with {error}, and with acks=0 nobody was told."),
            Some(at.event),
        ),
        Fate::Lost(LostWhy::ConnectionLost(at)) => {
            (format!("{name} is lost: it never arrived, and with acks=0 nobody was told."), Some(at.event))
        }
        Fate::Failed(error) => {
            let told = match batch.told {
                Told::Error { at, .. } => Some(at.event),
                _ => None,
            };
            (format!("{name} is not stored, and its producer knows: {error}."), told)
        }
        Fate::Removed(start) => {
            (format!("{name} was removed: {tp} begins at offset {} now.", start.to), Some(start.at.event))
        }
        Fate::Compacted(at) => (format!("{name} was dropped by the cleaner."), Some(at.event)),
        Fate::Deleted(at) => (format!("{name} went with its topic."), Some(at.event)),
        Fate::Underway => (format!("{name} is not lost: it is under way."), None),
        Fate::Stored => return Ok(stored(past, &name, batch, &verdict)),
    };
    Ok(Explanation::of(past, title, event))
}

/// Whoever leads now does not have it: why it leads, why it had not copied it, and what became of who had it.
fn without_copies(past: &Past, name: &str, batch: &Batch, gone: Gone) -> Explanation {
    let title =
        format!("{name} is lost: its producer takes it for written, and {} does not have it.", batch.tp);
    let mut events = vec![gone.at.event];
    if let GoneWhy::LeaderChange { leader, .. } = gone.why {
        let stored = batch.copies.iter().map(|copy| (copy.at.event, copy.broker)).max();
        let (at, holder) = stored.unwrap_or((gone.at.event, leader));
        events.extend(silenced(past, at, leader.into(), |_| true));
        events.extend(was_silenced(past, gone.at.event, holder.into()));
    }
    events.dedup();
    Explanation::of_all(past, title, events)
}

/// It is there, and yet a group may have missed it.
fn stored(past: &Past, name: &str, batch: &Batch, verdict: &Verdict) -> Explanation {
    let offsets = list(&verdict.offsets);
    let mut title = format!("{name} is not lost: it is in {} at offset {offsets}.", batch.tp);
    let mut events = Vec::new();
    for missed in &verdict.missed {
        let (at, why) = match &missed.why {
            MissedWhy::Committed { at, by, .. } => (at, format!("{by} committed past it")),
            MissedWhy::Removed(start) => (&start.at, "it was removed first".to_owned()),
        };
        title += &format!(" Group {} has missed it: {why}.", missed.group);
        events.push(at.event);
    }
    Explanation::of_all(past, title, events)
}
