//! Dynamic configs of a group (`GroupConfig`, KIP-848, KIP-932, KIP-1071). The controller checks and keeps them, brokers
//! tell them, and coordinators of consumer groups go by theirs; those of streams groups have no effect.
//!
//! Most are bounded by configs of the brokers.

use std::collections::BTreeMap;

use super::{Key, Kind, broker_key, check_value};

/// Every config of a group.
pub const GROUP_KEYS: &[Key] = &[
    Key::plain("consumer.assignment.interval.ms", "1000", Kind::int_from(0)),
    Key::plain("consumer.heartbeat.interval.ms", "5000", Kind::int_from(1)),
    Key::plain("consumer.session.timeout.ms", "45000", Kind::int_from(1)),
    Key::plain("share.assignment.interval.ms", "1000", Kind::int_from(0)),
    Key::plain(OFFSET_RESET, "latest", Kind::Text),
    Key::plain("share.delivery.count.limit", "5", Kind::int_from(2)),
    Key::plain("share.heartbeat.interval.ms", "5000", Kind::int_from(1)),
    Key::plain(
        "share.isolation.level",
        "read_uncommitted",
        Kind::OneOf(&["read_committed", "read_uncommitted"]),
    ),
    Key::plain("share.partition.max.record.locks", "2000", Kind::int_from(100)),
    Key::plain("share.record.lock.duration.ms", "30000", Kind::int_from(1000)),
    Key::plain("share.renew.acknowledge.enable", "true", Kind::Boolean),
    Key::plain("share.session.timeout.ms", "45000", Kind::int_from(1)),
    Key::plain("streams.assignment.interval.ms", "1000", Kind::int_from(0)),
    Key::plain("streams.heartbeat.interval.ms", "5000", Kind::int_from(1)),
    Key::plain("streams.initial.rebalance.delay.ms", "3000", Kind::int_from(0)),
    Key::plain("streams.num.standby.replicas", "0", Kind::int_from(0)),
    Key::plain("streams.session.timeout.ms", "45000", Kind::int_from(1)),
];

const OFFSET_RESET: &str = "share.auto.offset.reset";

/// What brokers bound, in the order in which Kafka looks at it.
const BOUNDED: &[&str] = &[
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
];

pub fn group_key(name: &str) -> Option<&'static Key> {
    GROUP_KEYS.iter().find(|key| key.name == name)
}

/// The broker config that is the default of a group's.
pub fn group_synonym(name: &str) -> Option<Key> {
    broker_key(&format!("group.{name}"))
}

/// The broker config that is the least or most that a group's may be.
fn bound(name: &str, which: &str) -> Option<Key> {
    let (kind, rest) = name.split_once('.')?;
    let rest = if name == "streams.num.standby.replicas" { "standby.replicas" } else { rest };
    broker_key(&format!("group.{kind}.{which}.{rest}"))
}

/// What a broker config is that nobody has set.
///
/// Panics if it is no number.
pub fn default_limit(key: &Key) -> i64 {
    key.default.parse().unwrap_or_else(|_| panic!("{} is no number", key.name))
}

/// `GroupConfig.validate`: names, values, bounds, and how sessions and heartbeats fit to each other. `limit` tells what
/// the brokers' configs say that bound a group's.
///
/// # Errors
///
/// Kafka's sentence for an INVALID_CONFIG.
pub fn check_group_config(own: &BTreeMap<String, String>, limit: impl Fn(&Key) -> i64) -> Result<(), String> {
    for (name, value) in own {
        let key = group_key(name).ok_or_else(|| format!("Unknown group config name: {name}"))?;
        check_value(key, value).map_err(|error| error.to_string())?;
    }
    if let Some(value) = own.get(OFFSET_RESET).filter(|value| !is_offset_reset(value)) {
        return Err(format!(
            "Invalid value {value} for configuration {OFFSET_RESET}: Invalid value `{value}` for configuration \
             {OFFSET_RESET}. The value must be either 'earliest', 'latest' or of the format \
             'by_duration:<PnDTnHnMn.nS>'."
        ));
    }
    let number = |name: &str| {
        let text = own.get(name).map(String::as_str).or(group_key(name).map(|key| key.default));
        text.and_then(|text| text.trim().parse::<i64>().ok()).unwrap_or_else(|| panic!("{name} is no number"))
    };
    for name in BOUNDED {
        let value = number(name);
        match (bound(name, "min"), bound(name, "max")) {
            (Some(min), _) if value < limit(&min) => {
                return Err(format!("{name} must be greater than or equal to {}", min.name));
            }
            (_, Some(max)) if value > limit(&max) => {
                return Err(format!("{name} must be less than or equal to {}", max.name));
            }
            _ => {}
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let (session, heartbeat) =
            (format!("{kind}.session.timeout.ms"), format!("{kind}.heartbeat.interval.ms"));
        if number(&session) <= number(&heartbeat) {
            return Err(format!("{session} must be greater than {heartbeat}"));
        }
    }
    Ok(())
}

/// What a group's config says, or its default.
pub fn group_value<'a>(own: Option<&'a BTreeMap<String, String>>, name: &str) -> &'a str {
    let default = || group_key(name).unwrap_or_else(|| panic!("{name} is no config of a group")).default;
    own.and_then(|own| own.get(name)).map_or_else(default, String::as_str)
}

/// Where a share group begins that has not read a partition before (R-SHARE-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    Earliest,
    Latest,
    /// At the first record that is not older.
    Ago {
        ms: i64,
    },
}

/// What `share.auto.offset.reset` says, which was checked when it was set.
pub fn group_offset_reset(own: Option<&BTreeMap<String, String>>) -> OffsetReset {
    offset_reset(group_value(own, OFFSET_RESET)).unwrap_or(OffsetReset::Latest)
}

fn is_offset_reset(text: &str) -> bool {
    offset_reset(text).is_some()
}

/// `ShareGroupAutoOffsetResetStrategy`.
fn offset_reset(text: &str) -> Option<OffsetReset> {
    match text {
        "earliest" => Some(OffsetReset::Earliest),
        "latest" => Some(OffsetReset::Latest),
        _ => by_duration_ms(text).map(|ms| OffsetReset::Ago { ms }),
    }
}

/// How long ago `by_duration:PT1H` is (KIP-1106).
pub fn by_duration_ms(text: &str) -> Option<i64> {
    const NS_PER_MS: i128 = 1_000_000;
    let ns = text.strip_prefix("by_duration:").and_then(nanoseconds).filter(|ns| *ns >= 0)?;
    Some(i64::try_from(ns / NS_PER_MS).unwrap_or(i64::MAX))
}

/// A duration as ISO 8601 writes it and `java.time.Duration` reads it: `P1DT2H3M4.5S`, each part with a sign if need be.
fn nanoseconds(text: &str) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    let text = text.to_ascii_uppercase();
    let (sign, text) = signed(&text);
    let text = text.strip_prefix('P')?;
    let (days, time) = text.split_once('T').map_or((text, None), |(days, time)| (days, Some(time)));
    if time == Some("") || days.is_empty() && time.is_none() {
        return None;
    }
    let (mut sum, mut rest) = (0, days);
    for (unit, factor) in [('D', 86_400 * SECOND), ('H', 3_600 * SECOND), ('M', 60 * SECOND), ('S', SECOND)] {
        if let Some((amount, after)) = rest.split_once(unit) {
            sum += scaled(amount, factor, unit == 'S')?;
            rest = after;
        }
        if unit == 'D' {
            // What stands before the T is days and nothing else.
            rest = time.filter(|_| rest.is_empty()).or(Some(rest).filter(|rest| rest.is_empty()))?;
        }
    }
    rest.is_empty().then_some(sign * sum)
}

fn scaled(text: &str, factor: i128, with_fraction: bool) -> Option<i128> {
    let (sign, text) = signed(text);
    let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = digits(whole) && digits(fraction) && fraction.len() <= 9;
    if whole.is_empty() || !fits || text != whole && !with_fraction {
        return None;
    }
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = i128::from(whole.parse::<i64>().ok()?);
    Some(sign * (seconds * factor + fraction))
}

fn signed(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::BrokerConfig;

    #[track_caller]
    fn check(own: &[(&str, &str)], expected: Result<(), &str>) {
        let own = own.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        assert_eq!(check_group_config(&own, default_limit), expected.map_err(str::to_string));
    }

    #[test]
    fn a_groups_configs_lie_between_those_of_the_brokers() {
        check(&[], Ok(()));
        check(&[("consumer.session.timeout.ms", "50000"), ("share.delivery.count.limit", "10")], Ok(()));
        check(&[("session.timeout.ms", "50000")], Err("Unknown group config name: session.timeout.ms"));
        check(
            &[("consumer.session.timeout.ms", "44999")],
            Err("consumer.session.timeout.ms must be greater than or equal to \
                 group.consumer.min.session.timeout.ms"),
        );
        check(
            &[("consumer.heartbeat.interval.ms", "15001")],
            Err("consumer.heartbeat.interval.ms must be less than or equal to \
                 group.consumer.max.heartbeat.interval.ms"),
        );
        check(
            &[("streams.num.standby.replicas", "3")],
            Err(
                "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
            ),
        );
        check(
            &[("share.delivery.count.limit", "1")],
            Err("Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2"),
        );
        check(
            &[("share.renew.acknowledge.enable", "no")],
            Err("Invalid value no for configuration share.renew.acknowledge.enable: \
                 Expected value to be either true or false"),
        );
    }

    #[test]
    fn each_bounded_config_has_a_bound_and_each_default_is_the_brokers() {
        for name in BOUNDED {
            assert!(group_key(name).is_some() && bound(name, "max").is_some(), "{name}");
        }
        for key in GROUP_KEYS {
            let synonym = group_synonym(key.name);
            let alone = [OFFSET_RESET, "share.isolation.level", "share.renew.acknowledge.enable"];
            assert_eq!(synonym.is_none(), alone.contains(&key.name), "{}", key.name);
            assert!(synonym.is_none_or(|synonym| synonym.default == key.default), "{}", key.name);
        }
        assert!(GROUP_KEYS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    /// `ShareGroupConfig.validate`, and what a group's config is held against.
    #[test]
    fn brokers_bound_what_a_group_says_of_locks_and_deliveries_r_share_7_8() {
        let text = |given: &[(&str, &str)]| -> BTreeMap<String, String> {
            given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let short = ("group.share.record.lock.duration.ms", "5000");
        let refused = BrokerConfig::read(&text(&[short])).expect_err("it is below the least").to_string();
        assert!(
            refused.ends_with("must be greater than or equal to group.share.min.record.lock.duration.ms")
        );
        let least = ("group.share.min.record.lock.duration.ms", "1000");
        let brokers = BrokerConfig::read(&text(&[short, least])).expect("they fit to each other");
        let check = |own: &[(&str, &str)]| check_group_config(&text(own), |key| brokers.number(key));
        assert_eq!(check(&[("share.record.lock.duration.ms", "2000")]), Ok(()));
        let refused = check(&[("share.delivery.count.limit", "11")]);
        let sentence =
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit";
        assert_eq!(refused, Err(sentence.to_string()));
    }

    #[test]
    fn a_share_group_begins_at_an_end_or_some_time_ago() {
        for text in ["earliest", "latest", "by_duration:PT1H", "by_duration:p2dt0.5s", "by_duration:PT10M-5S"]
        {
            assert!(is_offset_reset(text), "{text}");
        }
        for text in [
            "none",
            "Latest",
            "by_duration",
            "by_duration:",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:P1DT",
        ] {
            assert!(!is_offset_reset(text), "{text}");
        }
        for text in [
            "by_duration:-PT1S",
            "by_duration:PT1.5H",
            "by_duration:PT1D",
            "by_duration:P1H",
            "by_duration:PT1S2M",
        ] {
            assert!(!is_offset_reset(text), "{text}");
        }
        assert_eq!(nanoseconds("P1DT2H3M4.5S"), Some(93_784_500_000_000));
        let own = BTreeMap::from([(OFFSET_RESET.to_string(), "by_duration:PT1H".to_string())]);
        assert_eq!(group_offset_reset(Some(&own)), OffsetReset::Ago { ms: 3_600_000 });
        assert_eq!(group_offset_reset(None), OffsetReset::Latest, "R-SHARE-4");
    }
}
