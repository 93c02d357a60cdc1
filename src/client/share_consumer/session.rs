//! A share session with one broker: which partitions it hands records out of, so that a request names only what changes
//! (Kafka's `ShareSessionHandler`).
//!
//! **Invariant:** epochs follow each other; after an error a session begins anew, and tells nothing of what was held.

use std::collections::BTreeMap;

use super::Acknowledgements;
use super::config::ShareConsumerConfig;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{
    AcknowledgePartition, AcknowledgeTopic, FetchPartition, FetchTopic, ForgottenTopic,
    ShareAcknowledgeRequest, ShareFetchRequest,
};
use crate::kafka::share::sessions::{FINAL_EPOCH, INITIAL_EPOCH, next_epoch};
use crate::kafka::types::{TopicId, TopicPartition};

/// A partition with its topic's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tip {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
}

/// What is said, by partition.
pub type Said = BTreeMap<Tip, Acknowledgements>;

#[derive(Clone, Debug)]
pub struct Session {
    /// Of the next request.
    epoch: i32,
    partitions: Vec<Tip>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Records,
    /// Changes of the session and acknowledgements; if there are none, no request is made.
    News,
}

impl Session {
    /// One that is to begin.
    pub const NEW: Session = Session { epoch: INITIAL_EPOCH, partitions: Vec::new() };

    /// No request of it has been answered yet, or it is to begin anew.
    pub fn is_new(&self) -> bool {
        self.epoch == INITIAL_EPOCH
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub fn partitions(&self) -> &[Tip] {
        &self.partitions
    }

    /// A fetch from exactly `wanted`, with what is said. `None`: it is for news, and there are none.
    pub fn fetch(
        &mut self,
        (group, member): (&str, &str),
        wanted: &[Tip],
        said: &Said,
        purpose: Purpose,
        config: &ShareConsumerConfig,
    ) -> Option<ShareFetchRequest> {
        let (added, removed) = self.change(wanted);
        if purpose == Purpose::News && added.is_empty() && removed.is_empty() && said.is_empty() {
            return None;
        }
        let is_renew_ack = said.values().any(Acknowledgements::renews);
        let mut topics: Vec<FetchTopic> = Vec::new();
        let named =
            added.iter().map(|tip| (tip, None)).chain(said.iter().map(|(tip, said)| (tip, Some(said))));
        for (tip, said) in named {
            let batches = said.map(Acknowledgements::batches).unwrap_or_default();
            let partitions = &mut topic_of(&mut topics, tip.topic_id).partitions;
            match partitions.iter_mut().find(|known| known.partition_index == tip.tp.partition) {
                Some(known) => known.acknowledgement_batches = batches,
                None => partitions.push(FetchPartition {
                    partition_index: tip.tp.partition,
                    acknowledgement_batches: batches,
                }),
            }
        }
        let mut forgotten_topics_data: Vec<ForgottenTopic> = Vec::new();
        for tip in removed {
            match forgotten_topics_data.iter_mut().find(|topic| topic.topic_id == tip.topic_id.0) {
                Some(topic) => topic.partitions.push(tip.tp.partition),
                None => forgotten_topics_data
                    .push(ForgottenTopic { topic_id: tip.topic_id.0, partitions: vec![tip.tp.partition] }),
            }
        }
        let fetches = purpose == Purpose::Records && !is_renew_ack;
        let number = |number: i32| if fetches { number } else { 0 };
        Some(ShareFetchRequest {
            group_id: Some(group.to_owned()),
            member_id: Some(member.to_owned()),
            share_session_epoch: self.epoch,
            max_wait_ms: number(config.fetch_max_wait_ms),
            min_bytes: number(config.fetch_min_bytes),
            max_bytes: number(config.fetch_max_bytes),
            max_records: number(config.max_poll_records),
            batch_size: number(config.max_poll_records),
            share_acquire_mode: config.is_record_limit.into(),
            is_renew_ack,
            topics,
            forgotten_topics_data,
        })
    }

    /// What the session gains and loses.
    fn change(&mut self, wanted: &[Tip]) -> (Vec<Tip>, Vec<Tip>) {
        if self.is_new() {
            let known = std::mem::take(&mut self.partitions).into_iter();
            let known: Vec<Tip> =
                known.filter(|tip| wanted.iter().all(|wanted| wanted.tp != tip.tp)).collect();
            self.partitions = known.into_iter().chain(wanted.iter().cloned()).collect();
            return (self.partitions.clone(), Vec::new());
        }
        let (kept, removed): (Vec<Tip>, Vec<Tip>) =
            std::mem::take(&mut self.partitions).into_iter().partition(|tip| wanted.contains(tip));
        let added: Vec<Tip> = wanted.iter().filter(|tip| !kept.contains(tip)).cloned().collect();
        self.partitions = kept.into_iter().chain(added.iter().cloned()).collect();
        (added, removed)
    }

    /// `None`: a session does not begin with acknowledgements.
    pub fn acknowledge(&self, (group, member): (&str, &str), said: &Said) -> Option<ShareAcknowledgeRequest> {
        let mut topics: Vec<AcknowledgeTopic> = Vec::new();
        for (tip, said) in said {
            let partition = AcknowledgePartition {
                partition_index: tip.tp.partition,
                acknowledgement_batches: said.batches(),
            };
            match topics.iter_mut().find(|topic| topic.topic_id == tip.topic_id.0) {
                Some(topic) => topic.partitions.push(partition),
                None => {
                    topics.push(AcknowledgeTopic { topic_id: tip.topic_id.0, partitions: vec![partition] })
                }
            }
        }
        (!self.is_new()).then(|| ShareAcknowledgeRequest {
            group_id: Some(group.to_owned()),
            member_id: Some(member.to_owned()),
            share_session_epoch: self.epoch,
            is_renew_ack: said.values().any(Acknowledgements::renews),
            topics,
        })
    }

    /// The next request ends the session.
    pub fn close(&mut self) {
        self.epoch = FINAL_EPOCH;
    }

    /// A request was answered, as a whole, with this.
    pub fn answered(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::ShareSessionNotFound
            | ErrorCode::InvalidShareSessionEpoch
            | ErrorCode::ShareSessionLimitReached => self.broken(),
            _ => self.epoch = next_epoch(self.epoch),
        }
    }

    /// What became of a request is not known.
    pub fn broken(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }
}

fn topic_of(topics: &mut Vec<FetchTopic>, id: TopicId) -> &mut FetchTopic {
    let at = topics.iter().position(|topic| topic.topic_id == id.0).unwrap_or_else(|| {
        topics.push(FetchTopic { topic_id: id.0, partitions: Vec::new() });
        topics.len() - 1
    });
    &mut topics[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::share::AcknowledgeType;
    use crate::kafka::types::{Offset, Topic};

    fn tips(partitions: &[i32]) -> Vec<Tip> {
        let tip = |partition: &i32| Tip {
            tp: TopicPartition::new(&Topic::new("t"), *partition),
            topic_id: TopicId(uuid::Uuid::from_u128(7)),
        };
        partitions.iter().map(tip).collect()
    }

    fn config() -> ShareConsumerConfig {
        ShareConsumerConfig::read(&BTreeMap::new()).unwrap()
    }

    /// Epoch, partitions that are named, partitions that are forgotten.
    fn shape(request: &ShareFetchRequest) -> (i32, Vec<i32>, Vec<i32>) {
        let named = request.topics.iter().flat_map(|topic| &topic.partitions).map(|p| p.partition_index);
        let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| topic.partitions.clone());
        (request.share_session_epoch, named.collect(), forgotten.collect())
    }

    fn fetch(session: &mut Session, wanted: &[i32], said: &Said) -> (i32, Vec<i32>, Vec<i32>) {
        let request = session.fetch(("g", "m"), &tips(wanted), said, Purpose::Records, &config());
        shape(&request.expect("it asks for records"))
    }

    fn said(partition: i32, kind: AcknowledgeType) -> Said {
        let tip = tips(&[partition]).remove(0);
        Said::from([(tip, [(Offset(3), kind)].into_iter().collect())])
    }

    #[test]
    fn a_request_names_what_changes_r_share_14() {
        let mut session = Session::NEW;
        assert_eq!(fetch(&mut session, &[0, 1], &Said::new()), (0, vec![0, 1], vec![]));
        session.answered(ErrorCode::None);
        assert_eq!(fetch(&mut session, &[0, 1], &Said::new()), (1, vec![], vec![]));
        session.answered(ErrorCode::UnknownTopicId);
        assert_eq!(fetch(&mut session, &[1, 2], &said(0, AcknowledgeType::Accept)), (2, vec![2, 0], vec![0]));
    }

    #[test]
    fn after_an_error_a_session_begins_anew_r_share_15() {
        let mut session = Session::NEW;
        for error in [ErrorCode::ShareSessionNotFound, ErrorCode::InvalidShareSessionEpoch] {
            fetch(&mut session, &[0, 1], &Said::new());
            session.answered(ErrorCode::None);
            session.answered(error);
            assert!(session.is_new() && session.acknowledge(("g", "m"), &Said::new()).is_none());
            assert_eq!(fetch(&mut session, &[0, 1], &Said::new()), (0, vec![0, 1], vec![]));
        }
    }

    #[test]
    fn without_news_no_request_is_made_of_a_broker_that_is_not_its_turn() {
        let mut session = Session::NEW;
        let mut news = |wanted: &[i32], said: &Said| {
            let request = session.fetch(("g", "m"), &tips(wanted), said, Purpose::News, &config())?;
            session.answered(ErrorCode::None);
            assert_eq!((request.max_records, request.max_wait_ms, request.is_renew_ack), (0, 0, false));
            Some(shape(&request))
        };
        assert_eq!(news(&[0], &Said::new()), Some((0, vec![0], vec![])));
        assert_eq!(news(&[0], &Said::new()), None);
        assert_eq!(news(&[0], &said(0, AcknowledgeType::Reject)), Some((1, vec![0], vec![])));
    }

    #[test]
    fn a_renewal_fetches_nothing_r_share_6() {
        let mut session = Session::NEW;
        fetch(&mut session, &[0], &Said::new());
        session.answered(ErrorCode::None);
        let said = said(0, AcknowledgeType::Renew);
        let request = session.fetch(("g", "m"), &tips(&[0]), &said, Purpose::Records, &config()).unwrap();
        assert!(request.is_renew_ack);
        assert_eq!([request.max_records, request.max_wait_ms, request.min_bytes, request.max_bytes], [0; 4]);
    }

    #[test]
    fn the_last_request_ends_the_session() {
        let mut session = Session::NEW;
        fetch(&mut session, &[0], &Said::new());
        session.answered(ErrorCode::None);
        session.close();
        let request = session.acknowledge(("g", "m"), &said(0, AcknowledgeType::Accept)).unwrap();
        assert_eq!((request.share_session_epoch, request.topics.len()), (FINAL_EPOCH, 1));
    }
}
