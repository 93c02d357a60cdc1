//! Calls that look offsets up and change nothing: beginningOffsets(), endOffsets() and offsetsForTimes() ask the leaders and
//! wait for them (Kafka's `OffsetFetcher.fetchOffsetsByTimes`), position() and currentLag() tell what the consumer knows.
//!
//! **Invariant:** a partition is asked for until its leader has told, or default.api.timeout.ms is over.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::ListOffsetsResponse;

use super::config::OffsetReset;
use super::offsets::list_offsets;
use super::requests::Call;
use super::{Activity, Consumer, ConsumerTimer};
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::{ApplicationEvent, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Offset, Topic, TopicPartition};

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// beginningOffsets()
    Beginning,
    /// endOffsets(): the high watermark, or the last stable offset for who reads committed data (R-CONS-31).
    End,
    /// offsetsForTimes(): the first record that is not older than so long.
    Since { ms: i64 },
    /// position()
    Position,
    /// currentLag()
    Lag,
}

impl Lookup {
    /// The call, in Kafka's words.
    pub fn call(self) -> &'static str {
        match self {
            Lookup::Beginning => "beginningOffsets()",
            Lookup::End => "endOffsets()",
            Lookup::Since { .. } => "offsetsForTimes()",
            Lookup::Position => "position()",
            Lookup::Lag => "currentLag()",
        }
    }

    /// What the leaders are asked for; `None` if they are not.
    fn of_leaders(self) -> Option<OffsetReset> {
        match self {
            Lookup::Beginning => Some(OffsetReset::Earliest),
            Lookup::End => Some(OffsetReset::Latest),
            Lookup::Since { ms } => Some(OffsetReset::ByDuration { ms }),
            Lookup::Position | Lookup::Lag => None,
        }
    }
}

/// A call that waits for the leaders.
#[derive(Clone, Debug)]
pub(super) struct Looking {
    what: Lookup,
    of: OffsetReset,
    /// offsetsForTimes() names a time, which is that of the call.
    begun: Time,
    left: BTreeSet<TopicPartition>,
    in_flight: BTreeSet<TopicPartition>,
    told: BTreeMap<TopicPartition, Option<Offset>>,
    pub retry_at: Time,
}

impl Looking {
    pub fn topics(&self) -> impl Iterator<Item = Topic> + '_ {
        self.left.iter().map(|tp| tp.topic.clone())
    }
}

impl Consumer {
    /// Begins the call, or answers it at once.
    pub(super) fn look_up(
        &mut self,
        now: Time,
        what: Lookup,
        partitions: Vec<TopicPartition>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let Some(of) = what.of_leaders() else {
            let told = partitions.into_iter().map(|tp| (self.known(what, &tp), tp));
            let told = told.map(|(known, tp)| (tp, known)).collect();
            return self.tell_looked_up(what, told, fx);
        };
        self.looking = Some(Looking {
            what,
            of,
            begun: now,
            left: partitions.into_iter().collect(),
            in_flight: BTreeSet::new(),
            told: BTreeMap::new(),
            retry_at: now,
        });
        self.want_metadata();
        self.program.activity = Activity::Looking { until: now.plus_ms(self.config.default_api_timeout_ms) };
    }

    /// Of what the consumer owns.
    fn known(&self, what: Lookup, tp: &TopicPartition) -> Option<Offset> {
        let owned = self.subscription.owned().get(tp)?;
        match what {
            Lookup::Lag => owned.lag(self.config.isolation).map(Offset),
            _ => owned.position().map(|position| position.offset),
        }
    }

    fn tell_looked_up(
        &self,
        what: Lookup,
        told: Vec<(TopicPartition, Option<Offset>)>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let (client, call) = (self.spec.name.clone(), what.call().into());
        fx.event(Event::Application(ApplicationEvent::LookedUp { client, call, told }));
    }

    /// Goes on with the call; true if it has returned, or thrown TimeoutException.
    pub(super) fn run_look(&mut self, now: Time, until: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        let Some(looking) = &self.looking else { return true };
        let is_over = looking.left.is_empty();
        if !is_over && now < until {
            self.ask_leaders(now, fx);
            return false;
        }
        let Some(looking) = self.looking.take() else { return true };
        self.want_metadata();
        if is_over {
            self.tell_looked_up(looking.what, looking.told.into_iter().collect(), fx);
        } else {
            let timeout_ms = self.config.default_api_timeout_ms;
            let reason = format!("TimeoutException: Failed to get offsets by times in {timeout_ms}ms");
            fx.event(Event::CallRefused { client: self.spec.name.clone(), reason });
        }
        true
    }

    fn ask_leaders(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Some(looking) = &mut self.looking else { return };
        if looking.retry_at > now {
            return;
        }
        let mut by_leader: BTreeMap<BrokerId, Vec<_>> = BTreeMap::new();
        for tp in looking.left.iter().filter(|tp| !looking.in_flight.contains(*tp)) {
            match self.metadata.leader(tp) {
                None => self.metadata.request_update(),
                Some((leader, _)) if self.requests.is_unavailable(now, metadata::main_peer(leader)) => {}
                Some((leader, epoch)) => {
                    by_leader.entry(leader).or_default().push((tp.clone(), looking.of, epoch));
                }
            }
        }
        let (begun, timeout_ms) = (looking.begun, self.config.common.request_timeout_ms);
        for (leader, asked) in by_leader {
            let request = list_offsets(&asked, begun, self.config.isolation, timeout_ms);
            let asked: Rc<[TopicPartition]> = asked.into_iter().map(|(tp, ..)| tp).collect();
            if let Some(looking) = &mut self.looking {
                looking.in_flight.extend(asked.iter().cloned());
            }
            self.requests.send(now, metadata::main_peer(leader), request, Call::Look(asked), timeout_ms, fx);
        }
    }

    pub(super) fn on_looked_up(&mut self, now: Time, asked: &[TopicPartition], answer: &ListOffsetsResponse) {
        let Some(looking) = &mut self.looking else { return };
        let mut failed = Vec::new();
        for topic in &answer.topics {
            let name = Topic::new(&topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                if !asked.contains(&tp) || !looking.in_flight.remove(&tp) {
                    continue;
                }
                if ErrorCode::from_code(partition.error_code).is_ok() {
                    looking.left.remove(&tp);
                    // A partition without such a record has none to tell of.
                    let offset = Some(Offset(partition.offset)).filter(|offset| *offset >= Offset::ZERO);
                    looking.told.insert(tp, offset);
                } else {
                    failed.push(tp);
                }
            }
        }
        if !failed.is_empty() {
            self.look_failed(now, &failed);
        }
    }

    /// These leaders are to be asked again after a back-off.
    pub(super) fn look_failed(&mut self, now: Time, asked: &[TopicPartition]) {
        if let Some(looking) = &mut self.looking {
            looking.in_flight.retain(|tp| !asked.contains(tp));
            looking.retry_at = now.plus_ms(self.config.common.retry_backoff.initial_ms);
            self.metadata.request_update();
        }
    }
}
