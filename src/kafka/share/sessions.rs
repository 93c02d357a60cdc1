//! Share sessions: which partitions a member reads at this broker, so that its requests name only what changes
//! (`ShareSessionCache`, R-SHARE-14, 15).
//!
//! **Invariant:** a member has one session at a broker; its epoch is the one that its next request must have.

use std::collections::BTreeMap;

use crate::kafka::effects::Incoming;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{GroupId, MemberId, TopicId};

/// A partition by its topic's id.
pub type TopicIdPartition = (TopicId, i32);

/// The epoch that opens a session, and the one that closes it.
pub const INITIAL_EPOCH: i32 = 0;
pub const FINAL_EPOCH: i32 = -1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSession {
    /// Of the next request.
    pub epoch: i32,
    /// In the order in which they were added.
    pub partitions: Vec<TopicIdPartition>,
    /// On which it was opened.
    pub connection: Incoming,
}

/// What a fetch says of the session's partitions.
#[derive(Clone, Debug, Default)]
pub struct Named {
    pub partitions: Vec<TopicIdPartition>,
    pub forgotten: Vec<TopicIdPartition>,
}

/// A member of a group.
pub type Key = (GroupId, MemberId);

#[derive(Clone, Debug, Default)]
pub struct ShareSessions {
    sessions: BTreeMap<Key, ShareSession>,
    /// Whose session was opened on a connection last.
    connections: BTreeMap<Incoming, Key>,
}

impl ShareSessions {
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &ShareSession)> {
        self.sessions.iter()
    }

    pub fn get(&self, key: &Key) -> Option<&ShareSession> {
        self.sessions.get(key)
    }

    /// What a fetch with `epoch` on a connection reads, in the session's order, after it named and forgot some (`newContext`). One that
    /// closes the session reads nothing. There are `max_sessions` at most (`group.share.max.share.sessions`).
    ///
    /// # Errors
    ///
    /// SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED; INVALID_REQUEST for a first
    /// request that acknowledges something.
    pub fn fetch(
        &mut self,
        key: &Key,
        epoch: i32,
        named: Named,
        has_acknowledgements: bool,
        connection: Incoming,
        max_sessions: i64,
    ) -> Result<Vec<TopicIdPartition>, ErrorCode> {
        match epoch {
            FINAL_EPOCH => {
                self.sessions.get(key).ok_or(ErrorCode::ShareSessionNotFound)?;
                Ok(Vec::new())
            }
            INITIAL_EPOCH if has_acknowledgements => Err(ErrorCode::InvalidRequest),
            INITIAL_EPOCH => {
                self.sessions.remove(key);
                if self.sessions.len() as i64 >= max_sessions {
                    return Err(ErrorCode::ShareSessionLimitReached);
                }
                let (epoch, partitions) = (next_epoch(INITIAL_EPOCH), named.partitions.clone());
                self.sessions.insert(key.clone(), ShareSession { epoch, partitions, connection });
                self.connections.insert(connection, key.clone());
                Ok(named.partitions)
            }
            _ => {
                let session = self.continued(key, epoch)?;
                for partition in named.partitions {
                    if !session.partitions.contains(&partition) {
                        session.partitions.push(partition);
                    }
                }
                session.partitions.retain(|partition| !named.forgotten.contains(partition));
                Ok(session.partitions.clone())
            }
        }
    }

    /// A ShareAcknowledge with `epoch` (`acknowledgeSessionUpdate`).
    ///
    /// # Errors
    ///
    /// SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    pub fn acknowledge(&mut self, key: &Key, epoch: i32) -> Result<(), ErrorCode> {
        match epoch {
            INITIAL_EPOCH => Err(ErrorCode::InvalidShareSessionEpoch),
            FINAL_EPOCH => self.sessions.get(key).map(|_| ()).ok_or(ErrorCode::ShareSessionNotFound),
            _ => self.continued(key, epoch).map(|_| ()),
        }
    }

    /// The session ends; what it read.
    pub fn remove(&mut self, key: &Key) -> Vec<TopicIdPartition> {
        self.sessions.remove(key).map(|session| session.partitions).unwrap_or_default()
    }

    pub fn has_any(&self, group: &GroupId) -> bool {
        self.sessions.keys().any(|(other, _)| other == group)
    }

    /// Whether a session was opened on a connection.
    pub fn knows(&self, connection: Incoming) -> bool {
        self.connections.contains_key(&connection)
    }

    /// A connection is closed: whose session was opened on it, and whether that is still open and of this connection.
    pub fn disconnected(&mut self, connection: Incoming) -> Option<(Key, bool)> {
        let key = self.connections.remove(&connection)?;
        let is_open = self.sessions.get(&key).is_some_and(|session| session.connection == connection);
        Some((key, is_open))
    }

    fn continued(&mut self, key: &Key, epoch: i32) -> Result<&mut ShareSession, ErrorCode> {
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        session.epoch = next_epoch(epoch);
        Ok(session)
    }
}

/// `nextEpoch`: after the greatest number comes 1.
pub fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        FINAL_EPOCH => FINAL_EPOCH,
        i32::MAX => 1,
        _ => epoch + 1,
    }
}

/// Whoever was last in the line is first at some request, so that nobody starves (`PartitionRotateStrategy`).
pub fn rotate(partitions: &mut [TopicIdPartition], epoch: i32) {
    if let (Ok(epoch), 2..) = (usize::try_from(epoch), partitions.len()) {
        partitions.rotate_left(epoch % partitions.len());
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::kafka::effects::Channel;
    use crate::kafka::types::NodeId;

    const MAX: i64 = 2000;

    fn key() -> Key {
        ("g".into(), "m".into())
    }

    fn connection(number: u32) -> Incoming {
        Incoming { from: NodeId::Client(1), channel: Channel::Main, connection: number }
    }

    fn tips(partitions: &[i32]) -> Vec<TopicIdPartition> {
        partitions.iter().map(|partition| (TopicId(Uuid::from_u128(1)), *partition)).collect()
    }

    #[test]
    fn a_session_remembers_what_it_reads_r_share_14() {
        let mut sessions = ShareSessions::default();
        let mut fetch = |epoch, named: &[i32], forgotten: &[i32]| {
            let named = Named { partitions: tips(named), forgotten: tips(forgotten) };
            sessions.fetch(&key(), epoch, named, false, connection(1), MAX)
        };
        assert_eq!(fetch(0, &[0, 1], &[]), Ok(tips(&[0, 1])));
        assert_eq!(fetch(1, &[2, 1], &[0]), Ok(tips(&[1, 2])));
        assert_eq!(fetch(2, &[], &[]), Ok(tips(&[1, 2])));
        assert_eq!(fetch(-1, &[], &[]), Ok(vec![]), "it reads no more");
        assert_eq!(sessions.remove(&key()), tips(&[1, 2]));
    }

    #[test]
    fn epochs_follow_each_other_r_share_15() {
        let mut sessions = ShareSessions::default();
        let not_found = Err(ErrorCode::ShareSessionNotFound);
        for epoch in [-1, 1] {
            assert_eq!(sessions.acknowledge(&key(), epoch), not_found);
            assert!(sessions.fetch(&key(), epoch, Named::default(), false, connection(1), MAX).is_err());
        }
        assert_eq!(sessions.acknowledge(&key(), 0), Err(ErrorCode::InvalidShareSessionEpoch));
        assert_eq!(
            sessions.fetch(&key(), 0, Named::default(), true, connection(1), MAX),
            Err(ErrorCode::InvalidRequest)
        );
        let named = Named { partitions: tips(&[0]), ..Named::default() };
        sessions.fetch(&key(), 0, named, false, connection(1), MAX).expect("it opens");
        assert_eq!(sessions.acknowledge(&key(), 1), Ok(()));
        assert_eq!(sessions.acknowledge(&key(), 1), Err(ErrorCode::InvalidShareSessionEpoch));
        assert_eq!(sessions.fetch(&key(), 2, Named::default(), true, connection(1), MAX), Ok(tips(&[0])));
        assert_eq!(sessions.acknowledge(&key(), -1), Ok(()));
    }

    #[test]
    fn there_are_two_thousand_at_most_r_share_15() {
        let mut sessions = ShareSessions::default();
        for number in 0..2000 {
            let key = ("g".into(), MemberId::new(&number.to_string()));
            assert!(sessions.fetch(&key, 0, Named::default(), false, connection(number), MAX).is_ok());
        }
        let refused = sessions.fetch(&key(), 0, Named::default(), false, connection(1), MAX);
        assert_eq!(refused, Err(ErrorCode::ShareSessionLimitReached));
    }

    #[test]
    fn a_session_ends_with_the_connection_that_it_was_opened_on_r_share_14() {
        let mut sessions = ShareSessions::default();
        for number in [1, 2] {
            sessions.fetch(&key(), 0, Named::default(), false, connection(number), MAX).expect("it opens");
        }
        assert_eq!(sessions.disconnected(connection(1)), Some((key(), false)), "it was opened anew since");
        assert_eq!(sessions.disconnected(connection(1)), None);
        assert_eq!(sessions.disconnected(connection(2)), Some((key(), true)));
    }

    #[test]
    fn partitions_take_turns() {
        let turn = |epoch| {
            let mut partitions = tips(&[0, 1, 2]);
            rotate(&mut partitions, epoch);
            partitions
        };
        assert_eq!(turn(0), tips(&[0, 1, 2]));
        assert_eq!(turn(1), tips(&[1, 2, 0]));
        assert_eq!(turn(5), tips(&[2, 0, 1]));
        assert_eq!(turn(-1), tips(&[0, 1, 2]));
        assert_eq!(next_epoch(i32::MAX), 1);
    }
}
