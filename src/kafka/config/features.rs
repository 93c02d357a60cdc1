//! Feature levels of a new cluster, as `kafka-storage format --feature` sets them (R-CTRL-12).

use std::collections::BTreeMap;

use super::{ConfigError, Key, Kind, Values};

pub const ELIGIBLE_LEADER_REPLICAS: &str = "eligible.leader.replicas.version";
const SHARE: &str = "share.version";
pub const TRANSACTION_VERSION: &str = "transaction.version";

/// The features whose level can be chosen and makes a difference here.
pub const FEATURE_KEYS: &[Key] = &[
    Key {
        name: ELIGIBLE_LEADER_REPLICAS,
        default: "1",
        kind: Kind::Integer { min: 0, max: 1 },
        doc: "Whether replicas that left an in-sync set below min.insync.replicas may lead (KIP-966).",
    },
    Key {
        name: SHARE,
        default: "1",
        kind: Kind::Integer { min: 0, max: 1 },
        doc: "Whether there are share groups (KIP-932).",
    },
    Key {
        name: TRANSACTION_VERSION,
        default: "2",
        kind: Kind::Integer { min: 0, max: 2 },
        doc: "Whether each end of a transaction raises its producer's epoch, and leaders add their partitions to it (KIP-890).",
    },
];

/// Features that Kafka knows and whose level cannot be chosen here, neither at first nor later.
pub const FEATURES_NOT_MODELLED: &[&str] =
    &["group.version", "kraft.version", "metadata.version", "streams.version"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    pub eligible_leader_replicas: i16,
    pub share: i16,
    pub transaction: i16,
}

impl Features {
    /// # Errors
    ///
    /// A feature that is not known, that makes no difference here, or a level out of its range.
    pub fn read(given: &BTreeMap<String, String>) -> Result<Features, ConfigError> {
        let values = Values::read(&[FEATURE_KEYS], FEATURES_NOT_MODELLED, given)?;
        let level = |name: &str| values.int(name) as i16;
        Ok(Features {
            eligible_leader_replicas: level(ELIGIBLE_LEADER_REPLICAS),
            share: level(SHARE),
            transaction: level(TRANSACTION_VERSION),
        })
    }
}

impl Default for Features {
    fn default() -> Features {
        Features::read(&BTreeMap::new()).expect("the defaults are in their ranges")
    }
}
