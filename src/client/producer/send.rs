//! The application's `send()`: into a batch, or blocked until metadata or memory is there (R-PROD-1, R-PROD-2).
//!
//! **Invariant:** a `send()` that began returns or throws once, within max.block.ms.

use std::rc::Rc;

use super::accumulator::MemoryExhausted;
use super::partitioning::Place;
use super::{Fx, Message, Producer, ProducerError, UNKNOWN_PARTITION};
use crate::kafka::event::{Event, ProducerEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::size_upper_bound;
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

/// What a `send()` returned or threw, nothing while it blocks.
pub(super) type Sent = Option<Result<(), ProducerError>>;

/// A `send()` that has not returned.
#[derive(Clone, Debug)]
pub(super) struct BlockedSend {
    pub message: Message,
    pub since: Time,
    waits_for: Obstacle,
}

/// What a `send()` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Metadata,
    /// buffer.memory; where the record goes and its timestamp are settled.
    Memory {
        place: Place,
        timestamp_ms: i64,
    },
}

impl BlockedSend {
    pub fn for_memory(&self) -> bool {
        self.waits_for != Obstacle::Metadata
    }
}

impl Producer {
    pub(super) fn begin_send(&mut self, now: Time, message: Message, fx: Fx<'_>) -> Sent {
        self.counts.sent += 1;
        self.send(now, message, now, fx)
    }

    /// `send()`: into the accumulator, or blocked until metadata or memory is there (R-PROD-1). `since`: when the
    /// application called it.
    fn send(&mut self, now: Time, message: Message, since: Time, fx: Fx<'_>) -> Sent {
        let topic = &message.topic;
        self.metadata.want_one(topic);
        let error = self.metadata.topic(topic).map_or(ErrorCode::None, |topic| topic.error);
        let partitions = match self.metadata.partition_count(topic) {
            Some(count) if message.partition.is_some_and(|partition| partition >= count) => {
                self.metadata.request_update();
                None
            }
            known => known,
        };
        match partitions {
            Some(partitions) => {
                let place = self.place(now, &message, partitions);
                self.append_or_block(now, message, place, now.wall_ms(), since, fx)
            }
            None if error.is_ok() || error.is_retriable() => {
                self.blocked = Some(BlockedSend { message, since, waits_for: Obstacle::Metadata });
                self.woken = true;
                None
            }
            None => {
                let tp = TopicPartition::new(topic, UNKNOWN_PARTITION);
                Some(self.refuse_send(tp, error, fx))
            }
        }
    }

    fn append_or_block(
        &mut self,
        now: Time,
        message: Message,
        place: Place,
        timestamp_ms: i64,
        since: Time,
        fx: Fx<'_>,
    ) -> Sent {
        let record = message.record(timestamp_ms);
        let size_bytes = size_upper_bound(&record);
        if size_bytes > self.config.max_request_size || i64::from(size_bytes) > self.config.buffer_memory {
            let tp = place.of(&message.topic);
            return Some(self.refuse_send(tp, ErrorCode::MessageTooLarge, fx));
        }
        let before = self.sticky_place(&message.topic);
        let appended = self.append(now, &message.topic, place, &record);
        if let Some(tp) = self.sticky_place(&message.topic).filter(|after| before.as_ref() != Some(after)) {
            fx.event(Event::Producer(ProducerEvent::StickyPartitionChosen { client: self.name(), tp }));
        }
        let tp = match appended {
            Ok(tp) => tp,
            Err(MemoryExhausted) => {
                let waits_for = Obstacle::Memory { place, timestamp_ms };
                self.blocked = Some(BlockedSend { message, since, waits_for });
                self.woken = true;
                return None;
            }
        };
        let batch = self.accumulator.last(&tp).expect("the record is in it");
        self.woken |= self.accumulator.wakes_sender(&tp);
        let key = message.key.map(Rc::from);
        fx.event(Event::RecordBatched { client: self.name(), tp: tp.clone(), batch, key });
        // Kafka looks only now: a record that should not have been sent is in a batch, from which nobody takes it.
        Some(self.transactions.as_mut().map_or(Ok(()), |transactions| transactions.add_partition(&tp)))
    }

    /// The record's future fails; send() itself throws only if the transaction cannot take the error.
    fn refuse_send(&mut self, tp: TopicPartition, error: ErrorCode, fx: Fx<'_>) -> Result<(), ProducerError> {
        self.report_failure(tp, None, 1, error, fx);
        self.transactions.as_mut().map_or(Ok(()), |transactions| transactions.on_send_refused(error))
    }

    /// Tries a blocked `send()` again; it fails after max.block.ms (R-PROD-1).
    pub(super) fn unblock(&mut self, now: Time, fx: Fx<'_>) {
        let Some(blocked) = self.blocked.take() else { return };
        let (since, topic) = (blocked.since, blocked.message.topic.clone());
        let mut returned = match blocked.waits_for {
            Obstacle::Metadata => self.send(now, blocked.message, since, fx),
            Obstacle::Memory { place, timestamp_ms } => {
                if self.accumulator.has_room(&blocked.message.record(timestamp_ms)) {
                    self.append_or_block(now, blocked.message, place, timestamp_ms, since, fx)
                } else {
                    self.blocked = Some(blocked);
                    None
                }
            }
        };
        if returned.is_none() && now.ms_since(since) >= self.config.max_block_ms {
            self.blocked = None;
            let tp = TopicPartition::new(&topic, UNKNOWN_PARTITION);
            returned = Some(self.refuse_send(tp, ErrorCode::RequestTimedOut, fx));
        }
        if let Some(returned) = returned {
            self.send_returned(now, returned, fx);
        }
    }

    /// A `send()` that blocked returns.
    fn send_returned(&mut self, now: Time, returned: Result<(), ProducerError>, fx: Fx<'_>) {
        if self.thread.calling.take().is_some() {
            self.thread.returned = Some(returned);
        }
        self.schedule_next(now, fx);
    }
}
