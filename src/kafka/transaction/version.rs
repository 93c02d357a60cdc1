//! How far clients and cluster are with transactions (R-TXN-5, KIP-890).
//!
//! Mirrors `TransactionVersion`.
//!
//! **Invariant:** a later version can do what an earlier one can.

/// A level of the feature `transaction.version`, or what a client's requests show of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionVersion {
    V0,
    /// Records of `__transaction_state` have tagged fields.
    V1,
    /// Every end of a transaction raises the producer's epoch, and leaders add their partitions to it themselves.
    V2,
}

impl TransactionVersion {
    /// From the feature's level; one that is not known counts as 0.
    pub fn of_level(level: i16) -> TransactionVersion {
        match level {
            1 => TransactionVersion::V1,
            2 => TransactionVersion::V2,
            _ => TransactionVersion::V0,
        }
    }

    pub fn level(self) -> i16 {
        self as i16
    }

    /// What an EndTxn shows of its client: requests of version 5 know of raised epochs.
    pub fn of_end_request(version: i16) -> TransactionVersion {
        if version > 4 { TransactionVersion::V2 } else { TransactionVersion::V0 }
    }

    /// What an AddPartitionsToTxn shows of the client on whose behalf it is sent: those of version 4 and later are sent
    /// by brokers.
    pub fn of_add_request(version: i16) -> TransactionVersion {
        if version > 3 { TransactionVersion::V2 } else { TransactionVersion::V0 }
    }

    /// What a Produce shows of its client: with requests of version 12 the partition's leader adds it to the transaction, with
    /// earlier ones the client has added it (R-TXN-11).
    pub fn of_produce(version: i16) -> TransactionVersion {
        if version > 11 { TransactionVersion::V2 } else { TransactionVersion::V0 }
    }

    /// The same of a TxnOffsetCommit and the group's partition.
    pub fn of_offset_commit(version: i16) -> TransactionVersion {
        if version > 4 { TransactionVersion::V2 } else { TransactionVersion::V0 }
    }

    /// Whether every end of a transaction raises the producer's epoch (R-TXN-17).
    pub fn raises_epochs(self) -> bool {
        self >= TransactionVersion::V2
    }

    /// Of the values in `__transaction_state`.
    pub fn record_version(self) -> i16 {
        i16::from(self >= TransactionVersion::V1)
    }
}
