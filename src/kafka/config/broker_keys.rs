//! The table of broker and controller configs (`ReplicationConfigs`, `KRaftConfigs`, `QuorumConfig`,
//! `GroupCoordinatorConfig`, `ServerConfigs`).
//!
//! Where Kafka sets no least value but none smaller makes sense (a timeout of 0), there is one here.
//!
//! **Invariant:** a name stands in one table only.

use super::not_modelled::BROKER_NOT_MODELLED;
use super::transaction_keys::TRANSACTION_KEYS;
use super::{Key, Kind, LOG_KEYS, NULL};

/// The broker configs that have their effect here, beside the [`LOG_KEYS`] of topic configs that have one.
const BROKER_KEYS: &[Key] = &[
    Key {
        name: "auto.create.topics.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a client that asks for an unknown topic has it created.",
    },
    Key {
        name: "auto.leader.rebalance.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether leaders move back to the first replica of their partition by themselves.",
    },
    Key {
        name: "broker.heartbeat.interval.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "How often a broker tells the controller that it lives.",
    },
    Key {
        name: "broker.session.timeout.ms",
        default: "9000",
        kind: Kind::int_from(1),
        doc: "A broker that is silent for longer is fenced.",
    },
    Key {
        name: "controlled.shutdown.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a broker that is stopped gives its leaderships away first.",
    },
    Key {
        name: "controller.quorum.election.backoff.max.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "The longest wait of a voter that lets better ones stand for election first.",
    },
    Key {
        name: "controller.quorum.election.timeout.ms",
        default: "1000",
        kind: Kind::int_from(1),
        doc: "How long an election may take, and up to twice that.",
    },
    Key {
        name: "controller.quorum.fetch.max.bytes",
        default: "1048576",
        kind: Kind::int_from(1),
        doc: "How much of the metadata log a replica asks for at a time.",
    },
    Key {
        name: "controller.quorum.fetch.snapshot.max.bytes",
        default: "1048576",
        kind: Kind::int_from(1),
        doc: "How much of a snapshot a replica asks for at a time.",
    },
    Key {
        name: "controller.quorum.fetch.timeout.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "A voter that hears nothing of the leader for longer wants an election.",
    },
    Key {
        name: "controller.quorum.request.timeout.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "How long a controller waits for another's answer.",
    },
    Key {
        name: "controller.quorum.retry.backoff.ms",
        default: "20",
        kind: Kind::int_from(1),
        doc: "How long a replica of the metadata log waits after an answer that did not help.",
    },
    Key {
        name: "default.replication.factor",
        default: "1",
        kind: Kind::int_from(1),
        doc: "Replicas of a topic that is created without saying how many.",
    },
    Key {
        name: "delete.topic.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether topics can be deleted.",
    },
    Key {
        name: "fetch.max.bytes",
        default: "57671680",
        kind: Kind::int_from(1024),
        doc: "How much one answer to a fetch may hold, whatever the fetch asks for.",
    },
    Key {
        name: "group.consumer.assignment.interval.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "How long a group of the newer protocol waits after one target assignment before it computes the next.",
    },
    Key {
        name: "group.consumer.assignors",
        default: "uniform,range",
        kind: Kind::ListOf(&["uniform", "range"]),
        doc: "The assignors that members may ask for; the first is for those that ask for none.",
    },
    Key {
        name: "group.consumer.heartbeat.interval.ms",
        default: "5000",
        kind: Kind::int_from(1),
        doc: "How often members of groups of the newer protocol are to send heartbeats.",
    },
    Key {
        name: "group.consumer.max.size",
        default: "2147483647",
        kind: Kind::int_from(1),
        doc: "The most members a group of the newer protocol may have.",
    },
    Key {
        name: "group.consumer.migration.policy",
        default: "bidirectional",
        kind: Kind::OneOfAnyCase(&["bidirectional", "disabled", "downgrade", "upgrade"]),
        doc: "Whether groups with members may go from the classic protocol to the newer one, and back.",
    },
    Key {
        name: "group.consumer.regex.refresh.interval.ms",
        default: "600000",
        kind: Kind::int_from(10_000),
        doc: "How long what a regular expression matched counts before the coordinator looks again.",
    },
    Key {
        name: "group.consumer.session.timeout.ms",
        default: "45000",
        kind: Kind::int_from(1),
        doc: "How long a member of a group of the newer protocol may be silent before it is removed.",
    },
    Key {
        name: "group.initial.rebalance.delay.ms",
        default: "3000",
        kind: Kind::int_from(0),
        doc: "How long an empty group waits for further members before its first rebalance ends.",
    },
    Key {
        name: "group.max.session.timeout.ms",
        default: "1800000",
        kind: Kind::int_from(1),
        doc: "The longest session.timeout.ms a member may ask for.",
    },
    Key {
        name: "group.max.size",
        default: "2147483647",
        kind: Kind::int_from(1),
        doc: "The most members a group may have.",
    },
    Key {
        name: "group.min.session.timeout.ms",
        default: "6000",
        kind: Kind::int_from(1),
        doc: "The shortest session.timeout.ms a member may ask for.",
    },
    Key {
        name: "leader.imbalance.check.interval.seconds",
        default: "300",
        kind: Kind::long_from(1),
        doc: "How often the controller looks for leaders that are not the first replica of their partition.",
    },
    Key {
        name: "group.share.assignment.interval.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "How long a share group waits after one target assignment before it computes the next.",
    },
    Key {
        name: "group.share.heartbeat.interval.ms",
        default: "5000",
        kind: Kind::int_from(1),
        doc: "How often members of share groups are to send heartbeats.",
    },
    Key {
        name: "group.share.initialize.retry.interval.ms",
        default: "30000",
        kind: Kind::int_from(1),
        doc: "After how long states that did not begin are asked for again.",
    },
    Key {
        name: "group.share.max.size",
        default: "200",
        kind: Kind::Integer { min: 1, max: 1000 },
        doc: "The most members a share group may have.",
    },
    Key {
        name: "group.share.delivery.count.limit",
        default: "5",
        kind: Kind::Integer { min: 2, max: 10 },
        doc: "How often a record of a share group is handed out at most, unless the group says otherwise.",
    },
    Key {
        name: "group.share.max.delivery.count.limit",
        default: "10",
        kind: Kind::Integer { min: 5, max: 25 },
        doc: "The most that share.delivery.count.limit of a group may be.",
    },
    Key {
        name: "group.share.max.partition.max.record.locks",
        default: "4000",
        kind: Kind::Integer { min: 2000, max: 10_000 },
        doc: "The most that share.partition.max.record.locks of a group may be.",
    },
    Key {
        name: "group.share.max.record.lock.duration.ms",
        default: "60000",
        kind: Kind::Integer { min: 30_000, max: 3_600_000 },
        doc: "The most that share.record.lock.duration.ms of a group may be.",
    },
    Key {
        name: "group.share.max.share.sessions",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "How many share sessions a broker has at most.",
    },
    Key {
        name: "group.share.min.delivery.count.limit",
        default: "2",
        kind: Kind::Integer { min: 2, max: 5 },
        doc: "The least that share.delivery.count.limit of a group may be.",
    },
    Key {
        name: "group.share.min.partition.max.record.locks",
        default: "100",
        kind: Kind::Integer { min: 100, max: 2000 },
        doc: "The least that share.partition.max.record.locks of a group may be.",
    },
    Key {
        name: "group.share.min.record.lock.duration.ms",
        default: "15000",
        kind: Kind::Integer { min: 1000, max: 30_000 },
        doc: "The least that share.record.lock.duration.ms of a group may be.",
    },
    Key {
        name: "group.share.partition.max.record.locks",
        default: "2000",
        kind: Kind::Integer { min: 100, max: 10_000 },
        doc: "How many records of a share partition are in flight at most, unless the group says otherwise.",
    },
    Key {
        name: "group.share.record.lock.duration.ms",
        default: "30000",
        kind: Kind::Integer { min: 1000, max: 3_600_000 },
        doc: "How long a record is held by who acquired it, unless the group says otherwise.",
    },
    Key {
        name: "group.share.session.timeout.ms",
        default: "45000",
        kind: Kind::int_from(1),
        doc: "How long a member of a share group may be silent before it is removed.",
    },
    Key {
        name: "log.cleaner.backoff.ms",
        default: "15000",
        kind: Kind::long_from(0),
        doc: "How long the cleaner rests when no compacted log is dirty enough.",
    },
    Key {
        name: "log.cleaner.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether compacted logs are cleaned.",
    },
    Key {
        name: "log.flush.offset.checkpoint.interval.ms",
        default: "60000",
        kind: Kind::int_from(0),
        doc: "How often a broker notes how far its logs are on the disk.",
    },
    Key {
        name: "log.flush.start.offset.checkpoint.interval.ms",
        default: "60000",
        kind: Kind::int_from(0),
        doc: "How often a broker notes where its logs begin.",
    },
    Key {
        name: "log.initial.task.delay.ms",
        default: "30000",
        kind: Kind::long_from(0),
        doc: "How long after its start a broker looks at its logs for the first time.",
    },
    Key {
        name: "log.retention.check.interval.ms",
        default: "300000",
        kind: Kind::long_from(1),
        doc: "How often a broker looks for segments that are to be deleted.",
    },
    Key {
        name: "max.incremental.fetch.session.cache.slots",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "How many fetch sessions a broker remembers.",
    },
    Key {
        name: "metadata.log.max.record.bytes.between.snapshots",
        default: "20971520",
        kind: Kind::long_from(1),
        doc: "After so many bytes of the metadata log a node writes a snapshot of it.",
    },
    Key {
        name: "metadata.log.max.snapshot.interval.ms",
        default: "3600000",
        kind: Kind::long_from(0),
        doc: "After so long a node writes a snapshot of the metadata log with the next records; 0 for never.",
    },
    Key {
        name: "metadata.log.segment.bytes",
        default: "1073741824",
        kind: Kind::int_from(8_388_608),
        doc: "A segment of the metadata log that would grow beyond it is closed.",
    },
    Key {
        name: "metadata.log.segment.ms",
        default: "604800000",
        kind: Kind::long_from(1),
        doc: "After this time a write starts a new segment of the metadata log.",
    },
    Key {
        name: "metadata.max.idle.interval.ms",
        default: "500",
        kind: Kind::int_from(0),
        doc: "How often the active controller writes a record that says nothing, so that the log moves; 0 for never.",
    },
    Key {
        name: "metadata.max.retention.bytes",
        default: "104857600",
        kind: Kind::long_from(i64::MIN),
        doc: "Old snapshots of the metadata log, and the log below them, go when log and snapshots take more.",
    },
    Key {
        name: "metadata.max.retention.ms",
        default: "604800000",
        kind: Kind::long_from(i64::MIN),
        doc: "Old snapshots of the metadata log, and the log below them, go when they are older.",
    },
    Key {
        name: "num.partitions",
        default: "1",
        kind: Kind::int_from(1),
        doc: "Partitions of a topic that is created without saying how many.",
    },
    Key {
        name: "offset.metadata.max.bytes",
        default: "4096",
        kind: Kind::int_from(0),
        doc: "The longest text that may go with a committed offset.",
    },
    Key {
        name: "offsets.commit.timeout.ms",
        default: "5000",
        kind: Kind::int_from(1),
        doc: "How long a group's write may wait for its replicas.",
    },
    Key {
        name: "offsets.retention.check.interval.ms",
        default: "600000",
        kind: Kind::long_from(1),
        doc: "How often a coordinator looks for committed offsets that are to be forgotten.",
    },
    Key {
        name: "offsets.retention.minutes",
        default: "10080",
        kind: Kind::int_from(1),
        doc: "How long after its last member left the offsets of a group are kept.",
    },
    Key {
        name: "offsets.topic.num.partitions",
        default: "50",
        kind: Kind::int_from(1),
        doc: "Partitions of __consumer_offsets.",
    },
    Key {
        name: "offsets.topic.replication.factor",
        default: "3",
        kind: Kind::short_from(1),
        doc: "Replicas of __consumer_offsets.",
    },
    Key {
        name: "offsets.topic.segment.bytes",
        default: "104857600",
        kind: Kind::int_from(1),
        doc: "segment.bytes of __consumer_offsets.",
    },
    Key {
        name: "producer.id.expiration.check.interval.ms",
        default: "600000",
        kind: Kind::int_from(1),
        doc: "How often a broker looks for producers that it may forget.",
    },
    Key {
        name: "producer.id.expiration.ms",
        default: "86400000",
        kind: Kind::int_from(1),
        doc: "A partition forgets an idempotent producer that was silent for longer.",
    },
    Key {
        name: "replica.fetch.backoff.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "How long a follower waits after a failed fetch.",
    },
    Key {
        name: "replica.fetch.max.bytes",
        default: "1048576",
        kind: Kind::int_from(0),
        doc: "How much a follower asks for of one partition.",
    },
    Key {
        name: "replica.fetch.response.max.bytes",
        default: "10485760",
        kind: Kind::int_from(0),
        doc: "How much a follower asks for in one answer.",
    },
    Key {
        name: "replica.fetch.wait.max.ms",
        default: "500",
        kind: Kind::int_from(0),
        doc: "How long a leader may hold a follower's fetch that finds nothing.",
    },
    Key {
        name: "replica.high.watermark.checkpoint.interval.ms",
        default: "5000",
        kind: Kind::long_from(1),
        doc: "How often the high watermark is written to disk.",
    },
    Key {
        name: "replica.lag.time.max.ms",
        default: "30000",
        kind: Kind::long_from(1),
        doc: "A follower that has not caught up for longer leaves the in-sync set.",
    },
    Key {
        name: "replica.selector.class",
        default: NULL,
        kind: Kind::Text,
        doc: "The class by which a leader chooses the replica that a consumer reads from; without one it serves all.",
    },
    Key {
        name: "request.timeout.ms",
        default: "30000",
        kind: Kind::int_from(1),
        doc: "How long a broker waits for an answer of another node.",
    },
    Key {
        name: "share.coordinator.cold.partition.snapshot.interval.ms",
        default: "300000",
        kind: Kind::int_from(1),
        doc: "How often the share coordinator writes snapshots of what had none for as long.",
    },
    Key {
        name: "share.coordinator.snapshot.update.records.per.snapshot",
        default: "500",
        kind: Kind::Integer { min: 0, max: 500 },
        doc: "After how many updates of a share partition a snapshot follows.",
    },
    Key {
        name: "share.coordinator.state.topic.min.isr",
        default: "2",
        kind: Kind::short_from(1),
        doc: "min.insync.replicas of __share_group_state.",
    },
    Key {
        name: "share.coordinator.state.topic.num.partitions",
        default: "50",
        kind: Kind::int_from(1),
        doc: "Partitions of __share_group_state.",
    },
    Key {
        name: "share.coordinator.state.topic.prune.interval.ms",
        default: "300000",
        kind: Kind::int_from(1),
        doc: "How often the share coordinator drops the records that later snapshots have made needless.",
    },
    Key {
        name: "share.coordinator.state.topic.replication.factor",
        default: "3",
        kind: Kind::short_from(1),
        doc: "Replicas of __share_group_state.",
    },
    Key {
        name: "share.coordinator.state.topic.segment.bytes",
        default: "104857600",
        kind: Kind::int_from(1),
        doc: "segment.bytes of __share_group_state.",
    },
    Key {
        name: "share.coordinator.write.timeout.ms",
        default: "5000",
        kind: Kind::int_from(1),
        doc: "How long the share coordinator waits until a write is committed.",
    },
    Key {
        name: "unclean.leader.election.interval.ms",
        default: "300000",
        kind: Kind::long_from(1),
        doc: "How often the controller looks for partitions without a leader that may have an unclean one.",
    },
];

/// Every broker config that has its effect here.
pub fn broker_keys() -> impl Iterator<Item = Key> {
    let logs = LOG_KEYS.iter().filter(|log_key| log_key.has_effect());
    BROKER_KEYS.iter().chain(TRANSACTION_KEYS).copied().chain(logs.map(|log_key| log_key.key))
}

/// The broker config of this name, whether it has an effect here or not.
pub fn broker_key(name: &str) -> Option<Key> {
    let logs = LOG_KEYS.iter().map(|log_key| log_key.key);
    let all = BROKER_KEYS.iter().chain(TRANSACTION_KEYS).chain(not_modelled()).copied().chain(logs);
    all.into_iter().find(|key| key.name == name)
}

fn not_modelled() -> impl Iterator<Item = &'static Key> {
    BROKER_NOT_MODELLED.iter().copied().flatten()
}

pub fn has_effect_on_brokers(name: &str) -> bool {
    broker_keys().any(|key| key.name == name)
}

/// The configs of Kafka's brokers that have no effect here.
pub(super) fn without_effect() -> impl Iterator<Item = Key> {
    let logs = LOG_KEYS.iter().filter(|log_key| !log_key.has_effect()).map(|log_key| log_key.key);
    not_modelled().copied().chain(logs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::check_value;

    #[test]
    fn no_name_stands_in_two_tables() {
        let keys = BROKER_KEYS.iter().chain(TRANSACTION_KEYS).chain(not_modelled());
        let mut names: Vec<&str> = keys.map(|key| key.name).collect();
        names.extend(LOG_KEYS.iter().map(|log_key| log_key.key.name));
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        // All of `AbstractKafkaConfig.CONFIG_DEF` of 4.3.1, and the three quotas that a broker takes beside them.
        assert_eq!(names.len(), 363);
        for name in names {
            let key = broker_key(name).expect("in a table");
            assert!(key.default == NULL || check_value(&key, key.default).is_ok(), "{name}");
        }
    }
}
