//! The partitions that are owned, their positions, and what finds those that need something.

use super::*;
use crate::client::consumer::config::{IsolationLevel, OffsetReset};

fn at(offset: i64) -> Position {
    Position { offset: Offset(offset), epoch: LeaderEpoch(3) }
}

fn owning(partitions: i32) -> SubscriptionState {
    let mut subscription = SubscriptionState::default();
    subscription.choose(Choice::Topics(vec![Topic::new("t")]));
    subscription.assign(&(0..partitions).map(tp).collect::<Vec<_>>());
    subscription
}

#[test]
fn only_what_has_a_position_is_committed_r_cons_15() {
    let mut subscription = owning(3);
    subscription.set_position(&tp(1), at(7));
    subscription.reset(&tp(2), OffsetReset::Latest);
    assert_eq!(subscription.all_consumed(), [(tp(1), at(7))]);
    assert_eq!(subscription.initializing(), [tp(0)]);
    assert_eq!(subscription.to_reset(Time::ZERO), [(tp(2), OffsetReset::Latest)]);
}

#[test]
fn who_returned_data_is_listed_last_r_cons_3() {
    let mut subscription = owning(3);
    (0..3).for_each(|partition| subscription.set_position(&tp(partition), at(0)));
    subscription.move_to_end(&tp(0));
    let order: Vec<_> = subscription.fetchable_from(None).map(|(tp, ..)| tp.partition).collect();
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn what_is_about_to_be_given_up_is_not_fetched_but_still_committed_r_grp_29() {
    let mut subscription = owning(1);
    subscription.set_position(&tp(0), at(100));
    subscription.mark_pending_revocation();
    assert!(!subscription.is_fetchable(&tp(0)));
    assert_eq!(subscription.all_consumed(), [(tp(0), at(100))]);
}

#[test]
fn only_a_preferred_replica_that_is_new_or_over_or_in_new_metadata_is_looked_at_r_repl_64() {
    let mut subscription = owning(4);
    let doubtful = |subscription: &SubscriptionState, now| {
        let doubtful = subscription.doubtful(Time::from_ms(now));
        doubtful.map(|tp| tp.partition).collect::<Vec<_>>()
    };
    subscription.note_metadata(1);
    for (partition, until) in [(0, 30), (1, 20), (2, 40)] {
        subscription.set_position(&tp(partition), at(0));
        let preferred = Some((BrokerId(2), Time::from_ms(until)));
        subscription.edit(&tp(partition), |owned| owned.preferred = preferred);
    }
    subscription.reset(&tp(2), OffsetReset::Latest);
    assert_eq!(doubtful(&subscription, 0), [0, 1], "t-2 is not fetched, t-3 is read from its leader");
    (0..2).for_each(|partition| subscription.note_reachable(&tp(partition)));
    subscription.move_to_end(&tp(0));
    subscription.note_metadata(1);
    assert_eq!(doubtful(&subscription, 20), Vec::<i32>::new(), "not yet over");
    assert_eq!(doubtful(&subscription, 21), [1]);
    assert_eq!(doubtful(&subscription, 31), [1, 0]);
    subscription.edit(&tp(1), |owned| owned.preferred = None);
    subscription.note_metadata(2);
    assert_eq!(doubtful(&subscription, 21), [0]);
    subscription.note_reachable(&tp(0));
    subscription.set_position(&tp(2), at(0));
    assert_eq!(doubtful(&subscription, 21), [2], "as soon as it may be fetched");
}

#[test]
fn a_partition_that_comes_back_after_revocation_starts_anew_r_cons_8() {
    let mut subscription = owning(1);
    subscription.set_position(&tp(0), at(100));
    subscription.assign(&[]);
    subscription.assign(&[tp(0)]);
    assert_eq!(subscription.position(&tp(0)), None);
}

#[test]
fn lag_is_high_watermark_less_position_r_obs_9() {
    let mut subscription = owning(1);
    subscription.set_position(&tp(0), at(40));
    let lag =
        |subscription: &SubscriptionState| subscription.owned()[&tp(0)].lag(IsolationLevel::ReadUncommitted);
    assert_eq!(lag(&subscription), None);
    subscription.edit(&tp(0), |owned| owned.high_watermark = Some(Offset(61)));
    assert_eq!(lag(&subscription), Some(21));
}
