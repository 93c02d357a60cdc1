//! What a fetch asks for and what its answer tells, in the light of its session (KIP-227).
//!
//! Mirrors `FetchManager` and `FetchContext`.
//!
//! **Invariant:** leaving quiet partitions out changes no answer: what was not read would have been left out, and what a
//! follower's fetches acknowledged of it is made good before anything looks at it.

use std::rc::Rc;

use kafka_protocol::messages::fetch_response::{
    FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::fetch::{Read, Reader, diverging_epoch};
use super::manager::{ReplicaManager, Step};
use super::partition::Partition;
use super::purgatory::{DelayedFetch, OperationId, Purgatory};
use super::session::{Cached, FetchSession, PartitionKey, SessionId};
use super::session_cache::FetchSessionCache;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::fetch_session::{FetchMetadata, Wanted};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, TopicId, TopicPartition};

/// One partition of a fetch.
#[derive(Clone, Debug)]
pub struct Asked {
    pub key: PartitionKey,
    /// `None` while no topic of this id is known.
    pub tp: Option<TopicPartition>,
    pub wanted: Wanted,
}

/// In which light a fetch is answered.
#[derive(Clone, Debug)]
pub enum FetchContext {
    /// All of these are told, and there is no session.
    Sessionless(Rc<[Asked]>),
    /// All of these are told, and a session begins if there is a slot for it.
    Full(Rc<[Asked]>),
    /// What there is news of in a session is told.
    Incremental(SessionId),
}

impl FetchContext {
    pub fn session(&self) -> Option<SessionId> {
        match self {
            FetchContext::Incremental(id) => Some(*id),
            FetchContext::Sessionless(_) | FetchContext::Full(_) => None,
        }
    }
}

/// A fetch whose session is not what it takes it for.
pub(super) fn refuse_fetch(id: RequestId, error: ErrorCode, step: &mut Step<'_>) {
    step.fx.respond(id, FetchResponse::default().with_error_code(error.code()));
}

impl ReplicaManager {
    /// Takes down what a request says of its session. Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
    pub(super) fn open_context(
        &mut self,
        fetch: &FetchRequest,
        step: &mut Step<'_>,
    ) -> Result<FetchContext, ErrorCode> {
        let metadata = FetchMetadata::of(fetch);
        if metadata.is_full() {
            if self.sessions.find(metadata.session_id).is_some() {
                self.close_session(SessionId(metadata.session_id));
            }
            let asked = asked_of(fetch, step.image).collect();
            return Ok(match metadata.epoch {
                FetchMetadata::FINAL_EPOCH => FetchContext::Sessionless(asked),
                _ => FetchContext::Full(asked),
            });
        }
        let session = self.sessions.find(metadata.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != metadata.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        let id = session.id;
        self.update_session(id, fetch, step.image);
        let Some(session) = self.sessions.get_mut(id).filter(|session| !session.is_empty()) else {
            self.close_session(id);
            return Ok(FetchContext::Sessionless(Rc::new([])));
        };
        session.epoch = FetchMetadata::next_epoch(session.epoch);
        session.last_fetch_at = step.now;
        self.sessions.touch(step.now, id);
        Ok(FetchContext::Incremental(id))
    }

    fn update_session(&mut self, id: SessionId, fetch: &FetchRequest, image: &ClusterImage) {
        let follower = Reader::of(fetch).follower();
        if self.sessions.get(id).is_some_and(|session| session.follower != follower) {
            self.wake_session(id);
        }
        for asked in asked_of(fetch, image) {
            self.wake_one(id, &asked.key);
            if let Some(session) = self.sessions.get_mut(id) {
                session.want(asked.key, asked.tp, asked.wanted);
            }
        }
        for topic in &fetch.forgotten_topics_data {
            for partition in &topic.partitions {
                let key = (TopicId(topic.topic_id), *partition);
                self.wake_one(id, &key);
                if let Some(session) = self.sessions.get_mut(id) {
                    session.forget(&key);
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.follower = follower;
            session.resolve_names(|key| name_of(key, image));
        }
    }

    /// What is to be read for a request that has just come, and the answers about partitions that nobody knows.
    pub(super) fn asked_now(&self, context: &FetchContext, image: &ClusterImage) -> (Vec<Asked>, Vec<Read>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for asked in self.asked(context) {
            match &asked.tp {
                None => unknown.push(Read::failed(asked, ErrorCode::UnknownTopicId)),
                Some(tp) if image.partition(tp).is_none() => {
                    unknown.push(Read::failed(asked, ErrorCode::UnknownTopicOrPartition));
                }
                Some(_) => known.push(asked),
            }
        }
        (known, unknown)
    }

    /// What is to be read for a request that has waited.
    pub(super) fn asked_again(&self, parked: &DelayedFetch) -> Vec<Asked> {
        let mut asked = self.asked(&parked.context);
        asked.retain(|asked| !parked.has_answer(&asked.key));
        asked
    }

    fn asked(&self, context: &FetchContext) -> Vec<Asked> {
        match context {
            FetchContext::Sessionless(asked) | FetchContext::Full(asked) => asked.to_vec(),
            FetchContext::Incremental(id) => {
                let loud = self.sessions.get(*id).into_iter().flat_map(FetchSession::loud);
                let asked = |(key, cached): (&PartitionKey, &Cached)| Asked {
                    key: *key,
                    tp: cached.tp.clone(),
                    wanted: cached.wanted,
                };
                loud.map(asked).collect()
            }
        }
    }

    pub(super) fn has_quiet(&self, context: &FetchContext) -> bool {
        let session = context.session().and_then(|id| self.sessions.get(id));
        session.is_some_and(|session| session.len() > session.loud_count())
    }

    /// Sends the answer, and takes down what the session's owner knows by it.
    pub(super) fn answer_fetch(&mut self, parked: &DelayedFetch, mut reads: Vec<Read>, step: &mut Step<'_>) {
        let reader = Reader::of(&parked.fetch);
        let mut response = FetchResponse::default();
        reads.iter_mut().for_each(|read| name_leader(read, step.image));
        if reader.is_consumer() {
            response.node_endpoints = endpoints(&reads, step.image);
        }
        let session = match &parked.context {
            FetchContext::Sessionless(_) => None,
            FetchContext::Full(_) => self.open_session(parked, &reads, step.now),
            FetchContext::Incremental(id) => {
                let expected = FetchMetadata::next_epoch(parked.fetch.session_epoch);
                if self.sessions.get(*id).is_none_or(|session| session.epoch != expected) {
                    response.session_id = id.0;
                    response.error_code = ErrorCode::InvalidFetchSessionEpoch.code();
                    return step.fx.respond(parked.request, response);
                }
                Some(*id)
            }
        };
        response.session_id = session.map_or(FetchMetadata::NO_SESSION, |id| id.0);
        let incremental = parked.context.session().is_some();
        let mut answered = Vec::with_capacity(reads.len());
        for Read { asked, data } in reads {
            let session = session.and_then(|id| self.sessions.get_mut(id));
            let tells = match session {
                Some(session) if incremental => session.must_tell(&asked.key, &data),
                _ => true,
            };
            let settled = data.error_code == 0 && data.preferred_read_replica.0 == -1;
            if tells {
                push_answer(&mut response, asked.key, data);
            }
            if settled {
                answered.push((asked.key, asked.tp));
            }
        }
        step.fx.respond(parked.request, response);
        if let Some(id) = session {
            answered.iter().for_each(|(key, tp)| self.quieten(id, key, tp.as_ref(), reader));
        }
    }

    /// A session of everything that a full request asked for, if there is a slot.
    fn open_session(&mut self, parked: &DelayedFetch, reads: &[Read], now: Time) -> Option<SessionId> {
        let follower = Reader::of(&parked.fetch).follower();
        let (id, evicted) = self.sessions.claim(now, follower.is_some(), reads.len() as i32)?;
        if let Some(evicted) = evicted {
            self.close_session(evicted);
        }
        let mut session = FetchSession::new(id, follower, parked.since);
        for Read { asked, data } in reads {
            session.want(asked.key, asked.tp.clone(), asked.wanted);
            session.told(&asked.key, data);
        }
        self.sessions.insert(now, session);
        Some(id)
    }

    /// A partition that has nothing to tell any more is left alone until it changes.
    fn quieten(&mut self, id: SessionId, key: &PartitionKey, tp: Option<&TopicPartition>, reader: Reader) {
        let Some(partition) = tp.and_then(|tp| self.partitions.get_mut(tp)) else { return };
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.get(key).is_some_and(|cached| is_settled(partition, key, cached, reader)) {
            session.quieten(key);
            if !partition.observers.contains(&id) {
                Rc::make_mut(partition).observers.push(id);
            }
        }
    }

    /// The session has lost its slot. What waits for its answer gets it still.
    fn close_session(&mut self, id: SessionId) {
        if self.sessions.evict(id) {
            self.wake_session(id);
            self.sessions.remove(id);
        }
    }

    /// A request of the session waits no more.
    pub(super) fn leave_session(&mut self, id: SessionId, operation: OperationId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.parked.retain(|parked| *parked != operation);
        }
        if self.sessions.is_over(id) {
            self.wake_session(id);
            self.sessions.remove(id);
        }
    }

    /// The brokers of the cluster changed, and with them what a follower's fetch means.
    pub fn brokers_changed(&mut self) {
        for id in self.sessions.ids() {
            self.wake_session(id);
        }
    }

    fn wake_session(&mut self, id: SessionId) {
        for tp in self.sessions.get(id).map(FetchSession::quiet).unwrap_or_default() {
            if let Some(partition) = self.partitions.get_mut(&tp) {
                wake(Rc::make_mut(partition), id, &mut self.sessions, &mut self.purgatory);
            }
        }
    }

    fn wake_one(&mut self, id: SessionId, key: &PartitionKey) {
        let cached = self.sessions.get(id).filter(|session| session.is_quiet(key));
        let tp = cached.and_then(|session| session.get(key)?.tp.clone());
        if let Some(partition) = tp.and_then(|tp| self.partitions.get_mut(&tp)) {
            wake(Rc::make_mut(partition), id, &mut self.sessions, &mut self.purgatory);
        }
    }

    /// A partition is about to change: it is quiet in no session any more.
    pub(super) fn disturb(&mut self, tp: &TopicPartition) {
        if let Some(partition) =
            self.partitions.get_mut(tp).filter(|partition| !partition.observers.is_empty())
        {
            wake_all(Rc::make_mut(partition), &mut self.sessions, &mut self.purgatory);
        }
    }

    /// When a follower was last seen to have everything; the fetches of a session tell it of its quiet partitions too.
    pub fn last_caught_up_at(&self, partition: &Partition, follower: BrokerId) -> Option<Time> {
        let known = partition.leader()?.remotes.get(&follower)?.last_caught_up_at;
        let key = (partition.topic_id, partition.tp.partition);
        let theirs = |session: &&FetchSession| {
            session.follower.is_some_and(|(id, _)| id == follower) && session.is_quiet(&key)
        };
        let sessions = partition.observers.iter().filter_map(|id| self.sessions.get(*id)).filter(theirs);
        sessions.map(|session| Some(session.last_fetch_at)).fold(known, Option::max)
    }
}

/// Ends a partition's quiet in all sessions.
pub(super) fn wake_all(
    partition: &mut Partition,
    sessions: &mut FetchSessionCache,
    purgatory: &mut Purgatory,
) {
    for id in std::mem::take(&mut partition.observers) {
        wake(partition, id, sessions, purgatory);
    }
}

/// Ends a partition's quiet in one session: what its owner's fetches acknowledged in the meantime is taken down, and a
/// request that waits looks at the partition from now on.
fn wake(
    partition: &mut Partition,
    id: SessionId,
    sessions: &mut FetchSessionCache,
    purgatory: &mut Purgatory,
) {
    let key = (partition.topic_id, partition.tp.partition);
    if !sessions.get(id).is_some_and(|session| session.is_quiet(&key)) {
        return;
    }
    let Some(session) = sessions.get_mut(id) else { return };
    let Some(wanted) = session.disturb(&key) else { return };
    let end = partition.log.log_end_offset();
    if let Some((follower, epoch)) = session.follower
        && let Some(leader) = partition.leader_mut()
    {
        leader.acknowledge(session.last_fetch_at, follower, wanted, end, epoch);
    }
    let segment = partition.log.segment_base(wanted.fetch_offset);
    for operation in &session.parked {
        purgatory.watch(*operation, &partition.tp, key, segment);
    }
}

/// Whether a read would find nothing that the session's owner does not know, and a follower's fetch would change nothing
/// but when it was last seen.
fn is_settled(partition: &Partition, key: &PartitionKey, cached: &Cached, reader: Reader) -> bool {
    if reader.check_access(partition, cached.wanted).is_err() {
        return false;
    }
    let in_its_place = match reader.follower().zip(partition.leader()) {
        Some(((id, epoch), leader)) => {
            let remote = leader.remotes.get(&id);
            let seen = remote.is_some_and(|remote| {
                remote.log_end_offset == cached.wanted.fetch_offset && remote.broker_epoch == Some(epoch)
            });
            seen && (leader.isr.committed().contains(&id) || leader.isr.is_in_flight())
        }
        None => true,
    };
    let log = &partition.log;
    in_its_place
        && partition.topic_id == key.0
        && cached.wanted.fetch_offset == reader.bound(partition)
        && cached.high_watermark == log.high_watermark()
        && cached.log_start_offset == log.log_start_offset()
        && diverging_epoch(partition, cached.wanted).is_none()
}

fn name_of(key: &PartitionKey, image: &ClusterImage) -> Option<TopicPartition> {
    image.topic_name(key.0).map(|name| TopicPartition::new(name, key.1))
}

/// The partitions that a request lists.
fn asked_of<'a>(fetch: &'a FetchRequest, image: &'a ClusterImage) -> impl Iterator<Item = Asked> + 'a {
    fetch.topics.iter().flat_map(move |topic| {
        let id = TopicId(topic.topic_id);
        let name = image.topic_name(id);
        topic.partitions.iter().map(move |partition| Asked {
            key: (id, partition.partition),
            tp: name.map(|name| TopicPartition::new(name, partition.partition)),
            wanted: Wanted::of(partition),
        })
    })
}

fn push_answer(response: &mut FetchResponse, key: PartitionKey, data: PartitionData) {
    match response.responses.last_mut() {
        Some(topic) if topic.topic_id == key.0.0 => topic.partitions.push(data),
        _ => {
            let topic = FetchableTopicResponse::default().with_topic_id(key.0.0);
            response.responses.push(topic.with_partitions(vec![data]));
        }
    }
}

/// KIP-951: who leads now, where this broker does not (R-REPL-67).
fn name_leader(read: &mut Read, image: &ClusterImage) {
    let error = ErrorCode::from_code(read.data.error_code);
    if !matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
        return;
    }
    if let Some(partition) = read.asked.tp.as_ref().and_then(|tp| image.partition(tp)) {
        read.data.current_leader = LeaderIdAndEpoch::default()
            .with_leader_id(partition.leader.0.into())
            .with_leader_epoch(partition.leader_epoch.0);
    }
}

/// Where the leaders are that the answer names.
fn endpoints(reads: &[Read], image: &ClusterImage) -> Vec<NodeEndpoint> {
    let mut endpoints: Vec<NodeEndpoint> = Vec::new();
    for read in reads {
        let leader = BrokerId(read.data.current_leader.leader_id.0);
        if endpoints.iter().all(|endpoint| endpoint.node_id.0 != leader.0) {
            endpoints.extend(image.endpoint(leader).map(|endpoint| {
                NodeEndpoint::default()
                    .with_node_id(endpoint.broker.0.into())
                    .with_host(endpoint.host.into())
                    .with_port(endpoint.port.into())
                    .with_rack(endpoint.rack.map(Into::into))
            }));
        }
    }
    endpoints
}
