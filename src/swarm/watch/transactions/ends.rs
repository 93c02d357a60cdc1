//! What is true of transactions when everybody has come to an end and has had the time to (R-TXN-18, 19, 26, 28, 34).

use super::outputs::key_of;
use super::reading::Mark;
use super::state_log::{Decision, Facts, Stage};
use super::{STATE_TOPIC, TransactionWatch, sight};
use crate::kafka::types::{GroupId, Offset, ProducerId, Topic, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// A coordinator looks every ten seconds for what has timed out.
const NOTICED_MS: i64 = 30_000;

/// From this `transaction.version` on each end has an epoch of its own.
const ENDS_RAISE_EPOCHS: i16 = 2;

/// An application whose results are to be there once for each record.
pub struct Work<'a> {
    pub group: &'a GroupId,
    pub topics: &'a [Topic],
    pub output: &'a Topic,
}

/// Whether a transaction may be open still: one that began by a clock that was ahead times out in a time that is to come.
fn may_last(world: &World, facts: &Facts) -> bool {
    facts.stage == Stage::Ongoing && facts.times_out_ms + NOTICED_MS > world.now().wall_ms()
}

impl TransactionWatch {
    /// A transaction that has not come to its end, and is to.
    pub fn unsettled(&self, world: &World) -> Option<String> {
        let kept = self.readings.iter().filter(|(tp, _)| self.is_kept(tp));
        let mut open = kept.flat_map(|(tp, reading)| reading.open().map(move |(producer, _)| (tp, producer)));
        if let Some((tp, producer)) = open.find(|(_, producer)| self.is_to_end(world, *producer)) {
            return Some(format!("producer {producer} has a transaction open in {tp}"));
        }
        let ids = self.kept_states().flat_map(|state| state.ids());
        let mut under_way = ids.filter(|(_, facts)| !facts.stage.is_over() && !may_last(world, facts));
        under_way.next().map(|(id, facts)| format!("{id} is {:?}", facts.stage))
    }

    /// Whether what a producer has open is to be ended by its coordinator.
    fn is_to_end(&self, world: &World, producer: ProducerId) -> bool {
        let facts = self.kept_states().find_map(|state| state.of_producer(producer));
        self.has_coordinator(producer) && !facts.is_some_and(|facts| may_last(world, facts))
    }

    /// Transactions that are open at the leaders, where each begins: for a person to end, when nobody else does.
    pub fn hanging(&self, world: &World) -> Vec<(TopicPartition, Offset)> {
        let leaders = sight::replicas(world).filter(|(_, replica)| replica.is_leader());
        let open = leaders.flat_map(|(_, leader)| {
            let producers = leader.log.producers().iter();
            let open = producers.filter_map(|(id, producer)| Some((id, producer.transaction_start()?)));
            open.map(|(id, start)| (leader.tp.clone(), id, start))
        });
        let is_lost = |tp: &TopicPartition, producer| !self.is_kept(tp) || !self.has_coordinator(producer);
        open.filter(|(tp, producer, _)| is_lost(tp, *producer)).map(|(tp, _, start)| (tp, start)).collect()
    }

    fn kept_states(&self) -> impl Iterator<Item = &super::StateLog> {
        let topic = Topic::new(STATE_TOPIC);
        let is_kept = move |partition: i32| self.is_kept(&TopicPartition::new(&topic, partition));
        self.states.iter().filter(move |(partition, _)| is_kept(**partition)).map(|(_, state)| state)
    }

    /// What was decided is completed, and what has taken too long is decided.
    pub fn check_decided(&self, world: &World) -> Verdict {
        for state in self.kept_states() {
            if let Some(decision) = state.open_decision().filter(|decision| self.can_end(decision)) {
                let (id, stage) = (&decision.id, decision.facts.stage);
                return Err(
                    Check::Decision.broken(format!("{id} was decided as {stage:?}, and never completed"))
                );
            }
            if let Some((id, facts)) = state.ids().find(|(_, facts)| self.is_overdue(world, facts)) {
                let check = if facts.stage == Stage::Ongoing { Check::Markers } else { Check::Decision };
                return Err(check.broken(format!("{id} is {:?} for good", facts.stage)));
            }
        }
        Ok(())
    }

    /// Everything has ended as it was decided, in each partition.
    pub fn check_ends(&self, world: &World, counts: &mut Counts) -> Verdict {
        self.check_decided(world)?;
        for state in self.kept_states() {
            for decision in state.decisions() {
                counts.markers_checked += decision.facts.partitions.len() as u64;
                self.check_marked(decision)?;
            }
        }
        for (tp, reading) in self.readings.iter().filter(|(tp, _)| self.is_kept(tp)) {
            if let Some((producer, open)) = reading.open().find(|(id, _)| self.is_to_end(world, *id)) {
                let fault = format!("{tp}: a transaction of producer {producer} hangs: {open:?}");
                return Err(Check::Markers.broken(fault));
            }
            for (producer, marks) in reading.marks().filter(|(producer, _)| self.has_coordinator(*producer)) {
                marks.iter().try_for_each(|mark| self.check_mark(tp, producer, mark))?;
            }
        }
        Ok(())
    }

    /// Whether nothing was lost of the partitions that are to be marked.
    fn can_end(&self, decision: &Decision) -> bool {
        decision.facts.partitions.iter().all(|tp| self.is_kept(tp))
    }

    /// Whether a transaction should have come to its end, and can.
    fn is_overdue(&self, world: &World, facts: &Facts) -> bool {
        let can_end = facts.partitions.iter().all(|tp| self.is_kept(tp));
        can_end && !facts.stage.is_over() && !may_last(world, facts)
    }

    /// A decision is marked in each of its partitions, and only so.
    fn check_marked(&self, decision: &Decision) -> Verdict {
        let Decision { id, facts, committed } = decision;
        for tp in facts.partitions.iter().filter(|tp| self.is_kept(tp)) {
            let Some(reading) = self.readings.get(tp) else { continue };
            let marks = reading.marks_of(facts.producer).iter().filter(|mark| mark.epoch == facts.epoch);
            let (right, wrong): (Vec<&Mark>, Vec<&Mark>) =
                marks.partition(|mark| mark.committed == *committed);
            let is_of_its_own = facts.version >= ENDS_RAISE_EPOCHS;
            if right.is_empty() || (is_of_its_own && !wrong.is_empty()) {
                let fault = format!(
                    "{tp}: {id} was decided as {:?} in epoch {}, its marks there are {right:?} {wrong:?}",
                    facts.stage, facts.epoch
                );
                return Err(Check::Markers.broken(fault));
            }
        }
        Ok(())
    }

    /// A mark is of a decision; from version 2 on it ends what was begun before.
    fn check_mark(&self, tp: &TopicPartition, producer: ProducerId, mark: &Mark) -> Verdict {
        let states = self.kept_states().filter(|state| state.knows(producer));
        let mut decisions = states.flat_map(|state| state.decisions()).filter(|decision| {
            let facts = &decision.facts;
            (facts.producer, facts.epoch) == (producer, mark.epoch)
                && decision.committed == mark.committed
                && facts.partitions.contains(tp)
        });
        let Some(decision) = decisions.next() else {
            let fault = format!("{tp}: nobody decided of producer {producer} what {mark:?} says");
            return Err(Check::Markers.broken(fault));
        };
        let ends_next =
            decision.facts.version >= ENDS_RAISE_EPOCHS && mark.ends.is_some_and(|ended| ended >= mark.epoch);
        Check::Markers.verdict(
            ends_next.then(|| {
                format!("{tp}: {mark:?} of producer {producer} ended a transaction that came after it")
            }),
        )
    }

    /// R-TXN-32, 34: each record that the group has passed has one result, and none has two. `committed` says how far the group
    /// is; nothing is held against it where something was lost, deleted or thinned out.
    pub fn check_outputs(
        &self,
        world: &World,
        work: &Work<'_>,
        committed: impl Fn(&TopicPartition) -> Option<Offset>,
        counts: &mut Counts,
    ) -> Verdict {
        let is_deleted = |topic: &Topic| self.deleted.contains(topic);
        let involved = |tp: &TopicPartition| {
            let name = tp.topic.as_str();
            work.topics.contains(&tp.topic)
                || tp.topic == *work.output
                || name == STATE_TOPIC
                || name == OFFSETS_TOPIC
        };
        if self.lost.iter().any(involved) || work.topics.iter().any(is_deleted) || is_deleted(work.output) {
            return Ok(());
        }
        if let Some(repeated) = self.outputs.repeated() {
            return Err(Check::ExactlyOnce.broken(repeated));
        }
        for (tp, reading) in self.readings.iter().filter(|(tp, _)| work.topics.contains(&tp.topic)) {
            let leader = sight::replicas(world).find(|(_, replica)| replica.tp == *tp && replica.is_leader());
            let (Some((_, leader)), Some(end)) = (leader, committed(tp)) else { continue };
            if self.compacted.contains(tp) {
                continue;
            }
            // Where the log began later the group may have been sent on.
            let passed = reading.between(leader.log.log_start_offset(), end);
            let passed = passed.filter(|(_, _, fate)| fate.is_for_committed());
            for offset in passed.flat_map(|(from, to, _)| from.0..to.0).map(Offset) {
                counts.results_checked += 1;
                if self.outputs.count(&key_of(tp, offset)) == 0 {
                    let fault = format!("{tp}@{offset} has no result, and the group is at {end}");
                    return Err(Check::ExactlyOnce.broken(fault));
                }
            }
        }
        Ok(())
    }
}
