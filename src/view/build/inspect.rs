//! What is known of one server, one client, one replica or one record.

use std::fmt::Display;
use std::rc::Rc;

use super::inspect_client::inspect_client;
use super::log::{kind_at, last_stable};
use super::server::inspect_server;
use super::sources::Sources;
use super::transaction::Transactions;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::log::Log;
use crate::kafka::record::{Batch, Record};
use crate::kafka::replication::{Partition, ReplicaManager};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use crate::lab::command::{Question, Why, Written, parse};
use crate::lab::ledger::{Ledger, Line, Story};
use crate::lab::session::Session;
use crate::lab::words::count;
use crate::view::model::{
    BrokerView, CellKind, End, Fact, Focus, Inspected, List, OpenView, StoryView, Tone,
};
use crate::view::sentences::list;

/// So many bytes of a batch are shown.
const SHOWN_BYTES: usize = 512;
const BYTES_PER_LINE: usize = 8;

/// `None` when the object is not there any more.
pub fn inspect(
    focus: &Focus,
    session: &Session,
    sources: &Sources<'_>,
    transactions: &Transactions,
    brokers: &List<BrokerView>,
) -> Option<Inspected> {
    let (world, now) = (session.world(), session.now());
    let image = sources.image;
    let log_of = |id: &BrokerId, tp: &TopicPartition| {
        let source = sources.brokers.iter().find(|source| source.id == *id)?;
        let (_, log, partition) = source.logs().into_iter().find(|(each, ..)| *each == tp)?;
        Some((source, log, partition))
    };
    match focus {
        Focus::Broker(id) => Some(inspect_server(focus, (*id).into(), world, image)),
        Focus::Controller(id) => Some(inspect_server(focus, (*id).into(), world, image)),
        Focus::Story(question) => {
            let Ok(Written::Question(Question::Story { of, number, .. })) = parse(question) else {
                return None;
            };
            let story = story_view(session.ledger().story_named(&of, number)?);
            let (facts, sections) = (Rc::from([]), Rc::from([]));
            let title = story.title.clone();
            Some(Inspected {
                focus: focus.clone(),
                title,
                facts,
                sections,
                idle: None,
                story: Some(story),
                bytes: None,
            })
        }
        Focus::Client(name) => inspect_client(focus, name, sources, transactions, now),
        Focus::Replica { broker: id, tp } => {
            let (source, log, partition) = log_of(id, tp)?;
            let title = format!("{tp} on broker {id}");
            let replicas = source.alive().map(|broker| broker.replicas());
            let mut facts = replica_facts(tp, log, partition.zip(replicas), image, now);
            let mut views = brokers.iter().flat_map(|broker| broker.replicas.iter());
            let view = views.find(|view| view.broker == *id && view.tp == *tp);
            facts.extend(view.iter().flat_map(|view| view.open.iter()).map(open_fact));
            let (title, facts) = (title.into(), facts.into());
            let sections = Rc::from([]);
            let idle = Some(Rc::from(Why::Idle(tp.to_string()).to_string()));
            Some(Inspected { focus: focus.clone(), title, facts, sections, idle, story: None, bytes: None })
        }
        Focus::Record { broker: id, tp, offset } => {
            let (_, log, _) = log_of(id, tp)?;
            let batch = log.batches_from(*offset).next().filter(|batch| batch.base_offset() <= *offset)?;
            let record = batch.records().ok()?.into_iter().find(|record| record.offset == *offset)?;
            Some(Inspected {
                focus: focus.clone(),
                title: format!("{tp} @ {offset}, on broker {id}").into(),
                facts: record_facts(batch, &record, log).into(),
                sections: Rc::from([]),
                story: story(session.ledger(), tp, batch.leader_epoch(), *offset),
                bytes: Some(hex(batch.bytes()).into()),
                idle: None,
            })
        }
    }
}

/// What became of the record that was written there in that epoch; `None` if no client of this run wrote it, or it was long ago.
fn story(ledger: &Ledger, tp: &TopicPartition, epoch: LeaderEpoch, offset: Offset) -> Option<StoryView> {
    let (batch, record) = ledger.record_written(tp, epoch, offset)?;
    Some(story_view(ledger.story(batch, record)))
}

fn story_view(story: Story) -> StoryView {
    let line = |line: &Line| (line.at.time, Rc::from(line.text.as_str()));
    StoryView {
        title: story.title.into(),
        lines: story.lines.iter().map(line).collect(),
        now: story.now.iter().map(|sentence| Rc::from(sentence.as_str())).collect(),
    }
}

pub(super) fn fact(name: &str, value: impl Display) -> Fact {
    Fact { name: Rc::from(name), value: Rc::from(value.to_string()), tone: Tone::Neutral, why: None }
}

/// The fact with the question why it is so.
pub(super) fn because(fact: Fact, why: Why) -> Fact {
    Fact { why: Some(Rc::from(why.to_string())), ..fact }
}

fn replica_facts(
    tp: &TopicPartition,
    log: &Log,
    alive: Option<(&Partition, &ReplicaManager)>,
    image: &ClusterImage,
    now: Time,
) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(registration) = image.partition(tp) {
        let leader = match registration.leader.is_some() {
            true => format!("broker {}, epoch {}", registration.leader, registration.leader_epoch),
            false => format!("none, epoch {}", registration.leader_epoch),
        };
        facts.push(because(fact("leader", leader), Why::Leader(tp.clone())));
        facts.push(fact("replicas", list(&registration.replicas)));
        facts.push(because(fact("in sync", list(&registration.isr)), Why::Isr(tp.clone())));
        if !registration.elr.is_empty() {
            facts.push(fact("eligible", list(&registration.elr)));
        }
    }
    if let Some((partition, _)) = alive {
        facts.push(fact("min in sync", partition.config.min_insync_replicas));
    }
    facts.push(because(fact("log start", log.log_start_offset()), Why::LogStart(tp.clone())));
    let mark = Fact { tone: Tone::Good, ..fact("HW", log.high_watermark()) };
    facts.push(because(mark, Why::HighWatermark(tp.clone())));
    facts.extend(last_stable(log).map(|offset| fact("LSO", offset)));
    facts.push(fact("LEO", log.log_end_offset()));
    facts.push(fact("flushed to", log.flushed()));
    facts.push(fact("log", format!("{}, {} bytes", count(log.batch_count(), "batch"), log.size_bytes())));
    let leading = alive.and_then(|(partition, replicas)| Some((partition, replicas, partition.leader()?)));
    let followers = leading.iter().flat_map(|(partition, replicas, leader)| {
        let caught_up_at = |id| replicas.last_caught_up_at(partition, id);
        leader.remotes.iter().map(move |(id, remote)| (id, remote, caught_up_at(*id)))
    });
    for (id, remote, caught_up_at) in followers {
        let end = if remote.log_end_offset == Offset::UNKNOWN {
            "not fetched yet".to_owned()
        } else {
            format!("LEO {}", remote.log_end_offset)
        };
        let caught_up = match caught_up_at {
            Some(at) => format!("caught up {} ms ago", now.ms_since(at)),
            None => "never caught up".to_owned(),
        };
        facts.push(fact(&format!("follower {id}"), format!("{end}, {caught_up}")));
    }
    facts
}

fn record_facts(batch: &Batch, record: &Record, log: &Log) -> Vec<Fact> {
    let text = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => "null".to_owned(),
    };
    let batch_text = format!(
        "{} to {}, leader epoch {}, {}",
        batch.base_offset(),
        batch.last_offset(),
        batch.leader_epoch(),
        count(i64::from(batch.size_bytes()), "byte")
    );
    let mut facts = vec![
        fact("key", text(record.key.as_deref())),
        fact("value", text(record.value.as_deref())),
        fact(
            "timestamp",
            format!("{} ms, {} of this run", record.timestamp_ms, run_time(record.timestamp_ms)),
        ),
        fact("batch", batch_text),
        fact("crc32c", format!("{:08x}", batch.crc())),
    ];
    if batch.producer_id().is_some() {
        let producer = format!(
            "id {}, epoch {}, sequence {}",
            batch.producer_id(),
            batch.producer_epoch(),
            batch.sequence_of(record)
        );
        facts.push(fact("producer", producer));
    }
    if batch.is_transactional() {
        facts.push(transaction_fact(batch, record, log));
    }
    facts.push(match record.offset < log.high_watermark() {
        true => Fact { tone: Tone::Good, ..fact("state", "committed") },
        false => {
            Fact { tone: Tone::Warning, ..fact("state", "not committed: at or above the high watermark") }
        }
    });
    facts
}

fn open_fact(open: &OpenView) -> Fact {
    let tone = match open.end {
        End::Expected | End::Decided => Tone::Neutral,
        End::Unknown => Tone::Warning,
        End::Nobody => Tone::Bad,
    };
    let text = format!("of {}, from {} to {}: {}", open.owner, open.first, open.last, open.standing());
    Fact { tone, ..fact("transaction", text) }
}

fn transaction_fact(batch: &Batch, record: &Record, log: &Log) -> Fact {
    let (text, tone) = match kind_at(log, batch) {
        CellKind::Open => ("open: readers of committed data wait before it", Tone::Warning),
        CellKind::Aborted => ("aborted: readers of committed data pass over it", Tone::Bad),
        CellKind::Commit => ("this control record commits it", Tone::Good),
        CellKind::Abort => ("this control record aborts it", Tone::Bad),
        CellKind::Control | CellKind::Record if record.offset < log.last_stable_offset() => {
            ("committed", Tone::Good)
        }
        CellKind::Control | CellKind::Record => ("over", Tone::Neutral),
    };
    Fact { tone, ..fact("transaction", text) }
}

/// A record's timestamp as virtual time.
fn run_time(timestamp_ms: i64) -> Time {
    Time::from_ms(timestamp_ms - Time::ZERO.wall_ms())
}

/// Lines of eight bytes, each with its place and, where they are such, its letters.
fn hex(bytes: &[u8]) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String =
            line.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        format!("{:04x}  {:23}  {letters}", index * BYTES_PER_LINE, hex.join(" "))
    };
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let mut lines: Vec<String> = shown.chunks(BYTES_PER_LINE).enumerate().map(line).collect();
    if bytes.len() > SHOWN_BYTES {
        lines.push(format!("and {} more", count((bytes.len() - SHOWN_BYTES) as i64, "byte")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::hex;
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::model::Focus;

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    #[test]
    fn a_dump_shows_bytes_and_letters_and_says_what_it_leaves_out() {
        assert_eq!(hex(b"k\0{"), "0000  6b 00 7b                 k.{");
        let long = hex(&[7; 513]);
        assert_eq!((long.lines().count(), long.lines().last()), (65, Some("and 1 byte more")));
    }

    /// The question that tells of a record shows it too.
    #[test]
    fn a_story_is_shown_by_the_question_that_asks_for_it() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(15_000), u64::MAX);
        let focus = |question: &str| Some(Focus::Story(question.into()));
        let shown =
            model(&session, focus("story orders-0 3").as_ref(), None).inspected.expect("there is one");
        let story = shown.story.as_ref().expect("it is a story");
        assert!(shown.title == story.title && story.lines.len() >= 4, "{story:?}");
        for nothing in ["story orders-0 999999", "story", "kill broker 1"] {
            assert_eq!(model(&session, focus(nothing).as_ref(), None).inspected, None, "{nothing}");
        }
    }
}
