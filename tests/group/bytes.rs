//! Records of `__consumer_offsets` that no recording holds.

use bytes::Bytes;
use glassbroker::kafka::protocol::coordinator_records::OffsetCommitValue;
use glassbroker::kafka::types::{LeaderEpoch, Offset, TopicId};

fn hex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

#[test]
fn an_offset_is_written_at_version_4_with_its_topic_id_as_a_tagged_field_r_int_2() {
    let mut value = OffsetCommitValue {
        offset: Offset(42),
        leader_epoch: LeaderEpoch(7),
        metadata: "note".to_string(),
        commit_timestamp_ms: 1,
        expire_timestamp_ms: None,
        topic_id: Some(TopicId(uuid::Uuid::from_u128(5))),
    };
    let start = "0004000000000000002a00000007056e6f74650000000000000001";
    let check = |value: &OffsetCommitValue, expected: String| {
        let bytes = value.encode(OffsetCommitValue::VERSION);
        assert_eq!(bytes, hex(&expected));
        assert_eq!(OffsetCommitValue::decode(&bytes).as_ref(), Ok(value));
    };
    check(&value, format!("{start}01001000000000000000000000000000000005"));
    value.topic_id = None;
    check(&value, format!("{start}00"));
}

#[test]
fn a_record_that_kafka_could_not_have_written_is_refused_with_its_place() {
    let check = |bytes: &[u8], message: &str| {
        assert_eq!(OffsetCommitValue::decode(bytes).unwrap_err().to_string(), message);
    };
    check(&[0, 9], "OffsetCommitValue: version 9 is unknown at byte 2");
    check(&[0, 4, 0], "OffsetCommitValue: 8 bytes wanted, 1 left at byte 2");
}
