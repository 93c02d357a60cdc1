#[cfg(feature = "codecs")]
mod compression;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::RecordBatchDecoder;

use super::batch::field;
use super::*;
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

const NOW_MS: i64 = 1_767_225_600_000;

fn record<'a>(key: Option<&'a str>, value: Option<&'a str>) -> NewRecord<'a> {
    NewRecord {
        timestamp_ms: NOW_MS,
        key: key.map(str::as_bytes),
        value: value.map(str::as_bytes),
        ..NewRecord::default()
    }
}

fn build(records: &[NewRecord<'_>]) -> Batch {
    let mut builder = BatchBuilder::new();
    for record in records {
        let expected = builder.size_with(record);
        builder.append(record);
        assert_eq!(builder.size_bytes(), expected);
    }
    builder.finish(None)
}

fn check_size(records: &[NewRecord<'_>], size_bytes: i32) {
    assert_eq!(build(records).size_bytes(), size_bytes);
}

/// R-LOG-1.
#[test]
fn batches_have_the_sizes_of_ex_14() {
    check_size(&[record(None, Some("hello"))], 73);
    check_size(&[record(Some("k1"), Some("v1")), record(Some("k2"), Some("v2"))], 83);
}

#[test]
fn the_upper_bound_is_header_and_21_bytes_more_than_the_payload_r_log_1() {
    assert_eq!(size_upper_bound(&record(None, None)), 61 + 21 + 3);
    assert_eq!(size_upper_bound(&record(None, Some("v"))), 61 + 21 + 4);
}

/// What kafka-protocol's own reader makes of the bytes.
#[test]
fn another_reader_finds_the_same_records() {
    let headers = [
        Header { key: StrBytes::from_static_str("trace"), value: Some(Bytes::from_static(b"abc")) },
        Header { key: StrBytes::from_static_str("empty"), value: None },
    ];
    let late = NewRecord { timestamp_ms: NOW_MS + 5, headers: &headers, ..record(None, Some("paid")) };
    let early = NewRecord { timestamp_ms: NOW_MS - 70_000, ..record(Some("cart-1"), None) };
    let mut builder = BatchBuilder::new();
    for record in [record(Some("cart-0"), Some("placed")), late, early] {
        builder.append(&record);
    }
    let batch = builder
        .finish(Some((ProducerId(7), ProducerEpoch(2), i32::MAX - 1)))
        .with_assigned(Offset(40), LeaderEpoch(3));

    let ours = batch.records().unwrap();
    let theirs = RecordBatchDecoder::decode(&mut batch.bytes().clone()).unwrap().records;
    assert_eq!(ours.len(), 3);
    assert_eq!(theirs.len(), 3);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.offset.0, theirs.offset);
        assert_eq!(ours.timestamp_ms, theirs.timestamp);
        assert_eq!(ours.key, theirs.key);
        assert_eq!(ours.value, theirs.value);
        let their_headers: Vec<_> = theirs
            .headers
            .iter()
            .map(|(key, value)| Header { key: key.clone(), value: value.clone() })
            .collect();
        assert_eq!(ours.headers, their_headers);
        assert_eq!((theirs.producer_id, theirs.producer_epoch, theirs.partition_leader_epoch), (7, 2, 3));
    }
    assert_eq!(batch.last_sequence(), 0, "i32::MAX - 1 and two more (R-LOG-2)");
    assert_eq!(batch.max_timestamp_ms(), NOW_MS + 5);
}

#[test]
fn offset_and_epoch_are_patched_without_the_checksum_r_log_3() {
    let sent = build(&[record(Some("k"), Some("v"))]);
    let stored = sent.clone().with_assigned(Offset(1 << 40), LeaderEpoch(9));
    assert_eq!((stored.base_offset(), stored.leader_epoch()), (Offset(1 << 40), LeaderEpoch(9)));
    assert_eq!((stored.crc(), stored.check_crc()), (sent.crc(), Ok(())));
    assert_eq!(sent.base_offset(), Offset::ZERO, "a batch that the producer still holds stays as it was");
}

#[test]
fn bytes_that_nobody_else_holds_are_patched_where_they_are() {
    let batch = build(&[record(Some("k"), Some("v"))]);
    let place = batch.bytes().as_ptr();
    assert_eq!(batch.with_assigned(Offset(5), LeaderEpoch(1)).bytes().as_ptr(), place);
}

#[test]
fn append_time_changes_type_timestamps_and_checksum_r_log_3() {
    let sent = build(&[record(None, Some("a")), record(None, Some("b"))]);
    let stored = sent.clone().with_max_timestamp(TimestampType::LogAppendTime, NOW_MS + 99);
    assert_ne!(stored.crc(), sent.crc());
    assert_eq!(stored.check_crc(), Ok(()));
    assert!(stored.records().unwrap().iter().all(|record| record.timestamp_ms == NOW_MS + 99));
    assert_eq!(stored.with_max_timestamp(TimestampType::CreateTime, NOW_MS), sent);
}

#[test]
fn a_buffer_is_split_into_its_batches_and_a_partial_one_is_left_out() {
    let (a, b) = (build(&[record(None, Some("a"))]), build(&[record(None, Some("bb"))]));
    let both = [a.bytes().as_ref(), b.bytes().as_ref()].concat();
    let split = |bytes: &[u8]| split_batches(Bytes::copy_from_slice(bytes)).collect::<Result<Vec<_>, _>>();
    assert_eq!(split(&both), Ok(vec![a.clone(), b]));
    for length in 0..a.bytes().len() {
        assert_eq!(split(&both[..length]), Ok(vec![]), "{length}");
    }
    assert_eq!(split(&both[..both.len() - 1]), Ok(vec![a]));
}

/// `edit` changes a good batch's bytes.
fn check_refused(edit: impl FnOnce(&mut Vec<u8>), error: BatchError) {
    let mut bytes = build(&[record(Some("k"), Some("v"))]).into_bytes().to_vec();
    edit(&mut bytes);
    let read = |mut bytes: Bytes| {
        let batch = Batch::parse(&mut bytes)?;
        batch.records().map(|_| ())
    };
    assert_eq!(read(Bytes::from(bytes)), Err(error));
}

#[test]
fn bytes_that_are_not_a_batch_are_refused_with_the_reason() {
    check_refused(|b| b.truncate(60), BatchError::Incomplete);
    check_refused(|b| b[field::MAGIC] = 1, BatchError::Magic(1));
    check_refused(|b| b[field::MAGIC] = 0xff, BatchError::Magic(-1));
    check_refused(|b| b[field::LENGTH..field::LEADER_EPOCH].fill(0), BatchError::TooSmall(0));
    check_refused(|b| b[field::LENGTH..field::LEADER_EPOCH].fill(0xff), BatchError::TooSmall(-1));
    check_refused(|b| b[field::LEADER_EPOCH - 1] = 20, BatchError::TooSmall(20));
    check_refused(|b| b[field::ATTRIBUTES + 1] = 4, BatchError::Decompression(Compression::Zstd));
    check_refused(|b| b[field::ATTRIBUTES + 1] = 7, BatchError::UnknownCompression(7));
    check_refused(|b| b[field::RECORD_COUNT + 3] = 2, BatchError::Record { index: 1 });
    check_refused(|b| b[field::RECORD_COUNT + 3] = 0, BatchError::TrailingBytes(0));
    check_refused(|b| b[HEADER_SIZE] = 0x7e, BatchError::Record { index: 0 });
    check_refused(|b| *b.last_mut().unwrap() = 2, BatchError::Record { index: 0 });
}

#[test]
fn any_flipped_bit_from_the_attributes_on_breaks_the_checksum() {
    let batch = build(&[record(Some("k"), Some("v"))]);
    for index in field::ATTRIBUTES..batch.bytes().len() {
        let mut bytes = batch.bytes().to_vec();
        bytes[index] ^= 1;
        let flipped = Batch::parse(&mut Bytes::from(bytes)).unwrap();
        assert!(matches!(flipped.check_crc(), Err(BatchError::Crc { .. })), "byte {index}");
    }
}

#[test]
fn sequence_numbers_wrap_from_the_greatest_to_0_r_prod_24() {
    for (sequence, by, incremented, decremented) in [
        (0, 1, 1, i32::MAX),
        (5, 3, 8, 2),
        (i32::MAX, 1, 0, i32::MAX - 1),
        (i32::MAX - 1, 3, 1, i32::MAX - 4),
    ] {
        assert_eq!(increment_sequence(sequence, by), incremented);
        assert_eq!(decrement_sequence(sequence, by), decremented);
    }
}

#[cfg(not(feature = "codecs"))]
#[test]
fn without_the_codecs_compressed_records_are_refused() {
    for codec in Compression::ALL.into_iter().filter(|codec| *codec != Compression::None) {
        assert_eq!(codec.decompress(&Bytes::new()), Err(BatchError::Unsupported(codec)));
    }
}

// Control batches.

#[test]
fn a_marker_reads_back_and_takes_78_bytes_r_log_5() {
    let parameters = BatchParameters { producer_id: ProducerId(7), ..BatchParameters::default() };
    let marker = EndTransactionMarker { committed: false, coordinator_epoch: 3 };
    let batch = marker.batch(parameters, NOW_MS);
    assert_eq!(batch.end_transaction_marker(), Ok(Some(marker)));
    assert!(batch.is_control() && batch.is_transactional());
    assert_eq!((batch.size_bytes(), batch.base_sequence()), (78, NO_SEQUENCE));
}

#[test]
fn a_control_batch_of_another_kind_or_without_its_record_is_no_marker() {
    let batch = control_batch(BatchParameters::default(), NOW_MS, ControlType::LeaderChange, b"");
    assert_eq!(batch.end_transaction_marker(), Ok(None));
    let control = BatchParameters { control: true, ..BatchParameters::default() };
    assert_eq!(BatchBuilder::with(control).build_empty(0, NOW_MS).end_transaction_marker(), Ok(None));
    assert_eq!(build(&[record(None, None)]).control_record(), Err(BatchError::Control));
    assert_eq!(ControlType::of_key(&[0, 0, 0, 9]), None);
}

// Byte by byte.

fn check_cover(spans: &[Span], size: usize) {
    let end = spans.iter().fold(0, |at, span| {
        assert_eq!(span.offset, at, "{span:?}");
        at + span.length
    });
    assert_eq!(end as usize, size);
}

fn said<'a>(spans: &'a [Span], field: &str) -> Vec<&'a str> {
    spans.iter().filter(|span| span.field == field).map(|span| span.value.as_str()).collect()
}

#[test]
fn a_batch_is_told_field_by_field() {
    let headers = [Header { key: StrBytes::from_static_str("trace"), value: None }];
    let batch = build(&[
        record(Some("cart-0"), Some("placed")),
        NewRecord { headers: &headers, ..record(None, Some("")) },
    ]);
    let Annotated { spans, block } = batch.annotate();
    check_cover(&spans, batch.bytes().len());
    assert_eq!((said(&spans, "key"), said(&spans, "value")), (vec!["cart-0"], vec!["placed", ""]));
    assert_eq!((said(&spans, "keyLength"), said(&spans, "headerKey")), (vec!["6", "-1"], vec!["trace"]));
    assert_eq!(said(&spans, "attributes"), ["none, CreateTime", "0", "0"]);
    assert_eq!(said(&spans, "crc"), [format!("{:08x}, matches", batch.crc())]);
    assert_eq!(spans.last().and_then(|span| span.record), Some(1));
    assert_eq!(block, None);
}

#[test]
fn a_flipped_byte_shows_in_the_checksum_and_no_byte_goes_untold() {
    let sent = build(&[record(Some("k"), Some("v")), record(None, Some("w"))]);
    for at in (0..sent.bytes().len())
        .filter(|at| !(field::LENGTH..field::LEADER_EPOCH).contains(at) && *at != field::MAGIC)
    {
        for bit in 0..8 {
            let mut bytes = sent.bytes().to_vec();
            bytes[at] ^= 1 << bit;
            let batch = Batch::parse(&mut Bytes::from(bytes)).unwrap();
            let Annotated { spans, block } = batch.annotate();
            check_cover(&spans, batch.bytes().len());
            block.iter().for_each(|(block, spans)| check_cover(spans, block.len()));
            let matches = said(&spans, "crc")[0].ends_with("matches");
            assert_eq!(
                matches,
                at < field::CRC,
                "byte {at}: the checksum leaves out what the broker sets (R-LOG-3)"
            );
        }
    }
}

#[test]
fn a_marker_is_told_by_its_type() {
    let marker = EndTransactionMarker { committed: true, coordinator_epoch: 3 };
    let spans = marker.batch(BatchParameters::default(), NOW_MS).annotate().spans;
    assert_eq!(said(&spans, "key"), ["COMMIT, version 0"]);
}
