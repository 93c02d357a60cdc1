//! What a request says of a session (`FetchMetadata`, `FetchRequest.PartitionData`, `FetchRequestData`).

use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};

use crate::kafka::types::{LeaderEpoch, Offset, TopicId, TopicPartition};

/// Id and epoch of a request or an answer (`FetchMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchMetadata {
    pub session_id: i32,
    pub epoch: i32,
}

impl FetchMetadata {
    /// INVALID_SESSION_ID.
    pub const NO_SESSION: i32 = 0;
    /// Asks for a new session.
    pub const INITIAL_EPOCH: i32 = 0;
    /// Asks for none, and closes the one that is named.
    pub const FINAL_EPOCH: i32 = -1;

    pub const INITIAL: FetchMetadata =
        FetchMetadata { session_id: Self::NO_SESSION, epoch: Self::INITIAL_EPOCH };

    pub fn of(request: &FetchRequest) -> FetchMetadata {
        FetchMetadata { session_id: request.session_id, epoch: request.session_epoch }
    }

    /// Whether the request lists everything it wants.
    pub fn is_full(self) -> bool {
        self.epoch == Self::INITIAL_EPOCH || self.epoch == Self::FINAL_EPOCH
    }

    pub fn next_epoch(epoch: i32) -> i32 {
        match epoch {
            ..0 => Self::FINAL_EPOCH,
            i32::MAX => 1,
            epoch => epoch + 1,
        }
    }

    pub(super) fn incremental(self, session_id: i32) -> FetchMetadata {
        FetchMetadata { session_id, epoch: Self::next_epoch(self.epoch) }
    }

    /// Closes the session and asks for a new one.
    pub(super) fn attempt_new(self) -> FetchMetadata {
        FetchMetadata { epoch: Self::INITIAL_EPOCH, ..self }
    }

    pub(super) fn close(self) -> FetchMetadata {
        FetchMetadata { epoch: Self::FINAL_EPOCH, ..self }
    }
}

/// What a fetch asks of one partition (`FetchRequest.PartitionData`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub fetch_offset: Offset,
    /// The follower's log start; UNKNOWN from a consumer.
    pub log_start_offset: Offset,
    pub max_bytes: i32,
    /// NONE: the leader's epoch is not to be checked.
    pub current_leader_epoch: LeaderEpoch,
    /// NONE: divergence is not to be looked for.
    pub last_fetched_epoch: LeaderEpoch,
}

impl Wanted {
    pub fn of(partition: &FetchPartition) -> Wanted {
        Wanted {
            fetch_offset: Offset(partition.fetch_offset),
            log_start_offset: Offset(partition.log_start_offset),
            max_bytes: partition.partition_max_bytes,
            current_leader_epoch: LeaderEpoch(partition.current_leader_epoch),
            last_fetched_epoch: LeaderEpoch(partition.last_fetched_epoch),
        }
    }

    fn to_wire(self, partition: i32) -> FetchPartition {
        FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(self.current_leader_epoch.0)
            .with_fetch_offset(self.fetch_offset.0)
            .with_last_fetched_epoch(self.last_fetched_epoch.0)
            .with_log_start_offset(self.log_start_offset.0)
            .with_partition_max_bytes(self.max_bytes)
    }
}

/// One partition of a fetch to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub wanted: Wanted,
}

/// What a session says in its next request (`FetchRequestData`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequestData {
    pub metadata: FetchMetadata,
    pub to_send: Vec<Fetch>,
    pub to_forget: Vec<(TopicId, i32)>,
}

impl FetchRequestData {
    /// The request; the caller adds who asks, limits and waits.
    pub fn into_request(self) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for fetch in &self.to_send {
            let partition = fetch.wanted.to_wire(fetch.tp.partition);
            match topics.last_mut() {
                Some(topic) if topic.topic_id == fetch.topic_id.0 => topic.partitions.push(partition),
                _ => topics.push(
                    FetchTopic::default().with_topic_id(fetch.topic_id.0).with_partitions(vec![partition]),
                ),
            }
        }
        let mut forgotten: Vec<ForgottenTopic> = Vec::new();
        for (id, partition) in &self.to_forget {
            match forgotten.iter_mut().find(|topic| topic.topic_id == id.0) {
                Some(topic) => topic.partitions.push(*partition),
                None => forgotten
                    .push(ForgottenTopic::default().with_topic_id(id.0).with_partitions(vec![*partition])),
            }
        }
        FetchRequest::default()
            .with_session_id(self.metadata.session_id)
            .with_session_epoch(self.metadata.epoch)
            .with_topics(topics)
            .with_forgotten_topics_data(forgotten)
    }
}
