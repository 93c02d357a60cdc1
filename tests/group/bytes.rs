//! Records of `__consumer_offsets` and the partition that keeps a group, byte for byte.

use bytes::Bytes;
use glassbroker::kafka::protocol::coordinator_records::{
    GroupMetadataValue, MemberMetadata, OffsetCommitValue, RecordKey,
};
use glassbroker::kafka::types::{
    Generation, GroupId, LeaderEpoch, MemberId, Offset, Topic, TopicId, TopicPartition,
};
use serde_json::Value;

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).expect("vectors are JSON")
}

fn hex(text: &Value) -> Bytes {
    let text = text.as_str().expect("hex");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_string()
}

fn int(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

fn offset_value(fields: &Value) -> OffsetCommitValue {
    OffsetCommitValue {
        offset: Offset(int(&fields["offset"])),
        leader_epoch: LeaderEpoch(fields["leaderEpoch"].as_i64().unwrap_or(-1) as i32),
        metadata: text(&fields["metadata"]),
        commit_timestamp_ms: int(&fields["commitTimestamp"]),
        expire_timestamp_ms: fields["expireTimestamp"].as_i64(),
        topic_id: None,
    }
}

fn group_value(fields: &Value) -> GroupMetadataValue {
    let member = |member: &Value| MemberMetadata {
        member_id: MemberId::new(&text(&member["memberId"])),
        group_instance_id: member["groupInstanceId"].as_str().map(str::to_string),
        client_id: text(&member["clientId"]),
        client_host: text(&member["clientHost"]),
        rebalance_timeout_ms: int(&member["rebalanceTimeout"]) as i32,
        session_timeout_ms: int(&member["sessionTimeout"]) as i32,
        subscription: hex(&member["subscription"]),
        assignment: hex(&member["assignment"]),
    };
    GroupMetadataValue {
        protocol_type: text(&fields["protocolType"]),
        generation: Generation(int(&fields["generation"]) as i32),
        protocol: fields["protocol"].as_str().map(str::to_string),
        leader: fields["leader"].as_str().map(MemberId::new),
        current_state_timestamp_ms: fields["currentStateTimestamp"].as_i64(),
        members: fields["members"].as_array().expect("members").iter().map(member).collect(),
    }
}

/// R-GRP-5.
#[test]
fn records_of_consumer_offsets_are_kafkas_byte_for_byte_r_int_2() {
    let vectors = vectors(include_str!("../vectors/coordinator_records.json"));
    for case in vectors["records"].as_array().expect("records") {
        let (kind, fields) = (text(&case["kind"]), &case["value"]);
        let (key_bytes, version) = (hex(&case["key_hex"]), int(&case["key_version"]));
        let group = case["key"]["group"].as_str().map(GroupId::new).expect("group");
        let key = match version {
            1 => {
                let topic = Topic::new(&text(&case["key"]["topic"]));
                let partition = int(&case["key"]["partition"]) as i32;
                RecordKey::OffsetCommit(group, TopicPartition { topic, partition })
            }
            2 => RecordKey::GroupMetadata(group),
            other => {
                assert_eq!(RecordKey::decode(&key_bytes), Ok(RecordKey::Other(other as i16)), "{kind}");
                continue;
            }
        };
        assert_eq!(key.encode(), key_bytes, "{kind}");
        assert_eq!(RecordKey::decode(&key_bytes), Ok(key), "{kind}");
        match version {
            _ if fields.is_null() => {}
            1 => {
                let value = offset_value(fields);
                assert_eq!(
                    value.encode(int(&case["value_version"]) as i16),
                    hex(&case["value_hex"]),
                    "{kind}"
                );
                assert_eq!(OffsetCommitValue::decode(&hex(&case["value_hex"])), Ok(value), "{kind}");
            }
            _ => {
                let value = group_value(fields);
                assert_eq!(value.encode(), hex(&case["value_hex"]), "{kind}");
                assert_eq!(GroupMetadataValue::decode(&hex(&case["value_hex"])), Ok(value), "{kind}");
            }
        }
    }
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
        assert_eq!(bytes, hex(&Value::String(expected)));
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
