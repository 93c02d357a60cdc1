//! How far share groups are: what is persisted of each share partition, and how many records lie behind that
//! (DescribeShareGroupOffsets, `GroupCoordinatorService.describeShareGroupOffsets`, KIP-1226).
//!
//! **Invariant:** each group of a request has its part of the answer, in the order of the request.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup as Asked, DescribeShareGroupOffsetsRequestTopic as AskedTopic,
};

use super::end_offsets::Ends;
use super::persister::Told;
use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, OffsetsGroup, OffsetsPartition,
    OffsetsTopic, SummaryPartition,
};
use crate::kafka::time::Time;
use crate::kafka::types::{GroupId, Offset, Topic, TopicId, TopicPartition};

/// A group's part of a request.
pub(super) type Place = (RequestId, usize);

const UNKNOWN: i64 = -1;

#[derive(Clone, Debug, Default)]
pub struct ShareOffsets {
    /// The parts of each answer, as far as they are there.
    open: BTreeMap<RequestId, Vec<Option<OffsetsGroup>>>,
    parts: BTreeMap<Place, Part>,
}

/// What is known of a part that is not there yet.
#[derive(Clone, Debug)]
struct Part {
    group: String,
    names: BTreeMap<TopicId, Topic>,
    /// Topics that do not exist.
    missing: Vec<OffsetsTopic>,
    told: Told,
}

impl Broker {
    pub(super) fn on_describe_share_offsets(
        &mut self,
        now: Time,
        id: RequestId,
        request: &DescribeShareGroupOffsetsRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let groups = &request.0.groups;
        self.share_offsets.open.insert(id, vec![None; groups.len()]);
        for (group, index) in groups.iter().zip(0..) {
            match self.share_states_of(group) {
                Ok((part, states)) if states.is_empty() => {
                    let (group_id, topics) = (part.group, part.missing);
                    let done = OffsetsGroup { group_id, topics, ..OffsetsGroup::default() };
                    self.share_offsets.put((id, index), done, fx);
                }
                Ok((part, states)) => {
                    let group = GroupId::new(&part.group);
                    self.share_offsets.parts.insert((id, index), part);
                    self.persister.ask_summaries(now, (id, index), &group, states);
                }
                Err(error) => {
                    let refused = OffsetsGroup {
                        group_id: group.group_id.to_string(),
                        error_code: error.code(),
                        ..OffsetsGroup::default()
                    };
                    self.share_offsets.put((id, index), refused, fx);
                }
            }
        }
        self.share_offsets.answer_if_complete(id, fx);
        self.flush_persister(now, fx);
    }

    /// The states that are asked for: those that are named, whoever coordinates the group, or all that have begun.
    fn share_states_of(&self, group: &Asked) -> Result<(Part, BTreeSet<TopicIdPartition>), ErrorCode> {
        let mut states = BTreeSet::new();
        let mut names = BTreeMap::new();
        let mut missing = Vec::new();
        let Some(topics) = &group.topics else {
            for (topic_id, partition) in self.groups.begun_states(&group.group_id)? {
                if let Some(name) = self.image.topic_name(topic_id) {
                    names.insert(topic_id, name.clone());
                    states.insert((topic_id, partition));
                }
            }
            let part = Part { group: group.group_id.to_string(), names, missing, told: Told::new() };
            return Ok((part, states));
        };
        for topic in topics {
            match self.image.topic(&Topic::new(&topic.topic_name)) {
                Some(image) => {
                    names.insert(image.id, image.name.clone());
                    states.extend(topic.partitions.iter().map(|partition| (image.id, *partition)));
                }
                None => missing.push(missing_topic(topic)),
            }
        }
        let part = Part { group: group.group_id.to_string(), names, missing, told: Told::new() };
        Ok((part, states))
    }

    /// The share coordinators have told what they know; the leaders are asked where their logs end.
    pub(super) fn on_summaries(
        &mut self,
        now: Time,
        place: Place,
        told: Told,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Some(part) = self.share_offsets.parts.get_mut(&place) else { return };
        part.told = told;
        let known = part.told.iter().filter(|(_, told)| with_lag(told).is_some());
        let partitions = known.filter_map(|(state, _)| part.name_of(*state));
        let partitions: BTreeSet<TopicPartition> = partitions.collect();
        self.ask_end_offsets(now, place, partitions, fx);
    }

    pub(super) fn on_ends(&mut self, place: Place, ends: &Ends, fx: &mut Effects<BrokerTimer>) {
        let Some(part) = self.share_offsets.parts.remove(&place) else { return };
        self.share_offsets.put(place, part.finish(ends), fx);
    }
}

impl ShareOffsets {
    fn put(&mut self, (id, index): Place, part: OffsetsGroup, fx: &mut Effects<BrokerTimer>) {
        if let Some(slot) = self.open.get_mut(&id).and_then(|parts| parts.get_mut(index)) {
            *slot = Some(part);
        }
        self.answer_if_complete(id, fx);
    }

    fn answer_if_complete(&mut self, id: RequestId, fx: &mut Effects<BrokerTimer>) {
        if self.open.get(&id).is_some_and(|parts| parts.iter().all(Option::is_some)) {
            let groups = self.open.remove(&id).into_iter().flatten().flatten().collect();
            fx.respond(id, DescribeShareGroupOffsetsResponse { throttle_time_ms: 0, groups });
        }
    }
}

impl Part {
    fn name_of(&self, (topic_id, partition): TopicIdPartition) -> Option<TopicPartition> {
        self.names.get(&topic_id).map(|name| TopicPartition::new(name, partition))
    }

    fn finish(self, ends: &Ends) -> OffsetsGroup {
        let mut topics: Vec<OffsetsTopic> = Vec::new();
        for (state, told) in &self.told {
            let Some(tp) = self.name_of(*state) else { continue };
            let partition = described(tp.partition, told, ends.get(&tp).copied());
            match topics.last_mut().filter(|topic| topic.topic_id == state.0.0) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(OffsetsTopic {
                    topic_name: tp.topic.to_string(),
                    topic_id: state.0.0,
                    partitions: vec![partition],
                }),
            }
        }
        topics.extend(self.missing);
        OffsetsGroup { group_id: self.group, topics, ..OffsetsGroup::default() }
    }
}

/// That a topic does not exist is no error: there is nothing to tell.
fn missing_topic(topic: &AskedTopic) -> OffsetsTopic {
    let unknown = |partition_index: &i32| OffsetsPartition {
        partition_index: *partition_index,
        start_offset: UNKNOWN,
        lag: UNKNOWN,
        ..OffsetsPartition::default()
    };
    OffsetsTopic {
        topic_name: topic.topic_name.to_string(),
        topic_id: uuid::Uuid::nil(),
        partitions: topic.partitions.iter().map(unknown).collect(),
    }
}

/// A summary from which the lag can be told (`shouldComputeSharePartitionLag`).
fn with_lag(told: &Result<Option<SummaryPartition>, ErrorCode>) -> Option<&SummaryPartition> {
    let summary = told.as_ref().ok().and_then(Option::as_ref);
    summary.filter(|summary| {
        summary.start_offset != UNKNOWN && i64::from(summary.delivery_complete_count) != UNKNOWN
    })
}

fn described(
    partition_index: i32,
    told: &Result<Option<SummaryPartition>, ErrorCode>,
    end: Option<Result<Offset, ErrorCode>>,
) -> OffsetsPartition {
    let partition = OffsetsPartition { partition_index, lag: UNKNOWN, ..OffsetsPartition::default() };
    match (with_lag(told), end) {
        (Some(summary), Some(Ok(end))) => OffsetsPartition {
            start_offset: summary.start_offset,
            leader_epoch: summary.leader_epoch,
            lag: end.0 - summary.start_offset - i64::from(summary.delivery_complete_count),
            ..partition
        },
        (Some(_), Some(Err(error))) => OffsetsPartition { error_code: error.code(), ..partition },
        // What the share coordinator could not tell is no error either.
        _ => {
            let summary = told.as_ref().ok().and_then(Option::as_ref);
            OffsetsPartition {
                start_offset: summary.map_or(UNKNOWN, |summary| summary.start_offset),
                leader_epoch: summary.map_or(0, |summary| summary.leader_epoch),
                ..partition
            }
        }
    }
}
