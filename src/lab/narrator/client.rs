//! Clients: connections, batches that had to wait or failed, commits that failed.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::Processes;
use super::folded::{Folded, is_of_calm_runs};
use super::partition::PATIENCE_MS;
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{Act, CommitOutcome, Event, ProducerEvent, RecordPart};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, NodeId, Offset, TopicPartition};
use crate::lab::words::{count, duration, list};

#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    /// Losses already told; forgotten when the node starts or thaws.
    lost: BTreeSet<(ClientName, NodeId)>,
    /// Retries already told; forgotten at the next acknowledgement.
    retried: BTreeSet<(ClientName, TopicPartition, ErrorCode)>,
    /// Retries for errors of calm runs.
    mended: Folded<(ClientName, ErrorCode)>,
    /// When a late acknowledgement was last told.
    late: BTreeMap<(ClientName, TopicPartition), Time>,
    /// When a producer's sticky partition was last told.
    stuck: BTreeMap<ClientName, Time>,
}

impl Clients {
    pub fn on_act(&mut self, node: NodeId, act: &Act) {
        if matches!(act, Act::Started | Act::Thawed) {
            self.lost.retain(|(_, lost)| *lost != node);
        }
    }

    pub fn tell(&mut self, processes: &Processes, time: Time, event: &Event) -> Option<Sentence> {
        match event {
            Event::ConnectionLost { client, node, requests } => {
                if !self.lost.insert((client.clone(), *node)) {
                    return None;
                }
                let node = processes.name(*node);
                let sentence =
                    about(time, Tone::Warn, client, format!("{client} lost its connection to {node}"));
                let unanswered = count(*requests, "request");
                Some(match requests {
                    0 => sentence,
                    _ => sentence.detail(format!(
                        "{unanswered} had no answer yet: carried out or not, it cannot know."
                    )),
                })
            }
            Event::RequestTimedOut { client, node, api } => {
                let title = format!("{client}: no answer to {} from {}", api.name(), processes.name(*node));
                let sentence = about(time, Tone::Warn, client, title);
                Some(
                    sentence
                        .detail("After request.timeout.ms the connection is given up.")
                        .rules(&["R-PROD-16"]),
                )
            }
            Event::BatchAcknowledged { client, tp, base_offset, records, latency_ms, .. } => {
                self.acknowledged(time, client, tp, *base_offset, *records, *latency_ms)
            }
            Event::Producer(event) => {
                (!self.is_told_often(time, event)).then(|| super::producer::tell(time, event))
            }
            Event::BatchRetried { client, tp, error, .. } if is_of_calm_runs(*error) => {
                let times = self.mended.happens(time, (client.clone(), *error))?;
                let title = match times {
                    1 => format!("{client}: a batch for {tp} will be sent again: {error}"),
                    _ => {
                        format!("{client}: {times} batches were sent again since this was last told: {error}")
                    }
                };
                let detail = match error {
                    ErrorCode::ConcurrentTransactions => {
                        "Its next transaction begins before the markers of the last one are written; it waits and sends again."
                    }
                    _ => "It came before the batch that it follows; in order, it is taken.",
                };
                Some(about(time, Tone::Info, client, title).detail(detail).rules(&["R-PROD-21", "R-TXN-18"]))
            }
            Event::BatchRetried { client, tp, error, .. } => {
                if !self.retried.insert((client.clone(), tp.clone(), *error)) {
                    return None;
                }
                let title = format!("{client}: a batch for {tp} will be sent again: {error}");
                let sentence = about(time, Tone::Warn, client, title);
                Some(
                    sentence
                        .detail("It is retried until delivery.timeout.ms has passed.")
                        .rules(&["R-PROD-15", "R-PROD-17"]),
                )
            }
            event => simple(time, event),
        }
    }

    /// Where keyless records go is told at first, and then at most every minute: a busy producer goes on many times a
    /// second.
    fn is_told_often(&mut self, time: Time, event: &ProducerEvent) -> bool {
        const PAUSE_MS: i64 = 60_000;
        let ProducerEvent::StickyPartitionChosen { client, .. } = event else { return false };
        let told = self.stuck.get(client).is_some_and(|told| time.ms_since(*told) < PAUSE_MS);
        if !told {
            self.stuck.insert(client.clone(), time);
        }
        told
    }

    /// Told after a retry or a long wait, and then not for each batch that waited.
    fn acknowledged(
        &mut self,
        time: Time,
        client: &ClientName,
        tp: &TopicPartition,
        base_offset: Offset,
        records: i64,
        latency_ms: i64,
    ) -> Option<Sentence> {
        let was_retried = self.retried.iter().any(|(c, t, _)| c == client && t == tp);
        self.retried.retain(|(c, t, _)| c != client || t != tp);
        if !was_retried && latency_ms <= PATIENCE_MS {
            return None;
        }
        let told = self.late.insert((client.clone(), tp.clone()), time);
        if told.is_some_and(|told| time.ms_since(told) <= PATIENCE_MS) {
            return None;
        }
        let title = format!(
            "{client}: {} of {tp} acknowledged after {}",
            count(records, "record"),
            duration(latency_ms)
        );
        let sentence = about(time, Tone::Good, client, title);
        Some(sentence.detail(format!("The batch begins at offset {base_offset}.")).rules(&["R-REPL-29"]))
    }
}

pub(super) fn about(time: Time, tone: Tone, client: &ClientName, title: String) -> Sentence {
    Sentence::new(time, tone, Subject::Client(client.clone()), title)
}

/// What is told each time and needs no memory.
fn simple(time: Time, event: &Event) -> Option<Sentence> {
    let sentence = match event {
        Event::ProducerIdGiven { client, producer, epoch } => {
            about(time, Tone::Info, client, format!("{client} got producer id {producer}, epoch {epoch}"))
                .detail("With it and a sequence number in each batch, a broker recognises a repetition.")
                .rules(&["R-PROD-23"])
        }
        Event::BatchFailed { client, tp, records, error, .. } => about(
            time,
            Tone::Bad,
            client,
            format!("{client}: {} of {tp} failed: {error}", count(*records, "record")),
        )
        .detail("The application is told; the client does not try again.")
        .rules(&["R-PROD-17"]),
        Event::ProducerPaused { client } => about(time, Tone::Info, client, format!("{client} paused"))
            .detail("Its application sends nothing more; what it has sent goes on."),
        Event::ProducerResumed { client } => about(time, Tone::Info, client, format!("{client} sends again")),
        Event::CommitFailed { client, error } => {
            about(time, Tone::Bad, client, format!("{client}: commit failed: {error}"))
                .detail(
                    "What it processed since its last commit will be read again by the partition's owner.",
                )
                .rules(&["R-CONS-22"])
        }
        Event::CommitCalledBack { client, outcome } => match outcome {
            CommitOutcome::Committed => return None,
            CommitOutcome::Retriable => {
                about(time, Tone::Warn, client, format!("{client}: commitAsync() failed and is not repeated"))
                    .detail("A later commit may have passed it, so the application decides.")
                    .rules(&["R-CONS-20"])
            }
            CommitOutcome::Failed(error) => {
                about(time, Tone::Bad, client, format!("{client}: commitAsync() failed: {error}"))
                    .rules(&["R-CONS-20", "R-CONS-22"])
            }
        },
        Event::SubscriptionChanged { client, to: Some(to) } => {
            about(time, Tone::Info, client, format!("{client} is to read {to} now"))
        }
        Event::SubscriptionChanged { client, to: None } => {
            about(time, Tone::Info, client, format!("{client} unsubscribes"))
                .detail("It leaves its group and reads nothing until it subscribes again.")
        }
        Event::PartitionsPaused { client, partitions } => {
            about(time, Tone::Info, client, format!("{client} pauses {}", list(partitions)))
                .detail("It keeps them, fetches nothing more of them, and returns what it has fetched when it resumes them.")
                .rules(&["R-CONS-8"])
        }
        Event::PartitionsResumed { client, partitions } => {
            about(time, Tone::Info, client, format!("{client} resumes {}", list(partitions)))
                .rules(&["R-CONS-8"])
        }
        Event::CallRefused { client, reason } => {
            about(time, Tone::Warn, client, format!("{client} could not do what it was asked for: {reason}"))
        }
        Event::PositionOutOfRange { client, tp, offset } => {
            about(time, Tone::Warn, client, format!("{client}: offset {offset} of {tp} is out of range"))
                .detail("The leader's log begins behind it or ends before it; auto.offset.reset decides where to read on.")
                .rules(&["R-CONS-13"])
        }
        Event::TruncationDetected { client, tp, position, end } => {
            let title = format!("{client}: {tp} was cut before its position {position}");
            let detail = match end {
                Some(end) => format!(
                    "The leader that was elected has the history it has read only up to {end}; with a reset strategy it \
                     goes on there."
                ),
                None => "The leader does not know the history it has read; auto.offset.reset decides where to \
                         read on."
                    .to_owned(),
            };
            about(time, Tone::Bad, client, title).detail(detail).rules(&["R-CONS-32"])
        }
        Event::AbortedPassedOver { client, tp, from, to, records } => {
            let last = to.0 - 1;
            let passed = count(*records, "record");
            let title = format!("{client} passes over {passed} of {tp} between offsets {from} and {last}");
            about(time, Tone::Info, client, title)
                .detail(
                    "They are of an aborted transaction. They stay in the log, and who reads with \
                     isolation.level=read_uncommitted gets them.",
                )
                .rules(&["R-CONS-30"])
        }
        Event::ReadReplicaChosen { client, tp, replica, rack } => {
            let title = format!("{client} reads {tp} from broker {replica}, in its own rack {rack}");
            about(time, Tone::Info, client, title)
                .detail("The leader told it to; it sees a record once that follower knows it to be committed.")
                .rules(&["R-REPL-62", "R-REPL-64"])
        }
        Event::NoOffsetForPartitions { client, partitions } => {
            about(time, Tone::Bad, client, format!("{client} ends: nothing is committed of {}", list(partitions)))
                .detail("With auto.offset.reset=none poll() throws NoOffsetForPartitionException.")
                .rules(&["R-CONS-11"])
        }
        Event::RecordUnreadable { client, tp, offset, part } => {
            let part = match part {
                RecordPart::Key => "key",
                RecordPart::Value => "value",
            };
            let title =
                format!("{client} ends: it cannot read the {part} of the record at offset {offset} of {tp}");
            about(time, Tone::Bad, client, title)
                .detail(
                    "poll() throws RecordDeserializationException at this record, to whoever comes to it, until somebody \
                     seeks or commits past it.",
                )
                .rules(&["R-CONS-34"])
        }
        Event::ClientFailed { client, error } => {
            about(time, Tone::Bad, client, format!("{client} ends with an error: {error}"))
        }
        _ => return None,
    };
    Some(sentence)
}
