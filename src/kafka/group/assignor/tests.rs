//! Plans of small groups, as the rules and cases tell them. What Kafka itself made of some 1,400 groups is lived by
//! `tests/conformance.rs`.

use super::*;

/// `member` is "name:topics" or "instance/name:topics", with " owns partitions" behind it and "@rack" before the colon.
fn subscription(member: &str) -> Subscription {
    let (member, owned) = member.split_once(" owns ").unwrap_or((member, ""));
    let (name, topics) = member.split_once(':').unwrap();
    let (name, rack) = name.split_once('@').map_or((name, None), |(name, rack)| (name, Some(rack)));
    let (instance_id, name) = name.split_once('/').map_or((None, name), |(id, name)| (Some(id), name));
    let tp = |text: &str| {
        let (topic, partition) = text.split_once('-').unwrap();
        TopicPartition::new(&Topic::new(topic), partition.parse().unwrap())
    };
    Subscription {
        instance_id: instance_id.map(str::to_string),
        owned: owned.split_whitespace().map(tp).collect(),
        generation: Some(Generation(1)),
        rack: rack.map(Rc::from),
        ..Subscription::new(MemberId::new(name), topics.split_whitespace().map(Topic::from).collect())
    }
}

/// "topic count", with the rack of each partition's replica behind it.
fn shape(topic: &str) -> (Topic, TopicShape) {
    let mut words = topic.split_whitespace();
    let (name, count) = (words.next().unwrap(), words.next().unwrap());
    let racks: Vec<BTreeSet<Rc<str>>> = words.map(|rack| BTreeSet::from([Rc::from(rack)])).collect();
    let racks = (!racks.is_empty()).then(|| racks.into());
    (Topic::new(name), TopicShape { partitions: count.parse().unwrap(), racks })
}

fn lines(plan: &Plan) -> Vec<String> {
    let line = |(member, tps): (&MemberId, &Vec<TopicPartition>)| {
        let tps: Vec<String> = tps.iter().map(TopicPartition::to_string).collect();
        format!("{member}:{}", tps.join(" "))
    };
    plan.iter().map(line).collect()
}

#[track_caller]
fn check(assignor: ClientAssignor, members: &[&str], topics: &[&str], plan: &[&str]) {
    let members: Vec<Subscription> = members.iter().map(|member| subscription(member)).collect();
    let topics = topics.iter().map(|topic| shape(topic)).collect();
    assert_eq!(lines(&assignor.assign(&members, &topics).unwrap()), plan);
}

use ClientAssignor::{CooperativeSticky, Range, RoundRobin, Sticky};

#[test]
fn each_topic_is_cut_into_consecutive_ranges_the_first_ones_longer_r_asg_1() {
    check(Range, &["a:t", "b:t"], &["t 3"], &["a:t-0 t-1", "b:t-2"]);
    check(Range, &["b:t", "a:t"], &["t 3"], &["a:t-0 t-1", "b:t-2"]);
    check(Range, &["a:t", "b:t", "c:t"], &["t 2"], &["a:t-0", "b:t-1", "c:"]);
}

#[test]
fn the_extra_partitions_of_all_topics_fall_to_the_same_member_r_asg_1() {
    check(Range, &["a:t u", "b:t u"], &["t 3", "u 3"], &["a:t-0 t-1 u-0 u-1", "b:t-2 u-2"]);
}

#[test]
fn only_subscribers_are_counted_and_unknown_topics_left_out_r_asg_1() {
    check(Range, &["a:t", "b:u", "c:t x"], &["t 2", "u 1", "y 4"], &["a:t-0", "b:u-0", "c:t-1"]);
    check(Range, &["a:x"], &[], &["a:"]);
    check(RoundRobin, &["a:x", "b:"], &["x 0"], &["a:", "b:"]);
    check(Sticky, &[], &["t 1"], &[]);
}

#[test]
fn static_members_come_first_by_instance_id() {
    check(Range, &["a:t", "i2/b:t", "i1/c:t"], &["t 3"], &["a:t-2", "b:t-1", "c:t-0"]);
    check(Range, &["a:t", "i1/z:t"], &["t 1"], &["a:", "z:t-0"]);
    check(RoundRobin, &["a:t", "i1/z:t"], &["t 1"], &["a:", "z:t-0"]);
}

#[test]
fn range_gives_partitions_to_members_in_their_rack_r_asg_2() {
    let members = ["a@r1:t", "b@r2:t"];
    check(Range, &members, &["t 4 r2 r1 r2 r1"], &["a:t-1 t-3", "b:t-0 t-2"]);
    // Everything is everywhere, or nothing near: racks do not count.
    check(Range, &members, &["t 4"], &["a:t-0 t-1", "b:t-2 t-3"]);
    check(Range, &members, &["t 2 r3 r4"], &["a:t-0", "b:t-1"]);
    // The quota stays: what is left goes by ranges.
    check(Range, &members, &["t 3 r1 r1 r1"], &["a:t-0 t-1", "b:t-2"]);
}

#[test]
fn topics_that_are_cut_alike_stay_together_in_range_r_asg_2() {
    check(Range, &["a@r1:t u", "b@r2:t u"], &["t 2 r2 r1", "u 2 r2 r1"], &["a:t-1 u-1", "b:t-0 u-0"]);
    // One topic's racks fit and the other's do not: no member has a pair in its rack.
    check(Range, &["a@r1:t u", "b@r2:t u"], &["t 2 r2 r1", "u 2 r1 r2"], &["a:t-0 u-0", "b:t-1 u-1"]);
}

/// EX-21.
#[test]
fn range_skews_and_round_robin_does_not_r_asg_1_3_4() {
    let (members, topics) = (["c1:A B C", "c2:A B C"], ["A 3", "B 3", "C 3"]);
    check(Range, &members, &topics, &["c1:A-0 A-1 B-0 B-1 C-0 C-1", "c2:A-2 B-2 C-2"]);
    let even = ["c1:A-0 A-2 B-1 C-0 C-2", "c2:A-1 B-0 B-2 C-1"];
    check(RoundRobin, &members, &topics, &even);
    check(Sticky, &members, &topics, &even);
}

#[test]
fn round_robin_passes_over_members_that_do_not_subscribe_r_asg_3() {
    check(RoundRobin, &["a:t", "b:t u"], &["t 3", "u 2"], &["a:t-0 t-2", "b:t-1 u-0 u-1"]);
}

/// A38: five topics of one partition; A39: which partitions stay together.
#[test]
fn range_keeps_partitions_of_a_number_together_and_gives_all_to_the_first_r_asg_1_3_4() {
    let (members, topics) =
        (["c1:A B C D E", "c2:A B C D E", "c3:A B C D E"], ["A 1", "B 1", "C 1", "D 1", "E 1"]);
    check(Range, &members, &topics, &["c1:A-0 B-0 C-0 D-0 E-0", "c2:", "c3:"]);
    check(RoundRobin, &members, &topics, &["c1:A-0 D-0", "c2:B-0 E-0", "c3:C-0"]);
    check(CooperativeSticky, &members, &topics, &["c1:A-0 D-0", "c2:B-0 E-0", "c3:C-0"]);
    let (members, topics) = (["c1:clicks views", "c2:clicks views"], ["clicks 3", "views 3"]);
    let apart = ["c1:clicks-0 clicks-2 views-1", "c2:clicks-1 views-0 views-2"];
    check(RoundRobin, &members, &topics, &apart);
    check(Range, &members, &topics, &["c1:clicks-0 clicks-1 views-0 views-1", "c2:clicks-2 views-2"]);
}

/// EX-20, A40: what changes hands is nobody's for one generation.
#[test]
fn cooperative_sticky_moves_in_two_phases_r_asg_4_8() {
    let three = |c1: &str, c2: &str, c3: &str, plan: &[&str]| {
        let members = [format!("c1:t owns {c1}"), format!("c2:t owns {c2}"), format!("c3:t owns {c3}")];
        check(CooperativeSticky, &members.each_ref().map(|member| &**member), &["t 6"], plan);
    };
    three("t-0 t-2 t-4", "t-1 t-3 t-5", "", &["c1:t-0 t-2", "c2:t-1 t-3", "c3:"]);
    three("t-0 t-2", "t-1 t-3", "", &["c1:t-0 t-2", "c2:t-1 t-3", "c3:t-4 t-5"]);
    check(
        CooperativeSticky,
        &["c1:t owns t-0 t-2", "c3:t owns t-4 t-5"],
        &["t 6"],
        &["c1:t-0 t-2 t-1", "c3:t-4 t-5 t-3"],
    );
}

#[test]
fn who_is_walked_first_keeps_the_extra_partition_r_asg_5() {
    let (a, b) = ("a:t owns t-0 t-1", "b:t owns t-2 t-3");
    check(CooperativeSticky, &[a, b, "c:t"], &["t 4"], &["a:t-0 t-1", "b:t-2", "c:"]);
    check(CooperativeSticky, &[b, a, "c:t"], &["t 4"], &["a:t-0", "b:t-2 t-3", "c:"]);
}

#[test]
fn what_two_members_claim_in_one_generation_is_neithers_r_asg_4() {
    check(CooperativeSticky, &["a:t owns t-0 t-1", "b:t owns t-1"], &["t 2"], &["a:t-0", "b:"]);
}

#[test]
fn with_different_subscriptions_the_least_loaded_is_served_r_asg_6() {
    check(Sticky, &["a:t", "b:t u"], &["t 2", "u 2"], &["a:t-0 t-1", "b:u-0 u-1"]);
    // What b takes on of u alone makes a take over all of t.
    check(CooperativeSticky, &["a:t", "b:t u owns t-0 t-1 t-2"], &["t 3", "u 2"], &["a:", "b:t-2 u-0 u-1"]);
}

#[test]
fn sticky_is_given_to_members_in_the_rack_of_a_replica_r_asg_4() {
    check(Sticky, &["a@r1:t", "b@r2:t"], &["t 4 r2 r2 r1 r1"], &["a:t-2 t-3", "b:t-0 t-1"]);
    check(Sticky, &["a@r1:t u", "b@r2:t"], &["t 2 r2 r1", "u 2 r1 r1"], &["a:u-0 u-1", "b:t-0 t-1"]);
}

#[test]
fn a_claim_to_what_is_not_there_is_an_error_and_no_panic() {
    // a keeps its ghost as the one partition more, and nobody may take the real one.
    let members = ["a:t owns t-5", "b:t"].map(subscription);
    let plan = CooperativeSticky.assign(&members, &BTreeMap::from([shape("t 1")]));
    assert_eq!(plan, Err(PlanError::NobodyLeft(TopicPartition::new(&Topic::new("t"), 0))));
}

#[test]
fn an_assignor_is_known_by_its_name_and_its_class() {
    for assignor in ClientAssignor::ALL {
        assert_eq!(ClientAssignor::of_config(assignor.name()), Some(assignor));
        let class = format!("org.apache.kafka.clients.consumer.{}", assignor.class());
        assert_eq!(ClientAssignor::of_config(&class), Some(assignor));
    }
    assert_eq!(ClientAssignor::of_config("CooperativeStickyAssignor"), Some(CooperativeSticky));
    assert_eq!(ClientAssignor::of_config("uniform"), None);
    assert_eq!(CooperativeSticky.protocols()[0], RebalanceProtocol::Cooperative);
    assert_eq!(Sticky.protocols(), [RebalanceProtocol::Eager]);
}

#[test]
fn user_data_is_what_the_assignor_needs_next_time_r_asg_7() {
    let last = [TopicPartition::new(&Topic::new("t"), 3)];
    assert_eq!(Range.user_data(Some(&last), Generation(2)), None);
    assert_eq!(Sticky.user_data(None, Generation::NONE), None);
    let sticky = Sticky.user_data(Some(&last), Generation(2));
    assert!(sticky.is_some_and(|bytes| bytes.ends_with(&[0, 0, 0, 3, 0, 0, 0, 2])));
    let cooperative = CooperativeSticky.user_data(Some(&last), Generation(2));
    assert_eq!(cooperative.as_deref(), Some(&[0, 0, 0, 2][..]));
}
