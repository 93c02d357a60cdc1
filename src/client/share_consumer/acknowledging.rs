//! Acknowledgements that go by themselves (the second half of Kafka's `ShareConsumeRequestManager`).
//!
//! **Invariant:** of everything that was said the outcome is heard once.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::exchange::{Acknowledging, Errand, merge};
use super::session::{Said, Tip};
use super::{Acknowledgements, Call, ShareConsumer};
use crate::client::consumer::ConsumerTimer;
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, ShareEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::ShareAcknowledgeResponse;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, TopicId};

/// How a try to send went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    /// There is nothing to send.
    Nothing,
    /// It was sent, or is not to be sent yet.
    Waits,
}

impl ShareConsumer {
    /// Sends what is due. True while something is under way or waits: nothing is fetched then.
    pub(super) fn send_acknowledgements(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        let errands: Vec<(BrokerId, Errand)> = self.exchange.errands.keys().copied().collect();
        let mut waits_at = None;
        for (broker, kind) in errands {
            if !self.exchange.busy.contains(&broker)
                && waits_at != Some(broker)
                && self.send_errand(now, broker, kind, fx) == Try::Waits
            {
                waits_at = Some(broker);
            }
        }
        self.exchange.errands.retain(|(_, kind), errand| match kind {
            Errand::Close => !errand.is_over,
            Errand::Async | Errand::Sync => errand.in_flight || !errand.has_nothing_to_say(),
        });
        !self.exchange.errands.is_empty()
    }

    fn send_errand(
        &mut self,
        now: Time,
        broker: BrokerId,
        kind: Errand,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Try {
        let Some(errand) = self.exchange.errands.get_mut(&(broker, kind)) else { return Try::Nothing };
        if errand.is_over || (kind != Errand::Close && errand.has_nothing_to_say()) {
            return Try::Nothing;
        }
        if errand.attempts > 0 && errand.deadline <= now {
            let expired = std::mem::take(&mut errand.again);
            self.errand_is_over(now, (broker, kind));
            self.heard(expired, Some(ErrorCode::RequestTimedOut), fx);
            return Try::Nothing;
        }
        if errand.not_before > now {
            return Try::Waits;
        }
        let said = match errand.again.is_empty() {
            true => std::mem::take(&mut errand.to_send),
            false => std::mem::take(&mut errand.again),
        };
        errand.in_flight = true;
        errand.attempts += 1;
        self.exchange.busy.insert(broker);
        let who = (self.spec.group.as_str(), self.member.id.as_str());
        let session = self.exchange.sessions.get_mut(&broker);
        let request = session.and_then(|session| {
            if kind == Errand::Close {
                session.close();
            }
            session.acknowledge(who, &said)
        });
        let call = Call::Acknowledge { broker, kind, said: Rc::new(said) };
        let peer = metadata::main_peer(broker);
        match request {
            None => self.acknowledge_failed(now, call, ErrorCode::NotLeaderOrFollower, fx),
            // Nobody listens there now; Java's client does not wait for it.
            Some(_) if !self.metadata.knows(broker) || self.requests.is_unavailable(now, peer) => {
                self.acknowledge_failed(now, call, ErrorCode::NetworkException, fx);
            }
            Some(request) => {
                self.requests.send(now, peer, request, call, self.config.common.request_timeout_ms, fx);
            }
        }
        Try::Waits
    }

    pub(super) fn on_acknowledge(
        &mut self,
        now: Time,
        (broker, kind): (BrokerId, Errand),
        said: &Said,
        answer: &ShareAcknowledgeResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.exchange.busy.remove(&broker);
        let error = ErrorCode::from_code(answer.error_code);
        let mut left = said.clone();
        if kind != Errand::Close {
            if let Some(session) = self.exchange.sessions.get_mut(&broker) {
                session.answered(error);
            }
            if error != ErrorCode::None && error.is_retriable() {
                return self.try_again(now, (broker, kind), left);
            }
            if error != ErrorCode::None {
                self.errand_is_over(now, (broker, kind));
                return self.heard(left, Some(error), fx);
            }
        }
        let mut again = Said::new();
        for topic in &answer.responses {
            for part in &topic.partitions {
                let tip = self.tip(broker, TopicId(topic.topic_id), part.partition_index);
                let Some((tip, acknowledgements)) = tip.and_then(|tip| left.remove_entry(&tip)) else {
                    continue;
                };
                self.take_leader_hint(&tip.tp, part.error_code, &part.current_leader, &answer.node_endpoints);
                let error = ErrorCode::from_code(part.error_code);
                let of_tip = Said::from([(tip, acknowledgements)]);
                match kind != Errand::Close && is_tried_again(error) {
                    true => merge(&mut again, of_tip),
                    false => self.heard(of_tip, Some(error).filter(|error| !error.is_ok()), fx),
                }
            }
        }
        match again.is_empty() {
            true => self.errand_is_over(now, (broker, kind)),
            false => self.try_again(now, (broker, kind), again),
        }
        self.heard(left, Some(ErrorCode::InvalidRecordState), fx);
        if kind == Errand::Close {
            self.exchange.sessions.remove(&broker);
        }
    }

    /// It could not be sent, or what became of it is not known.
    pub(super) fn acknowledge_failed(
        &mut self,
        now: Time,
        call: Call,
        error: ErrorCode,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let Call::Acknowledge { broker, kind, said } = call else { return };
        self.exchange.busy.remove(&broker);
        if let Some(session) = self.exchange.sessions.get_mut(&broker) {
            session.broken();
        }
        self.errand_is_over(now, (broker, kind));
        self.heard((*said).clone(), Some(error), fx);
        if kind == Errand::Close {
            self.exchange.sessions.remove(&broker);
        }
    }

    fn try_again(&mut self, now: Time, key: (BrokerId, Errand), said: Said) {
        let Some(errand) = self.exchange.errands.get_mut(&key) else { return };
        errand.in_flight = false;
        merge(&mut errand.again, said);
        let wait_ms = self.config.common.retry_backoff.after(errand.attempts - 1, &mut self.random);
        errand.not_before = now.plus_ms(wait_ms);
    }

    fn errand_is_over(&mut self, now: Time, key: (BrokerId, Errand)) {
        let deadline = now.plus_ms(self.config.default_api_timeout_ms);
        if let Some(errand) = self.exchange.errands.get_mut(&key) {
            errand.in_flight = false;
            errand.is_over = key.1 == Errand::Close;
            (errand.attempts, errand.not_before, errand.deadline) = (0, Time::ZERO, deadline);
        }
    }

    pub(super) fn commit_async(
        &mut self,
        now: Time,
        said: Vec<(BrokerId, Tip, Acknowledgements)>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.begin_errands(now, Errand::Async, said, fx);
    }

    /// Acknowledgements get under way; those of records from somebody who does not lead any more have failed.
    pub(super) fn begin_errands(
        &mut self,
        now: Time,
        kind: Errand,
        said: Vec<(BrokerId, Tip, Acknowledgements)>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let deadline = now.plus_ms(self.config.default_api_timeout_ms);
        for (broker, said) in self.sendable(said, fx) {
            let errand = self.exchange.errands.entry((broker, kind));
            let errand = errand.or_insert_with(|| Acknowledging::new(Said::new(), deadline));
            merge(&mut errand.to_send, said);
        }
    }

    /// With what is said, all sessions end.
    pub(super) fn begin_to_end_sessions(
        &mut self,
        until: Time,
        mut said: Vec<(BrokerId, Tip, Acknowledgements)>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        for (broker, with_fetch) in std::mem::take(&mut self.exchange.with_fetch) {
            said.extend(
                with_fetch.into_iter().map(|(tip, acknowledgements)| (broker, tip, acknowledgements)),
            );
        }
        let mut said = self.sendable(said, fx);
        for broker in self.exchange.sessions.keys() {
            let said = said.remove(broker).unwrap_or_default();
            self.exchange.errands.insert((*broker, Errand::Close), Acknowledging::new(said, until));
        }
    }

    fn sendable(
        &mut self,
        said: Vec<(BrokerId, Tip, Acknowledgements)>,
        fx: &mut Effects<ConsumerTimer>,
    ) -> BTreeMap<BrokerId, Said> {
        let mut sendable: BTreeMap<BrokerId, Said> = BTreeMap::new();
        for (broker, tip, acknowledgements) in said {
            let session = self.exchange.sessions.get(&broker);
            let is_known = session.is_some_and(|session| session.partitions().contains(&tip));
            let is_leader = self.metadata.knows(broker) && !self.has_another_leader(&tip.tp, broker);
            let of_tip = Said::from([(tip, acknowledgements)]);
            match is_known && is_leader {
                true => merge(sendable.entry(broker).or_default(), of_tip),
                false => self.heard(of_tip, Some(ErrorCode::NotLeaderOrFollower), fx),
            }
        }
        sendable
    }

    /// The outcome of what was said is known: `None` if it is in effect.
    pub(super) fn heard(&mut self, said: Said, error: Option<ErrorCode>, fx: &mut Effects<ConsumerTimer>) {
        for (tip, acknowledgements) in &said {
            fx.event(Event::Share(ShareEvent::Heard {
                client: self.spec.name.clone(),
                group: self.spec.group.clone(),
                tp: tip.tp.clone(),
                said: acknowledgements.iter().collect(),
                error,
            }));
        }
        if said.values().any(Acknowledgements::renews) {
            self.exchange.heard.push((said, error));
        }
    }
}

/// Whether a partition's acknowledgements are sent again. Where the leader has changed the locks are gone, and a topic that
/// is gone has no records.
fn is_tried_again(error: ErrorCode) -> bool {
    !error.is_ok()
        && error.is_retriable()
        && !matches!(
            error,
            ErrorCode::NotLeaderOrFollower
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
        )
}
