//! What an OffsetCommit or TxnOffsetCommit asks to commit, and what it is answered.

use kafka_protocol::messages as m;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::context::Context;
use crate::kafka::protocol::coordinator_records::OffsetCommitValue;
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::types::{LeaderEpoch, Offset, Topic, TopicId, TopicPartition};

/// An offset that is asked for, of a partition that exists.
pub(super) struct Asked {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    offset: Offset,
    leader_epoch: LeaderEpoch,
    metadata: Option<StrBytes>,
}

/// The part of a commit that names existing partitions, and the answer as far as it stands.
pub(super) struct Commit {
    asked: Vec<Asked>,
    answered: Answers,
    reply: fn(Answers) -> Response,
}

/// By topic, in the order in which they were answered.
type Answers = Vec<(Topic, Vec<(i32, ErrorCode)>)>;

type Topics<'a> = &'a dyn Fn(&TopicPartition) -> Option<TopicId>;

impl Commit {
    pub fn plain(request: &m::OffsetCommitRequest, topics: Topics<'_>) -> Commit {
        let mut commit = Commit::replying(plain_reply);
        for (name, one) in request.topics.iter().flat_map(|t| t.partitions.iter().map(|one| (&t.name, one))) {
            let tp = TopicPartition::new(&Topic::new(name), one.partition_index);
            let offsets = (one.committed_offset, one.committed_leader_epoch);
            commit.ask(tp, offsets, &one.committed_metadata, topics);
        }
        commit
    }

    pub fn in_transaction(request: &m::TxnOffsetCommitRequest, topics: Topics<'_>) -> Commit {
        let mut commit = Commit::replying(transactional_reply);
        for (name, one) in request.topics.iter().flat_map(|t| t.partitions.iter().map(|one| (&t.name, one))) {
            let tp = TopicPartition::new(&Topic::new(name), one.partition_index);
            let offsets = (one.committed_offset, one.committed_leader_epoch);
            commit.ask(tp, offsets, &one.committed_metadata, topics);
        }
        commit
    }

    fn replying(reply: fn(Answers) -> Response) -> Commit {
        Commit { asked: Vec::new(), answered: Vec::new(), reply }
    }

    /// Partitions that do not exist are refused one by one (R-GRP-38).
    fn ask(
        &mut self,
        tp: TopicPartition,
        (offset, leader_epoch): (i64, i32),
        metadata: &Option<StrBytes>,
        topics: Topics<'_>,
    ) {
        match topics(&tp) {
            Some(topic_id) => {
                let (offset, leader_epoch) = (Offset(offset), LeaderEpoch(leader_epoch));
                self.asked.push(Asked { tp, topic_id, offset, leader_epoch, metadata: metadata.clone() });
            }
            None => self.answer(&tp, ErrorCode::UnknownTopicOrPartition),
        }
    }

    /// What is not answered yet.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    fn answer(&mut self, tp: &TopicPartition, error: ErrorCode) {
        let known = self.answered.iter().position(|(topic, _)| *topic == tp.topic);
        let known = known.unwrap_or_else(|| {
            self.answered.push((tp.topic.clone(), Vec::new()));
            self.answered.len() - 1
        });
        self.answered[known].1.push((tp.partition, error));
    }

    /// Every partition that is not answered yet with the same error.
    pub fn refused(mut self, error: ErrorCode) -> Response {
        for asked in std::mem::take(&mut self.asked) {
            self.answer(&asked.tp, error);
        }
        self.response()
    }

    /// The values to write; what `check` refuses, or has metadata that is too long, is answered so alone (R-GRP-38).
    pub fn take_values(
        &mut self,
        cx: &Context<'_>,
        check: impl Fn(&Asked) -> Result<(), ErrorCode>,
    ) -> Vec<(TopicPartition, OffsetCommitValue)> {
        let mut values = Vec::new();
        for asked in std::mem::take(&mut self.asked) {
            let checked = asked.check_length(cx).and_then(|()| check(&asked));
            self.answer(&asked.tp, checked.err().unwrap_or(ErrorCode::None));
            if checked.is_ok() {
                let value = OffsetCommitValue {
                    offset: asked.offset,
                    leader_epoch: asked.leader_epoch,
                    metadata: asked.metadata.as_deref().unwrap_or_default().to_string(),
                    commit_timestamp_ms: cx.now.wall_ms(),
                    expire_timestamp_ms: None,
                    topic_id: Some(asked.topic_id),
                };
                values.push((asked.tp, value));
            }
        }
        values
    }

    pub fn response(self) -> Response {
        (self.reply)(self.answered)
    }
}

impl Asked {
    /// In Java's length(), UTF-16 code units, whatever the setting's name says.
    fn check_length(&self, cx: &Context<'_>) -> Result<(), ErrorCode> {
        let length = self.metadata.as_deref().unwrap_or_default().encode_utf16().count() as i64;
        match length > i64::from(cx.config.offset_metadata_max_bytes) {
            true => Err(ErrorCode::OffsetMetadataTooLarge),
            false => Ok(()),
        }
    }
}

fn plain_reply(answered: Answers) -> Response {
    let partition = |(partition, error): (i32, ErrorCode)| {
        OffsetCommitResponsePartition::default().with_partition_index(partition).with_error_code(error.code())
    };
    let topic = |(topic, partitions): (Topic, Vec<(i32, ErrorCode)>)| {
        OffsetCommitResponseTopic::default()
            .with_name(topic.to_wire().into())
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    m::OffsetCommitResponse::default().with_topics(answered.into_iter().map(topic).collect()).into()
}

fn transactional_reply(answered: Answers) -> Response {
    let partition = |(partition, error): (i32, ErrorCode)| {
        TxnOffsetCommitResponsePartition::default()
            .with_partition_index(partition)
            .with_error_code(error.code())
    };
    let topic = |(topic, partitions): (Topic, Vec<(i32, ErrorCode)>)| {
        TxnOffsetCommitResponseTopic::default()
            .with_name(topic.to_wire().into())
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    m::TxnOffsetCommitResponse::default().with_topics(answered.into_iter().map(topic).collect()).into()
}
