//! Requests and responses of share groups in the versions of Kafka 4.3, which kafka-protocol does not know yet.
//!
//! Mirrors `ShareFetchRequest`/`Response` and `ShareAcknowledgeRequest`/`Response` version 2 (KIP-1206, KIP-1222), and
//! `WriteShareGroupStateRequest` and `ReadShareGroupStateSummaryResponse` version 1 (KIP-1226).
//!
//! **Invariant:** every field of the version is there, and is carried without loss.

mod fetch;
mod acknowledge;
mod state;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as m;
use uuid::Uuid;

use super::body::{Body, SameAsVersion0, check_version};
use super::wire::{Reader, WireError, Writer};

pub use acknowledge::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgedPartition, AcknowledgedTopic,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse,
};
pub use fetch::{
    AcquiredRecords, FetchPartition, FetchTopic, FetchedPartition, FetchedTopic, ForgottenTopic,
    ShareFetchRequest, ShareFetchResponse,
};
pub use state::{
    ReadShareGroupStateSummaryResponse, SummaryPartition, SummaryTopic, WritePartition,
    WriteShareGroupStateRequest, WriteStateBatch, WriteTopic,
};

pub type WriteShareGroupStateResponse = SameAsVersion0<m::WriteShareGroupStateResponse>;
pub type ReadShareGroupStateSummaryRequest = SameAsVersion0<m::ReadShareGroupStateSummaryRequest>;

/// A body of this module in its one version.
trait Schema: Sized {
    const WHAT: &'static str;
    const VERSION: i16;

    fn write(&self, w: &mut Writer);
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError>;
}

macro_rules! bodies {
    ($($name:ident),*) => {
        $(impl Body for $name {
            fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String> {
                put(self, into, version)
            }

            fn take(bytes: &mut Bytes, version: i16) -> Result<$name, String> {
                take(bytes, version)
            }
        })*
    };
}

bodies!(
    ShareFetchRequest,
    ShareFetchResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    WriteShareGroupStateRequest,
    ReadShareGroupStateSummaryResponse
);

fn put<T: Schema>(body: &T, into: &mut BytesMut, version: i16) -> Result<(), String> {
    check_version(version, T::VERSION)?;
    let mut w = Writer::new();
    body.write(&mut w);
    into.extend_from_slice(&w.finish());
    Ok(())
}

fn take<T: Schema>(bytes: &mut Bytes, version: i16) -> Result<T, String> {
    check_version(version, T::VERSION)?;
    let whole = bytes.copy_to_bytes(bytes.remaining());
    let mut r = Reader::new(T::WHAT, &whole);
    let body = T::read(&mut r).and_then(|body| r.finish().map(|()| body));
    body.map_err(|error| error.to_string())
}

/// What a member says of the records from first to last: one type for all, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgementBatch {
    pub first_offset: i64,
    pub last_offset: i64,
    /// 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    pub acknowledge_types: Vec<i8>,
}

/// Who leads a partition, as far as the answering broker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLeader {
    pub leader_id: i32,
    pub leader_epoch: i32,
}

impl Default for CurrentLeader {
    /// Nobody is named.
    fn default() -> CurrentLeader {
        CurrentLeader { leader_id: 0, leader_epoch: 0 }
    }
}

/// Where a leader that is named can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    pub node_id: i32,
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
}

impl AcknowledgementBatch {
    fn write(&self, w: &mut Writer) {
        w.i64(self.first_offset);
        w.i64(self.last_offset);
        w.compact_array(&self.acknowledge_types, |w, kind| w.i8(*kind));
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<AcknowledgementBatch, WireError> {
        let batch = AcknowledgementBatch {
            first_offset: r.i64()?,
            last_offset: r.i64()?,
            acknowledge_types: r.compact_array(|r| r.i8())?,
        };
        r.tags()?;
        Ok(batch)
    }
}

impl CurrentLeader {
    fn write(&self, w: &mut Writer) {
        w.i32(self.leader_id);
        w.i32(self.leader_epoch);
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<CurrentLeader, WireError> {
        let leader = CurrentLeader { leader_id: r.i32()?, leader_epoch: r.i32()? };
        r.tags()?;
        Ok(leader)
    }
}

impl NodeEndpoint {
    fn write(&self, w: &mut Writer) {
        w.i32(self.node_id);
        w.compact_string(&self.host);
        w.i32(self.port);
        w.compact_nullable_string(self.rack.as_deref());
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<NodeEndpoint, WireError> {
        let endpoint = NodeEndpoint {
            node_id: r.i32()?,
            host: r.compact_string()?.to_string(),
            port: r.i32()?,
            rack: r.compact_nullable_string()?.map(str::to_string),
        };
        r.tags()?;
        Ok(endpoint)
    }
}

/// Something of each topic, by its id.
fn write_topic<T>(w: &mut Writer, topic_id: Uuid, partitions: &[T], each: impl FnMut(&mut Writer, &T)) {
    w.uuid(topic_id);
    w.compact_array(partitions, each);
    w.tags(&[]);
}

fn read_topic<T>(
    r: &mut Reader<'_>,
    each: impl FnMut(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<(Uuid, Vec<T>), WireError> {
    let topic = (r.uuid()?, r.compact_array(each)?);
    r.tags()?;
    Ok(topic)
}

fn text(text: Option<&str>) -> Option<String> {
    text.map(str::to_string)
}

#[cfg(test)]
mod tests;
