//! Offsets of transactions in one partition of `__consumer_offsets` (R-TXN-21, R-TXN-32, R-TXN-33).
//!
//! Mirrors `OffsetMetadataManager.commitTransactionalOffset` and `replayEndTransactionMarker`.

use std::rc::Rc;

use kafka_protocol::messages as m;

use super::{Group, Shard};
use crate::kafka::effects::RequestId;
use crate::kafka::event::GroupState;
use crate::kafka::group::classic::ClassicGroup;
use crate::kafka::group::commit::{Asked, Commit};
use crate::kafka::group::context::Context;
use crate::kafka::group::modern::consumer::CommitScope;
use crate::kafka::group::offsets::{Author, OffsetChange};
use crate::kafka::group::transactional::{WriterOf, pending_record};
use crate::kafka::group::write::{Applied, InTransaction, Then, Write};
use crate::kafka::log::VerificationGuard;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::OffsetCommitValue;
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, MemberId, Offset, ProducerEpoch, ProducerId};

impl Shard {
    pub(in crate::kafka::group) fn commit_in_transaction(
        &mut self,
        (id, client): (RequestId, &ClientName),
        request: &m::TxnOffsetCommitRequest,
        guard: Option<VerificationGuard>,
        mut commit: Commit,
        cx: &mut Context<'_>,
    ) {
        let group = GroupId::new(&request.group_id);
        let created = !self.groups.contains_key(&group);
        let scope = match self.admit_in_transaction(&group, request, cx) {
            Ok(scope) => scope,
            Err(error) => return cx.respond(id, commit.refused(error)),
        };
        let checked = |asked: &Asked| scope.check(&(asked.topic_id, asked.tp.partition));
        // Producers know of no epochs of members.
        if commit.asked().iter().any(|asked| checked(asked).is_err()) {
            return cx.respond(id, commit.refused(ErrorCode::IllegalGeneration));
        }
        let values = commit.take_values(cx, |_| Ok(()));
        let pending = |(tp, value)| ((group.clone(), tp), OffsetCommitValue { topic_id: None, ..value });
        let offsets: Vec<_> = values.into_iter().map(pending).collect();
        let records = offsets.iter().map(|(key, value)| pending_record(key, value)).collect();
        let mut changes = Vec::new();
        if plant::is(Plant::OffsetsBeforeCommit) {
            changes.extend(offsets.iter().map(|((group, tp), value)| {
                let (group, tp, after) = (group.clone(), tp.clone(), Some(value.clone()));
                let before = self.newest.set(&group, &tp, after.clone());
                OffsetChange { group, tp, before, after, author: Author::Client(client.clone()) }
            }));
        }
        let then = Then::Answer { to: id, response: commit.response() };
        let writer = WriterOf {
            producer_id: ProducerId(request.producer_id.0),
            producer_epoch: ProducerEpoch(request.producer_epoch),
            guard,
        };
        let transaction = Some(InTransaction { writer, offsets, author: Author::Client(client.clone()) });
        let applied =
            Applied { changes, transaction, created: created.then_some(group), ..Applied::default() };
        self.submit(Some(Write { records, applied, then }), cx);
    }

    /// R-TXN-32: a member, or whoever says of itself nothing; the group of one that uses no membership is made.
    fn admit_in_transaction(
        &mut self,
        id: &GroupId,
        request: &m::TxnOffsetCommitRequest,
        cx: &mut Context<'_>,
    ) -> Result<CommitScope, ErrorCode> {
        let says_nothing = request.generation_id == -1
            && request.member_id.is_empty()
            && request.group_instance_id.is_none();
        if let Some(group) = self.consumer_group(id) {
            if says_nothing {
                return Ok(CommitScope::Anything);
            }
            let scope =
                group.validate_commit(&MemberId::new(&request.member_id), GroupEpoch(request.generation_id));
            return scope.map_err(|error| match error {
                ErrorCode::StaleMemberEpoch => ErrorCode::IllegalGeneration,
                other => other,
            });
        }
        if self.share_group(id).is_some() {
            return Err(ErrorCode::GroupIdNotFound);
        }
        let Some(group) = self.group_mut(id) else {
            if request.generation_id >= 0 {
                return Err(ErrorCode::IllegalGeneration);
            }
            let group = Rc::new(ClassicGroup::new(id.clone(), cx.now));
            self.groups.insert(id.clone(), Group::Classic(group));
            return Ok(CommitScope::Anything);
        };
        group.validate_transactional_commit(request, says_nothing)?;
        Ok(CommitScope::Anything)
    }

    /// A marker is in the log: what its transaction has pending counts from now on, or is dropped.
    pub(in crate::kafka::group) fn on_marker(
        &mut self,
        producer: ProducerId,
        committed: bool,
        offset: Offset,
        cx: &mut Context<'_>,
    ) {
        self.log_end = self.log_end.max(offset + 1);
        let applied = self.end_transaction(producer, committed);
        self.wait(Some(offset), applied, Then::Nothing, cx);
        self.settle(cx);
    }

    pub(super) fn end_transaction(&mut self, producer: ProducerId, committed: bool) -> Applied {
        let mut changes = self.pending.end(producer, committed);
        for change in &mut changes {
            change.before = self.newest.set(&change.group, &change.tp, change.after.clone());
        }
        Applied { changes, ..Applied::default() }
    }

    /// An append was taken into the log: what it says of pending offsets holds.
    pub(super) fn note_pending(&mut self, applied: &Applied) {
        for change in &applied.changes {
            self.pending.on_plain(&change.group, &change.tp, change.after.is_none());
        }
        if let Some(InTransaction { writer, offsets, author }) = &applied.transaction {
            for (key, value) in offsets {
                self.pending.add(writer.producer_id, key.clone(), value.clone(), author.clone());
            }
        }
    }
}

impl ClassicGroup {
    /// As for a plain commit, but that who says nothing of itself is let through, and that a group may be about to hand
    /// out its partitions (`validateOffsetCommit`).
    fn validate_transactional_commit(
        &self,
        request: &m::TxnOffsetCommitRequest,
        says_nothing: bool,
    ) -> Result<(), ErrorCode> {
        if (request.generation_id < 0 && self.is(GroupState::Empty)) || says_nothing {
            return Ok(());
        }
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        match request.generation_id == self.generation.0 {
            true => Ok(()),
            false => Err(ErrorCode::IllegalGeneration),
        }
    }
}
