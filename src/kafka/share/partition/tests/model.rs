//! A share partition against a plain list of records: whatever members do, both say the same of each.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MEMBERS: [&str; 3] = ["s1", "s2", "s3"];
const LOCK_MS: i64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    /// A batch of so many records is appended to the log.
    Append(i64),
    Acquire {
        by: usize,
        max: i64,
        is_strict: bool,
    },
    /// Of what was handed out so many acts ago: from a part of the range to its end, with types in turn.
    Acknowledge {
        by: usize,
        ago: usize,
        skip: i64,
        types: Vec<i8>,
    },
    Leave(usize),
    Wait(i64),
    /// The oldest write's outcome.
    Written(bool),
    /// The log's start moves by so many records.
    DropFromLog(i64),
    /// Another leader reads back what was persisted.
    MoveLeader,
}

fn step() -> impl Strategy<Value = Step> {
    let member = 0..MEMBERS.len();
    let types = prop_oneof![
        6 => (1..=4_i8).prop_map(|kind| vec![kind]),
        2 => prop::collection::vec(0..=4_i8, 12),
    ];
    prop_oneof![
        6 => (1..=10_i64).prop_map(Step::Append),
        12 => (member.clone(), 1..=12_i64, any::<bool>()).prop_map(|(by, max, is_strict)| Step::Acquire { by, max, is_strict }),
        12 => (member.clone(), 0..4_usize, 0..3_i64, types).prop_map(|(by, ago, skip, types)| Step::Acknowledge { by, ago, skip, types }),
        2 => member.prop_map(Step::Leave),
        4 => (0..LOCK_MS).prop_map(Step::Wait),
        12 => prop_oneof![4 => Just(true), 1 => Just(false)].prop_map(Step::Written),
        1 => (1..6_i64).prop_map(Step::DropFromLog),
        1 => Just(Step::MoveLeader),
    ]
}

/// What is known of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelRecord {
    state: RecordState,
    count: i16,
    holder: Option<&'static str>,
    lock_ends: Option<Time>,
    /// When a lock ends that an old one was in the way of.
    stray: Option<Time>,
    /// What it was before a write that is under way, and which one.
    before: Option<(WriteId, RecordState, Option<&'static str>)>,
}

struct Run {
    share: Share,
    log: Vec<OffsetRange>,
    log_start: i64,
    /// Below it nothing is known here any more.
    known_from: i64,
    records: BTreeMap<i64, ModelRecord>,
    persisted: BTreeMap<i64, (RecordState, i16)>,
    persisted_start: i64,
    handed_out: Vec<OffsetRange>,
    writes: Vec<StateWrite>,
}

impl Run {
    fn new() -> Run {
        let mut share = share();
        share.settings.record_lock_duration_ms = LOCK_MS;
        share.settings.max_record_locks = 30;
        share.settings.delivery_count_limit = 3;
        share.batch_size = 4;
        Run {
            share,
            log: Vec::new(),
            log_start: 0,
            known_from: 0,
            records: BTreeMap::new(),
            persisted: BTreeMap::new(),
            persisted_start: 0,
            handed_out: Vec::new(),
            writes: Vec::new(),
        }
    }

    fn limit(&self) -> i16 {
        self.share.settings.delivery_count_limit
    }

    fn start(&self) -> i64 {
        self.share.partition.start_offset().0
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(records) => {
                let base = self.log.last().map_or(0, |batch| batch.last.0 + 1);
                self.log.push(range(base, base + records - 1));
            }
            Step::Acquire { by, max, is_strict } => self.acquire(MEMBERS[by], max, is_strict),
            Step::Acknowledge { by, ago, skip, types } => self.acknowledge(MEMBERS[by], ago, skip, &types),
            Step::Leave(by) => self.leave(MEMBERS[by]),
            Step::Wait(ms) => self.wait(ms),
            Step::Written(is_written) => self.written(is_written),
            Step::DropFromLog(records) => self.drop_from_log(records),
            Step::MoveLeader => self.move_leader(),
        }
        self.compare();
    }

    fn acquire(&mut self, by: &'static str, max: i64, is_strict: bool) {
        if !self.share.partition.can_acquire(&self.share.settings) {
            return;
        }
        let from = self.share.partition.next_fetch_offset();
        if from.0 < self.log_start {
            self.share.partition.log_start_moved(Offset(self.log_start));
            self.sweep();
            self.forget_changes();
            return;
        }
        let batches: Vec<_> = self.log.iter().copied().filter(|batch| batch.last >= from).take(3).collect();
        let mode = if is_strict { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized };
        let name = member(by);
        let batch_size = self.share.batch_size;
        let by_whom = Acquirer { member: &name, mode, batch_size, max_records: max, fetch_offset: from };
        let fetched = Fetched { batches: &batches, aborted: &[] };
        let acquired = self.share.partition.acquire(&by_whom, fetched, &self.share.settings, self.share.now);
        let Ok(acquired) = acquired else { return self.take_up_clash(by) };
        let count: i64 = acquired.iter().map(|acquired| acquired.range.count()).sum();
        assert!(!is_strict || count <= max, "{count} records where {max} were asked for");
        for Acquired { range, delivery_count } in acquired {
            self.handed_out.push(range);
            for offset in range.offsets() {
                let known = self.records.get(&offset.0);
                let is_free = known.is_none_or(|r| r.state == RecordState::Available && r.before.is_none());
                assert!(is_free, "{offset} was handed out and is {known:?}");
                assert_eq!(delivery_count, known.map_or(0, |record| record.count) + 1, "{offset}");
                let stray = known.and_then(|record| record.stray);
                let record = ModelRecord {
                    state: RecordState::Acquired,
                    count: delivery_count,
                    holder: Some(by),
                    lock_ends: Some(self.share.now.plus_ms(LOCK_MS)),
                    stray,
                    before: None,
                };
                self.records.insert(offset.0, record);
            }
        }
    }

    fn acknowledge(&mut self, by: &'static str, ago: usize, skip: i64, types: &[i8]) {
        let Some(place) = self.handed_out.len().checked_sub(1 + ago) else { return };
        let given = self.handed_out[place];
        let said = range((given.first.0 + skip).min(given.last.0), given.last.0);
        let types: Vec<_> = types.iter().filter_map(|id| AcknowledgeType::from_id(*id)).collect();
        let result = self.share.try_acknowledge(by, said.first.0, &types, said.last.0);
        let meant = || said.offsets().map(|offset| offset.0).filter(|offset| *offset >= self.start());
        let type_of = |offset: i64| match types.len() {
            1 => Some(types[0]),
            _ => types.get((offset - said.first.0) as usize).copied(),
        };
        let is_sound = meant().all(|offset| {
            let record = self.records.get(&offset);
            record.is_some_and(|record| record.holder == Some(by) && record.before.is_none())
                && type_of(offset).is_some()
        });
        assert_eq!(result.is_ok(), is_sound, "{by} on {said:?}: {result:?}");
        let Ok(write) = result else {
            return self.take_up_renewals(by, said);
        };
        let limit = self.limit();
        for offset in meant().collect::<Vec<_>>() {
            let record = self.records.get_mut(&offset).expect("it is held");
            let kind = type_of(offset).expect("each has one");
            match (kind.outcome(), &write) {
                (None, _) => record.lock_ends = Some(self.share.now.plus_ms(LOCK_MS)),
                (Some(next), Some(write)) => change(record, next, limit, write.id),
                (Some(_), None) => panic!("{kind:?} is not persisted"),
            }
        }
        self.writes.extend(write);
    }

    /// What is refused takes back acknowledgements, but no renewal that came before the one that is wrong.
    fn take_up_renewals(&mut self, by: &'static str, said: OffsetRange) {
        for (range, state) in self.share.partition.in_flight() {
            for offset in range.offsets().filter(|offset| said.contains(*offset)) {
                let record = self.records.get_mut(&offset.0).filter(|record| record.holder == Some(by));
                if let Some((record, ends)) = record.zip(state.lock_ends()) {
                    let renewed = self.share.now.plus_ms(LOCK_MS);
                    // Which of two timers is the stray one makes no difference: the first of them ends the lock.
                    let is_known = [record.lock_ends, record.stray].contains(&Some(ends));
                    assert!(is_known || ends == renewed, "{offset}");
                    if !is_known {
                        record.lock_ends = Some(ends);
                    }
                }
            }
        }
    }

    fn leave(&mut self, by: &'static str) {
        let write = self.share.partition.release_member(&member(by), &self.share.settings);
        let (limit, start) = (self.limit(), self.start());
        for (offset, record) in &mut self.records {
            if record.holder == Some(by) && *offset >= start {
                let write = write.as_ref().expect("it held something");
                change(record, RecordState::Available, limit, write.id);
            }
        }
        self.writes.extend(write);
    }

    /// A lock ends once: what it does not free then, it frees no more, or by the outcome of a write.
    fn wait(&mut self, ms: i64) {
        let before = self.share.now;
        self.share.now = before.plus_ms(ms);
        let (now, limit) = (self.share.now, self.limit());
        self.writes.extend(self.share.partition.end_locks(now, &self.share.settings));
        for record in self.records.values_mut() {
            let ends_now = |ends: Option<Time>| ends.is_some_and(|ends| before < ends && ends <= now);
            let has_ended = ends_now(record.lock_ends) || ends_now(record.stray);
            record.stray = record.stray.filter(|ends| *ends > now);
            if has_ended && record.state == RecordState::Acquired && record.before.is_none() {
                record.state =
                    if record.count >= limit { RecordState::Archived } else { RecordState::Available };
                record.holder = None;
                record.lock_ends = None;
            }
        }
    }

    fn written(&mut self, is_written: bool) {
        if self.writes.is_empty() {
            return;
        }
        let write = self.writes.remove(0);
        self.share.partition.written(write.id, is_written);
        if is_written {
            self.persisted_start = self.persisted_start.max(write.start_offset.0);
            for batch in &write.batches {
                for offset in batch.range.offsets() {
                    self.persisted.insert(offset.0, (batch.state, batch.delivery_count));
                }
            }
        }
        let (now, limit) = (self.share.now, self.limit());
        for record in self.records.values_mut() {
            let Some((_, state, holder)) = record.before.take_if(|before| before.0 == write.id) else {
                continue;
            };
            if is_written {
                record.lock_ends = None;
                continue;
            }
            (record.state, record.holder) = (state, holder);
            if record.lock_ends.is_some_and(|ends| ends <= now) {
                let is_worn = record.count >= limit;
                record.state = if is_worn { RecordState::Archived } else { RecordState::Available };
                (record.holder, record.lock_ends) = (None, None);
            }
        }
    }

    fn drop_from_log(&mut self, records: i64) {
        let end = self.log.last().map_or(0, |batch| batch.last.0 + 1);
        self.log_start = (self.log_start + records).min(end);
        self.share.partition.log_start_moved(Offset(self.log_start));
        self.sweep();
        self.forget_changes();
    }

    /// What was being released where the log is cut is available, and keeps its lock.
    fn forget_changes(&mut self) {
        for (range, _) in self.share.partition.in_flight().filter(|(_, state)| !state.is_changing()) {
            for offset in range.offsets() {
                let record = self.records.get_mut(&offset.0).filter(|record| record.before.is_some());
                if let Some(record) = record {
                    assert_eq!(record.state, RecordState::Available, "{offset}");
                    record.before = None;
                }
            }
        }
    }

    /// An old lock was in the way. What was acquired before that is nobody's to tell of.
    fn take_up_clash(&mut self, by: &'static str) {
        let is_locked = |record: &ModelRecord| {
            record.state == RecordState::Available && record.before.is_none() && record.lock_ends.is_some()
        };
        assert!(self.records.values().any(is_locked), "nothing was in the way");
        for (range, state) in self.share.partition.in_flight() {
            let has_it = state.holder().is_some_and(|holder| holder.as_str() == by);
            for offset in range.offsets().filter(|_| has_it) {
                let record = ModelRecord {
                    state: state.state(),
                    count: state.delivery_count(),
                    holder: Some(by),
                    lock_ends: state.lock.map(|lock| lock.ends),
                    stray: state.stray,
                    before: None,
                };
                self.records.insert(offset.0, record);
            }
        }
        self.sweep();
    }

    /// What lies below the start is nobody's business here any more.
    fn sweep(&mut self) {
        let start = self.start();
        self.records.retain(|offset, _| *offset >= start);
        self.known_from = start;
    }

    fn move_leader(&mut self) {
        let start = self.persisted_start;
        self.persisted.retain(|offset, _| *offset >= start);
        let batches: Vec<_> = self
            .persisted
            .iter()
            .map(|(offset, (state, delivery_count))| StateBatch {
                range: range(*offset, *offset),
                state: *state,
                delivery_count: *delivery_count,
            })
            .collect();
        self.share.partition =
            SharePartition::new(LeaderEpoch(2), 0, Offset(start), &batches).expect("it is sound");
        self.writes.clear();
        let read_back = |(offset, (state, count)): (&i64, &(RecordState, i16))| {
            (
                *offset,
                ModelRecord {
                    state: *state,
                    count: *count,
                    holder: None,
                    lock_ends: None,
                    stray: None,
                    before: None,
                },
            )
        };
        self.records = self.persisted.iter().map(read_back).collect();
        self.known_from = start;
    }

    /// Every record from the start on is what the model says, and the start stands before what is not done. The start may
    /// fall back to a gap below what the model knows.
    fn compare(&self) {
        let start = self.start();
        let mut done = 0;
        for (range, state) in self.share.partition.in_flight() {
            for offset in range.offsets().filter(|offset| offset.0 >= start.max(self.known_from)) {
                let holder = state.holder().map(MemberId::as_str);
                let seen = (state.state(), holder, state.is_changing());
                let expected = match self.records.get(&offset.0) {
                    Some(record) => (record.state, record.holder, record.before.is_some()),
                    None => (RecordState::Available, None, false),
                };
                assert_eq!(seen, expected, "{offset}");
                let count = self.records.get(&offset.0).map_or(0, |record| record.count);
                assert_eq!(state.delivery_count(), count, "{offset}");
                done += i32::from(state.state().is_final());
            }
        }
        assert_eq!(self.share.partition.delivery_complete_count(), done);
        let is_done = |record: &ModelRecord| record.state.is_final() && record.before.is_none();
        for offset in self.log_start..start {
            assert!(self.records.get(&offset).is_none_or(is_done), "the start {start} passed {offset}");
        }
    }

    /// All that is left is handed out, in however many answers, and accepted.
    fn drain(&mut self) {
        while !self.writes.is_empty() {
            self.step(Step::Written(true));
        }
        self.step(Step::Wait(LOCK_MS));
        let end = self.log.last().map_or(0, |batch| batch.last.0 + 1);
        for _ in 0..500 {
            while !self.writes.is_empty() {
                self.step(Step::Written(true));
            }
            if self.is_all_done(end) || self.asks_in_vain() {
                return;
            }
            let known = self.handed_out.len();
            self.step(Step::Wait(LOCK_MS));
            self.step(Step::Acquire { by: 0, max: 12, is_strict: false });
            for place in known..self.handed_out.len() {
                let ago = self.handed_out.len() - 1 - place;
                self.step(Step::Acknowledge { by: 0, ago, skip: 0, types: vec![1] });
            }
        }
        panic!("not all is done up to {end}: {}", self.share.picture());
    }

    /// What the log has dropped is asked for, and no more of it is handed out until the log begins behind all that is in
    /// flight, as in Kafka.
    fn asks_in_vain(&mut self) -> bool {
        self.share.partition.next_fetch_offset().0 < self.log_start
    }

    /// The start itself moves with the next write only.
    fn is_all_done(&mut self, end: i64) -> bool {
        let next = self.share.partition.next_fetch_offset();
        let start = self.share.partition.start_offset();
        let mut in_flight = self.share.partition.in_flight().filter(|(range, _)| range.last >= start);
        next.0 >= end && in_flight.all(|(_, state)| state.state().is_final())
    }
}

fn change(record: &mut ModelRecord, next: RecordState, limit: i16, write: WriteId) {
    record.before = Some((write, record.state, record.holder));
    let is_worn = next == RecordState::Available && record.count >= limit;
    record.state = if is_worn { RecordState::Archived } else { next };
    record.holder = None;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// R-SHARE-1, 5, 7, 8, 11, 14.
    #[test]
    fn every_record_goes_to_one_member_at_a_time_and_ends_done(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.drain();
    }
}
