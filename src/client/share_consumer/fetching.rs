//! Fetches of a share consumer (the first half of Kafka's `ShareConsumeRequestManager`, and `ShareFetchCollector`).
//!
//! **Invariant:** what was acquired reaches the application, or is said to be a gap or unreadable.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::completed::Completed;
use super::exchange::merge;
use super::in_flight::CurrentFetch;
use super::session::{Purpose, Said, Session, Tip};
use super::{Call, ShareConsumer};
use crate::client::consumer::ConsumerTimer;
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{CurrentLeader, NodeEndpoint, ShareFetchResponse};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, TopicId, TopicPartition};

impl ShareConsumer {
    /// The background thread's turn: acknowledgements first, then fetches.
    pub(super) fn exchange(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let is_acknowledging = self.send_acknowledgements(now, fx);
        if !is_acknowledging && self.exchange.wants_records && !self.is_closing() {
            self.send_fetches(now, fx);
        }
    }

    fn send_fetches(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let mut wanted = self.wanted(now);
        let mut said = self.said_with_fetches(&mut wanted, fx);
        for (broker, tips) in wanted {
            let said = said.remove(&broker).unwrap_or_default();
            let is_its_turn = !self.config.is_record_limit || self.exchange.turn == Some(broker);
            let purpose = if is_its_turn { Purpose::Records } else { Purpose::News };
            let who = (self.spec.group.as_str(), self.member.id.as_str());
            let session = self.exchange.sessions.entry(broker).or_insert(Session::NEW);
            if let Some(request) = session.fetch(who, &tips, &said, purpose, &self.config) {
                self.exchange.busy.insert(broker);
                let call = Call::Fetch { broker, said: Rc::new(said) };
                let timeout_ms = self.config.common.request_timeout_ms;
                self.requests.send(now, metadata::main_peer(broker), request, call, timeout_ms, fx);
            }
        }
    }

    /// What is to be fetched from each leader that owes no answer.
    fn wanted(&mut self, now: Time) -> BTreeMap<BrokerId, Vec<Tip>> {
        let mut wanted: BTreeMap<BrokerId, Vec<Tip>> = BTreeMap::new();
        for tp in self.assigned.clone() {
            let topic_id = self.metadata.topic(&tp.topic).map(|topic| topic.id);
            let (Some((leader, _)), Some(topic_id)) = (self.metadata.leader(&tp), topic_id) else {
                self.metadata.request_update();
                continue;
            };
            let is_free = !self.exchange.busy.contains(&leader);
            if is_free && !self.requests.is_unavailable(now, metadata::main_peer(leader)) {
                wanted.entry(leader).or_default().push(Tip { tp: tp.clone(), topic_id });
                if self.config.is_record_limit && self.exchange.turn.is_none() {
                    self.exchange.turn = Some(leader);
                    self.assigned.retain(|other| *other != tp);
                    self.assigned.push(tp);
                }
            }
        }
        wanted
    }

    /// What goes with the fetches; also to brokers from which nothing is wanted any more. What cannot be said any more, as
    /// somebody else leads or the session begins anew, has failed.
    fn said_with_fetches(
        &mut self,
        wanted: &mut BTreeMap<BrokerId, Vec<Tip>>,
        fx: &mut Effects<ConsumerTimer>,
    ) -> BTreeMap<BrokerId, Said> {
        let mut said: BTreeMap<BrokerId, Said> = BTreeMap::new();
        for broker in self.exchange.with_fetch.keys().copied().collect::<Vec<_>>() {
            let is_free = !self.exchange.busy.contains(&broker) && self.metadata.knows(broker);
            let Some(session) = self.exchange.sessions.get(&broker).filter(|_| is_free) else { continue };
            let is_new = session.is_new();
            for (tip, acknowledgements) in self.exchange.with_fetch.remove(&broker).unwrap_or_default() {
                if is_new || self.has_another_leader(&tip.tp, broker) {
                    let failed = Said::from([(tip, acknowledgements)]);
                    self.heard(failed, Some(ErrorCode::NotLeaderOrFollower), fx);
                } else {
                    wanted.entry(broker).or_default();
                    said.entry(broker).or_default().insert(tip, acknowledgements);
                }
            }
        }
        said
    }

    /// Somebody else than `broker` is known to lead (`isLeaderKnownToHaveChanged`).
    pub(super) fn has_another_leader(&mut self, tp: &TopicPartition, broker: BrokerId) -> bool {
        match self.metadata.leader(tp) {
            Some((leader, _)) => leader != broker,
            None => {
                self.metadata.request_update();
                false
            }
        }
    }

    pub(super) fn on_fetch(
        &mut self,
        broker: BrokerId,
        said: &Said,
        answer: &ShareFetchResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let error = ErrorCode::from_code(answer.error_code);
        if let Some(session) = self.fetch_is_over(broker) {
            session.answered(error);
        }
        if error != ErrorCode::None {
            if error == ErrorCode::UnknownTopicId {
                self.metadata.request_update();
            }
            return self.heard(said.clone(), Some(error), fx);
        }
        let mut said = said.clone();
        for topic in &answer.responses {
            for part in &topic.partitions {
                let Some(tip) = self.tip(broker, TopicId(topic.topic_id), part.partition_index) else {
                    continue;
                };
                if let Some(acknowledgements) = said.remove(&tip) {
                    let error = Some(ErrorCode::from_code(part.acknowledge_error_code));
                    let of_tip = Said::from([(tip.clone(), acknowledgements)]);
                    self.heard(of_tip, error.filter(|error| !error.is_ok()), fx);
                }
                self.take_leader_hint(&tip.tp, part.error_code, &part.current_leader, &answer.node_endpoints);
                if !part.acquired_records.is_empty() {
                    self.exchange.wants_records = false;
                }
                let completed = Completed::new(broker, tip, part, self.config.check_crcs);
                self.exchange.buffer.push_back(completed);
            }
        }
        self.heard(said, Some(ErrorCode::InvalidRecordState), fx);
    }

    pub(super) fn fetch_lost(&mut self, broker: BrokerId, said: &Said, fx: &mut Effects<ConsumerTimer>) {
        if let Some(session) = self.fetch_is_over(broker) {
            session.broken();
        }
        self.heard(said.clone(), Some(ErrorCode::NetworkException), fx);
    }

    fn fetch_is_over(&mut self, broker: BrokerId) -> Option<&mut Session> {
        self.exchange.busy.remove(&broker);
        self.exchange.turn = self.exchange.turn.filter(|turn| *turn != broker);
        self.exchange.sessions.get_mut(&broker)
    }

    /// A partition that an answer is about, whose name the session knows even if metadata do not any more.
    pub(super) fn tip(&self, broker: BrokerId, topic_id: TopicId, partition: i32) -> Option<Tip> {
        if let Some(topic) = self.metadata.topic_name(topic_id) {
            return Some(Tip { tp: TopicPartition::new(topic, partition), topic_id });
        }
        let session = self.exchange.sessions.get(&broker)?;
        let is_meant = |tip: &&Tip| tip.topic_id == topic_id && tip.tp.partition == partition;
        session.partitions().iter().find(is_meant).cloned()
    }

    /// KIP-951: a broker that no longer leads may name who does.
    pub(super) fn take_leader_hint(
        &mut self,
        tp: &TopicPartition,
        error_code: i16,
        hint: &CurrentLeader,
        endpoints: &[NodeEndpoint],
    ) {
        let error = ErrorCode::from_code(error_code);
        if matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
            let endpoints = endpoints
                .iter()
                .map(|endpoint| (BrokerId(endpoint.node_id), endpoint.rack.as_deref().map(Rc::from)));
            let (leader, epoch) = (BrokerId(hint.leader_id), LeaderEpoch(hint.leader_epoch));
            self.metadata.take_leader_hint(tp, leader, epoch, endpoints);
        }
    }

    /// What poll() does each time it looks for records; `said` is sent with a fetch if one is needed, else by itself.
    ///
    /// # Errors
    ///
    /// What poll() throws.
    pub(super) fn collect(
        &mut self,
        now: Time,
        mut said: Vec<(BrokerId, Tip, super::Acknowledgements)>,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Result<(), ErrorCode> {
        let result = if self.current.has_no_records() && !self.current.has_renewals() {
            let (mut fetch, result) = self.take_from_buffer();
            if fetch.has_no_records() && result.is_ok() {
                let gaps = fetch.take_said();
                self.commit_async(now, gaps, fx);
                self.ask_for_records(&mut said);
            } else {
                self.current = fetch;
            }
            result
        } else {
            self.current.take_renewed();
            if self.current.has_renewals() {
                self.ask_for_records(&mut said);
            }
            Ok(())
        };
        self.commit_async(now, said, fx);
        result
    }

    /// Once in each poll().
    fn ask_for_records(&mut self, said: &mut Vec<(BrokerId, Tip, super::Acknowledgements)>) {
        if !std::mem::replace(&mut self.has_asked, true) {
            self.exchange.wants_records = true;
            for (broker, tip, acknowledgements) in said.drain(..) {
                let of_tip = Said::from([(tip, acknowledgements)]);
                merge(self.exchange.with_fetch.entry(broker).or_default(), of_tip);
            }
        }
    }

    /// Up to max.poll.records, and what follows in the last batch of them.
    fn take_from_buffer(&mut self) -> (CurrentFetch, Result<(), ErrorCode>) {
        let mut fetch = CurrentFetch::default();
        let mut left = i64::from(self.config.max_poll_records);
        while left > 0
            && let Some(completed) = self.exchange.buffer.front_mut()
        {
            if completed.error != ErrorCode::None {
                let (error, met) = (completed.error, Met::of(completed.error));
                if met == Met::ThrownLater && !fetch.has_no_records() {
                    // By the next poll().
                    break;
                }
                self.exchange.buffer.pop_front();
                match met {
                    Met::ThrownLater => return (fetch, Err(error)),
                    // What was taken before it never reaches the application, which closes; its locks end with the session.
                    Met::ThrownAtOnce => return (CurrentFetch::default(), Err(error)),
                    Met::MetadataNeeded => self.metadata.request_update(),
                    Met::FetchedAgain => {}
                }
                continue;
            }
            let (tip, mut batch) = (completed.tip.clone(), completed.take(left));
            let is_stuck = completed.is_stuck();
            if batch.is_empty() {
                self.exchange.buffer.pop_front();
            }
            left -= batch.records();
            let error = batch.error.take();
            fetch.add(tip, batch);
            if let Some(error) = error {
                return (fetch, Err(error));
            }
            if is_stuck {
                break;
            }
        }
        (fetch, Ok(()))
    }
}

/// What poll() does about the error that a partition was answered with (`handleInitializeErrors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// The leader may be another.
    MetadataNeeded,
    FetchedAgain,
    /// A KafkaException, once the records before it are returned.
    ThrownLater,
    /// The client knows no such error of a fetch: IllegalStateException. CoordinatorNotAvailable is among them, which a leader
    /// answers when it could not read what is persisted of a partition.
    ThrownAtOnce,
}

impl Met {
    fn of(error: ErrorCode) -> Met {
        match error {
            ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::OffsetNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId => Met::MetadataNeeded,
            ErrorCode::UnknownLeaderEpoch | ErrorCode::UnknownServerError => Met::FetchedAgain,
            ErrorCode::TopicAuthorizationFailed | ErrorCode::CorruptMessage => Met::ThrownLater,
            _ => Met::ThrownAtOnce,
        }
    }
}
