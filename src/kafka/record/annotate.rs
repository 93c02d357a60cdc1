//! A batch byte by byte: which bytes hold which field, and what they say.
//!
//! **Invariant:** the spans follow each other without gap or overlap from the first byte to the last, whatever the bytes.

use bytes::{Buf, Bytes};

use super::batch::{Batch, HEADER_SIZE};
use super::compression::Compression;
use super::control::ControlType;
use super::varint;

/// One field where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Of its first byte, from the start of the batch or, in a compressed one, of the decompressed block.
    pub offset: i32,
    /// In bytes; 0 for an empty key or value.
    pub length: i32,
    /// Kafka's name for the field.
    pub field: &'static str,
    /// The record's place in the batch; `None` in the header.
    pub record: Option<i32>,
    /// What the bytes say.
    pub value: String,
}

/// All fields of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// The header's, then the records', unless they are compressed: then one for the compressed block.
    pub spans: Vec<Span>,
    /// The decompressed block and the records' fields in it.
    pub block: Option<(Bytes, Vec<Span>)>,
}

impl Batch {
    /// The batch byte by byte. Bytes that cannot be read are a field named `?`.
    pub fn annotate(&self) -> Annotated {
        let mut reader = Reader { bytes: self.bytes(), at: 0, record: None, spans: Vec::new() };
        self.annotate_header(&mut reader);
        let body = self.body();
        let codec = self.compression().unwrap_or(Compression::None);
        if codec == Compression::None {
            annotate_records(&mut reader, self);
            return Annotated { spans: reader.spans, block: None };
        }
        let block = codec.decompress(&body);
        let said = match &block {
            Ok(block) => format!("{codec}, {} bytes decompressed", block.len()),
            Err(error) => error.to_string(),
        };
        reader.take_rest("records", said);
        let spans = reader.spans;
        let block = block.ok().map(|block| {
            let mut reader = Reader { bytes: &block, at: 0, record: None, spans: Vec::new() };
            annotate_records(&mut reader, self);
            let spans = reader.spans;
            (block, spans)
        });
        Annotated { spans, block }
    }

    fn annotate_header(&self, reader: &mut Reader<'_>) {
        let crc = match self.check_crc() {
            Ok(()) => format!("{:08x}, matches", self.crc()),
            Err(_) => {
                format!("{:08x}, but the bytes give {:08x}", self.crc(), super::batch::crc_of(self.bytes()))
            }
        };
        let base = if self.delete_horizon_ms().is_some() { "delete horizon " } else { "" };
        for (field, length, value) in [
            ("baseOffset", 8, self.base_offset().to_string()),
            ("batchLength", 4, (self.size_bytes() - super::batch::LOG_OVERHEAD as i32).to_string()),
            ("partitionLeaderEpoch", 4, self.leader_epoch().to_string()),
            ("magic", 1, super::batch::MAGIC.to_string()),
            ("crc", 4, crc),
            ("attributes", 2, self.attributes_text()),
            ("lastOffsetDelta", 4, self.last_offset_delta().to_string()),
            ("baseTimestamp", 8, format!("{base}{}", self.base_timestamp_ms())),
            ("maxTimestamp", 8, self.max_timestamp_ms().to_string()),
            ("producerId", 8, self.producer_id().to_string()),
            ("producerEpoch", 2, self.producer_epoch().to_string()),
            ("baseSequence", 4, self.base_sequence().to_string()),
            ("recordsCount", 4, self.record_count().to_string()),
        ] {
            reader.take(length, field, value);
        }
        assert_eq!(reader.at, HEADER_SIZE, "the header is whole");
    }

    fn attributes_text(&self) -> String {
        let codec = match self.compression() {
            Ok(codec) => codec.to_string(),
            Err(error) => error.to_string(),
        };
        let mut words = vec![codec, format!("{:?}", self.timestamp_type())];
        let flags = [
            (self.is_transactional(), "transactional"),
            (self.is_control(), "control"),
            (self.delete_horizon_ms().is_some(), "delete horizon set"),
        ];
        words.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, word)| word.to_owned()));
        words.join(", ")
    }
}

/// Where the annotation has come to.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    record: Option<i32>,
    spans: Vec<Span>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, length: usize, field: &'static str, value: String) {
        let (offset, record) = (self.at as i32, self.record);
        self.spans.push(Span { offset, length: length as i32, field, record, value });
        self.at += length;
    }

    fn take_rest(&mut self, field: &'static str, value: String) {
        if !self.rest().is_empty() {
            self.take(self.rest().len(), field, value);
        }
    }

    fn varint(&mut self, field: &'static str) -> Option<i32> {
        self.varlong_of(field, |rest| varint::read_i32(rest).map(i64::from)).map(|value| value as i32)
    }

    fn varlong_of(&mut self, field: &'static str, read: impl Fn(&mut &[u8]) -> Option<i64>) -> Option<i64> {
        let mut rest = self.rest();
        let value = read(&mut rest)?;
        self.take(self.rest().len() - rest.len(), field, value.to_string());
        Some(value)
    }

    /// A length and as many bytes; a length below 0 is null and has none.
    fn bytes(&mut self, length: &'static str, field: &'static str, text: fn(&[u8]) -> String) -> Option<()> {
        if let Ok(length) = usize::try_from(self.varint(length)?) {
            let value = text(self.rest().get(..length)?);
            self.take(length, field, value);
        }
        Some(())
    }

    fn record(&mut self, key: fn(&[u8]) -> String) -> Option<()> {
        self.varint("length")?;
        let attributes = *self.rest().first()? as i8;
        self.take(1, "attributes", attributes.to_string());
        self.varlong_of("timestampDelta", varint::read_i64)?;
        self.varint("offsetDelta")?;
        self.bytes("keyLength", "key", key)?;
        self.bytes("valueLength", "value", text)?;
        for _ in 0..self.varint("headersCount")? {
            self.bytes("headerKeyLength", "headerKey", text)?;
            self.bytes("headerValueLength", "headerValue", text)?;
        }
        Some(())
    }
}

fn annotate_records(reader: &mut Reader<'_>, batch: &Batch) {
    let key = if batch.is_control() { control_key } else { text };
    for index in 0..batch.record_count() {
        reader.record = Some(index);
        if reader.record(key).is_none() {
            break;
        }
    }
    reader.take_rest("?", "cannot be read as a record".to_owned());
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn control_key(key: &[u8]) -> String {
    let mut version = key;
    match (version.try_get_i16(), ControlType::of_key(key)) {
        (Ok(version), Some(control_type)) => format!("{}, version {version}", control_type.name()),
        _ => text(key),
    }
}
