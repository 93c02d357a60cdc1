//! What batches are compressed with, and how full they are then.

use super::*;
use crate::kafka::record::Compression;

/// 100 bytes of which most compress well, at a rate that fills batches.
fn writer(codec: &str, value: &str, more: &[(&str, &str)]) -> Bench {
    let config =
        [&[("compression.type", codec), ("linger.ms", "1000"), ("batch.size", "4096")], more].concat();
    let value = ValuePattern::new(value);
    Bench::of(ProducerSpec { value, value_size: Some(100), ..spec("1000/s", "one", &config) }, &[1])
}

/// The next batches, each accepted at once: records and bytes as sent.
fn batches(bench: &mut Bench, count: usize) -> Vec<(i32, usize)> {
    let next = |_| {
        let sent = bench.next();
        bench.accept(&sent);
        let batch = &sent.batches[0].1;
        (batch.record_count(), batch.clone().into_bytes().len())
    };
    (0..count).map(next).collect()
}

#[test]
fn batches_carry_the_codec_that_was_asked_for_r_prod_5() {
    for codec in Compression::ALL {
        let mut bench = writer(&codec.to_string(), "{n}", &[]);
        let sent = bench.next();
        let batch = &sent.batches[0].1;
        assert_eq!(batch.compression(), Ok(codec));
        let records = batch.records().unwrap();
        assert_eq!(records.len() as i32, batch.record_count());
        assert!(records[0].value.as_ref().unwrap().starts_with(b"1 "));
    }
}

#[test]
fn every_codec_makes_less_of_blanks_and_little_of_letters_at_random() {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let bytes = |value| {
            let (records, bytes) = batches(&mut writer(codec, value, &[]), 1)[0];
            bytes as i32 / records
        };
        let (blanks, letters) = (bytes("{n}"), bytes("{random 100}"));
        assert!(blanks < 20, "{codec}: {blanks} bytes a record");
        assert!((60..=120).contains(&letters), "{codec}: {letters} bytes a record");
    }
}

#[test]
fn as_a_producer_learns_how_well_records_compress_its_batches_hold_more_r_prod_5() {
    let all = batches(&mut writer("gzip", "{n}", &[]), 60);
    // At first a batch is closed as if nothing were gained, and 5 % more; the record to come counts whole.
    assert_eq!(all[0].0, 34, "61 + 33 * 112 * 1.05 + 112 is not above 4096");
    assert!(all.is_sorted_by_key(|(records, _)| *records), "{all:?}");
    let per_batch: Vec<i32> = all.iter().map(|(records, _)| *records).collect();
    assert_eq!(per_batch[59], 47, "61 + 46 * 112 * 0.71 * 1.05 + 112 is not above 4096, after 58 steps");
}

#[test]
fn an_estimate_that_was_too_good_makes_batches_larger_than_batch_size() {
    let mut bench = writer("gzip", "{n}", &[("max.request.size", "1000000")]);
    batches(&mut bench, 190);
    let ratio = bench.producer.accumulator.ratio().permille();
    assert!(ratio < 200, "{ratio}");
    bench.call(Producer::pause);
    let Application::Workload { spec, .. } = &mut bench.producer.application else { panic!("a workload") };
    Rc::make_mut(spec).value = ValuePattern::new("{random 100}");
    bench.call(Producer::resume);
    let all = batches(&mut bench, 3);
    assert!(all.iter().any(|(_, bytes)| *bytes > 8192), "{all:?}");
    let after = bench.producer.accumulator.ratio().permille();
    assert!(after > 600, "one batch was enough to know better: {after}");
}

#[test]
fn gzip_tries_as_hard_as_it_is_told() {
    let bytes =
        |level| batches(&mut writer("gzip", "{n} {random 40}", &[("compression.gzip.level", level)]), 1)[0].1;
    assert!(bytes("1") > bytes("9"));
    assert_eq!(bytes("-1"), bytes("6"));
}

#[test]
fn a_split_batch_takes_back_what_was_learned_r_prod_19() {
    let mut bench = writer("gzip", "{n}", &[]);
    batches(&mut bench, 30);
    assert!(bench.producer.accumulator.ratio().permille() < 900);
    let whole = bench.next();
    bench.call(Producer::pause);
    bench.refuse(&whole, ErrorCode::MessageTooLarge);
    assert!(bench.producer.accumulator.ratio().permille() >= 995, "1.0, and a step for the first part");
    let mut parts = Vec::new();
    while parts.iter().sum::<i32>() < whole.batches[0].1.record_count() {
        let part = bench.next();
        bench.accept(&part);
        parts.push(part.batches[0].1.record_count());
    }
    assert_eq!(parts[0], 34, "as if nothing were gained");
    assert!(parts.len() > 1, "{parts:?}");
}
