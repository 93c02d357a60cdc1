//! Which member of a group reads which partition, as the members themselves believe.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::{Reading, Stopwatch};
use crate::kafka::event::{Act, Event};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, TopicPartition};

/// So many spans that have ended are kept, the newest.
const KEPT_SPANS: usize = 4096;

/// A member had the same partitions for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub group: GroupId,
    pub client: ClientName,
    pub from: Time,
    pub until: Time,
    pub partitions: BTreeSet<TopicPartition>,
}

/// **Invariant:** a partition's owners are those members whose partitions it is among.
#[derive(Clone, Debug, Default)]
pub(super) struct Ownership {
    members: BTreeMap<(GroupId, ClientName), Member>,
    partitions: BTreeMap<(GroupId, TopicPartition), Owners>,
    ended: VecDeque<Rc<Span>>,
    pub ownerless: Stopwatch,
    pub twice_owned: Stopwatch,
    pub changes: Reading,
}

#[derive(Clone, Debug, Default)]
struct Member {
    since: Time,
    partitions: Rc<BTreeSet<TopicPartition>>,
}

#[derive(Clone, Debug, Default)]
struct Owners {
    now: BTreeSet<ClientName>,
    last: Option<ClientName>,
}

impl Ownership {
    pub fn hear(&mut self, now: Time, event: &Event) {
        match event {
            Event::PartitionsAssigned { client, group, partitions, .. } => {
                self.set(now, group, client, partitions.iter().cloned().collect());
            }
            Event::PartitionsRevoked { client, group, partitions, .. } => {
                let mut left = self.of(group, client);
                partitions.iter().for_each(|tp| {
                    left.remove(tp);
                });
                self.set(now, group, client, left);
            }
            Event::Process { name, act: Act::Killed | Act::PowerCut | Act::Ended, .. } => {
                let groups: Vec<GroupId> = self
                    .members
                    .keys()
                    .filter(|(_, client)| client == name)
                    .map(|(group, _)| group.clone())
                    .collect();
                groups.iter().for_each(|group| self.set(now, group, name, BTreeSet::new()));
            }
            Event::TopicDeleted { topic } => {
                let gone: Vec<(GroupId, TopicPartition)> =
                    self.partitions.keys().filter(|(_, tp)| tp.topic == *topic).cloned().collect();
                gone.iter().for_each(|key| self.forget(now, key));
            }
            _ => {}
        }
    }

    fn of(&self, group: &GroupId, client: &ClientName) -> BTreeSet<TopicPartition> {
        let member = self.members.get(&(group.clone(), client.clone()));
        member.map(|member| (*member.partitions).clone()).unwrap_or_default()
    }

    fn set(&mut self, now: Time, group: &GroupId, client: &ClientName, partitions: BTreeSet<TopicPartition>) {
        let member = self.members.entry((group.clone(), client.clone())).or_default();
        if *member.partitions == partitions {
            return;
        }
        let before = std::mem::replace(&mut member.partitions, Rc::new(partitions.clone()));
        let from = std::mem::replace(&mut member.since, now);
        for tp in before.difference(&partitions) {
            self.gave_up(now, group, client, tp);
        }
        for tp in partitions.difference(&before) {
            self.got(now, group, client, tp);
        }
        if !before.is_empty() && from < now {
            if self.ended.len() == KEPT_SPANS {
                self.ended.pop_front();
            }
            let (group, client) = (group.clone(), client.clone());
            self.ended.push_back(Rc::new(Span {
                group,
                client,
                from,
                until: now,
                partitions: (*before).clone(),
            }));
        }
    }

    fn got(&mut self, now: Time, group: &GroupId, client: &ClientName, tp: &TopicPartition) {
        let owners = self.partitions.entry((group.clone(), tp.clone())).or_default();
        let before = owners.now.len();
        owners.now.insert(client.clone());
        let last = owners.last.replace(client.clone());
        match (before, &last) {
            (0, Some(_)) => self.ownerless.end(now),
            (1, _) => {
                let others: Vec<&str> = owners.now.iter().map(ClientName::as_str).collect();
                self.twice_owned.begin(now, || format!("{tp} of {group}, {}", others.join(" and ")));
            }
            _ => {}
        }
        if let Some(last) = last.filter(|last| last != client) {
            self.changes.count(now, || format!("{tp}, from {last} to {client}"));
        }
    }

    fn gave_up(&mut self, now: Time, group: &GroupId, client: &ClientName, tp: &TopicPartition) {
        let Some(owners) = self.partitions.get_mut(&(group.clone(), tp.clone())) else { return };
        owners.now.remove(client);
        match owners.now.len() {
            0 => self.ownerless.begin(now, || format!("{tp} of {group}, given up by {client}")),
            1 => self.twice_owned.end(now),
            _ => {}
        }
    }

    /// A partition is no more.
    fn forget(&mut self, now: Time, key: &(GroupId, TopicPartition)) {
        let Some(owners) = self.partitions.remove(key) else { return };
        match owners.now.len() {
            0 => self.ownerless.end(now),
            1 => {}
            _ => self.twice_owned.end(now),
        }
    }

    pub fn spans(&self, now: Time) -> Vec<Rc<Span>> {
        let holds = self.members.iter().filter(|(_, member)| !member.partitions.is_empty());
        let running = holds.map(|((group, client), member)| {
            Rc::new(Span {
                group: group.clone(),
                client: client.clone(),
                from: member.since,
                until: now,
                partitions: (*member.partitions).clone(),
            })
        });
        self.ended.iter().cloned().chain(running).collect()
    }

    pub fn members(&self) -> impl Iterator<Item = (&GroupId, &ClientName)> {
        self.members.keys().map(|(group, client)| (group, client))
    }

    pub fn begin_anew(&mut self, now: Time) {
        self.changes = Reading::default();
        self.ownerless.begin_anew(now);
        self.twice_owned.begin_anew(now);
    }
}
