//! How a commit gets under way: when poll() makes one by itself, when commitSync() tries again, what waits for the
//! coordinator.
//!
//! **Invariant:** a commit that was begun is answered once, by the coordinator or for it.

use std::rc::Rc;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::{CommitCall, CommitError, CommitKind, SyncCommit, SyncStep, WaitingCommit};
use crate::client::consumer::membership::MemberState;
use crate::client::consumer::owned::Position;
use crate::client::consumer::requests::Call;
use crate::client::consumer::{Consumer, ConsumerTimer};
use crate::client::profile::Library;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

impl Consumer {
    /// R-CONS-17 (a): the interval is over, and poll() is called.
    pub(in crate::client::consumer) fn commit_if_interval_is_over(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        // The newer consumer makes none while one is on its way (R-CONS-21).
        let is_busy = self.config.is_modern && self.commits.automatic_pending > 0;
        let is_on = self.config.auto_commit_interval_ms.is_some() && !is_busy;
        // librdkafka commits by a timer, whatever the application does.
        let is_on = is_on && self.config.library == Library::Java;
        if is_on && self.commits.next_interval_at <= now {
            self.commits.restart_interval(now, &self.config);
            self.commit_positions(now, CommitKind::Interval, fx);
        }
    }

    /// What a commit without offsets is of: all positions; librdkafka's is of what it handed over and is not committed.
    fn to_commit(&self) -> Vec<(TopicPartition, Position)> {
        let mut positions = self.subscription.all_consumed();
        if plant::is(Plant::CommitOfPrefetched) {
            for (tp, position) in &mut positions {
                *position = self.fetcher.end_of_buffered(tp).unwrap_or(*position);
            }
        }
        if self.config.library == Library::Librdkafka {
            let committed =
                |tp: &TopicPartition| self.subscription.owned().get(tp).and_then(|owned| owned.committed);
            positions.retain(|(tp, position)| {
                self.commits.stored.contains(tp) && committed(tp) != Some(position.offset)
            });
        }
        positions
    }

    /// librdkafka's commit timer, on its own thread; it does nothing while the group rebalances.
    pub(in crate::client::consumer) fn commit_by_timer(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if !self.commits_by_timer() || self.commits.next_interval_at > now {
            return;
        }
        self.commits.restart_interval(now, &self.config);
        let is_steady = !self.subscription.is_in_group()
            || self.membership.state == MemberState::Stable && !self.membership.rejoin_needed;
        if is_steady && !self.to_commit().is_empty() {
            self.commit_positions(now, CommitKind::Interval, fx);
        }
    }

    pub(in crate::client::consumer) fn commits_by_timer(&self) -> bool {
        self.config.library == Library::Librdkafka && self.config.auto_commit_interval_ms.is_some()
    }

    /// An automatic commit of all positions that does not block.
    pub(in crate::client::consumer) fn commit_positions(
        &mut self,
        now: Time,
        kind: CommitKind,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let offsets = self.to_commit().into();
        self.begin_commit(now, kind, true, offsets, fx);
    }

    /// commitAsync(): of `offsets`, else of all positions. Not tried again, as a later commit may have passed it
    /// (R-CONS-20).
    pub(in crate::client::consumer) fn commit_async(
        &mut self,
        now: Time,
        offsets: Option<Rc<[(TopicPartition, Position)]>>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.call_back(fx);
        let offsets = offsets.unwrap_or_else(|| self.to_commit().into());
        self.begin_commit(now, CommitKind::Async, false, offsets, fx);
    }

    /// The application hears what came of its commitAsync()s, in the order of the answers.
    pub(in crate::client::consumer) fn call_back(&mut self, fx: &mut Effects<ConsumerTimer>) {
        for outcome in std::mem::take(&mut self.commits.completed) {
            fx.event(Event::CommitCalledBack { client: self.spec.name.clone(), outcome });
        }
    }

    /// Begins a commit of `offsets`, else of all positions, that blocks the application until
    /// [`Self::sync_commit_is_over`].
    pub(in crate::client::consumer) fn begin_sync_commit(
        &mut self,
        now: Time,
        timeout_ms: i64,
        automatic: bool,
        offsets: Option<Rc<[(TopicPartition, Position)]>>,
    ) {
        // An answer that still comes to an earlier one is not taken for this one's.
        self.commits.attempts += 1;
        self.commits.sync = Some(SyncCommit {
            offsets: offsets.unwrap_or_else(|| self.to_commit().into()),
            deadline: now.plus_ms(timeout_ms),
            step: SyncStep::ToSend(now),
            automatic,
            failures: 0,
        });
    }

    /// Brings the blocking commit as far as it goes.
    pub(in crate::client::consumer) fn sync_commit_is_over(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        self.call_back(fx);
        let Some(sync) = &mut self.commits.sync else { return true };
        let is_due = matches!(sync.step, SyncStep::ToSend(at) if at <= now)
            && self.membership.coordinator().is_some()
            && !sync.offsets.is_empty();
        // However short its time is, it is tried once.
        if is_due && (sync.failures == 0 || sync.deadline > now) {
            self.commits.attempts += 1;
            let kind = CommitKind::Sync { attempt: self.commits.attempts };
            sync.step = SyncStep::InFlight;
            let (automatic, offsets) = (sync.automatic, sync.offsets.clone());
            self.begin_commit(now, kind, automatic, offsets, fx);
        }
        let Some(sync) = &self.commits.sync else { return true };
        // What commitAsync() committed before has been answered when it returns.
        if sync.offsets.is_empty() && self.commits.async_pending == 0 {
            self.commits.sync = None;
        } else if sync.deadline <= now {
            self.commits.sync = None;
            self.commit_failed_event(ErrorCode::RequestTimedOut, fx);
        }
        self.commits.sync.is_none()
    }

    /// Sends a commit, or keeps it until the coordinator is known.
    fn begin_commit(
        &mut self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.commits.begun(kind);
        if offsets.is_empty() || self.membership.coordinator().is_some() {
            self.send_commit(now, kind, automatic, offsets, fx);
        } else {
            self.commits.waiting.push_back(WaitingCommit { kind, automatic, offsets });
        }
    }

    /// The coordinator is known.
    pub(in crate::client::consumer) fn send_waiting_commits(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        for WaitingCommit { kind, automatic, offsets } in std::mem::take(&mut self.commits.waiting) {
            self.send_commit(now, kind, automatic, offsets, fx);
        }
    }

    /// The coordinator was looked for in vain: the classic consumer's commits do not wait for the next try.
    pub(in crate::client::consumer) fn fail_waiting_commits(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.config.is_modern {
            return;
        }
        for WaitingCommit { kind, automatic, offsets } in std::mem::take(&mut self.commits.waiting) {
            let call = self.commit_call(now, kind, automatic, offsets);
            self.commit_done(now, &call, Err(CommitError::Retriable), fx);
        }
    }

    fn commit_call(
        &self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
    ) -> CommitCall {
        let sent_as = self.membership.identity.clone();
        CommitCall { kind, automatic, sent_as, sent_at: now, offsets }
    }

    fn send_commit(
        &mut self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let call = self.commit_call(now, kind, automatic, offsets);
        let is_member = self.subscription.is_in_group();
        let is_out = is_member && !self.config.is_modern && self.membership.state != MemberState::Stable;
        if call.offsets.is_empty() {
            self.commit_done(now, &call, Ok(()), fx);
        } else if is_out {
            // The member is out of its generation: the coordinator would refuse, so the client does.
            let error = CommitError::Final(self.error_outside_generation());
            self.commit_done(now, &call, Err(error), fx);
        } else {
            // Who was given partitions by assign() commits as nobody (R-CONS-10); the newer consumer names itself all the same.
            let instance_id = self.config.instance_id_to_wire();
            let instance_id = instance_id.filter(|_| is_member || self.config.is_modern);
            let request = OffsetCommitRequest::default()
                .with_group_id(self.group_id())
                .with_generation_id_or_member_epoch(call.sent_as.generation.0)
                .with_member_id(call.sent_as.member.to_wire())
                .with_group_instance_id(instance_id)
                .with_topics(topics_of(&call.offsets));
            self.send_to_coordinator(now, request, Call::OffsetCommit(Rc::new(call)), fx);
        }
    }

    /// RebalanceInProgressException, else CommitFailedException.
    pub(super) fn error_outside_generation(&self) -> ErrorCode {
        match self.membership.is_rebalancing() {
            true => ErrorCode::RebalanceInProgress,
            false => ErrorCode::UnknownMemberId,
        }
    }
}

fn topics_of(offsets: &[(TopicPartition, Position)]) -> Vec<OffsetCommitRequestTopic> {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for (tp, position) in offsets {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(tp.partition)
            .with_committed_offset(position.offset.0)
            .with_committed_leader_epoch(position.epoch.0)
            .with_committed_metadata(Some(StrBytes::from_static_str("")));
        match topics.last_mut() {
            Some(topic) if topic.name.as_str() == tp.topic.as_str() => topic.partitions.push(partition),
            _ => topics.push(
                OffsetCommitRequestTopic::default()
                    .with_name(TopicName(tp.topic.to_wire()))
                    .with_partitions(vec![partition]),
            ),
        }
    }
    topics
}
