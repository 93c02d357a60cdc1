//! Reads: Fetch requests of followers and consumers.
//!
//! Mirrors `ReplicaManager.fetchMessages`, `DelayedFetch`, `Partition.fetchRecords` (R-REPL-7 to 16, R-CONS-2,
//! R-LOG-25 to 27).

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::manager::{Notice, ReplicaManager, Step};
use super::partition::Partition;
use super::purgatory::{DelayedFetch, Operation, OperationId, SharedFetch};
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{PORT, host};
use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, Topic, TopicId, TopicPartition};

/// Who reads, which decides how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Up to the log end.
    Follower(BrokerId, BrokerEpoch),
    /// Up to the high watermark.
    Consumer,
}

impl Reader {
    fn of(fetch: &FetchRequest) -> Reader {
        let state = &fetch.replica_state;
        match state.replica_id.0 {
            id if id >= 0 => Reader::Follower(BrokerId(id), BrokerEpoch(state.replica_epoch)),
            _ => Reader::Consumer,
        }
    }

    fn bound(self, partition: &Partition) -> Offset {
        match self {
            Reader::Follower(..) => partition.log.log_end_offset(),
            Reader::Consumer => partition.log.high_watermark(),
        }
    }
}

/// One partition's part of an answer.
struct Read {
    data: PartitionData,
    /// Answers at once, whatever min bytes says.
    urgent: bool,
    bytes: i64,
}

impl Read {
    fn failed(partition: &FetchPartition, error: ErrorCode) -> Read {
        let data = PartitionData::default()
            .with_partition_index(partition.partition)
            .with_error_code(error.code())
            .with_high_watermark(-1)
            .with_log_start_offset(-1)
            .with_records(Some(Bytes::new()));
        Read { data, urgent: true, bytes: 0 }
    }
}

impl ReplicaManager {
    pub fn fetch(&mut self, id: RequestId, fetch: &SharedFetch, step: &mut Step<'_>) {
        let reader = Reader::of(fetch);
        let (response, urgent, bytes) = self.read_all(fetch, reader, true, step);
        let waits = !urgent && bytes < i64::from(fetch.min_bytes) && fetch.max_wait_ms > 0;
        if !waits || fetch.topics.is_empty() || self.is_fetch_ready(fetch, step.image) {
            return step.fx.respond(id, response);
        }
        let named = fetch
            .topics
            .iter()
            .filter_map(|topic| Some((step.image.topic_name(TopicId(topic.topic_id))?, topic)));
        let watched = named.flat_map(|(name, topic)| {
            topic.partitions.iter().map(move |partition| TopicPartition::new(name, partition.partition))
        });
        let deadline = step.now.plus_ms(fetch.max_wait_ms.into());
        let operation = Operation::Fetch(DelayedFetch { request: id, fetch: fetch.clone() });
        let operation = self.purgatory.park(operation, watched.collect(), deadline);
        step.fx.set_timer(BrokerTimer::Operation(operation), deadline);
    }

    /// Reads every partition of a fetch. `fresh`: the request has just come, so it tells how far a follower is; one
    /// that was parked has told already.
    fn read_all(
        &mut self,
        fetch: &FetchRequest,
        reader: Reader,
        fresh: bool,
        step: &mut Step<'_>,
    ) -> (FetchResponse, bool, i64) {
        let mut response = FetchResponse::default();
        let (mut urgent, mut bytes) = (false, 0);
        for topic in &fetch.topics {
            let mut answers = Vec::with_capacity(topic.partitions.len());
            let name = step.image.topic_name(TopicId(topic.topic_id)).cloned();
            for wanted in &topic.partitions {
                let budget = i64::from(fetch.max_bytes) - bytes;
                let read = match &name {
                    Some(name) => self.read_one(name, wanted, reader, fresh, budget, bytes == 0, step),
                    None => Read::failed(wanted, ErrorCode::UnknownTopicId),
                };
                urgent |= read.urgent;
                bytes += read.bytes;
                answers.push(read.data);
            }
            if let Some(name) = &name {
                name_leaders(name, &mut answers, step.image, &mut response.node_endpoints);
            }
            let topic =
                FetchableTopicResponse::default().with_topic_id(topic.topic_id).with_partitions(answers);
            response.responses.push(topic);
        }
        (response, urgent, bytes)
    }

    fn read_one(
        &mut self,
        topic: &Topic,
        wanted: &FetchPartition,
        reader: Reader,
        fresh: bool,
        budget: i64,
        min_one_message: bool,
        step: &mut Step<'_>,
    ) -> Read {
        let tp = TopicPartition::new(topic, wanted.partition);
        let read = match self.find(&tp, step.image) {
            Ok(partition) => read_partition(partition, wanted, reader, budget, min_one_message),
            Err(error) => Err(error),
        };
        let read = match read {
            Ok(read) => read,
            Err(error) => return Read::failed(wanted, error),
        };
        // R-REPL-8: a diverging follower has not acknowledged anything.
        let diverging = read.data.diverging_epoch.epoch >= 0;
        if fresh
            && !diverging
            && let Reader::Follower(follower, epoch) = reader
            && let Err(error) = self.on_follower_fetch(&tp, follower, epoch, wanted, step)
        {
            return Read::failed(wanted, error);
        }
        read
    }

    /// R-REPL-9 to 11: a follower's fetch acknowledges what is below it, which may complete much.
    fn on_follower_fetch(
        &mut self,
        tp: &TopicPartition,
        follower: BrokerId,
        epoch: BrokerEpoch,
        wanted: &FetchPartition,
        step: &mut Step<'_>,
    ) -> Result<(), ErrorCode> {
        let (now, image) = (step.now, step.image);
        let partition = self.edit(tp).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let (end, high_watermark) = (partition.log.log_end_offset(), partition.log.high_watermark());
        let (offset, log_start) = (Offset(wanted.fetch_offset), Offset(wanted.log_start_offset));
        let leader = partition.leader_mut().ok_or(ErrorCode::NotLeaderOrFollower)?;
        let moved = leader.on_follower_fetch(now, follower, offset, log_start, end, epoch, image);
        let moved = moved.ok_or(ErrorCode::NotLeaderOrFollower)?;
        if leader.maybe_expand(follower, high_watermark, image) {
            self.notice(Notice::IsrWanted { tp: tp.clone() });
        }
        if moved && self.advance_high_watermark(tp, step) {
            self.complete(tp, step);
        }
        Ok(())
    }

    pub(super) fn try_complete_fetch(&mut self, id: OperationId, step: &mut Step<'_>) {
        let Some(Operation::Fetch(parked)) = self.purgatory.get(id) else { return };
        let fetch = parked.fetch.clone();
        if !self.is_fetch_ready(&fetch, step.image) {
            return;
        }
        if let Some(Operation::Fetch(parked)) = self.purgatory.remove(id) {
            step.fx.cancel_timer(BrokerTimer::Operation(id));
            self.answer_fetch(&parked, step);
        }
    }

    /// R-REPL-16: enough bytes below the bound, a divergence, or another leader; a mere advance of the high watermark
    /// does not wake a follower. A reader that is past its bound does not wait: `DelayedFetch` takes the log for one
    /// that was truncated.
    fn is_fetch_ready(&self, fetch: &FetchRequest, image: &ClusterImage) -> bool {
        let reader = Reader::of(fetch);
        let mut bytes = 0;
        for topic in &fetch.topics {
            let Some(name) = image.topic_name(TopicId(topic.topic_id)) else { return true };
            for wanted in &topic.partitions {
                let tp = TopicPartition::new(name, wanted.partition);
                let Ok(partition) = self.find(&tp, image) else { return true };
                let offset = Offset(wanted.fetch_offset);
                let epoch = current_epoch(wanted);
                if partition.check_leader(epoch).is_err() || offset > reader.bound(partition) {
                    return true;
                }
                if diverging_epoch(partition, wanted).is_some() {
                    return true;
                }
                if offset < reader.bound(partition) {
                    bytes += readable_bytes(partition, offset, reader, fetch.min_bytes);
                }
                if bytes >= i64::from(fetch.min_bytes) {
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn answer_fetch(&mut self, parked: &DelayedFetch, step: &mut Step<'_>) {
        let reader = Reader::of(&parked.fetch);
        let (response, ..) = self.read_all(&parked.fetch, reader, false, step);
        step.fx.respond(parked.request, response);
    }
}

fn current_epoch(wanted: &FetchPartition) -> Option<LeaderEpoch> {
    Some(LeaderEpoch(wanted.current_leader_epoch)).filter(|epoch| epoch.0 >= 0)
}

/// R-REPL-8: where the reader's last epoch ends here, if it has more of it than that.
fn diverging_epoch(partition: &Partition, wanted: &FetchPartition) -> Option<(LeaderEpoch, Offset)> {
    if wanted.last_fetched_epoch < 0 {
        return None;
    }
    let (epoch, end) = partition.log.end_offset_for(LeaderEpoch(wanted.last_fetched_epoch));
    (epoch.0 < wanted.last_fetched_epoch || end.0 < wanted.fetch_offset).then_some((epoch, end))
}

fn readable_bytes(partition: &Partition, from: Offset, reader: Reader, enough: i32) -> i64 {
    let bound = reader.bound(partition);
    let batches = partition.log.batches_from(from).take_while(|batch| batch.base_offset() < bound);
    let mut bytes = 0;
    for batch in batches {
        bytes += i64::from(batch.size_bytes());
        if bytes >= i64::from(enough) {
            break;
        }
    }
    bytes
}

fn read_partition(
    partition: &Partition,
    wanted: &FetchPartition,
    reader: Reader,
    budget: i64,
    min_one_message: bool,
) -> Result<Read, ErrorCode> {
    let epoch = current_epoch(wanted);
    let leader = partition.check_leader(epoch)?;
    if let Reader::Follower(follower, _) = reader
        && !leader.remotes.contains_key(&follower)
    {
        let unknown =
            if epoch.is_some() { ErrorCode::UnknownLeaderEpoch } else { ErrorCode::NotLeaderOrFollower };
        return Err(unknown);
    }
    let log = &partition.log;
    let mut data = PartitionData::default()
        .with_partition_index(wanted.partition)
        .with_high_watermark(log.high_watermark().0)
        .with_last_stable_offset(log.last_stable_offset().0)
        .with_log_start_offset(log.log_start_offset().0)
        .with_records(Some(Bytes::new()));
    if let Some((epoch, end)) = diverging_epoch(partition, wanted) {
        if epoch == LeaderEpoch::NONE {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        data.diverging_epoch = EpochEndOffset::default().with_epoch(epoch.0).with_end_offset(end.0);
        return Ok(Read { data, urgent: true, bytes: 0 });
    }
    let max_bytes = i64::from(wanted.partition_max_bytes).min(budget).max(0) as i32;
    let read = log.read(Offset(wanted.fetch_offset), reader.bound(partition), max_bytes, min_one_message)?;
    let bytes = read.records.len() as i64;
    data.records = Some(read.records);
    Ok(Read { data, urgent: false, bytes })
}

/// KIP-951: who leads now, where this broker does not (R-REPL-67).
fn name_leaders(
    topic: &Topic,
    answers: &mut [PartitionData],
    image: &ClusterImage,
    endpoints: &mut Vec<NodeEndpoint>,
) {
    let misdirected = |code: i16| {
        matches!(ErrorCode::from_code(code), ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch)
    };
    for answer in answers.iter_mut().filter(|answer| misdirected(answer.error_code)) {
        let tp = TopicPartition::new(topic, answer.partition_index);
        let Some(partition) = image.partition(&tp) else { continue };
        let leader = partition.leader;
        answer.current_leader = LeaderIdAndEpoch::default()
            .with_leader_id(leader.0.into())
            .with_leader_epoch(partition.leader_epoch.0);
        if image.is_alive(leader) && endpoints.iter().all(|endpoint| endpoint.node_id.0 != leader.0) {
            let rack = image.brokers.get(&leader).and_then(|broker| broker.rack.clone());
            endpoints.push(
                NodeEndpoint::default()
                    .with_node_id(leader.0.into())
                    .with_host(host(leader).into())
                    .with_port(PORT.into())
                    .with_rack(rack.map(Into::into)),
            );
        }
    }
}
