//! Which checks have to find which planted fault.
//!
//! **Invariant:** each is held to a rule that is there anyway; that a run does not come to rest or panics shows nothing.

use super::check::Check;
use super::transactions;
use crate::kafka::plant::{PLANTS_OF_TRANSACTIONS, Plant};

/// The seed from which on a fault is looked for.
pub fn first_seed(plant: Plant) -> u64 {
    match PLANTS_OF_TRANSACTIONS.iter().any(|(_, known)| *known == plant) {
        true => transactions::FIRST_SEED,
        false => 0,
    }
}

/// The checks that are made to find `plant`. Any one of them will do.
pub fn finders(plant: Plant) -> &'static [Check] {
    match plant {
        Plant::SkipTruncation => &[Check::FollowerAppend, Check::Committed, Check::InSync],
        Plant::HwBeforeIsr => &[Check::InSync, Check::MinIsr],
        Plant::AckBeforeIsr => &[Check::Acknowledged],
        Plant::NextOffsetTold => &[Check::Told],
        Plant::MinIsrIgnored => &[Check::MinIsr],
        Plant::ElectOutsideIsr => &[Check::Succession, Check::Registration],
        Plant::EpochNotRaised => &[Check::Succession],
        Plant::StaleEpochAppend => &[Check::FollowerAppend, Check::BatchEpochs],
        Plant::FencedLeaderCommits => &[Check::InSync],
        Plant::ElrUncleanMemberLeads => &[Check::ComesBack],
        Plant::SequenceUnchecked => &[Check::Sequences],
        Plant::DedupeOff => &[Check::Sequences],
        Plant::PidReused => &[Check::ProducerIds],
        Plant::RetryOvertakes => &[Check::Order],
        Plant::RetentionAboveHw => &[Check::LogBounds],
        Plant::CompactionDropsNewest => &[Check::NewestOfKey],
        Plant::TwoVotesAnEpoch => &[Check::QuorumVote, Check::QuorumLeader],
        Plant::MetadataCommitWithoutMajority => &[Check::QuorumCommitted],
        Plant::OffsetsNotLoaded => &[Check::CoordinatorState],
        Plant::OffsetTombstoneIgnored => &[Check::CoordinatorState],
        Plant::SessionNeverEnds => &[Check::SessionEnds],
        Plant::StaticTwinNotFenced => &[Check::Twins],
        Plant::OldGenerationCommit => &[Check::CommitGeneration],
        Plant::CommitOfPrefetched => &[Check::CommitReturned],
        Plant::DoubleOwner => &[Check::OneOwner],
        Plant::RevokeNotAwaited => &[Check::Handover],
        Plant::UnreleasedAssigned | Plant::RevocationNotAwaited => &[Check::OneOwner],
        Plant::TargetsNotLoaded => &[Check::CoordinatorState, Check::StableGroup],
        Plant::MemberNeverExpires => &[Check::SessionEnds],
        Plant::ShareDoubleAcquire => &[Check::OneHolder],
        Plant::ShareLockNeverEnds => &[Check::LockEnds],
        Plant::ShareCountFrozen => &[Check::DeliveryCount],
        Plant::ShareUpdatesNotLoaded => &[Check::DoneForGood],
        Plant::LsoPastOpen => &[Check::StableOffset],
        Plant::AbortedVisible => &[Check::ReadCommitted],
        Plant::MarkerLost => &[Check::Markers],
        Plant::OldEpochAccepted => &[Check::Epochs],
        Plant::OffsetsBeforeCommit => &[Check::CoordinatorState],
        Plant::EndTxnLostOnFailover => &[Check::Decision],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::plant;

    #[test]
    fn each_planted_fault_has_a_check_that_watches() {
        for (name, plant) in plant::named() {
            let checks = finders(plant);
            assert!(!checks.is_empty(), "{name}");
            let shows_nothing = [Check::Panic, Check::Rest, Check::Outcome, Check::SetUp, Check::Standstill];
            assert!(!checks.iter().any(|check| shows_nothing.contains(check)), "{name}: {checks:?}");
        }
    }
}
