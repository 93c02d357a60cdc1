//! Keys and values of the transaction coordinator's records in `__transaction_state` (R-INT-3).
//!
//! Mirrors `TransactionLogKey`, `TransactionLogValue` and `TransactionLog`. A value of version 0 has no room for the
//! producer ids before and after and for the client's version; version 1 tags them.
//!
//! **Invariant:** what is encoded here is what Kafka 4.3 writes, but for the order of topics, which is a hash map's there.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::types::{ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId};
use super::wire::{Reader, WireError, Writer};

const KEY_VERSION: i16 = 0;
const PREVIOUS_PRODUCER_ID_TAG: u32 = 0;
const NEXT_PRODUCER_ID_TAG: u32 = 1;
const CLIENT_VERSION_TAG: u32 = 2;

/// The id as a record's key.
pub fn encode_key(id: &TransactionalId) -> Bytes {
    let mut w = Writer::new();
    w.i16(KEY_VERSION);
    w.string(id.as_str());
    w.finish()
}

/// The id in a record's key; `None` if the key is of a kind that Kafka 4.3 does not know and leaves alone.
///
/// # Errors
/// The bytes are no key.
pub fn decode_key(bytes: &[u8]) -> Result<Option<TransactionalId>, WireError> {
    let mut r = Reader::new("key of __transaction_state", bytes);
    if r.i16()? != KEY_VERSION {
        return Ok(None);
    }
    let id = TransactionalId::new(r.string()?);
    r.finish()?;
    Ok(Some(id))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionValue {
    pub producer_id: ProducerId,
    /// NONE in version 0.
    pub previous_producer_id: ProducerId,
    /// NONE in version 0.
    pub next_producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub timeout_ms: i32,
    /// The state's id (R-TXN-4).
    pub status: i8,
    /// `None` in the state Empty.
    pub partitions: Option<BTreeSet<TopicPartition>>,
    /// Milliseconds since 1970.
    pub last_update_timestamp_ms: i64,
    /// Milliseconds since 1970; -1 if nothing has begun.
    pub start_timestamp_ms: i64,
    /// 0 in version 0.
    pub client_transaction_version: i16,
}

impl TransactionValue {
    /// The bytes at a version, 0 or 1.
    pub fn encode(&self, version: i16) -> Bytes {
        let is_flexible = version >= 1;
        let mut w = Writer::new();
        w.i16(version);
        w.i64(self.producer_id.0);
        w.i16(self.producer_epoch.0);
        w.i32(self.timeout_ms);
        w.i8(self.status);
        let topics = self.partitions.as_ref().map(by_topic);
        let topics = topics.as_deref();
        if is_flexible {
            w.compact_nullable_array(topics, |w, (topic, partitions)| {
                w.compact_string(topic.as_str());
                w.compact_array(partitions, |w, partition| w.i32(*partition));
                w.tags(&[]);
            });
        } else {
            w.nullable_array(topics, |w, (topic, partitions)| {
                w.string(topic.as_str());
                w.array(partitions, |w, partition| w.i32(*partition));
            });
        }
        w.i64(self.last_update_timestamp_ms);
        w.i64(self.start_timestamp_ms);
        if is_flexible {
            w.tags(&self.tags());
        }
        w.finish()
    }

    /// What differs from the defaults.
    fn tags(&self) -> Vec<(u32, Bytes)> {
        let id =
            |tag: u32, id: ProducerId| (id != ProducerId::NONE).then(|| Writer::tagged(tag, |w| w.i64(id.0)));
        let version = self.client_transaction_version;
        let version = (version != 0).then(|| Writer::tagged(CLIENT_VERSION_TAG, |w| w.i16(version)));
        let ids = [
            id(PREVIOUS_PRODUCER_ID_TAG, self.previous_producer_id),
            id(NEXT_PRODUCER_ID_TAG, self.next_producer_id),
        ];
        ids.into_iter().chain([version]).flatten().collect()
    }

    /// `None` if the version is one that Kafka 4.3 does not know and leaves alone.
    ///
    /// # Errors
    /// The bytes are no value.
    pub fn decode(bytes: &[u8]) -> Result<Option<TransactionValue>, WireError> {
        let mut r = Reader::new("TransactionLogValue", bytes);
        let version = r.i16()?;
        if !(0..=1).contains(&version) {
            return Ok(None);
        }
        let is_flexible = version >= 1;
        let (producer_id, producer_epoch) = (ProducerId(r.i64()?), ProducerEpoch(r.i16()?));
        let (timeout_ms, status) = (r.i32()?, r.i8()?);
        let topics = if is_flexible {
            r.compact_nullable_array(|r| {
                let topic = (Topic::new(r.compact_string()?), r.compact_array(Reader::i32)?);
                r.tags()?;
                Ok(topic)
            })?
        } else {
            r.nullable_array(|r| Ok((Topic::new(r.string()?), r.array(Reader::i32)?)))?
        };
        let partitions = topics.map(|topics| {
            let of = |(topic, partitions): &(Topic, Vec<i32>)| {
                partitions.iter().map(|each| TopicPartition::new(topic, *each)).collect::<Vec<_>>()
            };
            topics.iter().flat_map(of).collect()
        });
        let mut value = TransactionValue {
            producer_id,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch,
            timeout_ms,
            status,
            partitions,
            last_update_timestamp_ms: r.i64()?,
            start_timestamp_ms: r.i64()?,
            client_transaction_version: 0,
        };
        if is_flexible {
            value.read_tags(&mut r)?;
        }
        r.finish()?;
        Ok(Some(value))
    }

    fn read_tags(&mut self, r: &mut Reader<'_>) -> Result<(), WireError> {
        for (tag, mut field) in r.tags()? {
            match tag {
                PREVIOUS_PRODUCER_ID_TAG => self.previous_producer_id = ProducerId(field.i64()?),
                NEXT_PRODUCER_ID_TAG => self.next_producer_id = ProducerId(field.i64()?),
                CLIENT_VERSION_TAG => self.client_transaction_version = field.i16()?,
                _ => continue,
            }
            field.finish()?;
        }
        Ok(())
    }
}

fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<(Topic, Vec<i32>)> {
    let mut topics: BTreeMap<Topic, Vec<i32>> = BTreeMap::new();
    for tp in partitions {
        topics.entry(tp.topic.clone()).or_default().push(tp.partition);
    }
    topics.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> TransactionValue {
        TransactionValue {
            producer_id: ProducerId(1000),
            previous_producer_id: ProducerId(999),
            next_producer_id: ProducerId(1001),
            producer_epoch: ProducerEpoch(2),
            timeout_ms: 60_000,
            status: 1,
            partitions: Some((0..3).map(|each| TopicPartition::new(&"t".into(), each)).collect()),
            last_update_timestamp_ms: 7,
            start_timestamp_ms: 5,
            client_transaction_version: 2,
        }
    }

    #[test]
    fn version_1_tags_what_version_0_loses_r_int_3() {
        let value = value();
        assert_eq!(TransactionValue::decode(&value.encode(1)), Ok(Some(value.clone())));
        let less = TransactionValue {
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            client_transaction_version: 0,
            ..value.clone()
        };
        assert_eq!(TransactionValue::decode(&value.encode(0)), Ok(Some(less.clone())));
        assert_eq!(less.encode(1).last(), Some(&0), "defaults are not tagged");
        let empty = TransactionValue { partitions: None, status: 0, ..less };
        for version in [0, 1] {
            assert_eq!(TransactionValue::decode(&empty.encode(version)), Ok(Some(empty.clone())));
        }
    }

    #[test]
    fn other_kinds_and_versions_are_left_alone_and_broken_bytes_refused() {
        let id = TransactionalId::new("tx");
        assert_eq!(decode_key(&encode_key(&id)), Ok(Some(id)));
        assert_eq!(decode_key(&[0, 1, 9]), Ok(None));
        assert_eq!(TransactionValue::decode(&[0, 2, 9]), Ok(None));
        let whole = value().encode(1);
        for length in 2..whole.len() {
            assert!(TransactionValue::decode(&whole[..length]).is_err(), "{length} bytes");
        }
    }
}
