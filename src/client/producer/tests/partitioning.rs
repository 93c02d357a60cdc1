//! Which partition records go to, with and without keys.

use super::*;

fn keyless(rate: &str, config: &[(&str, &str)]) -> ProducerSpec {
    spec(rate, "none", config)
}

/// The partitions of the next batches, each accepted at once.
fn partitions(bench: &mut Bench, batches: usize) -> Vec<i32> {
    let next = |_| {
        let sent = bench.next();
        bench.accept(&sent);
        assert_eq!(sent.batches.len(), 1);
        sent.batches[0].0
    };
    (0..batches).map(next).collect()
}

/// How long the first runs of one partition are.
fn runs(partitions: &[i32]) -> Vec<usize> {
    partitions.chunk_by(|a, b| a == b).map(<[i32]>::len).collect()
}

#[test]
fn keyless_records_stay_with_a_partition_for_16384_bytes_a07_r_prod_11() {
    let check = |value_size, batches| {
        let spec = ProducerSpec { value_size: Some(value_size), ..keyless("1/s", &[]) };
        let all = partitions(&mut Bench::of(spec, &[1, 1, 1]), 3 * batches);
        let turns = runs(&all);
        // A turn may fall to the same partition again.
        assert!(turns[0].is_multiple_of(batches) && turns.len() > 1, "{turns:?}");
    };
    check(10, 211);
    check(100, 97);
}

#[test]
fn long_queues_get_fewer_records_r_prod_12() {
    let shares = |adaptive: &str| {
        let config = [
            ("batch.size", "100"),
            ("linger.ms", "0"),
            ("partitioner.adaptive.partitioning.enable", adaptive),
        ];
        let mut bench = Bench::of(keyless("100/s", &config), &[1, 2]);
        let mut records = [0, 0];
        for _ in 0..2000 {
            bench.run_for(10);
            let (fast, slow): (Vec<Produced>, Vec<Produced>) =
                bench.produced.drain(..).partition(|sent| sent.broker() == NodeId::Broker(BrokerId(1)));
            bench.produced.extend(slow);
            for sent in fast {
                records[0] += sent.batches[0].1.record_count();
                bench.accept(&sent);
            }
        }
        records[1] = bench.producer.batches(bench.now).map(|batch| batch.records).sum();
        records
    };
    let [fast, slow] = shares("true");
    assert!(fast > 10 * slow, "{fast} against {slow}: the broker that does not answer is avoided");
    let [fast, slow] = shares("false");
    assert!(fast < 2 * slow, "{fast} against {slow}");
}

#[test]
fn a_broker_that_takes_nothing_is_left_out_after_the_availability_timeout_r_prod_12() {
    let config = [("batch.size", "100"), ("linger.ms", "0"), ("partitioner.availability.timeout.ms", "500")];
    let mut bench = Bench::of(keyless("100/s", &config), &[1, 2]);
    let mut waiting = 0;
    for round in 0..400 {
        bench.run_for(10);
        while let Some(place) =
            bench.produced.iter().position(|sent| sent.broker() == NodeId::Broker(BrokerId(1)))
        {
            let sent = bench.produced.remove(place).unwrap();
            bench.accept(&sent);
        }
        let now_waiting = bench.producer.batches(bench.now).filter(|batch| batch.tp.partition == 1).count();
        if round > 120 {
            assert_eq!(now_waiting, waiting, "after 1.2 s partition 1 gets nothing");
        }
        waiting = now_waiting;
    }
    assert!(waiting > 1, "it had its share before: {waiting}");
}

#[test]
fn only_partitions_with_a_leader_have_a_turn_r_prod_12() {
    let config = [("batch.size", "0"), ("linger.ms", "0")];
    let mut bench = Bench::of(keyless("10/s", &config), &[1, -1, 1]);
    let chosen: BTreeSet<i32> = partitions(&mut bench, 40).into_iter().collect();
    assert_eq!(chosen, BTreeSet::from([0, 2]));
}

#[test]
fn round_robin_gives_each_partition_its_turn_whatever_the_key_r_prod_13() {
    let config = [
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        ("linger.ms", "0"),
    ];
    for keys in ["cart-{0..7}", "none", "one"] {
        let mut bench = Bench::of(spec("10/s", keys, &config), &[1, 1, 1]);
        assert_eq!(partitions(&mut bench, 7), [0, 1, 2, 0, 1, 2, 0]);
    }
}

#[test]
fn ignored_keys_are_as_none_and_are_still_sent_r_prod_9() {
    let config = [("partitioner.ignore.keys", "true"), ("linger.ms", "0")];
    let mut bench = Bench::of(spec("10/s", "cart-{0..7}", &config), &[1, 1, 1]);
    let mut chosen = BTreeSet::new();
    for _ in 0..100 {
        let sent = bench.next();
        bench.accept(&sent);
        chosen.insert(sent.batches[0].0);
        assert!(sent.batches[0].1.records().unwrap()[0].key.is_some());
    }
    assert_eq!(chosen.len(), 1, "eight keys, and one partition until it has a batch's worth");
}

#[test]
fn a_record_that_names_its_partition_goes_there_r_prod_9() {
    let config = [
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        ("linger.ms", "0"),
    ];
    let named = ProducerSpec { partition: Some(1), ..spec("10/s", "cart-{0..7}", &config) };
    assert_eq!(partitions(&mut Bench::of(named, &[1, 1, 1]), 5), [1; 5]);
}

#[test]
fn a_partition_that_is_not_there_is_waited_for_until_max_block_r_prod_1() {
    let named = |config: &[(&str, &str)]| ProducerSpec { partition: Some(3), ..keyless("1/h", config) };
    let mut bench = Bench::of(named(&[("max.block.ms", "2000")]), &[1]);
    bench.run_for(3_602_000);
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    let mut bench = Bench::of(named(&[]), &[1]);
    bench.run_for(3_601_000);
    bench.leaders = vec![(1, 0); 4];
    let sent = bench.next();
    assert_eq!(sent.batches[0].0, 3, "partitions were added meanwhile");
    assert!(sent.at_ms < 3_603_000, "metadata is asked for until they are there: {}", sent.at_ms);
}

#[test]
fn while_a_send_waits_for_memory_its_place_stays_r_prod_2() {
    let config = [
        ("buffer.memory", "400"),
        ("batch.size", "200"),
        ("linger.ms", "0"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
    ];
    let mut bench = Bench::of(keyless("100/s", &config), &[1, 1, 1]);
    bench.run_for(1000);
    assert_eq!(bench.producer.waits_for(), [Waiting::Memory]);
    let mut order = Vec::new();
    while order.len() < 6 {
        let sent = bench.next();
        bench.accept(&sent);
        order.extend(sent.batches.iter().map(|(partition, _)| *partition));
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
}
