//! A share consumer: Kafka's `KafkaShareConsumer`, embedded in a small program (KIP-932, R-SHARE-13).
//!
//! Two threads, as in Kafka: the application's runs the program's lines, and the background thread sends heartbeats,
//! fetches and acknowledgements ([`exchange`]). What poll() returned stays in flight ([`in_flight`]) until the
//! application, or with implicit acknowledgement the next poll(), says what became of it.
//!
//! **Invariant:** a record that poll() returns is locked for this consumer until it says something of it, or for
//! share.record.lock.duration.ms; nothing is said of what the application was not given, but of gaps.

mod acknowledgements;
mod acknowledging;
mod answers;
mod closing;
mod completed;
pub mod config;
mod exchange;
mod fetching;
mod heartbeat;
mod in_flight;
mod session;
mod spec;
#[cfg(test)]
mod tests;
mod view;

use std::rc::Rc;

pub use acknowledgements::Acknowledgements;
pub use config::ShareConsumerConfig;
pub use exchange::{Errand, Exchange};
pub use in_flight::CurrentFetch;
pub use session::{Session, Tip};
pub use spec::ShareConsumerSpec;
pub use view::Waiting;

use crate::client::consumer::{ConsumerTimer, Due, SpecError};
use crate::client::coordinator::Coordinator;
use crate::client::member::{Member, Phase, new_member_id};
use crate::client::metadata::Metadata;
use crate::client::program::{Activity, CloseStep, Line, Order, OrderError, Program, Returned, RunsProgram};
use crate::client::requests::{Requests, begin};
use crate::client::saying::Saying;
use crate::kafka::effects::{Effects, Input};
use crate::kafka::event::{Event, OffsetRun, ShareEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::share::AcknowledgeType;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, Offset, TopicPartition};
use heartbeat::Heartbeat;
use session::Said;

/// What a request was sent for, with what is needed to judge its answer.
#[derive(Clone, Debug)]
enum Call {
    Metadata,
    FindCoordinator,
    Heartbeat(Heartbeat),
    Fetch { broker: BrokerId, said: Rc<Said> },
    Acknowledge { broker: BrokerId, kind: Errand, said: Rc<Said> },
}

#[derive(Clone, Debug)]
pub struct ShareConsumer {
    spec: Rc<ShareConsumerSpec>,
    config: ShareConsumerConfig,
    /// For the jitter of back-offs.
    random: Random,
    /// For what the application does now and then.
    chance: Random,
    requests: Requests<Call>,
    metadata: Metadata,
    program: Program,
    coordinator: Coordinator,
    member: Member,
    /// What the member reads, in the order in which it has its turn.
    assigned: Vec<TopicPartition>,
    /// Without a poll() until then the member leaves.
    poll_until: Time,
    /// What the next poll() throws.
    fatal: Option<ErrorCode>,
    current: CurrentFetch,
    exchange: Exchange,
    /// This poll() has asked for records.
    has_asked: bool,
    /// close() is called instead of the next poll().
    close_requested: bool,
    metadata_due: Option<Time>,
    /// The times that the two threads' timers are set to.
    armed: Due,
}

impl ShareConsumer {
    /// A share consumer that waits for [`Input::Start`]. `bootstrap` is what bootstrap.servers names.
    ///
    /// Errors: those of [`ShareConsumerSpec::check`].
    pub fn new(
        spec: ShareConsumerSpec,
        bootstrap: &[BrokerId],
        mut random: Random,
    ) -> Result<ShareConsumer, SpecError> {
        let config = spec.check()?;
        let mut stream = |purpose: &str| Random::stream(random.next_u64(), purpose);
        let (requests, mut metadata) =
            begin(&spec.name, config.common, config.allow_auto_create_topics, bootstrap, &mut stream);
        metadata.want(spec.topics.iter().cloned().collect());
        let (member, chance) = (Member::new(new_member_id(&mut stream("member"))), stream("application"));
        Ok(ShareConsumer {
            program: Program::new(&spec.program),
            spec: Rc::new(spec),
            config,
            random,
            chance,
            requests,
            metadata,
            coordinator: Coordinator::UNKNOWN,
            member,
            assigned: Vec::new(),
            poll_until: Time::ZERO,
            fatal: None,
            current: CurrentFetch::default(),
            exchange: Exchange::default(),
            has_asked: false,
            close_requested: false,
            metadata_due: None,
            armed: (None, None),
        })
    }

    pub fn handle(&mut self, now: Time, input: Input<ConsumerTimer>, fx: &mut Effects<ConsumerTimer>) {
        match &input {
            Input::Start => {
                self.begin_member(fx);
                self.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
                self.come_to_line(now, fx);
            }
            _ if self.program.activity == Activity::Stopped => return,
            Input::Timer(ConsumerTimer::Application) => self.armed.0 = None,
            Input::Timer(ConsumerTimer::Background) => self.armed.1 = None,
            _ => self.on_network_input(now, &input, fx),
        }
        self.run(now, fx);
    }

    /// Both threads go on as far as they can.
    fn run(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        loop {
            while self.run_line(now, fx) {}
            if self.program.activity == Activity::Stopped {
                break;
            }
            self.run_member(now, fx);
            self.exchange(now, fx);
            self.metadata_due =
                self.metadata.maybe_refresh(now, &mut self.requests.network, Call::Metadata, fx);
            // What cannot be sent is over at once, and may be what the application waits for.
            if !self.is_awaited_over() {
                break;
            }
        }
        self.arm_timers(now, fx);
    }

    /// Whether commitSync() or close() waits for acknowledgements and there are none any more.
    fn is_awaited_over(&self) -> bool {
        match self.program.activity {
            Activity::Committing { .. } => !self.exchange.has(Errand::Sync),
            Activity::Closing { step: CloseStep::Committing, .. } => self.exchange.errands.is_empty(),
            _ => false,
        }
    }

    /// Goes on with the current line; true if the thread is in another line or phase now.
    fn run_line(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        match self.program.activity {
            // It is always subscribed, and commitAsync() takes no time.
            Activity::Stopped
            | Activity::Idle
            | Activity::CommittingAsync
            | Activity::Calling { .. }
            | Activity::Reacting { .. }
            | Activity::Looking { .. } => false,
            Activity::Polling { until, .. } => match self.poll(now, until, fx) {
                Some(records) => {
                    self.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
                    self.tell_delivered(fx);
                    self.program.let_go(&self.spec.name, fx);
                    self.program.take_batch(records);
                    self.finish_line(now, fx)
                }
                None => !self.is_polling(),
            },
            Activity::Processing { .. } => {
                let Some(done) = self.program.finish_record(now) else { return false };
                let client = self.spec.name.clone();
                fx.event(Event::Processed { client, tp: done.tp, offset: done.offset });
                self.finish_line(now, fx)
            }
            Activity::Hanging { .. } => self.wake(now, false, fx),
            Activity::Committing { .. } if self.exchange.has(Errand::Sync) => false,
            Activity::Committing { .. } => {
                self.take_heard();
                self.finish_line(now, fx)
            }
            Activity::Closing { until, step } => self.run_close(now, until, step, fx),
        }
    }

    /// Whether what a person wants of the program can be had.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check_order(&self, order: &Order) -> Result<(), OrderError> {
        if let Order::Exchange(lines) = order {
            let spec = ShareConsumerSpec { program: lines.clone(), ..(*self.spec).clone() };
            spec.check().map_err(|error| OrderError::Program(error.to_string()))?;
        }
        self.program.check(order)
    }

    pub fn order(&mut self, now: Time, order: Order, fx: &mut Effects<ConsumerTimer>) {
        self.obey(now, order, fx);
        self.run(now, fx);
    }

    fn acknowledge(&mut self, Saying { kind, of }: Saying) {
        let chance = &mut self.chance;
        self.current.acknowledge(kind, |offset: Offset| of.takes(offset, chance));
    }

    fn accept_if_implicit(&mut self) {
        if !self.config.is_explicit {
            self.current.acknowledge(AcknowledgeType::Accept, |_| true);
        }
    }

    /// Renewals that were heard are in effect for the application (`handleCompletedAcknowledgements`).
    fn take_heard(&mut self) {
        for (said, error) in std::mem::take(&mut self.exchange.heard) {
            self.current.heard(&said, error);
        }
    }

    /// poll(), up to its first look for records.
    fn begin_poll(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if let Some(error) = self.fatal.take() {
            return self.fail(now, error, fx);
        }
        self.take_heard();
        self.accept_if_implicit();
        assert!(
            self.current.is_all_said(),
            "{}: a program that leaves records open is refused",
            self.spec.name
        );
        self.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
        if matches!(self.member.phase, Phase::Unsubscribed | Phase::Stale) {
            self.begin_member(fx);
        }
        self.has_asked = false;
        let said = self.current.take_said();
        if let Err(error) = self.collect(now, said, fx) {
            self.fail(now, error, fx);
        }
    }

    /// poll(), from then on: `None` while it waits, else the records that it returns.
    fn poll(&mut self, now: Time, until: Time, fx: &mut Effects<ConsumerTimer>) -> Option<Vec<Returned>> {
        if let Some(error) = self.fatal.take() {
            self.fail(now, error, fx);
            return None;
        }
        if self.current.has_no_records()
            && !self.exchange.buffer.is_empty()
            && let Err(error) = self.collect(now, Vec::new(), fx)
        {
            self.fail(now, error, fx);
            return None;
        }
        if self.current.has_no_records() && until > now {
            return None;
        }
        let records = self.current.records();
        self.take_heard();
        Some(records)
    }

    fn tell_delivered(&self, fx: &mut Effects<ConsumerTimer>) {
        for (tp, deliveries) in self.current.deliveries() {
            let (client, group, tp) = (self.spec.name.clone(), self.spec.group.clone(), tp.clone());
            let records = deliveries.iter().map(|(offset, delivery)| (*offset, delivery.count)).collect();
            let runs = OffsetRun::of(deliveries.iter().map(|(offset, delivery)| (delivery.epoch, *offset)));
            fx.event(Event::Share(ShareEvent::Delivered { client, group, tp, records, runs }));
        }
    }

    fn is_polling(&self) -> bool {
        matches!(self.program.activity, Activity::Polling { .. })
    }

    fn is_closing(&self) -> bool {
        matches!(self.program.activity, Activity::Closing { .. })
    }

    /// An exception that the application does not handle: it closes the consumer on its way out, as with try-finally.
    fn fail(&mut self, now: Time, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        if !matches!(self.program.activity, Activity::Stopped | Activity::Closing { .. }) {
            fx.event(Event::ClientFailed { client: self.spec.name.clone(), error });
            self.begin_close(now, fx);
        }
    }
}

impl RunsProgram for ShareConsumer {
    type Timer = ConsumerTimer;

    fn name(&self) -> ClientName {
        self.spec.name.clone()
    }

    fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    fn start_line(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        match self.program.line() {
            Line::Poll { .. } if self.close_requested => self.begin_close(now, fx),
            Line::Poll { timeout_ms } => {
                self.program.activity = Activity::Polling { since: now, until: now.plus_ms(timeout_ms) };
                self.begin_poll(now, fx);
            }
            Line::Process { us_per_record } => self.program.start_processing(now, us_per_record),
            Line::Acknowledge(saying) => {
                self.acknowledge(saying);
                self.finish_line(now, fx);
            }
            Line::CommitAsync => {
                self.take_heard();
                self.accept_if_implicit();
                let said = self.current.take_said();
                self.commit_async(now, said, fx);
                self.finish_line(now, fx);
            }
            Line::Commit => {
                self.take_heard();
                self.accept_if_implicit();
                let said = self.current.take_said();
                self.begin_errands(now, Errand::Sync, said, fx);
                self.program.activity = Activity::Committing { since: now };
            }
            line => unreachable!("{line} is refused in a share consumer's program"),
        }
    }
}
