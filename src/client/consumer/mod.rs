//! A consumer: Kafka's classic Java consumer in subscribe mode, embedded in a small program.
//!
//! Two threads, as in Kafka: the application's runs the program's lines, and what poll() does it does only there; the
//! background thread sends heartbeats. Answers are taken in when they arrive, as both threads poll the network.
//!
//! **Invariant:** the application's thread is in one line at a time; nothing is committed, given up or returned outside
//! poll(), commitSync() and close().

mod assignment;
mod commits;
pub mod config;
mod coordinator;
mod fetched;
mod fetcher;
mod membership;
mod offsets;
pub mod program;
mod read_replica;
mod rebalance;
mod requests;
mod spec;
mod subscription;
mod validation;
#[cfg(test)]
mod tests;
mod view;

use std::rc::Rc;

pub use commits::{Commits, SyncCommit, SyncStep};
pub use config::ConsumerConfig;
pub use fetcher::Fetcher;
pub use membership::{Coordinator, Heartbeat, Identity, Join, JoinPrepare, MemberState, Membership};
pub use program::{Activity, CloseStep, Line, Program, ProgramError, Returned};
pub use spec::{ConsumerSpec, SpecError};
pub use subscription::{FetchState, Owned, Position, SubscriptionState};
pub use view::Waiting;

use crate::client::metadata::Metadata;
use crate::kafka::effects::{Effects, Input, Peer};
use crate::kafka::event::{Event, RevokeReason};
use crate::kafka::network_client::{NetworkClient, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Generation};
use offsets::CommittedLookup;
use requests::{Call, Requests, coordinator_peer};

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
}

#[derive(Clone, Debug)]
pub struct Consumer {
    spec: Rc<ConsumerSpec>,
    config: ConsumerConfig,
    /// For the jitter of back-offs.
    random: Random,
    requests: Requests,
    metadata: Metadata,
    program: Program,
    membership: Membership,
    subscription: SubscriptionState,
    commits: Commits,
    committed_lookup: CommittedLookup,
    fetcher: Fetcher,
    /// The metadata with which positions were last compared.
    validated_version: u32,
    /// What the next poll() throws as a log was cut.
    validation_error: Option<ErrorCode>,
    /// close() is called instead of the next poll().
    close_requested: bool,
    metadata_due: Option<Time>,
    /// The times that the two threads' timers are set to.
    armed: (Option<Time>, Option<Time>),
}

/// close()'s own default.
const CLOSE_TIMEOUT_MS: i64 = 30_000;

impl Consumer {
    /// A consumer that waits for [`Input::Start`]. `bootstrap` is what bootstrap.servers names.
    ///
    /// Errors: a program without poll, no group, no topic, a config that Kafka or this model refuses.
    pub fn new(
        spec: ConsumerSpec,
        bootstrap: &[BrokerId],
        mut random: Random,
    ) -> Result<Consumer, SpecError> {
        let config = spec.check()?;
        let mut stream = |purpose: &str| Random::stream(random.next_u64(), purpose);
        let network =
            NetworkClient::new(spec.name.clone(), config.common.network(i32::MAX), stream("network"));
        let mut metadata =
            Metadata::new(bootstrap, config.common, config.allow_auto_create_topics, stream("metadata"));
        metadata.want(spec.topics.iter().cloned().collect());
        Ok(Consumer {
            program: Program::new(&spec.program),
            spec: Rc::new(spec),
            config,
            random,
            requests: Requests::new(network),
            metadata,
            membership: Membership::new(),
            subscription: SubscriptionState::default(),
            commits: Commits::new(),
            committed_lookup: CommittedLookup::new(),
            fetcher: Fetcher::default(),
            validated_version: 0,
            validation_error: None,
            close_requested: false,
            metadata_due: None,
            armed: (None, None),
        })
    }

    pub fn handle(&mut self, now: Time, input: Input<ConsumerTimer>, fx: &mut Effects<ConsumerTimer>) {
        match &input {
            Input::Start => {
                self.commits.restart_interval(now, &self.config);
                self.start_line(now);
            }
            _ if self.program.activity == Activity::Stopped => return,
            Input::Timer(ConsumerTimer::Application) => self.armed.0 = None,
            Input::Timer(ConsumerTimer::Background) => self.armed.1 = None,
            _ => self.on_network_input(now, &input, fx),
        }
        self.run(now, fx);
    }

    /// Asks the application to stop: it finishes its loop up to the next poll and closes the consumer there, as with a
    /// flag and wakeup(). The process ends by [`Effect::Exit`](crate::kafka::effects::Effect::Exit).
    pub fn close(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        match self.program.activity {
            Activity::Stopped | Activity::Closing { .. } => return,
            Activity::Polling { .. } => self.begin_close(now),
            Activity::Processing { .. } | Activity::Committing { .. } => self.close_requested = true,
        }
        self.run(now, fx);
    }

    /// Both threads go on as far as they can.
    fn run(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        while self.run_line(now, fx) {}
        if self.program.activity != Activity::Stopped {
            self.run_background_thread(now, fx);
            self.find_coordinator(now, fx);
            self.metadata_due =
                self.metadata.maybe_refresh(now, &mut self.requests.network, Call::Metadata, fx);
        }
        self.arm_timers(now, fx);
    }

    /// Goes on with the current line; true if the thread is in another line or phase now.
    fn run_line(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        match self.program.activity {
            Activity::Stopped => false,
            Activity::Polling { until, .. } => match self.poll(now, until, fx) {
                Some(records) => {
                    self.membership.heartbeat.poll_until =
                        now.plus_ms(self.config.max_poll_interval_ms.into());
                    self.program.take_batch(records);
                    self.finish_line(now)
                }
                None => !self.is_polling(),
            },
            Activity::Processing { .. } => {
                while let Some(done) = self.program.finish_record(now) {
                    let client = self.spec.name.clone();
                    fx.event(Event::Processed { client, tp: done.tp, offset: done.offset });
                }
                self.program.is_batch_done() && self.finish_line(now)
            }
            Activity::Committing { .. } => self.sync_commit_is_over(now, fx) && self.finish_line(now),
            Activity::Closing { until, step } => self.run_close(now, until, step, fx),
        }
    }

    fn finish_line(&mut self, now: Time) -> bool {
        self.program.next_line();
        self.start_line(now);
        true
    }

    fn start_line(&mut self, now: Time) {
        match self.program.line() {
            Line::Poll { .. } if self.close_requested => self.begin_close(now),
            Line::Poll { timeout_ms } => {
                self.program.activity = Activity::Polling { since: now, until: now.plus_ms(timeout_ms) };
            }
            Line::Process { us_per_record } => self.program.start_processing(now, us_per_record),
            Line::Commit => {
                self.begin_sync_commit(now, self.config.default_api_timeout_ms, false);
                self.program.activity = Activity::Committing { since: now };
            }
        }
    }

    /// poll(): `None` while it waits, else the records that it returns (R-CONS-7).
    fn poll(&mut self, now: Time, until: Time, fx: &mut Effects<ConsumerTimer>) -> Option<Vec<Returned>> {
        let expired = until <= now;
        loop {
            let mut progress = self.poll_group(now, fx);
            if progress == Progress::Ready {
                progress = self.update_positions(now, fx);
            }
            if !self.is_polling() || (progress == Progress::Blocked && !expired) {
                return None;
            }
            let collected = match self.collect(now, fx) {
                Ok(collected) => collected,
                Err(error) => {
                    self.fail(now, error, fx);
                    return None;
                }
            };
            self.send_fetches(now, fx);
            if collected.moved {
                return Some(collected.records);
            }
            if !collected.handled_errors {
                return expired.then(Vec::new);
            }
        }
    }

    fn is_polling(&self) -> bool {
        matches!(self.program.activity, Activity::Polling { .. })
    }

    /// An exception that the application does not handle: it closes the consumer on its way out, as with try-finally.
    fn fail(&mut self, now: Time, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        if !matches!(self.program.activity, Activity::Stopped | Activity::Closing { .. }) {
            fx.event(Event::ClientFailed { client: self.spec.name.clone(), error });
            self.begin_close(now);
        }
    }

    fn begin_close(&mut self, now: Time) {
        let timeout_ms = CLOSE_TIMEOUT_MS.min(self.config.common.request_timeout_ms);
        let until = now.plus_ms(timeout_ms);
        self.program.activity = Activity::Closing { until, step: CloseStep::Committing };
        if self.config.auto_commit_interval_ms.is_some() {
            self.begin_sync_commit(now, timeout_ms, true);
        }
    }

    /// close(): commit, give up partitions, leave, end the fetch sessions, exit (R-CONS-17, R-CONS-27).
    fn run_close(
        &mut self,
        now: Time,
        until: Time,
        step: CloseStep,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        match step {
            CloseStep::Committing if !self.sync_commit_is_over(now, fx) => false,
            CloseStep::Committing => {
                let identity = &self.membership.identity;
                let lost = identity.generation == Generation::NONE || self.membership.is_rebalancing();
                let reason = if lost { RevokeReason::Lost } else { RevokeReason::Closing };
                self.give_up_partitions(reason, fx);
                let awaited = self.leave(now, "the consumer is being closed", fx);
                let step = if awaited { CloseStep::Leaving } else { CloseStep::Left };
                self.program.activity = Activity::Closing { until, step };
                true
            }
            CloseStep::Leaving if now < until => false,
            CloseStep::Leaving | CloseStep::Left => {
                let left = if now < until { self.close_sessions(now, fx) } else { 0 };
                let step = CloseStep::EndingSessions { left };
                self.program.activity = Activity::Closing { until, step };
                true
            }
            CloseStep::EndingSessions { left } if left > 0 && now < until => false,
            CloseStep::EndingSessions { .. } => {
                self.program.activity = Activity::Stopped;
                fx.exit();
                true
            }
        }
    }

    fn on_session_closed(&mut self) {
        if let Activity::Closing { step: CloseStep::EndingSessions { left }, .. } = &mut self.program.activity
        {
            *left -= 1;
        }
    }

    fn on_leave_group(&mut self) {
        if let Activity::Closing { step: step @ CloseStep::Leaving, .. } = &mut self.program.activity {
            *step = CloseStep::Left;
        }
    }

    fn send_to_coordinator(
        &mut self,
        now: Time,
        request: impl Into<Request>,
        call: Call,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.send_to_coordinator_within(now, request, call, self.config.common.request_timeout_ms, fx);
    }

    fn send_to_coordinator_within(
        &mut self,
        now: Time,
        request: impl Into<Request>,
        call: Call,
        timeout_ms: i64,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match self.membership.coordinator() {
            Some(broker) => {
                self.requests.send(now, coordinator_peer(broker), request, call, timeout_ms, fx);
            }
            None => self.on_lost_call(now, call, fx),
        }
    }

    fn on_network_input(&mut self, now: Time, input: &Input<ConsumerTimer>, fx: &mut Effects<ConsumerTimer>) {
        let stood = matches!(input, Input::Disconnected(peer) if self.requests.network.is_connected(*peer));
        match self.requests.on_input(now, input, fx) {
            None | Some(NetworkEvent::Ready(_) | NetworkEvent::BackoffOver(_)) => {}
            Some(NetworkEvent::Answered { context, response, .. }) => {
                self.on_answer(now, context, &response, fx);
            }
            Some(NetworkEvent::Lost { peer, contexts, timed_out }) => {
                self.on_connection_lost(now, peer, contexts, timed_out, stood, fx);
            }
        }
    }

    fn on_connection_lost(
        &mut self,
        now: Time,
        peer: Peer,
        calls: Vec<Call>,
        timed_out: Option<ApiKey>,
        stood: bool,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let client = self.spec.name.clone();
        if let Some(api) = timed_out {
            fx.event(Event::RequestTimedOut { client, node: peer.node, api });
        } else if stood {
            fx.event(Event::ConnectionLost { client, node: peer.node, requests: calls.len() as i32 });
        }
        self.metadata.on_disconnect(now);
        if self.membership.coordinator().map(coordinator_peer) == Some(peer) {
            let error = match timed_out {
                Some(_) => ErrorCode::RequestTimedOut,
                None => ErrorCode::NetworkException,
            };
            self.mark_coordinator_unknown(now, error, fx);
        }
        for call in calls {
            self.on_lost_call(now, call, fx);
        }
    }

    /// A request that will not be answered; whether it was carried out is unknown.
    fn on_lost_call(&mut self, now: Time, call: Call, fx: &mut Effects<ConsumerTimer>) {
        match call {
            Call::Metadata => self.metadata.on_failure(now),
            Call::FindCoordinator => self.coordinator_not_found(now),
            Call::JoinGroup { .. } | Call::SyncGroup { .. } => self.join_lost(now),
            Call::Heartbeat { .. } => self.heartbeat_failed(now),
            Call::LeaveGroup => self.on_leave_group(),
            Call::OffsetCommit(call) => {
                self.commit_done(now, &call, Err(commits::CommitError::Retriable), fx)
            }
            Call::OffsetFetch { attempt } => self.offset_fetch_failed(now, attempt),
            Call::ListOffsets(asked) => asked.iter().for_each(|(tp, _)| self.reset_failed(now, tp)),
            Call::OffsetForLeaderEpoch(asked) => {
                asked.iter().for_each(|validation| self.validation_failed(now, &validation.tp));
            }
            Call::Fetch { broker } => {
                for tp in self.fetcher.fetch_lost(broker) {
                    self.clear_preferred(&tp);
                }
            }
            Call::CloseFetchSession => self.on_session_closed(),
        }
    }

    fn on_answer(&mut self, now: Time, call: Call, response: &Response, fx: &mut Effects<ConsumerTimer>) {
        match (call, response) {
            (Call::Metadata, Response::Metadata(answer)) => {
                self.metadata.on_response(now, answer);
                self.fail_for_an_invalid_topic(now, fx);
                self.plan_if_metadata_is_there(now, fx);
            }
            (Call::FindCoordinator, Response::FindCoordinator(answer)) => {
                self.on_find_coordinator(now, answer, fx);
            }
            (Call::JoinGroup { sent_as }, Response::JoinGroup(answer)) => {
                self.on_join_group(now, &sent_as, answer, fx);
            }
            (Call::SyncGroup { sent_as }, Response::SyncGroup(answer)) => {
                self.on_sync_group(now, &sent_as, answer, fx);
            }
            (Call::Heartbeat { sent_as }, Response::Heartbeat(answer)) => {
                self.on_heartbeat(now, &sent_as, answer, fx);
            }
            (Call::LeaveGroup, Response::LeaveGroup(_)) => self.on_leave_group(),
            (Call::OffsetCommit(call), Response::OffsetCommit(answer)) => {
                self.on_offset_commit(now, &call, answer, fx);
            }
            (Call::OffsetFetch { attempt }, Response::OffsetFetch(answer)) => {
                self.on_offset_fetch(now, attempt, answer, fx);
            }
            (Call::ListOffsets(asked), Response::ListOffsets(answer)) => {
                self.on_list_offsets(now, &asked, answer, fx);
            }
            (Call::OffsetForLeaderEpoch(asked), Response::OffsetForLeaderEpoch(answer)) => {
                self.on_offsets_for_leader_epoch(now, &asked, answer, fx);
            }
            (Call::Fetch { broker }, Response::Fetch(answer)) => self.on_fetch(broker, answer),
            (Call::CloseFetchSession, Response::Fetch(_)) => self.on_session_closed(),
            (call, response) => panic!("{call:?} was answered with {}", response.api().name()),
        }
    }

    /// A name that no topic can have makes poll() throw.
    fn fail_for_an_invalid_topic(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let errors = self.spec.topics.iter().filter_map(|topic| self.metadata.topic(topic)).map(|t| t.error);
        if let Some(error) = errors.into_iter().find(|error| *error == ErrorCode::InvalidTopicException) {
            self.fail(now, error, fx);
        }
    }

    fn arm_timers(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let stopped = self.program.activity == Activity::Stopped;
        let later = |due: Option<Time>| due.filter(|at| *at > now && !stopped);
        let due = (later(self.application_due(now)), later(self.background_thread_due()));
        for (timer, armed, due) in [
            (ConsumerTimer::Application, &mut self.armed.0, due.0),
            (ConsumerTimer::Background, &mut self.armed.1, due.1),
        ] {
            match due {
                Some(at) if *armed != due => fx.set_timer(timer, at),
                None if armed.is_some() => fx.cancel_timer(timer),
                _ => {}
            }
            *armed = due;
        }
    }

    /// When the application's thread goes on if nothing arrives before.
    fn application_due(&self, now: Time) -> Option<Time> {
        let mut due: Vec<Time> = self.metadata_due.into_iter().collect();
        match self.program.activity {
            Activity::Stopped => {}
            Activity::Processing { until } => due.push(until),
            Activity::Polling { until, .. } => {
                due.push(until);
                due.extend(self.poll_due(now));
            }
            Activity::Committing { .. } => {}
            Activity::Closing { until, .. } => due.push(until),
        }
        if let Some(sync) = &self.commits.sync() {
            due.push(sync.deadline);
            due.extend(if let SyncStep::ToSend(at) = sync.step { Some(at) } else { None });
        }
        if let Coordinator::Unknown { retry_at } = self.membership.coordinator {
            due.push(retry_at);
        }
        due.into_iter().filter(|at| *at > now).min()
    }

    /// Back-offs and intervals that end inside a poll().
    fn poll_due(&self, now: Time) -> impl Iterator<Item = Time> {
        let interval = self.config.auto_commit_interval_ms.map(|_| self.commits.next_interval_at());
        let join = match self.membership.join {
            Join::Idle { not_before } => Some(not_before),
            _ => None,
        };
        let (commit, commit_until) = match self.membership.prepare {
            JoinPrepare::Retrying { at, until } => (Some(at), Some(until)),
            JoinPrepare::Committing { until } => (None, Some(until)),
            _ => (None, None),
        };
        let lookup = Some(self.committed_lookup.retry_at());
        let reset = self.subscription.next_retry(now);
        [interval, join, commit, commit_until, lookup, reset].into_iter().flatten()
    }
}
