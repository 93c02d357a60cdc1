//! What an administrator asks of groups: `kafka-consumer-groups.sh` and `kafka-share-groups.sh` (`ConsumerGroupCommand`,
//! `ShareGroupCommand`, `OffsetsUtils`). Which of the two it is for, the coordinator tells.
//!
//! Such an errand takes several requests. It keeps what it has learnt; what it does not know yet is what it asks for
//! next, whichever answers were lost meanwhile.
//!
//! **Invariant:** offsets are committed only after the whole plan is made (R-CLI-9).

mod filter;
mod hear;
mod plan;
mod request;
mod share;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use filter::{GROUP_STATES, GROUP_TYPES, ListFilter};

use super::errand::{Heard, Next, To};
use crate::client::metadata::Metadata;
use crate::kafka::event::{
    DescribedGroup, DescribedMember, Event, GroupPosition, GroupsTold, ListedGroup, OffsetReset,
    SharePosition,
};
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, Offset, Topic, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOperation {
    /// Every broker is asked for the groups that it coordinates.
    List(ListFilter),
    Describe(GroupId),
    /// How far the group is in each partition.
    DescribeOffsets(GroupId),
    Delete(GroupId),
    DeleteOffsets {
        group: GroupId,
        scope: Scope,
    },
    Reset(Reset),
    /// The same of every group there is (`--all-groups`), one after the other.
    OfEach(OfEach),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfEach {
    Describe,
    DescribeOffsets,
    Delete,
    Reset { goal: Goal, executes: bool },
}

impl OfEach {
    fn of(&self, group: GroupId) -> GroupOperation {
        match self.clone() {
            OfEach::Describe => GroupOperation::Describe(group),
            OfEach::DescribeOffsets => GroupOperation::DescribeOffsets(group),
            OfEach::Delete => GroupOperation::Delete(group),
            OfEach::Reset { goal, executes } => GroupOperation::Reset(Reset { group, goal, executes }),
        }
    }
}

/// What a group committed offsets for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Topic(Topic),
    Partitions(Topic, BTreeSet<i32>),
    /// Everything that the group has committed.
    AllTopics,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    pub group: GroupId,
    pub goal: Goal,
    /// Otherwise the plan is only told.
    pub executes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    All(Scope, Target),
    /// An offset for each: the tool reads such a plan from a file.
    Each(BTreeMap<TopicPartition, i64>),
}

/// The scenarios of a reset (R-CLI-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Earliest,
    Latest,
    /// What is committed already.
    Current,
    Offset(i64),
    /// Relative to what is committed.
    Shift(i64),
    /// The first record that is no older.
    Ago {
        ms: i64,
    },
    /// The same, by a clock's time in milliseconds since 1970.
    Since {
        wall_ms: i64,
    },
}

/// What ListOffsets can say of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Start,
    End,
    /// The first record that is as new as was asked for; [`Offset::UNKNOWN`] if there is none.
    Since,
}

#[derive(Clone, Debug)]
pub(super) struct Errand {
    operation: GroupOperation,
    /// The metadata that there was at the start: what is newer counts.
    started_at: u32,
    /// Of [`Target::Ago`] and [`Target::Since`], in milliseconds since 1970.
    since_wall_ms: i64,
    asked: Option<Asked>,
    listed: BTreeMap<BrokerId, Vec<ListedGroup>>,
    /// Of which kind the group is, as far as it is known: others have no group of that name.
    kind: Kind,
    described: Option<Described>,
    committed: Option<BTreeMap<TopicPartition, Offset>>,
    /// How far a share group is.
    shared: Option<Vec<SharePosition>>,
    marks: BTreeMap<(Mark, TopicPartition), Offset>,
    done: bool,
}

/// The kinds of groups, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Consumer,
    Classic,
    Share,
}

/// What the answer on its way is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    List(BrokerId),
    Mark(Mark),
    Other,
}

#[derive(Clone, Debug)]
enum Described {
    Unknown,
    Known(DescribedGroup),
}

impl Errand {
    pub(super) fn new(operation: GroupOperation, now: Time, metadata: &Metadata) -> Errand {
        let since_wall_ms = match &operation {
            GroupOperation::Reset(Reset { goal: Goal::All(_, Target::Ago { ms }), .. }) => now.wall_ms() - ms,
            GroupOperation::Reset(Reset { goal: Goal::All(_, Target::Since { wall_ms }), .. }) => *wall_ms,
            _ => 0,
        };
        Errand {
            operation,
            started_at: metadata.update_version(),
            since_wall_ms,
            asked: None,
            listed: BTreeMap::new(),
            kind: Kind::Consumer,
            described: None,
            committed: None,
            shared: None,
            marks: BTreeMap::new(),
            done: false,
        }
    }

    /// The topics whose metadata it needs, as far as that is known.
    pub(super) fn topics(&self) -> BTreeSet<Topic> {
        let scope = match &self.operation {
            GroupOperation::List(_)
            | GroupOperation::Describe(_)
            | GroupOperation::Delete(_)
            | GroupOperation::OfEach(_) => {
                return BTreeSet::new();
            }
            GroupOperation::Reset(Reset { goal: Goal::Each(offsets), .. }) => {
                return offsets.keys().map(|tp| tp.topic.clone()).collect();
            }
            GroupOperation::DescribeOffsets(_) => {
                return self.read_or_committed().into_iter().map(|tp| tp.topic).collect();
            }
            GroupOperation::DeleteOffsets { scope, .. } => scope,
            GroupOperation::Reset(Reset { goal: Goal::All(scope, _), .. }) => scope,
        };
        match scope {
            Scope::Topic(topic) | Scope::Partitions(topic, _) => [topic.clone()].into(),
            Scope::AllTopics => {
                let shared = self.shared.iter().flatten().map(|position| &position.tp);
                let committed = self.committed.iter().flat_map(BTreeMap::keys);
                shared.chain(committed).map(|tp| tp.topic.clone()).collect()
            }
        }
    }

    /// What it needs next; an answer to what is asked is to be given to [`Errand::hear`].
    pub(super) fn next(&mut self, metadata: &Metadata) -> Next {
        if metadata.update_version() <= self.started_at {
            return Next::Metadata;
        }
        self.asked = None;
        let next = match self.operation.clone() {
            GroupOperation::List(filter) => self.next_list(&filter, metadata),
            GroupOperation::Describe(group) => self.next_describe(group),
            GroupOperation::DescribeOffsets(group) => self.next_describe_offsets(group, metadata),
            GroupOperation::Delete(group) if !self.done => {
                let request = request::delete(&group);
                Ok(self.ask(To::Coordinator(group), request))
            }
            GroupOperation::DeleteOffsets { group, scope } if !self.done => {
                self.next_delete_offsets(group, &scope, metadata)
            }
            GroupOperation::DeleteOffsets { group, scope } if self.kind == Kind::Share => {
                self.share_offsets_forgotten(group, &scope)
            }
            GroupOperation::Delete(_) | GroupOperation::DeleteOffsets { .. } => Ok(Next::Done(None)),
            GroupOperation::Reset(reset) => self.next_reset(&reset, metadata),
            GroupOperation::OfEach(each) => self.next_of_each(&each, metadata),
        };
        next.unwrap_or_else(|next| next)
    }

    fn ask(&mut self, to: To, request: Request) -> Next {
        self.asked.get_or_insert(Asked::Other);
        Next::Ask(to, Box::new(request))
    }

    fn next_list(&mut self, filter: &ListFilter, metadata: &Metadata) -> Result<Next, Next> {
        let groups = self.listed(filter, metadata)?;
        Ok(Next::Done(Some(Box::new(Event::GroupsTold { told: GroupsTold::List(groups) }))))
    }

    fn next_of_each(&mut self, each: &OfEach, metadata: &Metadata) -> Result<Next, Next> {
        let groups = self.listed(&ListFilter::default(), metadata)?;
        match groups.is_empty() {
            true => Ok(Next::Done(Some(Box::new(Event::GroupsTold { told: GroupsTold::List(groups) })))),
            false => Ok(Next::Instead(groups.into_iter().map(|listed| each.of(listed.group)).collect())),
        }
    }

    /// The groups of all brokers, by name.
    fn listed(&mut self, filter: &ListFilter, metadata: &Metadata) -> Result<Vec<ListedGroup>, Next> {
        if let Some(node) = metadata.nodes().find(|node| !self.listed.contains_key(node)) {
            self.asked = Some(Asked::List(node));
            return Err(self.ask(To::Broker(node), request::list(filter)));
        }
        let mut groups: Vec<ListedGroup> = self.listed.values().flatten().cloned().collect();
        groups.sort();
        Ok(groups)
    }

    fn next_describe(&mut self, group: GroupId) -> Result<Next, Next> {
        match &self.described {
            Some(Described::Known(described)) => {
                let event = Event::GroupsTold { told: GroupsTold::Group(described.clone()) };
                Ok(Next::Done(Some(Box::new(event))))
            }
            Some(Described::Unknown) => {
                Err(Next::Refused(ErrorCode::GroupIdNotFound, format!("group {group} does not exist")))
            }
            None => Ok(self.ask_description(&group)),
        }
    }

    fn next_describe_offsets(&mut self, group: GroupId, metadata: &Metadata) -> Result<Next, Next> {
        if !matches!(self.described, Some(Described::Known(_))) {
            return self.next_describe(group);
        }
        if self.kind == Kind::Share {
            return self.next_describe_share_offsets(group);
        }
        let committed = self.committed(&group)?;
        let partitions: Vec<TopicPartition> = self.read_or_committed().into_iter().collect();
        let led = plan::with_leaders(&partitions, metadata)?;
        self.learn(Mark::End, &led, metadata)?;
        let position = |tp: TopicPartition| GroupPosition {
            committed: committed.get(&tp).copied(),
            end: self.marks.get(&(Mark::End, tp.clone())).copied(),
            client: self.reader_of(&tp),
            tp,
        };
        let positions = partitions.into_iter().map(position).collect();
        Ok(Next::Done(Some(Box::new(Event::GroupsTold { told: GroupsTold::Offsets { group, positions } }))))
    }

    /// What a member reads or the group has committed, as far as that is known.
    fn read_or_committed(&self) -> BTreeSet<TopicPartition> {
        let committed = self.committed.iter().flat_map(BTreeMap::keys);
        self.members().flat_map(|member| &member.owned).chain(committed).cloned().collect()
    }

    fn reader_of(&self, tp: &TopicPartition) -> Option<String> {
        self.members().find(|member| member.owned.contains(tp)).map(|member| member.client.clone())
    }

    fn members(&self) -> impl Iterator<Item = &DescribedMember> {
        let described = match &self.described {
            Some(Described::Known(described)) => described.members.as_slice(),
            _ => &[],
        };
        described.iter()
    }

    /// The newer protocol is tried first (`DescribeConsumerGroupsHandler`).
    fn ask_description(&mut self, group: &GroupId) -> Next {
        let request = match self.kind {
            Kind::Consumer => request::describe_consumer(group),
            Kind::Classic => request::describe(group),
            Kind::Share => request::describe_share(group),
        };
        self.ask(To::Coordinator(group.clone()), request)
    }

    fn next_delete_offsets(
        &mut self,
        group: GroupId,
        scope: &Scope,
        metadata: &Metadata,
    ) -> Result<Next, Next> {
        if self.kind == Kind::Share {
            return self.next_delete_share_offsets(group, scope);
        }
        let partitions = match self.committed_in(&group, scope)? {
            Some(partitions) => partitions,
            None => plan::partitions(scope, metadata)?,
        };
        let request = request::delete_offsets(&group, &partitions);
        Ok(self.ask(To::Coordinator(group), request))
    }

    /// The partitions of a scope that only the coordinator knows.
    fn committed_in(&mut self, group: &GroupId, scope: &Scope) -> Result<Option<Vec<TopicPartition>>, Next> {
        if *scope != Scope::AllTopics {
            return Ok(None);
        }
        let committed = self.committed(group)?;
        Ok(Some(committed.into_keys().collect()))
    }

    fn committed(&mut self, group: &GroupId) -> Result<BTreeMap<TopicPartition, Offset>, Next> {
        match self.committed.clone() {
            Some(committed) => Ok(committed),
            None => Err(self.ask(To::Coordinator(group.clone()), request::committed(group))),
        }
    }

    fn next_reset(&mut self, reset: &Reset, metadata: &Metadata) -> Result<Next, Next> {
        let Reset { group, goal, executes } = reset;
        match &self.described {
            None => return Ok(self.ask_description(group)),
            Some(Described::Known(DescribedGroup { state, .. })) if state != "Empty" && state != "Dead" => {
                let why = format!(
                    "group {group} is {state}: its offsets can be reset only while it has no members, since they would \
                     commit over them"
                );
                return Err(Next::Refused(ErrorCode::NonEmptyGroup, why));
            }
            Some(_) => {}
        }
        // A group that is not there is going to be one of consumers.
        let is_shared = self.kind == Kind::Share && matches!(self.described, Some(Described::Known(_)));
        let offsets = match is_shared {
            true => self.plan_share(group, goal, metadata)?,
            false => self.plan(group, goal, metadata)?,
        };
        if *executes && !self.done && !offsets.is_empty() {
            let request = if is_shared { request::alter_share } else { request::commit };
            return Ok(self.ask(To::Coordinator(group.clone()), request(group, &offsets)));
        }
        let (group, executed) = (group.clone(), *executes);
        Ok(Next::Done(Some(Box::new(Event::GroupsTold {
            told: GroupsTold::Reset { group, offsets, executed, is_shared },
        }))))
    }

    fn plan(&mut self, group: &GroupId, goal: &Goal, metadata: &Metadata) -> Result<Vec<OffsetReset>, Next> {
        let committed = match goal {
            Goal::All(Scope::AllTopics, _) | Goal::All(_, Target::Current | Target::Shift(_)) => {
                self.committed(group)?
            }
            _ => BTreeMap::new(),
        };
        let partitions = match goal {
            Goal::Each(offsets) => offsets.keys().cloned().collect(),
            Goal::All(Scope::AllTopics, _) => committed.keys().cloned().collect(),
            Goal::All(scope, _) => plan::partitions(scope, metadata)?,
        };
        plan::check_leaders(&partitions, metadata)?;
        for mark in plan::marks(goal) {
            self.learn(*mark, &partitions, metadata)?;
        }
        partitions.into_iter().map(|tp| plan::reset(tp, goal, &committed, &self.marks)).collect()
    }

    /// Asks one leader after the other for what is not known of their partitions.
    fn learn(&mut self, mark: Mark, partitions: &[TopicPartition], metadata: &Metadata) -> Result<(), Next> {
        let unknown = || partitions.iter().filter(|tp| !self.marks.contains_key(&(mark, (*tp).clone())));
        let leader = |tp: &TopicPartition| metadata.leader(tp).map(|(leader, _)| leader);
        let Some(first) = unknown().next() else { return Ok(()) };
        let Some(node) = leader(first) else { return Err(Next::Metadata) };
        let of_node: Vec<TopicPartition> = unknown().filter(|tp| leader(tp) == Some(node)).cloned().collect();
        self.asked = Some(Asked::Mark(mark));
        Err(self.ask(To::Broker(node), request::marks(mark, self.since_wall_ms, &of_node)))
    }
}
