//! Rebalances, members, coordinators, commits.

use super::*;

#[test]
fn a_rebalance_reads_as_a_story() {
    let member = Event::Group(GroupEvent::MemberAdded {
        group: billing(),
        member: MemberId::new("consumer-c-1"),
        client: name("consumer-c"),
        leader: false,
    });
    let plan = vec![(name("consumer-a"), vec![tp(0)]), (name("consumer-b"), vec![tp(1), tp(2)])];
    let stored =
        Event::Group(GroupEvent::AssignmentStored { group: billing(), generation: Generation(8), plan });
    check(
        &[
            (1, member),
            (1, rebalance(RebalanceReason::MemberJoined)),
            (1, state(GroupState::Stable, GroupState::PreparingRebalance)),
            (900, revoked(RevokeReason::Rebalance)),
            (990, state(GroupState::PreparingRebalance, GroupState::CompletingRebalance)),
            (1050, stored),
            (1050, state(GroupState::CompletingRebalance, GroupState::Stable)),
            (1090, assigned(vec![tp(1), tp(2)])),
            (1091, assigned(vec![])),
            (1130, position(1, 38, PositionSource::Committed)),
            (1130, position(2, 41, PositionSource::Committed)),
            (1150, position(0, 0, PositionSource::Earliest)),
            (1160, position(0, 7, PositionSource::Latest)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-c is a member (R-GRP-9)
                Info
            00:00.001  billing: rebalance after generation 7: consumer-c joins (R-GRP-23)
                Warn: Members learn of it from their next heartbeat and join again in their next poll().
            00:00.900  consumer-b gave up orders-1, orders-2 to join again (R-GRP-29)
                Warn: With an eager assignor a member owns nothing until the new plan is there.
            00:00.990  billing: all members have joined generation 8 (R-GRP-7, R-GRP-17)
                Info: The leader works out who owns what.
            00:01.050  billing: generation 8: consumer-a orders-0; consumer-b orders-1, orders-2 (R-GRP-18)
                Good: The group's leader made this plan; the coordinator stored it and is Stable.
            00:01.090  consumer-b owns orders-1, orders-2 in generation 8 of billing (R-GRP-30)
                Good: It asks for the committed offsets and reads on from there.
            00:01.091  consumer-b owns nothing in generation 8 of billing (R-GRP-30)
                Warn: The plan has no partition for it; it stands by.
            00:01.130  consumer-b reads orders-1 from offset 38, orders-2 from offset 41 (R-CONS-11, R-CONS-15)
                Info: It begins at the committed offset.
            00:01.150  consumer-b reads orders-0 from offset 0 (R-CONS-11)
                Info: It begins at the log start: auto.offset.reset=earliest.
            00:01.160  consumer-b reads orders-0 from offset 7 (R-CONS-11, R-CONS-12)
                Info: It begins at the high watermark: auto.offset.reset=latest.
        "#]],
    );
}

#[test]
fn a_group_of_the_newer_protocol_reads_as_a_story() {
    use ConsumerGroupState::*;
    let state = |from, to, epoch| {
        Event::Group(GroupEvent::ConsumerGroupStateChanged {
            group: billing(),
            from,
            to,
            epoch: GroupEpoch(epoch),
        })
    };
    let reconciled = |client: &str, given: Vec<TopicPartition>, waits| {
        Event::Group(GroupEvent::MemberReconciled {
            group: billing(),
            client: name(client),
            epoch: GroupEpoch(3),
            given,
            waits,
        })
    };
    let plan = vec![(name("consumer-a"), vec![tp(0)]), (name("consumer-b"), vec![tp(1)])];
    let partitions = vec![tp(1)];
    check(
        &[
            (0, Event::Group(GroupEvent::GroupConverted { group: billing(), classic: false })),
            (1, state(Stable, Assigning, 3)),
            (900, Event::Group(GroupEvent::TargetAssigned { group: billing(), epoch: GroupEpoch(3), plan })),
            (900, state(Assigning, Reconciling, 3)),
            (900, reconciled("consumer-b", vec![], true)),
            (
                950,
                Event::Group(GroupEvent::RevocationAsked {
                    group: billing(),
                    client: name("consumer-a"),
                    epoch: GroupEpoch(2),
                    partitions,
                }),
            ),
            (1000, reconciled("consumer-a", vec![], false)),
            (1050, reconciled("consumer-b", vec![tp(1)], false)),
            (1050, state(Reconciling, Stable, 3)),
            (2000, removed(MemberRemoval::DidNotRevoke)),
            (3000, state(Assigning, Empty, 5)),
            (4000, state(Empty, Dead, 5)),
        ],
        expect![[r#"
            00:00.000  billing: its protocol is consumer from now on (R-CG8-25)
                Info: Members that speak the classic protocol stay; offsets do too.
            00:00.001  billing: epoch 3 needs another assignment (R-CG8-7, R-CG8-8)
                Warn: It is computed with a heartbeat, once in group.consumer.assignment.interval.ms of the coordinator's clock.
            00:00.900  billing: target of epoch 3: consumer-a orders-0; consumer-b orders-1 (R-CG8-8)
                Info: The coordinator made this plan; each member goes there by its own heartbeats.
            00:00.900  billing: consumer-b is in epoch 3 (R-CG8-11, R-CG8-12)
                Good: It waits for partitions that other members have not given up yet.
            00:00.950  billing: consumer-a is to give up orders-1 (R-CG8-11, R-CG8-13)
                Info: It stays in epoch 2 until it says that it did.
            00:01.000  billing: consumer-a is in epoch 3 (R-CG8-11, R-CG8-12)
                Good
            00:01.050  billing: consumer-b is in epoch 3 and gets orders-1 (R-CG8-11, R-CG8-12)
                Good
            00:01.050  billing: all members have what they are to have, epoch 3 (R-CG8-6)
                Good
            00:02.000  billing: consumer-b removed: it did not give up partitions within its rebalance timeout (R-CG8-13)
                Bad
            00:03.000  billing: the group is empty, epoch 5 (R-CG8-6)
                Info: Its committed offsets stay.
            00:04.000  billing: the group is gone
                Info
        "#]],
    );
}

#[test]
fn who_is_gone_stays_a_member_while_that_cannot_be_written_r_cg8_14() {
    let kept = |reason| {
        Event::Group(GroupEvent::MemberKept {
            group: billing(),
            member: MemberId::new("consumer-b-1"),
            client: name("consumer-b"),
            reason,
            error: ErrorCode::NotEnoughReplicas,
        })
    };
    check(
        &[(1, kept(MemberRemoval::SessionExpired)), (2, kept(MemberRemoval::Left))],
        expect![[r#"
            00:00.001  billing: consumer-b stays a member: NOT_ENOUGH_REPLICAS (R-GRP-3, R-CG8-14)
                Warn: That it is gone could not be written; the coordinator tries again in half a second.
            00:00.002  billing: consumer-b stays a member: NOT_ENOUGH_REPLICAS (R-GRP-3, R-CG8-14)
                Warn: It has left, which could not be written, and its timers are cancelled: it may stay until another broker coordinates the group.
        "#]],
    );
}

#[test]
fn a_cooperative_member_says_what_it_keeps_r_grp_30() {
    let joins = Event::JoinSent {
        client: name("consumer-b"),
        group: billing(),
        owned: vec![tp(0), tp(1), tp(2)],
        reason: "group is already rebalancing".into(),
    };
    let keeps = |partitions: Vec<TopicPartition>, added: Vec<TopicPartition>| Event::PartitionsAssigned {
        client: name("consumer-b"),
        group: billing(),
        generation: Generation(8),
        partitions,
        added,
    };
    check(
        &[
            (1, joins),
            (2, revoked(RevokeReason::Reassigned)),
            (2, keeps(vec![tp(0)], vec![])),
            (3, keeps(vec![tp(0), tp(3)], vec![tp(3)])),
        ],
        expect![[r#"
            00:00.001  consumer-b joins again and keeps orders-0, orders-1, orders-2 meanwhile (R-GRP-29, R-GRP-31)
                Info: All its assignors are cooperative: it reads on. The reason that it gives: group is already rebalancing.
            00:00.002  consumer-b gives up orders-1, orders-2 for another member (R-GRP-30, R-ASG-8)
                Warn: The plan leaves them out, so nobody owns them until it has joined once more.
            00:00.002  consumer-b keeps orders-0 and gets none in generation 8 of billing (R-GRP-30, R-GRP-31)
                Good: Positions and fetch sessions of what it keeps go on as they were.
            00:00.003  consumer-b keeps orders-0 and gets orders-3 in generation 8 of billing (R-GRP-30, R-GRP-31)
                Good: Positions and fetch sessions of what it keeps go on as they were.
        "#]],
    );
}

#[test]
fn members_go_for_different_reasons() {
    use MemberRemoval::*;
    let events: Vec<Event> = [Left, SessionExpired, DidNotRejoin, DidNotSync, GroupFull]
        .into_iter()
        .flat_map(|reason| [removed(reason), rebalance(RebalanceReason::MemberRemoved(reason))])
        .chain(
            [
                RebalanceReason::MemberRejoined,
                RebalanceReason::WriteFailed,
                RebalanceReason::GroupTooLarge,
                RebalanceReason::TargetOutdated,
            ]
            .map(rebalance),
        )
        .chain([RevokeReason::Lost, RevokeReason::Closing].map(revoked))
        .chain([GroupState::Empty, GroupState::Dead].map(|to| state(GroupState::PreparingRebalance, to)))
        .chain([Event::Group(GroupEvent::JoinExtended { group: billing(), wait_ms: 3000 })])
        .collect();
    let events: Vec<(i64, Event)> = events.into_iter().map(|event| (1, event)).collect();
    check_lines(
        &events,
        expect![[r#"
            00:00.001  billing: consumer-b left (R-GRP-22)
            00:00.001  billing: rebalance after generation 7: consumer-c left (R-GRP-23)
            00:00.001  billing: consumer-b removed: no heartbeat for its session.timeout.ms (R-GRP-21)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: it did not join again within the rebalance timeout (R-GRP-13)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: it did not ask for the new plan within the rebalance timeout (R-GRP-19)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: the group has group.max.size members (R-GRP-8)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: consumer-c joined again (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: the plan could not be stored (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: it has more members than group.max.size (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: consumer-c made the group a classic one (R-GRP-23)
            00:00.001  consumer-b lost orders-1, orders-2 (R-GRP-32)
            00:00.001  consumer-b gave up orders-1, orders-2 to close (R-CONS-27)
            00:00.001  billing: the group is empty, generation 8 (R-GRP-6)
            00:00.001  billing: the group is gone
            00:00.001  billing: waits 3 s more, for further members (R-GRP-12)"#]],
    );
}

#[test]
fn a_coordinator_is_told_when_it_is_another() {
    let lost = |client: &str| Event::CoordinatorLost {
        client: name(client),
        group: billing(),
        error: ErrorCode::NotCoordinator,
    };
    let loaded = |groups| {
        Event::Group(GroupEvent::CoordinatorLoaded {
            broker: BrokerId(2),
            partition: 9,
            records: 312,
            groups,
        })
    };
    check(
        &[
            (1, found("consumer-a", 1)),
            (2, found("consumer-b", 1)),
            (3, loaded(vec![])),
            (3, loaded(vec![billing()])),
            (4, lost("consumer-a")),
            (5, lost("consumer-b")),
            (6, found("consumer-a", 2)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-a found the coordinator, broker 1 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
            00:00.003  broker 2 coordinates group billing now (R-GRP-4)
                Good: It read 312 records of __consumer_offsets-9.
            00:00.004  billing: consumer-a has lost the coordinator: NOT_COORDINATOR (R-GRP-3)
                Warn: Its members ask any broker for the new one (FindCoordinator).
            00:00.006  billing: consumer-a found the coordinator, broker 2 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
        "#]],
    );
}

#[test]
fn a_search_that_finds_the_dead_coordinator_again_and_again_is_told_once() {
    let lost = || Event::CoordinatorLost {
        client: name("consumer-a"),
        group: billing(),
        error: ErrorCode::NetworkException,
    };
    check(
        &[
            (1, found("consumer-a", 1)),
            (2, lost()),
            (3, found("consumer-a", 1)),
            (4, lost()),
            (5, found("consumer-a", 1)),
            (6, lost()),
            (7, found("consumer-a", 2)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-a found the coordinator, broker 1 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
            00:00.002  billing: consumer-a has lost the coordinator: NETWORK_EXCEPTION (R-GRP-3)
                Warn: Its members ask any broker for the new one (FindCoordinator).
            00:00.003  billing: consumer-a is sent to broker 1 again (R-GRP-2)
                Info: Until the controller fences it, it leads the partition of __consumer_offsets that keeps the group, so every broker names it. The members go on asking.
            00:00.007  billing: consumer-a found the coordinator, broker 2 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
        "#]],
    );
}

#[test]
fn a_commit_that_is_refused_deleted_or_has_expired_is_told() {
    let (client, error) = (name("consumer-a"), ErrorCode::IllegalGeneration);
    check(
        &[
            (0, Event::Group(GroupEvent::OffsetExpired { group: billing(), tp: tp(1) })),
            (1, Event::Group(GroupEvent::CommitRefused { group: billing(), error, client: client.clone() })),
            (2, Event::CommitFailed { client, error }),
            (
                3,
                Event::Group(GroupEvent::OffsetDeleted {
                    group: billing(),
                    tp: tp(1),
                    client: name("admin"),
                }),
            ),
        ],
        expect![[r#"
            00:00.000  billing: the committed offset of orders-1 has expired (R-GRP-40)
                Warn: Nobody had used it for offsets.retention.minutes; auto.offset.reset decides from now on.
            00:00.001  billing: commit of consumer-a refused: ILLEGAL_GENERATION (R-GRP-36)
                Warn
            00:00.002  consumer-a: commit failed: ILLEGAL_GENERATION (R-CONS-22)
                Bad: What it processed since its last commit will be read again by the partition's owner.
            00:00.003  billing: admin deleted the committed offset of orders-1 (R-GRP-41)
                Warn: auto.offset.reset decides where a member begins to read it.
        "#]],
    );
}

/// R-CLI-4, R-CLI-6, R-CLI-7.
#[test]
fn what_an_administrator_asked_for_is_told() {
    let listed = |group: &str, protocol_type: &str| ListedGroup {
        group: GroupId::new(group),
        protocol_type: protocol_type.to_owned(),
        state: "Empty".to_owned(),
        kind: "classic".to_owned(),
    };
    let member = |client: &str, instance_id: Option<&str>, owned| DescribedMember {
        member: MemberId::new(&format!("{client}-1")),
        instance_id: instance_id.map(str::to_owned),
        client: client.to_owned(),
        host: "/127.0.0.1".to_owned(),
        owned,
        target: None,
    };
    let described = |state: &str, protocol: &str, members| Event::GroupsTold {
        told: GroupsTold::Group(DescribedGroup {
            group: billing(),
            coordinator: BrokerId(2),
            state: state.to_owned(),
            protocol: protocol.to_owned(),
            epochs: None,
            members,
        }),
    };
    let members = vec![member("a", None, vec![tp(0), tp(1)]), member("b", Some("till"), vec![])];
    check(
        &[
            (0, Event::GroupsTold { told: GroupsTold::List(vec![]) }),
            (
                1,
                Event::GroupsTold {
                    told: GroupsTold::List(vec![listed("billing", "consumer"), listed("offsets", "")]),
                },
            ),
            (2, described("Empty", "", vec![])),
            (3, described("Stable", "range", members)),
        ],
        expect![[r#"
            00:00.000  there is no group (R-CLI-4)
                Info: Each broker tells of the groups that it coordinates.
            00:00.001  2 groups: billing (classic, Empty); offsets (classic, Empty, for offsets only) (R-CLI-4)
                Info: Each broker tells of the groups that it coordinates.
            00:00.002  billing: Empty, 0 members, coordinated by broker 2 (R-CLI-6, R-CLI-7)
                Info: Nobody is in it.
            00:00.003  billing: Stable with range, 2 members, coordinated by broker 2 (R-CLI-6, R-CLI-7)
                Info: a at /127.0.0.1 is a-1 and owns orders-0, orders-1; b (static, till) at /127.0.0.1 is b-1 and owns none.
        "#]],
    );
}

/// R-CLI-6, R-CLI-7.
#[test]
fn a_group_of_the_newer_protocol_is_described_with_its_epochs() {
    let member = |client: &str, owned: Vec<TopicPartition>, target| DescribedMember {
        member: MemberId::new(client),
        instance_id: None,
        client: client.to_owned(),
        host: "/127.0.0.1".to_owned(),
        owned,
        target: Some((GroupEpoch(4), target)),
    };
    let described = DescribedGroup {
        group: billing(),
        coordinator: BrokerId(1),
        state: "Reconciling".to_owned(),
        protocol: "uniform".to_owned(),
        epochs: Some((GroupEpoch(5), GroupEpoch(4))),
        members: vec![member("a", vec![tp(0)], vec![tp(0)]), member("b", vec![tp(1)], vec![tp(1), tp(2)])],
    };
    check(
        &[(0, Event::GroupsTold { told: GroupsTold::Group(described) })],
        expect![[r#"
        00:00.000  billing: Reconciling with uniform, 2 members, coordinated by broker 1 (R-CLI-6, R-CLI-7)
            Info: The group is in epoch 5, its target assignment of epoch 4. a at /127.0.0.1 is a and owns orders-0 in epoch 4; b at /127.0.0.1 is b and owns orders-1 in epoch 4, while its target is orders-1, orders-2.
    "#]],
    );
}

/// R-OBS-4, R-OBS-7.
#[test]
fn how_far_a_group_is_is_told_of_each_partition_r_cli_5() {
    let at = |partition, committed: Option<i64>, end: Option<i64>, client: Option<&str>| GroupPosition {
        tp: tp(partition),
        committed: committed.map(Offset),
        end: end.map(Offset),
        client: client.map(str::to_owned),
    };
    let positions = vec![
        at(0, Some(40), Some(52), Some("a")),
        at(1, None, Some(9), Some("a")),
        at(2, Some(7), None, None),
    ];
    let described =
        |positions| Event::GroupsTold { told: GroupsTold::Offsets { group: billing(), positions } };
    check(
        &[(0, described(positions)), (1, described(vec![]))],
        expect![[r#"
        00:00.000  billing: 12 offsets behind in 3 partitions (R-CLI-5, R-OBS-4)
            Info: Committed, of what the partition's high watermark is. orders-0: 40 of 52, read by a; orders-1: - of 9, read by a; orders-2: 7 of -.
        00:00.001  billing: it has committed nothing and reads nothing (R-CLI-5)
            Info
    "#]],
    );
}

#[test]
fn a_share_group_is_told_of_by_what_is_left_to_do_r_share_3() {
    let position = |partition, start: Option<i64>, lag| SharePosition {
        tp: tp(partition),
        start: start.map(Offset),
        lag,
    };
    let positions =
        vec![position(0, Some(40), Some(12)), position(1, None, None), position(2, Some(3), None)];
    let told =
        |positions| Event::GroupsTold { told: GroupsTold::ShareOffsets { group: billing(), positions } };
    let start = OffsetReset { tp: tp(0), to: Offset(5), note: ResetNote::AsAsked };
    let reset = |executed| Event::GroupsTold {
        told: GroupsTold::Reset { group: billing(), offsets: vec![start.clone()], executed, is_shared: true },
    };
    let topics = vec!["orders".into(), "refunds".into()];
    let told_forgotten = GroupsTold::ShareOffsetsForgotten { group: billing(), topics };
    let forgotten = Event::GroupsTold { told: told_forgotten };
    check(
        &[(0, told(positions)), (1, told(vec![])), (2, reset(false)), (3, reset(true)), (4, forgotten)],
        expect![[r#"
        00:00.000  billing: 12 records to be done in 3 partitions (R-SHARE-3, R-SHARE-11)
            Info: As it was persisted last, up to the high watermark. orders-0: 12 from 40 on; orders-1: nobody has read it yet; orders-2: from 3 on.
        00:00.001  billing: it shares no partition (R-SHARE-3)
            Info
        00:00.002  billing: a reset would start it at: orders-0 5 (R-CLI-9, R-CLI-10)
            Info: Nothing is changed by the plan.
        00:00.003  billing: starts anew: orders-0 5 (R-CLI-9, R-CLI-10)
            Warn: Who joins the group begins there.
        00:00.004  billing: what is done of orders, refunds is forgotten (R-SHARE-4, R-SHARE-15)
            Warn: Who joins the group begins where share.auto.offset.reset says.
    "#]],
    );
}

/// R-CLI-10, R-CLI-11.
#[test]
fn a_reset_is_told_with_what_is_not_as_it_was_asked_for() {
    let one = |partition, to, note| OffsetReset { tp: tp(partition), to: Offset(to), note };
    let offsets = vec![
        one(0, 5, ResetNote::AsAsked),
        one(1, 9, ResetNote::Clamped(Offset(12))),
        one(2, 7, ResetNote::End),
    ];
    let reset = |offsets, executed| Event::GroupsTold {
        told: GroupsTold::Reset { group: billing(), offsets, executed, is_shared: false },
    };
    check(
        &[(0, reset(offsets.clone(), false)), (1, reset(offsets, true)), (2, reset(vec![], true))],
        expect![[r#"
            00:00.000  billing: a reset would commit: orders-0 5, orders-1 9 (12 lies outside its log), orders-2 7 (its end) (R-CLI-9, R-CLI-10)
                Info: Nothing is changed by the plan.
            00:00.001  billing: committed offsets reset: orders-0 5, orders-1 9 (12 lies outside its log), orders-2 7 (its end) (R-CLI-9, R-CLI-10)
                Warn: Who joins the group begins there.
            00:00.002  billing: committed offsets reset: none (R-CLI-9, R-CLI-10)
                Warn: Who joins the group begins there.
        "#]],
    );
}
