//! A member of a group whose coordinator plans, as a state machine (the state of Kafka's `AbstractMembershipManager`):
//! consumers of the newer protocol and share consumers are such members.
//!
//! Kafka's FENCED, PREPARE_LEAVING and LEAVING are passed through at once here: a fenced member joins anew, and one that
//! leaves has said so when it is [`Phase::Unsubscribed`] or [`Phase::Stale`]. A fenced one whose application has to hear first
//! that it has lost its partitions is [`Phase::Stale`] until then.
//!
//! **Invariant:** the epoch is positive only between an answer to a heartbeat and the member's leaving, fencing or end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::client::metadata::Metadata;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::share::key::uuid_text;
use crate::kafka::time::Time;
use crate::kafka::types::{GroupEpoch, MemberId, Topic, TopicId, TopicPartition};

/// Partitions by the ids of their topics.
pub type Assigned = BTreeMap<TopicId, BTreeSet<i32>>;

/// Kafka's `MemberState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Before the first poll() and after close().
    Unsubscribed,
    /// Its heartbeat with epoch 0 is to be sent or answered.
    Joining,
    /// It is to own something else than it does.
    Reconciling,
    /// It owns something new, which the coordinator is to hear at once.
    Acknowledging,
    Stable,
    /// It left as it did not poll in time, and joins again with its next poll().
    Stale,
    /// The coordinator has refused it for good.
    Fatal,
}

/// Kafka's `LocalAssignment`: partitions, and how many assignments there have been before since the member joined. One that
/// comes back after another is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAssignment {
    pub number: i32,
    pub partitions: Assigned,
}

/// When the next heartbeat is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeartbeatClock {
    /// As the coordinator said with its last answer; 0 before.
    pub interval_ms: i32,
    pub due_at: Time,
    pub in_flight: bool,
    /// In a row.
    pub failures: i32,
}

impl HeartbeatClock {
    const NEW: HeartbeatClock =
        HeartbeatClock { interval_ms: 0, due_at: Time::ZERO, in_flight: false, failures: 0 };

    pub fn sent(&mut self, now: Time) {
        self.in_flight = true;
        self.due_at = now.plus_ms(self.interval_ms.into());
    }

    pub fn answered(&mut self, now: Time, interval_ms: i32) {
        self.in_flight = false;
        self.failures = 0;
        if self.interval_ms != interval_ms {
            self.interval_ms = interval_ms;
            self.due_at = now.plus_ms(interval_ms.into());
        }
    }

    pub fn failed(&mut self, now: Time, backoff_ms: i64) {
        self.in_flight = false;
        self.failures += 1;
        self.due_at = now.plus_ms(backoff_ms);
    }

    /// The next one is due as soon as it can be sent.
    pub fn restart(&mut self) {
        *self = HeartbeatClock { interval_ms: self.interval_ms, ..HeartbeatClock::NEW };
    }
}

#[derive(Clone, Debug)]
pub struct Member {
    /// Made by the client; a process keeps it.
    pub id: MemberId,
    pub epoch: GroupEpoch,
    pub phase: Phase,
    /// What it owns and has told, or is about to tell.
    pub current: Option<LocalAssignment>,
    /// What it is to own, as the coordinator said last.
    pub target: Option<LocalAssignment>,
    /// What is being taken over; a newer target waits until that is over.
    pub under_way: Option<LocalAssignment>,
    /// Topics of assignments, whose names metadata may not tell any more.
    pub names: BTreeMap<TopicId, Topic>,
    pub clock: HeartbeatClock,
    /// `None`: the next heartbeat says everything (R-CG8-4).
    said: Option<Said>,
}

/// What the last heartbeat said, or one before it and that one left out.
#[derive(Clone, Debug)]
struct Said {
    current: Option<LocalAssignment>,
    topics: BTreeSet<Topic>,
    regex: Option<Rc<str>>,
}

/// What a heartbeat says beside who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Rebalance timeout and assignor.
    pub settings: bool,
    pub topics: bool,
    pub regex: bool,
    pub owned: bool,
    pub rack: bool,
}

impl Member {
    pub fn new(id: MemberId) -> Member {
        Member {
            id,
            epoch: GroupEpoch::JOINING,
            phase: Phase::Unsubscribed,
            current: None,
            target: None,
            under_way: None,
            names: BTreeMap::new(),
            clock: HeartbeatClock::NEW,
            said: None,
        }
    }

    /// Whether it is in the group or on its way there, and so sends heartbeats.
    pub fn sends_heartbeats(&self) -> bool {
        !matches!(self.phase, Phase::Unsubscribed | Phase::Stale | Phase::Fatal)
    }

    /// Whether the next heartbeat waits neither for the interval nor for a back-off.
    pub fn is_pressed(&self) -> bool {
        matches!(self.phase, Phase::Joining | Phase::Acknowledging)
    }

    /// From now on it is in no epoch and joins anew; nothing is owned any more.
    pub fn join(&mut self) {
        self.forget_assignments();
        self.epoch = GroupEpoch::JOINING;
        self.phase = Phase::Joining;
    }

    /// It is out of the group, in `phase`.
    pub fn end(&mut self, phase: Phase) {
        self.forget_assignments();
        self.epoch = GroupEpoch::JOINING;
        self.phase = phase;
        self.say_everything();
    }

    fn forget_assignments(&mut self) {
        self.current = None;
        self.target = None;
        self.under_way = None;
        self.names.clear();
    }

    /// The last heartbeat failed or was refused: nobody knows what of it was heard.
    pub fn say_everything(&mut self) {
        self.said = None;
    }

    /// What the next heartbeat has to say, and that it is said now; `topics` are subscribed to and `regex`.
    pub fn say(&mut self, topics: &[Topic], regex: Option<&Rc<str>>) -> Contents {
        let joins = self.phase == Phase::Joining;
        let topics: BTreeSet<Topic> = topics.iter().cloned().collect();
        let said_regex = self.said.as_ref().and_then(|said| said.regex.as_ref());
        let said = self.said.as_ref().filter(|_| !joins);
        let contents = Contents {
            settings: said.is_none(),
            topics: said.is_none_or(|said| said.topics != topics),
            regex: said_regex != regex || joins && regex.is_some(),
            owned: said.is_none_or(|said| said.current != self.current),
            rack: joins,
        };
        self.said = Some(Said { current: self.current.clone(), topics, regex: regex.cloned() });
        if self.phase == Phase::Acknowledging {
            self.phase = if self.is_reconciled() { Phase::Stable } else { Phase::Reconciling };
        }
        contents
    }

    /// A heartbeat was answered without error.
    pub fn hear(&mut self, epoch: GroupEpoch, assignment: Option<Assigned>) {
        // Else the answer is to an earlier heartbeat, and the member has left.
        if !self.sends_heartbeats() || epoch < GroupEpoch::JOINING {
            return;
        }
        self.epoch = epoch;
        let Some(partitions) = assignment else { return };
        if self.target.as_ref().is_none_or(|target| target.partitions != partitions) {
            let number = self.target.as_ref().map_or(0, |target| target.number + 1);
            self.target = Some(LocalAssignment { number, partitions });
        }
        if !self.is_reconciled() {
            self.phase = Phase::Reconciling;
        } else if matches!(self.phase, Phase::Joining | Phase::Reconciling) {
            self.phase = Phase::Stable;
        }
    }

    /// It owns `taken` from now on.
    pub fn take(&mut self, taken: LocalAssignment) {
        self.names.retain(|id, _| taken.partitions.contains_key(id));
        self.current = Some(taken);
        self.under_way = None;
        self.phase = Phase::Acknowledging;
    }

    /// The target, without topics whose names are not known yet; metadata are asked for those.
    pub fn resolve_target(&mut self, metadata: &mut Metadata) -> Option<LocalAssignment> {
        let mut resolved = self.target.clone()?;
        for id in resolved.partitions.keys() {
            if let Some(name) = metadata.topic_name(*id) {
                self.names.insert(*id, name.clone());
            }
        }
        let all = resolved.partitions.len();
        resolved.partitions.retain(|id, _| self.names.contains_key(id));
        if resolved.partitions.len() < all {
            metadata.request_update();
        }
        Some(resolved)
    }

    /// With the names of their topics, as far as these are known.
    pub fn named(&self, partitions: &Assigned) -> BTreeSet<TopicPartition> {
        let topics = partitions.iter().filter_map(|(id, numbers)| Some((self.names.get(id)?, numbers)));
        topics
            .flat_map(|(topic, numbers)| numbers.iter().map(|number| TopicPartition::new(topic, *number)))
            .collect()
    }

    fn is_reconciled(&self) -> bool {
        self.current == self.target
    }
}

/// What an error of a heartbeat is to a member (R-CG8-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    CoordinatorMoved,
    TriedAgain,
    /// It is no member any more, loses all that it has and joins again.
    Fenced,
    /// It cannot be a member; the next poll() throws.
    Fatal,
}

impl Refusal {
    pub fn of(error: ErrorCode) -> Refusal {
        match error {
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => Refusal::CoordinatorMoved,
            ErrorCode::CoordinatorLoadInProgress => Refusal::TriedAgain,
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => Refusal::Fenced,
            _ => Refusal::Fatal,
        }
    }
}

/// `Uuid.randomUuid`: the id that a member gives itself.
pub fn new_member_id(random: &mut Random) -> MemberId {
    loop {
        let text = uuid_text(random.uuid());
        if !text.starts_with('-') {
            return MemberId::new(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(7));

    fn of(partitions: &[i32]) -> BTreeMap<TopicId, BTreeSet<i32>> {
        BTreeMap::from([(TOPIC, partitions.iter().copied().collect())])
    }

    fn joining() -> Member {
        let mut member = Member::new(MemberId::new("m"));
        member.join();
        member
    }

    /// In epoch 2, owns what it was given and has said so.
    fn stable(partitions: &[i32]) -> Member {
        let mut member = joining();
        say(&mut member);
        member.hear(GroupEpoch(2), Some(of(partitions)));
        let target = member.target.clone().unwrap();
        member.take(target);
        say(&mut member);
        member
    }

    const NOTHING: Contents =
        Contents { settings: false, topics: false, regex: false, owned: false, rack: false };

    fn say(member: &mut Member) -> Contents {
        member.say(&[Topic::new("t")], None)
    }

    #[test]
    fn everything_is_said_on_joining_and_then_what_is_owned_after_each_change_r_cg8_4() {
        let mut member = joining();
        assert_eq!(
            say(&mut member),
            Contents { settings: true, topics: true, regex: false, owned: true, rack: true }
        );
        member.hear(GroupEpoch(2), Some(of(&[0, 1])));
        assert_eq!((member.phase, member.epoch), (Phase::Reconciling, GroupEpoch(2)));
        assert_eq!(say(&mut member), NOTHING);
        let target = member.target.clone().unwrap();
        member.take(target);
        assert!(member.phase == Phase::Acknowledging && member.is_pressed());
        assert_eq!(say(&mut member), Contents { owned: true, ..NOTHING });
        assert_eq!(member.phase, Phase::Stable);
        assert_eq!(say(&mut member), NOTHING);
    }

    #[test]
    fn another_subscription_is_said_alone_r_cg8_4() {
        let mut member = stable(&[0]);
        let topics = ["t", "u"].map(Topic::new);
        assert_eq!(member.say(&topics, None), Contents { topics: true, ..NOTHING });
        assert_eq!(member.say(&[topics[1].clone(), topics[0].clone()], None), NOTHING);
    }

    #[test]
    fn a_pattern_is_said_when_it_is_new_and_when_there_is_none_any_more_r_cg8_4() {
        let mut member = stable(&[0]);
        let topics = [Topic::new("t")];
        let regex: Rc<str> = "a.*".into();
        assert_eq!(member.say(&topics, Some(&regex)), Contents { regex: true, ..NOTHING });
        assert_eq!(member.say(&topics, Some(&regex)), NOTHING);
        member.join();
        assert!(member.say(&topics, Some(&regex)).regex);
        member.hear(GroupEpoch(4), Some(of(&[0])));
        assert_eq!(member.say(&topics, None), Contents { regex: true, ..NOTHING });
        member.join();
        assert!(!member.say(&topics, None).regex);
    }

    #[test]
    fn the_same_partitions_after_others_are_said_again_r_cg8_4() {
        let mut member = stable(&[0]);
        member.hear(GroupEpoch(3), Some(of(&[0, 1])));
        member.hear(GroupEpoch(4), Some(of(&[0])));
        assert_eq!(member.phase, Phase::Reconciling);
        let target = member.target.clone().unwrap();
        assert_eq!(target, LocalAssignment { number: 2, partitions: of(&[0]) });
        member.take(target);
        assert!(say(&mut member).owned);
    }

    #[test]
    fn after_a_failure_everything_but_the_rack_is_said_again_r_cg8_4() {
        let mut member = stable(&[0]);
        member.say_everything();
        assert_eq!(
            say(&mut member),
            Contents { settings: true, topics: true, regex: false, owned: true, rack: false }
        );
        assert_eq!(say(&mut member), NOTHING);
    }

    #[test]
    fn a_newer_target_waits_for_the_end_of_a_reconciliation_r_cg8_18() {
        let mut member = stable(&[0, 1]);
        member.hear(GroupEpoch(2), Some(of(&[0])));
        let first = member.target.clone().unwrap();
        member.hear(GroupEpoch(2), Some(of(&[])));
        member.take(first);
        say(&mut member);
        assert_eq!(member.phase, Phase::Reconciling);
    }

    #[test]
    fn an_answer_without_assignment_changes_the_epoch_alone_r_cg8_5() {
        let mut member = stable(&[0]);
        member.hear(GroupEpoch(3), None);
        assert_eq!((member.phase, member.epoch), (Phase::Stable, GroupEpoch(3)));
        member.hear(GroupEpoch(4), Some(of(&[0])));
        assert_eq!((member.phase, member.epoch), (Phase::Stable, GroupEpoch(4)));
    }

    #[test]
    fn who_joins_anew_owns_nothing_and_is_in_no_epoch_r_cg8_17() {
        let mut member = stable(&[0]);
        member.join();
        assert_eq!((member.phase, member.epoch), (Phase::Joining, GroupEpoch::JOINING));
        assert!(member.current.is_none() && member.target.is_none() && member.is_pressed());
    }

    #[test]
    fn an_answer_that_comes_after_the_goodbye_changes_nothing() {
        for phase in [Phase::Unsubscribed, Phase::Stale, Phase::Fatal] {
            let mut member = stable(&[0]);
            member.end(phase);
            member.hear(GroupEpoch(3), Some(of(&[0])));
            assert_eq!((member.phase, member.epoch, member.target), (phase, GroupEpoch::JOINING, None));
            assert!(!member.clock.in_flight);
        }
    }

    #[test]
    fn the_interval_is_the_coordinators() {
        let mut clock = HeartbeatClock::NEW;
        clock.sent(Time::from_ms(10));
        clock.answered(Time::from_ms(14), 5_000);
        assert_eq!(clock.due_at, Time::from_ms(5_014));
        clock.sent(Time::from_ms(5_014));
        clock.answered(Time::from_ms(5_018), 5_000);
        assert_eq!(clock.due_at, Time::from_ms(10_014));
        clock.failed(Time::from_ms(6_000), 100);
        assert_eq!((clock.due_at, clock.failures), (Time::from_ms(6_100), 1));
        clock.restart();
        assert_eq!(clock, HeartbeatClock { interval_ms: 5_000, ..HeartbeatClock::NEW });
    }
}
