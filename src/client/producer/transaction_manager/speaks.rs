//! By which protocol a producer and its coordinator end transactions, and what follows from that for its epochs.
//!
//! Mirrors `TransactionManager.maybeUpdateTransactionV2Enabled` and what hangs on it (R-TXN-5, KIP-890).
//!
//! **Invariant:** a transaction is ended by the protocol that it began with.

use super::TransactionManager;
use crate::kafka::api_versions::{FinalizedFeatures, NodeApiVersions};
use crate::kafka::config::TRANSACTION_VERSION;
use crate::kafka::protocol::ApiKey;
use crate::kafka::transaction::TransactionVersion;

/// The protocol that a transaction keeps to from its beginning (R-TXN-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Producers add partitions to their transactions, and keep their epoch.
    #[default]
    Version1,
    /// Leaders add them, and each end raises the epoch.
    Version2,
}

impl Speaks {
    /// The latest version of a Produce in a transaction (`LAST_STABLE_VERSION_BEFORE_TRANSACTION_V2`).
    pub fn produce(self) -> i16 {
        match self {
            Speaks::Version1 => 11,
            Speaks::Version2 => ApiKey::Produce.version(),
        }
    }
}

/// InitProducerId takes the producer's id and epoch since this version (KIP-360).
const RAISES_EPOCHS: i16 = 3;

impl TransactionManager {
    /// How far the cluster is with transactions (`maybeUpdateTransactionV2Enabled`). Who finds that it has been upgraded
    /// takes another epoch, so that nothing of the last transaction is taken for one of the next.
    pub fn learn(&mut self, features: &FinalizedFeatures, initializes: bool) {
        if self.features_epoch >= features.epoch {
            return;
        }
        self.features_epoch = features.epoch;
        let before = self.speaks;
        let version = TransactionVersion::of_level(features.level(TRANSACTION_VERSION));
        self.speaks = if version.raises_epochs() { Speaks::Version2 } else { Speaks::Version1 };
        if !initializes && (before, self.speaks) == (Speaks::Version1, Speaks::Version2) {
            self.must_raise_epoch = true;
        }
    }

    /// The coordinator can be asked; what it speaks is known (`handleCoordinatorReady`).
    pub fn on_coordinator_ready(&mut self, versions: Option<&NodeApiVersions>) {
        let known = versions.and_then(|versions| versions.get(ApiKey::InitProducerId));
        self.coordinator_raises_epochs = known.is_some_and(|versions| *versions.end() >= RAISES_EPOCHS);
    }

    /// `needToTriggerEpochBumpFromClient`
    pub(super) fn raises_epoch_itself(&self) -> bool {
        self.coordinator_raises_epochs && self.speaks == Speaks::Version1
    }

    /// `canHandleAbortableError`
    fn can_abort(&self) -> bool {
        self.coordinator_raises_epochs || self.speaks == Speaks::Version2
    }

    /// Where another epoch makes up for it the transaction alone fails (`abortableErrorIfPossible`); says whether it does.
    pub(super) fn prepare_abort(&mut self) -> bool {
        if self.raises_epoch_itself() {
            self.must_raise_epoch = true;
        }
        self.can_abort()
    }
}
