//! The bodies of requests and responses as bytes at a version.
//!
//! **Invariant:** what is taken is what was put; a version that is not known is refused.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

/// A body that has a form on the wire: kafka-protocol's, or our own where Kafka 4.3 speaks a version that the crate does
/// not know.
pub(super) trait Body: Sized {
    /// # Errors
    /// The version has no place for what is set.
    fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String>;

    /// # Errors
    /// The bytes are none of this version.
    fn take(bytes: &mut Bytes, version: i16) -> Result<Self, String>;
}

impl<T: Encodable + Decodable> Body for T {
    fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String> {
        self.encode(into, version).map_err(|error| error.to_string())
    }

    fn take(bytes: &mut Bytes, version: i16) -> Result<T, String> {
        T::decode(bytes, version).map_err(|error| error.to_string())
    }
}

/// A body of the crate whose version 1 differs from version 0 in its number only.
#[derive(Clone, Debug, PartialEq)]
pub struct SameAsVersion0<T>(pub T);

impl<T: Encodable + Decodable> Body for SameAsVersion0<T> {
    fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String> {
        check_version(version, 1)?;
        self.0.put(into, 0)
    }

    fn take(bytes: &mut Bytes, version: i16) -> Result<SameAsVersion0<T>, String> {
        check_version(version, 1)?;
        T::take(bytes, 0).map(SameAsVersion0)
    }
}

pub(super) fn check_version(version: i16, known: i16) -> Result<(), String> {
    if version == known { Ok(()) } else { Err(format!("version {version} is unknown")) }
}
