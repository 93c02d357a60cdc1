//! Group coordinators, held to their own logs and to who is still there (R-GRP-3, 4, 21).
//!
//! **Invariant:** the log is read here anew, by nothing but the codecs of its records.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::consumer::Consumer;
use crate::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval};
use crate::kafka::group::{ClassicGroup, Member, Shard};
use crate::kafka::log::Log;
use crate::kafka::protocol::coordinator_records::{
    ConsumerRecord, GroupMetadataValue, OffsetCommitValue, RecordKey,
};
use crate::kafka::protocol::wire::WireError;
use crate::kafka::record::Record;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, Generation, GroupId, LeaderEpoch, MemberId, Offset, ProducerId, Topic, TopicPartition,
};
use crate::sim::{ProcessState, World};
use crate::swarm::check::{Broken, Check, Verdict};

use super::committed_offsets::CommittedOffsets;
use super::modern_group::{ModernGroups, check_stable};
use super::sight;

/// How much longer than its session a member that is gone may stay: for what it sent and is still on its way.
const SLACK_MS: i64 = 30_000;
/// A member that joins for the first time cannot send heartbeats, and nobody notices that its connection is gone while its
/// request waits for the others: it has this long (`GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin`).
const NEW_MEMBER_MS: i64 = 300_000;

/// What was seen of all coordinators.
#[derive(Default)]
pub struct CoordinatorWatch {
    replays: BTreeMap<i32, Replay>,
    ghosts: BTreeMap<(GroupId, MemberId), Ghost>,
    /// Members that left while that could not be written: the coordinator looks after them no more (`cancelTimers` comes
    /// before the write that fails), and stays so until another takes over.
    forsaken: BTreeSet<(GroupId, MemberId)>,
}

/// One broker's turn as the coordinator of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    broker: BrokerId,
    incarnation: u32,
    leader_epoch: LeaderEpoch,
}

/// What the log of a partition of `__consumer_offsets` says below the high watermark.
struct Replay {
    turn: Turn,
    next: Offset,
    offsets: CommittedOffsets,
    groups: BTreeMap<GroupId, (Generation, BTreeSet<String>)>,
    modern: ModernGroups,
}

/// A member that no client goes by any more.
struct Ghost {
    since: Time,
    turn: Turn,
    /// Whoever goes through a rebalance of a classic group has its whole session again.
    stage: Option<(Generation, GroupState)>,
}

impl CoordinatorWatch {
    /// A broker's groups. Returns how many committed offsets were compared.
    pub fn check(&mut self, world: &World, broker: BrokerId) -> Result<u64, Broken> {
        let Some(process) = world.process(broker) else { return Ok(0) };
        let Some(machine) = world.broker(broker) else { return Ok(0) };
        if !matches!(process.state, ProcessState::Running(_)) {
            self.ghosts.retain(|_, ghost| ghost.turn.broker != broker);
            return Ok(0);
        }
        let mut compared = 0;
        for (partition, shard) in machine.groups().shards().filter(|(_, shard)| !shard.loading) {
            let tp = TopicPartition::new(&Topic::new("__consumer_offsets"), partition);
            let Some(replica) = sight::replica(world, broker, &tp).filter(|replica| replica.is_leader())
            else {
                continue;
            };
            let turn = Turn { broker, incarnation: process.incarnation, leader_epoch: replica.leader_epoch };
            let place = |broken: Broken| broken.at(format!("broker {broker}: {tp}"));
            let replay = self.replays.entry(partition).or_insert_with(|| Replay::new(turn));
            if replay.turn != turn {
                *replay = Replay::new(turn);
            }
            replay.follow(&replica.log).map_err(place)?;
            let is_settled = replica.log.high_watermark() == replica.log.log_end_offset();
            compared += replay.check(shard, is_settled).map_err(place)?;
            let image = machine.image();
            shard.consumer_groups().try_for_each(|group| check_stable(group, image)).map_err(place)?;
            self.check_ghosts(world, turn, shard).map_err(place)?;
        }
        Ok(compared)
    }

    /// The groups with members that nobody looks after.
    pub fn forsaken(&self) -> impl Iterator<Item = &GroupId> {
        self.forsaken.iter().map(|(group, _)| group)
    }

    /// What coordinators could not write of who is gone: it is tried again, or left (R-CG8-14).
    pub fn hear(&mut self, at: Time, event: &Event) {
        let Event::Group(event) = event else { return };
        match event {
            GroupEvent::MemberKept { group, member, reason, .. } => {
                let key = (group.clone(), member.clone());
                if *reason == MemberRemoval::Left {
                    self.forsaken.insert(key);
                } else if let Some(ghost) = self.ghosts.get_mut(&key) {
                    ghost.since = at;
                }
            }
            GroupEvent::MemberAdded { group, member, .. }
            | GroupEvent::MemberRemoved { group, member, .. } => {
                self.forsaken.remove(&(group.clone(), member.clone()));
            }
            GroupEvent::CoordinatorLoaded { groups, .. } => {
                self.forsaken.retain(|(group, _)| !groups.contains(group));
            }
            _ => {}
        }
    }

    /// The offset that a group has committed, by the log of whoever coordinates it.
    pub fn committed(&self, partition: i32, group: &GroupId, tp: &TopicPartition) -> Option<Offset> {
        self.replays.get(&partition)?.offsets.get(group, tp)
    }

    /// R-GRP-11, 21: a member that is not heard from is removed when its session is over, or the time for new ones is.
    fn check_ghosts(&mut self, world: &World, turn: Turn, shard: &Shard) -> Verdict {
        // A static member goes under the client.id of the process that first had its instance id; and one that cannot come
        // back, as its new id is not written, renews the session of the old one with each try.
        let consumers = || sight::consumers(world);
        let is_in_group = |consumer: &&Consumer| {
            consumer.membership().modern.as_ref().is_none_or(|member| member.sends_heartbeats())
        };
        let there = consumers().filter(is_in_group);
        let there: BTreeSet<&MemberId> =
            there.map(|consumer| &consumer.membership().identity.member).collect();
        let returns = |group: &ClassicGroup, member: &Member| {
            let same = |consumer: &Consumer| {
                let id = consumer.config().group_instance_id.as_deref();
                id.is_some() && id == member.instance_id.as_deref() && consumer.spec().group == group.id
            };
            consumers().any(same)
        };
        for group in shard.groups() {
            for member in group.members.values() {
                let is_there =
                    there.contains(&member.id) || returns(group, member) || member.has_satisfied_heartbeat();
                let session_ms = if member.is_new { NEW_MEMBER_MS } else { member.session_timeout_ms.into() };
                let stage = Some((group.generation, group.state));
                let key = (group.id.clone(), member.id.clone());
                self.check_ghost(world, turn, key, stage, is_there, session_ms)?;
            }
        }
        // R-CG8-14, 21. The session of a static member that is away goes on; a classic one may be back under another id.
        for group in shard.consumer_groups() {
            let session_ms = i64::from(world.broker_config().group_consumer_session_timeout_ms);
            let members = group.base.members.values();
            for member in members.filter(|member| member.instance_id.is_none() || member.classic.is_none()) {
                let classic = member.classic.as_ref().map(|classic| classic.session_timeout_ms.into());
                let session_ms = session_ms.max(classic.unwrap_or(0));
                let is_there = there.contains(&member.id);
                let key = (group.base.id.clone(), member.id.clone());
                self.check_ghost(world, turn, key, None, is_there, session_ms)?;
            }
        }
        Ok(())
    }

    fn check_ghost(
        &mut self,
        world: &World,
        turn: Turn,
        key: (GroupId, MemberId),
        stage: Option<(Generation, GroupState)>,
        is_there: bool,
        session_ms: i64,
    ) -> Verdict {
        if is_there || self.forsaken.contains(&key) {
            self.ghosts.remove(&key);
            return Ok(());
        }
        let seen = || Ghost { since: world.now(), turn, stage };
        let ghost = self.ghosts.entry(key.clone()).or_insert_with(seen);
        if (ghost.turn, ghost.stage) != (turn, stage) {
            *ghost = seen();
        }
        let gone_ms = world.now().ms() - ghost.since.ms();
        let fault = |(group, member)| format!("{member} of {group} is gone for {gone_ms} ms and a member");
        Check::SessionEnds.verdict((gone_ms > session_ms + SLACK_MS).then(|| fault(key)))
    }
}

impl Replay {
    fn new(turn: Turn) -> Replay {
        let (offsets, groups, modern) = Default::default();
        Replay { turn, next: Offset::ZERO, offsets, groups, modern }
    }

    /// Reads on up to the high watermark.
    fn follow(&mut self, log: &Log) -> Verdict {
        let unreadable = |error: &dyn std::fmt::Display| Check::CoordinatorState.broken(error.to_string());
        let (from, to) = (self.next.max(log.log_start_offset()), log.high_watermark());
        for batch in log.batches_from(from).take_while(|batch| batch.base_offset() < to) {
            if batch.is_control() {
                let marker = batch.end_transaction_marker().map_err(|error| unreadable(&error))?;
                let committed = marker.is_some_and(|marker| marker.committed);
                self.offsets.end_transaction(batch.producer_id(), committed);
                continue;
            }
            let transaction = batch.is_transactional().then(|| batch.producer_id());
            for record in batch.records().map_err(|error| unreadable(&error))? {
                if record.offset >= from {
                    self.apply(&record, transaction).map_err(|error| unreadable(&error))?;
                }
            }
        }
        self.next = to;
        self.modern.check_owners()
    }

    fn apply(&mut self, record: &Record, transaction: Option<ProducerId>) -> Result<(), WireError> {
        match RecordKey::decode(record.key.as_deref().unwrap_or_default())? {
            RecordKey::OffsetCommit(group, tp) => {
                let value = record.value.as_deref().map(OffsetCommitValue::decode).transpose()?;
                let offset = value.map(|value| value.offset);
                self.offsets.take((group, tp), record.offset, offset, transaction);
            }
            RecordKey::GroupMetadata(group) => match &record.value {
                Some(value) => {
                    let value = GroupMetadataValue::decode(value)?;
                    let members = value.members.iter();
                    let members = members.map(|m| place_of(&m.member_id, m.group_instance_id.as_deref()));
                    self.groups.insert(group, (value.generation, members.collect()));
                }
                None => {
                    self.groups.remove(&group);
                }
            },
            RecordKey::Consumer(group, key) => {
                self.modern.apply(&group, ConsumerRecord::decode(key, record.value.as_deref())?);
            }
            RecordKey::Share(..) | RecordKey::Other(_) => {}
        }
        Ok(())
    }

    /// R-GRP-3, 4: what a coordinator knows is what its log says. Groups are taken up as soon as they are written.
    fn check(&self, shard: &Shard, is_settled: bool) -> Result<u64, Broken> {
        let known = shard.all_committed_offsets().flat_map(|(group, offsets)| {
            offsets.iter().map(move |(tp, value)| ((group.clone(), tp.clone()), value.offset))
        });
        let known: BTreeMap<_, _> = known.collect();
        if let Some(fault) = first_difference(&known, &self.offsets.all()) {
            return Err(Check::CoordinatorState.broken(fault));
        }
        if is_settled {
            shard.groups().try_for_each(|group| self.check_group(group))?;
            self.modern.check_known(shard.consumer_groups().map(|group| &**group))?;
        }
        Ok(known.len() as u64)
    }

    /// What a Stable group is, is written. One that became Empty may not be: Kafka lets it be so when that write fails.
    fn check_group(&self, group: &ClassicGroup) -> Verdict {
        let members = group.members.values();
        let known: BTreeSet<String> = members.map(|m| place_of(&m.id, m.instance_id.as_deref())).collect();
        let written = self.groups.get(&group.id);
        let is_written = match group.state {
            GroupState::Stable => {
                written.is_some_and(|written| *written == (group.generation, known.clone()))
            }
            _ => written.is_none_or(|(generation, _)| *generation <= group.generation),
        };
        if is_written {
            return Ok(());
        }
        let (id, state, generation) = (&group.id, group.state, group.generation);
        let fault =
            format!("{id} is {state:?} in generation {generation} with {known:?}, its log says {written:?}");
        Err(Check::CoordinatorState.broken(fault))
    }
}

/// By what a member is known. A static one keeps its place under another id, and has the old one back when the write of the
/// new one takes longer than the coordinator waits, while the record may still become safe (R-GRP-24).
fn place_of(member: &MemberId, instance_id: Option<&str>) -> String {
    instance_id.unwrap_or(member.as_str()).to_string()
}

/// The first offset of which a coordinator and its log say different things.
fn first_difference(
    known: &BTreeMap<(GroupId, TopicPartition), Offset>,
    written: &BTreeMap<(GroupId, TopicPartition), Offset>,
) -> Option<String> {
    let other = |(key, offset): &(&(GroupId, TopicPartition), &Offset)| written.get(key) != Some(offset);
    let ((group, tp), _) =
        known.iter().find(other).or_else(|| written.iter().find(|(key, _)| !known.contains_key(*key)))?;
    let key = (group.clone(), tp.clone());
    let [known, written] = [known, written].map(|offsets| offsets.get(&key).copied());
    Some(format!("the committed offset of {group} in {tp} is {known:?}, its log says {written:?}"))
}
