//! A fetch session as the one who fetches keeps it (KIP-227, `FetchSessionHandler`).
//!
//! The broker remembers what a session asks for, so each request names only the partitions that changed, and each answer
//! only those that have news.
//!
//! **Invariant:** while a session stands, its partitions here are those that the broker knows once it has the next
//! request.

mod request;

use std::collections::BTreeSet;

use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::PartitionData;
pub use request::{Fetch, FetchMetadata, FetchRequestData, Wanted};

use super::partition_map::PartitionMap;
use super::protocol::ErrorCode;
use super::types::{TopicId, TopicPartition};

/// One partition of an answer, with what it answers.
#[derive(Clone, Debug)]
pub struct Answered<'a> {
    pub tp: TopicPartition,
    pub wanted: Wanted,
    pub data: &'a PartitionData,
}

#[derive(Clone, Debug)]
struct Held {
    topic_id: TopicId,
    wanted: Wanted,
    /// The session lists its partitions in the order in which they came.
    place: u64,
}

/// The session with one broker, or the wish for one.
#[derive(Clone, Debug)]
pub struct FetchSessionHandler {
    next: FetchMetadata,
    partitions: PartitionMap<TopicPartition, Held>,
    by_id: PartitionMap<(TopicId, i32), TopicPartition>,
    next_place: u64,
}

impl Default for FetchSessionHandler {
    fn default() -> Self {
        FetchSessionHandler {
            next: FetchMetadata::INITIAL,
            partitions: PartitionMap::new(),
            by_id: PartitionMap::new(),
            next_place: 0,
        }
    }
}

impl FetchSessionHandler {
    /// What the next request says of the session.
    pub fn next(&self) -> FetchMetadata {
        self.next
    }

    /// Whether the session holds nothing.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The partitions of the session, by name.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions.keys()
    }

    /// The next request, for exactly the partitions of `all`.
    pub fn build(&mut self, all: Vec<Fetch>) -> FetchRequestData {
        if self.next.is_full() {
            self.partitions.clear();
            self.by_id.clear();
            for fetch in &all {
                self.hold(fetch);
            }
            return FetchRequestData { metadata: self.next, to_send: all, to_forget: Vec::new() };
        }
        let removed = self.missing_from(&all);
        self.build_changes(all, removed)
    }

    /// Whether the session asks for exactly these.
    pub fn holds(&self, all: &[Fetch]) -> bool {
        let is_held = |fetch: &Fetch| {
            self.partitions
                .get(&fetch.tp)
                .is_some_and(|held| held.topic_id == fetch.topic_id && held.wanted == fetch.wanted)
        };
        all.len() == self.partitions.len() && all.iter().all(is_held)
    }

    fn missing_from(&self, all: &[Fetch]) -> Vec<TopicPartition> {
        let kept = all.iter().filter(|fetch| self.partitions.contains_key(&fetch.tp)).count();
        if kept == self.partitions.len() {
            return Vec::new();
        }
        let kept: BTreeSet<&TopicPartition> = all.iter().map(|fetch| &fetch.tp).collect();
        self.partitions.keys().filter(|tp| !kept.contains(tp)).cloned().collect()
    }

    /// The next request of a session that stands, for what it holds already with these changes.
    pub fn build_changes(&mut self, wanted: Vec<Fetch>, removed: Vec<TopicPartition>) -> FetchRequestData {
        assert!(!self.next.is_full(), "a full request lists everything");
        let removed: Vec<_> = removed.iter().filter_map(|tp| self.let_go(tp)).collect();
        let (mut added, mut altered, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        for fetch in wanted {
            match self.partitions.get_mut(&fetch.tp) {
                None => added.push(fetch),
                Some(held) if held.topic_id != fetch.topic_id => {
                    let place = held.place;
                    let before = (held.topic_id, fetch.tp.partition);
                    self.by_id.remove(&before);
                    replaced.push((place, before));
                    self.hold_at(&fetch, place);
                    altered.push((place, fetch));
                }
                Some(held) if held.wanted != fetch.wanted => {
                    held.wanted = fetch.wanted;
                    altered.push((held.place, fetch));
                }
                Some(_) => {}
            }
        }
        added.iter().for_each(|fetch| self.hold(fetch));
        altered.sort_by_key(|(place, _)| *place);
        replaced.sort();
        let in_order = |mut forgotten: Vec<(u64, (TopicId, i32))>| {
            forgotten.sort();
            forgotten.into_iter().map(|(_, partition)| partition)
        };
        FetchRequestData {
            metadata: self.next,
            to_send: added.into_iter().chain(altered.into_iter().map(|(_, fetch)| fetch)).collect(),
            to_forget: in_order(removed).chain(in_order(replaced)).collect(),
        }
    }

    fn hold(&mut self, fetch: &Fetch) {
        let place = self.next_place;
        self.next_place += 1;
        self.hold_at(fetch, place);
    }

    fn hold_at(&mut self, fetch: &Fetch, place: u64) {
        let held = Held { topic_id: fetch.topic_id, wanted: fetch.wanted, place };
        self.by_id.insert((fetch.topic_id, fetch.tp.partition), fetch.tp.clone());
        self.partitions.insert(fetch.tp.clone(), held);
    }

    fn let_go(&mut self, tp: &TopicPartition) -> Option<(u64, (TopicId, i32))> {
        let held = self.partitions.remove(tp)?;
        self.by_id.remove(&(held.topic_id, tp.partition));
        Some((held.place, (held.topic_id, tp.partition)))
    }

    /// The partitions of an answer. Errors: why none of it can be used; the next request opens a new session.
    pub fn handle_response<'a>(
        &mut self,
        response: &'a FetchResponse,
    ) -> Result<Vec<Answered<'a>>, ErrorCode> {
        let error = ErrorCode::from_code(response.error_code);
        if !error.is_ok() {
            self.next = match error {
                ErrorCode::FetchSessionIdNotFound => FetchMetadata::INITIAL,
                _ => self.next.attempt_new(),
            };
            return Err(error);
        }
        let answers = response.responses.iter().flat_map(|topic| {
            topic.partitions.iter().map(|data| (TopicId(topic.topic_id), data.partition_index, data))
        });
        let known = answers.map(|(id, partition, data)| {
            let tp = self.by_id.get(&(id, partition))?;
            Some(Answered { tp: tp.clone(), wanted: self.partitions[tp].wanted, data })
        });
        let answered: Option<Vec<_>> = known.collect();
        let was_full = self.next.is_full();
        let complete = |answered: &Vec<Answered<'_>>| !was_full || answered.len() == self.partitions.len();
        let Some(answered) = answered.filter(complete) else {
            self.next = if was_full { FetchMetadata::INITIAL } else { self.next.attempt_new() };
            return Err(ErrorCode::UnknownServerError);
        };
        self.next = match response.session_id {
            FetchMetadata::NO_SESSION => FetchMetadata::INITIAL,
            id if was_full => FetchMetadata::INITIAL.incremental(id),
            id => self.next.incremental(id),
        };
        Ok(answered)
    }

    /// The request was lost, and perhaps the session with it.
    pub fn handle_error(&mut self) {
        self.next = self.next.attempt_new();
    }

    /// The next request closes the session.
    pub fn notify_close(&mut self) {
        self.next = self.next.close();
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_response::FetchableTopicResponse;

    use super::*;
    use crate::kafka::types::{LeaderEpoch, Offset};

    fn fetch(partition: i32, topic: u128, offset: i64) -> Fetch {
        let wanted = Wanted {
            fetch_offset: Offset(offset),
            log_start_offset: Offset::UNKNOWN,
            max_bytes: 100,
            current_leader_epoch: LeaderEpoch(0),
            last_fetched_epoch: LeaderEpoch::NONE,
        };
        let tp = TopicPartition::new(&"t".into(), partition);
        Fetch { tp, topic_id: TopicId(uuid::Uuid::from_u128(topic)), wanted }
    }

    fn answer(session: i32, partitions: &[i32]) -> FetchResponse {
        let data = partitions.iter().map(|number| PartitionData::default().with_partition_index(*number));
        let topic = FetchableTopicResponse::default()
            .with_topic_id(uuid::Uuid::from_u128(7))
            .with_partitions(data.collect());
        FetchResponse::default().with_session_id(session).with_responses(vec![topic])
    }

    /// Session 5, which holds partitions 0 to 2 at offset 0.
    fn standing() -> FetchSessionHandler {
        let mut handler = FetchSessionHandler::default();
        handler.build((0..3).map(|partition| fetch(partition, 7, 0)).collect());
        handler.handle_response(&answer(5, &[0, 1, 2])).expect("all that was asked for");
        handler
    }

    fn sent(data: &FetchRequestData) -> (i32, i32, Vec<(i32, i64)>, Vec<i32>) {
        let sent = data.to_send.iter().map(|fetch| (fetch.tp.partition, fetch.wanted.fetch_offset.0));
        let forgotten = data.to_forget.iter().map(|(_, partition)| *partition);
        (data.metadata.session_id, data.metadata.epoch, sent.collect(), forgotten.collect())
    }

    #[test]
    fn a_session_names_what_is_new_then_what_changed_and_what_to_forget() {
        let mut handler = standing();
        let same = handler.build((0..3).rev().map(|partition| fetch(partition, 7, 0)).collect());
        assert_eq!(sent(&same), (5, 1, vec![], vec![]), "another order is no change");
        handler.handle_response(&answer(5, &[])).expect("no news");
        let next = vec![fetch(2, 7, 9), fetch(3, 7, 1), fetch(0, 7, 4)];
        assert_eq!(sent(&handler.build(next)), (5, 2, vec![(3, 1), (0, 4), (2, 9)], vec![1]));
        handler.handle_response(&answer(5, &[3])).expect("one that is held");
        let changes = handler.build_changes(vec![fetch(0, 7, 4), fetch(1, 7, 0), fetch(2, 7, 10)], vec![]);
        assert_eq!(sent(&changes), (5, 3, vec![(1, 0), (2, 10)], vec![]));
    }

    #[test]
    fn a_topic_of_another_id_takes_the_place_of_the_one_that_is_forgotten() {
        let mut handler = standing();
        let data = handler.build(vec![fetch(0, 8, 0), fetch(1, 7, 0), fetch(2, 7, 0)]);
        assert_eq!(sent(&data), (5, 1, vec![(0, 0)], vec![0]));
        let request = data.into_request();
        assert_eq!(request.topics[0].topic_id, uuid::Uuid::from_u128(8));
        assert_eq!(request.forgotten_topics_data[0].topic_id, uuid::Uuid::from_u128(7));
        assert!(handler.handle_response(&answer(5, &[0])).is_err(), "the old one is not asked for any more");
    }

    /// What the request after an answer says of its session.
    fn check(title: &str, answer: FetchResponse, usable: bool, next: (i32, i32)) {
        let mut handler = standing();
        handler.build((0..3).map(|partition| fetch(partition, 7, 0)).collect());
        assert_eq!(handler.handle_response(&answer).is_ok(), usable, "{title}");
        assert_eq!((handler.next().session_id, handler.next().epoch), next, "{title}");
    }

    #[test]
    fn each_answer_decides_on_the_next_request() {
        let failed = |error: ErrorCode| FetchResponse::default().with_error_code(error.code());
        check("the session goes on", answer(5, &[1]), true, (5, 2));
        check("the broker has closed it", answer(0, &[1]), true, (0, 0));
        check("it is not known there", failed(ErrorCode::FetchSessionIdNotFound), false, (0, 0));
        check("its epoch is another", failed(ErrorCode::InvalidFetchSessionEpoch), false, (5, 0));
        check("a partition nobody asked for", answer(5, &[9]), false, (5, 0));
    }

    #[test]
    fn a_full_request_wants_an_answer_about_everything() {
        let full = || {
            let mut handler = FetchSessionHandler::default();
            handler.build(vec![fetch(0, 7, 0), fetch(1, 7, 0)]);
            handler
        };
        let next = |handler: &FetchSessionHandler| (handler.next().session_id, handler.next().epoch);
        let mut handler = full();
        assert!(handler.handle_response(&answer(5, &[0])).is_err());
        assert_eq!(next(&handler), (0, 0));
        let mut handler = full();
        handler.handle_response(&answer(0, &[0, 1])).expect("there is no slot for a session");
        assert_eq!(next(&handler), (0, 0));
        let mut handler = standing();
        handler.handle_error();
        assert_eq!(next(&handler), (5, 0), "the broker is asked to close it");
        handler.notify_close();
        assert_eq!(sent(&handler.build(vec![])), (5, -1, vec![], vec![]));
    }
}
