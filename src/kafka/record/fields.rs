//! One record inside a batch, and its bytes (R-LOG-1, Kafka's `DefaultRecord`).
//!
//! **Invariant:** a record's bytes are read completely or not at all; what is left over is an error.

use bytes::{BufMut, Bytes};
use kafka_protocol::protocol::StrBytes;

use super::varint;
use crate::kafka::types::Offset;

/// Most bytes that length, attributes, timestamp and offset of a record take.
pub(super) const MAX_OVERHEAD: usize = 21;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub key: StrBytes,
    pub value: Option<Bytes>,
}

/// A record as an application sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub offset: Offset,
    pub timestamp_ms: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<Header>,
}

impl Record {
    /// To be written again.
    pub fn as_new(&self) -> NewRecord<'_> {
        NewRecord {
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &self.headers,
        }
    }
}

/// A record that is to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header],
}

impl NewRecord<'_> {
    /// Bytes of key, value and headers with their lengths.
    pub(super) fn payload_size(&self) -> usize {
        let headers = self
            .headers
            .iter()
            .map(|header| bytes_size(Some(header.key.as_bytes())) + bytes_size(header.value.as_deref()));
        bytes_size(self.key)
            + bytes_size(self.value)
            + count_size(self.headers.len())
            + headers.sum::<usize>()
    }

    fn body_size(&self, timestamp_delta_ms: i64, offset_delta: i32) -> usize {
        1 + varint::size(timestamp_delta_ms) + varint::size(offset_delta.into()) + self.payload_size()
    }

    /// Bytes of the record with its length.
    pub(super) fn size(&self, timestamp_delta_ms: i64, offset_delta: i32) -> usize {
        let body = self.body_size(timestamp_delta_ms, offset_delta);
        count_size(body) + body
    }

    pub(super) fn write(&self, timestamp_delta_ms: i64, offset_delta: i32, into: &mut impl BufMut) {
        write_count(self.body_size(timestamp_delta_ms, offset_delta), into);
        into.put_i8(0); // attributes: none are defined
        varint::write(timestamp_delta_ms, into);
        varint::write(offset_delta.into(), into);
        write_bytes(self.key, into);
        write_bytes(self.value, into);
        write_count(self.headers.len(), into);
        for header in self.headers {
            write_bytes(Some(header.key.as_bytes()), into);
            write_bytes(header.value.as_deref(), into);
        }
    }
}

/// A record where it lies in its batch; nothing is copied or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// With its length.
    pub size_bytes: i32,
    pub timestamp_delta_ms: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    header_count: i32,
    headers: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Takes the next record off `buffer`; `None` if its structure is wrong.
    pub(super) fn read(buffer: &mut &'a [u8]) -> Option<RawRecord<'a>> {
        let start = buffer.len();
        let length = varint::read_i32(buffer)?;
        let mut body = take(buffer, length)?;
        let size_bytes = (start - buffer.len()) as i32;
        take(&mut body, 1)?; // attributes
        let timestamp_delta_ms = varint::read_i64(&mut body)?;
        let offset_delta = varint::read_i32(&mut body)?;
        let key = take_nullable(&mut body)?;
        let value = take_nullable(&mut body)?;
        let header_count = varint::read_i32(&mut body)?;
        let headers = body;
        for _ in 0..header_count {
            read_header(&mut body)?;
        }
        if header_count < 0 || !body.is_empty() {
            return None;
        }
        Some(RawRecord { size_bytes, timestamp_delta_ms, offset_delta, key, value, header_count, headers })
    }

    /// The headers as parts of `batch`, which this record lies in; `None` if a key is not UTF-8.
    pub(super) fn headers_in(&self, batch: &Bytes) -> Option<Vec<Header>> {
        let mut bytes = self.headers;
        let header = |_| {
            let (key, value) = read_header(&mut bytes)?;
            let key = StrBytes::try_from(batch.slice_ref(key)).ok()?;
            Some(Header { key, value: value.map(|value| batch.slice_ref(value)) })
        };
        (0..self.header_count).map(header).collect()
    }
}

fn read_header<'a>(buffer: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key = take_nullable(buffer)??;
    Some((key, take_nullable(buffer)?))
}

fn take<'a>(buffer: &mut &'a [u8], length: i32) -> Option<&'a [u8]> {
    let (taken, rest) = buffer.split_at_checked(usize::try_from(length).ok()?)?;
    *buffer = rest;
    Some(taken)
}

/// A length below zero stands for null.
fn take_nullable<'a>(buffer: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = varint::read_i32(buffer)?;
    if length < 0 { Some(None) } else { take(buffer, length).map(Some) }
}

fn count_size(count: usize) -> usize {
    varint::size(count as i64)
}

fn write_count(count: usize, into: &mut impl BufMut) {
    varint::write(count as i64, into);
}

fn bytes_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(varint::size(-1), |bytes| count_size(bytes.len()) + bytes.len())
}

fn write_bytes(bytes: Option<&[u8]>, into: &mut impl BufMut) {
    match bytes {
        None => varint::write(-1, into),
        Some(bytes) => {
            write_count(bytes.len(), into);
            into.put_slice(bytes);
        }
    }
}
