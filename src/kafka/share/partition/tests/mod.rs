mod acknowledging;
mod acquiring;
mod locks;
mod log_start;
mod model;
mod reading_back;

use super::*;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::share::state::{AcknowledgeType, RecordState};
use crate::kafka::types::MemberId;

/// A share partition from offset 0, with the configs of its group and a clock.
struct Share {
    partition: SharePartition,
    settings: ShareSettings,
    now: Time,
    mode: AcquireMode,
    batch_size: i64,
}

fn share() -> Share {
    Share {
        partition: SharePartition::new(LeaderEpoch(1), 0, Offset(0), &[]).expect("nothing was persisted"),
        settings: ShareSettings::DEFAULT,
        now: Time::ZERO,
        mode: AcquireMode::BatchOptimized,
        batch_size: 500,
    }
}

fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(Offset(first), Offset(last))
}

fn member(name: &str) -> MemberId {
    MemberId::new(name)
}

impl Share {
    /// A member asks for `max` records where the log has these batches, read from the next fetch offset on.
    fn acquire_of(&mut self, by: &str, log: &[(i64, i64)], max: i64) -> String {
        self.acquire_but(by, log, &[], max)
    }

    fn acquire_but(&mut self, by: &str, log: &[(i64, i64)], aborted: &[(i64, i64)], max: i64) -> String {
        let fetch_offset = self.partition.next_fetch_offset();
        let ranges = |list: &[(i64, i64)]| list.iter().map(|(a, b)| range(*a, *b)).collect::<Vec<_>>();
        let batches: Vec<_> = ranges(log).into_iter().filter(|batch| batch.last >= fetch_offset).collect();
        let fetched = Fetched { batches: &batches, aborted: &ranges(aborted) };
        let by = Acquirer {
            member: &member(by),
            mode: self.mode,
            batch_size: self.batch_size,
            max_records: max,
            fetch_offset,
        };
        let acquired = self.partition.acquire(&by, fetched, &self.settings, self.now);
        let Ok(acquired) = acquired else { return "clash".to_string() };
        let text = acquired.iter().map(|acquired| {
            format!("{}-{} x{}", acquired.range.first, acquired.range.last, acquired.delivery_count)
        });
        text.collect::<Vec<_>>().join(", ")
    }

    fn try_acknowledge(
        &mut self,
        by: &str,
        first: i64,
        types: &[AcknowledgeType],
        last: i64,
    ) -> Result<Option<StateWrite>, ErrorCode> {
        let said = Acknowledgement { range: range(first, last), types: types.to_vec() };
        self.partition.acknowledge(&member(by), &[said], &self.settings, self.now)
    }

    /// Acknowledged and persisted.
    #[track_caller]
    fn acknowledge(&mut self, by: &str, first: i64, last: i64, kind: AcknowledgeType) {
        let write = self.try_acknowledge(by, first, &[kind], last).expect("it is acknowledged");
        self.persist(write);
    }

    fn persist(&mut self, write: Option<StateWrite>) {
        if let Some(write) = write {
            self.partition.written(write.id, true);
        }
    }

    fn wait_ms(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        for write in self.partition.end_locks(self.now, &self.settings) {
            self.persist(Some(write));
        }
    }

    /// Start, end and what is in flight: state, delivery count, holder.
    fn picture(&self) -> String {
        let mut lines = vec![format!("{}..{}", self.partition.start_offset(), self.partition.end_offset())];
        let mut last: Option<(OffsetRange, String)> = None;
        for (range, state) in self.partition.in_flight() {
            let kind = match state.state() {
                RecordState::Available => "free",
                RecordState::Acquired => "held",
                RecordState::Acknowledged => "done",
                RecordState::Archived => "gone",
            };
            let holder = state.holder().map(|holder| format!(" {holder}")).unwrap_or_default();
            let text = format!("{kind} x{}{holder}", state.delivery_count());
            match &mut last {
                Some((before, same)) if *same == text && before.last + 1 == range.first => {
                    before.last = range.last;
                }
                last => {
                    lines.extend(last.take().map(line));
                    *last = Some((range, text));
                }
            }
        }
        lines.extend(last.map(line));
        lines.join(", ")
    }
}

fn line((range, text): (OffsetRange, String)) -> String {
    format!("{}-{} {text}", range.first, range.last)
}
