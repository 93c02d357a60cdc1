//! The group coordinator of one broker (sections 6 to 8 of the reference).
//!
//! - `classic`: groups whose members plan; `modern`: those that the coordinator plans for (KIP-848), share groups too
//! - `shard`: one partition of `__consumer_offsets` with its groups of all kinds; `offsets`: what they committed; `commit`: what
//!   a request asks to commit
//! - `requests`: of members; `admin`: of administrators; `share`: of share groups; `transactional`: offsets of transactions
//! - [`assignor`]: the plans, of clients and of the server
//!
//! Mirrors `GroupCoordinatorService`: it keeps the groups of those partitions of `__consumer_offsets` that its broker
//! leads. It does not write: it pushes [`Append`]s, which the broker carries out with acks=all before it hands in
//! anything else, and hears of their fate by [`GroupCoordinator::on_appended`], [`GroupCoordinator::on_append_failed`]
//! and [`GroupCoordinator::on_high_watermark`]. It knows neither logs nor replication, and FindCoordinator is the broker's.
//!
//! **Invariant:** what a client was told about a group or an offset survives any failover that keeps the partition's
//! committed records (R-GRP-4).

mod config;
pub mod java_map;
mod partition;
pub mod consumer_protocol;
mod write;
mod context;
mod classic;
pub mod modern;
mod offsets;
mod commit;
mod shard;
mod transactional;
mod admin;
mod share;
mod requests;
pub mod assignor;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic;

use commit::Commit;
use context::{Context, Gathered};
use modern::TopicIdPartition;
use modern::consumer::ConsumerGroup;

use super::effects::{Effects, RequestId};
use super::event::{Event, GroupEvent};
use super::protocol::coordinator_records::{CoordinatorRecord, OffsetCommitValue};
use super::protocol::wire::WireError;
use super::protocol::{ApiKey, ErrorCode, Request};
use super::types::{
    BrokerId, ClientName, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset, Topic, TopicId, TopicPartition,
};

pub(crate) use classic::Join;
pub use classic::{ClassicGroup, InitialDelay, Member, PendingMember};
pub use config::{ConsumerGroupConfig, GroupConfig, MigrationPolicy};
pub use context::{At, MemberIds};
pub use offsets::GroupOffsets;

pub use modern::share::ShareGroupConfig;
pub use partition::{kafka_abs, partition_for};
pub use shard::{LogRecord, RecordOf, Shard};
pub use transactional::WriterOf;
pub use write::coordinator_error;

/// What the coordinator waits for by the clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupTimer {
    /// A member, or someone who was told a member id, has not been heard from (R-GRP-21).
    Session { partition: i32, group: GroupId, member: MemberId },
    /// The join phase, or the initial delay, has lasted long enough (R-GRP-12, R-GRP-13).
    Join { partition: i32, group: GroupId },
    /// Members should have sent SyncGroup by now (R-GRP-19).
    Sync { partition: i32, group: GroupId },
    /// A write is not below the high watermark yet (`offsets.commit.timeout.ms`).
    Write { partition: i32, token: u64 },
    /// A member has not given up partitions for its rebalance timeout (R-CG8-13).
    Rebalance { partition: i32, group: GroupId, member: MemberId },
    /// A classic member in a group of the newer protocol has not joined again (R-CG8-25).
    MemberJoin { partition: i32, group: GroupId, member: MemberId },
    /// A classic member in a group of the newer protocol has not sent SyncGroup (R-CG8-25).
    MemberSync { partition: i32, group: GroupId, member: MemberId },
    /// The regular expressions of a group are resolved.
    Regex { partition: i32, group: GroupId },
    /// It is time to look for offsets and groups that nobody needs any more (R-GRP-40).
    Expiration { partition: i32 },
}

impl GroupTimer {
    fn partition(&self) -> i32 {
        match self {
            GroupTimer::Session { partition, .. }
            | GroupTimer::Join { partition, .. }
            | GroupTimer::Sync { partition, .. }
            | GroupTimer::Rebalance { partition, .. }
            | GroupTimer::MemberJoin { partition, .. }
            | GroupTimer::MemberSync { partition, .. }
            | GroupTimer::Regex { partition, .. }
            | GroupTimer::Write { partition, .. }
            | GroupTimer::Expiration { partition } => *partition,
        }
    }
}

/// Records to be written as one batch to a partition of `__consumer_offsets` that this broker leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub partition: i32,
    /// Names the append when the broker tells how it went.
    pub token: u64,
    pub records: Vec<CoordinatorRecord>,
    /// Of which transaction they are, if they are of one.
    pub writer: Option<WriterOf>,
}

/// What the share coordinators are to do with states of a share group. The broker tells what came of it by
/// [`GroupCoordinator::on_states`].
#[derive(Clone, Debug, PartialEq)]
pub struct StateAsk {
    /// Of `__consumer_offsets`.
    pub partition: i32,
    pub group: GroupId,
    pub states: Vec<TopicIdPartition>,
    pub work: StateWork,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StateWork {
    /// InitializeShareGroupState in this epoch; the leaders choose where to start.
    Begin { epoch: GroupEpoch },
    /// DeleteShareGroupState, for this part of a DeleteGroups.
    Delete { to: RequestId, index: i32 },
    /// InitializeShareGroupState with these starts, for an AlterShareGroupOffsets that is answered with `response`.
    Alter {
        epoch: GroupEpoch,
        starts: BTreeMap<TopicIdPartition, Offset>,
        to: RequestId,
        response: Box<m::AlterShareGroupOffsetsResponse>,
    },
    /// DeleteShareGroupState, for a DeleteShareGroupOffsets that is answered with `refused` and what becomes of the rest.
    DeleteOffsets { to: RequestId, refused: Vec<DeleteShareGroupOffsetsResponseTopic> },
}

/// The effects of one step. Appends are carried out after the effects, in order, within the same step of the broker.
#[derive(Debug, Default)]
pub struct GroupEffects {
    pub effects: Effects<GroupTimer>,
    pub appends: Vec<Append>,
    pub states: Vec<StateAsk>,
}

#[derive(Clone, Debug)]
pub struct GroupCoordinator {
    broker: BrokerId,
    config: GroupConfig,
    ids: MemberIds,
    shards: BTreeMap<i32, Rc<Shard>>,
    /// The metadata offset at which topics were last created.
    topics_created_at: Offset,
    gathered: Gathered,
}

impl GroupCoordinator {
    /// `ids` gives the member ids.
    pub fn new(broker: BrokerId, config: GroupConfig, ids: impl Into<MemberIds>) -> GroupCoordinator {
        GroupCoordinator {
            broker,
            config,
            ids: ids.into(),
            shards: BTreeMap::new(),
            topics_created_at: Offset::ZERO,
            gathered: Gathered::new(),
        }
    }

    /// The partition of `__consumer_offsets` that keeps a group (R-GRP-1).
    pub fn partition_for(&self, group: &GroupId) -> i32 {
        partition_for(group.as_str(), self.config.offsets_topic_num_partitions)
    }

    /// The partitions that are coordinated here, with their groups.
    pub fn shards(&self) -> impl Iterator<Item = (i32, &Rc<Shard>)> {
        self.shards.iter().map(|(partition, shard)| (*partition, shard))
    }

    /// The classic groups that are coordinated here.
    pub fn groups(&self) -> impl Iterator<Item = &Rc<ClassicGroup>> {
        self.shards.values().flat_map(|shard| shard.groups())
    }

    /// The groups of the newer protocol that are coordinated here.
    pub fn consumer_groups(&self) -> impl Iterator<Item = &Rc<ConsumerGroup>> {
        self.shards.values().flat_map(|shard| shard.consumer_groups())
    }

    /// A group of the newer protocol, if it is coordinated here.
    pub fn consumer_group(&self, id: &GroupId) -> Option<&Rc<ConsumerGroup>> {
        self.shards.get(&self.partition_for(id))?.consumer_group(id)
    }

    /// The name of the assignor that plans for a group of the newer protocol.
    pub fn assignor_of<'a>(&self, group: &'a ConsumerGroup) -> &'a str {
        group.assignor(self.config.consumer.assignors[0])
    }

    /// A classic group, if it is coordinated here.
    pub fn group(&self, id: &GroupId) -> Option<&Rc<ClassicGroup>> {
        self.shards.get(&self.partition_for(id))?.group(id)
    }

    /// What a group committed for a partition, if it is coordinated here.
    pub fn committed_offset(&self, id: &GroupId, tp: &TopicPartition) -> Option<&OffsetCommitValue> {
        self.shards.get(&self.partition_for(id))?.committed_offsets(id)?.get(tp)
    }

    /// Handles the request of a group's member or administrator from `client`, whose name is the
    /// `client.id` of the request's header. `topics` gives the id of the topic of a partition that exists.
    pub fn handle(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &Request,
        topics: &dyn Fn(&TopicPartition) -> Option<TopicId>,
        fx: &mut GroupEffects,
    ) {
        match request {
            Request::JoinGroup(request) => {
                let version = ApiKey::JoinGroup.version();
                self.join(at, Join { id, client, version, request }, fx);
            }
            Request::SyncGroup(request) => self.sync(at, id, request, fx),
            Request::Heartbeat(request) => self.heartbeat(at, id, request, fx),
            Request::LeaveGroup(request) => self.leave(at, id, client, request, fx),
            Request::OffsetCommit(request) => {
                self.commit(at, id, client, request, Commit::plain(request, topics), fx);
            }
            Request::OffsetFetch(request) => self.fetch(at, id, request, fx),
            Request::ListGroups(request) => fx.effects.respond(id, self.list(request)),
            Request::DescribeGroups(request) => fx.effects.respond(id, self.describe(request)),
            Request::DeleteGroups(request) => self.delete_groups(at, id, request, fx),
            Request::OffsetDelete(request) => self.delete_offsets(at, id, client, request, topics, fx),
            Request::ConsumerGroupHeartbeat(request) => self.consumer_heartbeat(at, id, client, request, fx),
            Request::ConsumerGroupDescribe(request) => self.describe_consumer_groups(at, id, request, fx),
            Request::ShareGroupHeartbeat(request) => self.share_heartbeat(at, id, client, request, fx),
            Request::AlterShareGroupOffsets(request) => self.alter_share_offsets(at, id, request, fx),
            Request::DeleteShareGroupOffsets(request) => self.delete_share_offsets(at, id, request, fx),
            Request::ShareGroupDescribe(request) => {
                fx.effects.respond(id, self.describe_share_groups(at, request));
            }
            other => unreachable!("{} is not handled by the group coordinator", other.api().name()),
        }
    }

    /// The broker's settings changed; those of classic groups count from its start.
    pub fn reconfigure(&mut self, consumer: ConsumerGroupConfig, share: ShareGroupConfig) {
        self.config.consumer = consumer;
        self.config.share = share;
    }

    /// Topics were created, changed or deleted by the metadata log up to `offset`: groups that subscribe to them look at
    /// them again with the next heartbeat (R-CG8-7).
    pub fn on_topics_changed(&mut self, topics: &BTreeSet<Topic>, created: bool, offset: Offset) {
        if created {
            self.topics_created_at = offset;
        }
        for shard in self.shards.values_mut().filter(|shard| shard.reads_any_of(topics)) {
            Rc::make_mut(shard).on_topics_changed(topics);
        }
    }

    /// A timer that was set has run out.
    pub fn on_timer(&mut self, at: At<'_>, timer: &GroupTimer, fx: &mut GroupEffects) {
        self.if_led(at, timer.partition(), fx, |shard, cx| shard.on_timer(timer, cx));
    }

    /// The broker leads `partition` from now on. True: the broker is to read its log and call
    /// [`GroupCoordinator::on_loaded`]; false: only the leader epoch changed, and the coordinator goes on.
    pub fn on_elected(&mut self, partition: i32, leader_epoch: LeaderEpoch, fx: &mut GroupEffects) -> bool {
        let known = self.shards.get_mut(&partition);
        let begins = known.is_none();
        match known {
            Some(shard) => Rc::make_mut(shard).leader_epoch = leader_epoch,
            None => drop(self.shards.insert(partition, Rc::new(Shard::new(leader_epoch)))),
        }
        if begins {
            fx.effects.event(Event::Group(GroupEvent::CoordinatorElected {
                broker: self.broker,
                partition,
                leader_epoch,
            }));
        }
        begins
    }

    /// The log of `partition` was read, in order, up to `log_end`. What is at or above `high_watermark` is known but
    /// not yet told to anyone.
    ///
    /// # Errors
    /// A record that cannot be read: the partition is not coordinated then (NOT_COORDINATOR).
    pub fn on_loaded(
        &mut self,
        at: At<'_>,
        partition: i32,
        records: impl Iterator<Item = LogRecord>,
        log_end: Offset,
        high_watermark: Offset,
        fx: &mut GroupEffects,
    ) -> Result<(), WireError> {
        let mut result = Ok(());
        self.if_led(at, partition, fx, |shard, cx| {
            if shard.loading {
                shard.on_high_watermark(high_watermark, cx);
                result = shard.on_loaded(records, log_end, cx);
            }
        });
        if result.is_err() {
            self.shards.remove(&partition);
        }
        result
    }

    /// The broker does not lead `partition` any more.
    pub fn on_resigned(&mut self, at: At<'_>, partition: i32, fx: &mut GroupEffects) {
        if let Some(shard) = self.shards.remove(&partition) {
            Rc::unwrap_or_clone(shard).on_resigned(&mut self.context(at, partition, fx).1);
        }
    }

    /// An append was taken into the log; its last record is at `last_offset`.
    pub fn on_appended(
        &mut self,
        at: At<'_>,
        partition: i32,
        token: u64,
        last_offset: Offset,
        fx: &mut GroupEffects,
    ) {
        self.if_led(at, partition, fx, |shard, cx| shard.on_appended(token, last_offset, cx));
    }

    /// An append was refused by the log with `error`, which clients are told as in R-GRP-3.
    pub fn on_append_failed(
        &mut self,
        at: At<'_>,
        partition: i32,
        token: u64,
        error: ErrorCode,
        fx: &mut GroupEffects,
    ) {
        self.if_led(at, partition, fx, |shard, cx| shard.on_append_failed(token, error, cx));
    }

    /// The high watermark of `partition` is `high_watermark` now.
    pub fn on_high_watermark(
        &mut self,
        at: At<'_>,
        partition: i32,
        high_watermark: Offset,
        fx: &mut GroupEffects,
    ) {
        self.if_led(at, partition, fx, |shard, cx| shard.on_high_watermark(high_watermark, cx));
    }

    /// Topics are gone from the metadata: what groups committed for them goes too (R-PLACE-9).
    pub fn on_topics_deleted(
        &mut self,
        at: At<'_>,
        deleted: &BTreeMap<TopicId, Topic>,
        fx: &mut GroupEffects,
    ) {
        let partitions: Vec<i32> = self.shards.keys().copied().collect();
        for partition in partitions {
            self.if_led(at, partition, fx, |shard, cx| {
                if !shard.loading {
                    shard.on_topics_deleted(deleted, cx);
                }
            });
        }
    }

    fn shard_state(&self, group: &m::GroupId) -> Result<i32, ErrorCode> {
        let partition = self.partition_for(&GroupId::new(group));
        match self.shards.get(&partition) {
            None => Err(ErrorCode::NotCoordinator),
            Some(shard) if shard.loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Some(_) => Ok(partition),
        }
    }

    /// Works at the shard of `group`, which must be led here and loaded.
    fn with_shard(
        &mut self,
        at: At<'_>,
        group: &m::GroupId,
        fx: &mut GroupEffects,
        work: impl FnOnce(&mut Shard, &mut Context<'_>),
    ) -> Result<(), ErrorCode> {
        let partition = self.shard_state(group)?;
        self.if_led(at, partition, fx, work);
        Ok(())
    }

    fn if_led(
        &mut self,
        at: At<'_>,
        partition: i32,
        fx: &mut GroupEffects,
        work: impl FnOnce(&mut Shard, &mut Context<'_>),
    ) {
        if let (Some(shard), mut cx) = self.context(at, partition, fx) {
            work(Rc::make_mut(shard), &mut cx);
        }
    }

    fn context<'a>(
        &'a mut self,
        at: At<'a>,
        partition: i32,
        fx: &'a mut GroupEffects,
    ) -> (Option<&'a mut Rc<Shard>>, Context<'a>) {
        let GroupCoordinator { broker, config, ids, shards, topics_created_at, gathered } = self;
        (
            shards.get_mut(&partition),
            Context {
                now: at.now,
                image: at.image,
                topics_created_at: *topics_created_at,
                broker: *broker,
                partition,
                config,
                ids,
                gathered,
                fx,
            },
        )
    }
}
