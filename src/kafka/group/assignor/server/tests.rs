//! Targets of small groups, as the rules tell them.

use super::*;
use uuid::Uuid;

fn topic(number: u32) -> TopicId {
    TopicId(Uuid::from_u128(u128::from(number) + 1))
}

/// "0:1 2 4" is partitions 1, 2 and 4 of topic 0.
fn assigned(text: &str) -> Assigned {
    Assigned::new(text.split(';').filter(|of_topic| !of_topic.is_empty()).map(|of_topic| {
        let (number, partitions) = of_topic.split_once(':').unwrap();
        let partitions: Vec<i32> = partitions.split_whitespace().map(|p| p.parse().unwrap()).collect();
        (topic(number.parse().unwrap()), partitions)
    }))
}

fn text(assigned: &Assigned) -> String {
    let of_topic = |(id, partitions): (TopicId, &[i32])| {
        let partitions: Vec<String> = partitions.iter().map(i32::to_string).collect();
        format!("{}:{}", id.0.as_u128() - 1, partitions.join(" "))
    };
    assigned.iter().map(of_topic).collect::<Vec<_>>().join(";")
}

/// `members` are the topics and what they have, `topics` the numbers of partitions.
fn assign(
    how: impl Fn(&GroupSpec<'_>) -> Vec<Assigned>,
    members: &[(&[u32], &str)],
    topics: &[i32],
) -> Vec<Assigned> {
    let ids: Vec<MemberId> = (0..members.len()).map(|i| MemberId::new(&format!("m{i}"))).collect();
    let targets: Vec<Assigned> = members.iter().map(|(_, target)| assigned(target)).collect();
    let specs: Vec<MemberSpec<'_>> = members
        .iter()
        .zip(&ids)
        .zip(&targets)
        .map(|(((topics, _), id), target)| MemberSpec { id, instance_id: None, topics, target })
        .collect();
    let topics: Vec<(TopicId, i32)> =
        (0..).zip(topics).map(|(number, count)| (topic(number), *count)).collect();
    let homogeneous = members.iter().all(|member| member.0 == members[0].0);
    let taken = Taken::of(&targets);
    how(&GroupSpec { members: &specs, topics: &topics, homogeneous, taken: &taken })
}

#[track_caller]
fn check(
    how: impl Fn(&GroupSpec<'_>) -> Vec<Assigned>,
    members: &[(&[u32], &str)],
    topics: &[i32],
    expected: &[&str],
) {
    let got: Vec<String> = assign(how, members, topics).iter().map(text).collect();
    assert_eq!(got, expected);
}

fn uniform(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    ServerAssignor::Uniform.assign(spec)
}

fn spread(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    simple(spec, &|_, _| true)
}

fn range(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    ServerAssignor::Range.assign(spec)
}

#[test]
fn range_cuts_each_topic_and_forgets_what_was_r_cg8_22() {
    check(range, &[(&[0], "0:2"), (&[0], "")], &[3], &["0:0 1", "0:2"]);
    check(range, &[(&[0, 1], ""), (&[0], ""), (&[1], "")], &[3, 3], &["0:0 1;1:0 1", "0:2", "1:2"]);
    check(range, &[(&[0], ""), (&[0], ""), (&[0], "")], &[1], &["0:0", "", ""]);
}

#[test]
fn uniform_keeps_and_deals_out_r_cg8_23() {
    check(uniform, &[(&[0], "0:0 1 2 3 4 5"), (&[0], "")], &[6], &["0:0 1 2", "0:3 4 5"]);
    check(uniform, &[(&[0, 1], ""), (&[0, 1], "")], &[3, 2], &["0:0 1", "0:2;1:0 1"]);
    // A topic that is gone from the subscription is given up.
    check(uniform, &[(&[0], "0:0;7:0 1"), (&[0], "0:1")], &[2], &["0:0", "0:1"]);
    check(uniform, &[(&[], ""), (&[], "")], &[], &["", ""]);
}

#[test]
fn who_has_an_extra_partition_keeps_it_r_cg8_23() {
    // The first member could have the extra one, but the second has it.
    check(uniform, &[(&[0], "0:0"), (&[0], "0:1 2"), (&[0], "")], &[4], &["0:0", "0:1 2", "0:3"]);
}

#[test]
fn what_stays_is_shared_and_not_copied() {
    let had = assigned("0:0 1");
    let got = assign(
        |spec| {
            let members = spec.members.iter().map(|member| MemberSpec { target: &had, ..*member });
            let taken = Taken::of([&had]);
            let members: Vec<MemberSpec<'_>> = members.take(1).collect();
            uniform(&GroupSpec { members: &members, taken: &taken, ..*spec })
        },
        &[(&[0], "")],
        &[2],
    );
    assert!(got[0].is_same(&had));
}

/// A41: six partitions, m0 alone, then with m1, then with m2, then without m0.
#[test]
fn uniform_is_sticky_r_cg8_23() {
    check(uniform, &[(&[0], "")], &[6], &["0:0 1 2 3 4 5"]);
    check(uniform, &[(&[0], "0:0 1 2 3 4 5"), (&[0], "")], &[6], &["0:0 1 2", "0:3 4 5"]);
    check(uniform, &[(&[0], "0:0 1 2"), (&[0], "0:3 4 5"), (&[0], "")], &[6], &["0:0 1", "0:3 4", "0:2 5"]);
    check(uniform, &[(&[0], "0:3 4"), (&[0], "0:2 5")], &[6], &["0:0 3 4", "0:1 2 5"]);
}

/// EX-35.
#[test]
fn uniform_moves_what_it_must_when_another_subscribes_r_cg8_24() {
    check(uniform, &[(&[0], ""), (&[0, 1], "")], &[4, 4], &["0:0 1 2 3", "1:0 1 2 3"]);
    check(
        uniform,
        &[(&[0], "0:0 1 2 3"), (&[0, 1], "1:0 1 2 3"), (&[0, 1], "")],
        &[4, 4],
        &["0:0 1 2", "0:3;1:0 1", "1:2 3"],
    );
}

#[test]
fn uniform_balances_the_subscribers_of_one_topic_after_the_other_r_cg8_24() {
    check(uniform, &[(&[0], ""), (&[0, 1], "")], &[2, 2], &["0:0 1", "1:0 1"]);
    check(uniform, &[(&[0], "0:0 1 2 3"), (&[0, 1], "")], &[4, 0], &["0:0 1", "0:2 3"]);
    // What is no longer subscribed to goes to who does.
    check(uniform, &[(&[1], "0:0 1"), (&[0, 1], "")], &[2, 2], &["1:0 1", "0:0 1"]);
}

#[test]
fn simple_gives_a_partition_to_several_where_there_are_more_members_r_share_2() {
    let all: &[u32] = &[0];
    check(spread, &[(all, ""), (all, ""), (all, ""), (all, "")], &[2], &["0:0", "0:0", "0:1", "0:1"]);
    check(spread, &[(all, "0:0 1 2 3"), (all, "")], &[4], &["0:2 3", "0:0 1"]);
    check(spread, &[(all, "0:0"), (all, "0:1")], &[2], &["0:0", "0:1"]);
    check(spread, &[], &[], &[]);
}

#[test]
fn simple_spreads_each_topic_by_itself_where_subscriptions_differ_r_share_2() {
    check(spread, &[(&[0], ""), (&[0, 1], ""), (&[1], "")], &[2, 1], &["0:0", "0:1;1:0", "1:0"]);
    // A topic that nobody subscribes to is not looked at.
    check(spread, &[(&[0], "9:4"), (&[1], "")], &[1, 1], &["9:4;0:0", "1:0"]);
}

#[test]
fn simple_gives_nobody_what_has_no_state_yet_r_share_2() {
    let even = |spec: &GroupSpec<'_>| simple(spec, &|_, partition| partition % 2 == 0);
    check(even, &[(&[0], ""), (&[0], "")], &[4], &["0:0", "0:2"]);
    check(even, &[(&[0], ""), (&[1], "")], &[2, 3], &["0:0", "1:0 2"]);
}

#[test]
fn taken_partitions_are_those_of_the_targets() {
    let mut taken = Taken::of([&assigned("0:0 2 64;1:1"), &assigned("0:1")]);
    let free = |taken: &Taken, topics: &[(TopicId, i32)]| {
        taken
            .of_topics(topics)
            .zip(topics)
            .map(|(bits, (_, count))| bits.free(*count).collect())
            .collect::<Vec<Vec<i32>>>()
    };
    assert_eq!(free(&taken, &[(topic(0), 4), (topic(1), 2), (topic(2), 1)]), [vec![3], vec![0], vec![0]]);
    assert_eq!(free(&taken, &[(topic(1), 2), (topic(0), 66)])[1].len(), 62);
    taken.remove(&assigned("0:0 1 2 64"));
    assert_eq!(taken, Taken::of([&assigned("1:1")]));
    taken.add(&assigned("1:0"));
    assert_eq!(free(&taken, &[(topic(1), 2)]), [Vec::<i32>::new()]);
}
