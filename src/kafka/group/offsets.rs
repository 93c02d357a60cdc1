//! Committed offsets: OffsetCommit and OffsetFetch (R-GRP-36 to R-GRP-39).
//!
//! Mirrors `OffsetMetadataManager` and the checks of `KafkaApis` in front of it.
//!
//! **Invariant:** an offset is told to a client only when its record is below the high watermark.

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use kafka_protocol::protocol::StrBytes;

use super::classic::ClassicGroup;
use super::context::Context;
use crate::kafka::event::{Event, GroupEvent, GroupState};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, OffsetCommitValue, RecordKey};
use crate::kafka::types::{ClientName, GroupId, Offset, Topic, TopicPartition};

/// One group's offsets by partition.
pub type GroupOffsets = BTreeMap<TopicPartition, OffsetCommitValue>;

/// All groups' offsets as of some point of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Offsets(BTreeMap<GroupId, Rc<GroupOffsets>>);

impl Offsets {
    pub fn of(&self, group: &GroupId) -> Option<&Rc<GroupOffsets>> {
        self.0.get(group)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&GroupId, &Rc<GroupOffsets>)> {
        self.0.iter()
    }

    /// Sets or, without a value, removes an offset; returns what was there.
    pub fn set(
        &mut self,
        group: &GroupId,
        tp: &TopicPartition,
        value: Option<OffsetCommitValue>,
    ) -> Option<OffsetCommitValue> {
        let offsets = Rc::make_mut(self.0.entry(group.clone()).or_default());
        let before = match value {
            Some(value) => offsets.insert(tp.clone(), value),
            None => offsets.remove(tp),
        };
        if offsets.is_empty() {
            self.0.remove(group);
        }
        before
    }
}

/// One offset set or removed by a record.
#[derive(Clone, Debug)]
pub(super) struct OffsetChange {
    pub group: GroupId,
    pub tp: TopicPartition,
    pub before: Option<OffsetCommitValue>,
    pub after: Option<OffsetCommitValue>,
    pub author: Author,
}

/// Whose doing a change of an offset is.
#[derive(Clone, Debug)]
pub(super) enum Author {
    /// A commit through this coordinator.
    Client(ClientName),
    Expiry,
    /// Someone who deletes it (R-GRP-41).
    Administrator(ClientName),
    /// It went with its topic (R-PLACE-9) or its group.
    Deletion,
    /// Read from the log: an earlier coordinator's.
    Log,
}

impl OffsetChange {
    pub fn to_record(&self) -> CoordinatorRecord {
        CoordinatorRecord {
            key: RecordKey::OffsetCommit(self.group.clone(), self.tp.clone()).encode(),
            value: self.after.as_ref().map(|value| value.encode(OffsetCommitValue::VERSION)),
        }
    }

    /// The change is below the high watermark now. What an earlier coordinator wrote was its to tell.
    pub fn told(&self, cx: &mut Context<'_>) {
        let (group, tp) = (self.group.clone(), self.tp.clone());
        match (&self.before, &self.after, &self.author) {
            (_, Some(value), Author::Client(client)) => {
                let (offset, client) = (value.offset, client.clone());
                cx.event(Event::Group(GroupEvent::OffsetCommitted { group, tp, offset, client }));
            }
            (Some(_), None, Author::Expiry) => {
                cx.event(Event::Group(GroupEvent::OffsetExpired { group, tp }))
            }
            (Some(_), None, Author::Administrator(client)) => {
                cx.event(Event::Group(GroupEvent::OffsetDeleted { group, tp, client: client.clone() }));
            }
            (Some(_), None, Author::Deletion) => {
                cx.event(Event::Group(GroupEvent::OffsetDropped { group, tp }))
            }
            _ => {}
        }
    }
}

impl ClassicGroup {
    /// Who may commit (R-GRP-36): anyone without a generation while the group is empty, else a member of this one.
    /// It need not own the partition (R-GRP-37).
    pub(super) fn validate_commit(&self, request: &m::OffsetCommitRequest) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        let instance_id = request.group_instance_id.as_deref();
        if (generation < 0 && self.is(GroupState::Empty)) || plant::is(Plant::OldGenerationCommit) {
            return Ok(());
        }
        if generation < 0 && request.member_id.is_empty() && instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.validate_member(&request.member_id, instance_id)?;
        if generation != self.generation.0 {
            Err(ErrorCode::IllegalGeneration)
        } else if self.is(GroupState::CompletingRebalance) {
            Err(ErrorCode::RebalanceInProgress)
        } else {
            Ok(())
        }
    }
}

/// What `offsets` holds for the partitions that are asked for, or for all (R-GRP-39). Of one that is unstable nothing is
/// told (R-TXN-33).
pub(super) fn read(
    offsets: Option<&Rc<GroupOffsets>>,
    request: &OffsetFetchRequestGroup,
    is_unstable: &dyn Fn(&TopicPartition) -> bool,
) -> OffsetFetchResponseGroup {
    let fetched = |tp: &TopicPartition, value: Option<&OffsetCommitValue>| match is_unstable(tp) {
        true => OffsetFetchResponsePartitions::default()
            .with_partition_index(tp.partition)
            .with_committed_offset(Offset::UNKNOWN.0)
            .with_error_code(ErrorCode::UnstableOffsetCommit.code()),
        false => fetched_partition(tp.partition, value),
    };
    let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
    let found = |tp: &TopicPartition| offsets.and_then(|offsets| offsets.get(tp));
    match &request.topics {
        Some(asked) => {
            for topic in asked {
                let name = Topic::new(&topic.name);
                let partitions = topic.partition_indexes.iter().map(|&partition| {
                    let tp = TopicPartition::new(&name, partition);
                    fetched(&tp, found(&tp))
                });
                let partitions = partitions.collect();
                topics.push(
                    OffsetFetchResponseTopics::default()
                        .with_name(topic.name.clone())
                        .with_partitions(partitions),
                );
            }
        }
        None => {
            for (tp, value) in offsets.into_iter().flat_map(|offsets| offsets.iter()) {
                if topics.last().is_none_or(|topic| &**topic.name != tp.topic.as_str()) {
                    topics.push(OffsetFetchResponseTopics::default().with_name(tp.topic.to_wire().into()));
                }
                if let Some(topic) = topics.last_mut() {
                    topic.partitions.push(fetched(tp, Some(value)));
                }
            }
        }
    }
    OffsetFetchResponseGroup::default().with_group_id(request.group_id.clone()).with_topics(topics)
}

fn fetched_partition(partition: i32, value: Option<&OffsetCommitValue>) -> OffsetFetchResponsePartitions {
    let response = OffsetFetchResponsePartitions::default().with_partition_index(partition);
    match value {
        Some(value) => response
            .with_committed_offset(value.offset.0)
            .with_committed_leader_epoch(value.leader_epoch.0)
            .with_metadata(Some(StrBytes::from_string(value.metadata.clone()))),
        None => response.with_committed_offset(Offset::UNKNOWN.0),
    }
}

pub(super) fn fetch_error(group: &m::GroupId, error: ErrorCode) -> OffsetFetchResponseGroup {
    OffsetFetchResponseGroup::default().with_group_id(group.clone()).with_error_code(error.code())
}
