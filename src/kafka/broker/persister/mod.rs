//! What the leaders of share partitions read and write at the share coordinators, and what the group coordinator has done
//! with states there (`DefaultStatePersister`, `PersisterStateManager`).
//!
//! **Invariant:** each operation has one outcome; it is tried again until its coordinator takes it or it was tried often
//! enough.

mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::{outcome, request_of};

use super::process::{Broker, Purpose};
use super::share_offsets::Place;
use super::timer::BrokerTimer;
use crate::kafka::backoff::Backoff;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::group::{StateAsk, StateWork};
use crate::kafka::protocol::share::SummaryPartition;
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::share::ShareKey;
use crate::kafka::share::manager::{Instance, Persist, Persisted};
use crate::kafka::share::state::WriteId;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupEpoch, GroupId, Offset};

/// Between attempts; Kafka counts the first one already, so that it waits two seconds after it.
const BACKOFF: Backoff = Backoff { initial_ms: 1000, max_ms: 30_000 };
/// To find the coordinator, and to have it do something.
const MAX_ATTEMPTS: i32 = 5;

/// One share partition's part of what was asked for.
#[derive(Clone, Debug)]
enum Job {
    OfLeader(Persist),
    /// Of the ask that has this number.
    OfAsk {
        ask: u64,
        key: ShareKey,
        work: Work,
    },
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// Without a start that is known the leader chooses one.
    Begin {
        epoch: GroupEpoch,
        start: Offset,
    },
    Delete,
    Summarize,
}

impl Work {
    fn of(work: &StateWork, state: &TopicIdPartition) -> Work {
        match work {
            StateWork::Begin { epoch } => Work::Begin { epoch: *epoch, start: Offset::UNKNOWN },
            StateWork::Alter { epoch, starts, .. } => {
                let start = starts.get(state).copied().unwrap_or(Offset::UNKNOWN);
                Work::Begin { epoch: *epoch, start }
            }
            StateWork::Delete { .. } | StateWork::DeleteOffsets { .. } => Work::Delete,
        }
    }
}

/// What goes together in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    Read,
    Write,
    Begin,
    Delete,
    Summarize,
}

/// Who asked for several states at once.
#[derive(Clone, Debug)]
enum Asker {
    Group(StateAsk),
    Offsets(Place),
}

/// What became of each state, and its summary if that was asked for.
pub(super) type Told = BTreeMap<TopicIdPartition, Result<Option<SummaryPartition>, ErrorCode>>;

/// An ask with how many of its states are not answered, and what was told of those that are.
#[derive(Clone, Debug)]
struct OpenAsk {
    asker: Asker,
    left: usize,
    told: Told,
}

/// An operation with how often its coordinator was not found, how often it was tried, and from when on it may be tried
/// again.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    job: Job,
    lookups: i32,
    attempts: i32,
    not_before: Time,
}

#[derive(Clone, Debug)]
pub struct Persister {
    /// Oldest first.
    waiting: VecDeque<Operation>,
    asks: BTreeMap<u64, OpenAsk>,
    next_ask: u64,
    random: Random,
}

/// What came of an operation.
enum Outcome {
    Read { key: ShareKey, instance: Instance, result: Result<Persisted, ErrorCode> },
    Written { key: ShareKey, write: (Instance, WriteId), result: Result<(), ErrorCode> },
    Asked { ask: u64, key: ShareKey, result: Result<Option<SummaryPartition>, ErrorCode> },
}

impl Operation {
    fn key(&self) -> &ShareKey {
        match &self.job {
            Job::OfLeader(Persist::Read { key, .. } | Persist::Write { key, .. })
            | Job::OfAsk { key, .. } => key,
        }
    }

    fn kind(&self) -> JobKind {
        match &self.job {
            Job::OfLeader(Persist::Read { .. }) => JobKind::Read,
            Job::OfLeader(Persist::Write { .. }) => JobKind::Write,
            Job::OfAsk { work: Work::Begin { .. }, .. } => JobKind::Begin,
            Job::OfAsk { work: Work::Delete, .. } => JobKind::Delete,
            Job::OfAsk { work: Work::Summarize, .. } => JobKind::Summarize,
        }
    }

    fn failed(self, error: ErrorCode) -> Outcome {
        match self.job {
            Job::OfLeader(Persist::Read { key, instance, .. }) => {
                Outcome::Read { key, instance, result: Err(error) }
            }
            Job::OfLeader(Persist::Write { key, instance, write }) => {
                Outcome::Written { key, write: (instance, write.id), result: Err(error) }
            }
            Job::OfAsk { ask, key, .. } => Outcome::Asked { ask, key, result: Err(error) },
        }
    }
}

impl Persister {
    pub fn new(random: Random) -> Persister {
        Persister { waiting: VecDeque::new(), asks: BTreeMap::new(), next_ask: 0, random }
    }

    pub(super) fn submit(&mut self, now: Time, persist: Vec<Persist>) {
        self.enqueue(now, persist.into_iter().map(Job::OfLeader));
    }

    /// What the group coordinator wants of the states of one group.
    pub(super) fn ask(&mut self, now: Time, ask: StateAsk) {
        let (group, states) = (ask.group.clone(), ask.states.clone());
        let jobs: Vec<(TopicIdPartition, Work)> =
            states.into_iter().map(|state| (state, Work::of(&ask.work, &state))).collect();
        self.open(now, Asker::Group(ask), &group, jobs);
    }

    /// Summaries of the states of one group.
    pub(super) fn ask_summaries(
        &mut self,
        now: Time,
        place: Place,
        group: &GroupId,
        states: BTreeSet<TopicIdPartition>,
    ) {
        let jobs = states.into_iter().map(|state| (state, Work::Summarize)).collect();
        self.open(now, Asker::Offsets(place), group, jobs);
    }

    fn open(&mut self, now: Time, asker: Asker, group: &GroupId, jobs: Vec<(TopicIdPartition, Work)>) {
        let ask = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(ask, OpenAsk { asker, left: jobs.len(), told: Told::new() });
        let key = |(topic_id, partition)| ShareKey { group: group.clone(), topic_id, partition };
        self.enqueue(now, jobs.into_iter().map(|(state, work)| Job::OfAsk { ask, key: key(state), work }));
    }

    fn enqueue(&mut self, now: Time, jobs: impl Iterator<Item = Job>) {
        let new = |job| Operation { job, lookups: 0, attempts: 0, not_before: now };
        self.waiting.extend(jobs.map(new));
    }

    /// One state is done; the last one gives the ask back.
    fn answered(
        &mut self,
        number: u64,
        key: &ShareKey,
        result: Result<Option<SummaryPartition>, ErrorCode>,
    ) -> Option<OpenAsk> {
        let open = self.asks.get_mut(&number)?;
        open.left -= 1;
        open.told.insert((key.topic_id, key.partition), result);
        if open.left == 0 { self.asks.remove(&number) } else { None }
    }

    /// It did not succeed: it waits longer each time, or has been tried often enough.
    fn try_again(&mut self, now: Time, mut operation: Operation, error: ErrorCode) -> Option<Outcome> {
        operation.attempts += 1;
        self.rest(now, operation.attempts, operation, error)
    }

    /// Its coordinator was not found.
    fn look_again(&mut self, now: Time, mut operation: Operation, error: ErrorCode) -> Option<Outcome> {
        operation.lookups += 1;
        self.rest(now, operation.lookups, operation, error)
    }

    fn rest(
        &mut self,
        now: Time,
        attempts: i32,
        mut operation: Operation,
        error: ErrorCode,
    ) -> Option<Outcome> {
        if attempts >= MAX_ATTEMPTS {
            return Some(operation.failed(error));
        }
        operation.not_before = now.plus_ms(BACKOFF.after(attempts, &mut self.random));
        self.waiting.push_back(operation);
        None
    }

    /// The share partitions of which something may be tried.
    fn due(&self, now: Time) -> BTreeSet<ShareKey> {
        let due = self.waiting.iter().filter(|operation| operation.not_before <= now);
        due.map(|operation| operation.key().clone()).collect()
    }

    /// Takes out what is due and meant.
    fn take_due(&mut self, now: Time, is_meant: impl Fn(&ShareKey) -> bool) -> Vec<Operation> {
        let is_taken = |operation: &Operation| operation.not_before <= now && is_meant(operation.key());
        let (taken, rest) = std::mem::take(&mut self.waiting).into_iter().partition::<Vec<_>, _>(is_taken);
        self.waiting = rest.into();
        taken
    }

    /// Takes out what can go in one request with the first that goes to `broker`: of one kind and one group.
    fn take_for(
        &mut self,
        broker: BrokerId,
        coordinators: &BTreeMap<ShareKey, BrokerId>,
        now: Time,
    ) -> Vec<Operation> {
        let mut taken: Vec<Operation> = Vec::new();
        let mut passed: BTreeSet<ShareKey> = BTreeSet::new();
        let mut rest = VecDeque::new();
        for mut operation in std::mem::take(&mut self.waiting) {
            let goes = operation.not_before <= now
                && coordinators.get(operation.key()) == Some(&broker)
                && !passed.contains(operation.key())
                && taken.first().is_none_or(|first| {
                    first.kind() == operation.kind() && first.key().group == operation.key().group
                });
            if goes {
                operation.lookups = 0;
                taken.push(operation);
            } else {
                // What comes later of the same share partition does not overtake it.
                passed.insert(operation.key().clone());
                rest.push_back(operation);
            }
        }
        self.waiting = rest;
        taken
    }
}

impl Broker {
    /// Sends what waits and can be sent.
    pub(super) fn flush_persister(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let (coordinators, unknown) = self.share_coordinators(now, fx);
        let mut given_up = Vec::new();
        for operation in self.persister.take_due(now, |key| unknown.contains_key(key)) {
            let error = unknown[operation.key()];
            given_up.extend(self.persister.look_again(now, operation, error));
        }
        let brokers: BTreeSet<BrokerId> = coordinators.values().copied().collect();
        for broker in brokers {
            let peer = Peer::new(broker, Channel::ShareState);
            if !self.network.ready(now, peer, fx) || !self.network.can_send(peer) {
                continue;
            }
            let operations = self.persister.take_for(broker, &coordinators, now);
            if let Some(request) = request_of(&operations) {
                let timeout_ms = self.config.request_timeout_ms;
                self.network.send(now, peer, request, Purpose::ShareState(operations), timeout_ms, fx);
            }
        }
        self.schedule_persister(now, fx);
        self.persisted(now, given_up, fx);
    }

    /// Of all that is due: who coordinates it, or why that is not known.
    fn share_coordinators(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
    ) -> (BTreeMap<ShareKey, BrokerId>, BTreeMap<ShareKey, ErrorCode>) {
        let (mut known, mut unknown) = (BTreeMap::new(), BTreeMap::new());
        for key in self.persister.due(now) {
            match self.share_coordinator(now, &key, fx) {
                Ok(broker) => drop(known.insert(key, broker)),
                Err(error) => drop(unknown.insert(key, error)),
            }
        }
        (known, unknown)
    }

    /// Wakes when the next operation may be tried again. What waits for a connection is sent when that stands.
    fn schedule_persister(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let resting = self.persister.waiting.iter().map(|operation| operation.not_before);
        if let Some(next) = resting.filter(|not_before| *not_before > now).min() {
            fx.set_timer(BrokerTimer::Persist, next);
        }
    }

    /// The connection to a coordinator is lost, with what was asked there and what was to be asked.
    pub(super) fn persister_lost(
        &mut self,
        now: Time,
        broker: BrokerId,
        mut lost: Vec<Operation>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let (coordinators, _) = self.share_coordinators(now, fx);
        lost.extend(self.persister.take_due(now, |key| coordinators.get(key) == Some(&broker)));
        let mut given_up = Vec::new();
        for operation in lost {
            given_up.extend(self.persister.try_again(now, operation, ErrorCode::NetworkException));
        }
        self.persisted(now, given_up, fx);
        self.flush_persister(now, fx);
    }

    pub(super) fn persister_answered(
        &mut self,
        now: Time,
        operations: Vec<Operation>,
        response: &Response,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut outcomes = Vec::new();
        for operation in operations {
            match outcome(&operation, response) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) if is_retriable(error) => {
                    outcomes.extend(self.persister.try_again(now, operation, error));
                }
                Err(error) => outcomes.push(operation.failed(error)),
            }
        }
        self.persisted(now, outcomes, fx);
        self.flush_persister(now, fx);
    }

    fn persisted(&mut self, now: Time, outcomes: Vec<Outcome>, fx: &mut Effects<BrokerTimer>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Read { key, instance, result } => self.at_shares(now, fx, |shares, ground, part| {
                    shares.on_read(&key, instance, result, ground, part)
                }),
                Outcome::Written { key, write, result } => self.at_shares(now, fx, |shares, ground, part| {
                    shares.on_written(&key, write, result, ground, part)
                }),
                Outcome::Asked { ask, key, result } => match self.persister.answered(ask, &key, result) {
                    Some(OpenAsk { asker: Asker::Group(ask), told, .. }) => {
                        let errors = told.into_iter().filter_map(|(state, told)| Some((state, told.err()?)));
                        self.on_states(now, &ask, &errors.collect(), fx);
                    }
                    Some(OpenAsk { asker: Asker::Offsets(place), told, .. }) => {
                        self.on_summaries(now, place, told, fx);
                    }
                    None => {}
                },
            }
        }
    }
}

fn is_retriable(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator
            | ErrorCode::UnknownTopicOrPartition
    )
}
