use uuid::Uuid;

use super::*;
use crate::kafka::protocol::strict::{carry_request, carry_response};
use crate::kafka::protocol::{Request, Response};

const TOPIC: Uuid = Uuid::from_u128(7);

fn batch() -> AcknowledgementBatch {
    AcknowledgementBatch { first_offset: 3, last_offset: 5, acknowledge_types: vec![1, 2, 4] }
}

fn endpoint() -> NodeEndpoint {
    NodeEndpoint { node_id: 2, host: "broker-2".into(), port: 9092, rack: Some("a".into()) }
}

#[track_caller]
fn request(request: impl Into<Request>) {
    let request = request.into();
    assert_eq!(carry_request(&request, request.api().version()), Ok(request));
}

#[track_caller]
fn response(response: impl Into<Response>) {
    let response = response.into();
    assert_eq!(carry_response(&response, response.api().version()), Ok(response));
}

#[test]
fn fetches_are_carried_without_loss() {
    let partition = FetchPartition { partition_index: 1, acknowledgement_batches: vec![batch()] };
    request(ShareFetchRequest {
        group_id: Some("g".into()),
        member_id: Some("m".into()),
        share_session_epoch: 4,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1000,
        max_records: 500,
        batch_size: 400,
        share_acquire_mode: 1,
        is_renew_ack: true,
        topics: vec![FetchTopic { topic_id: TOPIC, partitions: vec![partition] }],
        forgotten_topics_data: vec![ForgottenTopic { topic_id: TOPIC, partitions: vec![2, 3] }],
    });
    let partition = FetchedPartition {
        partition_index: 1,
        error_code: 6,
        error_message: Some("moved".into()),
        acknowledge_error_code: 121,
        acknowledge_error_message: None,
        current_leader: CurrentLeader { leader_id: 2, leader_epoch: 9 },
        records: Bytes::from_static(b"records"),
        acquired_records: vec![AcquiredRecords { first_offset: 3, last_offset: 9, delivery_count: 2 }],
    };
    response(ShareFetchResponse {
        acquisition_lock_timeout_ms: 30_000,
        responses: vec![FetchedTopic { topic_id: TOPIC, partitions: vec![partition] }],
        node_endpoints: vec![endpoint()],
        ..ShareFetchResponse::default()
    });
}

#[test]
fn acknowledgements_are_carried_without_loss() {
    let partition = AcknowledgePartition { partition_index: 1, acknowledgement_batches: vec![batch()] };
    request(ShareAcknowledgeRequest {
        group_id: Some("g".into()),
        member_id: None,
        share_session_epoch: -1,
        is_renew_ack: false,
        topics: vec![AcknowledgeTopic { topic_id: TOPIC, partitions: vec![partition] }],
    });
    let partition =
        AcknowledgedPartition { partition_index: 1, error_code: 121, ..AcknowledgedPartition::default() };
    response(ShareAcknowledgeResponse {
        error_code: 122,
        error_message: Some("no session".into()),
        acquisition_lock_timeout_ms: 15_000,
        responses: vec![AcknowledgedTopic { topic_id: TOPIC, partitions: vec![partition] }],
        ..ShareAcknowledgeResponse::default()
    });
}

#[test]
fn states_are_carried_without_loss_r_share_3() {
    let batch = WriteStateBatch { first_offset: 3, last_offset: 5, delivery_state: 2, delivery_count: 1 };
    let partition = WritePartition {
        partition: 1,
        state_epoch: 2,
        leader_epoch: 3,
        start_offset: 4,
        delivery_complete_count: 5,
        state_batches: vec![batch],
    };
    let topics = vec![WriteTopic { topic_id: TOPIC, partitions: vec![partition] }];
    request(WriteShareGroupStateRequest { group_id: "g".into(), topics });
    response(SameAsVersion0(m::WriteShareGroupStateResponse::default()));
    request(SameAsVersion0(m::ReadShareGroupStateSummaryRequest::default().with_group_id("g".into())));
    let partition = SummaryPartition {
        partition: 1,
        error_code: 3,
        error_message: None,
        state_epoch: 2,
        leader_epoch: 3,
        start_offset: -1,
        delivery_complete_count: -1,
    };
    let results = vec![SummaryTopic { topic_id: TOPIC, partitions: vec![partition] }];
    response(ReadShareGroupStateSummaryResponse { results });
}

#[test]
fn offsets_are_carried_without_loss() {
    request(SameAsVersion0(m::DescribeShareGroupOffsetsRequest::default()));
    let partition = OffsetsPartition {
        partition_index: 1,
        start_offset: 4,
        leader_epoch: 3,
        lag: 7,
        error_code: 5,
        error_message: Some("nobody leads".into()),
    };
    let topic = OffsetsTopic { topic_name: "t".into(), topic_id: TOPIC, partitions: vec![partition] };
    let group = OffsetsGroup { group_id: "g".into(), topics: vec![topic], ..OffsetsGroup::default() };
    response(DescribeShareGroupOffsetsResponse { throttle_time_ms: 0, groups: vec![group] });
}

/// As `WriteShareGroupStateRequest` of Kafka 4.3 writes it.
#[test]
fn a_write_has_the_bytes_of_version_1() {
    let partition = WritePartition {
        partition: 1,
        state_epoch: 2,
        leader_epoch: 3,
        start_offset: 4,
        delivery_complete_count: 5,
        state_batches: Vec::new(),
    };
    let topics = vec![WriteTopic { topic_id: TOPIC, partitions: vec![partition] }];
    let mut bytes = BytesMut::new();
    WriteShareGroupStateRequest { group_id: "g".into(), topics }.put(&mut bytes, 1).expect("it has a form");
    #[rustfmt::skip]
    let expected = [
        2, b'g', 2, // group, topics and one
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 2, // topic, partitions and one
        0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5, 1, 0,
        0, 0,
    ];
    assert_eq!(&bytes[..], expected);
    let mut taken = bytes.freeze();
    assert!(WriteShareGroupStateRequest::take(&mut taken, 0).is_err(), "version 0 is another");
}
