//! ApiVersions: which requests a node serves, at which versions (KIP-511), and how far the cluster's features are (KIP-584).
//!
//! Mirrors `ApiVersionsResponse` with `BrokerFeatures`, and what its hearers keep: `NodeApiVersions`, `ApiVersions`.
//!
//! **Invariant:** of what several nodes say of the features, what the one says that knows most of the metadata log holds.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::config::TRANSACTION_VERSION;
use super::controller::image::ClusterImage;
use super::protocol::ApiKey;

/// The levels that this software can live with, and so can each of its nodes (`Feature.PRODUCTION_FEATURES`).
const SUPPORTED_FEATURES: &[(&str, RangeInclusive<i16>)] = &[
    ("eligible.leader.replicas.version", 0..=1),
    ("group.version", 0..=1),
    (KRAFT_VERSION, 0..=1),
    (METADATA_VERSION, FIRST_METADATA_LEVEL..=30),
    ("share.version", 0..=1),
    ("streams.version", 0..=1),
    (TRANSACTION_VERSION, 0..=2),
];

const METADATA_VERSION: &str = "metadata.version";
const FIRST_METADATA_LEVEL: i16 = 7;
/// The names of its levels (`MetadataVersion`).
const METADATA_RELEASES: [&str; 24] = [
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0",
    "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
    "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
];

/// The quorum's own feature, of which no record tells (KAFKA-18979).
const KRAFT_VERSION: &str = "kraft.version";
const KRAFT_LEVEL: i16 = 1;

/// The levels of a feature that this software can live with; only 0 of one that it does not know.
pub fn supported_levels(feature: &str) -> RangeInclusive<i16> {
    let known = SUPPORTED_FEATURES.iter().find(|(name, _)| *name == feature);
    known.map_or(0..=0, |(_, levels)| levels.clone())
}

/// How a level is written: metadata.version by the release that brought it, any other by its number.
pub fn level_name(feature: &str, level: i16) -> String {
    if feature != METADATA_VERSION {
        return level.to_string();
    }
    let place = usize::try_from(level - FIRST_METADATA_LEVEL).ok();
    let name = place.and_then(|place| METADATA_RELEASES.get(place));
    name.map_or_else(|| format!("UNKNOWN {level}"), |name| (*name).to_owned())
}

/// What a client asks with, when it connects and whenever it wants to know.
pub fn request() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name("glassbroker".into())
        .with_client_software_version("4.3".into())
}

/// What a node that has read the metadata log to here answers.
pub fn response(served: &[ApiKey], image: &ClusterImage) -> ApiVersionsResponse {
    let keys = served.iter().map(|api| {
        let versions = api.versions();
        ApiVersion::default()
            .with_api_key(*api as i16)
            .with_min_version(*versions.start())
            .with_max_version(*versions.end())
    });
    let supported = SUPPORTED_FEATURES.iter().map(|(name, levels)| {
        SupportedFeatureKey::default()
            .with_name(StrBytes::from_static_str(name))
            .with_min_version(*levels.start())
            .with_max_version(*levels.end())
    });
    let finalized = |(name, level): (StrBytes, i16)| {
        FinalizedFeatureKey::default()
            .with_name(name)
            .with_min_version_level(level)
            .with_max_version_level(level)
    };
    let of_records = image.features.iter().map(|(name, level)| (StrBytes::from_string(name.clone()), *level));
    let of_quorum = (StrBytes::from_static_str(KRAFT_VERSION), KRAFT_LEVEL);
    ApiVersionsResponse::default()
        .with_api_keys(keys.collect())
        .with_supported_features(supported.collect())
        .with_finalized_features_epoch(image.next_offset.0 - 1)
        .with_finalized_features(of_records.chain([of_quorum]).map(finalized).collect())
}

/// Which versions a peer speaks, as it said when the connection was opened.
#[derive(Clone, Debug, Default)]
pub struct NodeApiVersions {
    /// By API.
    spoken: Rc<[(i16, RangeInclusive<i16>)]>,
}

impl NodeApiVersions {
    pub fn of(response: &ApiVersionsResponse) -> NodeApiVersions {
        let key = |api: &ApiVersion| (api.api_key, api.min_version..=api.max_version);
        let mut spoken: Vec<_> = response.api_keys.iter().map(key).collect();
        spoken.sort_by_key(|(api, _)| *api);
        NodeApiVersions { spoken: spoken.into() }
    }

    pub fn get(&self, api: ApiKey) -> Option<&RangeInclusive<i16>> {
        let place = self.spoken.binary_search_by_key(&(api as i16), |(api, _)| *api).ok()?;
        self.spoken.get(place).map(|(_, versions)| versions)
    }

    /// The latest version that is spoken on both sides, up to `latest`; that one where the peer does not say
    /// (`latestUsableVersion`).
    pub fn latest_usable(&self, api: ApiKey, latest: i16) -> i16 {
        self.get(api).map_or(latest, |versions| latest.min(*versions.end()))
    }
}

/// What a broker tells of one feature (`kafka-features.sh describe`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureStatus {
    pub feature: String,
    pub min_level: i16,
    pub max_level: i16,
    /// 0 if it is not in use.
    pub finalized: i16,
}

/// Of each feature that the answering node supports, in the order of their names, and the epoch that the levels are of.
pub fn feature_statuses(response: &ApiVersionsResponse) -> (Vec<FeatureStatus>, Option<i64>) {
    let finalized = FinalizedFeatures::of(response);
    let status = |key: &SupportedFeatureKey| FeatureStatus {
        feature: key.name.to_string(),
        min_level: key.min_version,
        max_level: key.max_version,
        finalized: finalized.level(key.name.as_str()),
    };
    let mut statuses: Vec<FeatureStatus> = response.supported_features.iter().map(status).collect();
    statuses.sort_by(|a, b| a.feature.cmp(&b.feature));
    (statuses, Some(finalized.epoch).filter(|epoch| *epoch >= 0))
}

/// The levels that hold in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizedFeatures {
    /// How far in the metadata log that was; -1 if nobody has said anything.
    pub epoch: i64,
    levels: Rc<BTreeMap<String, i16>>,
}

impl Default for FinalizedFeatures {
    fn default() -> FinalizedFeatures {
        FinalizedFeatures { epoch: -1, levels: Rc::default() }
    }
}

impl FinalizedFeatures {
    pub fn of(response: &ApiVersionsResponse) -> FinalizedFeatures {
        let level = |key: &FinalizedFeatureKey| (key.name.to_string(), key.max_version_level);
        FinalizedFeatures {
            epoch: response.finalized_features_epoch,
            levels: Rc::new(response.finalized_features.iter().map(level).collect()),
        }
    }

    /// What another node says counts if it knows more.
    pub fn hear(&mut self, said: FinalizedFeatures) {
        if said.epoch > self.epoch {
            *self = said;
        }
    }

    /// 0 for a feature that is not in use.
    pub fn level(&self, feature: &str) -> i16 {
        self.levels.get(feature).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::protocol::metadata_records::MetadataRecord;
    use crate::kafka::protocol::strict;

    fn image(level: i16) -> ClusterImage {
        let mut image = ClusterImage::default();
        let feature = |name: &str, level| MetadataRecord::FeatureLevel { name: name.to_string(), level };
        image.replay(&feature("metadata.version", 30));
        image.replay(&feature(TRANSACTION_VERSION, level));
        image
    }

    #[test]
    fn the_levels_of_features_are_told_with_the_versions_of_requests_r_txn_5_r_ctrl_12() {
        for level in [0, 1, 2] {
            let answer = response(&[ApiKey::Produce, ApiKey::EndTxn], &image(level)).into();
            let carried =
                strict::carry_response(&answer, ApiKey::ApiVersions.version()).expect("it has a form");
            let crate::kafka::protocol::Response::ApiVersions(answer) = carried else { unreachable!() };
            let (versions, features) = (NodeApiVersions::of(&answer), FinalizedFeatures::of(&answer));
            assert_eq!(versions.get(ApiKey::EndTxn), Some(&(4..=5)));
            assert_eq!(versions.get(ApiKey::Fetch), None);
            assert_eq!(features.level(TRANSACTION_VERSION), level);
            assert_eq!((features.level("kraft.version"), features.level("metadata.version")), (1, 30));
            let named = |key: &&FinalizedFeatureKey| key.name.as_str() == TRANSACTION_VERSION;
            assert_eq!(answer.finalized_features.iter().any(|key| named(&key)), level > 0, "0 is not told");
            let supported =
                answer.supported_features.iter().find(|key| key.name.as_str() == TRANSACTION_VERSION);
            assert_eq!(supported.map(|key| (key.min_version, key.max_version)), Some((0, 2)));
        }
    }

    #[test]
    fn the_latest_version_that_both_speak_is_used_r_txn_5() {
        let versions = NodeApiVersions::of(&response(&[ApiKey::Produce], &image(2)));
        assert_eq!(versions.latest_usable(ApiKey::Produce, 13), 13);
        assert_eq!(versions.latest_usable(ApiKey::Produce, 11), 11, "a client of transaction version 1");
        assert_eq!(versions.latest_usable(ApiKey::Produce, 14), 13, "a client that is newer");
    }

    #[test]
    fn of_two_nodes_the_one_counts_that_knows_more() {
        let said = |epoch, level: i16| FinalizedFeatures {
            epoch,
            levels: Rc::new([(TRANSACTION_VERSION.to_owned(), level)].into()),
        };
        let mut features = FinalizedFeatures::default();
        for (epoch, level, expected) in [(7, 1, 1), (5, 2, 1), (7, 2, 1), (9, 2, 2)] {
            features.hear(said(epoch, level));
            assert_eq!(features.level(TRANSACTION_VERSION), expected);
        }
    }
}
