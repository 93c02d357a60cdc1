//! The partitions a consumer owns, and its position in each (Kafka's `SubscriptionState`).
//!
//! **Invariant:** a position is the offset of the next record that poll() will return (R-CONS-5); only what has a
//! position is fetched or committed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::choice::Choice;
use super::config::OffsetReset;
use super::owned::{FetchState, Listing, Owned, Position};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Topic, TopicPartition};

/// A position of which a leader is asked whether its log holds what is before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validation {
    pub tp: TopicPartition,
    pub position: Position,
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
}

/// Finds the partitions that a poll() has to look at, however many there are.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Those without a valid position.
    unsettled: BTreeSet<TopicPartition>,
    /// Those with a preferred replica, by the time until which it is.
    preferring: BTreeSet<(Time, TopicPartition)>,
    /// Those among them whose replica has not been looked for in the newest metadata.
    unchecked: BTreeSet<TopicPartition>,
    /// The version of the metadata that `unchecked` refers to.
    checked_version: Option<u32>,
    /// Those that may be fetched, by the broker that has them, in the order in which fetches list them; who returned data
    /// goes to the end (R-CONS-3).
    fetchable: BTreeMap<Option<BrokerId>, BTreeMap<u64, TopicPartition>>,
    /// What the next request to a broker has to say anew: what came, went or moved since the last one.
    changed: BTreeMap<BrokerId, BTreeSet<TopicPartition>>,
}

impl Index {
    fn list(&mut self, tp: &TopicPartition, listing: Listing) {
        if listing.unsettled {
            self.unsettled.insert(tp.clone());
        }
        if let Some((_, until)) = listing.preferred {
            self.preferring.insert((until, tp.clone()));
        }
        if let Some((source, place)) = listing.fetchable {
            self.fetchable.entry(source).or_default().insert(place, tp.clone());
        }
    }

    fn note_change(&mut self, source: BrokerId, tp: &TopicPartition) {
        self.changed.entry(source).or_default().insert(tp.clone());
    }

    fn unlist(&mut self, tp: &TopicPartition, listing: Listing) {
        if listing.unsettled {
            self.unsettled.remove(tp);
        }
        if let Some((_, until)) = listing.preferred {
            self.preferring.remove(&(until, tp.clone()));
        }
        if let Some((source, place)) = listing.fetchable
            && let Some(listed) = self.fetchable.get_mut(&source)
        {
            listed.remove(&place);
            if listed.is_empty() {
                self.fetchable.remove(&source);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct SubscriptionState {
    choice: Option<Choice>,
    /// The topics that match, with [`Choice::Pattern`].
    matched: Vec<Topic>,
    owned: PartitionMap<TopicPartition, Owned>,
    index: Index,
    next_place: u64,
    /// Counts the assignments.
    generation: u32,
}

impl SubscriptionState {
    /// Owns exactly these from now on; what was known of partitions that stay is kept.
    pub(super) fn assign(&mut self, partitions: &[TopicPartition]) {
        let before = std::mem::take(self);
        let kept = |tp: &TopicPartition| before.owned.get(tp).copied().unwrap_or(Owned::NEW);
        self.owned = partitions.iter().map(|tp| (tp.clone(), kept(tp))).collect();
        (self.choice, self.matched) = (before.choice, before.matched);
        for (place, (tp, owned)) in (0..).zip(self.owned.iter_mut()) {
            owned.place = place;
            owned.unsubscribed = !is_read(self.choice.as_ref(), &tp.topic);
            self.index.list(tp, owned.listing());
        }
        self.next_place = self.owned.len() as u64;
        self.generation = before.generation + 1;
    }

    /// subscribe() or assign(). Says whether other partitions are owned than before.
    pub(super) fn choose(&mut self, choice: Choice) -> bool {
        let chosen = match &choice {
            Choice::Partitions(partitions) => Some(partitions.iter().cloned().collect::<BTreeSet<_>>()),
            Choice::Topics(_) | Choice::Pattern(_) | Choice::Re2j(_) => None,
        };
        self.choice = Some(choice);
        match chosen {
            Some(chosen) if !self.owned.keys().eq(&chosen) => {
                self.assign(&chosen.into_iter().collect::<Vec<_>>());
                true
            }
            Some(_) => false,
            None => {
                for tp in self.partitions() {
                    let unsubscribed = !is_read(self.choice.as_ref(), &tp.topic);
                    self.edit(&tp, |owned| owned.unsubscribed = unsubscribed);
                }
                false
            }
        }
    }

    pub(super) fn unsubscribe(&mut self) {
        self.choice = None;
        self.matched.clear();
        self.assign(&[]);
    }

    /// What the application wants to read; `None` after unsubscribe().
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// Whether the group gives it its partitions (`hasAutoAssignedPartitions`).
    pub fn is_in_group(&self) -> bool {
        self.choice.as_ref().is_some_and(Choice::is_in_group)
    }

    /// The topics that it tells its group; none if it is in no group.
    pub fn topics(&self) -> Vec<Topic> {
        match &self.choice {
            Some(Choice::Pattern(_)) => self.matched.clone(),
            Some(choice) if choice.is_in_group() => choice.topics(),
            _ => Vec::new(),
        }
    }

    /// The pattern that the coordinator is told.
    pub fn regex(&self) -> Option<&Rc<str>> {
        match &self.choice {
            Some(Choice::Re2j(regex)) => Some(regex),
            _ => None,
        }
    }

    /// The topics that match now, with [`Choice::Pattern`]. Says whether they are others than before.
    pub(super) fn set_matched(&mut self, matched: Vec<Topic>) -> bool {
        let is_new = self.matched != matched;
        self.matched = matched;
        is_new
    }

    /// Whether the group may give it partitions of this topic (`checkAssignmentMatchedSubscription`).
    pub(super) fn is_subscribed(&self, topic: &Topic) -> bool {
        is_read(self.choice.as_ref(), topic)
    }

    pub fn owned(&self) -> &PartitionMap<TopicPartition, Owned> {
        &self.owned
    }

    pub fn partitions(&self) -> Vec<TopicPartition> {
        self.owned.keys().cloned().collect()
    }

    /// Changes one partition, if it is owned, and its places in the indexes.
    /// Positions are those that are committed again, as soon as they are looked up.
    pub(super) fn forget_positions(&mut self) {
        for tp in self.partitions() {
            self.edit(&tp, |owned| owned.state = FetchState::Initializing);
        }
    }

    pub(super) fn edit<R>(&mut self, tp: &TopicPartition, change: impl FnOnce(&mut Owned) -> R) -> Option<R> {
        let owned = self.owned.get_mut(tp)?;
        let (before, asked_before) = (owned.listing(), owned.asked());
        let result = change(owned);
        let (after, asked) = (owned.listing(), owned.asked());
        if asked != asked_before {
            let sources = [asked_before, asked].into_iter().filter_map(|(source, ..)| source);
            sources.for_each(|source| self.index.note_change(source, tp));
        }
        if before != after {
            self.index.unlist(tp, before);
            self.index.list(tp, after);
            if after.preferred.is_none() {
                self.index.unchecked.remove(tp);
            } else if after.preferred != before.preferred {
                self.index.unchecked.insert(tp.clone());
            }
        }
        Some(result)
    }

    pub fn position(&self, tp: &TopicPartition) -> Option<Position> {
        self.owned.get(tp)?.position()
    }

    /// The position, unless it waits for its validation (`hasValidPosition`).
    pub(super) fn valid_position(&self, tp: &TopicPartition) -> Option<Position> {
        self.owned.get(tp)?.valid_position()
    }

    pub(super) fn set_position(&mut self, tp: &TopicPartition, position: Position) {
        self.edit(tp, |owned| owned.state = FetchState::Fetching(position));
    }

    /// A position that is not from a leader's answer (`seekUnvalidated`), and who leads now, if that is known.
    pub(super) fn seek_unvalidated(
        &mut self,
        tp: &TopicPartition,
        position: Position,
        leader: Option<(BrokerId, LeaderEpoch)>,
        leader_epoch_known: bool,
    ) {
        self.edit(tp, |owned| {
            owned.leader = leader;
            owned.validate(position, leader_epoch_known);
        });
    }

    /// Another leader, or the same in another epoch, has to confirm the position (`maybeValidatePosition`).
    pub(super) fn maybe_validate(&mut self, tp: &TopicPartition, leader: Option<(BrokerId, LeaderEpoch)>) {
        self.edit(tp, |owned| {
            if let Some(position) = owned.position()
                && leader.is_some()
                && owned.leader != leader
            {
                owned.leader = leader;
                (owned.preferred, owned.known_replica) = (None, None);
                owned.validate(position, true);
            }
        });
    }

    /// Partitions without a valid position.
    fn unsettled(&self) -> impl Iterator<Item = (&TopicPartition, &Owned)> {
        self.index.unsettled.iter().map(|tp| (tp, &self.owned[tp]))
    }

    /// Metadata of this version may show preferred replicas to be out of reach.
    pub(super) fn note_metadata(&mut self, version: u32) {
        if self.index.checked_version.replace(version) != Some(version) {
            self.index.unchecked = self.index.preferring.iter().map(|(_, tp)| tp.clone()).collect();
        }
    }

    /// Partitions that may be fetched and whose preferred replica's time is over, or was not looked for in the metadata.
    pub(super) fn doubtful(&self, now: Time) -> impl Iterator<Item = &TopicPartition> {
        let over = self.index.preferring.iter().take_while(move |(until, _)| *until < now).map(|(_, tp)| tp);
        over.chain(&self.index.unchecked).filter(|tp| self.is_fetchable(tp))
    }

    /// The preferred replica is within reach.
    pub(super) fn note_reachable(&mut self, tp: &TopicPartition) {
        self.index.unchecked.remove(tp);
    }

    /// Positions that wait for their validation and may be asked about now, with the leader to be asked.
    pub(super) fn to_validate(&self, now: Time) -> Vec<Validation> {
        let due = |(tp, owned): (&TopicPartition, &Owned)| match (owned.state, owned.leader) {
            (FetchState::AwaitValidation { position, retry_at }, Some((leader, leader_epoch)))
                if retry_at <= now =>
            {
                Some(Validation { tp: tp.clone(), position, leader, leader_epoch })
            }
            _ => None,
        };
        self.unsettled().filter_map(due).collect()
    }

    /// Asks for a new position by `strategy` (R-CONS-13).
    pub(super) fn reset(&mut self, tp: &TopicPartition, strategy: OffsetReset) {
        self.edit(tp, |owned| owned.state = FetchState::AwaitReset { strategy, retry_at: Time::ZERO });
    }

    pub(super) fn mark_pending_revocation(&mut self) {
        for tp in self.partitions() {
            self.edit(&tp, |owned| owned.pending_revocation = true);
        }
    }

    /// Partitions whose committed offset is not known yet, but for those that are about to be given up.
    pub(super) fn initializing(&self) -> Vec<TopicPartition> {
        let initializing = self
            .unsettled()
            .filter(|(_, owned)| owned.state == FetchState::Initializing && !owned.pending_revocation);
        initializing.map(|(tp, _)| tp.clone()).collect()
    }

    /// Partitions that wait for the log's start or end and may ask for it now.
    pub(super) fn to_reset(&self, now: Time) -> Vec<(TopicPartition, OffsetReset)> {
        let due = |(tp, owned): (&TopicPartition, &Owned)| match owned.state {
            FetchState::AwaitReset { strategy, retry_at } if retry_at <= now => Some((tp.clone(), strategy)),
            _ => None,
        };
        self.unsettled().filter_map(due).collect()
    }

    pub(super) fn set_reset_retry(&mut self, tp: &TopicPartition, at: Time) {
        if let Some(Owned { state: FetchState::AwaitReset { retry_at, .. }, .. }) = self.owned.get_mut(tp) {
            *retry_at = at;
        }
    }

    pub(super) fn set_validation_retry(&mut self, tp: &TopicPartition, at: Time) {
        if let Some(Owned { state: FetchState::AwaitValidation { retry_at, .. }, .. }) =
            self.owned.get_mut(tp)
        {
            *retry_at = at;
        }
    }

    /// When the next reset or validation may be tried again.
    pub(super) fn next_retry(&self, now: Time) -> Option<Time> {
        let retry_at = |owned: &Owned| match owned.state {
            FetchState::AwaitReset { retry_at, .. } | FetchState::AwaitValidation { retry_at, .. }
                if retry_at > now =>
            {
                Some(retry_at)
            }
            _ => None,
        };
        self.unsettled().filter_map(|(_, owned)| retry_at(owned)).min()
    }

    /// Whether records of the partition may be returned and fetched.
    pub(super) fn is_fetchable(&self, tp: &TopicPartition) -> bool {
        self.owned.get(tp).is_some_and(|owned| owned.listing().fetchable.is_some())
    }

    pub(super) fn is_paused(&self, tp: &TopicPartition) -> bool {
        self.owned.get(tp).is_some_and(|owned| owned.paused)
    }

    /// Brokers from which something may be fetched.
    pub(super) fn sources(&self) -> impl Iterator<Item = BrokerId> {
        self.index.fetchable.keys().flatten().copied()
    }

    /// What may be fetched from a broker, or from nobody knows whom, with positions, in the order of fairness (R-CONS-3).
    pub(super) fn fetchable_from(
        &self,
        source: Option<BrokerId>,
    ) -> impl Iterator<Item = (&TopicPartition, &Owned, Position)> {
        let listed = self.index.fetchable.get(&source).into_iter().flat_map(BTreeMap::values);
        let owned = listed.map(|tp| (tp, &self.owned[tp]));
        owned.filter_map(|(tp, owned)| Some((tp, owned, owned.valid_position()?)))
    }

    /// How many assignments there have been.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// The partitions of which the next request to a broker has something new to say; by then it is told.
    pub(super) fn take_changed(&mut self, broker: BrokerId) -> BTreeSet<TopicPartition> {
        self.index.changed.remove(&broker).unwrap_or_default()
    }

    /// What is to be fetched of one partition, if that is from `broker`.
    pub(super) fn fetchable_at(&self, tp: &TopicPartition, broker: BrokerId) -> Option<(&Owned, Position)> {
        let owned = self.owned.get(tp)?;
        let (source, _) = owned.listing().fetchable?;
        (source == Some(broker)).then_some((owned, owned.valid_position()?))
    }

    /// Its place in the order of fairness.
    pub(super) fn place(&self, tp: &TopicPartition) -> Option<u64> {
        Some(self.owned.get(tp)?.place)
    }

    pub(super) fn move_to_end(&mut self, tp: &TopicPartition) {
        let place = self.next_place;
        self.next_place += 1;
        self.edit(tp, |owned| owned.place = place);
    }

    /// What a commit without arguments commits: valid positions (R-CONS-15).
    pub(super) fn all_consumed(&self) -> Vec<(TopicPartition, Position)> {
        let positions = self.owned.iter();
        positions.filter_map(|(tp, owned)| Some((tp.clone(), owned.valid_position()?))).collect()
    }
}

fn is_read(choice: Option<&Choice>, topic: &Topic) -> bool {
    match choice {
        Some(Choice::Topics(topics)) => topics.contains(topic),
        Some(Choice::Pattern(pattern)) => pattern.matches(topic),
        Some(Choice::Re2j(_)) => true,
        Some(Choice::Partitions(partitions)) => partitions.iter().any(|tp| tp.topic == *topic),
        None => false,
    }
}
