//! An application that consumes, processes and produces: one process with a consumer and a producer, and one thread that runs
//! its program, such as `poll; begin; process 5ms; send results; send offsets; commit transaction`.
//!
//! The program is the consumer's; lines that are the producer's calls it leaves to the application (`Consumer::calling`).
//! With `transactional.id` the application calls initTransactions() before its first line. A call that throws makes it do as
//! `KafkaProducer`'s documentation says: abort the transaction where that is possible, go back to what is committed, and
//! begin its program again; close both clients where it is not (R-TXN-31). If poll() returned nothing, the producer is not called.
//!
//! **Invariant:** the thread is in one call of one of the two clients at a time; the producer's connections are its own
//! ([`Channel::Producer`]).

mod spec;

pub use spec::{ApplicationSpec, ApplicationSpecError};

use std::collections::BTreeMap;

use super::consumer::{CloseOptions, Consumer, ConsumerTimer};
use super::group_metadata::GroupMetadata;
use super::producer::transaction_manager::State;
use super::producer::{Call, CommittedOffset, Message, Offsets, Producer, ProducerError, ProducerTimer};
use super::program::{Line, Order, OrderError};
use crate::kafka::effects::{Channel, Effect, Effects, Input, Peer};
use crate::kafka::event::{ApplicationEvent, Event};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplicationTimer {
    Consumer(ConsumerTimer),
    Producer(ProducerTimer),
}

impl From<ConsumerTimer> for ApplicationTimer {
    fn from(timer: ConsumerTimer) -> Self {
        ApplicationTimer::Consumer(timer)
    }
}

impl From<ProducerTimer> for ApplicationTimer {
    fn from(timer: ProducerTimer) -> Self {
        ApplicationTimer::Producer(timer)
    }
}

/// How far the application is with what is no line of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Inside initTransactions().
    Initializing,
    Running,
    /// Inside abortTransaction(), after a call that threw.
    Aborting,
    /// The consumer is closed, and then the producer, unless that is of no use any more.
    Ending {
        closes_producer: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Application {
    spec: ApplicationSpec,
    consumer: Consumer,
    producer: Producer,
    phase: Phase,
    /// The producer was called for the program's current line.
    has_called: bool,
}

type Fx<'a> = &'a mut Effects<ApplicationTimer>;

impl Application {
    /// An application that waits for [`Input::Start`].
    ///
    /// # Errors
    /// Those of [`ApplicationSpec::check`].
    pub fn new(
        spec: ApplicationSpec,
        bootstrap: &[BrokerId],
        mut random: Random,
    ) -> Result<Application, ApplicationSpecError> {
        spec.check()?;
        let (consumer_spec, producer_config) = (spec.consumer(), spec.producer_config());
        let mut stream = |purpose: &str| Random::stream(random.next_u64(), purpose);
        let consumer = Consumer::for_application(consumer_spec, bootstrap, stream("consumer"))?;
        let producer =
            Producer::for_application(spec.name.clone(), &producer_config, bootstrap, stream("producer"))?;
        Ok(Application { spec, consumer, producer, phase: Phase::Running, has_called: false })
    }

    pub fn spec(&self) -> &ApplicationSpec {
        &self.spec
    }

    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    pub fn handle(&mut self, now: Time, input: Input<ApplicationTimer>, fx: Fx<'_>) {
        match input {
            Input::Start => self.start(now, fx),
            input => match sort(input) {
                Sorted::Consumer(input) => {
                    self.with_consumer(fx, |consumer, fx| consumer.handle(now, input, fx))
                }
                Sorted::Producer(input) => {
                    self.with_producer(fx, |producer, fx| producer.handle(now, input, fx))
                }
            },
        }
        self.go_on(now, fx);
    }

    fn start(&mut self, now: Time, fx: Fx<'_>) {
        self.with_producer(fx, |producer, fx| producer.handle(now, Input::Start, fx));
        match self.producer.transaction_state() {
            Some(_) => {
                self.phase = Phase::Initializing;
                self.call(now, Call::InitTransactions, fx);
            }
            None => self.start_consumer(now, fx),
        }
    }

    fn start_consumer(&mut self, now: Time, fx: Fx<'_>) {
        self.phase = Phase::Running;
        self.with_consumer(fx, |consumer, fx| consumer.handle(now, Input::Start, fx));
    }

    /// Asks the application to end: it goes on to its next poll, and closes both clients there.
    pub fn close(&mut self, now: Time, fx: Fx<'_>) {
        if self.phase == Phase::Initializing {
            return fx.exit();
        }
        self.with_consumer(fx, |consumer, fx| consumer.close(now, CloseOptions::default(), fx));
        self.go_on(now, fx);
    }

    /// Whether what a person wants of the program can be had.
    ///
    /// # Errors
    /// Why not.
    pub fn check_order(&self, order: &Order) -> Result<(), OrderError> {
        if let Order::Exchange(lines) = order {
            let spec = ApplicationSpec { program: lines.clone(), ..self.spec.clone() };
            spec.check().map_err(|error| OrderError::Program(error.to_string()))?;
        }
        self.consumer.check_order(order)
    }

    pub fn order(&mut self, now: Time, order: Order, fx: Fx<'_>) {
        self.with_consumer(fx, |consumer, fx| consumer.order(now, order, fx));
        self.go_on(now, fx);
    }

    /// The thread goes on as far as it can with the producer's calls.
    fn go_on(&mut self, now: Time, fx: Fx<'_>) {
        loop {
            let went_on = match self.phase {
                Phase::Initializing => self.initialized(now, fx),
                Phase::Running => self.run_line(now, fx),
                Phase::Aborting => self.aborted(now, fx),
                Phase::Ending { closes_producer: false } => false,
                Phase::Ending { closes_producer: true } => {
                    self.phase = Phase::Ending { closes_producer: false };
                    self.with_producer(fx, |producer, fx| producer.close(now, fx));
                    false
                }
            };
            if !went_on {
                return;
            }
        }
    }

    fn initialized(&mut self, now: Time, fx: Fx<'_>) -> bool {
        match self.producer.take_returned() {
            None => return false,
            Some(Ok(())) => self.start_consumer(now, fx),
            Some(Err(ProducerError::Timeout(_))) => self.call(now, Call::InitTransactions, fx),
            Some(Err(error)) => {
                self.tell_thrown("initTransactions()", &error, "ends", fx);
                fx.exit();
                self.phase = Phase::Ending { closes_producer: false };
            }
        }
        true
    }

    fn aborted(&mut self, now: Time, fx: Fx<'_>) -> bool {
        match self.producer.take_returned() {
            None => return false,
            Some(Ok(())) => {
                self.phase = Phase::Running;
                self.with_consumer(fx, |consumer, fx| consumer.begin_again(now, fx));
            }
            Some(Err(ProducerError::Timeout(_))) => self.call(now, Call::AbortTransaction, fx),
            Some(Err(error)) => self.end(now, "abortTransaction()", &error, fx),
        }
        true
    }

    fn run_line(&mut self, now: Time, fx: Fx<'_>) -> bool {
        let Some(line) = self.consumer.calling() else { return false };
        if !self.has_called {
            let Some(call) = self.call_of(line) else {
                self.with_consumer(fx, |consumer, fx| consumer.finish_call(now, fx));
                return true;
            };
            self.has_called = true;
            self.tell_result(line, fx);
            self.call(now, call, fx);
        }
        let Some(returned) = self.producer.take_returned() else { return false };
        self.has_called = false;
        match returned {
            Ok(()) => self.with_consumer(fx, |consumer, fx| consumer.finish_call(now, fx)),
            // The same call is made again, and goes on where it was.
            Err(ProducerError::Timeout(_)) if self.producer.transaction_state().is_some() => {}
            Err(error) => self.handle_exception(now, line, &error, fx),
        }
        true
    }

    /// A record is about to be sent that was made of the one in hand.
    fn tell_result(&self, line: Line, fx: Fx<'_>) {
        if let (Line::SendResults, Some(record)) = (line, self.consumer.program().record_in_hand()) {
            let (client, of, offset) = (self.spec.name.clone(), record.tp.clone(), record.offset);
            fx.event(Event::Application(ApplicationEvent::ResultSent { client, of, offset }));
        }
    }

    /// What `KafkaProducer`'s documentation has an application do.
    fn handle_exception(&mut self, now: Time, line: Line, error: &ProducerError, fx: Fx<'_>) {
        match self.producer.transaction_state() {
            Some(State::FatalError) => self.end(now, &line.to_string(), error, fx),
            Some(_) => {
                self.tell_thrown(&line.to_string(), error, "aborts", fx);
                self.phase = Phase::Aborting;
                self.call(now, Call::AbortTransaction, fx);
            }
            None => {
                self.tell_thrown(&line.to_string(), error, "goes on", fx);
                self.with_consumer(fx, |consumer, fx| consumer.finish_call(now, fx));
            }
        }
    }

    fn end(&mut self, now: Time, call: &str, error: &ProducerError, fx: Fx<'_>) {
        self.tell_thrown(call, error, "ends", fx);
        self.phase = Phase::Ending { closes_producer: false };
        self.with_consumer(fx, |consumer, fx| consumer.end(now, fx));
    }

    fn tell_thrown(&self, call: &str, error: &ProducerError, then: &'static str, fx: Fx<'_>) {
        let (client, call, exception) = (self.spec.name.clone(), call.into(), error.exception().into());
        fx.event(Event::Application(ApplicationEvent::CallThrew {
            client,
            call,
            exception,
            then: then.into(),
        }));
    }

    /// The producer's call that a line is; none where there is nothing to be said.
    fn call_of(&self, line: Line) -> Option<Call> {
        let program = self.consumer.program();
        if program.batch().is_empty() {
            return None;
        }
        match line {
            Line::Begin => Some(Call::BeginTransaction),
            Line::SendResults => program.record_in_hand().map(|record| {
                let of = format!("{}@{}", record.tp, record.offset);
                Call::Send(Message {
                    topic: self.spec.output.clone(),
                    key: Some(of.clone().into_bytes()),
                    value: Some(format!("{{\"result of\":\"{of}\"}}").into_bytes()),
                    partition: None,
                })
            }),
            Line::SendOffsets { with_metadata } => {
                let group = match with_metadata {
                    true => self.consumer.group_metadata(),
                    false => GroupMetadata::of_group(self.spec.group.clone()),
                };
                Some(Call::SendOffsets { offsets: self.offsets(), group })
            }
            Line::CommitTransaction => Some(Call::CommitTransaction),
            Line::Abort => Some(Call::AbortTransaction),
            Line::Flush => Some(Call::Flush),
            _ => unreachable!("{line} is no call of a producer"),
        }
    }

    /// Where to go on behind the records of the last poll.
    fn offsets(&self) -> Offsets {
        let mut offsets: Offsets = BTreeMap::new();
        for record in self.consumer.program().batch() {
            let next = CommittedOffset { offset: record.offset + 1, leader_epoch: LeaderEpoch::NONE };
            offsets.insert(record.tp.clone(), next);
        }
        offsets
    }

    fn call(&mut self, now: Time, call: Call, fx: Fx<'_>) {
        self.with_producer(fx, |producer, fx| producer.call(now, call, fx));
    }

    fn with_producer(&mut self, fx: Fx<'_>, act: impl FnOnce(&mut Producer, &mut Effects<ProducerTimer>)) {
        let mut own = Effects::default();
        act(&mut self.producer, &mut own);
        let mut part: Effects<ApplicationTimer> = Effects::default();
        part.absorb(own);
        for effect in part.into_vec() {
            fx.push(match effect {
                Effect::Connect(peer) => Effect::Connect(outside(peer)),
                Effect::Disconnect(peer) => Effect::Disconnect(outside(peer)),
                Effect::Send { to, correlation, version, request } => {
                    Effect::Send { to: outside(to), correlation, version, request }
                }
                effect => effect,
            });
        }
    }

    /// Where the consumer's process would exit, the producer is closed first.
    fn with_consumer(&mut self, fx: Fx<'_>, act: impl FnOnce(&mut Consumer, &mut Effects<ConsumerTimer>)) {
        let mut own = Effects::default();
        act(&mut self.consumer, &mut own);
        let mut part: Effects<ApplicationTimer> = Effects::default();
        part.absorb(own);
        for effect in part.into_vec() {
            match effect {
                Effect::Exit if self.phase != (Phase::Ending { closes_producer: false }) => {
                    self.phase = Phase::Ending { closes_producer: true };
                }
                effect => fx.push(effect),
            }
        }
    }
}

/// An input, by whose it is.
enum Sorted {
    Consumer(Input<ConsumerTimer>),
    Producer(Input<ProducerTimer>),
}

fn sort(input: Input<ApplicationTimer>) -> Sorted {
    let is_producers = |peer: &Peer| peer.channel == Channel::Producer;
    match input {
        Input::Timer(ApplicationTimer::Consumer(timer)) => Sorted::Consumer(Input::Timer(timer)),
        Input::Timer(ApplicationTimer::Producer(timer)) => Sorted::Producer(Input::Timer(timer)),
        Input::Connected(peer) if is_producers(&peer) => Sorted::Producer(Input::Connected(inside(peer))),
        Input::Connected(peer) => Sorted::Consumer(Input::Connected(peer)),
        Input::Disconnected(peer) if is_producers(&peer) => {
            Sorted::Producer(Input::Disconnected(inside(peer)))
        }
        Input::Disconnected(peer) => Sorted::Consumer(Input::Disconnected(peer)),
        Input::Response { from, correlation, response } => match is_producers(&from) {
            true => Sorted::Producer(Input::Response { from: inside(from), correlation, response }),
            false => Sorted::Consumer(Input::Response { from, correlation, response }),
        },
        Input::Start => Sorted::Consumer(Input::Start),
        Input::Gone(incoming) => Sorted::Consumer(Input::Gone(incoming)),
        Input::Request { id, client, request } => Sorted::Consumer(Input::Request { id, client, request }),
    }
}

/// The producer's peer, as the process' network knows it.
fn outside(peer: Peer) -> Peer {
    Peer { channel: Channel::Producer, ..peer }
}

/// As the producer itself knows it.
fn inside(peer: Peer) -> Peer {
    Peer { channel: Channel::Main, ..peer }
}
