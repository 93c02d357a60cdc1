//! A producer as Kafka's Java client behaves, with the application that feeds it.
//!
//! Mirrors `KafkaProducer` and its sender thread (section 4 of the reference). The application is one thread: while its
//! `send()` blocks for metadata or memory it makes no further records (R-PROD-1, R-PROD-2). It is either a [`workload`],
//! or somebody else's program, which drives the producer by [`call`]s; [`transaction_manager`] has what is special about
//! transactions.
//!
//! **Invariant:** every record that the application made is, in the end, counted once as acknowledged or as failed.

mod accumulator;
mod application;
mod batch;
mod ending;
mod java_float;
mod partitioning;
mod ratio;
pub mod call;
mod send;
mod sender;
mod sequences;
pub mod status;
#[cfg(test)]
mod tests;
pub mod transaction_manager;
mod transactional;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use self::accumulator::{Accumulator, Readiness};
use self::application::Transactions;
pub use self::application::{TransactionPace, Wish};
use self::batch::Shape;
use self::call::Thread;
pub use self::call::{Call, CallName};
use self::ending::Flush;
use self::partitioning::Partitioning;
use self::send::BlockedSend;
use self::sender::{IdRequest, SentBatch};
use self::sequences::Sequences;
use self::status::BatchMetrics;
use self::transaction_manager::TransactionManager;
pub use self::transaction_manager::{CommittedOffset, Offsets, ProducerError};
use self::transactional::{Sender, Turn};
use self::workload::Workload;
pub use self::workload::{Message, ProducerSpec};
use super::config::ConfigError;
use super::config::producer::ProducerConfig;
use super::metadata::Metadata;
use crate::kafka::effects::{Effects, Input, Peer};
use crate::kafka::event::Event;
use crate::kafka::network_client::{NetworkClient, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, Offset, TopicPartition};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProducerTimer {
    Network(NetworkTimer),
    /// The application makes its next record.
    Generate,
    /// The sender looks again: a linger, a back-off or a timeout ends.
    Wake,
}

impl From<NetworkTimer> for ProducerTimer {
    fn from(timer: NetworkTimer) -> Self {
        ProducerTimer::Network(timer)
    }
}

/// What a request is for.
#[derive(Clone, Debug)]
enum Context {
    Metadata,
    InitProducerId,
    Produce(Rc<[SentBatch]>),
    /// What the sender's turn says.
    Transactional,
}

/// Who feeds the producer.
#[derive(Clone, Debug)]
enum Application {
    Workload {
        spec: Rc<ProducerSpec>,
        workload: Workload,
        /// With `transactional.id`.
        transactions: Option<Transactions>,
    },
    /// Another program, call by call.
    Calls,
}

/// Of a record whose partition was never chosen (`RecordMetadata.UNKNOWN_PARTITION`).
const UNKNOWN_PARTITION: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// The application makes no records; what it made is still sent.
    Paused,
    /// `close()` waits until everything has its outcome (R-PROD-8).
    Closing,
    Closed,
    Failed {
        at: Time,
        error: ErrorCode,
    },
}

/// Records, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Handed to `send()`, whatever became of them.
    pub sent: i64,
    pub acknowledged: i64,
    pub failed: i64,
}

#[derive(Clone, Debug)]
pub struct Producer {
    name: ClientName,
    application: Application,
    thread: Thread,
    config: ProducerConfig,
    random: Random,
    network: NetworkClient<Context>,
    metadata: Metadata,
    partitioning: Partitioning,
    accumulator: Accumulator,
    /// `None` without idempotence.
    sequences: Option<Sequences>,
    id_request: IdRequest,
    /// `None` without `transactional.id`.
    transactions: Option<TransactionManager>,
    turn: Turn,
    blocked: Option<BlockedSend>,
    flush: Option<Flush>,
    /// A close() ends at this moment, whatever is still open.
    close_by: Option<Time>,
    /// Partitions with a request in flight where only one is allowed (R-PROD-6).
    muted: BTreeSet<TopicPartition>,
    /// Per broker, the partition that was looked at last.
    drain_from: BTreeMap<BrokerId, TopicPartition>,
    phase: Phase,
    counts: Counts,
    metrics: BatchMetrics,
    wake_at: Option<Time>,
    /// The sender's thread has something to look at (`Sender.wakeup`).
    woken: bool,
}

type Fx<'a> = &'a mut Effects<ProducerTimer>;

impl Producer {
    pub fn new(spec: ProducerSpec, bootstrap: &[BrokerId], random: Random) -> Result<Producer, ConfigError> {
        let (name, config) = (spec.name.clone(), spec.check()?);
        let is_transactional = config.transactional_id.is_some();
        let application = |mut random: Random| {
            let transactions = is_transactional.then(|| {
                let random = Random::stream(random.next_u64(), "transactions");
                Transactions::new(spec.transactions, random)
            });
            Application::Workload { spec: Rc::new(spec), workload: Workload::new(random), transactions }
        };
        Ok(Producer::of(name, config, application, bootstrap, random))
    }

    fn of(
        name: ClientName,
        config: ProducerConfig,
        application: impl FnOnce(Random) -> Application,
        bootstrap: &[BrokerId],
        mut random: Random,
    ) -> Producer {
        let mut stream = |name: &str| Random::stream(random.next_u64(), name);
        let (network_random, metadata_random) = (stream("network"), stream("metadata"));
        let seed = random.next_u64();
        let network_config = config.common.network(config.max_in_flight);
        let transactions = config.transactional_id.clone().map(|id| {
            let backoff_ms = config.common.retry_backoff.initial_ms;
            TransactionManager::new(id, config.transaction_timeout_ms, backoff_ms)
        });
        Producer {
            network: NetworkClient::new(name.clone(), network_config, network_random),
            metadata: Metadata::new(bootstrap, config.common, true, metadata_random),
            application: application(Random::stream(seed, "workload")),
            partitioning: Partitioning::new(&config, Random::stream(seed, "partitioner")),
            accumulator: Accumulator::new(Shape::of(&config), config.linger_ms, config.buffer_memory),
            sequences: config.enable_idempotence.then(|| Sequences::new(transactions.is_some())),
            id_request: IdRequest::Due(Time::ZERO),
            transactions,
            turn: Turn::default(),
            blocked: None,
            flush: None,
            close_by: None,
            muted: BTreeSet::new(),
            drain_from: BTreeMap::new(),
            phase: Phase::Running,
            counts: Counts::default(),
            metrics: BatchMetrics::default(),
            wake_at: None,
            woken: false,
            name,
            thread: Thread::default(),
            config,
            random,
        }
    }

    pub fn handle(&mut self, now: Time, input: Input<ProducerTimer>, fx: &mut Effects<ProducerTimer>) {
        if self.phase == Phase::Closed {
            return;
        }
        match input {
            Input::Start => self.start_generating(now, fx),
            Input::Timer(ProducerTimer::Generate) => return self.generate(now, fx),
            Input::Timer(ProducerTimer::Wake) => self.wake_at = None,
            Input::Timer(ProducerTimer::Network(timer)) => {
                let event = self.network.on_timer(now, timer, fx);
                self.on_network(now, event, fx);
            }
            input => {
                self.note_lost_connection(&input, fx);
                let event = self.network.on_input(now, &input, fx);
                self.on_network(now, event, fx);
            }
        }
        self.poll(now, fx);
    }

    /// The application stops making records.
    pub fn pause(&mut self, now: Time, fx: &mut Effects<ProducerTimer>) {
        if self.phase == Phase::Running {
            self.phase = Phase::Paused;
            self.stop_generating(fx);
            fx.event(Event::ProducerPaused { client: self.name() });
            self.poll(now, fx);
        }
    }

    /// The application goes on making records.
    pub fn resume(&mut self, now: Time, fx: &mut Effects<ProducerTimer>) {
        if self.phase == Phase::Paused {
            self.phase = Phase::Running;
            fx.event(Event::ProducerResumed { client: self.name() });
            self.start_generating(now, fx);
            self.poll(now, fx);
        }
    }

    fn name(&self) -> ClientName {
        self.name.clone()
    }

    fn start_generating(&mut self, now: Time, fx: Fx<'_>) {
        if let Application::Workload { workload, .. } = &mut self.application {
            workload.start(now);
        }
        self.schedule_next(now, fx);
    }

    fn stop_generating(&mut self, fx: Fx<'_>) {
        fx.cancel_timer(ProducerTimer::Generate);
    }

    fn schedule_next(&mut self, now: Time, fx: Fx<'_>) {
        if let Application::Workload { spec, workload, .. } = &self.application
            && self.phase == Phase::Running
            && self.blocked.is_none()
            && self.flush.is_none()
        {
            fx.set_timer(ProducerTimer::Generate, workload.next_at(now, spec.rate));
        }
    }

    fn generate(&mut self, now: Time, fx: Fx<'_>) {
        if self.phase != Phase::Running {
            return;
        }
        if let Application::Workload { spec, workload, transactions: None } = &mut self.application {
            let message = workload.make(spec);
            self.begin_send(now, message, fx);
        } else {
            self.send_in_transaction(now, fx);
            self.woken = self.woken || self.go_on(now, fx);
        }
        self.schedule_next(now, fx);
        self.poll_if_woken(now, fx);
    }

    /// Whether some records have no outcome.
    fn has_incomplete(&self) -> bool {
        self.accumulator.oldest_open().is_some()
    }

    /// A connection that stood is gone.
    fn note_lost_connection(&self, input: &Input<ProducerTimer>, fx: Fx<'_>) {
        if let Input::Disconnected(peer) = input
            && self.network.is_connected(*peer)
        {
            let requests = self.network.in_flight(*peer);
            fx.event(Event::ConnectionLost { client: self.name(), node: peer.node, requests });
        }
    }

    fn on_network(&mut self, now: Time, event: Option<NetworkEvent<Context>>, fx: Fx<'_>) {
        match event {
            Some(NetworkEvent::Answered { context, response, .. }) => {
                self.on_answer(now, context, &response, fx)
            }
            Some(NetworkEvent::Lost { peer, contexts, timed_out }) => {
                self.on_lost(now, peer, contexts, timed_out, fx);
            }
            Some(NetworkEvent::Ready(_) | NetworkEvent::BackoffOver(_)) | None => {}
        }
    }

    fn on_answer(&mut self, now: Time, context: Context, response: &Response, fx: Fx<'_>) {
        match (context, response) {
            (Context::Metadata, Response::Metadata(answer)) => self.metadata.on_response(now, answer),
            (Context::InitProducerId, Response::InitProducerId(answer)) => {
                self.on_producer_id(now, answer, fx)
            }
            (Context::Transactional, response) => self.on_transactional_answer(response, fx),
            (Context::Produce(sent), Response::Produce(answer)) => self.on_produced(now, &sent, answer, fx),
            (context, response) => panic!("{:?} answers {context:?}", response.api()),
        }
    }

    /// Everything in flight on the connection is tried again; whether it was carried out is not known (R-PROD-16).
    fn on_lost(
        &mut self,
        now: Time,
        peer: Peer,
        contexts: Vec<Context>,
        timed_out: Option<ApiKey>,
        fx: Fx<'_>,
    ) {
        if let Some(api) = timed_out {
            fx.event(Event::RequestTimedOut { client: self.name(), node: peer.node, api });
        }
        let error = timed_out.map_or(ErrorCode::NetworkException, |_| ErrorCode::RequestTimedOut);
        for context in contexts {
            match context {
                Context::Metadata => self.metadata.on_failure(now),
                Context::InitProducerId => self.retry_producer_id(now),
                Context::Transactional => self.on_transactional_lost(),
                Context::Produce(sent) => {
                    for batch in sent.iter() {
                        self.complete(now, batch.id, error, Offset::UNKNOWN, fx);
                    }
                }
            }
        }
        self.metadata.on_disconnect(now);
    }

    /// Everything that can be done now is done, by the sender's thread and by the application's.
    fn poll(&mut self, now: Time, fx: Fx<'_>) {
        while self.round(now, fx) {}
        self.woken = false;
    }

    /// A record that joins a batch that others wait in leaves the sender's thread asleep: there is nothing new for it to do
    /// (`KafkaProducer.doSend`).
    fn poll_if_woken(&mut self, now: Time, fx: Fx<'_>) {
        if self.woken {
            self.poll(now, fx);
        }
    }

    /// One round of the sender's thread; says whether the application has made another call.
    fn round(&mut self, now: Time, fx: Fx<'_>) -> bool {
        self.finish_close(now, fx);
        if matches!(self.phase, Phase::Closed | Phase::Failed { .. }) {
            return false;
        }
        self.abort_for_close(fx);
        self.unblock(now, fx);
        self.settle_sequences(fx);
        if self.transactions.is_none() || self.advance_transaction(now, fx) == Sender::Free {
            self.send_all(now, fx);
        }
        let metadata_at = self.metadata.maybe_refresh(now, &mut self.network, Context::Metadata, fx);
        self.settle_call(now);
        let goes_on = self.go_on(now, fx);
        self.arm(now, metadata_at, fx);
        self.finish_close(now, fx);
        goes_on
    }

    /// What `sendProducerData` does, as often as there is something to send.
    fn send_all(&mut self, now: Time, fx: Fx<'_>) {
        self.expire(now, fx);
        self.ask_for_producer_id(now, fx);
        loop {
            self.unblock(now, fx);
            self.settle_flush(now, fx);
            if !self.send_ready(now, fx) {
                break;
            }
        }
    }

    /// `close()` aborts a transaction that nobody ends any more, once everything else is through.
    fn abort_for_close(&mut self, fx: Fx<'_>) {
        if self.phase == Phase::Closing
            && let (Some(transactions), Some(sequences)) = (&mut self.transactions, &self.sequences)
            && transactions.has_ongoing_transaction()
            && !transactions.is_completing()
            && !transactions.has_requests()
            && matches!(self.turn, Turn::Free)
            && self.accumulator.is_empty()
            && !transactions.abort_for_close(sequences, self.network.features())
        {
            self.phase = Phase::Closed;
            fx.exit();
        }
    }

    /// Sets the timer for the next moment at which there is something to do without any input.
    fn arm(&mut self, now: Time, metadata_at: Option<Time>, fx: Fx<'_>) {
        let hurry = self.hurries();
        let batch_at = self.accumulator.waiting().filter_map(|tp| {
            let (_, epoch) = self.metadata.leader(tp)?;
            match self.accumulator.readiness(now, tp, epoch, hurry)? {
                Readiness::At(at) => Some(at),
                Readiness::Ready(_) => None,
            }
        });
        let oldest = self.accumulator.oldest_open();
        let expires_at = oldest.map(|created_at| created_at.plus_ms(self.config.delivery_timeout_ms));
        let gives_up_at =
            self.blocked.as_ref().map(|blocked| blocked.since.plus_ms(self.config.max_block_ms));
        let id_at = match self.id_request {
            IdRequest::Due(at) => Some(at),
            IdRequest::InFlight => None,
        };
        let thread_at = self.turn_ends_at().into_iter().chain(self.call_gives_up_at());
        let moments = batch_at.chain(expires_at).chain(gives_up_at).chain(id_at).chain(metadata_at);
        let moments = moments.chain(thread_at).chain(self.close_by);
        let wake_at = moments.filter(|at| *at > now).min();
        if wake_at != self.wake_at {
            match wake_at {
                Some(at) => fx.set_timer(ProducerTimer::Wake, at),
                None => fx.cancel_timer(ProducerTimer::Wake),
            }
            self.wake_at = wake_at;
        }
    }
}
