//! Which replica a consumer is to read from (KIP-392, R-REPL-62, 63).
//!
//! Mirrors `ReplicaManager.findPreferredReadReplica`, `RackAwareReplicaSelector` and `ReplicaView`.

use super::leader::Remote;
use super::manager::{ReplicaManager, Step};
use super::partition::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Offset};

/// A follower that could serve a consumer (`ReplicaView`).
#[derive(Clone, Debug)]
struct Candidate {
    id: BrokerId,
    rack: Option<String>,
    log_end_offset: Offset,
    last_caught_up_at: Option<Time>,
}

impl ReplicaManager {
    /// The replica that is nearer to a consumer in `rack` than this broker, if this broker leads and there is one that has
    /// what is asked for.
    pub(super) fn preferred_read_replica(
        &self,
        partition: &Partition,
        rack: &str,
        offset: Offset,
        step: &Step<'_>,
    ) -> Option<BrokerId> {
        if !self.config.rack_aware_replica_selector {
            return None;
        }
        let leader = partition.leader()?;
        let rack_of = |id: BrokerId| {
            let broker = step.image.brokers.get(&id).filter(|broker| !broker.fenced);
            broker.and_then(|broker| broker.rack.clone())
        };
        let serves = |remote: &Remote| remote.log_start_offset <= offset && offset <= remote.log_end_offset;
        let followers = leader.remotes.iter().filter(|(id, remote)| {
            leader.isr.committed().contains(id) && step.image.is_alive(**id) && serves(remote)
        });
        let followers = followers.map(|(id, remote)| Candidate {
            id: *id,
            rack: rack_of(*id),
            log_end_offset: remote.log_end_offset,
            last_caught_up_at: self.last_caught_up_at(partition, *id),
        });
        select(rack, rack_of(self.me).as_deref(), followers.collect())
    }
}

/// `None`: the leader. Else the one in the rack that has most, then the one that had all most recently, then the greatest
/// id.
fn select(rack: &str, leaders_rack: Option<&str>, followers: Vec<Candidate>) -> Option<BrokerId> {
    if rack.is_empty() || leaders_rack == Some(rack) {
        return None;
    }
    let nearest = followers.into_iter().filter(|follower| follower.rack.as_deref() == Some(rack));
    let best =
        nearest.max_by_key(|follower| (follower.log_end_offset, follower.last_caught_up_at, follower.id));
    best.map(|follower| follower.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate((id, rack, end, caught_up_ms): (i32, &str, i64, i64)) -> Candidate {
        Candidate {
            id: BrokerId(id),
            rack: (!rack.is_empty()).then(|| rack.to_owned()),
            log_end_offset: Offset(end),
            last_caught_up_at: Some(Time::from_ms(caught_up_ms)),
        }
    }

    /// Who serves a consumer in `rack`: one of these followers, or 1, the leader in rack a.
    fn check(title: &str, rack: &str, followers: &[(i32, &str, i64, i64)], expected: i32) {
        let selected = select(rack, Some("a"), followers.iter().copied().map(candidate).collect());
        assert_eq!(selected.unwrap_or(BrokerId(1)), BrokerId(expected), "{title}");
    }

    #[test]
    fn the_rack_decides_then_the_log_end_then_the_time_then_the_id_r_repl_63() {
        check("no rack is named", "", &[(2, "", 10, 0)], 1);
        check("nobody is there", "c", &[(2, "b", 10, 0)], 1);
        check("the leader is there", "a", &[(2, "a", 10, 0)], 1);
        check("one is there", "b", &[(2, "b", 8, 0), (3, "c", 10, 0)], 2);
        check("one has more", "b", &[(2, "b", 10, 0), (3, "b", 9, 5)], 2);
        check("one had all more recently", "b", &[(2, "b", 10, 5), (3, "b", 10, 4)], 2);
        check("no difference but the id", "b", &[(2, "b", 10, 5), (3, "b", 10, 5)], 3);
    }
}
