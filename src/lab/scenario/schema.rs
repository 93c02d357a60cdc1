//! The JSON Schema of scenarios, made of the tables that the reader checks configs by.
//!
//! It says what an editor can know of a file by itself. What only the whole file tells, such as whether a topic exists, and
//! the inner form of rates, keys, programs and commands, the reader says.

use serde_json::{Map, Value, json};

use super::{FORMAT, limits, parts, share};
use crate::client::config::producer::PRODUCER_KEYS;
use crate::client::config::{COMMON_KEYS, Key, Kind};
use crate::client::consumer::config::KEYS as CONSUMER_KEYS;
use crate::client::profile::Profile;
use crate::kafka::config::{FEATURE_KEYS, TOPIC_KEYS, broker_keys};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const TIME: &str = "^[0-9]+(us|ms|s|min|h)$";

/// The schema, draft 2020-12.
pub fn schema() -> Value {
    json!({
        "$schema": DIALECT,
        "title": "A scenario of Glassbroker",
        "type": "object",
        "additionalProperties": false,
        "required": ["format", "broker"],
        "properties": {
            "format": described(json!({"const": FORMAT}), "Of this file."),
            "seed": described(json!({"type": "integer", "minimum": 0}), "Same seed, same file, same commands: the same run, event by event."),
            "start": time("The virtual time at which the page opens."),
            "network": {
                "type": "object",
                "additionalProperties": false,
                "properties": {"latency": described(json!({"type": "string"}), "How long one packet takes, as in \"20ms..60ms\", drawn for each.")},
            },
            "controllers": described(json!({"enum": [1, 3, 5]}), "How many controllers keep the metadata; their ids are from 101 on."),
            "controller": list(&[("id", json!({"type": "integer", "minimum": 0}))], &["id"], "The controllers one by one."),
            "broker-defaults": configs(broker_keys()),
            "features": configs(FEATURE_KEYS.iter().copied()),
            "broker": list(&[("id", json!({"type": "integer", "minimum": 0})), ("rack", text("Where the broker stands."))], &["id"], "The brokers."),
            "topic": topics(),
            "producer": producers(),
            "consumer": consumers(),
            "share-consumer": members(configs(share::keys().copied()), &[], "Members of share groups."),
            "application": members(
                configs(share::keys().chain(CONSUMER_KEYS).chain(PRODUCER_KEYS).copied()),
                &[("output", text("The topic that results go to."))],
                "Applications that consume, process and produce.",
            ),
            "at": list(
                &[("time", time("When.")), ("do", text("A command, as on the page."))],
                &["time", "do"],
                "Commands that are given by themselves.",
            ),
            "expect": list(
                &[("time", time("When.")), ("that", text("Such as \"lost = 0\" or \"processed twice by billing = 3\"."))],
                &["time", "that"],
                "What records are to have come to.",
            ),
        },
    })
}

fn topics() -> Value {
    let integer = |max: i64| json!({"type": "integer", "minimum": 1, "maximum": max});
    let properties = [
        ("name", text("Up to 249 letters, digits, dots, underscores and hyphens.")),
        ("partitions", integer(limits::PARTITIONS)),
        ("replication-factor", integer(limits::BROKERS as i64)),
        ("config", configs(TOPIC_KEYS.iter().copied())),
    ];
    list(
        &properties,
        &["name", "partitions", "replication-factor"],
        "The topics that there are from the start.",
    )
}

fn producers() -> Value {
    let properties = [
        ("name", text("Its client.id too.")),
        ("topic", text("Where its records go.")),
        ("rate", text("Such as \"12/s\", \"1/5s\" or \"300/min\".")),
        ("keys", text("Such as \"cart-{0..7}\", or \"none\".")),
        (
            "partition",
            described(json!({"type": "integer", "minimum": 0}), "The partition that every record names."),
        ),
        (
            "value",
            text("With {n} for the record's number, {key} for its key, {random 100} for so many letters."),
        ),
        ("value-size", described(json!({"type": "integer", "minimum": 0, "maximum": 1_000_000}), "Bytes.")),
        ("profile", profile()),
        ("transaction", text("Such as \"every 10 records abort 10%\".")),
        ("start-at", time("When it starts.")),
        ("config", configs(PRODUCER_KEYS.iter().chain(COMMON_KEYS).copied())),
    ];
    list(&properties, &["name", "topic"], "The producers.")
}

fn consumers() -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let properties = [
        ("name", text("Its client.id too.")),
        ("group", text("Its group.id.")),
        ("topics", texts()),
        ("partitions", texts()),
        ("pattern", text("The topics whose names match.")),
        ("re2j", text("As pattern; the coordinator looks for them.")),
        ("program", program()),
        ("profile", profile()),
        ("start-at", time("When it starts.")),
        ("config", configs(parts::consumer_keys().copied())),
    ];
    list(&properties, &["name"], "The consumers: each has one of topics, partitions, pattern and re2j.")
}

/// Clients of a group with topics and a program.
fn members(configs: Value, others: &[(&str, Value)], what: &str) -> Value {
    let mut properties = vec![
        ("name", text("Its client.id too.")),
        ("group", text("Its group.id.")),
        ("topics", json!({"type": "array", "items": {"type": "string"}, "minItems": 1})),
        ("program", program()),
        ("start-at", time("When it starts.")),
        ("config", configs),
    ];
    let mut required = vec!["name", "group", "topics"];
    for (name, value) in others {
        properties.push((name, value.clone()));
        required.extend([*name, "program"]);
    }
    list(&properties, &required, what)
}

fn program() -> Value {
    described(
        json!({"type": "array", "items": {"type": "string"}}),
        "Lines such as \"poll\", \"process 20ms\", \"commit\".",
    )
}

fn profile() -> Value {
    described(
        json!({"enum": Profile::ALL.map(Profile::name)}),
        "Which library the client is, and how it is used.",
    )
}

fn text(what: &str) -> Value {
    described(json!({"type": "string"}), what)
}

fn time(what: &str) -> Value {
    described(json!({"type": "string", "pattern": TIME}), what)
}

fn described(mut value: Value, what: &str) -> Value {
    value["description"] = Value::from(what);
    value
}

fn list(properties: &[(&str, Value)], required: &[&str], what: &str) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({
        "type": "array",
        "description": what,
        "items": {"type": "object", "additionalProperties": false, "required": required, "properties": properties},
    })
}

/// Configs by Kafka's names; each value may stand in quotes.
fn configs(keys: impl Iterator<Item = Key>) -> Value {
    let properties: Map<String, Value> = keys.map(|key| (key.name.to_owned(), config(&key))).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn config(key: &Key) -> Value {
    let mut value = match key.kind {
        Kind::Integer { min, max } => {
            json!({"anyOf": [{"type": "integer", "minimum": min, "maximum": max}, {"type": "string"}]})
        }
        Kind::Boolean => json!({"enum": [true, false, "true", "false"]}),
        Kind::Ratio => json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string"}]}),
        Kind::OneOf(values) if values.iter().all(|value| value.parse::<i64>().is_err()) => {
            json!({"enum": values})
        }
        Kind::OneOf(_) | Kind::Double => json!({"type": ["number", "string"]}),
        Kind::OneOfAnyCase(_)
        | Kind::ListOf(_)
        | Kind::List
        | Kind::Replicas
        | Kind::Text
        | Kind::Class
        | Kind::Password => {
            json!({"type": ["string", "integer"]})
        }
    };
    value["default"] = Value::from(key.default);
    if !key.doc.is_empty() {
        value["description"] = Value::from(key.doc);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::scenario::Scenario;

    /// The published file is what the program says: `glassbroker schema > static/scenario.schema.json` writes it.
    #[test]
    fn the_published_schema_is_this_one() {
        let published = include_str!("../../../static/scenario.schema.json");
        let published: Value = serde_json::from_str(published).expect("it is JSON");
        assert_eq!(published, schema(), "glassbroker schema > static/scenario.schema.json");
    }

    /// Every name of the schema is known to the reader, which names all that it knows when it refuses one.
    #[test]
    fn the_schema_has_the_names_that_the_reader_knows() {
        let schema = schema();
        let known = |text: &str| {
            let error = Scenario::parse(text).expect_err(text).reason;
            let (_, names) = error.split_once("it has ").unwrap_or_else(|| panic!("{text}: {error}"));
            let mut names: Vec<String> = names.split(", ").map(str::to_owned).collect();
            names.sort();
            names
        };
        let names = |value: &Value| {
            let mut names: Vec<String> =
                value["properties"].as_object().expect("an object").keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names(&schema), known("format = 1\nx = 1"));
        let start = "format = 1\n[[broker]]\nid = 1\n";
        for list in ["topic", "producer", "consumer", "share-consumer", "application", "at", "expect"] {
            let text = format!("{start}[[{list}]]\nx = 1");
            assert_eq!(names(&schema["properties"][list]["items"]), known(&text), "{list}");
        }
        assert_eq!(names(&schema["properties"]["broker"]["items"]), known("format = 1\n[[broker]]\nx = 1"));
        assert_eq!(names(&schema["properties"]["network"]), known(&format!("{start}[network]\nx = 1")));
    }

    /// Each config's default is one that its part of the schema takes, so that its kind is the right one.
    #[test]
    fn defaults_fit_their_kinds() {
        for key in broker_keys().chain(TOPIC_KEYS.iter().chain(PRODUCER_KEYS).chain(CONSUMER_KEYS).copied()) {
            let value = config(&key);
            let fits = match value.get("enum") {
                Some(values) => {
                    values.as_array().is_some_and(|values| values.contains(&Value::from(key.default)))
                }
                None => true,
            };
            assert!(fits || key.default.is_empty() || key.default == "null", "{}: {value}", key.name);
        }
    }
}
