//! What consumers and their groups do with records.

use std::rc::Rc;

use crate::kafka::event::{ApplicationEvent, Halt, OffsetRun};
use crate::kafka::types::{ClientName, GroupId, LeaderEpoch, NodeId, Offset, TopicPartition};
use crate::lab::ledger::group::{Commit, Stuck};
use crate::lab::ledger::partition::Entry;
use crate::lab::ledger::record::{Input, KEPT_PROCESSINGS, Outcome, Processing, push_one};
use crate::lab::ledger::{Ledger, Moment, Record};

impl Ledger {
    /// What befalls the thread of an application.
    pub(super) fn hear_application(&mut self, at: Moment, event: &ApplicationEvent) {
        match event {
            ApplicationEvent::Halted { client, how: Halt::Hang, line, text, .. } => {
                let stuck = Stuck { since: at, how: format!("hangs at line {line}, {text}").into() };
                if let Some(node) = self.nodes.get(client) {
                    self.readers.entry(*node).or_default().stuck = Some(stuck);
                }
            }
            ApplicationEvent::Woken { client } => {
                let node = self.nodes.get(client);
                if let Some(reader) = node.and_then(|node| self.readers.get_mut(node)) {
                    reader.stuck = None;
                }
            }
            ApplicationEvent::LetGo { client, tp, offsets } => self.on_let_go(client, tp, offsets),
            ApplicationEvent::ResultSent { client, of, offset } => self.on_result(client, of, *offset),
            _ => {}
        }
    }

    /// The thread goes on without having finished records that it had.
    fn on_let_go(&mut self, client: &ClientName, tp: &TopicPartition, offsets: &[(Offset, Offset)]) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let Some(reader) = self.readers.get(&node) else { return };
        let Some(group) = reader.group.clone() else { return };
        let runs: Vec<(Offset, Option<LeaderEpoch>)> = offsets
            .iter()
            .flat_map(|(from, to)| (from.0..to.0).map(Offset))
            .map(|offset| (offset, reader.epoch_of(tp, offset).filter(|epoch| *epoch != LeaderEpoch::NONE)))
            .collect();
        for (offset, epoch) in runs {
            self.for_each_record(tp, (offset, offset + 1), epoch, |_, _, record| {
                let seen = record.seen_by(&group);
                if seen.in_hand == Some(node) {
                    seen.in_hand = None;
                }
            });
        }
    }

    /// What an application's producer is handed next is the result of a record that its consumer has read.
    fn on_result(&mut self, client: &ClientName, of: &TopicPartition, offset: Offset) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let Some(reader) = self.readers.get(&node) else { return };
        let Some(group) = reader.group.clone() else { return };
        let epoch = reader.epoch_of(of, offset).filter(|epoch| *epoch != LeaderEpoch::NONE);
        let input = Input { tp: of.clone(), offset, epoch, group };
        self.producers.entry(node).or_default().result_of = Some(Rc::new(input));
    }

    /// An application has handed over what it made of a record.
    pub(super) fn note_result(&mut self, input: &Input, result: Outcome) {
        self.for_each_record(&input.tp, (input.offset, input.offset + 1), input.epoch, |_, _, record| {
            let seen = record.seen_by(&input.group);
            if seen.results.len() < KEPT_PROCESSINGS {
                push_one(&mut seen.results, result);
            }
        });
    }

    /// A client reads as a member of the group, or without one.
    pub(super) fn join(&mut self, client: &ClientName, group: &GroupId) -> Option<(NodeId, GroupId)> {
        let node = *self.nodes.get(client)?;
        let group = match group.as_str() {
            "" => super::alone(client),
            _ => group.clone(),
        };
        let reader = self.readers.entry(node).or_default();
        if reader.group.as_ref() != Some(&group) {
            reader.group = Some(group.clone());
        }
        Some((node, group))
    }

    pub(super) fn on_position(
        &mut self,
        at: Moment,
        client: &ClientName,
        tp: &TopicPartition,
        offset: Offset,
    ) {
        let Some(node) = self.nodes.get(client) else { return };
        let reader = self.readers.entry(*node).or_default();
        reader.set_out.insert(tp.clone(), (at, offset));
        if let Some(group) = reader.group.clone() {
            self.groups.entry(group).or_default().entry(tp.clone()).or_default().begin(offset);
        }
    }

    pub(super) fn on_polled(
        &mut self,
        at: Moment,
        client: &ClientName,
        group: &GroupId,
        tp: &TopicPartition,
        runs: &[OffsetRun],
    ) {
        let (Some(first), Some((node, group))) = (runs.first(), self.join(client, group)) else { return };
        self.readers.entry(node).or_default().took(tp, runs);
        let progress = self.groups.entry(group.clone()).or_default().entry(tp.clone()).or_default();
        if progress.begun.is_none() {
            progress.begin(first.from);
        }
        for run in runs {
            let epoch = Some(run.epoch).filter(|epoch| *epoch != LeaderEpoch::NONE);
            self.for_each_record(tp, (run.from, run.to), epoch, |_, _, record| {
                let seen = record.seen_by(&group);
                seen.delivered += 1;
                seen.delivered_at = Some((at, client.clone()));
                seen.in_hand = Some(node);
            });
        }
    }

    /// Every record that is kept of those with an offset in `[from, to)`: of this epoch, or in place.
    pub(super) fn for_each_record(
        &mut self,
        tp: &TopicPartition,
        (from, to): (Offset, Offset),
        epoch: Option<LeaderEpoch>,
        mut act: impl FnMut(Offset, LeaderEpoch, &mut Record),
    ) {
        let Some(partition) = self.partitions.get(tp) else { return };
        let entries: Vec<(Offset, Entry)> = partition.entries(from, to, epoch).collect();
        for (base, entry) in entries {
            let Some(batch) = self.batch_mut(entry.batch) else { continue };
            for (index, record) in (0..).zip(&mut batch.records) {
                let offset = base + index;
                if from <= offset && offset < to {
                    act(offset, entry.epoch, record);
                }
            }
        }
    }

    pub(super) fn on_processed(
        &mut self,
        at: Moment,
        client: &ClientName,
        tp: &TopicPartition,
        offset: Offset,
    ) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let Some(reader) = self.readers.get(&node) else { return };
        let Some(group) = reader.group.clone() else { return };
        let epoch = reader.epoch_of(tp, offset).filter(|epoch| *epoch != LeaderEpoch::NONE);
        let since = reader.set_out.get(tp).map(|(at, _)| *at);
        let mut progress = self.groups.entry(group.clone()).or_default().remove(tp).unwrap_or_default();
        self.for_each_record(tp, (offset, offset + 1), epoch, |offset, epoch, record| {
            let seen = record.seen_by(&group);
            seen.processed += 1;
            if seen.processed == 1 {
                seen.out_of_order = progress.finish(epoch, offset);
            }
            if seen.in_hand == Some(node) {
                seen.in_hand = None;
            }
            if seen.processings.len() < KEPT_PROCESSINGS {
                push_one(&mut seen.processings, Processing { at, by: client.clone(), offset, since });
            }
        });
        self.groups.entry(group).or_default().insert(tp.clone(), progress);
    }

    /// What lies between the last commit and this one is passed; or is to be read again, if this one is earlier.
    pub(super) fn on_committed(
        &mut self,
        at: Moment,
        group: &GroupId,
        tp: &TopicPartition,
        offset: Offset,
        by: &ClientName,
    ) {
        let progress = self.groups.entry(group.clone()).or_default().entry(tp.clone()).or_default();
        let commit = Commit { at, offset, by: by.clone() };
        let before = progress.committed.replace(commit).map(|commit| commit.offset).or(progress.begun);
        let Some(before) = before else {
            // Somebody set it before anybody read.
            return progress.begin(offset);
        };
        self.for_each_record(tp, (before.min(offset), before.max(offset)), None, |_, _, record| match record
            .seen
            .iter_mut()
            .find(|seen| seen.group == *group)
        {
            Some(seen) if offset < before => seen.passed = None,
            Some(seen) if seen.processed > 0 => {}
            None if offset < before => {}
            _ => record.seen_by(group).passed = Some((at, by.clone())),
        });
    }
}
