//! Fetches of share groups (`KafkaApis.handleShareFetchRequest`, `DelayedShareFetch`).
//!
//! **Invariant:** records are handed out in the step that answers; a fetch that waits holds nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::key::ShareKey;
use super::super::partition::{AcquireMode, Acquirer, Fetched as FetchedBatches};
use super::super::range::OffsetRange;
use super::super::sessions::{FINAL_EPOCH, Named, TopicIdPartition, rotate};
use super::super::state::LockClash;
use super::acknowledge::{Acknowledgements, who};
use super::answer::{Fetched, Kind, Pending};
use super::{Ground, ManagerEffects, ShareFetchTimer, SharePartitionManager};
use crate::kafka::effects::RequestId;
use crate::kafka::log::Isolation;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{ShareFetchRequest, ShareFetchResponse};
use crate::kafka::random::Random;
use crate::kafka::types::{GroupId, MemberId, Offset, TopicId};

/// A fetch that waits.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub request: RequestId,
    pub group: GroupId,
    pub member: MemberId,
    /// In the order in which they have their turn.
    pub partitions: Vec<TopicIdPartition>,
    /// Partitions that cannot be read, and why.
    pub errors: BTreeMap<TopicIdPartition, ErrorCode>,
    limits: Limits,
}

/// How much a fetch takes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    mode: AcquireMode,
    batch_size: i64,
    max_records: i64,
    min_bytes: i64,
    max_bytes: i64,
}

const RECORD_LIMIT: i8 = 1;

impl Limits {
    fn of(request: &ShareFetchRequest, ground: &Ground<'_>) -> Limits {
        let max_bytes = request.max_bytes.min(ground.config.fetch_max_bytes);
        let is_strict = request.share_acquire_mode == RECORD_LIMIT;
        Limits {
            mode: if is_strict { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized },
            batch_size: request.batch_size.into(),
            max_records: request.max_records.into(),
            min_bytes: request.min_bytes.min(max_bytes).into(),
            max_bytes: max_bytes.into(),
        }
    }
}

impl SharePartitionManager {
    pub fn fetch(
        &mut self,
        id: RequestId,
        request: &ShareFetchRequest,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let acknowledgements = acknowledgements_of(request);
        let opened = self.open_session(id, request, !acknowledgements.is_empty(), ground);
        let ((group, member), partitions) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.refuse_fetch(id, error, request.max_wait_ms.into(), ground, fx),
        };
        let pending = Pending {
            kind: Kind::Fetch,
            group: group.clone(),
            member: member.clone(),
            closes: request.share_session_epoch == FINAL_EPOCH,
            acknowledged: acknowledgements.keys().map(|tip| (*tip, None)).collect(),
            fetched: None,
        };
        self.pending.insert(id, pending);
        self.take_acknowledgements(id, acknowledgements, request.is_renew_ack, ground, fx);
        let (limits, errors) = (Limits::of(request, ground), BTreeMap::new());
        let parked = Parked { request: id, group, member, partitions, errors, limits };
        self.wait_for_records(parked, request, ground, fx);
    }

    /// Whoever has no room for a session is told so after the time that it would wait for records
    /// (`createIdleShareFetchTimerTask`).
    fn refuse_fetch(
        &mut self,
        id: RequestId,
        error: ErrorCode,
        max_wait_ms: i64,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        if error == ErrorCode::ShareSessionLimitReached {
            return fx.effects.set_timer(ShareFetchTimer::Idle(id), ground.now.plus_ms(max_wait_ms));
        }
        fx.effects.respond(id, refusal(error));
    }

    fn open_session(
        &mut self,
        id: RequestId,
        request: &ShareFetchRequest,
        has_acknowledgements: bool,
        ground: &Ground<'_>,
    ) -> Result<((GroupId, MemberId), Vec<TopicIdPartition>), ErrorCode> {
        let who = who(request.group_id.as_deref(), request.member_id.as_deref())?;
        let wants = [request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms];
        if request.is_renew_ack && wants != [0; 4] {
            return Err(ErrorCode::InvalidRequest);
        }
        let named = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| (TopicId(topic.topic_id), partition.partition_index))
        });
        let forgotten = request
            .forgotten_topics_data
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|partition| (TopicId(topic.topic_id), *partition)));
        let forgotten = forgotten.collect();
        let epoch = request.share_session_epoch;
        let max_sessions = ground.config.share_partitions.max_sessions;
        let named = Named { partitions: named.collect(), forgotten };
        let mut partitions =
            self.sessions.fetch(&who, epoch, named, has_acknowledgements, id.incoming(), max_sessions)?;
        rotate(&mut partitions, epoch);
        Ok((who, partitions))
    }

    /// Reads at once, or when there is something or the time is up.
    fn wait_for_records(
        &mut self,
        mut parked: Parked,
        request: &ShareFetchRequest,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        self.fetches += 1;
        let number = self.fetches;
        if request.is_renew_ack {
            parked.partitions.clear();
        }
        let known = std::mem::take(&mut parked.partitions).into_iter();
        for tip in known {
            let tp = ground.name_of(tip).ok_or(ErrorCode::UnknownTopicId);
            let exists = tp.and_then(|tp| match ground.image.partition(&tp) {
                Some(_) => Ok(tp),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            });
            let key = ShareKey { group: parked.group.clone(), topic_id: tip.0, partition: tip.1 };
            let wants = parked.limits.max_records > 0 && parked.limits.max_bytes > 0;
            match exists {
                Ok(tp) if wants => match self.open(&key, &tp, number, ground, fx) {
                    Ok(()) => parked.partitions.push(tip),
                    Err(error) => drop(parked.errors.insert(tip, error)),
                },
                Ok(_) => {}
                Err(error) => drop(parked.errors.insert(tip, error)),
            }
        }
        let waits = !parked.partitions.is_empty();
        self.parked.insert(number, Rc::new(parked));
        if !waits {
            return self.end_fetch(number, ground, fx);
        }
        let deadline = ground.now.plus_ms(i64::from(request.max_wait_ms));
        fx.effects.set_timer(ShareFetchTimer::Deadline(number), deadline);
        self.try_fetch(number, ground, fx);
    }

    /// Ends a fetch if there is enough for it.
    pub(super) fn try_fetch(&mut self, number: u64, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let Some(parked) = self.parked.get(&number).cloned() else { return };
        let acquirable = self.acquirable(&parked, ground);
        if acquirable.is_empty() {
            return;
        }
        let shares = shares(parked.limits.max_bytes, acquirable.len(), &mut self.random);
        if has_enough(&parked, &acquirable, &shares, ground) {
            fx.effects.cancel_timer(ShareFetchTimer::Deadline(number));
            self.end_fetch(number, ground, fx);
        }
    }

    /// The partitions of which something may be handed out, each with where to read (`acquirablePartitions`).
    fn acquirable(&mut self, parked: &Parked, ground: &Ground<'_>) -> Vec<(TopicIdPartition, Offset)> {
        let settings = ground.settings(&parked.group);
        let mut acquirable = Vec::new();
        for tip in &parked.partitions {
            let key = ShareKey { group: parked.group.clone(), topic_id: tip.0, partition: tip.1 };
            let slot = self.slots.get_mut(&key).map(Rc::make_mut);
            if let Some(partition) = slot.and_then(|slot| slot.partition.as_mut())
                && partition.can_acquire(&settings)
            {
                acquirable.push((*tip, partition.next_fetch_offset()));
            }
        }
        acquirable
    }

    /// Hands out what there is, and answers.
    pub(super) fn end_fetch(&mut self, number: u64, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let Some(parked) = self.parked.remove(&number) else { return };
        let acquirable = self.acquirable(&parked, ground);
        let isolation = ground.isolation(&parked.group);
        let shares = shares(parked.limits.max_bytes, acquirable.len(), &mut self.random);
        let mut fetched = BTreeMap::new();
        let (mut records_left, mut bytes_left) = (parked.limits.max_records, parked.limits.max_bytes);
        for ((tip, offset), share) in acquirable.iter().zip(shares) {
            let is_first = bytes_left == parked.limits.max_bytes;
            let budget = (share.min(bytes_left), is_first);
            let part = self.hand_out(&parked, (*tip, *offset), isolation, records_left, budget, ground, fx);
            let Ok(part) = part else {
                // All fails, and what was acquired is not told of.
                let error = Some(ErrorCode::UnknownServerError);
                let failed = |(tip, _): &(_, _)| (*tip, Fetched { error, ..Fetched::default() });
                fetched = acquirable.iter().map(failed).collect();
                break;
            };
            records_left -= part.acquired.iter().map(|acquired| acquired.range.count()).sum::<i64>();
            bytes_left = (bytes_left - part.records.len() as i64).max(0);
            if part.error.is_some() || !part.acquired.is_empty() {
                fetched.insert(*tip, part);
            }
        }
        for (tip, error) in &parked.errors {
            fetched.insert(*tip, Fetched { error: Some(*error), ..Fetched::default() });
        }
        if let Some(pending) = self.pending.get_mut(&parked.request) {
            pending.fetched = Some(fetched);
        }
        self.try_answer(parked.request, ground, fx);
    }

    /// Of one partition (`ShareFetchUtils.processFetchResponse`).
    #[expect(clippy::too_many_arguments, reason = "one partition's turn in a fetch")]
    fn hand_out(
        &mut self,
        parked: &Parked,
        (tip, offset): (TopicIdPartition, Offset),
        isolation: Isolation,
        max_records: i64,
        (max_bytes, min_one_message): (i64, bool),
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) -> Result<Fetched, LockClash> {
        let key = ShareKey { group: parked.group.clone(), topic_id: tip.0, partition: tip.1 };
        let Some(slot) = self.slots.get_mut(&key).map(Rc::make_mut) else { return Ok(Fetched::default()) };
        let (tp, start) = (slot.tp.clone(), slot.start_offset());
        let Some(partition) = &mut slot.partition else { return Ok(Fetched::default()) };
        let read = match ground.read(&tp, offset, isolation, max_bytes, min_one_message) {
            Ok(read) => read,
            Err(ErrorCode::OffsetOutOfRange) => {
                // The log's start has passed it. The client tries again, and nothing is told of it.
                let log_start = ground.led(&tp).map(|partition| partition.log.log_start_offset());
                log_start.into_iter().for_each(|offset| partition.log_start_moved(offset));
                fx.tell_start(&key, slot, start, ground);
                return Ok(Fetched::default());
            }
            Err(error) => return Ok(Fetched { error: Some(error), ..Fetched::default() }),
        };
        let by = Acquirer {
            member: &parked.member,
            mode: parked.limits.mode,
            batch_size: parked.limits.batch_size,
            max_records,
            fetch_offset: offset,
        };
        let ranges = read.ranges();
        let batches = FetchedBatches { batches: &ranges, aborted: &read.aborted };
        let acquired = partition.acquire(&by, batches, &ground.settings(&parked.group), ground.now);
        slot.arm(&key, fx);
        fx.tell_start(&key, slot, start, ground);
        let acquired = acquired?;
        fx.tell_acquired(&key, slot, &parked.member, &acquired, ground);
        let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else {
            return Ok(Fetched::default());
        };
        let records = read.slice(OffsetRange::new(first.range.first, last.range.last));
        Ok(Fetched { error: None, records, acquired })
    }
}

fn acknowledgements_of(request: &ShareFetchRequest) -> Acknowledgements<'_> {
    let parts = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            let tip = (TopicId(topic.topic_id), partition.partition_index);
            (tip, partition.acknowledgement_batches.as_slice())
        })
    });
    let has_some = |batches: &[_]| !batches.is_empty();
    parts.filter(|(_, batches)| has_some(batches)).collect()
}

pub(super) fn refusal(error: ErrorCode) -> ShareFetchResponse {
    ShareFetchResponse { error_code: error.code(), ..ShareFetchResponse::default() }
}

/// How much each partition may take (`PartitionMaxBytesStrategy`): as much as any other, and what is left over goes to one
/// that is drawn. Where there are not enough bytes for all, some have one.
fn shares(max_bytes: i64, partitions: usize, random: &mut Random) -> Vec<i64> {
    let count = partitions as i64;
    let (Some(each), Some(left)) = (max_bytes.checked_div(count), max_bytes.checked_rem(count)) else {
        return Vec::new();
    };
    let mut shares = vec![each; partitions];
    if left > 0 {
        let drawn = random.below(partitions as u64) as usize;
        if each > 0 {
            shares[drawn] += left;
        } else {
            (0..left as usize).for_each(|place| shares[(drawn + place) % partitions] = 1);
        }
    }
    shares
}

/// Whether a fetch is worth its answer (`isMinBytesSatisfied`): enough bytes, or something that only an answer tells.
fn has_enough(
    parked: &Parked,
    acquirable: &[(TopicIdPartition, Offset)],
    shares: &[i64],
    ground: &Ground<'_>,
) -> bool {
    let isolation = ground.isolation(&parked.group);
    let mut bytes = 0;
    for ((tip, offset), share) in acquirable.iter().zip(shares) {
        let Some(tp) = ground.name_of(*tip) else { return true };
        let Ok(partition) = ground.led(&tp) else { return true };
        let log = &partition.log;
        let bound = log.read_bound(isolation);
        let is_outside = *offset < log.log_start_offset() || *offset > bound;
        if is_outside || *offset < bound && log.segment_base(*offset) < log.segment_base(bound) {
            return true;
        }
        bytes += log.readable_bytes(*offset, bound, parked.limits.min_bytes.max(1)).min(*share);
    }
    bytes >= parked.limits.min_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shared_and_the_rest_goes_to_one_that_is_drawn() {
        let mut random = Random::stream(1, "shares");
        let mut drawn = |max_bytes, partitions| {
            let mut shares = shares(max_bytes, partitions, &mut random);
            let first = shares.iter().position(|share| *share != shares[0]);
            shares.sort_unstable();
            (shares, first)
        };
        assert_eq!(drawn(12, 3), (vec![4, 4, 4], None));
        assert_eq!(drawn(14, 3).0, [4, 4, 6]);
        assert_eq!(drawn(2, 5).0, [0, 0, 0, 1, 1], "some have one, where there is not enough for all");
        let places: std::collections::BTreeSet<_> = (0..50).map(|_| drawn(14, 3).1).collect();
        assert!(places.len() > 1, "not always the same one");
    }
}
