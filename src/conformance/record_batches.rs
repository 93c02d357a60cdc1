//! `03_record_batches.json`: batches built, read, damaged and cut off (R-LOG-1 to R-LOG-3, R-LOG-5).
//!
//! **Invariant:** a batch that the file calls exact is built to the same bytes; every batch reads to the same fields.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::BrokerId;
use kafka_protocol::messages::leader_change_message::{LeaderChangeMessage, Voter};
use kafka_protocol::protocol::{Encodable, StrBytes};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::history::exception;
use super::values::Hex;
use super::{ConformanceError, Failure, Header, Report, check, parse};
use crate::kafka::protocol::wire::Writer;
use crate::kafka::record::{
    self, Batch, BatchBuilder, BatchError, BatchParameters, Compression, ControlType, EndTransactionMarker,
    NewRecord, RawRecord, Record, TimestampType, control_batch, split_batches, varint,
};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    header: Header,
    cases: Vec<Case>,
    corrupt: Vec<Corrupt>,
    truncated: Vec<Truncated>,
    varints: Vec<Varint>,
    crc32c: Vec<Crc>,
    size_estimates: Vec<SizeEstimate>,
    sequence_arithmetic: Vec<Sequence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(rename = "note")]
    _note: IgnoredAny,
    byte_exact: bool,
    /// Absent for several batches in one buffer, which are only read.
    input: Option<Input>,
    hex: Hex,
    batches: Vec<BatchFields>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Records(Records),
    Marker(Marker),
    LeaderChange(LeaderChange),
    Empty(Empty),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    base_offset: i64,
    compression: String,
    timestamp_type: String,
    log_append_time: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    partition_leader_epoch: i32,
    delete_horizon_ms: i64,
    records: Vec<InputRecord>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputRecord {
    offset: i64,
    timestamp: i64,
    key: Option<Hex>,
    value: Option<Hex>,
    headers: Vec<(String, Option<Hex>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    offset: i64,
    timestamp: i64,
    partition_leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    r#type: String,
    coordinator_epoch: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderChange {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
    leader: i32,
    voters: Vec<i32>,
    granting: Vec<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    base_offset: i64,
    last_offset: i64,
    partition_leader_epoch: i32,
    timestamp: i64,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct BatchFields {
    base_offset: i64,
    last_offset: i64,
    next_offset: i64,
    size: i32,
    magic: i8,
    crc: u32,
    crc_valid: bool,
    compression: String,
    timestamp_type: String,
    base_timestamp: i64,
    max_timestamp: i64,
    delete_horizon_ms: Option<i64>,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    last_sequence: i32,
    transactional: bool,
    control: bool,
    partition_leader_epoch: i32,
    count: i32,
    records: Vec<RecordFields>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct RecordFields {
    offset: i64,
    timestamp: i64,
    sequence: i32,
    key: Option<Hex>,
    value: Option<Hex>,
    headers: Vec<(String, Option<Hex>)>,
    size: i32,
    control_type: Option<String>,
    coordinator_epoch: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corrupt {
    flip_bit0_of_byte: usize,
    valid: bool,
    outcome: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Truncated {
    length: usize,
    batches: usize,
    outcome: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Varint {
    value: i64,
    zigzag_varlong: Hex,
    size: usize,
    zigzag_varint: Option<Hex>,
    unsigned_varint: Option<Hex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Crc {
    hex: Hex,
    crc32c: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizeEstimate {
    key_len: i32,
    value_len: i32,
    headers: usize,
    upper_bound: i32,
    record_size_delta0: i32,
    record_size_delta100_ts5000: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequence {
    sequence: i32,
    increment: i32,
    incremented: i32,
    decremented: i32,
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    let vectors: Vectors = parse(text)?;
    let mut report = Report::new("03_record_batches.json");
    vectors.cases.iter().for_each(|case| report.case(case.check()));
    let base = vectors.header.corrupt_base_hex.as_ref().map_or(Bytes::new(), |hex| hex.0.clone());
    vectors.corrupt.iter().for_each(|case| report.case(case.check(&base)));
    vectors.truncated.iter().for_each(|case| report.case(case.check(&base)));
    vectors.varints.iter().for_each(|case| report.case(case.check()));
    for case in &vectors.crc32c {
        report.case(check(|| format!("{:?}", case.hex), &case.crc32c, &crc32c::crc32c(&case.hex.0)));
    }
    vectors.size_estimates.iter().for_each(|case| report.case(case.check()));
    vectors.sequence_arithmetic.iter().for_each(|case| report.case(case.check()));
    report.finish(&vectors.header)
}

impl Case {
    fn check(&self) -> Result<(), Failure> {
        let read = read_all(&self.hex.0);
        check(|| format!("{}, read", self.name), &Ok(&self.batches), &read.as_ref())?;
        let Some(input) = &self.input else { return Ok(()) };
        let built = input.build();
        if self.byte_exact {
            return check(|| format!("{}, built", self.name), &self.hex, &Hex(built.into_bytes()));
        }
        // Another compressor, so another size and checksum; all else is as it was.
        let mut read = read_all(built.bytes());
        for (ours, theirs) in read.iter_mut().flatten().zip(&self.batches) {
            (ours.size, ours.crc) = (theirs.size, theirs.crc);
        }
        check(|| format!("{}, built and read", self.name), &Ok(&self.batches), &read.as_ref())
    }
}

fn read_all(bytes: &Bytes) -> Result<Vec<BatchFields>, BatchError> {
    split_batches(bytes.clone()).map(|batch| BatchFields::of(&batch?)).collect()
}

impl BatchFields {
    fn of(batch: &Batch) -> Result<BatchFields, BatchError> {
        let block = batch.block()?;
        let raw: Vec<RawRecord<'_>> = block.raw_records().collect::<Result<_, _>>()?;
        let records = batch.records()?;
        let fields = records.iter().zip(raw).map(|(record, raw)| RecordFields::of(batch, record, &raw));
        Ok(BatchFields {
            base_offset: batch.base_offset().0,
            last_offset: batch.last_offset().0,
            next_offset: batch.next_offset().0,
            size: batch.size_bytes(),
            magic: 2,
            crc: batch.crc(),
            crc_valid: batch.check_crc().is_ok(),
            compression: batch.compression()?.to_string(),
            timestamp_type: format!("{:?}", batch.timestamp_type()),
            base_timestamp: batch.base_timestamp_ms(),
            max_timestamp: batch.max_timestamp_ms(),
            delete_horizon_ms: batch.delete_horizon_ms(),
            producer_id: batch.producer_id().0,
            producer_epoch: batch.producer_epoch().0,
            base_sequence: batch.base_sequence(),
            last_sequence: batch.last_sequence(),
            transactional: batch.is_transactional(),
            control: batch.is_control(),
            partition_leader_epoch: batch.leader_epoch().0,
            count: batch.record_count(),
            records: fields.collect(),
        })
    }
}

impl RecordFields {
    fn of(batch: &Batch, record: &Record, raw: &RawRecord<'_>) -> RecordFields {
        let control_type = record.key.as_deref().and_then(ControlType::of_key).filter(|_| batch.is_control());
        let marker = EndTransactionMarker::of(record).filter(|_| batch.is_control());
        RecordFields {
            offset: record.offset.0,
            timestamp: record.timestamp_ms,
            sequence: batch.sequence_of(record),
            key: record.key.clone().map(Hex),
            value: record.value.clone().map(Hex),
            headers: record.headers.iter().map(|h| (h.key.to_string(), h.value.clone().map(Hex))).collect(),
            size: raw.size_bytes,
            control_type: control_type.map(|each| each.name().to_owned()),
            coordinator_epoch: marker.map(|marker| marker.coordinator_epoch),
        }
    }
}

impl Input {
    fn build(&self) -> Batch {
        match self {
            Input::Records(records) => records.build(),
            Input::Marker(marker) => marker.build(),
            Input::LeaderChange(change) => change.build(),
            Input::Empty(empty) => empty.build(),
        }
    }
}

impl Records {
    fn build(&self) -> Batch {
        let is_append_time = self.timestamp_type == format!("{:?}", TimestampType::LogAppendTime);
        let mut builder = BatchBuilder::with(BatchParameters {
            base_offset: Offset(self.base_offset),
            leader_epoch: LeaderEpoch(self.partition_leader_epoch),
            compression: Compression::of_name(&self.compression).unwrap_or_default(),
            gzip_level: None,
            append_time_ms: is_append_time.then_some(self.log_append_time),
            producer_id: ProducerId(self.producer_id),
            producer_epoch: ProducerEpoch(self.producer_epoch),
            base_sequence: self.base_sequence,
            transactional: self.transactional,
            control: false,
            delete_horizon_ms: (self.delete_horizon_ms >= 0).then_some(self.delete_horizon_ms),
        });
        for record in &self.records {
            let headers: Vec<_> = record.headers.iter().map(header).collect();
            let new = NewRecord {
                timestamp_ms: record.timestamp,
                key: record.key.as_ref().map(|key| &key.0[..]),
                value: record.value.as_ref().map(|value| &value.0[..]),
                headers: &headers,
            };
            builder.append_at((record.offset - self.base_offset) as i32, &new);
        }
        builder.build()
    }
}

fn header((key, value): &(String, Option<Hex>)) -> record::Header {
    record::Header {
        key: StrBytes::from_string(key.clone()),
        value: value.as_ref().map(|value| value.0.clone()),
    }
}

impl Marker {
    fn build(&self) -> Batch {
        let committed = self.r#type == ControlType::Commit.name();
        let parameters = BatchParameters {
            base_offset: Offset(self.offset),
            leader_epoch: LeaderEpoch(self.partition_leader_epoch),
            producer_id: ProducerId(self.producer_id),
            producer_epoch: ProducerEpoch(self.producer_epoch),
            ..BatchParameters::default()
        };
        EndTransactionMarker { committed, coordinator_epoch: self.coordinator_epoch }
            .batch(parameters, self.timestamp)
    }
}

impl LeaderChange {
    fn build(&self) -> Batch {
        let voters =
            |ids: &[i32]| ids.iter().map(|id| Voter::default().with_voter_id(*id)).collect::<Vec<_>>();
        let message = LeaderChangeMessage::default()
            .with_leader_id(BrokerId(self.leader))
            .with_voters(voters(&self.voters))
            .with_granting_voters(voters(&self.granting));
        let mut value = BytesMut::new();
        message.encode(&mut value, 0).expect("version 0 carries ids");
        let parameters = BatchParameters {
            base_offset: Offset(self.offset),
            leader_epoch: LeaderEpoch(self.leader_epoch),
            ..BatchParameters::default()
        };
        control_batch(parameters, self.timestamp, ControlType::LeaderChange, &value)
    }
}

impl Empty {
    fn build(&self) -> Batch {
        BatchBuilder::with(BatchParameters {
            base_offset: Offset(self.base_offset),
            leader_epoch: LeaderEpoch(self.partition_leader_epoch),
            producer_id: ProducerId(self.producer_id),
            producer_epoch: ProducerEpoch(self.producer_epoch),
            base_sequence: self.base_sequence,
            ..BatchParameters::default()
        })
        .build_empty((self.last_offset - self.base_offset) as i32, self.timestamp)
    }
}

impl Corrupt {
    fn check(&self, base: &Bytes) -> Result<(), Failure> {
        let mut bytes = BytesMut::from(&base[..]);
        bytes[self.flip_bit0_of_byte] ^= 1;
        let got = Batch::parse(&mut bytes.freeze()).and_then(|batch| batch.check_crc());
        let place = || format!("bit 0 of byte {} flipped", self.flip_bit0_of_byte);
        check(place, &self.valid, &got.is_ok())?;
        let Err(error) = got else { return check(place, &self.outcome, &"none".to_owned()) };
        let says = |word: &str| self.outcome.contains(word).then(|| word.to_owned());
        check(place, &Some(exception(error.code())), &says(&exception(error.code())))?;
        match error {
            BatchError::Crc { stored, computed } => {
                let crcs = format!("(stored crc = {stored}, computed crc = {computed})");
                check(place, &Some(crcs.clone()), &says(&crcs))
            }
            _ => Ok(()),
        }
    }
}

impl Truncated {
    fn check(&self, base: &Bytes) -> Result<(), Failure> {
        let bytes = base.slice(..self.length);
        let batches: Vec<_> = split_batches(bytes.clone()).flatten().collect();
        let valid: i32 = batches.iter().map(Batch::size_bytes).sum();
        let first = match Batch::stated_size(&bytes) {
            Ok(Some(size)) => size.to_string(),
            Ok(None) => "null".to_owned(),
            Err(error) => error.to_string(),
        };
        let got = (batches.len(), format!("validBytes={valid} firstBatchSize={first}"));
        check(|| format!("cut off at {}", self.length), &(self.batches, self.outcome.clone()), &got)
    }
}

impl Varint {
    fn check(&self) -> Result<(), Failure> {
        let place = || format!("varint {}", self.value);
        let mut written = BytesMut::new();
        varint::write(self.value, &mut written);
        let written = written.freeze();
        check(place, &self.zigzag_varlong, &Hex(written.clone()))?;
        check(place, &(self.size, self.size), &(varint::size(self.value), written.len()))?;
        check(place, &Some(self.value), &varint::read_i64(&mut &written[..]))?;
        if let Some(hex) = &self.zigzag_varint {
            check(place, hex, &Hex(written.clone()))?;
            check(place, &i32::try_from(self.value).ok(), &varint::read_i32(&mut &written[..]))?;
        }
        if let Some(hex) = &self.unsigned_varint {
            let mut writer = Writer::new();
            writer.unsigned_varint(self.value as u32);
            check(place, hex, &Hex(writer.finish()))?;
        }
        Ok(())
    }
}

impl SizeEstimate {
    fn check(&self) -> Result<(), Failure> {
        let bytes = |length: i32| usize::try_from(length).ok().map(|length| vec![0; length]);
        let (key, value) = (bytes(self.key_len), bytes(self.value_len));
        // The file does not say which header: one of seven bytes in all.
        let header = header(&("key".to_owned(), Some(Hex(Bytes::from_static(b"text")))));
        let headers = vec![header; self.headers];
        let record =
            NewRecord { timestamp_ms: 0, key: key.as_deref(), value: value.as_deref(), headers: &headers };
        let mut builder = BatchBuilder::new();
        let first = builder.size_with(&record) - builder.size_bytes();
        builder.append_at(99, &NewRecord::default());
        let late = builder.size_with(&NewRecord { timestamp_ms: 5000, ..record }) - builder.size_bytes();
        let expected = (self.upper_bound, self.record_size_delta0, self.record_size_delta100_ts5000);
        let place = || format!("size of key {}, value {}", self.key_len, self.value_len);
        check(place, &expected, &(record::size_upper_bound(&record), first, late))
    }
}

impl Sequence {
    fn check(&self) -> Result<(), Failure> {
        let incremented = record::increment_sequence(self.sequence, self.increment);
        let decremented = record::decrement_sequence(self.sequence, self.increment);
        let place = || format!("sequence {} and {}", self.sequence, self.increment);
        check(place, &(self.incremented, self.decremented), &(incremented, decremented))
    }
}
