//! One record's story, in sentences.
//!
//! **Invariant:** each sentence but the last ones, which say how things stand, is tied to the event that it tells.

use super::Ledger;
use super::judge::{Fate, LostWhy, MissedWhy, Verdict};
use super::markers::Markers;
use super::partition::Partition;
use super::record::{Answer, Batch, Copy, Gone, GoneWhy, Moment, Record, Seen, Told, Transaction};
use crate::kafka::event::LogStartReason;
use crate::kafka::types::{ClientName, Offset, TopicPartition};
use crate::lab::words::{count, list, partition_of};

/// A sentence and the event that it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: Moment,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Which record it is.
    pub title: String,
    /// What happened, in order.
    pub lines: Vec<Line>,
    /// How things stand.
    pub now: Vec<String>,
}

impl Story {
    /// Line by line, what happened with its time.
    pub fn text(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| format!("  {}  {}", line.at.time, line.text));
        let now = self.now.iter().map(|sentence| format!("  {sentence}"));
        std::iter::once(self.title.clone()).chain(lines).chain(now).collect()
    }
}

impl Ledger {
    /// The story of the record that is or was at this offset.
    pub fn story_at(&self, tp: &TopicPartition, offset: Offset) -> Option<Story> {
        self.record_at(tp, offset).map(|(batch, record)| self.story(batch, record))
    }

    /// The story of a producer's record by its number.
    pub fn story_of(&self, client: &ClientName, number: i64) -> Option<Story> {
        self.record_of(client, number).map(|(batch, record)| self.story(batch, record))
    }

    /// The story of the record that a person names: by its partition and offset, as `orders-0` 17, or by its producer and
    /// number, as `checkout-api` 17.
    pub fn story_named(&self, of: &str, number: i64) -> Option<Story> {
        let by_offset = partition_of(of).and_then(|tp| self.story_at(&tp, Offset(number)));
        by_offset.or_else(|| self.story_of(&ClientName::new(of), number))
    }

    pub fn story(&self, batch: &Batch, record: &Record) -> Story {
        let index = batch.index_of(record);
        let verdict = self.judge(batch, record);
        let mut lines = Vec::new();
        self.tell_sending(batch, record, index, &mut lines);
        for copy in &batch.copies {
            lines.extend(gone_line(copy, &batch.tp, index));
        }
        record.seen.iter().for_each(|seen| self.tell_reading(seen, &mut lines));
        lines.sort_by_key(|line| line.at);
        let key = record.key.as_deref().map(|key| format!(", key {}", String::from_utf8_lossy(key)));
        Story {
            title: format!("record {} of {}{}", record.number, batch.client, key.unwrap_or_default()),
            lines,
            now: self.tell_now(batch, record, index, &verdict),
        }
    }

    fn tell_sending(&self, batch: &Batch, record: &Record, index: i64, lines: &mut Vec<Line>) {
        let others = batch.records.len() as i64 - 1;
        let with = if others > 0 { format!(" with {}", count(others, "other")) } else { String::new() };
        let text = match batch.id {
            Some(_) => {
                format!("{} hands it to send(); it goes into a batch for {}{with}", batch.client, batch.tp)
            }
            None => format!("{} hands it to send(), which does not take it", batch.client),
        };
        lines.push(Line { at: record.made, text });
        if let Some(input) = &record.result_of {
            let text = format!("it is made of the record at offset {} of {}", input.offset, input.tp);
            lines.push(Line { at: record.made, text });
        }
        for sent in &batch.sends {
            let text = match sent.attempt {
                1 => format!("the batch is sent to broker {}", sent.to),
                attempt => format!("the batch is sent to broker {}, attempt {attempt}", sent.to),
            };
            lines.push(Line { at: sent.at, text });
            lines.extend(answer_line(sent.answer, sent.to.to_string(), index));
        }
        if let (Some(last), 1..) = (batch.sends.last(), batch.unkept_sends) {
            let times = count(batch.unkept_sends, "more attempt");
            lines.push(Line { at: last.at, text: format!("before that one there were {times}") });
        }
        for copy in &batch.copies {
            let (broker, epoch, offset) = (copy.broker, copy.epoch, copy.base + index);
            let text = format!(
                "broker {broker}, leader in epoch {epoch}, stores it in {} at offset {offset}",
                batch.tp
            );
            lines.push(Line { at: copy.at, text });
        }
        self.tell_committed(batch, lines);
        for (offset, at) in &record.cleaned {
            lines.push(Line { at: *at, text: format!("the leader's cleaner drops it from offset {offset}") });
        }
        lines.extend(told_line(batch, index));
    }

    /// When readers could see it, and how its transaction ended.
    fn tell_committed(&self, batch: &Batch, lines: &mut Vec<Line>) {
        let tp = &batch.tp;
        for copy in &batch.copies {
            let passes = |at| Line { at, text: format!("the high watermark of {tp} passes it") };
            lines.extend(copy.committed.map(passes));
            let markers = self.partitions.get(tp).filter(|_| copy.is_transactional).map(Partition::markers);
            let decided = |markers: &Markers| markers.ever_decided(copy.producer, copy.at, copy.base);
            for marker in markers.map(decided).unwrap_or_default() {
                let how = if marker.committed { "commits" } else { "aborts" };
                let text = format!("a marker in {tp} {how} its transaction");
                lines.push(Line { at: marker.at, text });
                lines.extend(marker.gone.map(|gone| marker_gone(gone, tp)));
            }
        }
    }

    /// How things stand.
    fn tell_now(&self, batch: &Batch, record: &Record, index: i64, verdict: &Verdict) -> Vec<String> {
        let mut now = vec![match verdict.fate {
            Fate::Stored => self.place(batch, index, verdict),
            Fate::Underway => "It is not stored, and nobody was told anything of it yet.".to_owned(),
            Fate::Failed(error) => format!("It is not stored, and its producer knows: {error}."),
            Fate::Lost(why) => format!("It is lost: its producer takes it for written. {}", lost(why)),
            Fate::Removed(start) => format!("It was removed: {}.", removal(start.reason)),
            Fate::Compacted(_) => {
                "The cleaner has dropped it: its key has a newer record, or its transaction was aborted."
                    .to_owned()
            }
            Fate::Deleted(_) => "It went with its topic.".to_owned(),
        }];
        if verdict.offsets.len() > 1 {
            let offsets = list(&verdict.offsets);
            now.push(format!("It is stored {} times, at offsets {offsets}.", verdict.offsets.len()));
        }
        if verdict.failed_yet_stored {
            now.push("Its producer was told that it is not written.".to_owned());
        }
        if verdict.reordered {
            now.push("A record that was made later stands before it.".to_owned());
        }
        now.extend(
            match verdict.transaction {
                Some(Transaction::Open) => {
                    Some("Its transaction is open: with isolation.level=read_committed nobody reads it yet.")
                }
                Some(Transaction::Ended { committed: false, .. }) => Some(
                    "Its transaction was aborted: with isolation.level=read_committed nobody ever reads it.",
                ),
                _ => None,
            }
            .map(str::to_owned),
        );
        for seen in &record.seen {
            now.extend(self.stands_with(seen));
        }
        now.extend(verdict.waiting.iter().map(|group| format!("It is still to come to group {group}.")));
        for missed in &verdict.missed {
            now.push(match &missed.why {
                MissedWhy::Committed { at, by, was_delivered } => format!(
                    "Group {} has missed it: {by} committed past it at {}, and {}.",
                    missed.group,
                    at.time,
                    if *was_delivered { "nobody who has it lives" } else { "nobody was given it" }
                ),
                MissedWhy::Removed(start) => {
                    format!("Group {} has missed it: {} first.", missed.group, removal(start.reason))
                }
            });
        }
        now
    }

    fn place(&self, batch: &Batch, index: i64, verdict: &Verdict) -> String {
        let tp = &batch.tp;
        let Some((copy, partition)) = batch.in_place().last().zip(self.partitions.get(tp)) else {
            return String::new();
        };
        let offset = verdict.offsets.last().copied().unwrap_or(copy.base + index);
        let holders = list(partition.holders(copy.epoch, copy.base));
        let mark = partition.high_watermark;
        let seen = if offset < mark { "readers may see it" } else { "readers do not see it yet" };
        format!("It is in {tp} at offset {offset}, on {holders}; the high watermark is {mark}: {seen}.")
    }

    fn tell_reading(&self, seen: &Seen, lines: &mut Vec<Line>) {
        let group = &seen.group;
        if let Some((at, client)) = &seen.delivered_at {
            let again = match seen.delivered {
                1 => String::new(),
                times => format!(", for the {} time", ordinal(times)),
            };
            lines.push(Line {
                at: *at,
                text: format!("poll() returns it to {client} of group {group}{again}"),
            });
        }
        for (times, done) in (1..).zip(&seen.processings) {
            let again = match times {
                1 => String::new(),
                times => format!(" for the {} time", ordinal(times)),
            };
            let by = &done.by;
            lines.push(Line { at: done.at, text: format!("{by} of group {group} has processed it{again}") });
        }
        if let Some((at, by)) = &seen.passed {
            let text = format!("{by} commits a position of group {group} past it before it is processed");
            lines.push(Line { at: *at, text });
        }
        for result in &seen.results {
            let found = self.batch(result.batch).and_then(|batch| {
                let index = batch.records.iter().position(|record| record.number == result.number)?;
                let copy = batch.in_place().next().or(batch.copies.last())?;
                Some(format!("{} at offset {}", batch.tp, copy.base + index as i64))
            });
            let place = found.map(|place| format!(" ({place})")).unwrap_or_default();
            let text = format!("record {} of the application is made of it{place}", result.number);
            lines.push(Line { at: result.at, text });
        }
    }

    fn stands_with(&self, seen: &Seen) -> Vec<String> {
        let group = &seen.group;
        let holder = self.holder(seen).filter(|_| seen.processed == 0);
        let in_hand = holder.map(|holder| match holder.stuck {
            Some(stuck) => format!(
                "{} of group {group} has it in hand, and {} since {}.",
                holder.client, stuck.how, stuck.since.time
            ),
            None => format!("{} of group {group} has it in hand.", holder.client),
        });
        let times =
            (seen.processed > 1).then(|| format!("Group {group} has processed it {} times.", seen.processed));
        let results = Some(self.results_of(seen)).filter(|results| *results > 1);
        let results = results.map(|results| format!("Group {group} has made {results} records of it."));
        in_hand.into_iter().chain(times).chain(results).collect()
    }
}

fn answer_line(answer: Answer, broker: String, index: i64) -> Option<Line> {
    let (at, text) = match answer {
        Answer::Unknown | Answer::Stored(_) => return None,
        Answer::Known(at, base) => {
            (at, format!("broker {broker} knows the batch already: the record is at offset {}", base + index))
        }
        Answer::Refused(at, error) => (at, format!("broker {broker} does not take it: {error}")),
        Answer::ConnectionLost(at) => (at, format!("the connection to broker {broker} is lost")),
    };
    Some(Line { at, text })
}

fn told_line(batch: &Batch, index: i64) -> Option<Line> {
    let client = &batch.client;
    let (at, text) = match batch.told {
        Told::Nothing => return None,
        Told::Offset { at, base } => (at, format!("{client} is told: written at offset {}", base + index)),
        Told::Sent { at } => (at, format!("{client} counts it as written: with acks=0 nobody answers")),
        Told::Error { at, error } => (at, format!("{client} is told: {error}")),
    };
    Some(Line { at, text })
}

fn gone_line(copy: &Copy, tp: &TopicPartition, index: i64) -> Option<Line> {
    let gone = copy.gone?;
    let offset = copy.base + index;
    let text = match gone.why {
        GoneWhy::LeaderChange { leader, epoch } => {
            format!(
                "broker {leader} leads {tp} in epoch {epoch} and does not have it: it goes from offset {offset}"
            )
        }
        GoneWhy::DiskLost { broker } => {
            format!("broker {broker}, the last that had it at offset {offset}, loses what it had not flushed")
        }
        GoneWhy::TopicDeleted => format!("topic {} is deleted", tp.topic),
    };
    Some(Line { at: gone.at, text })
}

fn marker_gone(gone: Gone, tp: &TopicPartition) -> Line {
    let text = match gone.why {
        GoneWhy::LeaderChange { leader, epoch } => {
            format!(
                "broker {leader} leads {tp} in epoch {epoch} without that marker: the transaction is open again"
            )
        }
        GoneWhy::DiskLost { broker } => {
            format!("broker {broker}, the last that had that marker, loses it: the transaction is open again")
        }
        GoneWhy::TopicDeleted => format!("topic {} is deleted", tp.topic),
    };
    Line { at: gone.at, text }
}

fn ordinal(number: i32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn lost(why: LostWhy) -> String {
    match why {
        LostWhy::Gone(gone) => match gone.why {
            GoneWhy::LeaderChange { leader, epoch } => {
                format!("Broker {leader}, leader since epoch {epoch}, does not have it.")
            }
            GoneWhy::DiskLost { broker } => format!("Broker {broker} was the last to have it."),
            GoneWhy::TopicDeleted => "It went with its topic.".to_owned(),
        },
        LostWhy::Refused(_, error) => {
            format!("The broker did not take it ({error}), and with acks=0 says nothing.")
        }
        LostWhy::ConnectionLost(_) => {
            "It never arrived, and with acks=0 nobody waits for an answer.".to_owned()
        }
    }
}

fn removal(reason: LogStartReason) -> &'static str {
    match reason {
        LogStartReason::Time { .. } => "retention.ms let it go",
        LogStartReason::Size { .. } => "retention.bytes let it go",
        LogStartReason::DeleteRecords => "somebody deleted it",
        LogStartReason::Leader => "the leader's log begins behind it",
    }
}
