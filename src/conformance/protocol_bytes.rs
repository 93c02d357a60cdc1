//! 11b: what consumers carry through JoinGroup and SyncGroup, and records of `__consumer_offsets` and
//! `__transaction_state`, byte for byte (R-INT-2, R-INT-3).
//!
//! **Invariant:** bytes read to the fields, and fields written are the bytes.

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny};
use uuid::Uuid;

use super::values::Hex;
use super::{ConformanceError, Failure, Header, Report, check, parse};
use crate::kafka::group::consumer_protocol::{ConsumerAssignment, ConsumerSubscription};
use crate::kafka::protocol::coordinator_records::{
    AssignedTopic, ConsumerRecord, CurrentAssignmentValue, GroupEpochValue, GroupMetadataValue,
    MemberMetadata, OffsetCommitValue, RecordKey, TargetTopic,
};
use crate::kafka::protocol::transaction_records::{self, TransactionValue};
use crate::kafka::protocol::wire::WireError;
use crate::kafka::types::{
    Generation, GroupEpoch, GroupId, LeaderEpoch, MemberId, Offset, ProducerEpoch, ProducerId, Topic,
    TopicId, TopicPartition, TransactionalId,
};

const FILE: &str = "11b_protocol_bytes.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    header: Header,
    subscriptions: Vec<SubscriptionCase>,
    assignments: Vec<AssignmentCase>,
    records: Vec<RecordCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionCase {
    version: i16,
    topics: Vec<String>,
    user_data: Option<Hex>,
    owned: Vec<(String, i32)>,
    generation: i32,
    rack: Option<String>,
    hex: Hex,
    decoded: Decoded,
}

/// What reading the bytes gives: what the version does not have is lost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decoded {
    topics: Vec<String>,
    user_data: Option<Hex>,
    owned: Vec<(String, i32)>,
    generation: i32,
    rack: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssignmentCase {
    version: i16,
    partitions: Vec<(String, i32)>,
    user_data: Option<Hex>,
    hex: Hex,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordCase {
    kind: String,
    topic: String,
    key_version: i16,
    key: serde_json::Value,
    key_hex: Hex,
    value_version: Option<i16>,
    value: serde_json::Value,
    value_hex: Option<Hex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OffsetKey {
    group: String,
    topic: String,
    partition: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OffsetFields {
    offset: i64,
    leader_epoch: Option<i32>,
    metadata: String,
    commit_timestamp: i64,
    expire_timestamp: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupKey {
    group: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct GroupFields {
    protocol_type: String,
    generation: i32,
    protocol: Option<String>,
    leader: Option<String>,
    current_state_timestamp: Option<i64>,
    members: Vec<MemberFields>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MemberFields {
    member_id: String,
    group_instance_id: Option<String>,
    client_id: String,
    client_host: String,
    rebalance_timeout: i32,
    session_timeout: i32,
    subscription: Hex,
    assignment: Hex,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MemberKey {
    group: String,
    member_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupEpochFields {
    epoch: i32,
    tagged: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TargetFields {
    topic_partitions: Vec<TopicFields>,
    tagged: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CurrentFields {
    member_epoch: i32,
    previous_member_epoch: i32,
    state: i8,
    assigned_partitions: Vec<TopicFields>,
    partitions_pending_revocation: Vec<TopicFields>,
    tagged: Vec<IgnoredAny>,
}

/// A topic id in hex digits with dashes.
struct DashedId(TopicId);

impl<'de> Deserialize<'de> for DashedId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DashedId, D::Error> {
        let text = String::deserialize(deserializer)?;
        Uuid::parse_str(&text).map(|id| DashedId(TopicId(id))).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TopicFields {
    topic_id: DashedId,
    partitions: Vec<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TransactionKey {
    transactional_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TransactionFields {
    producer_id: i64,
    producer_epoch: i16,
    transaction_timeout_ms: i32,
    transaction_status: i8,
    transaction_partitions: Option<Vec<PartitionsFields>>,
    transaction_last_update_timestamp_ms: i64,
    transaction_start_timestamp_ms: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PartitionsFields {
    topic: String,
    partition_ids: Vec<i32>,
}

/// Runs every case of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    let vectors: Vectors = parse(text)?;
    let mut report = Report::new(FILE);
    for (number, case) in vectors.subscriptions.iter().enumerate() {
        report.case(subscription(case).map_err(|failure| failure.within(&format!("subscription {number}"))));
    }
    for (number, case) in vectors.assignments.iter().enumerate() {
        report.case(assignment(case).map_err(|failure| failure.within(&format!("assignment {number}"))));
    }
    for (number, case) in vectors.records.iter().enumerate() {
        let outcome = match (case.topic.as_str(), case.key_version) {
            ("__consumer_offsets", 1) => offset_commit(case)?,
            ("__consumer_offsets", 2) => classic_group(case)?,
            ("__consumer_offsets", _) => consumer_group(case)?,
            ("__transaction_state", 0) => transaction(case)?,
            (topic, kind) => {
                let reason = format!("no record of kind {kind} is known in {topic}");
                return Err(ConformanceError::Json(reason));
            }
        };
        report.case(outcome.map_err(|failure| failure.within(&format!("record {number}, {}", case.kind))));
    }
    report.finish(&vectors.header)
}

fn partitions(list: &[(String, i32)]) -> Vec<TopicPartition> {
    list.iter().map(|(topic, partition)| TopicPartition::new(&Topic::new(topic), *partition)).collect()
}

fn topics(list: &[String]) -> Vec<Topic> {
    list.iter().map(|topic| Topic::new(topic)).collect()
}

fn bytes(hex: &Option<Hex>) -> Option<bytes::Bytes> {
    hex.as_ref().map(|hex| hex.0.clone())
}

fn subscription(case: &SubscriptionCase) -> Result<(), Failure> {
    let written = ConsumerSubscription {
        topics: topics(&case.topics),
        user_data: bytes(&case.user_data),
        owned: partitions(&case.owned),
        generation: Generation(case.generation),
        rack: case.rack.clone(),
    };
    let read = ConsumerSubscription {
        topics: topics(&case.decoded.topics),
        user_data: bytes(&case.decoded.user_data),
        owned: partitions(&case.decoded.owned),
        generation: Generation(case.decoded.generation),
        rack: case.decoded.rack.clone(),
    };
    check(|| "written".to_owned(), &case.hex, &Hex(written.encode(case.version)))?;
    check(|| "read".to_owned(), &Ok(read), &ConsumerSubscription::decode(&case.hex.0))
}

fn assignment(case: &AssignmentCase) -> Result<(), Failure> {
    let written =
        ConsumerAssignment { partitions: partitions(&case.partitions), user_data: bytes(&case.user_data) };
    check(|| "written".to_owned(), &case.hex, &Hex(written.encode(case.version)))?;
    // Topics come back together.
    let mut by_topic = written.partitions.clone();
    let first = |tp: &TopicPartition| written.partitions.iter().position(|other| other.topic == tp.topic);
    by_topic.sort_by_key(first);
    let read = ConsumerAssignment { partitions: by_topic, user_data: written.user_data.clone() };
    check(|| "read".to_owned(), &Ok(read), &ConsumerAssignment::decode(&case.hex.0))
}

/// The fields of a key or value.
fn fields<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> Result<T, ConformanceError> {
    serde_json::from_value(value.clone()).map_err(|error| ConformanceError::Json(error.to_string()))
}

fn check_key(case: &RecordCase, key: &RecordKey) -> Result<(), Failure> {
    check(|| "key written".to_owned(), &case.key_hex, &Hex(key.encode()))?;
    check(|| "key read".to_owned(), &Ok(key.clone()), &RecordKey::decode(&case.key_hex.0))
}

fn offset_commit(case: &RecordCase) -> Result<Result<(), Failure>, ConformanceError> {
    let key: OffsetKey = fields(&case.key)?;
    let tp = TopicPartition::new(&Topic::new(&key.topic), key.partition);
    let value: Option<OffsetFields> = fields(&case.value)?;
    let value = value.map(|value| OffsetCommitValue {
        offset: Offset(value.offset),
        leader_epoch: value.leader_epoch.map_or(LeaderEpoch::NONE, LeaderEpoch),
        metadata: value.metadata,
        commit_timestamp_ms: value.commit_timestamp,
        expire_timestamp_ms: value.expire_timestamp,
        topic_id: None,
    });
    Ok(check_key(case, &RecordKey::OffsetCommit(GroupId::new(&key.group), tp)).and_then(|()| {
        let written = value.as_ref().zip(case.value_version).map(|(value, version)| value.encode(version));
        check(|| "value written".to_owned(), &case.value_hex, &written.map(Hex))?;
        let read = case.value_hex.as_ref().map(|hex| OffsetCommitValue::decode(&hex.0));
        check(|| "value read".to_owned(), &value.map(Ok), &read)
    }))
}

fn classic_group(case: &RecordCase) -> Result<Result<(), Failure>, ConformanceError> {
    let key: GroupKey = fields(&case.key)?;
    let value: Option<GroupFields> = fields(&case.value)?;
    let member = |member: MemberFields| MemberMetadata {
        member_id: MemberId::new(&member.member_id),
        group_instance_id: member.group_instance_id,
        client_id: member.client_id,
        client_host: member.client_host,
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        subscription: member.subscription.0,
        assignment: member.assignment.0,
    };
    let value = value.map(|value| GroupMetadataValue {
        protocol_type: value.protocol_type,
        generation: Generation(value.generation),
        protocol: value.protocol,
        leader: value.leader.as_deref().map(MemberId::new),
        current_state_timestamp_ms: value.current_state_timestamp,
        members: value.members.into_iter().map(member).collect(),
    });
    Ok(check_key(case, &RecordKey::GroupMetadata(GroupId::new(&key.group))).and_then(|()| {
        let expected_version = value.as_ref().map(|_| GroupMetadataValue::VERSION);
        check(|| "version".to_owned(), &case.value_version, &expected_version)?;
        check(
            || "value written".to_owned(),
            &case.value_hex,
            &value.as_ref().map(|value| Hex(value.encode())),
        )?;
        let read = case.value_hex.as_ref().map(|hex| GroupMetadataValue::decode(&hex.0));
        check(|| "value read".to_owned(), &value.map(Ok), &read)
    }))
}

fn consumer_group(case: &RecordCase) -> Result<Result<(), Failure>, ConformanceError> {
    let (group, record, tagged) = match case.key_version {
        3 => {
            let (key, value): (GroupKey, GroupEpochFields) = (fields(&case.key)?, fields(&case.value)?);
            let epoch = GroupEpochValue { epoch: GroupEpoch(value.epoch), metadata_hash: 0 };
            (key.group, ConsumerRecord::GroupEpoch(Some(epoch)), value.tagged)
        }
        7 => {
            let (key, value): (MemberKey, TargetFields) = (fields(&case.key)?, fields(&case.value)?);
            let topic =
                |topic: TopicFields| TargetTopic { topic_id: topic.topic_id.0, partitions: topic.partitions };
            let target = value.topic_partitions.into_iter().map(topic).collect();
            let member = MemberId::new(&key.member_id);
            (key.group, ConsumerRecord::Target(member, Some(target)), value.tagged)
        }
        8 => {
            let (key, value): (MemberKey, CurrentFields) = (fields(&case.key)?, fields(&case.value)?);
            let topic = |topic: TopicFields| AssignedTopic {
                topic_id: topic.topic_id.0,
                partitions: topic.partitions,
                epochs: None,
            };
            let current = CurrentAssignmentValue {
                member_epoch: GroupEpoch(value.member_epoch),
                previous_member_epoch: GroupEpoch(value.previous_member_epoch),
                state: value.state,
                assigned: value.assigned_partitions.into_iter().map(topic).collect(),
                pending_revocation: value.partitions_pending_revocation.into_iter().map(topic).collect(),
            };
            let member = MemberId::new(&key.member_id);
            (key.group, ConsumerRecord::CurrentAssignment(member, Some(current)), value.tagged)
        }
        kind => return Err(ConformanceError::Json(format!("no record of kind {kind} is known"))),
    };
    if !tagged.is_empty() {
        return Err(ConformanceError::Json("a tagged field that is not known".to_owned()));
    }
    let written = record.encode(&GroupId::new(&group));
    let read = || {
        let RecordKey::Consumer(named, kind) = RecordKey::decode(&case.key_hex.0)? else { return Ok(None) };
        let value = case.value_hex.as_ref().map(|hex| &hex.0[..]);
        Ok::<_, WireError>(Some((named, ConsumerRecord::decode(kind, value)?)))
    };
    Ok(check(|| "key written".to_owned(), &case.key_hex, &Hex(written.key))
        .and_then(|()| check(|| "version".to_owned(), &case.value_version, &Some(0)))
        .and_then(|()| check(|| "value written".to_owned(), &case.value_hex, &written.value.map(Hex)))
        .and_then(|()| check(|| "read".to_owned(), &Ok(Some((GroupId::new(&group), record))), &read())))
}

fn transaction(case: &RecordCase) -> Result<Result<(), Failure>, ConformanceError> {
    let (key, value): (TransactionKey, TransactionFields) = (fields(&case.key)?, fields(&case.value)?);
    let id = TransactionalId::new(&key.transactional_id);
    let of_topic = |fields: &PartitionsFields| {
        let topic = Topic::new(&fields.topic);
        let of = |partition: &i32| TopicPartition::new(&topic, *partition);
        fields.partition_ids.iter().map(of).collect::<Vec<_>>()
    };
    let value = TransactionValue {
        producer_id: ProducerId(value.producer_id),
        previous_producer_id: ProducerId::NONE,
        next_producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch(value.producer_epoch),
        timeout_ms: value.transaction_timeout_ms,
        status: value.transaction_status,
        partitions: value.transaction_partitions.map(|topics| topics.iter().flat_map(of_topic).collect()),
        last_update_timestamp_ms: value.transaction_last_update_timestamp_ms,
        start_timestamp_ms: value.transaction_start_timestamp_ms,
        client_transaction_version: 0,
    };
    let written = case.value_version.map(|version| Hex(value.encode(version)));
    let read = case.value_hex.as_ref().map(|hex| TransactionValue::decode(&hex.0));
    Ok(check(|| "key written".to_owned(), &case.key_hex, &Hex(transaction_records::encode_key(&id)))
        .and_then(|()| {
            let read = transaction_records::decode_key(&case.key_hex.0);
            check(|| "key read".to_owned(), &Ok(Some(id)), &read)
        })
        .and_then(|()| check(|| "value written".to_owned(), &case.value_hex, &written))
        .and_then(|()| check(|| "value read".to_owned(), &Some(Ok(Some(value))), &read)))
}
