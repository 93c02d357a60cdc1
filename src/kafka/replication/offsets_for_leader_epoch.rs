//! Where a leader epoch ends in a partition's log: OffsetsForLeaderEpoch.
//!
//! Mirrors `ReplicaManager.lastOffsetForLeaderEpoch` and `Partition.lastOffsetForLeaderEpoch` (R-LOG-49, R-REPL-7). The
//! leader answers alone.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::manager::ReplicaManager;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{LeaderEpoch, Offset, Topic, TopicPartition};

impl ReplicaManager {
    pub fn offsets_for_leader_epoch(
        &self,
        request: &OffsetForLeaderEpochRequest,
        image: &ClusterImage,
    ) -> OffsetForLeaderEpochResponse {
        let topics = request.topics.iter().map(|topic| {
            let name = Topic::new(&topic.topic.0);
            let answers = topic.partitions.iter().map(|wanted| {
                let tp = TopicPartition::new(&name, wanted.partition);
                let answer = EpochEndOffset::default().with_partition(wanted.partition);
                match self.end_of_epoch(&tp, wanted, image) {
                    Ok((epoch, end)) => answer.with_leader_epoch(epoch.0).with_end_offset(end.0),
                    Err(error) => answer.with_error_code(error.code()),
                }
            });
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(answers.collect())
        });
        OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
    }

    /// The greatest epoch up to the one that is asked for, and its end; (NONE, UNKNOWN) if that cannot be known.
    fn end_of_epoch(
        &self,
        tp: &TopicPartition,
        wanted: &OffsetForLeaderPartition,
        image: &ClusterImage,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        let partition = self.find(tp, image)?;
        let current =
            Some(LeaderEpoch(wanted.current_leader_epoch)).filter(|epoch| *epoch != LeaderEpoch::NONE);
        partition.check_leader(current)?;
        Ok(partition.log.end_offset_for(LeaderEpoch(wanted.leader_epoch)))
    }
}
