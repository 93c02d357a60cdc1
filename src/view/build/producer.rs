//! Producers, as the view shows them: those that stand alone, and how far each is with what it was handed.

use std::rc::Rc;

use super::client::{ClientSource, profile_name, seconds};
use super::faults::Faults;
use super::reuse::keep;
use super::transaction::{Transactions, identity, transaction_view};
use crate::client::producer::status::{BatchState, BatchStatus, Cause, Hurry, Waiting};
use crate::client::producer::{Phase, Producer};
use crate::client::profile::Profile;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::Topic;
use crate::view::model::{Health, ProducerView, SendingView};

pub fn producer_view(
    source: &ClientSource<'_, Producer>,
    now: Time,
    faults: &Faults,
    transactions: &Transactions,
    before: Option<&ProducerView>,
) -> ProducerView {
    let producer = source.client;
    let config = producer.config();
    let spec = producer.spec().expect("a producer of its own has a workload");
    let over = matches!(producer.phase(), Phase::Closed | Phase::Failed { .. });
    ProducerView {
        name: Rc::from(spec.name.as_str()),
        node: source.node,
        health: if over { Health::Dead } else { source.health },
        paused: producer.phase() == Phase::Paused,
        topic: Rc::from(spec.topic.as_str()),
        rate: Rc::from(spec.rate.to_string()),
        acks: Rc::from(config.acks.name()),
        idempotent: config.enable_idempotence,
        profile: profile_name(Profile::of(config.library, &[])),
        sending: sending_view(producer, &spec.topic, transactions, now, before.map(|view| &view.sending)),
        waiting: waiting(source, now).map(Rc::from),
        faults: faults.of_node(source.node),
    }
}

/// `topic`: where its records go.
pub fn sending_view(
    producer: &Producer,
    topic: &Topic,
    transactions: &Transactions,
    now: Time,
    before: Option<&Rc<SendingView>>,
) -> Rc<SendingView> {
    let counts = producer.counts();
    let batches: Vec<BatchStatus> = producer.batches(now).collect();
    let queued = || batches.iter().filter(|batch| is_queued(batch.state));
    let memory_bytes = producer.config().buffer_memory.max(1);
    let transaction = transaction_view(producer, transactions);
    let view = SendingView {
        sent: counts.sent,
        acknowledged: counts.acknowledged,
        failed: counts.failed,
        identity: producer.identity().map(|(id, epoch)| Rc::from(identity(id, epoch))),
        sticky: producer.sticky(topic).map(|sticky| {
            let (partition, appended) = (sticky.partition, sticky.appended_bytes);
            Rc::from(format!("{topic}-{partition} · {appended} of {} bytes", sticky.turn_bytes))
        }),
        waiting_batches: queued().count() as i64,
        waiting_records: queued().map(|batch| i64::from(batch.records)).sum(),
        waiting_bytes: queued().map(|batch| i64::from(batch.size_bytes)).sum(),
        requests_in_flight: producer.requests_in_flight().iter().map(|(_, requests)| requests).sum(),
        buffer_free_percent: producer.free_buffer_bytes() * 100 / memory_bytes,
        first: queued()
            .next()
            .map(|batch| Rc::from(format!("{} {}", batch.tp, why(batch.state, producer.hurry())))),
        transaction: transaction
            .map(|view| keep(before.and_then(|before| before.transaction.as_ref()), view)),
    };
    keep(before, view)
}

pub fn is_queued(state: BatchState) -> bool {
    !matches!(state, BatchState::InFlight | BatchState::GivenUp)
}

/// Why a batch waits or goes, in words that follow its partition.
pub fn why(state: BatchState, hurry: Option<Hurry>) -> &'static str {
    match state {
        BatchState::Behind => "waits behind an earlier batch",
        BatchState::Lingering { .. } => "lingers until linger.ms is over",
        BatchState::BackingOff { .. } => "waits for retry.backoff.ms",
        BatchState::Ready(Cause::Full) => "is ready: it is full",
        BatchState::Ready(Cause::NextBegun) => "is ready: the next batch is begun",
        BatchState::Ready(Cause::Lingered) => "is ready: linger.ms is over",
        BatchState::Ready(Cause::Hurried) => match hurry {
            Some(Hurry::Close) => "is ready: close() waits for it",
            Some(Hurry::Memory) => "is ready: buffer.memory is full",
            Some(Hurry::Flush) => "is ready: flush() waits for it",
            Some(Hurry::TransactionEnd) | None => "is ready: the end of its transaction waits for it",
        },
        BatchState::InFlight => "is in flight",
        BatchState::GivenUp => "is given up; its answer may still come",
    }
}

fn waiting(source: &ClientSource<'_, Producer>, now: Time) -> Option<String> {
    let producer = source.client;
    match (source.health, producer.phase()) {
        (_, Phase::Failed { error, .. }) => return Some(format!("Ended with {}.", error.name())),
        (Health::Dead | Health::Frozen, _) | (_, Phase::Closed) => return None,
        (_, Phase::Closing) => return Some("Closing: waits for the outcome of what was sent.".to_owned()),
        (_, Phase::Running | Phase::Paused) => {}
    }
    if let Some(wait) = producer.waits_for().first() {
        return Some(match wait {
            Waiting::Metadata(topic, ErrorCode::None) => format!("Waits for metadata of {topic}."),
            Waiting::Metadata(topic, error) => {
                format!("Waits for metadata of {topic}: {}.", error.name())
            }
            Waiting::Memory => "buffer.memory is full.".to_owned(),
            Waiting::ProducerId => "Waits for a producer id.".to_owned(),
            Waiting::Leader(tp) => format!("{tp} has no known leader."),
            Waiting::Connection(broker) => format!("Connects to broker {broker}."),
        });
    }
    if producer.is_in_flush() {
        return Some("flush() waits for the outcome of what was sent.".to_owned());
    }
    let retried =
        producer.batches(now).find(|batch| batch.attempts > 0 && batch.state != BatchState::GivenUp)?;
    Some(format!(
        "{}: attempt {} after {}.",
        retried.tp,
        retried.attempts + 1,
        seconds(now.ms_since(retried.created_at))
    ))
}

#[cfg(test)]
mod tests {
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::sentences;

    const SCENARIO: &str = r#"
        format = 1
        [[broker]]
        id = 1
        [[topic]]
        name = "orders"
        partitions = 1
        replication-factor = 1
        [[producer]]
        name = "slow"
        topic = "orders"
        rate = "10/s"
        keys = "none"
        config = { "linger.ms" = "60000" }
    "#;

    /// R-PROD-3: a batch waits until it is full, has lingered, or something ends the linger of all.
    #[test]
    fn a_producer_says_what_waits_and_what_makes_it_ready_r_prod_3() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(6_000), u64::MAX);
        let shown = model(&session, None, None);
        let sending = &shown.producers[0].sending;
        assert!(sending.waiting_records > 10 && sending.waiting_batches == 1, "{sending:?}");
        assert_eq!(sending.first.as_deref(), Some("orders-0 lingers until linger.ms is over"));
        assert!(sending.sticky.as_deref().is_some_and(|sticky| sticky.starts_with("orders-0 · ")));
        assert!(sentences::accumulated(sending).contains(" records in 1 batch, "));
        session.command("cut broker 1 from slow").expect("they are there");
        session.command("flush slow").expect("it runs");
        session.run_until(session.now().plus_ms(100), u64::MAX);
        let shown = model(&session, None, Some(&shown));
        assert_eq!(
            shown.producers[0].waiting.as_deref(),
            Some("flush() waits for the outcome of what was sent.")
        );
        assert_eq!(shown.producers[0].sending.requests_in_flight, 1, "{:?}", shown.producers[0]);
    }
}
