//! What is known of one producer, one consumer or one application: all that its card has no room for.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::client::seconds;
use super::inspect::fact;
use super::producer::why;
use super::sources::Sources;
use super::transaction::{Transactions, transaction_view};
use crate::client::config::producer::PartitionerClass;
use crate::client::consumer::Consumer;
use crate::client::producer::Producer;
use crate::client::producer::status::BatchStatus;
use crate::client::profile::{Profile, Side};
use crate::client::program::text;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, Topic};
use crate::lab::command::Why;
use crate::lab::words::{count, duration};
use crate::view::model::{Fact, Focus, Inspected, Section, Tone, TransactionView};
use crate::view::sentences::list;

/// `None` when there is no such client any more.
pub fn inspect_client(
    focus: &Focus,
    name: &ClientName,
    sources: &Sources<'_>,
    transactions: &Transactions,
    now: Time,
) -> Option<Inspected> {
    let inspected = |title: String, facts: Vec<Fact>, sections: Vec<Section>| {
        let (title, facts, sections) = (title.into(), facts.into(), sections.into());
        let idle = Some(Rc::from(Why::Idle(name.to_string()).to_string()));
        Some(Inspected { focus: focus.clone(), title, facts, sections, idle, story: None, bytes: None })
    };
    let applications = &mut sources.applications.values();
    if let Some(application) = applications.find(|application| application.spec().name == *name) {
        let spec = application.spec();
        let (consumer, producer) = (application.consumer(), application.producer());
        let facts = vec![
            fact("reads", list(&spec.topics)),
            fact("writes", &spec.output),
            fact("program", text(consumer.program().lines())),
            fact("profile", profile_of(consumer).name()),
        ];
        let mut sections = vec![section("Its consumer", consumer_facts(consumer, now))];
        sections.extend(of_producer(producer, &spec.output, &spec.config, transactions, now));
        sections.extend(differences(profile_of(consumer), Side::Consumer, &spec.config));
        return inspected(format!("application {name}"), facts, sections);
    }
    let consumers = &mut sources.consumers.iter().map(|source| source.client);
    if let Some(consumer) = consumers.find(|consumer| consumer.spec().name == *name) {
        let mut facts = vec![
            fact("profile", profile_of(consumer).name()),
            fact("program", text(consumer.program().lines())),
        ];
        facts.extend(consumer_facts(consumer, now));
        let sections = differences(profile_of(consumer), Side::Consumer, &consumer.spec().config);
        return inspected(format!("consumer {name}"), facts, sections.into_iter().collect());
    }
    let producers =
        &mut sources.producers.iter().filter_map(|source| Some((source.client, source.client.spec()?)));
    let (producer, spec) = producers.find(|(_, spec)| spec.name == *name)?;
    let facts = vec![
        fact("writes", format!("{}, {}", spec.topic, spec.rate)),
        fact("keys", &spec.keys),
        fact("profile", Profile::of(producer.config().library, &[]).name()),
    ];
    let sections = of_producer(producer, &spec.topic, &spec.config, transactions, now);
    inspected(format!("producer {name}"), facts, sections)
}

fn section(title: &'static str, facts: Vec<Fact>) -> Section {
    Section { title, facts: facts.into() }
}

fn profile_of(consumer: &Consumer) -> Profile {
    Profile::of(consumer.config().library, consumer.program().lines())
}

fn consumer_facts(consumer: &Consumer, now: Time) -> Vec<Fact> {
    let (config, membership) = (consumer.config(), consumer.membership());
    let mut facts = Vec::new();
    if consumer.subscription().is_in_group() {
        let identity = &membership.identity;
        let member = if identity.member.as_str().is_empty() { "none yet" } else { identity.member.as_str() };
        let coordinator =
            membership.coordinator().map_or("not known".to_owned(), |broker| format!("broker {broker}"));
        facts.push(fact("group", &consumer.spec().group));
        facts.push(fact("member id", member));
        facts.push(fact("generation", identity.generation.0));
        facts.push(fact("coordinator", coordinator));
        if membership.sends_heartbeats() {
            let heartbeat = &membership.heartbeat;
            let left = |at: Time| format!("{} left", seconds(at.ms_since(now)));
            facts.push(fact("session", left(heartbeat.session_until)));
            facts.push(fact("poll interval", left(heartbeat.poll_until)));
        }
    }
    let automatic = match config.auto_commit_interval_ms {
        Some(ms) => format!("every {}", duration(ms)),
        None => "off".to_owned(),
    };
    facts.push(fact("auto commit", automatic));
    facts.push(fact("isolation", config.isolation.name()));
    facts.push(fact(
        "in one poll",
        format!("{} at most", count(i64::from(config.max_poll_records), "record")),
    ));
    facts
}

fn of_producer(
    producer: &Producer,
    topic: &Topic,
    given: &BTreeMap<String, String>,
    transactions: &Transactions,
    now: Time,
) -> Vec<Section> {
    let mut sections = Vec::new();
    if let Some(transaction) = transaction_view(producer, transactions) {
        sections.push(section("Its transaction", transaction_facts(&transaction, producer)));
    }
    sections.push(section("Its producer", producer_facts(producer, topic, now)));
    let delivery_ms = producer.config().delivery_timeout_ms;
    let batches: Vec<Fact> =
        producer.batches(now).map(|batch| batch_fact(&batch, producer, delivery_ms, now)).collect();
    if !batches.is_empty() {
        sections.push(section("Batches without an outcome", batches));
    }
    sections.extend(differences(Profile::of(producer.config().library, &[]), Side::Producer, given));
    sections
}

fn producer_facts(producer: &Producer, topic: &Topic, now: Time) -> Vec<Fact> {
    let (config, counts, metrics) = (producer.config(), producer.counts(), producer.metrics());
    let records = [(counts.sent, "sent"), (counts.acknowledged, "acknowledged"), (counts.failed, "failed")];
    let records = records.map(|(number, what)| format!("{number} {what}")).join(", ");
    let mut facts = vec![fact("records", records), fact("acks", config.acks.name())];
    facts.push(match (producer.identity(), config.enable_idempotence) {
        (Some((id, epoch)), _) => fact("idempotence", super::transaction::identity(id, epoch)),
        (None, true) => fact("idempotence", "waits for a producer id"),
        (None, false) => {
            Fact { tone: Tone::Warning, ..fact("idempotence", "off: a retry may repeat records") }
        }
    });
    let sequences: Vec<String> = producer.next_sequences().map(|(tp, next)| format!("{tp} {next}")).collect();
    if !sequences.is_empty() {
        facts.push(fact("next sequence", sequences.join(", ")));
    }
    facts.push(fact("partition", partitioning(producer, topic)));
    let in_flight: Vec<String> =
        producer.requests_in_flight().iter().map(|(broker, n)| format!("{n} to broker {broker}")).collect();
    let in_flight = if in_flight.is_empty() { "none".to_owned() } else { in_flight.join(", ") };
    facts.push(fact("in flight", format!("{in_flight}; {} to a broker at most", config.max_in_flight)));
    let used = config.buffer_memory - producer.free_buffer_bytes();
    facts.push(fact("buffer.memory", format!("{used} of {} bytes used", config.buffer_memory)));
    let oldest = producer.batches(now).map(|batch| now.ms_since(batch.created_at)).max();
    let oldest = oldest.map_or("nothing is open".to_owned(), |ms| format!("oldest batch {}", seconds(ms)));
    facts.push(fact("delivery", format!("{oldest}, of {}", duration(config.delivery_timeout_ms))));
    let tenths = metrics.records_per_batch_tenths();
    facts.push(fact(
        "batches so far",
        format!("{}, of {}.{} records", metrics.batches, tenths / 10, tenths % 10),
    ));
    facts
}

fn partitioning(producer: &Producer, topic: &Topic) -> String {
    match (producer.config().partitioner, producer.sticky(topic)) {
        (PartitionerClass::RoundRobin, _) => "each record in the next one".to_owned(),
        (PartitionerClass::ConsistentRandom, _) => "CRC32 of the key, at random without one".to_owned(),
        (PartitionerClass::BuiltIn, Some(sticky)) => format!(
            "sticks to {topic}-{}, which has had {} of {} bytes of its turn",
            sticky.partition, sticky.appended_bytes, sticky.turn_bytes
        ),
        (PartitionerClass::BuiltIn, None) => "murmur2 of the key".to_owned(),
    }
}

fn batch_fact(batch: &BatchStatus, producer: &Producer, delivery_ms: i64, now: Time) -> Fact {
    let left_ms = batch.created_at.plus_ms(delivery_ms).ms_since(now);
    let sequence =
        if batch.base_sequence < 0 { String::new() } else { format!("sequence {}, ", batch.base_sequence) };
    let tries = match batch.attempts {
        0 => String::new(),
        attempts => format!("{} failed, ", count(i64::from(attempts), "attempt")),
    };
    let text = format!(
        "{}, {}, {sequence}{tries}{}; {} left",
        count(i64::from(batch.records), "record"),
        count(i64::from(batch.size_bytes), "byte"),
        why(batch.state, producer.hurry()),
        seconds(left_ms)
    );
    let tone = if batch.attempts > 0 { Tone::Warning } else { Tone::Neutral };
    Fact { tone, ..fact(&batch.tp.to_string(), text) }
}

fn transaction_facts(view: &TransactionView, producer: &Producer) -> Vec<Fact> {
    let mut facts = vec![fact("transactional.id", &view.id), fact("client", view.state)];
    if let Some(error) = &view.error {
        facts.push(Fact { tone: Tone::Bad, ..fact("error", error) });
    }
    facts.extend(view.calling.as_ref().map(|call| fact("in call", call)));
    facts.push(fact("client wrote to", list(&view.partitions)));
    let pending = producer.transaction_manager().map(|manager| manager.pending_offsets());
    let pending: Vec<String> =
        pending.into_iter().flatten().map(|(tp, committed)| format!("{tp} {}", committed.offset)).collect();
    if !pending.is_empty() {
        facts.push(fact("offsets on their way", pending.join(", ")));
    }
    match &view.coordinated {
        None => facts.push(fact("coordinator", "knows nothing of it, or there is none")),
        Some(coordinated) => facts.extend([
            fact("coordinator", format!("broker {}", coordinated.broker)),
            fact("state there", coordinated.standing()),
            fact("producer there", &coordinated.producer),
            fact("partitions there", list(&coordinated.partitions)),
            fact("time", crate::view::sentences::transaction_time(coordinated)),
        ]),
    }
    facts
}

/// What the client's profile changes; nothing of Kafka's own Java client.
fn differences(profile: Profile, side: Side, given: &BTreeMap<String, String>) -> Option<Section> {
    let facts: Vec<Fact> = profile
        .differences(side, given)
        .into_iter()
        .map(|difference| fact(difference.what, format!("{}; java: {}", difference.own, difference.java)))
        .collect();
    let title = match side {
        Side::Producer => "Otherwise than Kafka's Java producer",
        Side::Consumer => "Otherwise than Kafka's Java consumer",
    };
    (!facts.is_empty()).then(|| section(title, facts))
}

#[cfg(test)]
mod tests {
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::model::{Focus, Inspected};

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    fn inspected(session: &Session, name: &str) -> Inspected {
        let focus = Focus::Client(name.into());
        (*model(session, Some(&focus), None).inspected.expect("there is such a client")).clone()
    }

    fn titles(inspected: &Inspected) -> Vec<&'static str> {
        inspected.sections.iter().map(|section| section.title).collect()
    }

    /// All facts, as "name: value".
    fn told(inspected: &Inspected) -> Vec<String> {
        let sections = inspected.sections.iter().flat_map(|section| section.facts.iter());
        inspected.facts.iter().chain(sections).map(|fact| format!("{}: {}", fact.name, fact.value)).collect()
    }

    #[test]
    fn a_client_tells_what_its_card_has_no_room_for() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(15_000), u64::MAX);
        let producer = inspected(&session, "checkout-api");
        assert_eq!(&*producer.title, "producer checkout-api");
        let facts = told(&producer);
        for fact in ["profile: java", "partition: murmur2 of the key", "acks: all"] {
            assert!(facts.iter().any(|each| each == fact), "{fact}: {facts:#?}");
        }
        for begin in ["next sequence: orders-0 ", "buffer.memory: ", "idempotence: producer id "] {
            assert!(facts.iter().any(|each| each.starts_with(begin)), "{begin}: {facts:#?}");
        }
        assert!(!titles(&producer).iter().any(|title| title.starts_with("Otherwise")));

        let text = "add consumer c to audit topics orders profile librdkafka";
        session.command(text).expect("it is right");
        session.run_until(session.now().plus_ms(8_000), u64::MAX);
        let consumer = inspected(&session, "c");
        assert_eq!(titles(&consumer), ["Otherwise than Kafka's Java consumer"]);
        let facts = told(&consumer);
        assert!(facts.iter().any(|each| each == "profile: librdkafka"), "{facts:#?}");
        assert!(
            facts.iter().any(|each| each == "isolation.level: read_committed; java: read_uncommitted"),
            "{facts:#?}"
        );
        assert!(facts.iter().any(|each| each.starts_with("member id: ") && !each.ends_with("none yet")));
    }
}
