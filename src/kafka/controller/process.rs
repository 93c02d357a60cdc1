//! The controller process: a voter of the quorum, and the active controller while it leads.
//!
//! Mirrors `QuorumController`'s `handleCommit`, `claim` and `renounce` (R-CTRL-7).
//!
//! **Invariant:** a request that changed something is answered when its records are committed, or refused with
//! NOT_CONTROLLER.

use std::collections::VecDeque;
use std::rc::Rc;

use kafka_protocol::messages::EnvelopeResponse;

use super::active::ActiveController;
use super::image::ClusterImage;
use super::not_controller;
use super::snapshots::SnapshotGenerator;
use super::topics::Cause;
use crate::kafka::api_versions;
use crate::kafka::config::{BrokerConfig, Features};
use crate::kafka::effects::{Effect, Effects, Input, RequestId};
use crate::kafka::envelope;
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response};
use crate::kafka::raft::{Next, RaftClient, RaftDisk, RaftSetup, RaftTimer};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, LeaderEpoch, NodeId, Offset};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerTimer {
    /// Looks for brokers whose session is over.
    CheckSessions,
    /// Looks for leaders that are not the first of their replica list.
    BalanceLeaders,
    /// Looks for partitions without a leader that may have one from outside the in-sync set.
    ElectUncleanly,
    /// Writes a record that says nothing.
    WriteNoOp,
    /// No successor was found in time for a controller that is to stop.
    ShutDown,
    Raft(RaftTimer),
}

impl From<RaftTimer> for ControllerTimer {
    fn from(timer: RaftTimer) -> Self {
        ControllerTimer::Raft(timer)
    }
}

/// How soon a periodic check goes on that left something over.
const MORE_ELECTIONS_MS: i64 = 10;

/// An answer that waits until the log is committed up to `end`.
#[derive(Clone, Debug)]
struct Waiting {
    end: Offset,
    id: RequestId,
    request: Rc<Request>,
    response: Response,
}

/// Why the records up to `end` were written, for those who watch.
#[derive(Clone, Debug)]
struct Decision {
    end: Offset,
    cause: Cause,
    headline: Option<Event>,
}

/// What a controller process starts with.
pub struct ControllerSetup {
    pub id: ControllerId,
    /// All controllers, this one among them.
    pub voters: Rc<[ControllerId]>,
    pub config: Rc<BrokerConfig>,
    /// Of a cluster whose log is empty.
    pub features: Features,
    pub disk: RaftDisk,
    pub random: Random,
}

#[derive(Clone, Debug)]
pub struct Controller {
    id: ControllerId,
    config: Rc<BrokerConfig>,
    features: Features,
    raft: RaftClient,
    /// The replay of what is committed, as far as this controller knows.
    committed: ClusterImage,
    active: Option<ActiveController>,
    /// In the order of their offsets.
    waiting: VecDeque<Waiting>,
    decisions: VecDeque<Decision>,
    snapshots: SnapshotGenerator,
    /// The process ends as soon as somebody else leads.
    stopping: bool,
    random: Random,
}

/// How long a controller waits for a successor before it stops all the same (`KafkaRaftManager.shutdown`).
const SHUTDOWN_TIMEOUT_MS: i64 = 5_000;

impl Controller {
    pub fn new(setup: ControllerSetup) -> Controller {
        let ControllerSetup { id, voters, config, features, disk, mut random } = setup;
        let quorum = Random::stream(random.next_u64(), "quorum");
        let me = NodeId::Controller(id);
        Controller {
            id,
            raft: RaftClient::new(RaftSetup {
                me,
                voters,
                config: config.quorum,
                log_config: config.metadata_log,
                disk,
                random: quorum,
            }),
            snapshots: SnapshotGenerator::new(config.metadata_log),
            stopping: false,
            config,
            features,
            committed: ClusterImage::default(),
            active: None,
            waiting: VecDeque::new(),
            decisions: VecDeque::new(),
            random,
        }
    }

    pub fn id(&self) -> ControllerId {
        self.id
    }

    /// The replay of what is committed, as far as this controller knows.
    pub fn image(&self) -> &ClusterImage {
        &self.committed
    }

    pub fn raft(&self) -> &RaftClient {
        &self.raft
    }

    /// The epoch in which this controller is the active one.
    pub fn active_epoch(&self) -> Option<LeaderEpoch> {
        self.active.as_ref().map(ActiveController::epoch)
    }

    /// What stays on disk when the process ends.
    pub fn into_disk(self) -> RaftDisk {
        self.raft.into_disk()
    }

    /// When the active controller last heard a broker; `None` while it is fenced.
    pub fn last_contact(&self, broker: BrokerId) -> Option<Time> {
        self.active.as_ref()?.last_contact(broker)
    }

    pub fn handle(&mut self, now: Time, input: Input<ControllerTimer>, fx: &mut Effects<ControllerTimer>) {
        match input {
            Input::Start => {
                self.snapshots.reset(now);
                self.with_raft(fx, |raft, fx| raft.start(now, fx));
            }
            Input::Request { id, request, .. } => self.on_request(now, id, request, fx),
            Input::Timer(ControllerTimer::CheckSessions) => self.check_sessions(now, fx),
            Input::Timer(timer @ (ControllerTimer::BalanceLeaders | ControllerTimer::ElectUncleanly)) => {
                self.hold_elections(now, timer, fx);
            }
            Input::Timer(ControllerTimer::WriteNoOp) => self.write_no_op(now, fx),
            Input::Timer(ControllerTimer::ShutDown) => return fx.exit(),
            Input::Timer(ControllerTimer::Raft(timer)) => {
                self.with_raft(fx, |raft, fx| raft.on_timer(now, timer, fx));
            }
            // A controller keeps nothing for a connection.
            Input::Gone(_) => {}
            Input::Connected(_) | Input::Disconnected(_) | Input::Response { .. } => {
                self.with_raft(fx, |raft, fx| raft.on_input(now, &input, fx));
            }
        }
        self.follow_raft(now, fx);
        self.end_if_allowed(fx);
    }

    /// SIGTERM: the active controller gives its place to another one first (R-CTRL-2).
    pub fn stop(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        fx.set_timer(ControllerTimer::ShutDown, now.plus_ms(SHUTDOWN_TIMEOUT_MS));
        self.with_raft(fx, |raft, fx| raft.begin_shutdown(now, fx));
        self.follow_raft(now, fx);
        self.end_if_allowed(fx);
    }

    fn end_if_allowed(&self, fx: &mut Effects<ControllerTimer>) {
        if self.stopping && self.raft.may_end() {
            fx.exit();
        }
    }

    fn with_raft<R>(
        &mut self,
        fx: &mut Effects<ControllerTimer>,
        run: impl FnOnce(&mut RaftClient, &mut Effects<RaftTimer>) -> R,
    ) -> R {
        let mut part = Effects::default();
        let result = run(&mut self.raft, &mut part);
        fx.absorb(part);
        result
    }

    fn on_request(
        &mut self,
        now: Time,
        id: RequestId,
        request: Rc<Request>,
        fx: &mut Effects<ControllerTimer>,
    ) {
        if let Request::ApiVersions(_) = &*request {
            return fx.respond(id, api_versions::response(CONTROLLER_APIS, &self.committed));
        }
        if self.with_raft(fx, |raft, fx| raft.on_request(now, id, &request, fx)) {
            return;
        }
        if let Some(response) = self.describe_quorum_for_client(now, &request) {
            return fx.respond(id, response);
        }
        let response = match &mut self.active {
            Some(active) => active.answer(now, &request, fx),
            None => not_controller::refuse(&request, ErrorCode::NotController),
        };
        let Some(response) = response else { return fx.push(Effect::Hangup(id)) };
        self.append_plans(now, fx);
        // Even an answer that changed nothing may rest on records that are not committed.
        let end = self.decisions.back().map_or(Offset::ZERO, |decision| decision.end);
        self.waiting.push_back(Waiting { end, id, request, response });
    }

    /// A client's DescribeQuorum in a broker's envelope: the quorum answers it, and nothing has to be committed for that.
    fn describe_quorum_for_client(&self, now: Time, request: &Request) -> Option<EnvelopeResponse> {
        let Request::Envelope(request) = request else { return None };
        self.active.as_ref()?;
        let (inner, correlation) = envelope::open(request.request_data.clone()).ok()?;
        let Request::DescribeQuorum(inner) = inner else { return None };
        let response = self.raft.describe_quorum(now, &inner).into();
        let data = envelope::seal_response(&response, correlation).ok()?;
        Some(EnvelopeResponse::default().with_response_data(Some(data)))
    }

    fn check_sessions(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let Some(active) = &mut self.active else { return };
        active.check_sessions(now);
        self.append_plans(now, fx);
        self.arm_session_check(now, fx);
    }

    fn arm_session_check(&self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let interval_ms = (self.config.session_timeout_ms / 8).max(1);
        fx.set_timer(ControllerTimer::CheckSessions, now.plus_ms(interval_ms));
    }

    fn write_no_op(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let Some(active) = &mut self.active else { return };
        active.write_no_op();
        self.append_plans(now, fx);
        self.arm_no_op(now, fx);
    }

    fn arm_no_op(&self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let interval_ms = self.config.metadata_max_idle_interval_ms;
        if interval_ms > 0 {
            fx.set_timer(ControllerTimer::WriteNoOp, now.plus_ms(interval_ms));
        }
    }

    /// The periodic elections of the active controller (R-REPL-49).
    fn hold_elections(&mut self, now: Time, timer: ControllerTimer, fx: &mut Effects<ControllerTimer>) {
        let Some(active) = &mut self.active else { return };
        let more = match timer {
            ControllerTimer::BalanceLeaders => active.balance_leaders(),
            _ => active.elect_uncleanly(),
        };
        self.append_plans(now, fx);
        self.arm_elections(now, timer, more, fx);
    }

    /// `more`: the last pass left something over.
    fn arm_elections(
        &self,
        now: Time,
        timer: ControllerTimer,
        more: bool,
        fx: &mut Effects<ControllerTimer>,
    ) {
        let interval_ms = match timer {
            ControllerTimer::BalanceLeaders if !self.config.auto_leader_rebalance => return,
            ControllerTimer::BalanceLeaders => self.config.leader_imbalance_check_interval_ms,
            _ => self.config.unclean_leader_election_interval_ms,
        };
        fx.set_timer(timer, now.plus_ms(if more { MORE_ELECTIONS_MS } else { interval_ms }));
    }

    /// What the active controller has decided becomes records of the log, one batch a decision.
    fn append_plans(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let plans = self.active.as_mut().map(ActiveController::take_plans).unwrap_or_default();
        for plan in plans {
            let end = self.raft.log().end_offset() + plan.records.len() as i64;
            self.decisions.push_back(Decision { end, cause: plan.cause, headline: plan.headline });
            self.with_raft(fx, |raft, fx| raft.append(now, &plan.records, fx));
        }
    }

    /// What the quorum's step means here, until nothing is left.
    fn follow_raft(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        loop {
            if self.active_epoch().is_some_and(|epoch| self.raft.leads_with_all_known() != Some(epoch)) {
                self.renounce(fx);
            }
            self.replay_committed(now, fx);
            self.answer_committed(fx);
            match self.raft.leads_with_all_known() {
                Some(epoch) if self.active.is_none() => self.claim(now, epoch, fx),
                _ => break,
            }
        }
    }

    /// This controller's log leads and everything up to its epoch is committed and known: it becomes active.
    fn claim(&mut self, now: Time, epoch: LeaderEpoch, fx: &mut Effects<ControllerTimer>) {
        let random = Random::stream(self.random.next_u64(), "active");
        let config = self.config.clone();
        self.active =
            Some(ActiveController::new(now, self.id, epoch, config, self.features, &self.committed, random));
        self.append_plans(now, fx);
        self.arm_session_check(now, fx);
        self.arm_no_op(now, fx);
        for timer in [ControllerTimer::BalanceLeaders, ControllerTimer::ElectUncleanly] {
            self.arm_elections(now, timer, false, fx);
        }
    }

    /// R-CTRL-7: who waits is refused, and what was not committed is forgotten.
    fn renounce(&mut self, fx: &mut Effects<ControllerTimer>) {
        self.active = None;
        self.decisions.clear();
        fx.cancel_timer(ControllerTimer::CheckSessions);
        fx.cancel_timer(ControllerTimer::WriteNoOp);
        fx.cancel_timer(ControllerTimer::BalanceLeaders);
        fx.cancel_timer(ControllerTimer::ElectUncleanly);
        for waiting in std::mem::take(&mut self.waiting) {
            if let Some(refusal) = not_controller::refuse(&waiting.request, ErrorCode::NotController) {
                fx.respond(waiting.id, refusal);
            }
        }
    }

    fn replay_committed(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        loop {
            match self.raft.log().committed_from(self.committed.next_offset) {
                Next::Nothing => break,
                Next::Snapshot(snapshot) => {
                    self.committed = ClusterImage::of_snapshot(&snapshot.records(), snapshot.id().end_offset);
                    self.snapshots.reset(now);
                }
                Next::Records { records, bytes } => {
                    self.replay(records, fx);
                    if self.snapshots.note(now, bytes) {
                        self.write_snapshot(now, fx);
                    }
                }
            }
        }
        while self.decisions.front().is_some_and(|decision| decision.end <= self.committed.next_offset) {
            self.decisions.pop_front();
        }
    }

    fn write_snapshot(&mut self, now: Time, fx: &mut Effects<ControllerTimer>) {
        let (end, records) = (self.committed.next_offset, self.committed.records());
        self.with_raft(fx, |raft, fx| raft.snapshot(now, end, &records, fx));
    }

    fn replay(&mut self, records: Vec<(Offset, Option<MetadataRecord>)>, fx: &mut Effects<ControllerTimer>) {
        for (offset, record) in records {
            let Some(record) = record else {
                self.committed.skip_control_record();
                continue;
            };
            let cause = self.cause_of(offset, fx);
            let before = super::events::before(&self.committed, &record);
            self.committed.replay(&record);
            if let Some(cause) = cause {
                super::events::tell(&self.committed, &record, before, cause, fx);
            }
        }
    }

    /// Why the record was written, if it is for this controller to tell: the one that leads when it is committed does.
    fn cause_of(&mut self, offset: Offset, fx: &mut Effects<ControllerTimer>) -> Option<Cause> {
        if self.active.is_none() {
            let told_before = self.raft.committed_before()?;
            return (offset >= told_before).then_some(Cause::new(ChangeReason::EarlierController));
        }
        let decision = self.decisions.iter_mut().find(|decision| offset < decision.end)?;
        if let Some(headline) = decision.headline.take() {
            fx.event(headline);
        }
        Some(decision.cause)
    }

    fn answer_committed(&mut self, fx: &mut Effects<ControllerTimer>) {
        while let Some(waiting) =
            self.waiting.pop_front_if(|waiting| waiting.end <= self.committed.next_offset)
        {
            fx.respond(waiting.id, waiting.response);
        }
    }
}

const CONTROLLER_APIS: &[ApiKey] = &[
    ApiKey::Fetch,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::UpdateFeatures,
    ApiKey::Vote,
    ApiKey::BeginQuorumEpoch,
    ApiKey::EndQuorumEpoch,
    ApiKey::DescribeQuorum,
    ApiKey::AlterPartition,
    ApiKey::Envelope,
    ApiKey::FetchSnapshot,
    ApiKey::BrokerRegistration,
    ApiKey::BrokerHeartbeat,
    ApiKey::AllocateProducerIds,
];
