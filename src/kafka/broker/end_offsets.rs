//! Where the logs of partitions end, as their leaders say (`NetworkPartitionMetadataClient`).
//!
//! **Invariant:** each partition that is asked for is answered, with an offset or an error.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

use super::process::{Broker, Purpose};
use super::share_offsets::Place;
use super::timer::BrokerTimer;
use crate::kafka::backoff::Backoff;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Offset, Topic, TopicPartition};

const BACKOFF: Backoff = Backoff { initial_ms: 1000, max_ms: 30_000 };
/// After the first.
const MAX_RETRIES: i32 = 5;
/// ListOffsets knows it as a timestamp.
const LATEST: i64 = -1;
const NO_EPOCH: i32 = -1;
/// Who asks is no replica.
const NO_REPLICA: i32 = -1;

pub(super) type Ends = BTreeMap<TopicPartition, Result<Offset, ErrorCode>>;

/// What one leader is asked for one place.
#[derive(Clone, Debug)]
pub(super) struct LeaderAsk {
    place: Place,
    leader: BrokerId,
    partitions: Vec<TopicPartition>,
    retries: i32,
    not_before: Time,
}

#[derive(Clone, Debug)]
pub struct EndOffsets {
    waiting: Vec<LeaderAsk>,
    /// How many leaders have not answered, and what the others said.
    open: BTreeMap<Place, (usize, Ends)>,
    random: Random,
}

impl EndOffsets {
    pub fn new(random: Random) -> EndOffsets {
        EndOffsets { waiting: Vec::new(), open: BTreeMap::new(), random }
    }

    /// A leader has answered, or will not; the last one gives all back.
    fn answered(&mut self, place: Place, ends: Ends) -> Option<Ends> {
        let (left, known) = self.open.get_mut(&place)?;
        *left -= 1;
        known.extend(ends);
        if *left == 0 { self.open.remove(&place).map(|(_, known)| known) } else { None }
    }

    fn take(&mut self, is_taken: impl Fn(&LeaderAsk) -> bool) -> Vec<LeaderAsk> {
        self.waiting.extract_if(.., |ask| is_taken(ask)).collect()
    }
}

impl Broker {
    pub(super) fn ask_end_offsets(
        &mut self,
        now: Time,
        place: Place,
        partitions: BTreeSet<TopicPartition>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut by_leader: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
        let mut known = Ends::new();
        for tp in partitions {
            let leader = self.image.partition(&tp).map(|partition| partition.leader);
            match leader.filter(|leader| self.image.is_alive(*leader)) {
                Some(leader) => by_leader.entry(leader).or_default().push(tp),
                None => drop(known.insert(tp, Err(ErrorCode::LeaderNotAvailable))),
            }
        }
        if by_leader.is_empty() {
            return self.on_ends(place, &known, fx);
        }
        self.end_offsets.open.insert(place, (by_leader.len(), known));
        let ask = |(leader, partitions)| LeaderAsk { place, leader, partitions, retries: 0, not_before: now };
        self.end_offsets.waiting.extend(by_leader.into_iter().map(ask));
        self.flush_end_offsets(now, fx);
    }

    /// Sends what waits and can be sent.
    pub(super) fn flush_end_offsets(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let due = self.end_offsets.waiting.iter().filter(|ask| ask.not_before <= now);
        let leaders: BTreeSet<BrokerId> = due.map(|ask| ask.leader).collect();
        for leader in leaders {
            let peer = Peer::new(leader, Channel::EndOffsets);
            if !self.network.ready(now, peer, fx) || !self.network.can_send(peer) {
                continue;
            }
            let waiting = &mut self.end_offsets.waiting;
            let place = waiting.iter().position(|ask| ask.leader == leader && ask.not_before <= now);
            if let Some(ask) = place.map(|place| waiting.remove(place)) {
                let (request, timeout_ms) = (request_of(&ask), self.config.request_timeout_ms);
                self.network.send(now, peer, request, Purpose::EndOffsets(ask), timeout_ms, fx);
            }
        }
        let resting = self.end_offsets.waiting.iter().map(|ask| ask.not_before);
        if let Some(next) = resting.filter(|not_before| *not_before > now).min() {
            fx.set_timer(BrokerTimer::EndOffsets, next);
        }
    }

    /// The connection to a leader is lost, with what was asked there and what was to be asked.
    pub(super) fn end_offsets_lost(
        &mut self,
        now: Time,
        leader: BrokerId,
        mut lost: Vec<LeaderAsk>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        lost.extend(self.end_offsets.take(|ask| ask.leader == leader && ask.not_before <= now));
        for mut ask in lost {
            if ask.retries < MAX_RETRIES {
                ask.retries += 1;
                ask.not_before = now.plus_ms(BACKOFF.after(ask.retries, &mut self.end_offsets.random));
                self.end_offsets.waiting.push(ask);
                continue;
            }
            let failed = |tp| (tp, Err(ErrorCode::NetworkException));
            self.ends_told(ask.place, ask.partitions.into_iter().map(failed).collect(), fx);
        }
        self.flush_end_offsets(now, fx);
    }

    pub(super) fn end_offsets_answered(
        &mut self,
        now: Time,
        ask: LeaderAsk,
        response: &m::ListOffsetsResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut ends: Ends =
            ask.partitions.into_iter().map(|tp| (tp, Err(ErrorCode::UnknownTopicOrPartition))).collect();
        for topic in &response.topics {
            let name = Topic::new(&topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                let end = match ErrorCode::from_code(partition.error_code) {
                    ErrorCode::None => Ok(Offset(partition.offset)),
                    error => Err(error),
                };
                ends.entry(tp).and_modify(|known| *known = end);
            }
        }
        self.ends_told(ask.place, ends, fx);
        self.flush_end_offsets(now, fx);
    }

    fn ends_told(&mut self, place: Place, ends: Ends, fx: &mut Effects<BrokerTimer>) {
        if let Some(ends) = self.end_offsets.answered(place, ends) {
            self.on_ends(place, &ends, fx);
        }
    }
}

fn request_of(ask: &LeaderAsk) -> m::ListOffsetsRequest {
    let mut topics: Vec<ListOffsetsTopic> = Vec::new();
    for tp in &ask.partitions {
        let partition = ListOffsetsPartition::default()
            .with_partition_index(tp.partition)
            .with_current_leader_epoch(NO_EPOCH)
            .with_timestamp(LATEST);
        match topics.last_mut().filter(|topic| &**topic.name == tp.topic.as_str()) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(
                ListOffsetsTopic::default()
                    .with_name(tp.topic.to_wire().into())
                    .with_partitions(vec![partition]),
            ),
        }
    }
    m::ListOffsetsRequest::default().with_replica_id(m::BrokerId(NO_REPLICA)).with_topics(topics)
}
