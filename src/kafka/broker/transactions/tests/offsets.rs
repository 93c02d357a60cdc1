//! Offsets that are committed with a transaction.

use kafka_protocol::messages::txn_offset_commit_request as txn;

use super::*;
use crate::kafka::types::GroupId;

const GROUP: &str = "g";

fn commit_request(
    (producer, epoch): (i64, i16),
    (generation, member): (i32, &str),
    offset: i64,
) -> m::TxnOffsetCommitRequest {
    let partition = txn::TxnOffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset)
        .with_committed_metadata(Some("".into()));
    let topic = txn::TxnOffsetCommitRequestTopic::default()
        .with_name(m::TopicName("t".into()))
        .with_partitions(vec![partition]);
    m::TxnOffsetCommitRequest::default()
        .with_transactional_id(m::TransactionalId(ID.into()))
        .with_group_id(m::GroupId(GROUP.into()))
        .with_producer_id(producer.into())
        .with_producer_epoch(epoch)
        .with_generation_id(generation)
        .with_member_id(member.to_string().into())
        .with_topics(vec![topic])
}

const NOBODY: (i32, &str) = (-1, "");

fn commit(lab: &mut Lab, producer: (i64, i16), member: (i32, &str), offset: i64) -> ErrorCode {
    match lab.ask(commit_request(producer, member, offset)) {
        Response::TxnOffsetCommit(response) => {
            ErrorCode::from_code(response.topics[0].partitions[0].error_code)
        }
        other => panic!("{other:?}"),
    }
}

/// A commit that is of no transaction.
fn commit_plainly(lab: &mut Lab, offset: i64) {
    use m::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
    let partition =
        OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(m::TopicName("t".into()))
        .with_partitions(vec![partition]);
    let request = m::OffsetCommitRequest::default().with_group_id(m::GroupId(GROUP.into()));
    lab.ask(request.with_generation_id_or_member_epoch(-1).with_topics(vec![topic]));
}

/// What a consumer is told that wants to know for sure, or not.
fn fetched(lab: &mut Lab, require_stable: bool) -> (i64, ErrorCode) {
    use m::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
    let topic = OffsetFetchRequestTopics::default()
        .with_name(m::TopicName("t".into()))
        .with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(m::GroupId(GROUP.into()))
        .with_topics(Some(vec![topic]));
    let request =
        m::OffsetFetchRequest::default().with_require_stable(require_stable).with_groups(vec![group]);
    let Response::OffsetFetch(response) = lab.ask(request) else { panic!("another answer") };
    let partition = &response.groups[0].topics[0].partitions[0];
    (partition.committed_offset, ErrorCode::from_code(partition.error_code))
}

fn end_and_wait(lab: &mut Lab, producer: (i64, i16), committed: bool) {
    assert_eq!(end(lab, producer, committed).2, ErrorCode::None);
    lab.run_for(10);
}

#[test]
fn offsets_become_the_groups_with_the_transaction_r_txn_11_21_33() {
    let mut lab = lab();
    init(&mut lab);
    assert_eq!(commit(&mut lab, (1000, 0), NOBODY, 42), ErrorCode::None);
    let topics: Vec<_> = described(&mut lab, ID).topics.iter().map(|topic| topic.topic.to_string()).collect();
    assert_eq!(topics, [OFFSETS_TOPIC], "the group's coordinator adds its partition");
    assert_eq!(fetched(&mut lab, false), (-1, ErrorCode::None));
    assert_eq!(fetched(&mut lab, true), (-1, ErrorCode::UnstableOffsetCommit));
    end_and_wait(&mut lab, (1000, 0), true);
    assert_eq!(fetched(&mut lab, true), (42, ErrorCode::None));
    assert_eq!(commit(&mut lab, (1000, 1), NOBODY, 43), ErrorCode::None);
    end_and_wait(&mut lab, (1000, 1), false);
    assert_eq!(fetched(&mut lab, true), (42, ErrorCode::None), "what was aborted never was");
}

#[test]
fn the_last_record_counts_whenever_its_marker_comes_r_txn_21() {
    let mut lab = lab();
    init(&mut lab);
    commit(&mut lab, (1000, 0), NOBODY, 42);
    commit_plainly(&mut lab, 50);
    assert_eq!(fetched(&mut lab, true), (-1, ErrorCode::UnstableOffsetCommit), "it is open all the same");
    end_and_wait(&mut lab, (1000, 0), true);
    assert_eq!(fetched(&mut lab, true), (50, ErrorCode::None));
    commit(&mut lab, (1000, 1), NOBODY, 60);
    end_and_wait(&mut lab, (1000, 1), true);
    assert_eq!(fetched(&mut lab, true), (60, ErrorCode::None));
}

#[test]
fn what_is_pending_is_found_again_when_the_coordinator_starts_r_txn_21_33() {
    let mut lab = lab();
    init(&mut lab);
    commit(&mut lab, (1000, 0), NOBODY, 42);
    end_and_wait(&mut lab, (1000, 0), true);
    commit(&mut lab, (1000, 1), NOBODY, 43);
    lab.restart();
    assert_eq!(fetched(&mut lab, false), (42, ErrorCode::None));
    assert_eq!(fetched(&mut lab, true), (-1, ErrorCode::UnstableOffsetCommit));
    end_and_wait(&mut lab, (1000, 1), true);
    lab.restart();
    assert_eq!(fetched(&mut lab, true), (43, ErrorCode::None));
}

#[test]
fn who_is_no_member_any_more_commits_nothing_r_txn_32() {
    let mut lab = lab();
    init(&mut lab);
    assert_eq!(
        commit(&mut lab, (1000, 0), (3, "ghost"), 10),
        ErrorCode::IllegalGeneration,
        "there is no group"
    );
    assert_eq!(commit(&mut lab, (1000, 0), (-1, "ghost"), 10), ErrorCode::None, "the group is empty");
    assert_eq!(commit(&mut lab, (1000, 0), (3, ""), 10), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut lab, (1000, 0), NOBODY, 11), ErrorCode::None);
    end_and_wait(&mut lab, (1000, 0), true);
    assert_eq!(fetched(&mut lab, true), (11, ErrorCode::None));
}

#[test]
fn a_producer_that_was_fenced_commits_nothing_r_txn_32() {
    let mut lab = lab();
    init(&mut lab);
    commit(&mut lab, (1000, 0), NOBODY, 10);
    init(&mut lab);
    lab.run_for(10);
    assert_eq!(init(&mut lab), (1000, 2, ErrorCode::None));
    assert_eq!(commit(&mut lab, (1000, 0), NOBODY, 11), ErrorCode::InvalidProducerEpoch);
    assert_eq!(fetched(&mut lab, true), (-1, ErrorCode::None));
    assert_eq!(commit(&mut lab, (1000, 2), NOBODY, 12), ErrorCode::None);
    end_and_wait(&mut lab, (1000, 2), true);
    assert_eq!(fetched(&mut lab, true), (12, ErrorCode::None));
}

#[test]
fn a_group_with_pending_offsets_stays_until_somebody_deletes_it_r_txn_33() {
    let mut lab = lab();
    init(&mut lab);
    commit(&mut lab, (1000, 0), NOBODY, 42);
    let shards = |lab: &Lab| {
        let id = GroupId::new(GROUP);
        lab.broker.groups().shards().any(|(_, shard)| shard.group(&id).is_some())
    };
    // Every ten minutes groups without offsets are looked for; the transaction is over long before the second time.
    lab.run_for(50_000);
    assert!(shards(&lab));
    let request = m::DeleteGroupsRequest::default().with_groups_names(vec![m::GroupId(GROUP.into())]);
    let Response::DeleteGroups(response) = lab.ask(request) else { panic!("another answer") };
    assert_eq!(response.results[0].error_code, 0);
    end_and_wait(&mut lab, (1000, 0), true);
    assert_eq!(fetched(&mut lab, true), (-1, ErrorCode::None), "its tombstone took the pending offset along");
}
