//! Logs on their disks.

use super::*;
use crate::kafka::log::Contents;

fn moved(partition: i32, leader: bool, reason: LogStartReason) -> Event {
    let (broker, from, to) = (BrokerId(1), Offset(0), Offset(42));
    Event::LogStartMoved { broker, tp: tp(partition), leader, from, to, reason }
}

#[test]
fn a_log_start_that_moves_is_told_of_the_leader_with_its_reason() {
    check(
        &[
            (1, moved(0, true, LogStartReason::Time { retention_ms: 60_000 })),
            (1, moved(1, true, LogStartReason::Size { retention_bytes: 300 })),
            (1, moved(1, false, LogStartReason::Size { retention_bytes: 300 })),
            (2, moved(2, true, LogStartReason::DeleteRecords)),
            (3, moved(2, false, LogStartReason::Leader)),
        ],
        expect![[r#"
            00:00.001  orders-0: log start moved from 0 to 42 (R-LOG-35)
                Info: The newest record of the segments that went was older than retention.ms, 1 min.
            00:00.001  orders-1: log start moved from 0 to 42 (R-LOG-34)
                Info: Without the segments that went the log still has retention.bytes, 300 bytes.
            00:00.002  orders-2: log start moved from 0 to 42 (R-LOG-37)
                Info: Somebody asked for it; a segment goes when every record of it lies below the start.
        "#]],
    );
    let many: Vec<(i64, Event)> =
        (0..4).map(|partition| (1, moved(partition, true, LogStartReason::DeleteRecords))).collect();
    check_lines(&many, expect!["00:00.001  orders: log start moved in 4 partitions (R-LOG-37)"]);
}

#[test]
fn segments_that_go_and_logs_that_are_compacted_are_told_once() {
    let deleted = |leader| Event::SegmentsDeleted {
        broker: BrokerId(1),
        tp: tp(0),
        leader,
        segments: 2,
        log_start_offset: Offset(42),
    };
    let cleaned = |tp, leader| Event::LogCleaned {
        broker: BrokerId(1),
        tp,
        leader,
        from: Offset(0),
        to: Offset(120),
        before: Contents { records: 120, bytes: 9_800 },
        after: Contents { records: 14, bytes: 1_200 },
        gone: (0..106).map(Offset).collect(),
    };
    check(
        &[
            (1, deleted(true)),
            (2, deleted(false)),
            (3, cleaned(tp(0), true)),
            (4, cleaned(tp(0), false)),
            (5, cleaned(offsets_tp(9), true)),
        ],
        expect![[r#"
            00:00.001  orders-0: 2 segments below the log start 42 deleted (R-LOG-31)
                Info
            00:00.003  orders-0 compacted on broker 1: 120 to 14 records, 9800 to 1200 bytes (R-LOG-40, R-LOG-41, R-LOG-43)
                Info: Below offset 120 the last record of each key stays, at its offset; the active segment is not touched.
        "#]],
    );
}

#[test]
fn a_power_failure_a_wiped_disk_and_a_recovery_are_told_of_the_broker() {
    let act = |act| Event::Process { node: super::broker(2), name: name("broker-2"), act };
    let broker = BrokerId(2);
    check(
        &[
            (1, act(Act::PowerCut)),
            (
                1,
                Event::UnflushedLost {
                    broker,
                    ends: (0..3).map(|p| (tp(p), Offset(40))).collect(),
                    offsets: 120,
                },
            ),
            (2, Event::DiskWiped { broker }),
            (3, Event::LogsRecovered { broker, logs: 7, segments: 8 }),
        ],
        expect![[r#"
            00:00.001  broker 2 has no power: its connections say nothing more
                Bad: Nobody closes them: the others notice by the timeouts of the requests they wait for.
            00:00.001  broker 2 lost 120 records of 3 partitions that were not flushed
                Bad: Kafka acknowledges what is in the page cache of the in-sync replicas; flush.messages and flush.ms are off by default.
            00:00.002  broker 2: everything on its disk is gone
                Bad: When it starts it has no log, and copies what it is to have from the leaders.
            00:00.003  broker 2 did not stop in order: it reads 8 segments of 7 logs again
                Info: From its recovery point on a log may have been written in part; high watermarks and log starts are those noted last.
        "#]],
    );
}
