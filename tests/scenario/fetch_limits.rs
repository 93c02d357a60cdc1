//! How much a fetch brings, and how long it waits: R-CONS-2 and R-CONS-3 on a cluster; and a record that nobody can read.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::types::Offset;

use crate::dsl::{Cluster, cluster};

/// One partition, a producer of single batches, and a reader that waits for records.
fn with_reader(config: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[("batch.size", "0")]);
    let config = [config, &[("auto.offset.reset", "earliest")]].concat();
    c.consumer("reader", "g", &["t"], &["poll"], &config);
    c.until_event("it knows where to begin", 20_000, |event| matches!(event, Event::PositionSet { .. }));
    c.run_ms(1_000);
    c
}

fn returned(c: &Cluster) -> Vec<i64> {
    let records = |event: &Event| match event {
        Event::Polled { records, .. } => Some(*records),
        _ => None,
    };
    c.events().filter_map(records).collect()
}

#[test]
fn a_fetch_waits_for_so_many_bytes_or_so_long_r_cons_2() {
    let mut c = with_reader(&[("fetch.min.bytes", "600"), ("fetch.max.wait.ms", "20000")]);
    c.send("p", 1);
    c.run_ms(5_000);
    assert_eq!(returned(&c), [0_i64; 0], "one record of some hundred bytes is not enough");
    c.send("p", 9);
    c.run_ms(500);
    let at_once: i64 = returned(&c).iter().sum();
    assert!((4..10).contains(&at_once), "as soon as there are 600 bytes, {at_once}");
    c.run_ms(10_000);
    assert_eq!(returned(&c).iter().sum::<i64>(), at_once, "what is left is not enough either");
    c.run_ms(11_000);
    assert_eq!(returned(&c).iter().sum::<i64>(), 10, "until the time is over");
}

#[test]
fn a_batch_that_is_larger_than_all_limits_comes_alone_r_cons_3() {
    let limits = [("max.partition.fetch.bytes", "500"), ("fetch.max.bytes", "500")];
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    for number in ["one", "two", "three"] {
        c.record("t", "key", Some(number), Some(2_000));
    }
    let config = [&limits[..], &[("auto.offset.reset", "earliest")]].concat();
    c.consumer("reader", "g", &["t"], &["poll", "process 1ms"], &config);
    c.until("it has all", 20_000, |c| c.outcome_of("g", "t") == "delivered 3, processed 3");
    assert_eq!(returned(&c), [1, 1, 1], "a batch with each fetch");
}

/// R-CONS-34: whoever comes to it fails, until the group's offset is set behind it.
#[test]
fn a_poison_pill_stops_every_member_until_somebody_goes_past_it() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    for value in ["four", "poison", "five"] {
        c.record("t", "key", Some(value), None);
    }
    let integers = [
        ("value.deserializer", "org.apache.kafka.common.serialization.IntegerDeserializer"),
        ("auto.offset.reset", "earliest"),
    ];
    let program = ["poll", "process 1ms", "commit"];
    let fails = |c: &mut Cluster, name: &str| {
        c.consumer(name, "g", &["t"], &program, &integers);
        c.until_event("it cannot read the second record", 20_000, |event| {
            matches!(event, Event::RecordUnreadable { offset: Offset(1), .. })
        });
        c.run_ms(5_000);
        assert!(c.world.consumer(&name.into()).is_none(), "it has closed and ended");
    };
    fails(&mut c, "first");
    fails(&mut c, "second");
    assert_eq!(c.outcome_of("g", "t"), "delivered 1, processed 1, waiting 2");
    c.order("reset offsets of group g to t-0=2");
    c.run_ms(2_000);
    c.consumer("third", "g", &["t"], &program, &integers);
    c.until("it reads what is behind", 20_000, |c| {
        c.outcome_of("g", "t") == "delivered 2, processed 2, missed 1"
    });
}
