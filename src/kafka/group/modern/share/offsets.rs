//! Where a share group that nobody is in is to start anew, and what it is to forget (`alterShareGroupOffsets`,
//! `sharePartitionsEligibleForOffsetDeletion`).
//!
//! **Invariant:** each partition that is asked for is answered.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
};
use kafka_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic as DeletedTopic;
use kafka_protocol::messages::{
    AlterShareGroupOffsetsRequest as Request, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::{BeginningStates, Outcome, ShareGroup};
use crate::kafka::group::modern::{Refusal, Surroundings, TopicIdPartition};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::ShareGroupRecord;
use crate::kafka::types::{GroupEpoch, Offset, Topic, TopicId};

const NOTHING_TO_DELETE: &str = "There is no offset information to delete.";

/// What is answered once the states have begun anew.
#[derive(Clone, Debug)]
pub struct Altered {
    pub epoch: GroupEpoch,
    pub starts: BTreeMap<TopicIdPartition, Offset>,
    pub response: AlterShareGroupOffsetsResponse,
}

/// What is deleted before a DeleteShareGroupOffsets is answered.
#[derive(Clone, Debug)]
pub struct Deleting {
    pub states: Vec<TopicIdPartition>,
    /// Topics of which nothing can be deleted.
    pub refused: Vec<DeletedTopic>,
}

impl ShareGroup {
    /// # Errors
    /// NON_EMPTY_GROUP.
    pub fn delete_offsets(
        &self,
        request: &DeleteShareGroupOffsetsRequest,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<Deleting>, Refusal> {
        self.check_empty()?;
        let mut response = Deleting { states: Vec::new(), refused: Vec::new() };
        let mut records = Vec::new();
        if self.has_states {
            let mut next = self.states.clone();
            for topic in &request.topics {
                let image = around.image.topic(&Topic::new(&topic.topic_name));
                let states = image.map(|image| next.topic_deleting(image)).unwrap_or_default();
                if states.is_empty() {
                    let why = image.map(|_| StrBytes::from_static_str(NOTHING_TO_DELETE));
                    let refused = DeletedTopic::default()
                        .with_topic_name(topic.topic_name.clone())
                        .with_error_code(ErrorCode::UnknownTopicOrPartition.code())
                        .with_error_message(why);
                    response.refused.push(refused);
                }
                response.states.extend(states);
            }
            records.push(ShareGroupRecord::StatePartitions(Some(next.to_record())));
        }
        Ok(Outcome { records, response, session: None, fresh: None, initialize: None })
    }

    /// The states of these topics are gone (`completeDeleteShareGroupOffsets`).
    pub fn offsets_deleted(&self, gone: &BTreeSet<TopicId>) -> Outcome<()> {
        let mut next = self.states.clone();
        next.deleting.retain(|id, _| !gone.contains(id));
        let records = vec![ShareGroupRecord::StatePartitions(Some(next.to_record()))];
        Outcome { records, response: (), session: None, fresh: None, initialize: None }
    }

    fn check_empty(&self) -> Result<(), Refusal> {
        match self.base.members.is_empty() {
            true => Ok(()),
            false => Err(Refusal::new(ErrorCode::NonEmptyGroup, "The group is not empty.")),
        }
    }

    /// # Errors
    /// NON_EMPTY_GROUP.
    pub fn alter_offsets(
        &self,
        request: &Request,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<Altered>, Refusal> {
        self.check_empty()?;
        let mut asked = BTreeMap::new();
        let mut starts = BTreeMap::new();
        // Topics that do not exist are told of first.
        let (mut unknown, mut known) = (Vec::new(), Vec::new());
        for topic in &request.topics {
            let name = Topic::new(&topic.topic_name);
            let image = around.image.topic(&name);
            let count = image.map_or(0, |image| image.partitions.len() as i32);
            let answered = topic.partitions.iter().map(|partition| {
                let exists = partition.partition_index < count;
                let error = if exists { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
                AlterShareGroupOffsetsResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(error.code())
            });
            let answer = AlterShareGroupOffsetsResponseTopic::default()
                .with_topic_name(topic.topic_name.clone())
                .with_partitions(answered.collect());
            let Some(image) = image else {
                unknown.push(answer);
                continue;
            };
            known.push(answer.with_topic_id(image.id.0));
            let existing = topic.partitions.iter().filter(|partition| partition.partition_index < count);
            let altered: BTreeMap<TopicIdPartition, Offset> = existing
                .map(|partition| ((image.id, partition.partition_index), Offset(partition.start_offset)))
                .collect();
            let partitions: BTreeSet<i32> = altered.keys().map(|(_, partition)| *partition).collect();
            asked.insert(image.id, BeginningStates { name, partitions, since: around.now });
            starts.extend(altered);
        }
        unknown.extend(known);
        let records = match asked.is_empty() {
            true => Vec::new(),
            false => vec![ShareGroupRecord::StatePartitions(Some(self.states.asking(&asked).to_record()))],
        };
        let response = AlterShareGroupOffsetsResponse::default().with_responses(unknown);
        let response = Altered { epoch: self.base.epoch, starts, response };
        Ok(Outcome { records, response, session: None, fresh: None, initialize: None })
    }
}
