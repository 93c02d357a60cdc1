use uuid::Uuid;

use super::*;
use crate::kafka::config::BrokerConfig;
use crate::kafka::effects::Channel;
use crate::kafka::share::range::OffsetRange;
use crate::kafka::share::state::RecordState::*;
use crate::kafka::share::state::{RecordState, StateBatch};
use crate::kafka::types::NodeId;

/// A coordinator that leads every partition, and a log for each.
struct Lab {
    coordinator: ShareCoordinator,
    logs: BTreeMap<i32, Vec<CoordinatorRecord>>,
    now: Time,
    requests: i32,
    answered: Vec<Answered>,
    exists: bool,
}

fn config() -> ShareCoordinatorConfig {
    let given = [
        ("share.coordinator.state.topic.num.partitions", "3"),
        ("share.coordinator.snapshot.update.records.per.snapshot", "2"),
    ];
    let given = given.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    BrokerConfig::read(&given).expect("they are sound").share_coordinator
}

fn key(partition: i32) -> ShareKey {
    ShareKey { group: "g".into(), topic_id: TopicId(Uuid::from_u128(7)), partition }
}

fn batch(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    StateBatch { range: OffsetRange::new(Offset(first), Offset(last)), state, delivery_count }
}

fn written(state_epoch: i32, leader_epoch: i32, start: i64, batches: &[StateBatch]) -> Ask {
    Ask::Write(Written {
        state_epoch,
        leader_epoch: LeaderEpoch(leader_epoch),
        start_offset: Some(Offset(start)),
        delivery_complete_count: Some(0),
        batches: batches.to_vec(),
    })
}

const INITIALIZE: Ask = Ask::Initialize { state_epoch: 0, start_offset: None };

fn read(leader_epoch: i32) -> Ask {
    Ask::Read { leader_epoch: LeaderEpoch(leader_epoch) }
}

fn state(start: Option<i64>, batches: &[StateBatch]) -> Result<Answer, ErrorCode> {
    Ok(Answer::State { state_epoch: 0, start_offset: start.map(Offset), batches: batches.to_vec() })
}

impl Lab {
    fn new() -> Lab {
        let mut coordinator = ShareCoordinator::new(config());
        let mut fx = ShareEffects::default();
        for partition in 0..3 {
            assert!(coordinator.on_elected(partition, LeaderEpoch(0)));
            let empty = std::iter::empty();
            coordinator.on_loaded(Time::ZERO, partition, empty, Offset::ZERO, &mut fx).expect("it is empty");
        }
        Lab {
            coordinator,
            logs: BTreeMap::new(),
            now: Time::ZERO,
            requests: 0,
            answered: Vec::new(),
            exists: true,
        }
    }

    fn send(&mut self, asks: &[(ShareKey, Ask)]) -> ShareEffects {
        self.requests += 1;
        let id = RequestId {
            from: NodeId::Client(1),
            channel: Channel::Main,
            connection: 1,
            correlation: self.requests,
            version: ApiKey::WriteShareGroupState.version(),
        };
        let mut fx = ShareEffects::default();
        let exists = self.exists;
        let api = ApiKey::WriteShareGroupState;
        self.coordinator.ask(self.now, (id, api), asks.to_vec(), &|_| exists, &mut fx);
        fx
    }

    /// Takes appends into the logs; the high watermarks stay where they are.
    fn append(&mut self, fx: ShareEffects) {
        self.answered.extend(fx.answered);
        for append in fx.appends {
            let log = self.logs.entry(append.partition).or_default();
            log.extend(append.records);
            let last = Offset(log.len() as i64 - 1);
            let mut fx = ShareEffects::default();
            self.coordinator.on_appended(self.now, append.partition, append.token, last, &mut fx);
            self.answered.extend(fx.answered);
        }
    }

    fn commit(&mut self) {
        for partition in 0..3 {
            let end = Offset(self.logs.get(&partition).map_or(0, Vec::len) as i64);
            let mut fx = ShareEffects::default();
            self.coordinator.on_high_watermark(self.now, partition, end, &mut fx);
            self.answered.extend(fx.answered);
        }
    }

    /// Asked, written and committed.
    fn ask(&mut self, ask: Ask) -> Result<Answer, ErrorCode> {
        let fx = self.send(&[(key(0), ask)]);
        self.append(fx);
        self.commit();
        let answered = self.answered.pop().expect("everything is committed");
        answered.answers[0].1.clone()
    }

    fn log(&self) -> Vec<ShareRecord> {
        let log = self.logs.get(&key(0).coordinator_partition(3)).into_iter().flatten();
        log.filter_map(|record| {
            ShareRecord::decode(&record.key, record.value.as_deref()).expect("it was written")
        })
        .collect()
    }

    /// Another broker takes over with what is in the logs.
    fn fail_over(&mut self, high_watermark_back_by: i64) {
        let mut coordinator = ShareCoordinator::new(config());
        let mut fx = ShareEffects::default();
        for partition in 0..3 {
            coordinator.on_elected(partition, LeaderEpoch(1));
            let log = self.logs.entry(partition).or_default().clone();
            let high_watermark = Offset((log.len() as i64 - high_watermark_back_by).max(0));
            let records = (0..).map(Offset).zip(log);
            coordinator
                .on_loaded(self.now, partition, records, high_watermark, &mut fx)
                .expect("it was written");
        }
        self.coordinator = coordinator;
    }
}

#[test]
fn nothing_is_known_before_the_group_coordinator_has_begun_the_state_r_share_3() {
    let mut lab = Lab::new();
    assert_eq!(lab.ask(read(1)), Err(ErrorCode::InvalidRequest));
    assert_eq!(lab.ask(written(0, 1, 0, &[])), Err(ErrorCode::InvalidRequest));
    let nothing = Summary {
        state_epoch: 0,
        leader_epoch: LeaderEpoch(0),
        start_offset: None,
        delivery_complete_count: None,
    };
    assert_eq!(lab.ask(Ask::ReadSummary), Ok(Answer::Summary(nothing)));
    assert_eq!(lab.ask(Ask::Delete), Ok(Answer::Done));
    assert!(lab.log().is_empty());
    assert_eq!(lab.ask(INITIALIZE), Ok(Answer::Done));
    assert_eq!(lab.ask(read(1)), state(None, &[]));
}

#[test]
fn writes_are_put_together_and_read_back_r_share_14() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    lab.ask(read(1)).expect("it is read");
    lab.ask(written(0, 1, 0, &[batch(0, 1, Acknowledged, 1), batch(2, 3, Available, 1)]))
        .expect("it is written");
    lab.ask(written(0, 1, 2, &[batch(2, 2, Archived, 2)])).expect("it is written");
    let expected = [batch(2, 2, Archived, 2), batch(3, 3, Available, 1)];
    assert_eq!(lab.ask(read(1)), state(Some(2), &expected));
    lab.fail_over(0);
    assert_eq!(lab.ask(read(2)), state(Some(2), &expected), "the next coordinator knows it all");
}

#[test]
fn an_older_leader_persists_nothing_r_share_14() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    lab.ask(read(5)).expect("it is read");
    assert_eq!(lab.ask(written(0, 4, 0, &[])), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(lab.ask(read(4)), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(lab.ask(written(0, 5, 0, &[])), Ok(Answer::Done));
    assert!(lab.ask(read(-1)).is_ok(), "an administrator names no epoch");
}

#[test]
fn a_state_that_began_anew_fences_those_who_know_the_old_one_r_share_15() {
    let mut lab = Lab::new();
    lab.ask(Ask::Initialize { state_epoch: 1, start_offset: Some(Offset(2)) }).expect("it begins");
    assert_eq!(lab.ask(written(0, 1, 0, &[])), Err(ErrorCode::FencedStateEpoch));
    assert_eq!(lab.ask(INITIALIZE), Err(ErrorCode::FencedStateEpoch));
    let summary = Summary {
        state_epoch: 1,
        leader_epoch: LeaderEpoch(0),
        start_offset: Some(Offset(2)),
        delivery_complete_count: Some(0),
    };
    assert_eq!(lab.ask(Ask::ReadSummary), Ok(Answer::Summary(summary)));
}

#[test]
fn topics_that_are_gone_are_refused_and_forgotten() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    let mut fx = ShareEffects::default();
    lab.coordinator.on_topics_deleted(lab.now, |id| id == key(0).topic_id, &mut fx);
    lab.append(fx);
    lab.commit();
    assert_eq!(lab.coordinator.state(&key(0)), None);
    lab.exists = false;
    for ask in [INITIALIZE, Ask::ReadSummary, Ask::Delete] {
        assert_eq!(lab.ask(ask), Err(ErrorCode::UnknownTopicOrPartition));
    }
}

#[test]
fn after_some_updates_there_is_a_snapshot_of_all() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    for offset in 0..4 {
        lab.ask(written(0, 0, 0, &[batch(offset, offset, Acknowledged, 1)])).expect("it is written");
    }
    let kinds: Vec<_> = lab
        .log()
        .iter()
        .map(|record| match &record.change {
            Change::Snapshot(state) => {
                format!("snapshot {} of {}", state.snapshot_epoch, state.batches.len())
            }
            Change::Update(update) => format!("update of {}", update.snapshot_epoch),
            Change::Deleted => "tombstone".to_string(),
        })
        .collect();
    assert_eq!(kinds, ["snapshot 0 of 0", "update of 0", "update of 0", "snapshot 1 of 1", "update of 1"]);
    let shard = lab.coordinator.shards().find(|(_, shard)| shard.states().get(&key(0)).is_some());
    let (_, shard) = shard.expect("it is kept");
    assert_eq!(shard.states().redundant_before(), Some(Offset(3)));
}

/// `ShareCoordinatorOffsetsManager` counts a tombstone as the last that is needed of its state.
#[test]
fn a_deleted_state_makes_what_is_before_it_needless_r_share_3() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    assert_eq!(lab.coordinator.prunable(), []);
    lab.ask(written(0, 0, 0, &[batch(0, 0, Acknowledged, 1)])).expect("it is written");
    assert_eq!(lab.ask(Ask::Delete), Ok(Answer::Done));
    let partition = key(0).coordinator_partition(3);
    assert_eq!(lab.coordinator.prunable(), [(partition, Offset(2))]);
    lab.coordinator.on_pruned(partition, Offset(2));
    assert_eq!(lab.coordinator.prunable(), [], "it was done already");
}

#[test]
fn what_is_quiet_for_long_gets_a_snapshot_while_others_are_at_work() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    lab.now = lab.now.plus_ms(300_000);
    for expected in [1, 0] {
        let mut fx = ShareEffects::default();
        lab.coordinator.write_cold_snapshots(lab.now, &mut fx);
        assert_eq!(fx.appends.len(), expected);
        lab.append(fx);
        lab.commit();
        lab.now = lab.now.plus_ms(300_000);
    }
}

#[test]
fn answers_wait_for_the_high_watermark_and_so_do_those_who_read_what_is_written_r_share_3() {
    let mut lab = Lab::new();
    let fx = lab.send(&[(key(0), INITIALIZE)]);
    lab.append(fx);
    let fx = lab.send(&[(key(0), read(0))]);
    assert!(fx.appends.is_empty(), "the epoch is known");
    lab.append(fx);
    let fx = lab.send(&[(key(0), Ask::ReadSummary)]);
    lab.append(fx);
    let summary = lab.answered.pop().expect("it tells what is committed");
    assert!(matches!(summary.answers[0].1, Ok(Answer::Summary(Summary { start_offset: None, .. }))));
    assert!(lab.answered.is_empty());
    lab.commit();
    assert_eq!(lab.answered.len(), 2);
}

#[test]
fn a_request_is_answered_when_all_its_parts_are() {
    let mut lab = Lab::new();
    let asks: Vec<_> =
        (0..4).map(|partition| (key(partition), INITIALIZE)).chain([(key(-1), INITIALIZE)]).collect();
    let fx = lab.send(&asks);
    assert!(fx.answered.is_empty());
    lab.append(fx);
    lab.commit();
    let answered = lab.answered.pop().expect("all is written");
    let outcomes: Vec<_> =
        answered.answers.iter().map(|(key, outcome)| (key.partition, outcome.clone())).collect();
    let done = Ok(Answer::Done);
    let expected = [
        (0, done.clone()),
        (1, done.clone()),
        (2, done.clone()),
        (3, done),
        (-1, Err(ErrorCode::InvalidRequest)),
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_write_that_the_log_refuses_is_taken_back_r_share_3() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    let fx = lab.send(&[(key(0), written(0, 0, 5, &[]))]);
    let append = &fx.appends[0];
    let mut after = ShareEffects::default();
    lab.coordinator.on_append_failed(
        lab.now,
        append.partition,
        append.token,
        ErrorCode::NotEnoughReplicas,
        &mut after,
    );
    assert_eq!(after.answered[0].answers[0].1, Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(lab.ask(read(0)), state(None, &[]));
}

#[test]
fn whoever_waits_too_long_or_at_the_wrong_broker_is_told_so() {
    let mut lab = Lab::new();
    let fx = lab.send(&[(key(0), INITIALIZE)]);
    let (partition, token) = (fx.appends[0].partition, fx.appends[0].token);
    lab.append(fx);
    let mut fx = ShareEffects::default();
    lab.coordinator.on_timer(lab.now, &ShareTimer::Write { partition, token }, &mut fx);
    assert_eq!(fx.answered[0].answers[0].1, Err(ErrorCode::CoordinatorNotAvailable));
    lab.commit();
    assert!(lab.answered.is_empty());
    assert_eq!(lab.ask(read(0)), state(None, &[]), "it was written all the same");

    let fx = lab.send(&[(key(0), written(0, 0, 5, &[]))]);
    lab.append(fx);
    let mut fx = ShareEffects::default();
    lab.coordinator.on_resigned(lab.now, partition, &mut fx);
    assert_eq!(fx.answered[0].answers[0].1, Err(ErrorCode::NotCoordinator));
    assert_eq!(lab.ask(read(0)), Err(ErrorCode::NotCoordinator));
    lab.coordinator.on_elected(partition, LeaderEpoch(3));
    assert_eq!(lab.ask(read(0)), Err(ErrorCode::CoordinatorLoadInProgress));
}

#[test]
fn what_is_not_committed_when_a_coordinator_takes_over_is_told_later() {
    let mut lab = Lab::new();
    lab.ask(INITIALIZE).expect("it begins");
    lab.ask(written(0, 0, 5, &[])).expect("it is written");
    lab.fail_over(1);
    assert_eq!(lab.coordinator.state(&key(0)).and_then(|state| state.start_offset), None);
    lab.commit();
    assert_eq!(lab.coordinator.state(&key(0)).and_then(|state| state.start_offset), Some(Offset(5)));
}
