//! The ground of the share partition manager: its broker's replicas, metadata and way to the share coordinators
//! (R-SHARE-3, 14).

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, Incoming, RequestId};
use crate::kafka::protocol::share::{ShareAcknowledgeRequest, ShareFetchRequest};
use crate::kafka::share::SharePartitionManager;
use crate::kafka::share::manager::{Ground, ManagerEffects, ShareFetchTimer};
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

impl Broker {
    pub(super) fn on_share_fetch(
        &mut self,
        now: Time,
        id: RequestId,
        request: &ShareFetchRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.fetch(id, request, ground, part));
    }

    pub(super) fn on_share_acknowledge(
        &mut self,
        now: Time,
        id: RequestId,
        request: &ShareAcknowledgeRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.acknowledge(id, request, ground, part));
    }

    pub(super) fn on_share_fetch_timer(
        &mut self,
        now: Time,
        timer: &ShareFetchTimer,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.on_timer(timer, ground, part));
    }

    /// A client is gone, or has closed its connection.
    pub(super) fn on_gone(&mut self, now: Time, incoming: Incoming, fx: &mut Effects<BrokerTimer>) {
        if self.shares.sessions().knows(incoming) {
            self.at_shares(now, fx, |shares, ground, part| shares.on_disconnected(incoming, ground, part));
        }
    }

    pub(super) fn on_readable(&mut self, now: Time, tp: &TopicPartition, fx: &mut Effects<BrokerTimer>) {
        if self.shares.is_waited_for() {
            self.at_shares(now, fx, |shares, ground, part| shares.on_high_watermark(tp, ground, part));
        }
    }

    /// Runs one of the manager's steps, and passes on what it wants persisted.
    pub(super) fn at_shares(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut SharePartitionManager, &Ground<'_>, &mut ManagerEffects),
    ) {
        let image = self.image.clone();
        let fetch_max_bytes = self.config.fetch_max_bytes;
        let ground =
            Ground { broker: self.id, now, image: &image, replicas: &self.replicas, fetch_max_bytes };
        let mut part = ManagerEffects::default();
        run(&mut self.shares, &ground, &mut part);
        fx.absorb(part.effects);
        if !part.persist.is_empty() {
            self.persister.submit(now, part.persist);
            self.flush_persister(now, fx);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
