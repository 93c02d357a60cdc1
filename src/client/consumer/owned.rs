//! What a consumer knows of one partition that it owns, its position above all (`SubscriptionState.TopicPartitionState`).

use super::config::{IsolationLevel, OffsetReset};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset};

/// Where a consumer is in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    pub offset: Offset,
    /// Leader epoch of the record before it; NONE if that is unknown.
    pub epoch: LeaderEpoch,
}

/// Where a position comes from while there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchState {
    /// The committed offset is being asked for.
    Initializing,
    /// The log's start or end is being asked for, again from `retry_at` on.
    AwaitReset {
        strategy: OffsetReset,
        retry_at: Time,
    },
    Fetching(Position),
    /// The leader is being asked whether its log still holds what is before the position, again from `retry_at` on
    /// (R-CONS-32). Meanwhile it is neither fetched nor committed.
    AwaitValidation {
        position: Position,
        retry_at: Time,
    },
}

/// One owned partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    pub state: FetchState,
    /// The leader that the position was, or is to be, validated against, and its epoch.
    pub leader: Option<(BrokerId, LeaderEpoch)>,
    /// The replica that the leader told to read from, and until when (R-REPL-64).
    pub preferred: Option<(BrokerId, Time)>,
    /// The replica that was preferred last and did not fail; its time may be over.
    pub known_replica: Option<BrokerId>,
    /// It is about to be given up: nothing more is returned or fetched.
    pub pending_revocation: bool,
    /// pause(): it stays where it is, and nothing is returned or fetched (R-CONS-8).
    pub paused: bool,
    /// Its topic is not subscribed to any more: until it is given up, nothing is returned or fetched.
    pub unsubscribed: bool,
    /// As this consumer last read or confirmed it.
    pub committed: Option<Offset>,
    /// As the last fetch answer said, like the next two.
    pub high_watermark: Option<Offset>,
    pub last_stable_offset: Option<Offset>,
    pub log_start_offset: Option<Offset>,
    /// Its place in the order of fetches.
    pub(super) place: u64,
}

impl Owned {
    pub(super) const NEW: Owned = Owned {
        state: FetchState::Initializing,
        leader: None,
        preferred: None,
        known_replica: None,
        pending_revocation: false,
        paused: false,
        unsubscribed: false,
        committed: None,
        high_watermark: None,
        last_stable_offset: None,
        log_start_offset: None,
        place: 0,
    };

    pub fn position(&self) -> Option<Position> {
        match self.state {
            FetchState::Fetching(position) | FetchState::AwaitValidation { position, .. } => Some(position),
            FetchState::Initializing | FetchState::AwaitReset { .. } => None,
        }
    }

    /// The replica that it is read from: the preferred one, else the leader.
    pub fn source(&self) -> Option<BrokerId> {
        self.preferred.map(|(replica, _)| replica).or(self.leader.map(|(leader, _)| leader))
    }

    /// The position, unless it waits for its validation.
    pub fn valid_position(&self) -> Option<Position> {
        match self.state {
            FetchState::Fetching(position) => Some(position),
            _ => None,
        }
    }

    /// Whether its records are to be fetched and returned.
    fn is_wanted(&self) -> bool {
        !self.pending_revocation && !self.paused && !self.unsubscribed
    }

    pub(super) fn listing(&self) -> Listing {
        let valid = self.valid_position().is_some();
        let fetchable = (valid && self.is_wanted()).then_some((self.source(), self.place));
        Listing { unsettled: !valid, preferred: self.preferred, fetchable }
    }

    /// What a fetch asks for: of whom, from where, and of a leader in which epoch.
    pub(super) fn asked(&self) -> (Option<BrokerId>, Option<Offset>, Option<LeaderEpoch>) {
        let position = self.valid_position().filter(|_| self.is_wanted());
        (self.source(), position.map(|position| position.offset), self.leader.map(|(_, epoch)| epoch))
    }

    /// `validatePosition`: to be asked for if the epochs of the position and of the leader are known.
    pub(super) fn validate(&mut self, position: Position, leader_epoch_known: bool) {
        self.state = match position.epoch != LeaderEpoch::NONE && leader_epoch_known {
            true => FetchState::AwaitValidation { position, retry_at: Time::ZERO },
            false => FetchState::Fetching(position),
        };
    }

    /// How far it can be read (`partitionEndOffset`): a reader of committed data comes to the last stable offset (R-CONS-31).
    pub fn end(&self, isolation: IsolationLevel) -> Option<Offset> {
        match isolation {
            IsolationLevel::ReadUncommitted => self.high_watermark,
            IsolationLevel::ReadCommitted => self.last_stable_offset,
        }
    }

    /// The end less the position, as the client's `records-lag` (R-OBS-9).
    pub fn lag(&self, isolation: IsolationLevel) -> Option<i64> {
        Some((self.end(isolation)? - self.position()?.offset).max(0))
    }
}

/// What the indexes say of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub unsettled: bool,
    pub preferred: Option<(BrokerId, Time)>,
    /// From where it is fetched, if it may be, and its place in the order.
    pub fetchable: Option<(Option<BrokerId>, u64)>,
}
