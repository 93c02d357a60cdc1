//! Reads: Fetch requests of followers and consumers.
//!
//! Mirrors `KafkaApis.handleFetchRequest`, `ReplicaManager.fetchMessages`, `DelayedFetch`, `Partition.fetchRecords`
//! (R-REPL-7 to 16, R-CONS-2, R-LOG-25 to 27). What a request asks for and what its answer tells depends on its session:
//! [`context`](super::context).

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_response::{AbortedTransaction, EpochEndOffset, PartitionData};

use super::context::{Asked, refuse_fetch};
use super::manager::{Notice, ReplicaManager, Step};
use super::partition::Partition;
use super::purgatory::{DelayedFetch, Operation, OperationId, SharedFetch};
use super::session::PartitionKey;
use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::fetch_session::Wanted;
use crate::kafka::log::Isolation;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition};

/// Who reads, which decides how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Up to the log end.
    Follower(BrokerId, BrokerEpoch),
    /// Up to the high watermark or, of committed data alone, up to the last stable offset.
    Consumer(Isolation),
}

/// `isolation.level` as requests carry it.
pub(super) fn isolation_of(level: i8) -> Isolation {
    const READ_COMMITTED: i8 = 1;
    if level == READ_COMMITTED { Isolation::TxnCommitted } else { Isolation::HighWatermark }
}

impl Reader {
    pub(super) fn of(fetch: &FetchRequest) -> Reader {
        let state = &fetch.replica_state;
        match state.replica_id.0 {
            id if id >= 0 => Reader::Follower(BrokerId(id), BrokerEpoch(state.replica_epoch)),
            _ => Reader::Consumer(isolation_of(fetch.isolation_level)),
        }
    }

    pub(super) fn is_consumer(self) -> bool {
        self.follower().is_none()
    }

    pub(super) fn follower(self) -> Option<(BrokerId, BrokerEpoch)> {
        match self {
            Reader::Follower(id, epoch) => Some((id, epoch)),
            Reader::Consumer(_) => None,
        }
    }

    /// Followers are served by the leader alone; consumers, since they name their rack, by any replica.
    pub(super) fn check_access(self, partition: &Partition, wanted: Wanted) -> Result<(), ErrorCode> {
        match self {
            Reader::Follower(..) => partition.check_leader(current_epoch(wanted)).map(|_| ()),
            Reader::Consumer(_) => partition.check_epoch(current_epoch(wanted)),
        }
    }

    pub(super) fn bound(self, partition: &Partition) -> Offset {
        match self {
            Reader::Follower(..) => partition.log.log_end_offset(),
            Reader::Consumer(isolation) => partition.log.read_bound(isolation),
        }
    }
}

/// Who fetches, and within which limits (`FetchParams`).
#[derive(Clone, Copy, Debug)]
struct Params {
    reader: Reader,
    min_bytes: i64,
    max_bytes: i64,
}

impl Params {
    /// The broker's own fetch.max.bytes is a limit for all (R-CONS-3).
    fn of(fetch: &FetchRequest, config: &BrokerConfig) -> Params {
        let max_bytes = i64::from(fetch.max_bytes.min(config.fetch_max_bytes));
        let min_bytes = i64::from(fetch.min_bytes).min(max_bytes);
        Params { reader: Reader::of(fetch), min_bytes, max_bytes }
    }
}

/// One partition's part of an answer.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub asked: Asked,
    pub data: PartitionData,
}

impl Read {
    pub(super) fn failed(asked: Asked, error: ErrorCode) -> Read {
        let data = PartitionData::default()
            .with_partition_index(asked.key.1)
            .with_error_code(error.code())
            .with_high_watermark(-1)
            .with_log_start_offset(-1)
            .with_records(Some(Bytes::new()));
        Read { asked, data }
    }

    fn bytes(&self) -> i64 {
        self.data.records.as_ref().map_or(0, Bytes::len) as i64
    }

    /// Answers at once, whatever min bytes says.
    fn is_urgent(&self) -> bool {
        self.data.error_code != 0
            || self.data.diverging_epoch.epoch >= 0
            || self.data.preferred_read_replica.0 != -1
    }
}

impl ReplicaManager {
    pub fn fetch(&mut self, id: RequestId, fetch: &SharedFetch, step: &mut Step<'_>) {
        let context = match self.open_context(fetch, step) {
            Ok(context) => context,
            Err(error) => return refuse_fetch(id, error, step),
        };
        let params = Params::of(fetch, &self.config);
        let (asked, unknown) = self.asked_now(&context, step.image);
        let wants_nothing = asked.is_empty() && !self.has_quiet(&context);
        let mut reads = self.read_all(asked, fetch, true, step);
        let bytes: i64 = reads.iter().map(Read::bytes).sum();
        let waits = fetch.max_wait_ms > 0
            && !wants_nothing
            && bytes < params.min_bytes
            && !reads.iter().any(Read::is_urgent)
            && !self.is_fetch_ready(
                reads.iter().map(|read| &read.asked),
                &BTreeMap::new(),
                params,
                step.image,
            );
        let segments = BTreeMap::new();
        let mut parked =
            DelayedFetch { request: id, fetch: fetch.clone(), context, unknown, segments, since: step.now };
        if !waits {
            reads.extend_from_slice(&parked.unknown);
            return self.answer_fetch(&parked, reads, step);
        }
        for Asked { key, tp, wanted } in reads.iter().map(|read| &read.asked) {
            let partition = tp.as_ref().and_then(|tp| self.partitions.get(tp));
            let segment = partition.map(|partition| partition.log.segment_base(wanted.fetch_offset));
            parked.segments.extend(segment.map(|segment| (*key, segment)));
        }
        let watched = reads.into_iter().filter_map(|read| read.asked.tp).collect();
        let deadline = step.now.plus_ms(fetch.max_wait_ms.into());
        let session = parked.context.session();
        let operation = self.park(Operation::Fetch(parked), watched, deadline, step);
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(id)) {
            session.parked.push(operation);
        }
    }

    /// Reads partitions in their order. `fresh`: the request has just come, so it tells how far a follower is; one that
    /// was parked has told already.
    fn read_all(
        &mut self,
        asked: Vec<Asked>,
        fetch: &FetchRequest,
        fresh: bool,
        step: &mut Step<'_>,
    ) -> Vec<Read> {
        let params = Params::of(fetch, &self.config);
        let mut bytes = 0;
        let mut reads = Vec::with_capacity(asked.len());
        for asked in asked {
            let read = match self.read_one(&asked, params, &fetch.rack_id, fresh, bytes, step) {
                Ok(data) => Read { asked, data },
                Err(error) => Read::failed(asked, error),
            };
            bytes += read.bytes();
            reads.push(read);
        }
        reads
    }

    fn read_one(
        &mut self,
        asked: &Asked,
        params: Params,
        rack: &str,
        fresh: bool,
        bytes_before: i64,
        step: &mut Step<'_>,
    ) -> Result<PartitionData, ErrorCode> {
        let tp = asked.tp.as_ref().ok_or(ErrorCode::UnknownTopicId)?;
        let partition = self.find_exactly(tp, asked.key, step.image)?;
        if params.reader.is_consumer()
            && let Some(replica) =
                self.preferred_read_replica(partition, rack, asked.wanted.fetch_offset, step)
        {
            params.reader.check_access(partition, asked.wanted)?;
            return Ok(without_records(partition, tp).with_preferred_read_replica(replica.0.into()));
        }
        let budget = params.max_bytes - bytes_before;
        let data = read_partition(partition, tp, asked.wanted, params.reader, budget, bytes_before == 0)?;
        // R-REPL-8: a diverging follower has not acknowledged anything.
        if fresh
            && data.diverging_epoch.epoch < 0
            && let Reader::Follower(follower, epoch) = params.reader
        {
            self.on_follower_fetch(tp, follower, epoch, asked.wanted, step)?;
        }
        Ok(data)
    }

    /// The partition of just this topic, not of another one of its name.
    fn find_exactly(
        &self,
        tp: &TopicPartition,
        key: PartitionKey,
        image: &ClusterImage,
    ) -> Result<&Partition, ErrorCode> {
        let partition = self.find(tp, image)?;
        if partition.topic_id == key.0 { Ok(partition) } else { Err(ErrorCode::InconsistentTopicId) }
    }

    /// R-REPL-9 to 11: a follower's fetch acknowledges what is below it, which may complete much.
    fn on_follower_fetch(
        &mut self,
        tp: &TopicPartition,
        follower: BrokerId,
        epoch: BrokerEpoch,
        wanted: Wanted,
        step: &mut Step<'_>,
    ) -> Result<(), ErrorCode> {
        let (now, image) = (step.now, step.image);
        let low_watermark = self.low_watermark(tp, image);
        let partition = self.edit(tp).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let (end, high_watermark) = (partition.log.log_end_offset(), partition.log.high_watermark());
        let leader = partition.leader_mut().ok_or(ErrorCode::NotLeaderOrFollower)?;
        let (offset, log_start) = (wanted.fetch_offset, wanted.log_start_offset);
        let moved = leader.on_follower_fetch(now, follower, offset, log_start, end, epoch, image);
        let moved = moved.ok_or(ErrorCode::NotLeaderOrFollower)?;
        if leader.maybe_expand(follower, high_watermark, image) {
            self.notice(Notice::IsrWanted { tp: tp.clone() });
        }
        let has_advanced = moved && self.advance_high_watermark(tp, step);
        if has_advanced || self.low_watermark(tp, image) > low_watermark {
            self.complete(tp, step);
        }
        Ok(())
    }

    pub(super) fn try_complete_fetch(&mut self, id: OperationId, step: &mut Step<'_>) {
        let Some(Operation::Fetch(parked)) = self.purgatory.get(id) else { return };
        let params = Params::of(&parked.fetch, &self.config);
        let asked = self.asked_again(parked);
        if !self.is_fetch_ready(asked.iter(), &parked.segments, params, step.image) {
            return;
        }
        if let Some(Operation::Fetch(parked)) = self.purgatory.remove(id) {
            self.end_fetch(id, &parked, step);
        }
    }

    /// R-REPL-16: enough bytes below the bound, a divergence, or another leader; a mere advance of the high watermark
    /// does not wake a follower. Of each partition no more counts than the reader takes of it; one that is past its
    /// bound, or whose bound is in a later segment, is not waited for. `segments` as in [`DelayedFetch`].
    fn is_fetch_ready<'a>(
        &self,
        asked: impl Iterator<Item = &'a Asked>,
        segments: &BTreeMap<PartitionKey, Offset>,
        params: Params,
        image: &ClusterImage,
    ) -> bool {
        let mut bytes = 0;
        for Asked { key, tp, wanted } in asked {
            let Some(tp) = tp else { return true };
            let Ok(partition) = self.find(tp, image) else { return true };
            let (offset, bound) = (wanted.fetch_offset, params.reader.bound(partition));
            if params.reader.check_access(partition, *wanted).is_err() || offset > bound {
                return true;
            }
            if diverging_epoch(partition, *wanted).is_some() {
                return true;
            }
            if offset < bound {
                let log = &partition.log;
                let segment = segments.get(key).copied().unwrap_or_else(|| log.segment_base(offset));
                if segment < log.segment_base(bound) {
                    return true;
                }
                let most = i64::from(wanted.max_bytes);
                bytes += partition.log.readable_bytes(offset, bound, params.min_bytes).min(most);
            }
        }
        bytes >= params.min_bytes
    }

    /// Answers a fetch that was parked and has left the purgatory, with what there is now.
    pub(super) fn end_fetch(&mut self, id: OperationId, parked: &DelayedFetch, step: &mut Step<'_>) {
        let asked = self.asked_again(parked);
        let mut reads = self.read_all(asked, &parked.fetch, false, step);
        reads.extend_from_slice(&parked.unknown);
        self.answer_fetch(parked, reads, step);
        if let Some(session) = parked.context.session() {
            self.leave_session(session, id);
        }
    }
}

pub(super) fn current_epoch(wanted: Wanted) -> Option<LeaderEpoch> {
    Some(wanted.current_leader_epoch).filter(|epoch| epoch.0 >= 0)
}

/// R-REPL-8: where the reader's last epoch ends here, if it has more of it than that.
pub(super) fn diverging_epoch(partition: &Partition, wanted: Wanted) -> Option<(LeaderEpoch, Offset)> {
    if wanted.last_fetched_epoch == LeaderEpoch::NONE || plant::is(Plant::SkipTruncation) {
        return None;
    }
    let (epoch, end) = partition.log.end_offset_for(wanted.last_fetched_epoch);
    (epoch < wanted.last_fetched_epoch || end < wanted.fetch_offset).then_some((epoch, end))
}

fn without_records(partition: &Partition, tp: &TopicPartition) -> PartitionData {
    let log = &partition.log;
    PartitionData::default()
        .with_partition_index(tp.partition)
        .with_high_watermark(log.high_watermark().0)
        .with_last_stable_offset(log.last_stable_offset().0)
        .with_aborted_transactions(None)
        .with_log_start_offset(log.log_start_offset().0)
        .with_records(Some(Bytes::new()))
}

fn read_partition(
    partition: &Partition,
    tp: &TopicPartition,
    wanted: Wanted,
    reader: Reader,
    budget: i64,
    min_one_message: bool,
) -> Result<PartitionData, ErrorCode> {
    reader.check_access(partition, wanted)?;
    if let Reader::Follower(follower, _) = reader
        && !partition.leader().is_some_and(|leader| leader.remotes.contains_key(&follower))
    {
        let unknown = match current_epoch(wanted) {
            Some(_) => ErrorCode::UnknownLeaderEpoch,
            None => ErrorCode::NotLeaderOrFollower,
        };
        return Err(unknown);
    }
    let log = &partition.log;
    let mut data = without_records(partition, tp);
    if let Some((epoch, end)) = diverging_epoch(partition, wanted) {
        if epoch == LeaderEpoch::NONE {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        data.diverging_epoch = EpochEndOffset::default().with_epoch(epoch.0).with_end_offset(end.0);
        return Ok(data);
    }
    let max_bytes = i64::from(wanted.max_bytes).min(budget).max(0) as i32;
    let read = log.read(wanted.fetch_offset, reader.bound(partition), max_bytes, min_one_message)?;
    if reader == Reader::Consumer(Isolation::TxnCommitted) {
        let aborted = log.aborted_transactions(wanted.fetch_offset, &read).into_iter().map(|aborted| {
            AbortedTransaction::default()
                .with_producer_id(aborted.producer.0.into())
                .with_first_offset(aborted.first_offset.0)
        });
        data.aborted_transactions = Some(aborted.collect());
    }
    data.records = Some(read.records);
    Ok(data)
}
