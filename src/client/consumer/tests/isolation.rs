//! What of transactions a consumer reads (R-CONS-29 to R-CONS-31, R-TXN-24).

use m::fetch_response::AbortedTransaction;

use super::*;
use crate::client::consumer::config::IsolationLevel;
use crate::kafka::record::{BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
use crate::kafka::types::{ProducerEpoch, ProducerId};

const COMMITTED: (&str, &str) = ("isolation.level", "read_committed");

/// What a batch of the log is, of the producer with this id.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    /// As an idempotent producer without transactions writes.
    Idempotent(i64),
    Transactional(i64),
    Commit(i64),
    Abort(i64),
}

/// One batch of so many records at `from`; a marker has one.
fn batch(kind: Kind, from: i64, records: i64) -> Bytes {
    let producer = match kind {
        Kind::Plain => ProducerId::NONE,
        Kind::Idempotent(id) | Kind::Transactional(id) | Kind::Commit(id) | Kind::Abort(id) => ProducerId(id),
    };
    let parameters = BatchParameters {
        base_offset: Offset(from),
        leader_epoch: LeaderEpoch(5),
        producer_id: producer,
        producer_epoch: if producer.is_some() { ProducerEpoch(0) } else { ProducerEpoch::NONE },
        transactional: matches!(kind, Kind::Transactional(_)),
        ..BatchParameters::default()
    };
    let marker = |committed| EndTransactionMarker { committed, coordinator_epoch: 0 }.batch(parameters, 0);
    match kind {
        Kind::Commit(_) => marker(true).into_bytes(),
        Kind::Abort(_) => marker(false).into_bytes(),
        _ => {
            let mut builder = BatchBuilder::with(parameters);
            for _ in 0..records {
                builder.append(&NewRecord { value: Some(b"v"), ..NewRecord::default() });
            }
            builder.build().into_bytes()
        }
    }
}

/// Batches of one record each, from offset `from` on, and the aborted transactions: id and first offset.
fn log(from: i64, kinds: &[Kind], aborted: &[(i64, i64)]) -> PartitionData {
    let batches: Vec<Bytes> = (from..).zip(kinds).map(|(at, kind)| batch(*kind, at, 1)).collect();
    with_aborted(data_of(0, &batches), aborted)
}

fn with_aborted(data: PartitionData, aborted: &[(i64, i64)]) -> PartitionData {
    let aborted = aborted.iter().map(|(id, first)| {
        AbortedTransaction::default().with_producer_id((*id).into()).with_first_offset(*first)
    });
    data.with_aborted_transactions(Some(aborted.collect()))
}

/// EX-24.
fn ex_24() -> PartitionData {
    use Kind::{Abort, Commit, Plain, Transactional};
    let (t1, t2) = (1000, 2000);
    let kinds =
        [Transactional(t1), Plain, Transactional(t2), Transactional(t1), Commit(t2), Abort(t1), Plain];
    log(0, &kinds, &[(t1, 0)])
}

/// The offsets that the application has in hand after one poll of this.
#[track_caller]
fn returned(config: &[(&str, &str)], data: PartitionData) -> (Vec<i64>, i64) {
    let mut rig = Rig::joined(&["poll", "process 1h"], config);
    rig.deliver_data(1, vec![data]);
    let batch = rig.consumer.program().batch();
    (batch.iter().map(|record| record.offset.0).collect(), rig.position(0))
}

#[test]
fn records_of_aborted_transactions_are_passed_over_and_order_stays_that_of_offsets_ex_24_r_cons_29() {
    assert_eq!(returned(&[COMMITTED], ex_24()), (vec![1, 2, 6], 7));
    assert_eq!(returned(&[], ex_24()), (vec![0, 1, 2, 3, 6], 7), "control records alone are hidden");
}

#[test]
fn a57_an_aborted_transaction_alone_moves_the_position_past_its_marker_r_cons_30() {
    let aborted = log(
        0,
        &[Kind::Transactional(7), Kind::Transactional(7), Kind::Transactional(7), Kind::Abort(7)],
        &[(7, 0)],
    );
    let mut rig = Rig::joined(&["poll 1h"], &[COMMITTED]);
    rig.deliver_data(1, vec![aborted.clone()]);
    rig.check_events(&["passed over 3 of 0: 0..3"]);
    assert_eq!((rig.position(0), rig.fetching(1)), (4, vec![(0, 4)]));
    assert_eq!(returned(&[], aborted), (vec![0, 1, 2], 4));
}

#[test]
fn the_producer_is_read_again_behind_its_marker_and_between_two_aborts_r_cons_30() {
    use Kind::{Abort, Commit, Transactional};
    let kinds = [Transactional(7), Abort(7), Transactional(7), Commit(7), Transactional(7), Abort(7)];
    assert_eq!(returned(&[COMMITTED], log(0, &kinds, &[(7, 0), (7, 4)])), (vec![2], 6));
    // The list need not be in order.
    assert_eq!(returned(&[COMMITTED], log(0, &kinds, &[(7, 4), (7, 0)])), (vec![2], 6));
}

#[test]
fn what_the_producer_wrote_outside_of_transactions_is_never_aborted_r_cons_30() {
    use Kind::{Abort, Idempotent, Transactional};
    let kinds = [Transactional(7), Idempotent(7), Abort(7)];
    assert_eq!(returned(&[COMMITTED], log(0, &kinds, &[(7, 0)])), (vec![1], 3));
}

#[test]
fn an_answer_from_the_middle_of_an_aborted_transaction_lists_it_r_cons_30() {
    let mut rig = Rig::new(&["poll", "process 1h"], &[COMMITTED]);
    rig.committed.insert(0, 5);
    rig.start();
    let batches =
        [batch(Kind::Transactional(7), 4, 4), batch(Kind::Abort(7), 8, 1), batch(Kind::Plain, 9, 2)];
    rig.deliver_data(1, vec![with_aborted(data_of(0, &batches), &[(7, 2)])]);
    let offsets: Vec<i64> = rig.consumer.program().batch().iter().map(|record| record.offset.0).collect();
    assert_eq!((offsets, rig.position(0)), (vec![9, 10], 11));
}

#[test]
fn passing_over_does_not_count_against_max_poll_records_r_cons_4() {
    use Kind::{Abort, Plain, Transactional};
    let kinds = [Transactional(7), Plain, Transactional(7), Abort(7), Plain, Plain];
    let mut rig = Rig::joined(&["poll"], &[COMMITTED, ("max.poll.records", "2")]);
    rig.deliver_data(1, vec![log(0, &kinds, &[(7, 0)])]);
    rig.check_events(&["passed over 2 of 0: 0..3", "polled 2 of 0: 0..5", "polled 1 of 0: 5..6"]);
}

#[test]
fn a_damaged_batch_is_found_even_where_it_is_passed_over() {
    let mut damaged = batch(Kind::Transactional(7), 0, 1).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let data = with_aborted(data_of(0, &[damaged.into()]), &[(7, 0)]);
    let mut rig = Rig::joined(&["poll"], &[COMMITTED]);
    rig.deliver_data(1, vec![data]);
    assert_eq!(rig.events.first().map(String::as_str), Some("failed: CORRUPT_MESSAGE"));
}

#[test]
fn who_reads_only_control_batches_keeps_its_place_in_the_order_of_fetches_r_cons_3() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 1];
    rig.committed = BTreeMap::from([(0, 0), (1, 0)]);
    rig.start();
    rig.deliver_data(1, vec![log(0, &[Kind::Commit(7)], &[])]);
    assert_eq!(rig.fetching(1), [(0, 1), (1, 0)]);
}

#[test]
fn fetches_and_lookups_say_how_much_is_to_be_read_r_cons_31() {
    for (config, level) in [(&[][..], 0), (&[COMMITTED][..], 1)] {
        let mut rig = Rig::new(&["poll"], config);
        rig.held.insert(ApiKey::ListOffsets);
        rig.start();
        let pending = rig.pending(ApiKey::ListOffsets);
        let Request::ListOffsets(list) = &*pending.request else { unreachable!() };
        assert_eq!((list.isolation_level, list.topics[0].partitions[0].timestamp), (level, -1));
        rig.held.remove(&ApiKey::ListOffsets);
        rig.settle();
        let Request::Fetch(fetch) = &*rig.fetch_at(1).request else { unreachable!() };
        assert_eq!(fetch.isolation_level, level);
    }
}

#[test]
fn lag_of_committed_data_counts_to_the_last_stable_offset_r_obs_9_r_cons_31() {
    let mut rig = Rig::joined(&["poll", "process 1h"], &[COMMITTED]);
    let data = log(0, &[Kind::Plain], &[]).with_high_watermark(30).with_last_stable_offset(3);
    rig.deliver_data(1, vec![data]);
    let owned = rig.consumer.subscription().owned()[&tp(0)];
    assert_eq!(owned.lag(IsolationLevel::ReadCommitted), Some(2));
    assert_eq!(owned.lag(IsolationLevel::ReadUncommitted), Some(29));
}

/// A56: a transaction of three records is at the offsets 0 to 2, its marker at 3.
fn one_transaction() -> PartitionData {
    use Kind::{Commit, Transactional};
    let kinds = [Transactional(7), Transactional(7), Transactional(7), Commit(7)];
    log(0, &kinds, &[]).with_high_watermark(4).with_last_stable_offset(4)
}

#[test]
fn a56_who_commits_its_position_steps_over_the_marker_and_comes_to_lag_0_r_cons_5_r_cons_15() {
    for config in [&[][..], &[COMMITTED][..]] {
        let mut rig =
            Rig::joined(&["poll", "commit"], &[config, &[("enable.auto.commit", "false")]].concat());
        rig.deliver_data(1, vec![one_transaction()]);
        rig.check_events(&["polled 3 of 0: 0..4", "committed 0@4"]);
    }
}

#[test]
fn a56_who_commits_the_last_record_and_one_lags_by_the_marker_for_ever() {
    let config = [COMMITTED, ("enable.auto.commit", "false")];
    let mut rig = Rig::joined(&["poll"], &config);
    rig.deliver_data(1, vec![one_transaction()]);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 3)]), waits: true });
    rig.check_events(&["polled 3 of 0: 0..4", "committed 0@3"]);
    let owned = rig.consumer.subscription().owned()[&tp(0)];
    let behind = owned.high_watermark.unwrap() - owned.committed.unwrap();
    assert_eq!(
        (behind, owned.lag(IsolationLevel::ReadCommitted)),
        (1, Some(0)),
        "the group tool's and its own"
    );
    rig.run_until(5_000);
    rig.check_events(&[]);
}

/// A poll that is full with the last record does not look behind it.
#[test]
fn a56_a_poll_that_is_full_leaves_the_marker_to_the_next_one_r_cons_4() {
    let config = [COMMITTED, ("enable.auto.commit", "false"), ("max.poll.records", "3")];
    let mut rig = Rig::joined(&["poll", "commit"], &config);
    rig.deliver_data(1, vec![one_transaction()]);
    rig.check_events(&["polled 3 of 0: 0..3", "committed 0@3", "committed 0@4"]);
}

#[test]
fn a58_behind_an_open_transaction_its_own_lag_is_0_and_the_group_tools_is_not_r_obs_9() {
    let mut rig = Rig::new(&["poll"], &[COMMITTED, ("enable.auto.commit", "false")]);
    rig.committed.insert(0, 200);
    rig.start();
    rig.events.clear();
    let held = data_of(0, &[]).with_high_watermark(1_663).with_last_stable_offset(200);
    rig.deliver_data(1, vec![with_aborted(held, &[])]);
    rig.check_events(&[]);
    let owned = rig.consumer.subscription().owned()[&tp(0)];
    assert_eq!(owned.lag(IsolationLevel::ReadCommitted), Some(0));
    assert_eq!(owned.high_watermark.unwrap() - owned.committed.unwrap(), 1_463);
}
