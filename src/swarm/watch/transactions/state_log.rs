//! What a partition of `__transaction_state` says, read by nothing but the codec of its records (R-TXN-4, R-INT-3).
//!
//! A record that was given up, because it took too long to become committed, may become so all the same: only a decision
//! that its coordinator acted upon is final (`TransactionStateManager.appendTransactionToLog`).
//!
//! **Invariant:** only what is committed is read.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::protocol::transaction_records::{TransactionValue, decode_key};
use crate::kafka::record::{Batch, Record};
use crate::kafka::types::{ProducerEpoch, ProducerId, TopicPartition, TransactionalId};
use crate::swarm::check::{Check, Verdict};

/// Where a transaction stands, by the number that its record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    Ongoing,
    Prepared { committed: bool },
    Completed { committed: bool },
}

impl Stage {
    fn of(status: i8) -> Option<Stage> {
        Some(match status {
            0 => Stage::Idle,
            1 => Stage::Ongoing,
            2 | 3 => Stage::Prepared { committed: status == 2 },
            4 | 5 => Stage::Completed { committed: status == 4 },
            _ => return None,
        })
    }

    /// Whether the producer has nothing open.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Idle | Stage::Completed { .. })
    }
}

/// What the last record of an id says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    pub stage: Stage,
    pub partitions: BTreeSet<TopicPartition>,
    /// Of the client at the last transition.
    pub version: i16,
    /// When its coordinator aborts it, should it be open still, in milliseconds since 1970 by the clock that began it.
    pub times_out_ms: i64,
}

impl Facts {
    /// Whether what an earlier epoch had open is over. A decision has the next epoch already (R-TXN-17), and its markers are on
    /// their way.
    pub fn is_past(&self, epoch: ProducerEpoch) -> bool {
        self.epoch > epoch && !matches!(self.stage, Stage::Prepared { .. })
    }
}

/// The end of a transaction that is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: TransactionalId,
    pub facts: Facts,
    pub committed: bool,
}

#[derive(Debug, Default)]
pub struct StateLog {
    ids: BTreeMap<TransactionalId, Facts>,
    /// Which id a producer id is, or was, of.
    owners: BTreeMap<ProducerId, TransactionalId>,
    decisions: Vec<Decision>,
    /// The decisions of which the completion is awaited, by where they are among all.
    awaited: BTreeMap<TransactionalId, usize>,
}

impl StateLog {
    pub fn ids(&self) -> impl Iterator<Item = (&TransactionalId, &Facts)> {
        self.ids.iter()
    }

    /// Of whichever producer has this id now.
    pub fn of_producer(&self, producer: ProducerId) -> Option<&Facts> {
        self.ids.get(self.owners.get(&producer)?).filter(|facts| facts.producer == producer)
    }

    /// Whether the producer id was ever given out here.
    pub fn knows(&self, producer: ProducerId) -> bool {
        self.owners.contains_key(&producer)
    }

    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// A final decision that nobody has completed.
    pub fn open_decision(&self) -> Option<&Decision> {
        self.awaited.values().next().map(|place| &self.decisions[*place])
    }

    /// Reads the next batch.
    ///
    /// # Errors
    /// It takes back what was decided.
    pub fn take(&mut self, batch: &Batch) -> Verdict {
        let unreadable = |error: &dyn std::fmt::Display| Check::Decision.broken(error.to_string());
        for record in batch.records().map_err(|error| unreadable(&error))? {
            let Record { key, value, .. } = record;
            let id = decode_key(&key.unwrap_or_default()).map_err(|error| unreadable(&error))?;
            let value = value.as_deref().map(TransactionValue::decode).transpose();
            let value = value.map_err(|error| unreadable(&error))?.flatten();
            let Some(id) = id else { continue };
            self.apply(&id, value)?;
        }
        Ok(())
    }

    fn apply(&mut self, id: &TransactionalId, value: Option<TransactionValue>) -> Verdict {
        let facts = value.and_then(|value| {
            Some(Facts {
                producer: value.producer_id,
                epoch: value.producer_epoch,
                stage: Stage::of(value.status)?,
                partitions: value.partitions.unwrap_or_default(),
                version: value.client_transaction_version,
                times_out_ms: value.start_timestamp_ms + i64::from(value.timeout_ms),
            })
        });
        self.check_decided(id, facts.as_ref())?;
        match facts {
            Some(facts) => {
                self.owners.insert(facts.producer, id.clone());
                self.ids.insert(id.clone(), facts);
            }
            None => drop(self.ids.remove(id)),
        }
        Ok(())
    }

    /// R-TXN-18, 28: what is decided is written once more or completed.
    fn check_decided(&mut self, id: &TransactionalId, facts: Option<&Facts>) -> Verdict {
        let Some(decision) = self.awaited.get(id).map(|place| &self.decisions[*place]) else {
            self.note_resumed(id, facts);
            return Ok(());
        };
        let committed = decision.committed;
        match facts.map(|facts| facts.stage) {
            Some(stage) if stage == (Stage::Completed { committed }) => {
                self.awaited.remove(id);
                Ok(())
            }
            Some(stage) if stage == (Stage::Prepared { committed }) => Ok(()),
            stage => {
                let decided = decision.facts.stage;
                Err(Check::Decision.broken(format!("{id} was decided as {decided:?}, and is {stage:?} next")))
            }
        }
    }

    /// R-TXN-28: a coordinator that takes over acts upon what it finds prepared. It says nothing of it before all is done.
    fn note_resumed(&mut self, id: &TransactionalId, completed: Option<&Facts>) {
        let Some(Stage::Completed { committed }) = completed.map(|facts| facts.stage) else { return };
        let prepared = self.ids.get(id).filter(|facts| facts.stage == (Stage::Prepared { committed }));
        self.decisions.extend(prepared.map(|facts| Decision {
            id: id.clone(),
            facts: facts.clone(),
            committed,
        }));
    }

    /// A coordinator acts upon a decision.
    ///
    /// # Errors
    /// It is not what was written last.
    pub fn decide(&mut self, id: &TransactionalId, committed: bool) -> Verdict {
        let facts = self.ids.get(id);
        // Without another replica and with no marker to wait for, all is done in one step.
        if facts.is_some_and(|facts| facts.stage == (Stage::Completed { committed })) {
            return Ok(());
        }
        let Some(facts) = facts.filter(|facts| facts.stage == (Stage::Prepared { committed })) else {
            let (written, what) =
                (facts.map(|facts| facts.stage), if committed { "commit" } else { "abort" });
            let fault = format!("the {what} of {id} is acted upon, and written is {written:?}");
            return Err(Check::Decision.broken(fault));
        };
        self.awaited.insert(id.clone(), self.decisions.len());
        self.decisions.push(Decision { id: id.clone(), facts: facts.clone(), committed });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(log: &mut StateLog, status: i8) -> Verdict {
        let value = TransactionValue {
            producer_id: ProducerId(7),
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch(3),
            timeout_ms: 60_000,
            status,
            partitions: None,
            last_update_timestamp_ms: 0,
            start_timestamp_ms: 0,
            client_transaction_version: 2,
        };
        log.apply(&TransactionalId::new("id"), Some(value))
    }

    fn found(decides: Option<bool>, statuses: &[i8], last: i8) -> Result<(), Check> {
        let mut log = StateLog::default();
        statuses.iter().for_each(|status| write(&mut log, *status).expect("nothing is decided"));
        let decided = decides.map_or(Ok(()), |committed| log.decide(&TransactionalId::new("id"), committed));
        decided.and_then(|()| write(&mut log, last)).map_err(|broken| broken.check)
    }

    #[test]
    fn a_decision_that_was_acted_upon_is_completed_and_never_turned_r_txn_18() {
        assert_eq!(found(Some(true), &[0, 1, 2], 4), Ok(()));
        assert_eq!(found(Some(true), &[0, 1, 2], 2), Ok(()), "written once more");
        assert_eq!(found(Some(true), &[0, 1, 2], 3), Err(Check::Decision));
        assert_eq!(found(Some(false), &[0, 1, 3], 4), Err(Check::Decision));
        assert_eq!(found(Some(true), &[0, 1, 2], 1), Err(Check::Decision));
        assert_eq!(found(None, &[0, 1, 2], 3), Ok(()), "the commit was given up, and nobody told of it");
    }

    #[test]
    fn what_a_producer_had_open_is_over_when_its_next_epoch_is_idle_or_has_begun_a_transaction_r_txn_12() {
        let is_past = |status: i8, epoch: i16| {
            let mut log = StateLog::default();
            write(&mut log, status).expect("nothing is decided");
            log.of_producer(ProducerId(7)).expect("written").is_past(ProducerEpoch(epoch))
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|status| is_past(status, 2)),
            [true, true, false, false, true, true]
        );
        assert!([0, 1, 2, 3, 4, 5].iter().all(|status| !is_past(*status, 3)));
    }

    #[test]
    fn what_another_coordinator_completes_was_decided_r_txn_28() {
        let decisions = |statuses: &[i8]| {
            let mut log = StateLog::default();
            statuses.iter().for_each(|status| write(&mut log, *status).expect("sound"));
            log.decisions().iter().map(|decision| decision.committed).collect::<Vec<_>>()
        };
        assert_eq!(decisions(&[0, 1, 2, 4, 1, 3, 5]), [true, false]);
        assert!(decisions(&[0, 1, 2, 3]).is_empty(), "nothing is completed");
    }

    #[test]
    fn what_is_acted_upon_is_written_before_r_txn_3() {
        assert_eq!(found(Some(true), &[0, 1], 4), Err(Check::Decision));
        assert_eq!(found(Some(true), &[0, 1, 3], 5), Err(Check::Decision));
    }
}
