//! The application waits for what it sent: `flush()` and `close()` (R-PROD-8).
//!
//! **Invariant:** who flushes or closes makes no record before that is over.

use std::collections::BTreeSet;

use super::batch::{BatchId, Place};
use super::{Phase, Producer, ProducerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, ProducerEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;

type Fx<'a> = &'a mut Effects<ProducerTimer>;

/// A `flush()` that has not returned.
#[derive(Clone, Debug)]
pub(super) struct Flush {
    since: Time,
    /// What it waits for; `None` while the thread that will call it is still in `send()`.
    batches: Option<BTreeSet<BatchId>>,
}

impl Producer {
    /// `flush()`: what lingers is sent at once, and the application waits for the outcome of all that it has sent.
    pub fn flush(&mut self, now: Time, fx: Fx<'_>) {
        if matches!(self.phase, Phase::Running | Phase::Paused) && self.flush.is_none() {
            self.flush = Some(Flush { since: now, batches: None });
            self.stop_generating(fx);
            self.poll(now, fx);
        }
    }

    /// A flush has seen what it waits for: no batch lingers.
    pub(super) fn is_flushing(&self) -> bool {
        self.flush.as_ref().is_some_and(|flush| flush.batches.is_some())
    }

    /// Begins a flush as soon as no `send()` blocks, and ends it when the last of its batches is through.
    pub(super) fn settle_flush(&mut self, now: Time, fx: Fx<'_>) {
        let Some(flush) = &mut self.flush else { return };
        if self.blocked.is_some() {
            return;
        }
        let accumulator = &self.accumulator;
        let is_open = |id: &BatchId| accumulator.get(*id).is_some_and(|batch| batch.place != Place::GivenUp);
        let batches = flush.batches.get_or_insert_with(|| accumulator.batches().map(|(id, _)| id).collect());
        batches.retain(is_open);
        if batches.is_empty() {
            let took_ms = now.ms_since(flush.since);
            self.flush = None;
            fx.event(Event::Producer(ProducerEvent::Flushed { client: self.name(), took_ms }));
            self.schedule_next(now, fx);
        }
    }

    /// A flush waits for the parts of a batch that was split.
    pub(super) fn flush_parts(&mut self, parts: &[BatchId]) {
        if let Some(Flush { batches: Some(batches), .. }) = &mut self.flush {
            batches.extend(parts);
        }
    }

    /// `close()`: sends what there is, waits for its outcome, and ends.
    pub fn close(&mut self, now: Time, fx: Fx<'_>) {
        self.close_by(now, None, fx);
    }

    /// `close(timeout)`: what has no outcome after so long fails, and the producer ends.
    pub fn close_within(&mut self, now: Time, timeout_ms: i64, fx: Fx<'_>) {
        self.close_by(now, Some(now.plus_ms(timeout_ms)), fx);
    }

    fn close_by(&mut self, now: Time, by: Option<Time>, fx: Fx<'_>) {
        if self.phase != Phase::Closed {
            self.phase = Phase::Closing;
            self.flush = None;
            self.close_by = by;
            self.stop_generating(fx);
            self.poll(now, fx);
        }
    }

    pub(super) fn finish_close(&mut self, now: Time, fx: Fx<'_>) {
        if self.phase != Phase::Closing {
            return;
        }
        let is_over = self.close_by.is_some_and(|by| by <= now);
        if is_over {
            self.close_forcefully(fx);
        }
        let is_open = self.transactions.as_ref().is_some_and(|it| it.has_ongoing_transaction());
        let is_idle = self.accumulator.is_empty() && self.blocked.is_none() && !is_open;
        if is_over || is_idle {
            self.phase = Phase::Closed;
            fx.exit();
        }
    }

    /// What has no outcome fails, whatever becomes of it at the brokers.
    fn close_forcefully(&mut self, fx: Fx<'_>) {
        let open = self.accumulator.batches().filter(|(_, batch)| batch.place != Place::GivenUp);
        let blocked = i64::from(self.blocked.is_some());
        let records = open.map(|(_, batch)| i64::from(batch.record_count())).sum::<i64>() + blocked;
        if records > 0 {
            fx.event(Event::Producer(ProducerEvent::Forced { client: self.name(), records }));
        }
        self.fail_open(ErrorCode::UnknownServerError, fx);
    }
}
