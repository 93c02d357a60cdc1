//! Which replica a partition is read from: the leader, or a follower that the leader named (KIP-392, R-REPL-64).
//!
//! Mirrors `AbstractFetch.selectReadReplica` and the preferred read replica of `SubscriptionState`.

use super::owned::Owned;
use super::{Consumer, ConsumerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, TopicPartition};

impl Consumer {
    /// Preferred replicas are given up when their time is over, or when metadata shows them to be out of reach. It is done
    /// when a fetch could be sent: not for what is not fetchable or still in the buffer.
    pub(super) fn leave_lost_replicas(&mut self, now: Time) {
        self.subscription.note_metadata(self.metadata.update_version());
        let buffered = self.fetcher.buffered_partitions();
        let doubtful = self.subscription.doubtful(now).filter(|tp| !buffered.contains(tp));
        let doubtful: Vec<TopicPartition> = doubtful.cloned().collect();
        for tp in &doubtful {
            let preferred = self.subscription.owned().get(tp).and_then(|owned| owned.preferred);
            let Some((replica, until)) = preferred else { continue };
            if until < now {
                self.subscription.edit(tp, |owned| owned.preferred = None);
            } else if self.metadata.is_online(tp, replica) {
                self.subscription.note_reachable(tp);
            } else {
                self.metadata.request_update();
                self.clear_preferred(tp);
            }
        }
    }

    /// The replica failed. Which one it was, if one was preferred.
    pub(super) fn clear_preferred(&mut self, tp: &TopicPartition) -> Option<BrokerId> {
        let clear = |owned: &mut Owned| {
            owned.known_replica = None;
            owned.preferred.take()
        };
        let (replica, _) = self.subscription.edit(tp, clear)??;
        Some(replica)
    }

    /// The foremost answer may name another replica, to be read from as long as metadata is good.
    pub(super) fn take_preferred(&mut self, now: Time, tp: &TopicPartition, fx: &mut Effects<ConsumerTimer>) {
        let Some(fetched) = self.fetcher.foremost() else { return };
        let (Some(replica), offset) = (fetched.preferred, fetched.next_offset()) else { return };
        let Some(owned) = self.subscription.owned().get(tp) else { return };
        let current = owned.position().is_some_and(|position| position.offset == offset);
        if !current || owned.preferred.is_some_and(|(preferred, _)| preferred == replica) {
            return;
        }
        let until = now.plus_ms(self.config.common.metadata_max_age_ms);
        let choose = |owned: &mut Owned| {
            owned.preferred = Some((replica, until));
            owned.known_replica.replace(replica)
        };
        if self.subscription.edit(tp, choose).flatten() != Some(replica) {
            let (client, tp) = (self.spec.name.clone(), tp.clone());
            let rack = self.config.client_rack.clone();
            fx.event(Event::ReadReplicaChosen { client, tp, replica, rack });
        }
    }
}
