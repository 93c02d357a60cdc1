//! A consumer: Kafka's Java consumer, embedded in a small program. It is a member by the classic protocol, or with
//! group.protocol=consumer by the newer one (`modern`), or with assign() none at all; all else is the same.
//!
//! Two threads, as in Kafka: the application's runs the program's lines, and what poll() does it does only there; the
//! background thread sends heartbeats. Answers are taken in when they arrive, as both threads poll the network.
//!
//! **Invariant:** the application's thread is in one line at a time; nothing is committed, given up or returned outside
//! poll(), commitSync() and close().

mod answers;
mod ask;
mod calling;
mod choice;
mod closing;
mod commits;
pub mod config;
mod coordinator;
mod fetched;
mod fetcher;
mod handover;
mod heartbeat;
mod listener;
mod looking;
mod membership;
pub mod modern;
mod offsets;
mod owned;
mod plan;
mod read_replica;
mod reason;
mod rebalance;
mod requests;
mod spec;
mod subscription;
mod timers;
mod validation;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::rc::Rc;

pub use crate::client::program::{
    Activity, CloseStep, Committed, Line, Order, OrderError, Program, ProgramError, Returned, Stop,
};
pub use ask::{Ask, AskError, SeekTo};
pub use choice::Choice;
pub use closing::{CloseOptions, GroupMembership};
pub use commits::{Commits, SyncCommit, SyncStep};
pub use config::{ConsumerConfig, IsolationLevel};
pub use fetched::returned;
pub use fetcher::Fetcher;
pub use looking::Lookup;
pub use membership::{Heartbeat, Identity, Join, JoinPrepare, LastAssignment, MemberState, Membership};
pub use owned::{FetchState, Owned, Position};
pub use plan::Snapshot;
pub use reason::RejoinReason;
pub use spec::{ConsumerSpec, SpecError};
pub use subscription::SubscriptionState;
pub(crate) use timers::{Due, arm};
pub use view::Waiting;

pub use crate::client::coordinator::Coordinator;
use crate::client::member::{Member, new_member_id};
use crate::client::metadata::Metadata;
use crate::client::program::{Callback, RunsProgram};
use crate::client::requests::{Requests, begin};
use crate::kafka::effects::{Effects, Input};
use crate::kafka::event::{ApplicationEvent, Event, RecordPart};
use crate::kafka::network_client::NetworkTimer;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, LeaderEpoch, Offset, TopicPartition};
use listener::Listening;
use looking::Looking;
use offsets::CommittedLookup;
use requests::Call;

/// The timers of a consumer: one for each thread and those of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerTimer {
    Network(NetworkTimer),
    /// The application's thread goes on: a timeout, the end of a record, a back-off.
    Application,
    /// The background thread goes on: a heartbeat is due, the session or the poll interval is over.
    Background,
}

impl From<NetworkTimer> for ConsumerTimer {
    fn from(timer: NetworkTimer) -> Self {
        ConsumerTimer::Network(timer)
    }
}

/// How a step of poll() went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Ready,
    /// Not done, and poll() looks for records all the same.
    Waiting,
    /// Not done, and poll() does nothing else until its timeout.
    Blocked,
    /// Committed offsets are asked for: poll() returns what was fetched, and fetches nothing new (R-CONS-35).
    Locating,
}

/// What a call of the consumer throws.
#[derive(Clone, Debug)]
enum Exception {
    Error(ErrorCode),
    /// NoOffsetForPartitionException (R-CONS-11).
    NoOffset(Vec<TopicPartition>),
    /// RecordDeserializationException (R-CONS-34).
    Unreadable {
        tp: TopicPartition,
        offset: Offset,
        part: RecordPart,
    },
    /// KafkaException: "User rebalance callback throws an error".
    Listener(Callback),
}

#[derive(Clone, Debug)]
pub struct Consumer {
    /// It belongs to an application that has lines of other clients.
    is_embedded: bool,
    spec: Rc<ConsumerSpec>,
    config: ConsumerConfig,
    /// For the jitter of back-offs.
    random: Random,
    requests: Requests<Call>,
    metadata: Metadata,
    program: Program,
    /// The callback that the thread is in, inside a call of the consumer.
    listening: Option<Rc<Listening>>,
    /// The first callback that threw in the call that the thread is in.
    listener_threw: Option<Callback>,
    /// With the newer protocol: it has lost its partitions, of which the next poll() is to tell the application.
    has_lost: bool,
    membership: Membership,
    subscription: SubscriptionState,
    commits: Commits,
    committed_lookup: CommittedLookup,
    looking: Option<Looking>,
    fetcher: Fetcher,
    /// The metadata with which positions were last compared.
    validated_version: u32,
    /// With the newer protocol: fetches wait until committed offsets are known (R-CONS-35).
    is_locating: bool,
    /// With the newer protocol: what poll() asked the background thread for was done when it had returned already, so that
    /// the next one finds it done (R-CONS-35).
    is_poll_left: bool,
    /// This poll() asks the background thread for nothing in its first pass, as answers wait for it.
    reuses_poll: bool,
    /// What the next poll() throws, or the call that the application is in.
    to_throw: Option<Exception>,
    /// close() is called instead of the next poll().
    close_requested: Option<CloseOptions>,
    /// What else is to be called before the next poll().
    asks: VecDeque<Ask>,
    /// The metadata in which a pattern's topics were last looked for.
    matched_version: Option<u32>,
    /// Before it joins, a member with a pattern waits for metadata that is newer than this.
    fresh_after: Option<u32>,
    metadata_due: Option<Time>,
    /// The times that the two threads' timers are set to.
    armed: Due,
}

impl Consumer {
    /// A consumer that waits for [`Input::Start`]. `bootstrap` is what bootstrap.servers names.
    ///
    /// Errors: a program without poll, no group, no topic, a config that Kafka or this model refuses.
    pub fn new(spec: ConsumerSpec, bootstrap: &[BrokerId], random: Random) -> Result<Consumer, SpecError> {
        let config = spec.check()?;
        Ok(Consumer::of(spec, config, bootstrap, random))
    }

    fn of(
        spec: ConsumerSpec,
        config: ConsumerConfig,
        bootstrap: &[BrokerId],
        mut random: Random,
    ) -> Consumer {
        let mut stream = |purpose: &str| Random::stream(random.next_u64(), purpose);
        let (requests, metadata) =
            begin(&spec.name, config.common, config.allow_auto_create_topics, bootstrap, &mut stream);
        let mut subscription = SubscriptionState::default();
        subscription.choose(spec.choice.clone());
        let modern = config.is_modern.then(|| Member::new(new_member_id(&mut stream("member"))));
        let mut consumer = Consumer {
            is_embedded: false,
            program: Program::new(&spec.program),
            listening: None,
            listener_threw: None,
            has_lost: false,
            spec: Rc::new(spec),
            config,
            random,
            requests,
            metadata,
            membership: Membership::new(modern),
            subscription,
            commits: Commits::new(),
            committed_lookup: CommittedLookup::new(),
            looking: None,
            fetcher: Fetcher::default(),
            validated_version: 0,
            is_locating: false,
            is_poll_left: false,
            reuses_poll: false,
            to_throw: None,
            close_requested: None,
            asks: VecDeque::new(),
            matched_version: None,
            fresh_after: None,
            metadata_due: None,
            armed: (None, None),
        };
        consumer.begin_choice();
        consumer
    }

    pub fn handle(&mut self, now: Time, input: Input<ConsumerTimer>, fx: &mut Effects<ConsumerTimer>) {
        match &input {
            Input::Start => {
                self.commits.restart_interval(now, &self.config);
                self.membership.heartbeat.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
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
        self.run_workers(now, fx);
        while self.run_line(now, fx) {}
        if self.program.activity != Activity::Stopped {
            self.run_background_thread(now, fx);
            self.find_coordinator(now, fx);
            self.metadata_due =
                self.metadata.maybe_refresh(now, &mut self.requests.network, Call::Metadata, fx);
        }
        self.arm_timers(now, fx);
    }

    /// What the workers have done that the program handed records to.
    fn run_workers(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        while let Some(done) = self.program.workers.finish(now) {
            let client = self.spec.name.clone();
            fx.event(Event::Processed { client, tp: done.tp, offset: done.offset });
        }
    }

    /// Goes on with the current line; true if the thread is in another line or phase now.
    fn run_line(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        if matches!(self.program.activity, Activity::Polling { .. } | Activity::Committing { .. })
            && !self.is_called_back()
            && let Some(exception) = self.to_throw.take()
        {
            self.throw(now, exception, fx);
            return true;
        }
        match self.program.activity {
            Activity::Stopped | Activity::Idle | Activity::Calling { .. } => false,
            Activity::Polling { until, .. } => match self.poll(now, until, fx) {
                Some(records) => {
                    if !self.config.is_modern || self.is_poll_left {
                        self.membership.heartbeat.poll_until =
                            now.plus_ms(self.config.max_poll_interval_ms.into());
                    }
                    records.iter().for_each(|record| self.commits.store(record.tp.clone()));
                    self.program.let_go(&self.spec.name, fx);
                    self.program.take_batch(records);
                    self.finish_line(now, fx)
                }
                None => self.to_throw.is_some() || self.is_called_back(),
            },
            Activity::Reacting { until } => until <= now && self.finish_line(now, fx),
            Activity::Processing { .. } => {
                let Some(done) = self.program.finish_record(now) else { return false };
                let client = self.spec.name.clone();
                fx.event(Event::Processed { client, tp: done.tp, offset: done.offset });
                self.finish_line(now, fx)
            }
            Activity::Committing { .. } => self.sync_commit_is_over(now, fx) && self.leave_commit(now, fx),
            Activity::Looking { until } => {
                let is_over = self.run_look(now, until, fx);
                if is_over {
                    self.start_line(now, fx);
                }
                is_over
            }
            Activity::CommittingAsync => self.finish_line(now, fx),
            Activity::Hanging { .. } => self.wake(now, false, fx),
            Activity::Closing { until, step } => self.run_close(now, until, step, fx),
        }
    }

    /// commitSync() has returned, to the next line or, if it was asked for, to the poll() before which it was called.
    fn leave_commit(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        match self.program.line() {
            Line::Poll { .. } => {
                self.start_line(now, fx);
                true
            }
            _ => self.finish_line(now, fx),
        }
    }

    /// Whether what a person wants of the program can be had.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check_order(&self, order: &Order) -> Result<(), OrderError> {
        if let Order::Exchange(lines) = order {
            let spec = ConsumerSpec { program: lines.clone(), ..(*self.spec).clone() };
            let checked = if self.is_embedded { spec.check_embedded() } else { spec.check() };
            checked.map_err(|error| OrderError::Program(error.to_string()))?;
        }
        self.program.check(order)
    }

    pub fn order(&mut self, now: Time, order: Order, fx: &mut Effects<ConsumerTimer>) {
        self.obey(now, order, fx);
        self.run(now, fx);
    }

    /// Of what the consumer owns, where to go on behind all that is done.
    fn done_by_workers(&self) -> Rc<[(TopicPartition, Position)]> {
        let owned = self.subscription.owned();
        let done = self.program.workers.done().filter(|(tp, _)| owned.contains_key(tp));
        done.map(|(tp, offset)| (tp.clone(), Position { offset, epoch: LeaderEpoch::NONE })).collect()
    }

    /// Before it polls, the application does what it was asked for.
    fn start_poll(&mut self, now: Time, timeout_ms: i64, fx: &mut Effects<ConsumerTimer>) {
        self.do_what_is_asked(now, fx);
        if self.program.activity != Activity::Idle {
            return;
        }
        if let Some(options) = self.close_requested {
            self.begin_close(now, options);
        } else if self.subscription.choice().is_some() {
            self.program.activity = Activity::Polling { since: now, until: now.plus_ms(timeout_ms) };
            self.reuses_poll = self.is_poll_left && !self.is_locating && self.fetcher.has_answers_waiting();
        }
    }

    /// poll(): `None` while it waits, else the records that it returns (R-CONS-7).
    fn poll(&mut self, now: Time, until: Time, fx: &mut Effects<ConsumerTimer>) -> Option<Vec<Returned>> {
        let expired = until <= now;
        loop {
            let reuses = std::mem::take(&mut self.reuses_poll);
            self.is_poll_left = self.config.is_modern && !reuses;
            let mut progress = if reuses { self.poll_nothing_new(fx) } else { self.poll_group(now, fx) };
            if progress == Progress::Ready && !reuses {
                progress = self.update_positions(now, fx);
            }
            if self.to_throw.is_some() || self.is_called_back() || (progress == Progress::Blocked && !expired)
            {
                return None;
            }
            let collected = match self.collect(now, fx) {
                Ok(collected) => collected,
                Err(exception) => {
                    self.will_throw(exception);
                    return None;
                }
            };
            self.is_locating = progress == Progress::Locating;
            if collected.moved || !self.is_locating {
                self.send_fetches(now, fx);
            }
            if collected.moved {
                return Some(collected.records);
            }
            if !collected.handled_errors && !reuses {
                return expired.then(Vec::new);
            }
        }
    }

    /// What the background thread was asked for is done, and it is not asked again before what it fetched is taken: no
    /// interval commit, no reconciliation, and the poll interval goes on (`AsyncKafkaConsumer.checkInflightPoll`).
    fn poll_nothing_new(&mut self, fx: &mut Effects<ConsumerTimer>) -> Progress {
        self.call_back(fx);
        match self.membership.fatal {
            Some(error) => {
                self.fail(error);
                Progress::Blocked
            }
            None => Progress::Ready,
        }
    }

    fn is_polling(&self) -> bool {
        matches!(self.program.activity, Activity::Polling { .. })
    }

    fn fail(&mut self, error: ErrorCode) {
        self.will_throw(Exception::Error(error));
    }

    /// Nothing is thrown into the application's own work: it hears of it in its next poll(), unless it is in a call now.
    fn will_throw(&mut self, exception: Exception) {
        if !matches!(self.program.activity, Activity::Stopped | Activity::Closing { .. }) {
            self.to_throw.get_or_insert(exception);
        }
    }

    /// The application does not handle exceptions: it closes the consumer on its way out, as with try-finally.
    fn throw(&mut self, now: Time, exception: Exception, fx: &mut Effects<ConsumerTimer>) {
        let client = self.spec.name.clone();
        fx.event(match exception {
            Exception::Error(error) => Event::ClientFailed { client, error },
            Exception::Listener(callback) => {
                Event::Application(ApplicationEvent::ListenerThrew { client, method: callback.method() })
            }
            Exception::NoOffset(partitions) => Event::NoOffsetForPartitions { client, partitions },
            Exception::Unreadable { tp, offset, part } => {
                Event::RecordUnreadable { client, tp, offset, part }
            }
        });
        self.begin_close(now, CloseOptions::default());
    }
}

impl RunsProgram for Consumer {
    type Timer = ConsumerTimer;

    fn name(&self) -> ClientName {
        self.spec.name.clone()
    }

    fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    fn start_line(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        match self.program.line() {
            Line::Acknowledge(saying) => unreachable!("{saying} is refused in a consumer's program"),
            Line::Begin
            | Line::SendResults
            | Line::SendOffsets { .. }
            | Line::CommitTransaction
            | Line::Abort
            | Line::Flush => self.program.activity = Activity::Calling { since: now },
            Line::Poll { timeout_ms } => self.start_poll(now, timeout_ms, fx),
            Line::Process { us_per_record } => self.program.start_processing(now, us_per_record),
            Line::Commit => {
                self.begin_sync_commit(now, self.config.default_api_timeout_ms, false, None);
                self.program.activity = Activity::Committing { since: now };
            }
            Line::HandOff { us_per_record, workers } => {
                self.program.hand_over(now, us_per_record, workers);
                self.finish_line(now, fx);
            }
            Line::CommitDone => {
                let offsets = self.done_by_workers();
                self.begin_sync_commit(now, self.config.default_api_timeout_ms, false, Some(offsets));
                self.program.activity = Activity::Committing { since: now };
            }
            Line::CommitRecord(which) => {
                let offsets = self.program.record_in_hand().map(|record| offset_of(record, which));
                self.begin_sync_commit(now, self.config.default_api_timeout_ms, false, offsets);
                self.program.activity = Activity::Committing { since: now };
            }
            Line::CommitAsync => {
                self.commit_async(now, None, fx);
                self.program.activity = Activity::CommittingAsync;
            }
            Line::On(_, reaction) => self.react(now, reaction, fx),
        }
    }

    fn callback_returned(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        self.callback_is_over(now, fx);
    }
}

/// What is committed for one record; without a leader epoch, which the application does not give.
fn offset_of(record: &Returned, which: Committed) -> Rc<[(TopicPartition, Position)]> {
    let offset = match which {
        Committed::Next => record.offset + 1,
        Committed::Own => record.offset,
    };
    Rc::from([(record.tp.clone(), Position { offset, epoch: LeaderEpoch::NONE })])
}
