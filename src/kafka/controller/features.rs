//! Levels of features that change while the cluster runs: UpdateFeatures (KIP-584, KIP-778, R-CTRL-12).
//!
//! Mirrors `FeatureControlManager.updateFeatures` and what `ConfigurationControlManager` puts before it. All nodes run the
//! same software, so that what this controller supports each does.
//!
//! **Invariant:** of the updates of one request all are written or none.

use std::ops::RangeInclusive;

use kafka_protocol::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use kafka_protocol::protocol::StrBytes;

use super::configs::MIN_ISR;
use super::image::ClusterImage;
use super::partitions::Basis;
use crate::kafka::api_versions::supported_levels;
use crate::kafka::config::ELIGIBLE_LEADER_REPLICAS;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::types::ControllerId;

/// Whether a level may rise or fall (`FeatureUpdate.UpgradeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpgradeType {
    Upgrade,
    SafeDowngrade,
}

/// `UNSAFE_DOWNGRADE`, which differs from a safe one for metadata.version alone.
const UNSAFE_DOWNGRADE: i8 = 3;

impl UpgradeType {
    pub fn code(self) -> i8 {
        match self {
            UpgradeType::Upgrade => 1,
            UpgradeType::SafeDowngrade => 2,
        }
    }

    fn of_code(code: i8) -> Option<UpgradeType> {
        match code {
            1 => Some(UpgradeType::Upgrade),
            2 | UNSAFE_DOWNGRADE => Some(UpgradeType::SafeDowngrade),
            _ => None,
        }
    }
}

/// The records of a request, which are none if it only asks whether they could be, and its answer.
pub fn update(
    request: &UpdateFeaturesRequest,
    controller: ControllerId,
    basis: Basis<'_>,
) -> (Vec<MetadataRecord>, UpdateFeaturesResponse) {
    let mut records = Vec::new();
    for update in &request.feature_updates {
        let (name, level) = (update.feature.as_str(), update.max_version_level);
        if let Err(why) =
            check(name, level, UpgradeType::of_code(update.upgrade_type), controller, basis.image)
        {
            let sentence = format!(
                "The update failed for all features since the following feature had an error: Invalid update version \
                 {level} for feature {name}. {why}"
            );
            let refused = UpdateFeaturesResponse::default()
                .with_error_code(ErrorCode::InvalidUpdateVersion.code())
                .with_error_message(Some(StrBytes::from_string(sentence)));
            return (Vec::new(), refused);
        }
        if name == ELIGIBLE_LEADER_REPLICAS && level > 0 {
            records.splice(0..0, safe_for_elr(basis));
        }
        records.push(MetadataRecord::FeatureLevel { name: name.to_owned(), level });
    }
    if request.validate_only {
        records.clear();
    }
    (records, UpdateFeaturesResponse::default().with_error_message(None))
}

/// # Errors
///
/// Why the level cannot be that.
fn check(
    name: &str,
    level: i16,
    upgrade: Option<UpgradeType>,
    controller: ControllerId,
    image: &ClusterImage,
) -> Result<(), String> {
    let upgrade = upgrade.ok_or("The controller does not support the given upgrade type.")?;
    if level < 0 {
        return Err("A feature version cannot be less than 0.".to_owned());
    }
    let supported = supported_levels(name);
    if !supported.contains(&level) {
        return Err(not_supported(&supported, controller));
    }
    let before = image.features.get(name).copied().unwrap_or(0);
    match upgrade {
        UpgradeType::Upgrade if level < before => Err(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or \
                 unsafe downgrade."
                .to_owned(),
        ),
        UpgradeType::SafeDowngrade if level > before => Err("Can't downgrade to a newer version.".to_owned()),
        UpgradeType::Upgrade | UpgradeType::SafeDowngrade => Ok(()),
    }
}

fn not_supported(levels: &RangeInclusive<i16>, controller: ControllerId) -> String {
    match levels.end() {
        0 => format!("Local controller {controller} does not support this feature."),
        end => format!("Local controller {controller} only supports versions {}-{end}", levels.start()),
    }
}

/// Before replicas may be eligible, min.insync.replicas is a config of the cluster and of no broker (R-REPL-48).
fn safe_for_elr(basis: Basis<'_>) -> Vec<MetadataRecord> {
    let config = |name: String, value| MetadataRecord::Config {
        resource: ConfigResource::Broker,
        name,
        key: MIN_ISR.to_owned(),
        value,
    };
    let image = basis.image;
    let cluster = (!image.cluster_config.contains_key(MIN_ISR))
        .then(|| config(String::new(), Some(basis.config.min_insync_replicas.to_string())));
    let own = image.broker_configs.iter().filter(|(_, configs)| configs.contains_key(MIN_ISR));
    cluster.into_iter().chain(own.map(|(broker, _)| config(broker.to_string(), None))).collect()
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::update_features_request::FeatureUpdateKey;

    use super::*;
    use crate::kafka::config::BrokerConfig;

    fn image(levels: &[(&str, i16)]) -> ClusterImage {
        let mut image = ClusterImage::default();
        for (name, level) in levels {
            image.replay(&MetadataRecord::FeatureLevel { name: name.to_string(), level: *level });
        }
        image
    }

    /// What updates come to: the levels that are written, or the end of the answer's sentence.
    fn updated(image: &ClusterImage, upgrade_type: i8, updates: &[(&str, i16)]) -> String {
        let updates = updates.iter().map(|(name, level)| {
            FeatureUpdateKey::default()
                .with_feature(StrBytes::from_string(name.to_string()))
                .with_max_version_level(*level)
                .with_upgrade_type(upgrade_type)
        });
        let request = UpdateFeaturesRequest::default().with_feature_updates(updates.collect());
        let config = BrokerConfig::default();
        let (records, answer) = update(&request, ControllerId(101), Basis { image, config: &config });
        if answer.error_code != 0 {
            assert!(records.is_empty());
            assert_eq!(answer.error_code, ErrorCode::InvalidUpdateVersion.code());
            return answer
                .error_message
                .expect("a sentence")
                .split_once("feature had an error: ")
                .expect("it")
                .1
                .to_owned();
        }
        let told = records.iter().map(|record| match record {
            MetadataRecord::FeatureLevel { name, level } => format!("{name}={level}"),
            MetadataRecord::Config { name, key, value, .. } => format!("broker {name:?} {key}={value:?}"),
            other => panic!("{other:?}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_level_rises_by_an_upgrade_and_falls_by_a_downgrade_r_ctrl_12() {
        let image = image(&[("transaction.version", 1), ("share.version", 1)]);
        assert_eq!(updated(&image, 1, &[("transaction.version", 2)]), "transaction.version=2");
        assert_eq!(updated(&image, 1, &[("transaction.version", 1)]), "transaction.version=1", "it stays");
        assert_eq!(updated(&image, 2, &[("share.version", 0)]), "share.version=0");
        let refused = |upgrade_type, name, level, why: &str| {
            let sentence = format!("Invalid update version {level} for feature {name}. {why}");
            assert_eq!(updated(&image, upgrade_type, &[("share.version", 1), (name, level)]), sentence);
        };
        refused(
            1,
            "transaction.version",
            0,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
        );
        refused(2, "transaction.version", 2, "Can't downgrade to a newer version.");
        refused(1, "transaction.version", 3, "Local controller 101 only supports versions 0-2");
        refused(1, "no.version", 1, "Local controller 101 does not support this feature.");
        refused(1, "transaction.version", -1, "A feature version cannot be less than 0.");
        let image = &ClusterImage::default();
        let sentence = "Invalid update version 2 for feature transaction.version. The controller does not support the given upgrade type.";
        assert_eq!(updated(image, 0, &[("transaction.version", 2)]), sentence);
    }

    #[test]
    fn eligible_leader_replicas_come_with_a_min_isr_of_the_cluster_alone_r_repl_48() {
        let mut image = image(&[]);
        let feature = "eligible.leader.replicas.version";
        image.replay(&MetadataRecord::Config {
            resource: ConfigResource::Broker,
            name: "2".to_owned(),
            key: MIN_ISR.to_owned(),
            value: Some("2".to_owned()),
        });
        let expected = "broker \"\" min.insync.replicas=Some(\"1\"), broker \"2\" min.insync.replicas=None, \
                        eligible.leader.replicas.version=1";
        assert_eq!(updated(&image, 1, &[(feature, 1)]), expected);
        assert_eq!(updated(&image, 1, &[(feature, 0)]), format!("{feature}=0"));
    }
}
