//! Which replica a partition is read from: the leader, or a follower that the leader named (KIP-392, R-REPL-64).
//!
//! Mirrors `AbstractFetch.selectReadReplica` and the preferred read replica of `SubscriptionState`.

use super::{Consumer, ConsumerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, TopicPartition};

impl Consumer {
    /// The preferred replica as long as that holds, else the leader.
    pub(super) fn read_replica(&self, tp: &TopicPartition, now: Time) -> Option<BrokerId> {
        let owned = self.subscription.owned().get(tp)?;
        owned.preferred_at(now).or(owned.leader.map(|(leader, _)| leader))
    }

    /// Preferred replicas that metadata shows to be out of reach are given up.
    pub(super) fn leave_lost_replicas(&mut self, now: Time) {
        let owned = self.subscription.owned().iter();
        let preferred = owned.filter_map(|(tp, owned)| Some((tp, owned.preferred_at(now)?)));
        let lost = preferred.filter(|(tp, replica)| !self.metadata.is_online(tp, *replica));
        let lost: Vec<TopicPartition> = lost.map(|(tp, _)| tp.clone()).collect();
        for tp in &lost {
            self.metadata.request_update();
            self.clear_preferred(tp);
        }
    }

    /// Which replica was preferred, if one was.
    pub(super) fn clear_preferred(&mut self, tp: &TopicPartition) -> Option<BrokerId> {
        let (replica, _) = self.subscription.get_mut(tp)?.preferred.take()?;
        Some(replica)
    }

    /// The foremost answer may name another replica, to be read from as long as metadata is good.
    pub(super) fn take_preferred(&mut self, now: Time, tp: &TopicPartition, fx: &mut Effects<ConsumerTimer>) {
        let Some(fetched) = self.fetcher.foremost() else { return };
        let (Some(replica), offset) = (fetched.preferred, fetched.next_offset()) else { return };
        let Some(owned) = self.subscription.get_mut(tp) else { return };
        let current = owned.position().is_some_and(|position| position.offset == offset);
        if !current || owned.preferred_at(now) == Some(replica) {
            return;
        }
        let until = now.plus_ms(self.config.common.metadata_max_age_ms);
        let known = owned.preferred.replace((replica, until));
        if known.is_none_or(|(known, _)| known != replica) {
            let (client, tp) = (self.spec.name.clone(), tp.clone());
            let rack = self.config.client_rack.clone();
            fx.event(Event::ReadReplicaChosen { client, tp, replica, rack });
        }
    }
}
