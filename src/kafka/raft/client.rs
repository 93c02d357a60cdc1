//! One replica of the metadata log: what it is made of, what wakes it, and what it asks the others for.
//!
//! Mirrors `KafkaRaftClient`: each step ends with [`RaftClient::drive`], which sends whatever the present state wants
//! sent to voters that can take a request.
//!
//! **Invariant:** a voter has at most one request of this replica in flight.

use std::rc::Rc;

use bytes::Bytes;

use super::log::MetadataLog;
use super::messages::{self, Ballot, SnapshotPlace};
use super::snapshot::{Snapshot, SnapshotId};
use super::state::{ElectionState, QuorumRole, State};
use crate::kafka::config::{MetadataLogConfig, QuorumConfig};
use crate::kafka::effects::{Channel, Effects, Input, Peer, RequestId};
use crate::kafka::event::Event;
use crate::kafka::network_client::{NetworkClient, NetworkConfig, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::Request;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, ControllerId, LeaderEpoch, NodeId, Offset};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaftTimer {
    Network(NetworkTimer),
    /// The state's patience ends: an election, a wait for the leader, a wait for a majority.
    Patience,
    /// The leader looks for voters that are silent.
    Begin,
    /// The rest after an answer that did not help is over.
    Rest,
    /// A fetch that found nothing has waited long enough.
    FetchDeadline(RequestId),
    /// Old snapshots are looked for.
    CleanSnapshots,
}

impl From<NetworkTimer> for RaftTimer {
    fn from(timer: NetworkTimer) -> Self {
        RaftTimer::Network(timer)
    }
}

/// What stays of a replica when its process ends: the log and the `quorum-state` file.
#[derive(Clone, Debug, Default)]
pub struct RaftDisk {
    pub election: ElectionState,
    pub log: MetadataLog,
}

/// What a replica starts with.
pub struct RaftSetup {
    pub me: NodeId,
    pub voters: Rc<[ControllerId]>,
    pub config: QuorumConfig,
    pub log_config: MetadataLogConfig,
    pub disk: RaftDisk,
    pub random: Random,
}

/// What a request of this replica was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Records from here on.
    Fetch {
        from: Offset,
    },
    FetchSnapshot,
    Vote {
        epoch: LeaderEpoch,
        pre_vote: bool,
    },
    Begin,
    End,
}

/// A replica's fetch that waits for the next record or a higher high watermark.
#[derive(Clone, Debug)]
pub(super) struct ParkedFetch {
    pub request: RequestId,
    pub place: messages::Place,
}

#[derive(Clone, Debug)]
pub struct RaftClient {
    pub(super) me: NodeId,
    pub(super) voters: Rc<[ControllerId]>,
    pub(super) config: QuorumConfig,
    pub(super) log_config: MetadataLogConfig,
    pub(super) epoch: LeaderEpoch,
    pub(super) state: State,
    pub(super) log: MetadataLog,
    pub(super) network: NetworkClient<Asked>,
    pub(super) random: Random,
    pub(super) parked: Vec<ParkedFetch>,
    /// The voter that is asked for the leader.
    pub(super) asking: Option<ControllerId>,
    pub(super) rests_until: Time,
    /// The leader's snapshot that this replica takes over, as far as it has it.
    pub(super) downloading: Option<Download>,
}

/// A snapshot that comes in parts.
#[derive(Clone, Debug)]
pub(super) struct Download {
    pub id: SnapshotId,
    pub parts: Vec<Bytes>,
}

impl Download {
    pub fn position(&self) -> i64 {
        self.parts.iter().map(|part| part.len() as i64).sum()
    }
}

/// How often old snapshots are looked for (`RaftMetadataLogCleanerManager`).
const CLEAN_MS: i64 = 60_000;

impl RaftClient {
    pub fn new(setup: RaftSetup) -> RaftClient {
        let RaftSetup { me, voters, config, log_config, disk, mut random } = setup;
        let network = NetworkConfig {
            max_in_flight: 1,
            reconnect_backoff_max_ms: 500,
            handshake_timeout_ms: config.request_timeout_ms,
            ..NetworkConfig::default()
        };
        let name = match me {
            NodeId::Controller(id) => format!("raft-client-{id}"),
            NodeId::Broker(id) => format!("raft-client-{id}"),
            NodeId::Client(_) => panic!("a client is no replica of the metadata log"),
        };
        let network = NetworkClient::new(
            ClientName::new(&name),
            network,
            Random::stream(random.next_u64(), "raft network"),
        );
        let ElectionState { epoch, leader, voted } = disk.election;
        RaftClient {
            me,
            voters,
            config,
            log_config,
            epoch,
            state: State::Unattached { leader, voted, until: None },
            log: disk.log.restarted(),
            network,
            random,
            parked: Vec::new(),
            asking: None,
            rests_until: Time::ZERO,
            downloading: None,
        }
    }

    /// `None` for an observer.
    pub(super) fn my_id(&self) -> Option<ControllerId> {
        match self.me {
            NodeId::Controller(id) => Some(id),
            NodeId::Broker(_) | NodeId::Client(_) => None,
        }
    }

    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The leader of the present epoch, as far as this replica knows.
    pub fn leader(&self) -> Option<ControllerId> {
        self.state.leader(self.my_id())
    }

    /// Whom this voter voted for in its epoch.
    pub fn vote(&self) -> Option<ControllerId> {
        self.state.voted(self.my_id())
    }

    pub fn role(&self) -> QuorumRole {
        self.state.role()
    }

    pub fn log(&self) -> &MetadataLog {
        &self.log
    }

    pub fn voters(&self) -> &[ControllerId] {
        &self.voters
    }

    /// The epoch that this replica leads, once its log up to the begin of the epoch is known to be committed.
    pub fn leads_with_all_known(&self) -> Option<LeaderEpoch> {
        match &self.state {
            State::Leader(leader) => leader.high_watermark().map(|_| self.epoch),
            _ => None,
        }
    }

    /// The log's end of which a leader knew at its election that it is committed; `None` if this is no leader.
    pub fn committed_before(&self) -> Option<Offset> {
        match &self.state {
            State::Leader(leader) => Some(leader.committed_before()),
            _ => None,
        }
    }

    /// How far the other replicas are, as a leader knows it.
    pub fn progress(&self, replica: NodeId) -> Option<super::Progress> {
        let State::Leader(leader) = &self.state else { return None };
        match replica {
            NodeId::Controller(id) => leader.voter(id).copied(),
            _ => leader.observers().find(|(id, _)| *id == replica).map(|(_, progress)| *progress),
        }
    }

    /// The process ends in order.
    pub fn close_log(&mut self, now: Time) {
        self.log.flush(now);
    }

    /// What a process leaves behind.
    pub fn into_disk(self) -> RaftDisk {
        let me = self.my_id();
        let (leader, voted) = (self.state.leader(me), self.state.voted(me));
        RaftDisk { election: ElectionState { epoch: self.epoch, leader, voted }, log: self.log }
    }

    /// A connection's input, if it is one of the quorum's own.
    pub fn on_input<I>(&mut self, now: Time, input: &Input<I>, fx: &mut Effects<RaftTimer>) -> bool {
        let peer = match input {
            Input::Connected(peer) | Input::Disconnected(peer) => peer,
            Input::Response { from, .. } => from,
            Input::Start | Input::Request { .. } | Input::Gone(_) | Input::Timer(_) => return false,
        };
        if peer.channel != Channel::Raft {
            return false;
        }
        if let Some(event) = self.network.on_input(now, input, fx) {
            self.on_network(now, event, fx);
        }
        self.drive(now, fx);
        true
    }

    pub fn on_timer(&mut self, now: Time, timer: RaftTimer, fx: &mut Effects<RaftTimer>) {
        match timer {
            RaftTimer::Network(timer) => {
                if let Some(event) = self.network.on_timer(now, timer, fx) {
                    self.on_network(now, event, fx);
                }
            }
            RaftTimer::Patience => self.lose_patience(now, fx),
            RaftTimer::Begin => self.begin_again(now, fx),
            RaftTimer::Rest => {}
            RaftTimer::FetchDeadline(id) => self.answer_parked(|parked| parked.request == id, fx),
            RaftTimer::CleanSnapshots => {
                if self.log.clean(now, &self.log_config) {
                    let (node, start_offset) = (self.me, self.log.start_offset());
                    fx.event(Event::MetadataLogCleaned { node, start_offset });
                }
                self.arm_cleaning(now, fx);
            }
        }
        self.drive(now, fx);
    }

    fn on_network(&mut self, now: Time, event: NetworkEvent<Asked>, fx: &mut Effects<RaftTimer>) {
        match event {
            NetworkEvent::Ready(_) | NetworkEvent::BackoffOver(_) => {}
            NetworkEvent::Answered { peer, context, response, .. } => {
                let NodeId::Controller(voter) = peer.node else { return };
                self.asking = self.asking.filter(|asked| *asked != voter);
                self.on_response(now, voter, context, &response, fx);
            }
            NetworkEvent::Lost { peer, .. } => {
                self.asking = self.asking.filter(|asked| peer.node != NodeId::Controller(*asked));
            }
        }
    }

    /// A leader's records become part of the log, as one batch.
    ///
    /// Panics if this replica does not lead.
    pub fn append(&mut self, now: Time, records: &[MetadataRecord], fx: &mut Effects<RaftTimer>) {
        assert!(matches!(self.state, State::Leader(_)), "only a leader appends");
        self.log.append(now, self.epoch, records, &self.log_config);
        self.advance(fx);
        self.answer_parked(|_| true, fx);
    }

    pub(super) fn arm_cleaning(&self, now: Time, fx: &mut Effects<RaftTimer>) {
        fx.set_timer(RaftTimer::CleanSnapshots, now.plus_ms(CLEAN_MS));
    }

    /// Keeps a snapshot of everything below `end`, which this node has replayed and which came to `records`.
    pub fn snapshot(
        &mut self,
        now: Time,
        end: Offset,
        records: &[MetadataRecord],
        fx: &mut Effects<RaftTimer>,
    ) {
        let Some((id, last_contained_ms)) = self.log.snapshot_id(end) else { return };
        let snapshot = Snapshot::write(now, id, last_contained_ms, &self.voters, records);
        let size_bytes = snapshot.size_bytes();
        if self.log.add_snapshot(snapshot) {
            fx.event(Event::SnapshotWritten { node: self.me, end_offset: end, size_bytes });
        }
    }

    /// Sends what the present state wants sent.
    pub(super) fn drive(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        match &self.state {
            State::Unattached { .. } => self.fetch_from_any(now, None, fx),
            State::Follower { leader, until, .. } => self.fetch_from_best(now, *leader, *until, fx),
            State::Prospective { votes, .. } => self.ask_for_votes(now, votes.open(), true, fx),
            State::Candidate { votes, .. } => self.ask_for_votes(now, votes.open(), false, fx),
            State::Leader(leader) => self.tell_of_leader(now, leader.to_begin(), fx),
            State::Resigned { .. } => self.tell_of_end(now, fx),
        }
    }

    pub(super) fn peer(voter: ControllerId) -> Peer {
        Peer::new(voter, Channel::Raft)
    }

    fn send(
        &mut self,
        now: Time,
        voter: ControllerId,
        request: impl Into<Request>,
        asked: Asked,
        fx: &mut Effects<RaftTimer>,
    ) {
        let timeout_ms = self.config.request_timeout_ms;
        self.network.send(now, Self::peer(voter), request, asked, timeout_ms, fx);
    }

    fn send_fetch(&mut self, now: Time, voter: ControllerId, fx: &mut Effects<RaftTimer>) {
        let (NodeId::Controller(ControllerId(replica))
        | NodeId::Broker(crate::kafka::types::BrokerId(replica))) = self.me
        else {
            return;
        };
        if let Some(download) = &self.downloading {
            let place = SnapshotPlace {
                replica,
                epoch: self.epoch,
                id: download.id,
                position: download.position(),
                max_bytes: self.config.fetch_snapshot_max_bytes,
            };
            let request = messages::fetch_snapshot_request(place);
            return self.send(now, voter, request, Asked::FetchSnapshot, fx);
        }
        let (end, max_bytes) = (self.log_end(), self.config.fetch_max_bytes);
        let request = messages::fetch_request(replica, self.epoch, end, self.log.high_watermark(), max_bytes);
        self.send(now, voter, request, Asked::Fetch { from: end.1 }, fx);
    }

    pub(super) fn log_end(&self) -> (LeaderEpoch, Offset) {
        (self.log.last_epoch(), self.log.end_offset())
    }

    fn is_resting(&self, now: Time, fx: &mut Effects<RaftTimer>) -> bool {
        if now < self.rests_until {
            fx.set_timer(RaftTimer::Rest, self.rests_until);
        }
        now < self.rests_until
    }

    /// From the leader, or, while it cannot be reached, from whoever may know of another one.
    fn fetch_from_best(&mut self, now: Time, leader: ControllerId, until: Time, fx: &mut Effects<RaftTimer>) {
        let peer = Self::peer(leader);
        if now >= until || self.network.is_backing_off(now, peer) {
            self.fetch_from_any(now, Some(leader), fx);
        }
        if !self.network.is_backing_off(now, peer)
            && !self.is_resting(now, fx)
            && self.network.ready(now, peer, fx)
        {
            self.send_fetch(now, leader, fx);
        }
    }

    /// Any voter names the leader, if it knows it.
    fn fetch_from_any(&mut self, now: Time, but: Option<ControllerId>, fx: &mut Effects<RaftTimer>) {
        if let Some(voter) = self.asking {
            let peer = Self::peer(voter);
            if self.network.can_send(peer) {
                return self.send_fetch(now, voter, fx);
            }
            if self.network.is_connecting(peer) || self.network.in_flight(peer) > 0 {
                return;
            }
        }
        self.asking = None;
        if self.is_resting(now, fx) {
            return;
        }
        let me = self.my_id();
        let reachable = |voter: &ControllerId| {
            Some(*voter) != me && Some(*voter) != but && !self.network.is_backing_off(now, Self::peer(*voter))
        };
        let voters: Vec<ControllerId> = self.voters.iter().copied().filter(reachable).collect();
        if voters.is_empty() {
            return;
        }
        let voter = voters[self.random.below(voters.len() as u64) as usize];
        self.asking = Some(voter);
        if self.network.ready(now, Self::peer(voter), fx) {
            self.send_fetch(now, voter, fx);
        }
    }

    fn ask_for_votes(
        &mut self,
        now: Time,
        open: Vec<ControllerId>,
        pre_vote: bool,
        fx: &mut Effects<RaftTimer>,
    ) {
        let Some(nominee) = self.my_id() else { return };
        let (last_epoch, end_offset) = self.log_end();
        let epoch = self.epoch;
        for voter in open {
            if self.network.ready(now, Self::peer(voter), fx) {
                let ballot = Ballot { nominee, epoch, last_epoch, end_offset, pre_vote };
                let asked = Asked::Vote { epoch, pre_vote };
                self.send(now, voter, messages::vote_request(voter, ballot), asked, fx);
            }
        }
    }

    fn tell_of_leader(&mut self, now: Time, voters: Vec<ControllerId>, fx: &mut Effects<RaftTimer>) {
        let Some(me) = self.my_id() else { return };
        for voter in voters {
            if self.network.ready(now, Self::peer(voter), fx) {
                if let State::Leader(leader) = &mut self.state {
                    leader.begun(voter);
                }
                self.send(now, voter, messages::begin_request(voter, me, self.epoch), Asked::Begin, fx);
            }
        }
    }

    fn tell_of_end(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let State::Resigned { unacknowledged, successors, .. } = &self.state else { return };
        let (voters, successors) = (unacknowledged.clone(), successors.clone());
        let Some(me) = self.my_id() else { return };
        for voter in voters {
            if self.network.ready(now, Self::peer(voter), fx) {
                let request = messages::end_request(me, self.epoch, &successors);
                self.send(now, voter, request, Asked::End, fx);
            }
        }
    }
}
