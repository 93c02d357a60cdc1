//! Fetching from the leaders into a buffer, and poll()'s taking from it (Kafka's `AbstractFetch` and `FetchCollector`;
//! R-CONS-1 to R-CONS-6, R-CONS-13, R-CONS-33).
//!
//! **Invariant:** one fetch per broker at most is on its way, and none to a broker whose data is still in the buffer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use kafka_protocol::messages::fetch_response::{FetchResponse, PartitionData};
use kafka_protocol::protocol::StrBytes;

use super::fetched::{Fetched, Reading, Taken, Unreadable};
use super::owned::{Owned, Position};
use super::requests::Call;
use super::{Consumer, ConsumerTimer, Exception};
use crate::client::metadata;
use crate::client::program::Returned;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, OffsetRun};
use crate::kafka::fetch_session::{Answered, Fetch, FetchRequestData, FetchSessionHandler, Wanted};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};

#[derive(Clone, Debug, Default)]
pub struct Fetcher {
    /// Brokers that owe an answer to a fetch.
    in_flight: BTreeSet<BrokerId>,
    /// A fetch session with each broker that was ever fetched from.
    sessions: BTreeMap<BrokerId, FetchSessionHandler>,
    /// What the last request to a broker rested on.
    bases: BTreeMap<BrokerId, Basis>,
    buffer: VecDeque<Fetched>,
}

/// While it is the same, a request need not look at partitions that have not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    generation: u32,
    metadata_version: u32,
}

impl Fetcher {
    pub fn in_flight(&self) -> &BTreeSet<BrokerId> {
        &self.in_flight
    }

    /// The answer that poll() takes from next.
    pub(super) fn foremost(&self) -> Option<&Fetched> {
        self.buffer.front()
    }

    /// Whether there are answers beside the one that poll() is in the midst of (`FetchBuffer.isEmpty`).
    pub(super) fn has_answers_waiting(&self) -> bool {
        self.buffer.iter().enumerate().any(|(place, fetched)| place > 0 || !fetched.is_read())
    }

    pub(super) fn buffered_partitions(&self) -> BTreeSet<&TopicPartition> {
        self.buffer.iter().map(|fetched| &fetched.tp).collect()
    }

    /// Records of a partition that were fetched and that poll() has not returned.
    pub fn buffered(&self, tp: &TopicPartition) -> i64 {
        self.buffer.iter().filter(|fetched| fetched.tp == *tp).map(Fetched::remaining).sum()
    }

    /// Behind everything of a partition that was fetched.
    pub(super) fn end_of_buffered(&self, tp: &TopicPartition) -> Option<Position> {
        self.buffer.iter().rev().find(|fetched| fetched.tp == *tp).and_then(Fetched::end)
    }

    /// Drops what was fetched of other partitions (`clearBufferedDataForUnassignedPartitions`).
    pub(super) fn retain(&mut self, wanted: impl Fn(&TopicPartition) -> bool) {
        self.buffer.retain(|fetched| wanted(&fetched.tp));
    }

    /// The partitions of the session that may be lost.
    pub(super) fn fetch_lost(&mut self, broker: BrokerId) -> Vec<TopicPartition> {
        self.in_flight.remove(&broker);
        let Some(session) = self.sessions.get_mut(&broker) else { return Vec::new() };
        session.handle_error();
        session.partitions().cloned().collect()
    }
}

/// What one poll() found in the buffer.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub records: Vec<Returned>,
    /// Of what it returns; an exception instead takes it along.
    told: Vec<Event>,
    /// A position moved, with or without records.
    pub moved: bool,
    /// An answer was an error that asks for another look at positions.
    pub handled_errors: bool,
}

impl Consumer {
    /// Sends a fetch to each broker that is due (R-CONS-1).
    pub(super) fn send_fetches(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        for broker in self.brokers_due(now) {
            if let Some(data) = self.next_request(broker) {
                self.fetcher.in_flight.insert(broker);
                self.send_fetch(now, broker, data, Call::Fetch { broker }, fx);
            }
        }
    }

    fn send_fetch(
        &mut self,
        now: Time,
        broker: BrokerId,
        data: FetchRequestData,
        call: Call,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let request = data.into_request();
        let request = request
            .with_max_wait_ms(self.config.fetch_max_wait_ms)
            .with_min_bytes(self.config.fetch_min_bytes)
            .with_max_bytes(self.config.fetch_max_bytes)
            .with_isolation_level(self.config.isolation.id())
            .with_rack_id(StrBytes::from_string(self.config.client_rack.to_string()));
        let timeout_ms = self.config.common.request_timeout_ms;
        self.requests.send(now, metadata::main_peer(broker), request, call, timeout_ms, fx);
    }

    /// Ends the sessions with all brokers that can be reached (`maybeCloseFetchSessions`). How many answers are due.
    pub(super) fn close_sessions(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> i32 {
        let mut sent = 0;
        let brokers: Vec<BrokerId> = self.fetcher.sessions.keys().copied().collect();
        for broker in brokers {
            let known = self.metadata.knows(broker);
            let Some(session) = self.fetcher.sessions.get_mut(&broker) else { continue };
            session.notify_close();
            if known && !self.requests.is_unavailable(now, metadata::main_peer(broker)) {
                let data = session.build(Vec::new());
                self.send_fetch(now, broker, data, Call::CloseFetchSession, fx);
                sent += 1;
            }
        }
        sent
    }

    /// Brokers that have something to be fetched, owe no answer, and of whose data nothing is left in the buffer.
    fn brokers_due(&mut self, now: Time) -> Vec<BrokerId> {
        self.leave_lost_replicas(now);
        let buffered = self.fetcher.buffered_partitions();
        if self.subscription.fetchable_from(None).any(|(tp, ..)| !buffered.contains(tp)) {
            self.metadata.request_update();
        }
        let fetchable = buffered.into_iter().filter(|tp| self.subscription.is_fetchable(tp));
        let source = |tp: &TopicPartition| self.subscription.owned().get(tp)?.source();
        let undrained: BTreeSet<BrokerId> = fetchable.filter_map(source).collect();
        let is_due = |broker: &BrokerId| {
            !self.fetcher.in_flight.contains(broker)
                && !undrained.contains(broker)
                && !self.requests.is_unavailable(now, metadata::main_peer(*broker))
        };
        self.subscription.sources().filter(is_due).collect()
    }

    /// The next request to a broker: all that is fetched from it, or as long as its session and what that rests on stand,
    /// what has changed. `None`: nothing that metadata knows.
    fn next_request(&mut self, broker: BrokerId) -> Option<FetchRequestData> {
        let changed = self.subscription.take_changed(broker);
        let basis = Basis {
            generation: self.subscription.generation(),
            metadata_version: self.metadata.update_version(),
        };
        let stood = self.fetcher.bases.insert(broker, basis) == Some(basis);
        if !stood || self.session(broker).next().is_full() {
            let (all, complete) = self.all_from(broker);
            if !complete {
                self.metadata.request_update();
            }
            if all.is_empty() {
                self.fetcher.bases.remove(&broker);
                return None;
            }
            return Some(self.session(broker).build(all));
        }
        let (mut wanted, mut removed) = (Vec::new(), Vec::new());
        for tp in changed {
            let listed = self.subscription.fetchable_at(&tp, broker);
            match listed.and_then(|(owned, position)| self.fetch_of(&tp, owned, position)) {
                Some(fetch) => wanted.push((self.subscription.place(&tp), fetch)),
                None => removed.push(tp),
            }
        }
        wanted.sort_by_key(|(place, _)| *place);
        let wanted = wanted.into_iter().map(|(_, fetch)| fetch).collect();
        let data = self.session(broker).build_changes(wanted, removed);
        debug_assert!(self.fetcher.sessions[&broker].holds(&self.all_from(broker).0), "{broker}: {data:?}");
        Some(data)
    }

    fn session(&mut self, broker: BrokerId) -> &mut FetchSessionHandler {
        self.fetcher.sessions.entry(broker).or_default()
    }

    /// What is fetched from a broker, as far as metadata knows it, and whether that is all.
    fn all_from(&self, broker: BrokerId) -> (Vec<Fetch>, bool) {
        let mut complete = true;
        let listed = self.subscription.fetchable_from(Some(broker));
        let fetches = listed.filter_map(|(tp, owned, position)| {
            let fetch = self.fetch_of(tp, owned, position);
            complete &= fetch.is_some();
            fetch
        });
        (fetches.collect(), complete)
    }

    /// `None` while leader or topic are not known.
    fn fetch_of(&self, tp: &TopicPartition, owned: &Owned, position: Position) -> Option<Fetch> {
        let (_, current_leader_epoch) = owned.leader?;
        let topic_id = self.metadata.topic(&tp.topic)?.id;
        let wanted = Wanted {
            fetch_offset: position.offset,
            log_start_offset: Offset::UNKNOWN,
            max_bytes: self.config.max_partition_fetch_bytes,
            current_leader_epoch,
            last_fetched_epoch: LeaderEpoch::NONE,
        };
        Some(Fetch { tp: tp.clone(), topic_id, wanted })
    }

    /// An answer that does not fit the session is of no use; the next fetch begins another.
    pub(super) fn on_fetch(&mut self, broker: BrokerId, answer: &FetchResponse) {
        self.fetcher.in_flight.remove(&broker);
        let Some(session) = self.fetcher.sessions.get_mut(&broker) else { return };
        let Ok(answered) = session.handle_response(answer) else { return };
        let endpoints = || {
            answer.node_endpoints.iter().map(|endpoint| {
                (BrokerId(endpoint.node_id.0), endpoint.rack.as_ref().map(|rack| Rc::from(rack.as_str())))
            })
        };
        for Answered { tp, wanted, data } in answered {
            self.take_leader_hint(&tp, data, endpoints());
            let reading = Reading {
                check_crcs: self.config.check_crcs,
                isolation: self.config.isolation,
                key: self.config.key_deserializer,
                value: self.config.value_deserializer,
            };
            let fetched = Fetched::new(tp, wanted.fetch_offset, data, reading);
            self.fetcher.buffer.push_back(fetched);
        }
    }

    /// KIP-951: a broker that no longer leads may name who does (R-REPL-67). That one has to confirm the position at once,
    /// so that the error itself, whose position is not valid any more, asks for no metadata.
    fn take_leader_hint(
        &mut self,
        tp: &TopicPartition,
        answer: &PartitionData,
        endpoints: impl Iterator<Item = (BrokerId, Option<Rc<str>>)>,
    ) {
        let error = ErrorCode::from_code(answer.error_code);
        if matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
            let hint = &answer.current_leader;
            let (leader, epoch) = (BrokerId(hint.leader_id.0), LeaderEpoch(hint.leader_epoch));
            if self.metadata.take_leader_hint(tp, leader, epoch, endpoints) {
                self.subscription.maybe_validate(tp, self.metadata.leader(tp));
            }
        }
    }

    /// Takes up to max.poll.records from the buffer and moves positions over them (R-CONS-5). Answers for partitions
    /// without a valid position are dropped, whatever they say: another leader is being asked (R-CONS-32). Those for
    /// paused partitions go to the end of the buffer, for when they are resumed (R-CONS-8).
    ///
    /// Errors: what poll() would throw, unless it has records to return first.
    pub(super) fn collect(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Result<Collected, Exception> {
        let mut paused = VecDeque::new();
        let collected = self.collect_but(&mut paused, now, fx);
        self.fetcher.buffer.append(&mut paused);
        let mut collected = collected?;
        collected.told.drain(..).for_each(|event| fx.event(event));
        Ok(collected)
    }

    fn collect_but(
        &mut self,
        paused: &mut VecDeque<Fetched>,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Result<Collected, Exception> {
        let mut collected = Collected::default();
        let mut left = i64::from(self.config.max_poll_records);
        while left > 0
            && let Some(fetched) = self.fetcher.buffer.front()
        {
            let tp = fetched.tp.clone();
            if self.subscription.valid_position(&tp).is_none() {
                self.drop_foremost();
                continue;
            }
            if let Some(exception) = self.exception_of(fetched) {
                if collected.moved && (fetched.error.is_ok() || is_kafkas(fetched.error)) {
                    // It is thrown by the next poll().
                    break;
                }
                // The records that were taken before it are lost to the application, their positions have moved.
                return Err(exception);
            }
            if !fetched.error.is_ok() {
                self.handle_partition_error(fx);
                collected.handled_errors = true;
                continue;
            }
            self.take_log_ends(&tp);
            self.take_preferred(now, &tp, fx);
            if self.subscription.is_paused(&tp) {
                paused.extend(self.fetcher.buffer.pop_front());
                continue;
            }
            let Some(fetched) = self.fetcher.buffer.front_mut() else { break };
            let position = self.subscription.position(&tp);
            let current = position.is_some_and(|position| position.offset == fetched.next_offset());
            if !current || !self.subscription.is_fetchable(&tp) {
                self.drain_foremost();
                continue;
            }
            let from = fetched.next_offset();
            let (taken, drained) = fetched.take(left);
            if drained && fetched.unreadable().is_none() {
                self.drain_foremost();
            }
            if taken.next.offset > from {
                collected.moved = true;
                self.subscription.set_position(&tp, taken.next);
                self.tell_taken(&tp, from, &taken, &mut collected.told);
            }
            left -= taken.records.len() as i64;
            let returned =
                |record: Position| Returned { tp: tp.clone(), offset: record.offset, delivery_count: None };
            collected.records.extend(taken.records.into_iter().map(returned));
        }
        Ok(collected)
    }

    /// What poll() throws at this answer (R-CONS-33, R-CONS-13 without a reset strategy).
    fn exception_of(&self, fetched: &Fetched) -> Option<Exception> {
        let owned = self.subscription.owned().get(&fetched.tp)?;
        let position = owned.position()?;
        match fetched.error {
            ErrorCode::None => {
                let is_read = self.subscription.is_fetchable(&fetched.tp);
                let is_met = is_read && position.offset == fetched.next_offset();
                Some(match fetched.unreadable().filter(|_| is_met)? {
                    Unreadable::Corrupt(error) => Exception::Error(error),
                    Unreadable::Record { offset, part } => {
                        Exception::Unreadable { tp: fetched.tp.clone(), offset, part }
                    }
                })
            }
            ErrorCode::OffsetOutOfRange => {
                let current = position.offset == fetched.offset && owned.preferred.is_none();
                (current && self.config.auto_offset_reset.is_none())
                    .then_some(Exception::Error(fetched.error))
            }
            error if asks_for_metadata(error) => None,
            ErrorCode::UnknownLeaderEpoch | ErrorCode::UnknownServerError => None,
            error => Some(Exception::Error(error)),
        }
    }

    /// The foremost answer is done with; its partition goes to the end if records of it were returned.
    fn drain_foremost(&mut self) {
        if let Some(fetched) = self.fetcher.buffer.pop_front()
            && fetched.is_read()
        {
            self.subscription.move_to_end(&fetched.tp);
        }
    }

    /// Drops the foremost answer; an error moves its partition to the end.
    fn drop_foremost(&mut self) -> Option<Fetched> {
        let fetched = self.fetcher.buffer.pop_front()?;
        if !fetched.error.is_ok() {
            self.subscription.move_to_end(&fetched.tp);
        }
        Some(fetched)
    }

    /// Drops the foremost answer, an error, and does what it asks for (R-CONS-33, R-CONS-13).
    fn handle_partition_error(&mut self, fx: &mut Effects<ConsumerTimer>) {
        let Some(fetched) = self.drop_foremost() else { return };
        let Some(position) = self.subscription.valid_position(&fetched.tp) else { return };
        if asks_for_metadata(fetched.error) {
            self.metadata.request_update();
            self.clear_preferred(&fetched.tp);
        }
        // A follower that does not have it: the leader is asked (R-REPL-64).
        let out_of_range = fetched.error == ErrorCode::OffsetOutOfRange
            && self.clear_preferred(&fetched.tp).is_none()
            && position.offset == fetched.offset;
        if let Some(strategy) = self.config.auto_offset_reset
            && out_of_range
        {
            self.subscription.reset(&fetched.tp, strategy);
            let (client, tp, offset) = (self.spec.name.clone(), fetched.tp, fetched.offset);
            fx.event(Event::PositionOutOfRange { client, tp, offset });
        }
    }

    fn take_log_ends(&mut self, tp: &TopicPartition) {
        let Some(fetched) = self.fetcher.buffer.front() else { return };
        self.subscription.edit(tp, |owned| {
            let current = owned.position().is_some_and(|position| position.offset == fetched.offset);
            if current && fetched.high_watermark >= Offset::ZERO {
                owned.high_watermark = Some(fetched.high_watermark);
            }
            if current && fetched.log_start_offset >= Offset::ZERO {
                owned.log_start_offset = Some(fetched.log_start_offset);
            }
            if current && fetched.last_stable_offset >= Offset::ZERO {
                owned.last_stable_offset = Some(fetched.last_stable_offset);
            }
        });
    }

    fn tell_taken(&self, tp: &TopicPartition, from: Offset, taken: &Taken, told: &mut Vec<Event>) {
        if let (Some((first, _)), Some((_, end))) = (taken.aborted.first(), taken.aborted.last()) {
            told.push(Event::AbortedPassedOver {
                client: self.spec.name.clone(),
                tp: tp.clone(),
                from: *first,
                to: *end,
                records: taken.aborted.iter().map(|(first, end)| *end - *first).sum(),
            });
        }
        if !taken.records.is_empty() {
            told.push(Event::Polled {
                client: self.spec.name.clone(),
                group: self.spec.group.clone(),
                tp: tp.clone(),
                from,
                to: taken.next.offset,
                records: taken.records.len() as i64,
                runs: OffsetRun::of(taken.records.iter().map(|record| (record.epoch, record.offset))),
            });
        }
    }
}

/// Whether it is thrown as a KafkaException; an answer's error that no fetch is known to have is an IllegalStateException, for which
/// records do not wait.
fn is_kafkas(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::OffsetOutOfRange | ErrorCode::TopicAuthorizationFailed | ErrorCode::CorruptMessage
    )
}

/// Errors after which the client asks for metadata and fetches again (R-CONS-33).
fn asks_for_metadata(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::OffsetNotAvailable
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    )
}
