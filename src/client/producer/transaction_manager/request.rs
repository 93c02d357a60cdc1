//! What a transactional producer asks of coordinators.
//!
//! Mirrors `TransactionManager`'s request handlers as far as they ask.
//!
//! **Invariant:** a request keeps the producer id and epoch that it was made with, however often it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::{ResultId, Speaks};
use crate::client::group_metadata::GroupMetadata;
use crate::kafka::protocol::{ApiKey, Request};
use crate::kafka::transaction::ProducerIdAndEpoch;
use crate::kafka::transaction::wire::client_add_request;
use crate::kafka::types::{GroupId, LeaderEpoch, Offset, Topic, TopicPartition, TransactionalId};

/// An offset that a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommittedOffset {
    /// Of the next record to be processed.
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// Offsets by partition.
pub type Offsets = BTreeMap<TopicPartition, CommittedOffset>;

/// Whose coordinator is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CoordinatorOf {
    Transaction,
    Group(GroupId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    FindCoordinator(CoordinatorOf),
    /// `raises_epoch`: of a producer that has one, after its transaction.
    InitProducerId {
        raises_epoch: bool,
    },
    /// Before transaction version 2.
    AddPartitions(BTreeSet<TopicPartition>),
    /// The same for the group's partition; the offsets follow.
    AddOffsets {
        offsets: Rc<Offsets>,
        group: GroupMetadata,
    },
    CommitOffsets {
        offsets: Rc<Offsets>,
        group: GroupMetadata,
        speaks: Speaks,
    },
    End {
        committed: bool,
        speaks: Speaks,
    },
}

/// `AddPartitionsToTxnRequest.LAST_CLIENT_VERSION`: later ones are the brokers'.
const LAST_CLIENT_VERSION: i16 = 3;
/// Of EndTxn and of TxnOffsetCommit: later ones say that the client speaks version 2.
const LAST_VERSION_1: i16 = 4;

/// One request, until it has an answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionalRequest {
    pub(super) ask: Ask,
    pub(super) producer: ProducerIdAndEpoch,
    /// Who waits for it.
    pub(super) result: Option<ResultId>,
    pub(super) is_retry: bool,
    /// Before it is tried again.
    pub(super) backoff_ms: i64,
}

/// What goes first: first who is asked, then who asks; the end comes after everything that belongs to the transaction, but
/// for an epoch that is raised with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    FindCoordinator,
    InitProducerId,
    Add,
    End,
    RaiseEpoch,
}

impl TransactionalRequest {
    pub(super) fn priority(&self) -> Priority {
        match &self.ask {
            Ask::FindCoordinator(_) => Priority::FindCoordinator,
            Ask::InitProducerId { raises_epoch: false } => Priority::InitProducerId,
            Ask::InitProducerId { raises_epoch: true } => Priority::RaiseEpoch,
            Ask::AddPartitions(_) | Ask::AddOffsets { .. } | Ask::CommitOffsets { .. } => Priority::Add,
            Ask::End { .. } => Priority::End,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        matches!(self.ask, Ask::End { .. })
    }

    /// Which coordinator is asked; `None`: any broker.
    pub fn coordinator(&self) -> Option<CoordinatorOf> {
        match &self.ask {
            Ask::FindCoordinator(_) => None,
            Ask::CommitOffsets { group, .. } => Some(CoordinatorOf::Group(group.group.clone())),
            _ => Some(CoordinatorOf::Transaction),
        }
    }

    /// The latest version at which this may be sent.
    pub fn latest_version(&self, api: ApiKey) -> i16 {
        match &self.ask {
            Ask::AddPartitions(_) => LAST_CLIENT_VERSION,
            Ask::CommitOffsets { speaks: Speaks::Version1, .. }
            | Ask::End { speaks: Speaks::Version1, .. } => LAST_VERSION_1,
            _ => api.version(),
        }
    }

    /// How long the sender sleeps before it sends this, in milliseconds.
    pub fn backoff_ms(&self) -> i64 {
        if self.is_retry { self.backoff_ms } else { 0 }
    }

    pub(super) fn body(&self, id: &TransactionalId, timeout_ms: i32) -> Request {
        let ProducerIdAndEpoch { id: producer, epoch } = self.producer;
        let transactional_id = m::TransactionalId(id.to_wire());
        match &self.ask {
            Ask::FindCoordinator(of) => find_coordinator(id, of).into(),
            Ask::InitProducerId { .. } => m::InitProducerIdRequest::default()
                .with_transactional_id(Some(transactional_id))
                .with_transaction_timeout_ms(timeout_ms)
                .with_producer_id(producer.0.into())
                .with_producer_epoch(epoch.0)
                .into(),
            Ask::AddPartitions(partitions) => client_add_request(id, self.producer, partitions).into(),
            Ask::AddOffsets { group, .. } => m::AddOffsetsToTxnRequest::default()
                .with_transactional_id(transactional_id)
                .with_producer_id(producer.0.into())
                .with_producer_epoch(epoch.0)
                .with_group_id(group.group.to_wire().into())
                .into(),
            Ask::CommitOffsets { offsets, group, .. } => m::TxnOffsetCommitRequest::default()
                .with_transactional_id(transactional_id)
                .with_producer_id(producer.0.into())
                .with_producer_epoch(epoch.0)
                .with_group_id(group.group.to_wire().into())
                .with_generation_id(group.generation.0)
                .with_member_id(group.member.to_wire())
                .with_group_instance_id(group.instance.as_deref().map(|id| StrBytes::from_string(id.into())))
                .with_topics(topics_of(offsets))
                .into(),
            Ask::End { committed, .. } => m::EndTxnRequest::default()
                .with_transactional_id(transactional_id)
                .with_producer_id(producer.0.into())
                .with_producer_epoch(epoch.0)
                .with_committed(*committed)
                .into(),
        }
    }
}

const GROUP_KEY: i8 = 0;
const TRANSACTION_KEY: i8 = 1;

fn find_coordinator(id: &TransactionalId, of: &CoordinatorOf) -> m::FindCoordinatorRequest {
    let (kind, key) = match of {
        CoordinatorOf::Transaction => (TRANSACTION_KEY, id.to_wire()),
        CoordinatorOf::Group(group) => (GROUP_KEY, group.to_wire()),
    };
    m::FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(vec![key])
}

fn topics_of(offsets: &Offsets) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: BTreeMap<Topic, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
    for (tp, committed) in offsets {
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(tp.partition)
            .with_committed_offset(committed.offset.0)
            .with_committed_leader_epoch(committed.leader_epoch.0)
            .with_committed_metadata(Some(StrBytes::from_static_str("")));
        topics.entry(tp.topic.clone()).or_default().push(partition);
    }
    let topic = |(name, partitions): (Topic, _)| {
        TxnOffsetCommitRequestTopic::default().with_name(name.to_wire().into()).with_partitions(partitions)
    };
    topics.into_iter().map(topic).collect()
}
