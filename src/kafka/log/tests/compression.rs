//! `compression.type` of the topic (R-LOG-21).

use super::*;
use crate::kafka::record::{BatchParameters, Compression};

#[test]
fn a_topic_with_a_codec_of_its_own_stores_batches_in_it_r_log_21() {
    let sent_as = |codec| {
        let parameters = BatchParameters {
            compression: codec,
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(0),
            base_sequence: 0,
            ..BatchParameters::default()
        };
        let mut builder = BatchBuilder::with(parameters);
        for value in ["a", "b"] {
            builder.append(&NewRecord {
                timestamp_ms: NOW.wall_ms(),
                value: Some(value.as_bytes()),
                ..NewRecord::default()
            });
        }
        builder.build()
    };
    for (sent, topic, stored) in [
        (Compression::None, None, Compression::None),
        (Compression::Gzip, None, Compression::Gzip),
        (Compression::Gzip, Some(Compression::Gzip), Compression::Gzip),
        (Compression::Gzip, Some(Compression::Zstd), Compression::Zstd),
        (Compression::Gzip, Some(Compression::None), Compression::None),
        (Compression::None, Some(Compression::Lz4), Compression::Lz4),
    ] {
        let limits = LogConfig { compression: topic, ..LogConfig::default() };
        let mut log = Log::new();
        for sequence in [0, 0] {
            let bytes = sent_as(sent).into_bytes();
            let appended = log.append_as_leader(NOW, bytes, E1, Origin::Client, &limits).unwrap();
            assert_eq!(
                (appended.base_offset, appended.last_offset),
                (Offset(sequence), Offset(1)),
                "once only"
            );
        }
        let batch = log.batches_from(Offset::ZERO).next().unwrap();
        assert_eq!((batch.compression(), batch.check_crc(), batch.leader_epoch()), (Ok(stored), Ok(()), E1));
        assert_eq!(values(&log), ["a", "b"]);
    }
}

#[test]
fn a_batch_that_grows_too_large_when_it_is_built_anew_is_refused_r_log_14() {
    let gzip = BatchParameters { compression: Compression::Gzip, ..BatchParameters::default() };
    let mut builder = BatchBuilder::with(gzip);
    builder.append(&NewRecord {
        timestamp_ms: NOW.wall_ms(),
        value: Some(&[7; 2000]),
        ..NewRecord::default()
    });
    let limits =
        LogConfig { compression: Some(Compression::None), max_message_bytes: 1000, ..LogConfig::default() };
    let refused = Log::new().append_as_leader(NOW, builder.build().into_bytes(), E0, Origin::Client, &limits);
    assert_eq!(refused.map_err(|error| error.code()), Err(ErrorCode::MessageTooLarge));
}
