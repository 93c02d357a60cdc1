//! Logs on their disks: where they begin, and what compaction leaves of them. A leader's alone are told; the followers
//! do the same.

use super::partition::is_internal;
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{Event, LogStartReason};
use crate::kafka::time::Time;
use crate::kafka::types::{Topic, TopicPartition};
use crate::lab::words::{count, duration};

fn about(time: Time, tp: &TopicPartition, title: String) -> Sentence {
    Sentence::new(time, Tone::Info, Subject::Partition(tp.clone()), title)
}

pub(super) fn start_moved(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::LogStartMoved { tp, leader: true, from, to, reason, .. } = event else { return None };
    let (detail, rules): (String, &[&str]) = match reason {
        LogStartReason::Time { retention_ms } => {
            let age = duration(*retention_ms);
            (
                format!("The newest record of the segments that went was older than retention.ms, {age}."),
                &["R-LOG-35"],
            )
        }
        LogStartReason::Size { retention_bytes } => {
            let limit = count(*retention_bytes, "byte");
            (
                format!("Without the segments that went the log still has retention.bytes, {limit}."),
                &["R-LOG-34"],
            )
        }
        LogStartReason::DeleteRecords => (
            "Somebody asked for it; a segment goes when every record of it lies below the start.".to_owned(),
            &["R-LOG-37"],
        ),
        LogStartReason::Leader => ("The leader's log begins there.".to_owned(), &["R-LOG-36"]),
    };
    let sentence = about(time, tp, format!("{tp}: log start moved from {from} to {to}"));
    Some((tp.clone(), sentence.detail(detail).rules(rules)))
}

pub(super) fn many_starts_moved(topic: &Topic, events: &[&Event]) -> (String, String) {
    let partitions = count(events.len() as i64, "partition");
    (format!("{topic}: log start moved in {partitions}"), String::new())
}

pub(super) fn tell(time: Time, event: &Event) -> Option<Sentence> {
    match event {
        Event::SegmentsDeleted { tp, leader: true, segments, log_start_offset, .. } if !is_internal(tp) => {
            let segments = count(*segments, "segment");
            let title = format!("{tp}: {segments} below the log start {log_start_offset} deleted");
            Some(about(time, tp, title).rules(&["R-LOG-31"]))
        }
        Event::LogCleaned { broker, tp, leader: true, to, before, after, .. } if !is_internal(tp) => {
            let title = format!(
                "{tp} compacted on broker {broker}: {} to {}, {} to {}",
                before.records,
                count(after.records, "record"),
                before.bytes,
                count(after.bytes, "byte")
            );
            let detail = format!(
                "Below offset {to} the last record of each key stays, at its offset; the active segment is not touched."
            );
            Some(about(time, tp, title).detail(detail).rules(&["R-LOG-40", "R-LOG-41", "R-LOG-43"]))
        }
        Event::LogsRecovered { broker, logs, segments } => {
            let title = format!(
                "broker {broker} did not stop in order: it reads {} of {} again",
                count(*segments, "segment"),
                count(*logs, "log")
            );
            let detail = "From its recovery point on a log may have been written in part; high watermarks and log starts are those noted last.";
            let sentence = Sentence::new(time, Tone::Info, Subject::Broker(*broker), title);
            Some(sentence.detail(detail))
        }
        Event::UnflushedLost { broker, ends, offsets } => {
            let title = format!(
                "broker {broker} lost {} of {} that were not flushed",
                count(*offsets, "record"),
                count(ends.len() as i64, "partition")
            );
            let detail = "Kafka acknowledges what is in the page cache of the in-sync replicas; flush.messages and flush.ms are off by default.";
            let sentence = Sentence::new(time, Tone::Bad, Subject::Broker(*broker), title);
            Some(sentence.detail(detail))
        }
        Event::DiskWiped { broker } => {
            let title = format!("broker {broker}: everything on its disk is gone");
            let detail = "When it starts it has no log, and copies what it is to have from the leaders.";
            Some(Sentence::new(time, Tone::Bad, Subject::Broker(*broker), title).detail(detail))
        }
        _ => None,
    }
}
