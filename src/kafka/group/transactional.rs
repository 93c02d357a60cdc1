//! Offsets that are committed with a transaction: pending until its marker comes (R-TXN-21, R-TXN-33).
//!
//! Mirrors the `pendingTransactionalOffsets` and `openTransactions` of `OffsetMetadataManager`.
//!
//! **Invariant:** of a partition's offsets the one whose record is last in the log counts, whenever its marker comes.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;

use super::commit::Commit;
use super::offsets::{Author, OffsetChange};
use super::requests::not_empty;
use super::{At, GroupCoordinator, GroupEffects};
use crate::kafka::effects::RequestId;
use crate::kafka::log::VerificationGuard;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, OffsetCommitValue, RecordKey};
use crate::kafka::types::{ClientName, GroupId, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition};

/// Whose transaction a write to `__consumer_offsets` is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOf {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// With which the transaction may be opened in the partition.
    pub guard: Option<VerificationGuard>,
}

/// An offset that becomes a group's when its transaction is committed.
#[derive(Clone, Debug)]
pub(super) struct PendingOffset {
    pub value: OffsetCommitValue,
    pub author: Author,
    /// Its record's place among those of transactions.
    order: u64,
    /// A later record of the same partition counts already.
    overtaken: bool,
}

type OfProducer = BTreeMap<(GroupId, TopicPartition), PendingOffset>;

#[derive(Clone, Debug, Default)]
pub(super) struct PendingOffsets {
    by_producer: BTreeMap<ProducerId, OfProducer>,
    order: u64,
}

impl PendingOffsets {
    pub fn add(
        &mut self,
        producer: ProducerId,
        key: (GroupId, TopicPartition),
        value: OffsetCommitValue,
        author: Author,
    ) {
        self.order += 1;
        let pending = PendingOffset { value, author, order: self.order, overtaken: false };
        self.by_producer.entry(producer).or_default().insert(key, pending);
    }

    /// Whether some transaction that is open has an offset for the partition.
    pub fn has(&self, group: &GroupId, tp: &TopicPartition) -> bool {
        self.of_group(group).any(|pending| pending == tp)
    }

    /// Partitions for which transactions that are open have an offset, some more than once.
    pub fn of_group(&self, group: &GroupId) -> impl Iterator<Item = &TopicPartition> {
        let all = self.by_producer.values().flat_map(BTreeMap::keys);
        all.filter(move |(of, _)| of == group).map(|(_, tp)| tp)
    }

    /// The offsets that become those of groups if their transactions are committed.
    pub fn iter(&self) -> impl Iterator<Item = (&GroupId, &TopicPartition, Offset)> {
        let counting = self.by_producer.values().flatten().filter(|(_, pending)| !pending.overtaken);
        counting.map(|((group, tp), pending)| (group, tp, pending.value.offset))
    }

    /// A plain record of the partition was written: what is pending is older. A tombstone takes it along.
    pub fn on_plain(&mut self, group: &GroupId, tp: &TopicPartition, is_tombstone: bool) {
        if self.by_producer.is_empty() {
            return;
        }
        let key = (group.clone(), tp.clone());
        for of_producer in self.by_producer.values_mut() {
            if is_tombstone {
                of_producer.remove(&key);
            } else if let Some(pending) = of_producer.get_mut(&key) {
                pending.overtaken = true;
            }
        }
        self.by_producer.retain(|_, of_producer| !of_producer.is_empty());
    }

    /// The transaction is over: the offsets that count by now, if it was committed.
    pub fn end(&mut self, producer: ProducerId, committed: bool) -> Vec<OffsetChange> {
        let ended = self.by_producer.remove(&producer).unwrap_or_default();
        let mut changes = Vec::new();
        for (key, pending) in ended.into_iter().filter(|(_, pending)| committed && !pending.overtaken) {
            for other in self.by_producer.values_mut().filter_map(|offsets| offsets.get_mut(&key)) {
                other.overtaken |= other.order < pending.order;
            }
            let (group, tp) = key;
            let (after, author) = (Some(pending.value), pending.author);
            changes.push(OffsetChange { group, tp, before: None, after, author });
        }
        changes
    }
}

/// A pending offset as its record.
pub(super) fn pending_record(
    (group, tp): &(GroupId, TopicPartition),
    value: &OffsetCommitValue,
) -> CoordinatorRecord {
    CoordinatorRecord {
        key: RecordKey::OffsetCommit(group.clone(), tp.clone()).encode(),
        value: Some(value.encode(OffsetCommitValue::VERSION)),
    }
}

impl GroupCoordinator {
    /// A TxnOffsetCommit that is refused as a whole, for instance by the coordinator of the transaction.
    pub fn refuse_in_transaction(
        &self,
        id: RequestId,
        request: &m::TxnOffsetCommitRequest,
        topics: &dyn Fn(&TopicPartition) -> Option<TopicId>,
        error: ErrorCode,
        fx: &mut GroupEffects,
    ) {
        fx.effects.respond(id, Commit::in_transaction(request, topics).refused(error));
    }

    /// Offsets that a transaction commits; the coordinator of the transaction knows of the group's partition by now.
    pub fn commit_in_transaction(
        &mut self,
        at: At<'_>,
        (id, client): (RequestId, &ClientName),
        request: &m::TxnOffsetCommitRequest,
        guard: Option<VerificationGuard>,
        topics: &dyn Fn(&TopicPartition) -> Option<TopicId>,
        fx: &mut GroupEffects,
    ) {
        let commit = Commit::in_transaction(request, topics);
        if commit.asked().is_empty() {
            return fx.effects.respond(id, commit.response());
        }
        let checked = not_empty(&request.group_id).and_then(|()| self.shard_state(&request.group_id));
        if let Err(error) = checked {
            return fx.effects.respond(id, commit.refused(error));
        }
        let handled = self.with_shard(at, &request.group_id, fx, |shard, cx| {
            shard.commit_in_transaction((id, client), request, guard, commit, cx);
        });
        assert!(handled.is_ok(), "the shard was active a moment ago");
    }

    /// Whether a partition of `__consumer_offsets` is coordinated here, so that markers may be written to it.
    pub fn takes_markers(&self, partition: i32) -> bool {
        self.shards.get(&partition).is_some_and(|shard| !shard.loading)
    }

    /// A marker was appended to a partition of `__consumer_offsets` at `offset` (R-TXN-21).
    pub fn on_marker(
        &mut self,
        at: At<'_>,
        partition: i32,
        (producer, committed): (ProducerId, bool),
        offset: Offset,
        fx: &mut GroupEffects,
    ) {
        self.if_led(at, partition, fx, |shard, cx| shard.on_marker(producer, committed, offset, cx));
    }
}
