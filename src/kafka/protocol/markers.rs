//! WriteTxnMarkers (27) request and response, version 2 (KIP-1228), which kafka-protocol does not know yet.
//!
//! Mirrors `WriteTxnMarkersRequest` and `WriteTxnMarkersResponse`.
//!
//! **Invariant:** every field of the version is there, and is carried without loss.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes, BytesMut};

use super::ErrorCode;
use super::body::{Body, check_version};
use super::wire::{Reader, WireError, Writer};
use crate::kafka::types::{ProducerEpoch, ProducerId, Topic, TopicPartition};

const VERSION: i16 = 2;

/// The end of a transaction in partitions that the receiver leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableMarker {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub committed: bool,
    pub partitions: BTreeSet<TopicPartition>,
    pub coordinator_epoch: i32,
    /// 0 and 1: the marker has the epoch of the transaction; from 2 on the next one (R-TXN-20).
    pub transaction_version: i8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTxnMarkersRequest {
    pub markers: Vec<WritableMarker>,
}

/// Of each producer, what became of its markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteTxnMarkersResponse {
    pub errors: BTreeMap<ProducerId, BTreeMap<TopicPartition, ErrorCode>>,
}

impl WriteTxnMarkersRequest {
    fn write(&self, w: &mut Writer) {
        w.compact_array(&self.markers, |w, marker| {
            w.i64(marker.producer_id.0);
            w.i16(marker.producer_epoch.0);
            w.bool(marker.committed);
            w.compact_array(
                &by_topic(marker.partitions.iter().map(|tp| (tp, ()))),
                |w, (topic, partitions)| {
                    w.compact_string(topic.as_str());
                    w.compact_array(partitions, |w, (partition, ())| w.i32(*partition));
                    w.tags(&[]);
                },
            );
            w.i32(marker.coordinator_epoch);
            w.i8(marker.transaction_version);
            w.tags(&[]);
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<WriteTxnMarkersRequest, WireError> {
        let markers = r.compact_array(|r| {
            let (producer_id, producer_epoch) = (ProducerId(r.i64()?), ProducerEpoch(r.i16()?));
            let committed = r.bool()?;
            let topics = r.compact_array(|r| {
                let topic = (Topic::new(r.compact_string()?), r.compact_array(Reader::i32)?);
                r.tags()?;
                Ok(topic)
            })?;
            let mut partitions = BTreeSet::new();
            for (topic, of_topic) in topics {
                partitions.extend(of_topic.iter().map(|each| TopicPartition::new(&topic, *each)));
            }
            let (coordinator_epoch, transaction_version) = (r.i32()?, r.i8()?);
            r.tags()?;
            Ok(WritableMarker {
                producer_id,
                producer_epoch,
                committed,
                partitions,
                coordinator_epoch,
                transaction_version,
            })
        })?;
        r.tags()?;
        Ok(WriteTxnMarkersRequest { markers })
    }
}

impl WriteTxnMarkersResponse {
    fn write(&self, w: &mut Writer) {
        let producers: Vec<_> = self.errors.iter().collect();
        w.compact_array(&producers, |w, (id, errors)| {
            w.i64(id.0);
            let topics = by_topic(errors.iter().map(|(tp, error)| (tp, *error)));
            w.compact_array(&topics, |w, (topic, partitions)| {
                w.compact_string(topic.as_str());
                w.compact_array(partitions, |w, (partition, error)| {
                    w.i32(*partition);
                    w.i16(error.code());
                    w.tags(&[]);
                });
                w.tags(&[]);
            });
            w.tags(&[]);
        });
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<WriteTxnMarkersResponse, WireError> {
        let producers = r.compact_array(|r| {
            let id = ProducerId(r.i64()?);
            let topics = r.compact_array(|r| {
                let topic = Topic::new(r.compact_string()?);
                let partitions = r.compact_array(|r| {
                    let result = (TopicPartition::new(&topic, r.i32()?), ErrorCode::from_code(r.i16()?));
                    r.tags()?;
                    Ok(result)
                })?;
                r.tags()?;
                Ok(partitions)
            })?;
            r.tags()?;
            Ok((id, topics.into_iter().flatten().collect()))
        })?;
        r.tags()?;
        Ok(WriteTxnMarkersResponse { errors: producers.into_iter().collect() })
    }
}

fn by_topic<'a, T>(partitions: impl Iterator<Item = (&'a TopicPartition, T)>) -> Vec<(Topic, Vec<(i32, T)>)> {
    let mut topics: BTreeMap<Topic, Vec<(i32, T)>> = BTreeMap::new();
    for (tp, value) in partitions {
        topics.entry(tp.topic.clone()).or_default().push((tp.partition, value));
    }
    topics.into_iter().collect()
}

macro_rules! bodies {
    ($($name:ident),*) => {
        $(impl Body for $name {
            fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String> {
                check_version(version, VERSION)?;
                let mut w = Writer::new();
                self.write(&mut w);
                into.extend_from_slice(&w.finish());
                Ok(())
            }

            fn take(bytes: &mut Bytes, version: i16) -> Result<$name, String> {
                check_version(version, VERSION)?;
                let whole = bytes.copy_to_bytes(bytes.remaining());
                let mut r = Reader::new(stringify!($name), &whole);
                let body = $name::read(&mut r).and_then(|body| r.finish().map(|()| body));
                body.map_err(|error| error.to_string())
            }
        })*
    };
}

bodies!(WriteTxnMarkersRequest, WriteTxnMarkersResponse);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::protocol::Request;
    use crate::kafka::protocol::strict::{carry_request, carry_response};

    #[test]
    fn markers_and_their_errors_are_carried_whole() {
        let tp = |topic: &str, partition| TopicPartition::new(&topic.into(), partition);
        let marker = WritableMarker {
            producer_id: ProducerId(1000),
            producer_epoch: ProducerEpoch(3),
            committed: true,
            partitions: [tp("a", 0), tp("a", 2), tp("b", 1)].into(),
            coordinator_epoch: 7,
            transaction_version: 2,
        };
        let other = WritableMarker { committed: false, partitions: [].into(), ..marker.clone() };
        let request: Request = WriteTxnMarkersRequest { markers: vec![marker, other] }.into();
        assert_eq!(carry_request(&request, 2).as_ref(), Ok(&request));
        let errors = [(tp("a", 0), ErrorCode::None), (tp("b", 1), ErrorCode::NotLeaderOrFollower)];
        let errors = [(ProducerId(1000), errors.into()), (ProducerId(1001), [].into())];
        let response = WriteTxnMarkersResponse { errors: errors.into() }.into();
        assert_eq!(carry_response(&response, 2).as_ref(), Ok(&response));
    }

    /// What version 1 has is read by the crate in the same way.
    #[test]
    fn version_2_is_version_1_with_the_transaction_version() {
        use kafka_protocol::messages as m;
        use kafka_protocol::messages::write_txn_markers_request as v1;
        use kafka_protocol::protocol::Encodable;
        let topic = v1::WritableTxnMarkerTopic::default()
            .with_name(m::TopicName("a".into()))
            .with_partition_indexes(vec![0, 2]);
        let marker = v1::WritableTxnMarker::default()
            .with_producer_id(1000.into())
            .with_producer_epoch(3)
            .with_transaction_result(true)
            .with_topics(vec![topic])
            .with_coordinator_epoch(7);
        let mut before = BytesMut::new();
        let request = m::WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        request.encode(&mut before, 1).expect("it has a form");
        let marker = WritableMarker {
            producer_id: ProducerId(1000),
            producer_epoch: ProducerEpoch(3),
            committed: true,
            partitions: [0, 2].map(|each| TopicPartition::new(&"a".into(), each)).into(),
            coordinator_epoch: 7,
            transaction_version: 2,
        };
        let mut now = BytesMut::new();
        WriteTxnMarkersRequest { markers: vec![marker] }.put(&mut now, 2).expect("it has a form");
        let (head, tags) = before.split_at(before.len() - 2);
        assert_eq!(now, [head, &[2], tags].concat());
    }
}
