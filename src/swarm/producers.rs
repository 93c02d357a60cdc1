//! Producers of a plan: where their records go, how these are batched, and what is done to a producer while it runs.
//!
//! **Invariant:** a producer that differs is still one that Kafka lets start.

use super::plan::{ProducerPlan, TopicPlan, chance, pick};
use crate::client::consumer::CloseOptions;
use crate::client::producer::ProducerSpec;
use crate::client::producer::workload::ValuePattern;
use crate::kafka::random::Random;
use crate::sim::{Command, World};

/// Makes the producers differ from each other.
pub fn vary(producers: &mut [ProducerPlan], topics: &[TopicPlan], random: &mut Random) {
    for ProducerPlan { spec, idempotent, .. } in producers {
        let topic = topics.iter().find(|topic| topic.name == spec.topic);
        vary_library(spec, *idempotent, random);
        vary_places(spec, topic.map_or(1, |topic| topic.partitions), random);
        vary_batches(spec, random);
        vary_limits(spec, *idempotent, random);
    }
}

fn set(spec: &mut ProducerSpec, key: &str, value: impl ToString) {
    spec.config.insert(key.to_owned(), value.to_string());
}

/// Some are librdkafka's, whose records have their outcome as soon as those of others.
fn vary_library(spec: &mut ProducerSpec, idempotent: bool, random: &mut Random) {
    if chance(random, 15) {
        set(spec, "client.library", "librdkafka");
        set(spec, "enable.idempotence", idempotent);
        if !spec.config.contains_key("delivery.timeout.ms") {
            set(spec, "delivery.timeout.ms", 60_000);
        }
    }
}

/// By the key, by the partitioner's own choice, or by what each record names.
fn vary_places(spec: &mut ProducerSpec, partitions: i32, random: &mut Random) {
    if chance(random, 40) {
        spec.keys = "none".parse().expect("a key pattern");
        spec.value = ValuePattern::for_keys(&spec.keys);
    }
    if chance(random, 15) {
        spec.partition = Some(random.below(partitions as u64) as i32);
    }
    if chance(random, 15) {
        set(spec, "partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner");
    }
    if chance(random, 10) {
        set(spec, "partitioner.ignore.keys", true);
    }
    if chance(random, 20) {
        set(spec, "partitioner.adaptive.partitioning.enable", false);
    }
    if chance(random, 15) {
        set(spec, "partitioner.availability.timeout.ms", pick(random, &[500, 5_000]));
    }
}

fn vary_batches(spec: &mut ProducerSpec, random: &mut Random) {
    if chance(random, 50) {
        set(spec, "batch.size", pick(random, &[0, 1, 100, 300, 1_000]));
    }
    if chance(random, 50) {
        set(spec, "compression.type", pick(random, &["gzip", "snappy", "lz4", "zstd"]));
    }
    // As long as the number at its beginning is there, it is known which record it is.
    if chance(random, 25) {
        spec.value_size = Some(*pick(random, &[60, 200, 500]));
    }
    if chance(random, 10) {
        set(spec, "max.request.size", 1_000);
    }
}

/// How much is under way at once, and how long a send() waits for room.
fn vary_limits(spec: &mut ProducerSpec, idempotent: bool, random: &mut Random) {
    if chance(random, 50) {
        let in_flight: &[i32] = if idempotent { &[1, 2, 3, 5] } else { &[1, 2, 5, 20] };
        set(spec, "max.in.flight.requests.per.connection", pick(random, in_flight));
    }
    if chance(random, 20) {
        let batch_size = *pick(random, &[100, 1_000]);
        set(spec, "batch.size", batch_size);
        set(spec, "buffer.memory", pick(random, &[1_200, 4_000]));
        set(spec, "max.block.ms", pick(random, &[0, 300, 3_000, 20_000]));
    }
    if !idempotent && chance(random, 20) {
        set(spec, "retries", pick(random, &[0, 1]));
    }
}

/// Something that is done to a producer as it is now.
pub fn draw(random: &mut Random, producer: &ProducerPlan, world: &World) -> Command {
    let name = producer.spec.name.clone();
    if world.producer(&name).is_none() {
        return Command::AddProducer(producer.spec.clone());
    }
    match random.below(12) {
        0..2 => Command::Pause(name),
        2..5 => Command::Resume(name),
        5..8 => Command::Flush(name),
        8 => Command::Close(name),
        9 => {
            let timeout_ms = Some(*pick(random, &[0, 50, 1_000]));
            let options = CloseOptions { timeout_ms, ..CloseOptions::default() };
            Command::CloseWith { client: name, options }
        }
        10 => Command::Crash(name),
        _ => Command::AddProducer(producer.spec.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::plan::Plan;

    #[test]
    fn every_producer_of_a_plan_may_start_and_is_as_idempotent_as_it_says() {
        let plans: Vec<Plan> = (0..300).map(Plan::draw).collect();
        let producers = || plans.iter().flat_map(|plan| &plan.producers);
        for ProducerPlan { spec, idempotent, acks_all } in producers() {
            let config = spec.check().unwrap_or_else(|error| panic!("{spec:?}: {error}"));
            assert_eq!(config.enable_idempotence, *idempotent, "{spec:?}");
            assert_eq!(config.acks.name() == "all", *acks_all, "{spec:?}");
        }
        for key in [
            "client.library",
            "partitioner.class",
            "compression.type",
            "batch.size",
            "buffer.memory",
            "retries",
        ] {
            assert!(producers().any(|producer| producer.spec.config.contains_key(key)), "{key}");
        }
        let keyless = producers().filter(|producer| !producer.spec.keys.has_keys()).count();
        let placed = producers().filter(|producer| producer.spec.partition.is_some()).count();
        assert!(keyless > 50 && placed > 20, "{keyless} without keys, {placed} with a partition");
    }
}
