//! What a pass of the cleaner does when a log cannot be read.

use super::*;
use crate::kafka::event::Event;
use crate::kafka::log::{Log, LogConfig, Origin};

fn record(key: &[u8]) -> Vec<u8> {
    let mut batch = BatchBuilder::new();
    batch.append(&NewRecord { key: Some(key), value: Some(b"a"), ..NewRecord::default() });
    batch.finish(None).into_bytes().to_vec()
}

/// A batch of epoch 0 whose checksum is right and whose only record says that it goes on behind the batch's end.
fn unreadable() -> Bytes {
    let mut bytes = record(b"k");
    bytes[12..16].copy_from_slice(&0i32.to_be_bytes());
    bytes[61] = 0x7e;
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

/// One closed segment of one record, and an active one that is empty.
fn closed(append: impl FnOnce(&mut Log)) -> Log {
    let mut log = Log::new();
    append(&mut log);
    log.maybe_increment_high_watermark(log.log_end_offset());
    log.roll_active(Time::ZERO);
    log
}

/// `LogCleaner.tryCleanFilthiestLog`.
#[test]
fn a_log_that_cannot_be_cleaned_ends_the_pass_before_retention_and_is_left_alone_r_log_39_47() {
    let config = LogConfig::default();
    let broken = closed(|log| {
        log.append_as_follower(Time::ZERO, unreadable(), LeaderEpoch(0), &config)
            .expect("the checksum is right");
    });
    let mut deletable = closed(|log| {
        let bytes = record(b"k").into();
        log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(0), Origin::Client, &config)
            .expect("a sound batch");
    });
    deletable.maybe_increment_log_start_offset(Offset(1));
    let mut bench = bench_of(2);
    bench.image.replay(&MetadataRecord::Config {
        resource: ConfigResource::Topic,
        name: "t".into(),
        key: "cleanup.policy".into(),
        value: Some("compact".into()),
    });
    let mut disk = LogDirectory::default();
    disk.logs.insert(tp_of(0), (topic_id(), broken));
    disk.logs.insert(tp_of(1), (topic_id(), deletable));
    bench.replicas = ReplicaManager::new(BrokerId(1), Rc::default(), disk, Random::stream(1, "sessions"));
    for tp in [tp_of(0), tp_of(1)] {
        bench.step(|replicas, step| {
            let registration = step.image.partition(&tp).expect("replayed").clone();
            replicas.apply(&tp, &registration, step);
        });
    }
    let pass = |bench: &mut Bench| {
        let mut is_cleaned = None;
        let effects = bench.step(|replicas, step| is_cleaned = Some(replicas.clean_filthiest_log(step)));
        let deleted =
            effects.iter().filter(|effect| matches!(effect, Effect::Event(Event::SegmentsDeleted { .. })));
        (is_cleaned, deleted.count())
    };
    assert_eq!(pass(&mut bench), (Some(false), 0), "the thread rests, and retention waits for the next pass");
    assert_eq!(pass(&mut bench), (Some(false), 1), "the log that cannot be read is not tried again");
    let noted = bench.replicas.into_disk().cleaned;
    assert_eq!(noted.get(&tp_of(0)), Some(&Offset(0)), "LogCleanerManager.doneCleaning: where it began");
}
