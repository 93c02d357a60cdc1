//! Objects of the view model as sentences: for screen readers, and wherever a picture needs its text.
//!
//! **Invariant:** a sentence says everything that the object's picture says by colour, place or pattern.

use std::fmt::Display;
use std::rc::Rc;

use super::model::{
    BrokerView, ConsumerView, ControllerView, CoordinatedView, FlagKind, GroupView, Health,
    InternalTopicView, Model, ProducerView, ReplicaView, Role, RunView, SendingView, SharedView, Standing,
    TransactionView,
};
use crate::lab::words::count;

/// "1, 2 and 3"; "none" of nothing.
pub fn list<T: Display>(items: &[T]) -> String {
    match items {
        [] => "none".to_owned(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(T::to_string).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}

/// "orders-1 on broker 2, leader, epoch 6, log 38 to 48, committed to 47, in-sync replicas 1 and 2."
pub fn replica(view: &ReplicaView) -> String {
    let role = match view.role {
        Role::Leader => "leader",
        Role::Follower => "follower",
    };
    let mut text = format!(
        "{} on broker {}, {role}, epoch {}, log {} to {}, committed to {}",
        view.tp, view.broker, view.leader_epoch, view.log_start, view.log_end, view.high_watermark
    );
    if view.role == Role::Leader {
        text += &format!(", in-sync replicas {}", list(&view.in_sync));
    }
    if let Some(last_stable) = view.last_stable {
        text += &format!(", last stable offset {last_stable}");
    }
    match view.standing {
        Standing::InSync => {}
        Standing::OutOfSync => text += ", out of sync",
        Standing::Offline => text += ", offline",
    }
    if let Some(why) = &view.why_out {
        text += &format!(": {why}");
    }
    for open in view.open.iter() {
        text += &format!(
            "; transaction of {} from {} to {}: {}",
            open.owner,
            open.first,
            open.last,
            open.standing()
        );
    }
    for flag in view.flags.iter() {
        text += &match flag.kind {
            FlagKind::Committed => format!("; group {} committed {}", flag.owner, flag.offset),
            FlagKind::Pending => {
                format!("; group {} has {} pending in a transaction", flag.owner, flag.offset)
            }
            FlagKind::Position => format!("; {} is at {}", flag.owner, flag.offset),
        };
    }
    text + "."
}

/// A state as a word; the ordinary one has none on the stage.
fn word<'a>(state: &'a str, ordinary: &'a str) -> &'a str {
    if state.is_empty() { ordinary } else { state }
}

/// "; clock 5 min ahead; cut off from broker 3"
fn faults(faults: &[Rc<str>]) -> String {
    faults.iter().map(|fault| format!("; {fault}")).collect()
}

pub fn broker(view: &BrokerView) -> String {
    let leads: Vec<String> = view
        .replicas
        .iter()
        .filter(|replica| replica.role == Role::Leader)
        .map(|replica| replica.tp.to_string())
        .collect();
    let rack = view.rack.as_ref().map(|rack| format!(" in rack {rack}")).unwrap_or_default();
    format!(
        "Broker {}{rack}, {}, {}, leads {}{}.",
        view.id,
        word(&view.state, "running"),
        count(view.replicas.len() as i64, "replica"),
        list(&leads),
        faults(&view.faults)
    )
}

/// "__consumer_offsets: coordinates billing; leads 17 of 50"
pub fn internal_topic(view: &InternalTopicView) -> String {
    let leads = format!("leads {} of {}", view.leads, view.partitions);
    match view.coordinates.is_empty() {
        true => format!("{}: {leads}", view.name),
        false => format!("{}: coordinates {}; {leads}", view.name, list(&view.coordinates)),
    }
}

pub fn controller(view: &ControllerView) -> String {
    let mut text = format!("Controller {}, {}", view.id, view.state);
    if !view.unfenced.is_empty() {
        text += &format!("; brokers in service {}", list(&view.unfenced));
    }
    if !view.fenced.is_empty() {
        text += &format!("; fenced {}", list(&view.fenced));
    }
    text + &faults(&view.faults) + "."
}

/// A word where a producer does not send as it should; empty where it does.
pub fn producer_state(view: &ProducerView) -> &'static str {
    match (view.health, view.paused) {
        (Health::Dead, _) => "ended",
        (Health::Frozen, _) => "stands still",
        (_, true) => "paused",
        _ => "",
    }
}

pub fn producer(view: &ProducerView) -> String {
    let state = word(producer_state(view), "sending");
    format!(
        "Producer {} to {}, {state} {}, acks {}, {}{}.",
        view.name,
        view.topic,
        view.rate,
        view.acks,
        sending(&view.sending),
        faults(&view.faults)
    )
}

/// "12/s to orders · acks=all · idempotent: producer id 1, epoch 0 · librdkafka"
pub fn producer_manner(view: &ProducerView) -> String {
    let mut text = format!("{} to {} · acks={}", view.rate, view.topic, view.acks);
    text += match (view.idempotent, &view.sending.identity) {
        (false, _) => "",
        (true, _) => " · idempotent",
    };
    text + &view.profile.map(|profile| format!(" · {profile}")).unwrap_or_default()
}

/// "3 sent, 2 acknowledged, 0 failed; 1 record waits in 1 batch; transaction bank-1 IN_TRANSACTION, its coordinator has it Ongoing"
pub fn sending(view: &SendingView) -> String {
    let mut text = format!("{} sent, {} acknowledged, {} failed", view.sent, view.acknowledged, view.failed);
    if view.waiting_batches > 0 {
        text += &format!(
            "; {} in {} wait",
            count(view.waiting_records, "record"),
            count(view.waiting_batches, "batch")
        );
    }
    if let Some(transaction) = &view.transaction {
        text += &format!("; {}", self::transaction(transaction));
    }
    text
}

/// What the accumulator holds: "7 records in 2 batches, 540 bytes".
pub fn accumulated(view: &SendingView) -> String {
    match view.waiting_batches {
        0 => "nothing waits".to_owned(),
        batches => format!(
            "{} in {}, {}",
            count(view.waiting_records, "record"),
            count(batches, "batch"),
            count(view.waiting_bytes, "byte")
        ),
    }
}

/// "transactional id bank-1 IN_TRANSACTION, at its coordinator broker 2 Ongoing"
pub fn transaction(view: &TransactionView) -> String {
    let coordinated = match &view.coordinated {
        Some(coordinated) => {
            format!("at its coordinator broker {} {}", coordinated.broker, coordinated.standing())
        }
        None => "known to no coordinator".to_owned(),
    };
    format!("transactional id {} {}, {coordinated}", view.id, view.state)
}

/// So many partitions are named where there is little room.
const FEW: usize = 3;

/// "Ongoing, producer id 4, epoch 2, open for 3 s of 60 s, in orders-0 and orders-1"
pub fn coordinated(view: &CoordinatedView) -> String {
    let partitions = match view.partitions.len() {
        0 => String::new(),
        1..=FEW => format!(", in {}", list(&view.partitions)),
        many => format!(", in {}", count(many as i64, "partition")),
    };
    format!("{}, {}, {}{partitions}", view.standing(), view.producer, transaction_time(view))
}

/// "open for 3 s of 60 s", "60 s at most"
pub fn transaction_time(view: &CoordinatedView) -> String {
    match &view.open_for {
        Some(open_for) => format!("open for {open_for} of {}", view.timeout),
        None => format!("{} at most", view.timeout),
    }
}

pub fn group(view: &GroupView) -> String {
    if !view.is_group() {
        return format!("In no group, {}.", count(view.members.len() as i64, "consumer"));
    }
    let coordinator = match view.coordinator {
        Some(broker) => format!("coordinator broker {broker}"),
        None => "no coordinator known".to_owned(),
    };
    let kind = if view.is_share { "Share group" } else { "Group" };
    let shared: String = view.shared.iter().map(|shared| format!(" {}", self::shared(shared))).collect();
    format!(
        "{kind} {}, {}, generation {}, {}, {coordinator}.{shared}",
        view.id,
        view.state,
        view.generation,
        count(view.members.len() as i64, "consumer")
    )
}

/// "orders-0: done below 4, untouched from 7 on, lag 2 records; records 4 to 5, acquired by s1, delivery 2, locked for 29 s."
pub fn shared(view: &SharedView) -> String {
    let runs: String = view.runs.iter().map(|view| format!("; {}", run(view))).collect();
    let lag = count(view.lag, "record");
    format!("{}: done below {}, untouched from {} on, lag {lag}{runs}.", view.tp, view.start, view.end)
}

pub fn run(view: &RunView) -> String {
    let records = match view.first == view.last {
        true => format!("record {}", view.first),
        false => format!("records {} to {}", view.first, view.last),
    };
    let holder = view.holder.as_ref().map(|name| format!(" by {name}")).unwrap_or_default();
    let lock = view.lock.as_ref().map(|lock| format!(", locked for {lock}")).unwrap_or_default();
    format!("{records}, {}{holder}, delivery {}{lock}", view.state, view.deliveries)
}

/// "4–5 s1 ×2 29 s"
pub fn run_in_short(view: &RunView) -> String {
    let records = match view.first == view.last {
        true => view.first.to_string(),
        false => format!("{}–{}", view.first, view.last),
    };
    let whose = view.holder.as_deref().unwrap_or(view.state);
    let lock = view.lock.as_ref().map(|lock| format!(" {lock}")).unwrap_or_default();
    format!("{records} {whose} ×{}{lock}", view.deliveries)
}

/// What a member is beside a member: "group leader, static i-1".
pub fn badge(view: &ConsumerView) -> String {
    let leader = view.group_leader.then(|| "group leader".to_owned());
    let fixed = view.instance_id.as_ref().map(|id| format!("static {id}"));
    let profile = view.profile.map(str::to_owned);
    leader.into_iter().chain(fixed).chain(profile).collect::<Vec<_>>().join(", ")
}

pub fn consumer(view: &ConsumerView) -> String {
    let lag: i64 = view.partitions.iter().map(|partition| partition.lag).sum();
    let badge = badge(view);
    let kind = if view.producing.is_some() { "Application" } else { "Consumer" };
    let record = view.record.as_ref().map(|(tp, offset)| format!(", {tp} offset {offset} in hand"));
    let producing = view
        .producing
        .as_ref()
        .map(|producing| format!("; its producer to {}: {}", producing.output, sending(&producing.sending)));
    format!(
        "{kind} {}, {}{}, owns {}, lag {}{}{}{}.",
        view.name,
        word(&view.state, "stable"),
        if badge.is_empty() { badge } else { format!(", {badge}") },
        list(&view.owned),
        count(lag, "record"),
        record.unwrap_or_default(),
        producing.unwrap_or_default(),
        faults(&view.faults)
    )
}

/// The whole stage in one sentence.
pub fn stage(model: &Model) -> String {
    format!(
        "Cluster: {}, {}, {}.",
        count(model.brokers.len() as i64, "broker"),
        count(model.producers.len() as i64, "producer"),
        count(model.groups.len() as i64, "group")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::{BrokerId, LeaderEpoch, NodeId, Offset, Topic, TopicPartition};
    use crate::view::model::Flag;

    fn sending_1() -> SendingView {
        SendingView {
            sent: 3,
            acknowledged: 2,
            failed: 0,
            identity: None,
            sticky: None,
            waiting_batches: 1,
            waiting_records: 1,
            waiting_bytes: 80,
            requests_in_flight: 0,
            buffer_free_percent: 99,
            first: None,
            transaction: None,
        }
    }

    fn producer_1() -> ProducerView {
        ProducerView {
            name: Rc::from("checkout-api"),
            node: NodeId::Client(2),
            health: Health::Running,
            paused: false,
            topic: Rc::from("orders"),
            rate: Rc::from("12/s"),
            acks: Rc::from("all"),
            idempotent: true,
            profile: None,
            sending: sending_1().into(),
            faults: Rc::from([]),
            waiting: None,
        }
    }

    fn replica_1() -> ReplicaView {
        ReplicaView {
            tp: TopicPartition::new(&Topic::new("orders"), 1),
            broker: BrokerId(2),
            role: Role::Leader,
            leader_epoch: LeaderEpoch(6),
            standing: Standing::InSync,
            why_out: None,
            log_start: Offset(38),
            high_watermark: Offset(47),
            last_stable: None,
            log_end: Offset(48),
            open: Rc::from([]),
            size_bytes: 700,
            axis_end: Offset(48),
            cells: Rc::from([]),
            flags: Rc::from([Flag {
                kind: FlagKind::Committed,
                offset: Offset(45),
                owner: Rc::from("billing"),
            }]),
            in_sync: Rc::from([BrokerId(2), BrokerId(1)]),
        }
    }

    fn check(view: &ReplicaView, expected: &str) {
        assert_eq!(replica(view), expected);
    }

    #[test]
    fn a_producers_state_is_said_as_it_is_drawn() {
        let check = |health, paused, expected| {
            let view = ProducerView { health, paused, ..producer_1() };
            assert!(producer(&view).contains(&format!("to orders, {expected} 12/s")), "{}", producer(&view));
        };
        check(Health::Running, false, "sending");
        check(Health::Running, true, "paused");
        check(Health::Frozen, false, "stands still");
        check(Health::Dead, true, "ended");
    }

    #[test]
    fn a_replicas_sentence_has_role_epoch_and_all_offsets() {
        check(
            &replica_1(),
            "orders-1 on broker 2, leader, epoch 6, log 38 to 48, committed to 47, in-sync replicas 2 and 1; \
             group billing committed 45.",
        );
    }

    #[test]
    fn a_shared_partition_says_who_has_what_for_how_long() {
        let run = |first, last, state, holder: Option<&str>| RunView {
            first: Offset(first),
            last: Offset(last),
            state,
            deliveries: 2,
            holder: holder.map(Rc::from),
            lock: holder.map(|_| Rc::from("29 s")),
        };
        let view = SharedView {
            tp: TopicPartition::new(&Topic::new("orders"), 0),
            start: Offset(4),
            end: Offset(7),
            lag: 3,
            runs: Rc::from([run(4, 5, "acquired", Some("s1")), run(6, 6, "available", None)]),
        };
        assert_eq!(
            shared(&view),
            "orders-0: done below 4, untouched from 7 on, lag 3 records; records 4 to 5, acquired by s1, delivery 2, locked for 29 s; \
             record 6, available, delivery 2."
        );
        let short: Vec<String> = view.runs.iter().map(run_in_short).collect();
        assert_eq!(short, ["4–5 s1 ×2 29 s", "6 available ×2"]);
    }

    #[test]
    fn an_ordinary_state_has_its_word_too() {
        assert_eq!((word("", "running"), word("fenced", "running")), ("running", "fenced"));
    }

    #[test]
    fn a_replica_out_of_sync_says_why() {
        let view = ReplicaView {
            role: Role::Follower,
            standing: Standing::OutOfSync,
            why_out: Some(Rc::from("behind 31 s")),
            flags: Rc::from([]),
            ..replica_1()
        };
        check(
            &view,
            "orders-1 on broker 2, follower, epoch 6, log 38 to 48, committed to 47, out of sync: behind 31 s.",
        );
    }

    #[test]
    fn lists_read_as_a_person_says_them() {
        assert_eq!(list::<i32>(&[]), "none");
        assert_eq!(list(&[1]), "1");
        assert_eq!(list(&[1, 2, 3]), "1, 2 and 3");
    }
}
