//! Requests and responses of share groups in the versions of Kafka 4.3, which kafka-protocol does not know yet.
//!
//! Mirrors `ShareFetchRequest`/`Response` and `ShareAcknowledgeRequest`/`Response` version 2 (KIP-1206, KIP-1222), and
//! `WriteShareGroupStateRequest`, `ReadShareGroupStateSummaryResponse` and `DescribeShareGroupOffsetsResponse` version 1
//! (KIP-1226).
//!
//! **Invariant:** every field of the version is there, and is carried without loss.

mod fetch;
mod acknowledge;
mod state;
mod offsets;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages as m;

use super::body::{Body, SameAsVersion0, check_version};
use super::wire::{Field, Reader, Writer, tables};

pub use acknowledge::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgedPartition, AcknowledgedTopic,
    ShareAcknowledgeRequest, ShareAcknowledgeResponse,
};
pub use fetch::{
    AcquiredRecords, FetchPartition, FetchTopic, FetchedPartition, FetchedTopic, ForgottenTopic,
    ShareFetchRequest, ShareFetchResponse,
};
pub use offsets::{DescribeShareGroupOffsetsResponse, OffsetsGroup, OffsetsPartition, OffsetsTopic};
pub use state::{
    ReadShareGroupStateSummaryResponse, SummaryPartition, SummaryTopic, WritePartition,
    WriteShareGroupStateRequest, WriteStateBatch, WriteTopic,
};

pub type WriteShareGroupStateResponse = SameAsVersion0<m::WriteShareGroupStateResponse>;
pub type DescribeShareGroupOffsetsRequest = SameAsVersion0<m::DescribeShareGroupOffsetsRequest>;
pub type ReadShareGroupStateSummaryRequest = SameAsVersion0<m::ReadShareGroupStateSummaryRequest>;

macro_rules! bodies {
    ($($name:ident = $version:literal),*) => {
        $(impl Body for $name {
            fn put(&self, into: &mut BytesMut, version: i16) -> Result<(), String> {
                check_version(version, $version)?;
                let mut w = Writer::new();
                self.write(&mut w);
                into.extend_from_slice(&w.finish());
                Ok(())
            }

            fn take(bytes: &mut Bytes, version: i16) -> Result<$name, String> {
                check_version(version, $version)?;
                let whole = bytes.copy_to_bytes(bytes.remaining());
                let mut r = Reader::new(stringify!($name), &whole);
                let body = $name::read(&mut r).and_then(|body| r.finish().map(|()| body));
                body.map_err(|error| error.to_string())
            }
        })*
    };
}

bodies!(
    ShareFetchRequest = 2,
    ShareFetchResponse = 2,
    ShareAcknowledgeRequest = 2,
    ShareAcknowledgeResponse = 2,
    WriteShareGroupStateRequest = 1,
    ReadShareGroupStateSummaryResponse = 1,
    DescribeShareGroupOffsetsResponse = 1
);

tables! {
    /// What a member says of the records from first to last: one type for all, or one for each.
    AcknowledgementBatch {
        first_offset: i64,
        last_offset: i64,
        /// 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
        acknowledge_types: Vec<i8>,
    }

    /// Who leads a partition, as far as the answering broker knows; by default nobody is named.
    #[derive(Copy, Default)]
    CurrentLeader {
        leader_id: i32,
        leader_epoch: i32,
    }

    /// Where a leader that is named can be reached.
    NodeEndpoint {
        node_id: i32,
        host: String,
        port: i32,
        rack: Option<String>,
    }
}

#[cfg(test)]
mod tests;
