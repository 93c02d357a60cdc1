//! Positions after a change of leader: does the new leader's log still hold what is before them (KIP-320, R-CONS-32).
//!
//! Mirrors `PositionsValidator`, `OffsetsForLeaderEpochUtils` and `SubscriptionState.maybeCompleteValidation`.
//!
//! **Invariant:** a position is fetched from a leader only if it has no epoch or that leader, in that epoch, confirmed it.

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName};

use super::offsets::{CONSUMER, by_topic};
use super::owned::{FetchState, Position};
use super::requests::Call;
use super::subscription::Validation;
use super::{Consumer, ConsumerTimer};
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, Topic, TopicPartition};

impl Consumer {
    /// Asks leaders about the positions that they have not confirmed.
    pub(super) fn validate_positions(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.validated_version != self.metadata.update_version() {
            self.validated_version = self.metadata.update_version();
            for tp in self.subscription.partitions() {
                self.subscription.maybe_validate(&tp, self.metadata.leader(&tp));
            }
        }
        let mut by_leader: BTreeMap<BrokerId, Vec<Validation>> = BTreeMap::new();
        for validation in self.subscription.to_validate(now) {
            if !self.requests.is_unavailable(now, metadata::main_peer(validation.leader)) {
                by_leader.entry(validation.leader).or_default().push(validation);
            }
        }
        let timeout_ms = self.config.common.request_timeout_ms;
        for (leader, validations) in by_leader {
            for Validation { tp, .. } in &validations {
                self.subscription.set_validation_retry(tp, now.plus_ms(timeout_ms));
            }
            let request = request_for(&validations);
            let call = Call::OffsetForLeaderEpoch(validations.into());
            self.requests.send(now, metadata::main_peer(leader), request, call, timeout_ms, fx);
        }
    }

    pub(super) fn on_offsets_for_leader_epoch(
        &mut self,
        now: Time,
        asked: &Rc<[Validation]>,
        answer: &OffsetForLeaderEpochResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let answers = answer.topics.iter().flat_map(|topic| {
            let name = Topic::new(&topic.topic.0);
            topic.partitions.iter().map(move |answer| (TopicPartition::new(&name, answer.partition), answer))
        });
        let ends: BTreeMap<TopicPartition, (LeaderEpoch, Offset)> = answers
            .filter(|(_, answer)| ErrorCode::from_code(answer.error_code).is_ok())
            .map(|(tp, answer)| (tp, (LeaderEpoch(answer.leader_epoch), Offset(answer.end_offset))))
            .collect();
        let mut truncated = false;
        for validation in asked.iter() {
            match ends.get(&validation.tp) {
                Some(end) => truncated |= self.complete_validation(validation, *end, fx),
                None => self.validation_failed(now, &validation.tp),
            }
        }
        if truncated {
            // LogTruncationException, an OffsetOutOfRangeException.
            self.fail(ErrorCode::OffsetOutOfRange);
        }
    }

    /// Takes the end of the position's epoch in the leader's log. Whether the log was cut before the position, and the
    /// application has to be told as there is no reset strategy.
    fn complete_validation(
        &mut self,
        asked: &Validation,
        (epoch, end): (LeaderEpoch, Offset),
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        let Some(owned) = self.subscription.owned().get(&asked.tp) else { return false };
        let FetchState::AwaitValidation { position, .. } = owned.state else { return false };
        if (position, owned.leader) != (asked.position, Some((asked.leader, asked.leader_epoch))) {
            return false;
        }
        let known = epoch != LeaderEpoch::NONE && end != Offset::UNKNOWN;
        if known && end >= position.offset {
            self.subscription.set_position(&asked.tp, position);
            return false;
        }
        let (client, tp) = (self.spec.name.clone(), asked.tp.clone());
        let end_known = known.then_some(end);
        fx.event(Event::TruncationDetected { client, tp, position: position.offset, end: end_known });
        match self.config.auto_offset_reset {
            None => return true,
            Some(_) if known => {
                self.subscription.set_position(&asked.tp, Position { offset: end, epoch });
            }
            Some(strategy) => self.subscription.reset(&asked.tp, strategy),
        }
        false
    }

    /// The leader is to be asked again after a back-off.
    pub(super) fn validation_failed(&mut self, now: Time, tp: &TopicPartition) {
        self.subscription.set_validation_retry(tp, now.plus_ms(self.config.common.retry_backoff.initial_ms));
        self.metadata.request_update();
    }
}

fn request_for(validations: &[Validation]) -> OffsetForLeaderEpochRequest {
    let partition = |validation: &Validation| {
        OffsetForLeaderPartition::default()
            .with_partition(validation.tp.partition)
            .with_current_leader_epoch(validation.leader_epoch.0)
            .with_leader_epoch(validation.position.epoch.0)
    };
    let topics = by_topic(validations.iter().map(|validation| (&validation.tp, partition(validation))));
    let topic = |(topic, partitions): (&Topic, Vec<OffsetForLeaderPartition>)| {
        OffsetForLeaderTopic::default().with_topic(TopicName(topic.to_wire())).with_partitions(partitions)
    };
    OffsetForLeaderEpochRequest::default()
        .with_replica_id(CONSUMER)
        .with_topics(topics.into_iter().map(topic).collect())
}
