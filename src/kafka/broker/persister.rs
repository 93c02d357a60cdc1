//! What the leaders of share partitions read and write at the share coordinators, and which states the group coordinator
//! lets begin and end there (`DefaultStatePersister`, `PersisterStateManager`).
//!
//! **Invariant:** each operation has one outcome; it is tried again until its coordinator takes it or it was tried often
//! enough.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kafka_protocol::messages as m;
use kafka_protocol::messages::{
    delete_share_group_state_request as delete, initialize_share_group_state_request as initialize,
    read_share_group_state_request as read,
};

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::group::{StateAsk, StateWork};
use crate::kafka::protocol::share::{
    WritePartition, WriteShareGroupStateRequest, WriteStateBatch, WriteTopic,
};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::share::manager::{Instance, Persist, Persisted};
use crate::kafka::share::partition::StateWrite;
use crate::kafka::share::state::{RecordState, StateBatch, WriteId};
use crate::kafka::share::{OffsetRange, ShareKey};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupEpoch, Offset};

/// Doubled with each attempt; Kafka adds or takes away a fifth at random.
const BACKOFF_MS: i64 = 1000;
const BACKOFF_MAX_MS: i64 = 30_000;
const MAX_ATTEMPTS: u32 = 5;

/// One share partition's part of what was asked for.
#[derive(Clone, Debug)]
enum Job {
    OfLeader(Persist),
    /// Of the ask that has this number.
    OfGroup {
        ask: u64,
        key: ShareKey,
        work: GroupWork,
    },
}

#[derive(Clone, Copy, Debug)]
enum GroupWork {
    /// Without a start that is known the leader chooses one.
    Begin {
        epoch: GroupEpoch,
        start: Offset,
    },
    Delete,
}

impl GroupWork {
    fn of(work: &StateWork, state: &TopicIdPartition) -> GroupWork {
        match work {
            StateWork::Begin { epoch } => GroupWork::Begin { epoch: *epoch, start: Offset::UNKNOWN },
            StateWork::Alter { epoch, starts, .. } => {
                let start = starts.get(state).copied().unwrap_or(Offset::UNKNOWN);
                GroupWork::Begin { epoch: *epoch, start }
            }
            StateWork::Delete { .. } => GroupWork::Delete,
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
}

/// An ask of the group coordinator with how many of its states are not answered, and the errors of those that are.
#[derive(Clone, Debug)]
struct OpenAsk {
    ask: StateAsk,
    left: usize,
    errors: BTreeMap<TopicIdPartition, ErrorCode>,
}

/// An operation with how often it was tried, and from when on it may be tried again.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    job: Job,
    attempts: u32,
    not_before: Time,
}

#[derive(Clone, Debug, Default)]
pub struct Persister {
    /// Oldest first.
    waiting: VecDeque<Operation>,
    asks: BTreeMap<u64, OpenAsk>,
    next_ask: u64,
}

/// What came of an operation.
pub(super) enum Outcome {
    Read { key: ShareKey, instance: Instance, result: Result<Persisted, ErrorCode> },
    Written { key: ShareKey, write: (Instance, WriteId), result: Result<(), ErrorCode> },
    Asked { ask: u64, key: ShareKey, result: Result<(), ErrorCode> },
}

impl Operation {
    fn key(&self) -> &ShareKey {
        match &self.job {
            Job::OfLeader(Persist::Read { key, .. } | Persist::Write { key, .. })
            | Job::OfGroup { key, .. } => key,
        }
    }

    fn kind(&self) -> JobKind {
        match &self.job {
            Job::OfLeader(Persist::Read { .. }) => JobKind::Read,
            Job::OfLeader(Persist::Write { .. }) => JobKind::Write,
            Job::OfGroup { work: GroupWork::Begin { .. }, .. } => JobKind::Begin,
            Job::OfGroup { work: GroupWork::Delete, .. } => JobKind::Delete,
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
            Job::OfGroup { ask, key, .. } => Outcome::Asked { ask, key, result: Err(error) },
        }
    }
}

impl Persister {
    pub(super) fn submit(&mut self, now: Time, persist: Vec<Persist>) {
        self.enqueue(now, persist.into_iter().map(Job::OfLeader));
    }

    /// What the group coordinator wants of the states of one group.
    pub(super) fn ask(&mut self, now: Time, ask: StateAsk) {
        let number = self.next_ask;
        self.next_ask += 1;
        let jobs: Vec<Job> = ask
            .states
            .iter()
            .map(|state| {
                let (topic_id, partition) = *state;
                let key = ShareKey { group: ask.group.clone(), topic_id, partition };
                Job::OfGroup { ask: number, key, work: GroupWork::of(&ask.work, state) }
            })
            .collect();
        self.enqueue(now, jobs);
        let left = ask.states.len();
        self.asks.insert(number, OpenAsk { ask, left, errors: BTreeMap::new() });
    }

    fn enqueue(&mut self, now: Time, jobs: impl IntoIterator<Item = Job>) {
        let jobs = jobs.into_iter();
        self.waiting.extend(jobs.map(|job| Operation { job, attempts: 0, not_before: now }));
    }

    /// One state is done; the last one gives the ask back.
    fn answered(&mut self, number: u64, key: &ShareKey, result: Result<(), ErrorCode>) -> Option<OpenAsk> {
        let open = self.asks.get_mut(&number)?;
        open.left -= 1;
        if let Err(error) = result {
            open.errors.insert((key.topic_id, key.partition), error);
        }
        if open.left == 0 { self.asks.remove(&number) } else { None }
    }

    /// It did not succeed: it waits longer each time, or has been tried often enough.
    fn try_again(&mut self, now: Time, mut operation: Operation, error: ErrorCode) -> Option<Outcome> {
        operation.attempts += 1;
        if operation.attempts >= MAX_ATTEMPTS {
            return Some(operation.failed(error));
        }
        let backoff_ms = (BACKOFF_MS << (operation.attempts - 1)).min(BACKOFF_MAX_MS);
        operation.not_before = now.plus_ms(backoff_ms);
        self.waiting.push_back(operation);
        None
    }

    /// Takes out what can go in one request with the first that goes to `broker`: of one kind and one group, and no
    /// share partition twice.
    fn take_for(
        &mut self,
        broker: BrokerId,
        coordinators: &BTreeMap<ShareKey, BrokerId>,
        now: Time,
    ) -> Vec<Operation> {
        let mut taken: Vec<Operation> = Vec::new();
        let mut passed: BTreeSet<ShareKey> = BTreeSet::new();
        let mut rest = VecDeque::new();
        for operation in std::mem::take(&mut self.waiting) {
            let goes = operation.not_before <= now
                && coordinators.get(operation.key()) == Some(&broker)
                && !passed.contains(operation.key())
                && taken.iter().all(|other| {
                    other.kind() == operation.kind()
                        && other.key().group == operation.key().group
                        && other.key() != operation.key()
                });
            if goes {
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
        let due: BTreeSet<ShareKey> = self
            .persister
            .waiting
            .iter()
            .filter(|operation| operation.not_before <= now)
            .map(|operation| operation.key().clone())
            .collect();
        let mut coordinators = BTreeMap::new();
        for key in due {
            if let Ok(broker) = self.share_coordinator(now, &key, fx) {
                coordinators.insert(key, broker);
            }
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
    }

    /// Wakes when the next operation may be tried again. One whose coordinator is not known waits as one that failed.
    fn schedule_persister(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let next = self.persister.waiting.iter().map(|operation| operation.not_before).min();
        if let Some(next) = next {
            let is_stuck = next <= now;
            fx.set_timer(BrokerTimer::Persist, if is_stuck { now.plus_ms(BACKOFF_MS) } else { next });
        }
    }

    /// What waits for a coordinator that is not known, or not reached, is tried again or given up.
    pub(super) fn retry_persister(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let (late, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.persister.waiting)
            .into_iter()
            .partition(|operation| now.ms_since(operation.not_before) >= BACKOFF_MS);
        self.persister.waiting = VecDeque::from(waiting);
        let mut given_up = Vec::new();
        for operation in late {
            given_up.extend(self.persister.try_again(now, operation, ErrorCode::CoordinatorNotAvailable));
        }
        self.persisted(now, given_up, fx);
        self.flush_persister(now, fx);
    }

    /// The connection to a coordinator is lost with what was asked there.
    pub(super) fn persister_lost(&mut self, now: Time, lost: Vec<Operation>, fx: &mut Effects<BrokerTimer>) {
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
                Outcome::Asked { ask, key, result } => {
                    if let Some(done) = self.persister.answered(ask, &key, result) {
                        self.on_states(now, &done.ask, &done.errors, fx);
                    }
                }
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

fn request_of(operations: &[Operation]) -> Option<Request> {
    let first = operations.first()?;
    let group = first.key().group.clone();
    let mut reads: Vec<read::ReadStateData> = Vec::new();
    let mut writes: Vec<WriteTopic> = Vec::new();
    let mut begun: Vec<initialize::InitializeStateData> = Vec::new();
    let mut deleted: Vec<delete::DeleteStateData> = Vec::new();
    for operation in operations {
        match &operation.job {
            Job::OfLeader(Persist::Read { key, leader_epoch, .. }) => {
                let partition = read::PartitionData::default()
                    .with_partition(key.partition)
                    .with_leader_epoch(leader_epoch.0);
                let topic = read::ReadStateData::default().with_topic_id(key.topic_id.0);
                reads.push(topic.with_partitions(vec![partition]));
            }
            Job::OfLeader(Persist::Write { key, write, .. }) => {
                let partitions = vec![write_partition(key, write)];
                writes.push(WriteTopic { topic_id: key.topic_id.0, partitions });
            }
            Job::OfGroup { key, work: GroupWork::Begin { epoch, start }, .. } => {
                let partition = initialize::PartitionData::default()
                    .with_partition(key.partition)
                    .with_state_epoch(epoch.0)
                    .with_start_offset(start.0);
                let topic = initialize::InitializeStateData::default().with_topic_id(key.topic_id.0);
                begun.push(topic.with_partitions(vec![partition]));
            }
            Job::OfGroup { key, work: GroupWork::Delete, .. } => {
                let partition = delete::PartitionData::default().with_partition(key.partition);
                let topic = delete::DeleteStateData::default().with_topic_id(key.topic_id.0);
                deleted.push(topic.with_partitions(vec![partition]));
            }
        }
    }
    let id = group.to_wire();
    Some(match first.kind() {
        JobKind::Read => m::ReadShareGroupStateRequest::default().with_group_id(id).with_topics(reads).into(),
        JobKind::Write => WriteShareGroupStateRequest { group_id: group.to_string(), topics: writes }.into(),
        JobKind::Begin => {
            m::InitializeShareGroupStateRequest::default().with_group_id(id).with_topics(begun).into()
        }
        JobKind::Delete => {
            m::DeleteShareGroupStateRequest::default().with_group_id(id).with_topics(deleted).into()
        }
    })
}

fn write_partition(key: &ShareKey, write: &StateWrite) -> WritePartition {
    let state_batches = write.batches.iter().map(|batch| WriteStateBatch {
        first_offset: batch.range.first.0,
        last_offset: batch.range.last.0,
        delivery_state: batch.state.id(),
        delivery_count: batch.delivery_count,
    });
    WritePartition {
        partition: key.partition,
        state_epoch: write.state_epoch,
        leader_epoch: write.leader_epoch.0,
        start_offset: write.start_offset.0,
        delivery_complete_count: write.delivery_complete_count,
        state_batches: state_batches.collect(),
    }
}

/// What a response says of one share partition, or its error. Each response has types of its own, alike but in name.
macro_rules! said_of {
    ($results:expr, $key:expr) => {{
        let topics = $results.iter().filter(|topic| topic.topic_id == $key.topic_id.0);
        let mut partitions = topics.flat_map(|topic| &topic.partitions);
        let said = partitions.find(|said| said.partition == $key.partition);
        said.ok_or(ErrorCode::UnknownServerError).and_then(|said| check(said.error_code).map(|()| said))
    }};
}

/// What a response says of one operation.
fn outcome(operation: &Operation, response: &Response) -> Result<Outcome, ErrorCode> {
    let key = operation.key();
    match (&operation.job, response) {
        (Job::OfLeader(Persist::Read { instance, .. }), Response::ReadShareGroupState(response)) => {
            let partition = said_of!(response.results, key)?;
            let batches = partition.state_batches.iter().filter_map(|batch| {
                let range = OffsetRange::new(Offset(batch.first_offset), Offset(batch.last_offset));
                let state = RecordState::from_id(batch.delivery_state)?;
                Some(StateBatch { range, state, delivery_count: batch.delivery_count })
            });
            let persisted = Persisted {
                state_epoch: partition.state_epoch,
                start_offset: Some(Offset(partition.start_offset))
                    .filter(|offset| *offset != Offset::UNKNOWN),
                batches: batches.collect(),
            };
            Ok(Outcome::Read { key: key.clone(), instance: *instance, result: Ok(persisted) })
        }
        (Job::OfLeader(Persist::Write { instance, write, .. }), Response::WriteShareGroupState(response)) => {
            said_of!(response.0.results, key)?;
            Ok(Outcome::Written { key: key.clone(), write: (*instance, write.id), result: Ok(()) })
        }
        (Job::OfGroup { ask, .. }, Response::InitializeShareGroupState(response)) => {
            said_of!(response.results, key)?;
            Ok(Outcome::Asked { ask: *ask, key: key.clone(), result: Ok(()) })
        }
        (Job::OfGroup { ask, .. }, Response::DeleteShareGroupState(response)) => {
            said_of!(response.results, key)?;
            Ok(Outcome::Asked { ask: *ask, key: key.clone(), result: Ok(()) })
        }
        _ => Err(ErrorCode::UnknownServerError),
    }
}

fn check(code: i16) -> Result<(), ErrorCode> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        error => Err(error),
    }
}
