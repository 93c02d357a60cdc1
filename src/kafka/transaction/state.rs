//! Where a transaction stands (R-TXN-4).
//!
//! Mirrors `TransactionState`.
//!
//! **Invariant:** the numbers are those that `__transaction_state` keeps.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// Nothing has been added since the producer was initialized.
    Empty = 0,
    Ongoing = 1,
    /// It is decided; markers are on their way.
    PrepareCommit = 2,
    /// It is decided; markers are on their way.
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
    /// The transactional id has expired and is about to be forgotten.
    Dead = 6,
    /// The producer is about to be fenced; never written.
    PrepareEpochFence = 7,
}

use TransactionState::*;

impl TransactionState {
    pub const ALL: [TransactionState; 8] =
        [Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead, PrepareEpochFence];

    /// As `__transaction_state` keeps it.
    pub fn id(self) -> i8 {
        self as i8
    }

    pub fn of_id(id: i8) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.id() == id)
    }

    /// Kafka's name for it, which DescribeTransactions and ListTransactions show.
    pub fn name(self) -> &'static str {
        match self {
            Empty => "Empty",
            Ongoing => "Ongoing",
            PrepareCommit => "PrepareCommit",
            PrepareAbort => "PrepareAbort",
            CompleteCommit => "CompleteCommit",
            CompleteAbort => "CompleteAbort",
            Dead => "Dead",
            PrepareEpochFence => "PrepareEpochFence",
        }
    }

    pub fn of_name(name: &str) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The state that the decision is written as.
    pub fn prepared(committed: bool) -> TransactionState {
        if committed { PrepareCommit } else { PrepareAbort }
    }

    /// Whether markers are on their way.
    pub fn is_prepared(self) -> bool {
        matches!(self, PrepareCommit | PrepareAbort)
    }

    /// Whether no transaction is open: nothing was added yet, or the last one is over.
    pub fn is_idle(self) -> bool {
        matches!(self, Empty | CompleteCommit | CompleteAbort)
    }

    /// R-TXN-4. That an idle producer may abort is of transaction version 2: it may not know whether anything was added.
    pub fn may_follow(self, previous: TransactionState) -> bool {
        match self {
            Empty | Dead => previous.is_idle(),
            Ongoing => previous == Ongoing || previous.is_idle(),
            PrepareCommit | PrepareEpochFence => previous == Ongoing,
            PrepareAbort => matches!(previous, Ongoing | PrepareEpochFence) || previous.is_idle(),
            CompleteCommit => previous == PrepareCommit,
            CompleteAbort => previous == PrepareAbort,
        }
    }
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_follows_those_that_kafka_names_r_txn_4() {
        let check = |state: TransactionState, expected: &[TransactionState]| {
            let previous = TransactionState::ALL.into_iter().filter(|previous| state.may_follow(*previous));
            assert_eq!(previous.collect::<Vec<_>>(), expected, "{state}");
        };
        check(Empty, &[Empty, CompleteCommit, CompleteAbort]);
        check(Ongoing, &[Empty, Ongoing, CompleteCommit, CompleteAbort]);
        check(PrepareCommit, &[Ongoing]);
        check(PrepareAbort, &[Empty, Ongoing, CompleteCommit, CompleteAbort, PrepareEpochFence]);
        check(CompleteCommit, &[PrepareCommit]);
        check(CompleteAbort, &[PrepareAbort]);
        check(Dead, &[Empty, CompleteCommit, CompleteAbort]);
        check(PrepareEpochFence, &[Ongoing]);
    }

    #[test]
    fn a_state_is_found_by_its_number_and_its_name() {
        for (id, state) in (0..).zip(TransactionState::ALL) {
            assert_eq!((state.id(), TransactionState::of_id(id)), (id, Some(state)));
            assert_eq!(TransactionState::of_name(state.name()), Some(state));
        }
        assert_eq!((TransactionState::of_id(8), TransactionState::of_name("empty")), (None, None));
    }
}
