//! One replica of a partition on one broker.
//!
//! Mirrors `Partition` (R-REPL-5, 7, 8, 18, 27, 35).
//!
//! **Invariant:** the leader and partition epochs are those of the newest registration that was applied.

use std::rc::Rc;

use super::leader::{Judgement, Leader};
use super::session::SessionId;
use crate::kafka::config::TopicConfig;
use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::log::Log;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Leader(Leader),
    /// Fetches from the leader, if there is one.
    Follower {
        leader: BrokerId,
    },
    /// On disk, but this process has not heard of the partition yet.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Partition {
    pub tp: TopicPartition,
    pub topic_id: TopicId,
    pub log: Log,
    pub role: Role,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
    pub replicas: Vec<BrokerId>,
    pub config: Rc<TopicConfig>,
    /// Fetch sessions in which it is quiet: they are to be told of its next change.
    pub(super) observers: Vec<SessionId>,
}

impl Partition {
    pub fn new(tp: TopicPartition, topic_id: TopicId, log: Log, config: Rc<TopicConfig>) -> Partition {
        Partition {
            tp,
            topic_id,
            log,
            role: Role::Unknown,
            leader_epoch: LeaderEpoch::NONE,
            partition_epoch: PartitionEpoch(-1),
            replicas: Vec::new(),
            config,
            observers: Vec::new(),
        }
    }

    pub fn leader(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leader(leader) => Some(leader),
            _ => None,
        }
    }

    pub fn leader_mut(&mut self) -> Option<&mut Leader> {
        match &mut self.role {
            Role::Leader(leader) => Some(leader),
            _ => None,
        }
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// min(min.insync.replicas, replication factor).
    pub fn min_isr(&self) -> i32 {
        if plant::is(Plant::MinIsrIgnored) {
            return 1;
        }
        self.config.min_insync_replicas.min(self.replicas.len() as i32)
    }

    /// Takes the lead, or stays leader under a newer registration. Whether a new leader epoch began (R-REPL-18).
    pub fn make_leader(&mut self, me: BrokerId, registration: &PartitionRegistration, now: Time) -> bool {
        let new_epoch = registration.leader_epoch > self.leader_epoch;
        self.adopt(registration);
        if !new_epoch && let Role::Leader(leader) = &mut self.role {
            leader.set_replicas(me, &registration.replicas, now);
            leader.commit_isr(registration.isr.clone());
            return false;
        }
        let start = self.log.log_end_offset();
        self.log.assign_epoch(registration.leader_epoch, start);
        let mut leader = Leader::new(me, registration, now, start);
        if let Role::Leader(before) = &self.role {
            leader.remember(&before.remotes, now);
        }
        self.role = Role::Leader(leader);
        true
    }

    /// Follows. Whether fetching has to start anew: a new leader epoch or another leader.
    pub fn make_follower(&mut self, registration: &PartitionRegistration) -> bool {
        let new_epoch = registration.leader_epoch > self.leader_epoch;
        let was_following = matches!(self.role, Role::Follower { leader } if leader == registration.leader);
        self.adopt(registration);
        self.role = Role::Follower { leader: registration.leader };
        new_epoch || !was_following
    }

    fn adopt(&mut self, registration: &PartitionRegistration) {
        self.leader_epoch = registration.leader_epoch;
        self.partition_epoch = registration.partition_epoch;
        self.replicas.clone_from(&registration.replicas);
    }

    /// R-REPL-7.
    pub fn check_leader(&self, current_leader_epoch: Option<LeaderEpoch>) -> Result<&Leader, ErrorCode> {
        self.check_epoch(current_leader_epoch)?;
        self.leader().ok_or(ErrorCode::NotLeaderOrFollower)
    }

    /// The half of R-REPL-7 that holds for a follower too, which consumers may read from (KIP-392).
    pub fn check_epoch(&self, current_leader_epoch: Option<LeaderEpoch>) -> Result<(), ErrorCode> {
        if let Some(epoch) = current_leader_epoch {
            if epoch < self.leader_epoch {
                return Err(ErrorCode::FencedLeaderEpoch);
            }
            if epoch > self.leader_epoch {
                return Err(ErrorCode::UnknownLeaderEpoch);
            }
        }
        Ok(())
    }

    /// R-REPL-12 to 14. The old high watermark if it rose.
    pub fn maybe_advance_high_watermark(&mut self, judge: Judgement<'_>) -> Option<Offset> {
        let min_isr = self.min_isr();
        let leader = self.leader()?;
        if leader.is_under_min_isr(min_isr) {
            return None;
        }
        let new = leader.new_high_watermark(self.log.log_end_offset(), judge);
        self.log.maybe_increment_high_watermark(new)
    }

    /// Whether an acks=all write that ends before `required` is done (R-REPL-29, 31). A leader that was elected again
    /// goes on waiting: nothing was cut from its log.
    pub fn acks_all_outcome(&self, required: Offset) -> Option<ErrorCode> {
        let Some(leader) = self.leader() else { return Some(ErrorCode::NotLeaderOrFollower) };
        if self.log.high_watermark() < required && !plant::is(Plant::AckBeforeIsr) {
            None
        } else if leader.isr.maximal_len() < self.min_isr() {
            Some(ErrorCode::NotEnoughReplicasAfterAppend)
        } else {
            Some(ErrorCode::None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::controller::image::ClusterImage;
    use crate::kafka::log::Origin;
    use crate::kafka::protocol::metadata_records::RecoveryState;
    use crate::kafka::record::{BatchBuilder, NewRecord};
    use crate::kafka::types::BrokerEpoch;

    const ME: BrokerId = BrokerId(1);
    const OTHER: BrokerId = BrokerId(2);

    fn registration(leader_epoch: i32, leader: BrokerId) -> PartitionRegistration {
        PartitionRegistration {
            replicas: vec![ME, OTHER],
            removing: Vec::new(),
            adding: Vec::new(),
            isr: vec![ME, OTHER],
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            leader,
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(leader_epoch),
            partition_epoch: PartitionEpoch(leader_epoch),
        }
    }

    /// Leader in epoch 1 of a log with one record, which broker 2 has not fetched.
    fn leading() -> Partition {
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut partition = Partition::new(tp, TopicId::default(), Log::new(), Rc::default());
        partition.make_leader(ME, &registration(1, ME), Time::ZERO);
        let mut batch = BatchBuilder::new();
        batch.append(&NewRecord { value: Some(b"a"), ..NewRecord::default() });
        let (bytes, config) = (batch.finish(None).into_bytes(), partition.config.clone());
        let appended =
            partition.log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), Origin::Client, &config.log);
        appended.expect("a sound batch");
        partition
    }

    fn fetched(partition: &mut Partition, offset: i64) {
        let end = partition.log.log_end_offset();
        let leader = partition.leader_mut().expect("it leads");
        leader.on_follower_fetch(
            Time::ZERO,
            OTHER,
            Offset(offset),
            Offset::ZERO,
            end,
            BrokerEpoch(9),
            &ClusterImage::default(),
        );
    }

    fn advance(partition: &mut Partition) {
        let image = ClusterImage::default();
        let judge = Judgement { now: Time::ZERO, image: &image, lag_time_max_ms: 30_000 };
        partition.maybe_advance_high_watermark(judge);
    }

    #[test]
    fn a_write_waits_on_through_a_re_election_of_its_leader_and_fails_when_another_leads() {
        let mut partition = leading();
        assert_eq!(partition.acks_all_outcome(Offset(1)), None);
        assert!(partition.make_leader(ME, &registration(3, ME), Time::ZERO));
        assert_eq!(partition.acks_all_outcome(Offset(1)), None, "R-REPL-32: nothing was cut");
        fetched(&mut partition, 1);
        advance(&mut partition);
        assert_eq!(partition.acks_all_outcome(Offset(1)), Some(ErrorCode::None), "R-REPL-29");
        partition.make_follower(&registration(4, OTHER));
        assert_eq!(partition.acks_all_outcome(Offset(2)), Some(ErrorCode::NotLeaderOrFollower));
    }

    #[test]
    fn only_a_broker_that_did_not_lead_forgets_its_followers_when_it_is_elected() {
        let mut partition = leading();
        fetched(&mut partition, 1);
        let end =
            |partition: &Partition| partition.leader().expect("it leads").remotes[&OTHER].log_end_offset;
        partition.make_leader(ME, &registration(3, ME), Time::ZERO);
        assert_eq!(end(&partition), Offset(1), "Replica.resetReplicaState");
        partition.make_follower(&registration(4, OTHER));
        partition.make_leader(ME, &registration(5, ME), Time::ZERO);
        assert_eq!(end(&partition), Offset::UNKNOWN, "R-REPL-18");
        advance(&mut partition);
        assert_eq!(partition.log.high_watermark(), Offset::ZERO);
    }
}
