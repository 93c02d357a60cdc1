//! What makes of a record's key or value the application's own type, and which bytes it cannot read (`Deserializer`).
//!
//! **Invariant:** a key or value that is missing is read as nothing by all of them.

use crate::client::config::ConfigError;

/// One of Kafka's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deserializer {
    /// `ByteArrayDeserializer`, `StringDeserializer`: all bytes are something.
    Any,
    /// `ShortDeserializer`, `IntegerDeserializer` and the like: so many bytes.
    Sized(usize),
    Boolean,
}

const PACKAGE: &str = "org.apache.kafka.common.serialization.";

const CLASSES: [(&str, Deserializer); 10] = [
    ("ByteArrayDeserializer", Deserializer::Any),
    ("ByteBufferDeserializer", Deserializer::Any),
    ("BytesDeserializer", Deserializer::Any),
    ("StringDeserializer", Deserializer::Any),
    ("ShortDeserializer", Deserializer::Sized(2)),
    ("IntegerDeserializer", Deserializer::Sized(4)),
    ("FloatDeserializer", Deserializer::Sized(4)),
    ("LongDeserializer", Deserializer::Sized(8)),
    ("DoubleDeserializer", Deserializer::Sized(8)),
    ("BooleanDeserializer", Deserializer::Boolean),
];

impl Deserializer {
    /// By its class, with its package or without.
    ///
    /// # Errors
    /// Kafka cannot find the class, or this model has not what it does.
    pub fn read(key: &str, class: &str) -> Result<Deserializer, ConfigError> {
        let name = class.strip_prefix(PACKAGE).unwrap_or(class);
        let found = CLASSES.into_iter().find(|(known, _)| *known == name);
        let unknown = || {
            let known = CLASSES.map(|(known, _)| known).join(", ");
            ConfigError::new(key, class, format!("Class {class} cannot be found; here there are {known}"))
        };
        found.map(|(_, deserializer)| deserializer).ok_or_else(unknown)
    }

    /// Whether it throws at these bytes.
    pub fn throws_at(self, bytes: Option<&[u8]>) -> bool {
        bytes.is_some_and(|bytes| match self {
            Deserializer::Any => false,
            Deserializer::Sized(size) => bytes.len() != size,
            Deserializer::Boolean => !matches!(bytes, [0 | 1]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_reads_what_kafkas_reads_and_throws_at_the_rest_r_cons_34() {
        let throws = |class: &str, bytes: &[u8]| {
            Deserializer::read("value.deserializer", class).map(|class| class.throws_at(Some(bytes)))
        };
        for (name, size) in [("Short", 2), ("Integer", 4), ("Float", 4), ("Long", 8), ("Double", 8)] {
            for length in 0..10 {
                let class = format!("{PACKAGE}{name}Deserializer");
                assert_eq!(throws(&class, &vec![7; length]), Ok(length != size), "{name} of {length} bytes");
            }
        }
        assert_eq!(
            [&[0][..], &[1], &[2], &[], &[0, 0]].map(|bytes| throws("BooleanDeserializer", bytes)),
            [Ok(false), Ok(false), Ok(true), Ok(true), Ok(true)]
        );
        assert_eq!(throws("StringDeserializer", &[0xff]), Ok(false), "Java puts a sign for what is no UTF-8");
        let integer = Deserializer::read("key.deserializer", "IntegerDeserializer").unwrap();
        assert!(!integer.throws_at(None), "a tombstone has no value");
        let error = throws("UUIDDeserializer", &[]).unwrap_err();
        assert!(error.reason.starts_with("Class UUIDDeserializer cannot be found"), "{error}");
    }
}
