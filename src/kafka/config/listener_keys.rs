//! Configs of one listener of a broker: `listener.name.NAME.` before a config's name, and for some of them a mechanism of
//! authentication between the two (`DynamicBrokerConfig.brokerConfigSynonyms`).

use super::{Key, broker_key};

/// The configs before whose name stands a mechanism too.
const OF_MECHANISMS: &[&str] = &[
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
];

/// What follows the listener's name, if there is one.
pub fn without_listener(name: &str) -> Option<&str> {
    name.strip_prefix("listener.name.")?.split_once('.').map(|(_, rest)| rest)
}

/// The broker config that a listener's config of this name stands for.
pub fn listener_key(name: &str) -> Option<Key> {
    let rest = without_listener(name)?;
    let of_mechanism = OF_MECHANISMS.iter().find(|known| rest.ends_with(**known));
    broker_key(of_mechanism.unwrap_or(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listeners_config_stands_for_the_brokers_of_the_same_name() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(listener_key(name).map(|key| key.name), expected, "{name}");
        };
        check("listener.name.external.ssl.keystore.location", Some("ssl.keystore.location"));
        check("listener.name.external.scram-sha-256.sasl.jaas.config", Some("sasl.jaas.config"));
        check("listener.name.external.no.such.config", None);
        check("listener.name.external", None);
        check("ssl.keystore.location", None);
        OF_MECHANISMS.iter().for_each(|name| assert!(broker_key(name).is_some(), "{name}"));
    }
}
