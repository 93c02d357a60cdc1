//! Acknowledgements, alone or with a fetch (`KafkaApis.handleAcknowledgements`, `SharePartitionManager.acknowledge`).
//!
//! **Invariant:** what is acknowledged of one partition is taken as a whole or not at all.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::key::ShareKey;
use super::super::partition::Acknowledgement;
use super::super::range::OffsetRange;
use super::super::sessions::{FINAL_EPOCH, TopicIdPartition};
use super::super::state::AcknowledgeType;
use super::answer::{Kind, Pending};
use super::tell::changes;
use super::{Ground, ManagerEffects, Persist, SharePartitionManager};
use crate::kafka::effects::RequestId;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{
    AcknowledgementBatch, ShareAcknowledgeRequest, ShareAcknowledgeResponse,
};
use crate::kafka::types::{GroupId, MemberId, Offset, TopicId};

/// What a request acknowledges of each partition.
pub(super) type Acknowledgements<'a> = BTreeMap<TopicIdPartition, &'a [AcknowledgementBatch]>;

impl SharePartitionManager {
    pub fn acknowledge(
        &mut self,
        id: RequestId,
        request: &ShareAcknowledgeRequest,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let who = who(request.group_id.as_deref(), request.member_id.as_deref());
        let opened =
            who.and_then(|who| self.sessions.acknowledge(&who, request.share_session_epoch).map(|()| who));
        let (group, member) = match opened {
            Ok(who) => who,
            Err(error) => {
                let error_code = error.code();
                let refusal = ShareAcknowledgeResponse { error_code, ..ShareAcknowledgeResponse::default() };
                return fx.effects.respond(id, refusal);
            }
        };
        let parts = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| {
                let tip = (TopicId(topic.topic_id), partition.partition_index);
                (tip, partition.acknowledgement_batches.as_slice())
            })
        });
        let parts: Acknowledgements<'_> = parts.collect();
        let pending = Pending {
            kind: Kind::Acknowledge,
            group,
            member,
            closes: request.share_session_epoch == FINAL_EPOCH,
            acknowledged: parts.keys().map(|tip| (*tip, None)).collect(),
            fetched: Some(BTreeMap::new()),
        };
        self.pending.insert(id, pending);
        self.take_acknowledgements(id, parts, request.is_renew_ack, ground, fx);
        self.try_answer(id, ground, fx);
    }

    /// Takes what a pending request acknowledges.
    pub(super) fn take_acknowledgements(
        &mut self,
        id: RequestId,
        parts: Acknowledgements<'_>,
        is_renew_ack: bool,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        for (tip, batches) in parts {
            let Some((group, member)) =
                self.pending.get(&id).map(|pending| (pending.group.clone(), pending.member.clone()))
            else {
                return;
            };
            let key = ShareKey { group, topic_id: tip.0, partition: tip.1 };
            let checked = check(tip, batches, is_renew_ack, ground);
            let taken = checked.and_then(|said| self.take(id, &key, &member, &said, ground, fx));
            match taken {
                // The answer comes when it is persisted.
                Ok(true) => {}
                Ok(false) => self.acknowledged(id, tip, None, ground, fx),
                Err(error) => self.acknowledged(id, tip, Some(error), ground, fx),
            }
            self.wake(&key, ground, fx);
        }
    }

    /// True if something is to be persisted first.
    fn take(
        &mut self,
        id: RequestId,
        key: &ShareKey,
        member: &MemberId,
        said: &[Acknowledgement],
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) -> Result<bool, ErrorCode> {
        if said.is_empty() {
            return Ok(false);
        }
        let slot = self.slots.get_mut(key).map(Rc::make_mut).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let instance = slot.instance;
        // One that is being read back has handed out nothing.
        let partition = slot.partition.as_mut().ok_or(ErrorCode::InvalidRecordState)?;
        let settings = ground.settings(&key.group);
        let write = partition.acknowledge(member, said, &settings, ground.now);
        if let Ok(write) = &write {
            let changes = changes(said, write.as_ref(), partition);
            fx.tell_acknowledged(key, slot, member, changes, ground);
        }
        slot.arm(key, fx);
        match write {
            Ok(Some(write)) => {
                self.writers.insert((key.clone(), instance, write.id), id);
                fx.persist.push(Persist::Write { key: key.clone(), instance, write });
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Who sends a request.
pub(super) fn who(group: Option<&str>, member: Option<&str>) -> Result<(GroupId, MemberId), ErrorCode> {
    const MAX_MEMBER_ID: usize = 36;
    let member = member.filter(|member| !member.is_empty() && member.len() <= MAX_MEMBER_ID);
    let (group, member) = group.zip(member).ok_or(ErrorCode::InvalidRequest)?;
    Ok((GroupId::new(group), MemberId::new(member)))
}

/// `validateAcknowledgementBatches`: in order, without overlaps, each with one type or one for each offset.
fn check(
    tip: TopicIdPartition,
    batches: &[AcknowledgementBatch],
    is_renew_ack: bool,
    ground: &Ground<'_>,
) -> Result<Vec<Acknowledgement>, ErrorCode> {
    let tp = ground.name_of(tip).ok_or(ErrorCode::UnknownTopicId)?;
    let mut previous_last = -1;
    let mut said = Vec::with_capacity(batches.len());
    for batch in batches {
        let types: Option<Vec<AcknowledgeType>> =
            batch.acknowledge_types.iter().map(|id| AcknowledgeType::from_id(*id)).collect();
        let types = types.ok_or(ErrorCode::InvalidRequest)?;
        let range = OffsetRange::new(Offset(batch.first_offset), Offset(batch.last_offset));
        let is_sound = range.count() > 0
            && batch.first_offset >= previous_last
            && !types.is_empty()
            && (types.len() == 1 || types.len() as i64 == range.count())
            && (is_renew_ack || !types.contains(&AcknowledgeType::Renew));
        if !is_sound {
            return Err(ErrorCode::InvalidRequest);
        }
        previous_last = batch.last_offset;
        said.push(Acknowledgement { range, types });
    }
    match ground.image.partition(&tp) {
        Some(_) => Ok(said),
        None => Err(ErrorCode::UnknownTopicOrPartition),
    }
}
