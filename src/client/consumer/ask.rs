//! What an application does with its consumer beside its program, because a person asks for it (Kafka's `Consumer`).
//!
//! **Invariant:** the consumer is not thread-safe: what is asked for is done by the application's thread, between two
//! lines of its program. A poll() that waits is ended for it, as by wakeup(), and called again.

use std::collections::BTreeSet;

use super::choice::Choice;
use super::closing::GroupMembership;
use super::config::OffsetReset;
use super::listener::Then;
use super::looking::{Looking, Lookup};
use super::owned::Position;
use super::reason::LeaveReason;
use super::{Activity, Consumer, ConsumerTimer};
use crate::client::metadata::Also;
use crate::client::program::RunsProgram;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, PositionSource, RevokeReason};
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, LeaderEpoch, Offset, Topic, TopicPartition};

/// A call of the consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// subscribe() or assign().
    Choose(Choice),
    Unsubscribe,
    Pause(Vec<TopicPartition>),
    Resume(Vec<TopicPartition>),
    Seek {
        partition: TopicPartition,
        to: SeekTo,
    },
    /// beginningOffsets() and the like.
    Look {
        what: Lookup,
        partitions: Vec<TopicPartition>,
    },
    Commit {
        /// `None`: of all positions.
        offsets: Option<Vec<(TopicPartition, i64)>>,
        /// commitSync(), else commitAsync().
        waits: bool,
    },
}

/// Where seek(), seekToBeginning() or seekToEnd() goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    Offset(i64),
    /// Looked up by the next poll().
    Beginning,
    /// Looked up by the next poll().
    End,
}

/// Why the consumer would throw at a call, in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    #[error("Subscription to topics, partitions and pattern are mutually exclusive")]
    OtherKind,
    #[error(
        "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer configuration."
    )]
    NoGroup,
    #[error("No current assignment for partition {0}")]
    NotAssigned(TopicPartition),
    #[error("Invalid offset: {0}")]
    NegativeCommit(i64),
    #[error("seek offset must not be a negative number")]
    NegativeOffset,
    #[error(
        "Subscribe to RE2/J pattern is not supported when using the CLASSIC protocol defined in config group.protocol"
    )]
    ClassicRe2j,
    #[error("Topic pattern to subscribe to cannot be empty")]
    EmptyPattern,
    #[error("{0} is named twice")]
    Twice(String),
    #[error("it is closing")]
    Closing,
}

impl Consumer {
    /// Whether the consumer will do what is asked for, after all that was asked for before.
    ///
    /// Errors: what it would throw.
    pub fn check_ask(&self, ask: &Ask) -> Result<(), AskError> {
        let is_closing = matches!(self.program.activity, Activity::Closing { .. } | Activity::Stopped);
        if is_closing || self.close_requested.is_some() {
            return Err(AskError::Closing);
        }
        let chosen = self.asks.iter().rev().find_map(|ask| match ask {
            Ask::Choose(choice) => Some(Some(choice)),
            Ask::Unsubscribe => Some(None),
            _ => None,
        });
        match ask {
            Ask::Choose(choice) if choice.is_in_group() && !self.spec.has_group() => Err(AskError::NoGroup),
            Ask::Choose(Choice::Re2j(_)) if !self.config.is_modern => Err(AskError::ClassicRe2j),
            Ask::Choose(Choice::Re2j(pattern)) if pattern.is_empty() => Err(AskError::EmptyPattern),
            Ask::Choose(choice) => {
                let now = chosen.unwrap_or_else(|| self.subscription.choice());
                match now {
                    Some(now) if !now.is_of_one_kind_with(choice) => Err(AskError::OtherKind),
                    _ => check_names(choice),
                }
            }
            Ask::Seek { to: SeekTo::Offset(..0), .. } => Err(AskError::NegativeOffset),
            // Who owns what after a change of the choice, only the next polls will tell.
            Ask::Pause(_) | Ask::Resume(_) | Ask::Seek { .. } if chosen.is_some() => Ok(()),
            Ask::Pause(partitions) | Ask::Resume(partitions) => {
                partitions.iter().try_for_each(|tp| self.check_assigned(tp))
            }
            Ask::Look { what: Lookup::Position | Lookup::Lag, partitions } if chosen.is_none() => {
                partitions.iter().try_for_each(|tp| self.check_assigned(tp))
            }
            Ask::Look { partitions, .. } => check_twice(partitions.iter().map(TopicPartition::to_string)),
            Ask::Seek { partition, .. } => self.check_assigned(partition),
            Ask::Commit { .. } if !self.spec.has_group() => Err(AskError::NoGroup),
            Ask::Commit { offsets, .. } => {
                let negative = offsets.iter().flatten().find(|(_, offset)| *offset < 0);
                negative.map_or(Ok(()), |(_, offset)| Err(AskError::NegativeCommit(*offset)))
            }
            Ask::Unsubscribe => Ok(()),
        }
    }

    fn check_assigned(&self, tp: &TopicPartition) -> Result<(), AskError> {
        match self.subscription.owned().contains_key(tp) {
            true => Ok(()),
            false => Err(AskError::NotAssigned(tp.clone())),
        }
    }

    /// Has it done, as soon as the application's thread comes to it.
    pub fn ask(&mut self, now: Time, ask: Ask, fx: &mut Effects<ConsumerTimer>) {
        self.asks.push_back(ask);
        if matches!(self.program.activity, Activity::Polling { .. } | Activity::Idle) {
            self.start_line(now, fx);
        }
        self.run(now, fx);
    }

    /// Does what was asked for up to the first that does not return at once.
    pub(super) fn do_what_is_asked(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        self.program.activity = Activity::Idle;
        while self.program.activity == Activity::Idle
            && let Some(ask) = self.asks.pop_front()
        {
            if let Err(error) = self.do_ask(now, ask, fx) {
                // Of partitions that were lost meanwhile.
                let (client, reason) = (self.spec.name.clone(), error.to_string());
                fx.event(Event::CallRefused { client, reason });
            }
        }
    }

    fn do_ask(&mut self, now: Time, ask: Ask, fx: &mut Effects<ConsumerTimer>) -> Result<(), AskError> {
        match ask {
            Ask::Choose(choice) => self.choose(now, choice, fx),
            Ask::Unsubscribe => self.unsubscribe(now, fx),
            Ask::Pause(partitions) => return self.set_paused(partitions, true, fx),
            Ask::Resume(partitions) => return self.set_paused(partitions, false, fx),
            Ask::Commit { offsets, waits } => self.commit(now, offsets, waits, fx),
            Ask::Look { what, partitions } => self.look_up(now, what, partitions, fx),
            Ask::Seek { partition, to } => return self.seek(&partition, to, fx),
        }
        Ok(())
    }

    /// subscribe() or assign(). Records that were fetched from what is not wanted any more are dropped.
    fn choose(&mut self, now: Time, choice: Choice, fx: &mut Effects<ConsumerTimer>) {
        fx.event(Event::SubscriptionChanged {
            client: self.spec.name.clone(),
            to: Some(choice.to_string().into()),
        });
        match &choice {
            Choice::Topics(topics) => self.fetcher.retain(|tp| topics.contains(&tp.topic)),
            Choice::Partitions(partitions) => {
                self.fetcher.retain(|tp| partitions.contains(tp));
                // No rebalance will commit what is given up.
                self.commit_if_interval_is_over(now, fx);
            }
            Choice::Pattern(_) | Choice::Re2j(_) => {}
        }
        if self.subscription.choose(choice) {
            self.committed_lookup.restart();
        }
        self.begin_choice();
    }

    /// A new choice: its metadata is asked for, and what matches is looked for in what is known.
    pub(super) fn begin_choice(&mut self) {
        self.subscription.set_matched(Vec::new());
        self.want_metadata();
        if matches!(self.subscription.choice(), Some(Choice::Pattern(_))) {
            self.matched_version = None;
            self.match_topics();
            self.metadata.request_update();
        }
    }

    fn unsubscribe(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        fx.event(Event::SubscriptionChanged { client: self.spec.name.clone(), to: None });
        self.fetcher.retain(|_| false);
        match self.subscription.is_in_group() {
            true => self.drop_all(now, RevokeReason::Unsubscribed, Then::Unsubscribe, fx),
            false => self.leave_after_unsubscribe(now, fx),
        }
    }

    /// It has given up its partitions.
    pub(super) fn leave_after_unsubscribe(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.spec.has_group() {
            self.leave(now, LeaveReason::Unsubscribed, GroupMembership::Default, fx);
        }
        self.subscription.unsubscribe();
        self.committed_lookup.restart();
        self.want_metadata();
    }

    /// Gives up all partitions on the way out of the group (`onLeavePrepare`).
    pub(super) fn drop_all(
        &mut self,
        now: Time,
        reason: RevokeReason,
        then: Then,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let membership = &self.membership;
        let lost = membership.identity.generation == Generation::NONE || membership.is_rebalancing();
        self.give_up_all(now, if lost { RevokeReason::Lost } else { reason }, then, fx);
    }

    /// R-CONS-8
    fn set_paused(
        &mut self,
        partitions: Vec<TopicPartition>,
        paused: bool,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Result<(), AskError> {
        for tp in &partitions {
            self.check_assigned(tp)?;
            self.subscription.edit(tp, |owned| owned.paused = paused);
        }
        let client = self.spec.name.clone();
        fx.event(match paused {
            true => Event::PartitionsPaused { client, partitions },
            false => Event::PartitionsResumed { client, partitions },
        });
        Ok(())
    }

    /// R-CONS-9
    fn seek(
        &mut self,
        tp: &TopicPartition,
        to: SeekTo,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Result<(), AskError> {
        self.check_assigned(tp)?;
        match to {
            SeekTo::Offset(offset) => {
                let position = Position { offset: Offset(offset), epoch: LeaderEpoch::NONE };
                self.set_position(tp, position, PositionSource::Seek, fx);
            }
            SeekTo::Beginning => self.subscription.reset(tp, OffsetReset::Earliest),
            SeekTo::End => self.subscription.reset(tp, OffsetReset::Latest),
        }
        Ok(())
    }

    fn commit(
        &mut self,
        now: Time,
        offsets: Option<Vec<(TopicPartition, i64)>>,
        waits: bool,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let at = |offset| Position { offset: Offset(offset), epoch: LeaderEpoch::NONE };
        let offsets =
            offsets.map(|offsets| offsets.into_iter().map(|(tp, offset)| (tp, at(offset))).collect());
        if waits {
            self.begin_sync_commit(now, self.config.default_api_timeout_ms, false, offsets);
            self.program.activity = Activity::Committing { since: now };
        } else {
            self.commit_async(now, offsets, fx);
        }
    }

    /// Looks for the topics that match in new metadata (`maybeUpdateSubscriptionMetadata`).
    pub(super) fn match_topics(&mut self) {
        let version = Some(self.metadata.update_version());
        let Some(Choice::Pattern(pattern)) = self.subscription.choice() else { return };
        if self.matched_version == version {
            return;
        }
        let known = self.metadata.topics().iter();
        let matching = known.filter(|(name, topic)| topic.error.is_ok() && pattern.matches(name));
        let matching = matching.map(|(name, _)| name.clone()).collect();
        self.matched_version = version;
        if self.subscription.set_matched(matching) {
            self.want_metadata();
        }
    }

    /// Metadata is asked for of what is chosen, and by a leader of what its group has chosen.
    pub(super) fn want_metadata(&mut self) {
        let choice = self.subscription.choice();
        let also = match choice {
            Some(Choice::Pattern(pattern)) => Also::Matching {
                pattern: pattern.clone(),
                with_internal: !self.config.exclude_internal_topics,
            },
            Some(Choice::Re2j(_)) => {
                let target = self.membership.modern.as_ref().and_then(|member| member.target.as_ref());
                Also::Ids(
                    target.map(|target| target.partitions.keys().copied().collect()).unwrap_or_default(),
                )
            }
            Some(Choice::Topics(_) | Choice::Partitions(_)) | None => Also::Nothing,
        };
        let own = match choice {
            Some(Choice::Pattern(_)) => self.subscription.topics(),
            choice => choice.map(Choice::topics).unwrap_or_default(),
        };
        self.metadata.want_also(also);
        let looked_up = self.looking.iter().flat_map(Looking::topics);
        let group_topics = self.membership.group_topics.iter().cloned();
        self.metadata.want(group_topics.chain(own).chain(looked_up).collect());
    }
}

/// Java's sets cannot hold anything twice; a person who writes it twice has meant something else.
fn check_names(choice: &Choice) -> Result<(), AskError> {
    let names: Vec<String> = match choice {
        Choice::Topics(topics) => topics.iter().map(Topic::to_string).collect(),
        Choice::Partitions(partitions) => partitions.iter().map(TopicPartition::to_string).collect(),
        Choice::Pattern(_) | Choice::Re2j(_) => Vec::new(),
    };
    check_twice(names.into_iter())
}

fn check_twice(mut names: impl Iterator<Item = String>) -> Result<(), AskError> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    match names.find(|name| !seen.insert(name.clone())) {
        Some(name) => Err(AskError::Twice(name)),
        None => Ok(()),
    }
}
