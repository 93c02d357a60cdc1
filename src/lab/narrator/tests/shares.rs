//! Share groups: records that are handed out, come back, end.

use super::*;
use crate::kafka::event::{ShareChange, ShareEvent, ShareOutcome};
use crate::kafka::share::{AcknowledgeType, OffsetRange};

fn payments() -> GroupId {
    GroupId::new("payments")
}

fn member(number: i32) -> MemberId {
    MemberId::new(&format!("id-of-s{number}"))
}

fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(Offset(first), Offset(last))
}

fn change(first: i64, last: i64, outcome: ShareOutcome, delivery_count: i16) -> ShareChange {
    ShareChange { range: range(first, last), outcome, delivery_count }
}

fn joins(number: i32) -> Event {
    let client = name(&format!("s{number}"));
    Event::Share(ShareEvent::Joins { client, group: payments(), member: member(number) })
}

fn acquired(number: i32, records: &[(i64, i64, i16)]) -> Event {
    let records = records.iter().map(|&(first, last, count)| (range(first, last), count)).collect();
    let (broker, group, tp) = (BrokerId(1), payments(), tp(0));
    Event::Share(ShareEvent::Acquired { broker, group, tp, member: member(number), records })
}

fn said(number: i32, changes: Vec<ShareChange>) -> Event {
    let (broker, group, tp) = (BrokerId(1), payments(), tp(0));
    Event::Share(ShareEvent::Acknowledged { broker, group, tp, member: member(number), changes })
}

fn start_moved(from: i64, to: i64) -> Event {
    let (broker, group, tp) = (BrokerId(1), payments(), tp(0));
    Event::Share(ShareEvent::StartMoved { broker, group, tp, from: Offset(from), to: Offset(to) })
}

fn heard(offset: i64, error: Option<ErrorCode>) -> Event {
    let said = vec![(Offset(offset), AcknowledgeType::Accept)];
    Event::Share(ShareEvent::Heard { client: name("s1"), group: payments(), tp: tp(0), said, error })
}

#[test]
fn records_of_a_share_group_read_as_a_story() {
    use ShareOutcome::*;
    let assigned = |partitions| ShareEvent::Assigned {
        client: name("s1"),
        group: payments(),
        epoch: GroupEpoch(2),
        partitions,
    };
    let begun = ShareEvent::Begun {
        broker: BrokerId(1),
        group: payments(),
        tp: tp(0),
        leader_epoch: LeaderEpoch(0),
        start_offset: Offset(0),
    };
    let (broker, group) = (BrokerId(1), payments());
    let ended = ShareEvent::LocksEnded {
        fenced: false,
        broker,
        group: group.clone(),
        tp: tp(0),
        changes: vec![change(4, 4, Available, 1), change(5, 6, Available, 1)],
    };
    let given_back = ShareEvent::GivenBack {
        broker,
        group,
        tp: tp(0),
        member: member(2),
        changes: vec![change(4, 4, Worn, 5)],
    };
    let left =
        |reason| ShareEvent::Left { client: name("s1"), group: payments(), partitions: vec![tp(0)], reason };
    check(
        &[
            (1, joins(1)),
            (1, joins(2)),
            (9, Event::Share(assigned(vec![tp(0)]))),
            (20, Event::Share(begun)),
            (21, acquired(1, &[(0, 6, 1)])),
            (25, acquired(1, &[(7, 7, 1)])),
            (40, said(1, vec![change(0, 1, Accepted, 1), change(2, 2, Available, 1)])),
            (41, start_moved(0, 2)),
            (60, acquired(2, &[(2, 2, 2)])),
            (61, said(2, vec![change(2, 2, Rejected, 2)])),
            (70, said(1, vec![change(7, 7, Renewed, 1)])),
            (71, heard(7, None)),
            (30_021, Event::Share(ended)),
            (30_100, heard(4, Some(ErrorCode::InvalidRecordState))),
            (30_200, acquired(2, &[(4, 4, 2)])),
            (30_300, said(2, vec![change(3, 3, Worn, 5)])),
            (31_000, Event::Share(given_back)),
            (31_001, start_moved(2, 8)),
            (40_000, Event::Share(left(RevokeReason::Closing))),
            (41_000, Event::Share(assigned(vec![]))),
            (42_000, Event::Share(left(RevokeReason::Lost))),
            (43_000, Event::Share(ShareEvent::GroupDeleted { group: payments() })),
        ],
        expect![[r#"
            00:00.009  s1 reads orders-0 in epoch 2 of payments (R-SHARE-1, R-SHARE-2)
                Good: Others of the group may read the same; each record is handed to one of them at a time.
            00:00.020  payments shares orders-0 from offset 0 on, at broker 1 (R-SHARE-3, R-SHARE-4)
                Info: The leader hands the records out and knows who has which; what is done it has persisted in __share_group_state.
            00:00.021  s1 is handed records 0 to 6 of orders-0 (R-SHARE-5, R-SHARE-7)
                Info: They are locked for it: nobody else of the group gets them until it says what became of them, or share.record.lock.duration.ms is over.
            00:00.040  s1 released record 2 of orders-0 (R-SHARE-5, R-SHARE-6)
                Warn: They can be handed out again, to anybody of the group.
            00:00.060  s2 is handed record 2 of orders-0 again (R-SHARE-8)
                Warn: Delivery 2: whoever had them before did not accept them.
            00:00.061  s2 rejected record 2 of orders-0: archived (R-SHARE-5, R-SHARE-6)
                Bad: Nobody of the group gets them any more. They stay in the log, for other groups.
            00:00.070  s1 renews the locks of record 7 of orders-0 (R-SHARE-6)
                Info
            00:30.021  nothing was said of records 4 to 6 of orders-0 in time: the locks end (R-SHARE-7)
                Warn: They can be handed out again, to anybody of the group.
            00:30.100  s1: what it said of 1 record of orders-0 is in vain: INVALID_RECORD_STATE (R-SHARE-7, R-SHARE-14)
                Warn: It has processed them, and somebody of the group will be handed them again.
            00:30.200  s2 is handed record 4 of orders-0 again (R-SHARE-8)
                Warn: Delivery 2: whoever had them before did not accept them.
            00:30.300  s2 released record 3 of orders-0 (R-SHARE-8)
                Bad: Archived: record 3. That was delivery 5, the last that share.delivery.count.limit allows; so a record that nobody can process holds up nothing.
            00:31.000  s2 is gone and gives back record 4 of orders-0 (R-SHARE-14)
                Bad: Archived: record 4. That was delivery 5, the last that share.delivery.count.limit allows; so a record that nobody can process holds up nothing.
            00:31.001  payments: all of orders-0 below offset 8 is done (R-SHARE-11)
                Good: The start was at 2 for 30.9 s: one record that is not done holds it.
            00:40.000  s1 reads orders-0 with payments no more (R-SHARE-1)
                Info
            00:41.000  s1 reads nothing in epoch 2 of payments (R-SHARE-1, R-SHARE-2)
                Warn: The plan has no partition for it; it stands by.
            00:42.000  s1 reads orders-0 with payments no more (R-SHARE-1)
                Warn
            00:43.000  payments: the group is gone
                Info: What it had shared was deleted from __share_group_state before it.
        "#]],
    );
}

#[test]
fn what_goes_on_and_on_is_told_once_in_a_while() {
    let released = |offset| said(1, vec![change(offset, offset, ShareOutcome::Available, 1)]);
    let told = narrate(&[(1, joins(1)), (10, released(1)), (20, released(2)), (3000, released(3))]);
    assert_eq!(told.len(), 2, "{told:?}");
}
