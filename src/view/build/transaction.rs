//! Transactions: how their coordinators have them, and what is open in a log.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::broker::{BrokerSource, Cluster};
use super::reuse::keep;
use crate::client::producer::transaction_manager::State;
use crate::client::producer::{Producer, Wish};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::log::Log;
use crate::kafka::time::Time;
use crate::kafka::transaction::{TransactionFacts, TransactionMetadata, TransactionState};
use crate::kafka::types::{
    BrokerId, Offset, ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId,
};
use crate::lab::command::print;
use crate::lab::words::duration;
use crate::sim::Command;
use crate::view::model::{CoordinatedView, End, Model, OpenView, Tone, TransactionView};

pub const TRANSACTION_TOPIC: &str = "__transaction_state";

/// Every transactional id, as the one has it that coordinates it.
#[derive(Debug, Default)]
pub struct Transactions {
    by_id: BTreeMap<TransactionalId, Rc<CoordinatedView>>,
    /// Whose a producer id is, and in which state its transaction is there.
    by_producer: BTreeMap<ProducerId, (TransactionalId, TransactionState)>,
    /// Every partition of `__transaction_state` has a coordinator that has read it.
    is_complete: bool,
}

impl Transactions {
    pub fn of(
        now: Time,
        image: &ClusterImage,
        brokers: &[BrokerSource<'_>],
        before: Option<&Model>,
    ) -> Transactions {
        let topic = Topic::new(TRANSACTION_TOPIC);
        let Some(partitions) = image.topic(&topic).map(|topic| topic.partitions.len()) else {
            // Nobody has ever asked for a coordinator, or somebody deleted what they know.
            return Transactions { is_complete: true, ..Transactions::default() };
        };
        let known: BTreeMap<&str, &Rc<CoordinatedView>> = before
            .into_iter()
            .flat_map(|model| model.brokers.iter())
            .flat_map(|broker| broker.internal.iter().flat_map(|topic| topic.transactions.iter()))
            .map(|transaction| (&*transaction.id, transaction))
            .collect();
        let mut transactions = Transactions::default();
        let mut loaded = 0;
        for broker in brokers.iter().filter_map(BrokerSource::alive) {
            for (partition, shard) in broker.transactions().shards() {
                let leader = image.partition(&TopicPartition::new(&topic, partition)).map(|each| each.leader);
                if leader != Some(broker.id()) || shard.is_loading() {
                    continue;
                }
                loaded += 1;
                for (id, transaction) in shard.transactions() {
                    let view = coordinated(now, broker.id(), id, transaction);
                    transactions.by_id.insert(id.clone(), keep(known.get(id.as_str()).copied(), view));
                    let TransactionFacts { producer_id, state, .. } = transaction.facts();
                    transactions.by_producer.insert(*producer_id, (id.clone(), *state));
                }
            }
        }
        transactions.is_complete = loaded == partitions;
        transactions
    }

    pub fn get(&self, id: &TransactionalId) -> Option<&Rc<CoordinatedView>> {
        self.by_id.get(id)
    }

    /// Those that a broker coordinates, by name.
    pub fn at(&self, broker: BrokerId) -> impl Iterator<Item = &Rc<CoordinatedView>> {
        self.by_id.values().filter(move |transaction| transaction.broker == broker)
    }

    /// What is open in a log. Whether it hangs is judged at the leader: where it is over there, a follower has yet to get the
    /// marker.
    pub fn open_in(&self, tp: &TopicPartition, log: &Log, cluster: &Cluster<'_>) -> Vec<OpenView> {
        let open = log.producers().iter().filter_map(|(id, producer)| {
            let first = producer.transaction_start()?;
            let last = producer.batches().last().map_or(first, |batch| batch.last_offset);
            Some((id, first, last))
        });
        let mut open: Vec<OpenView> = open
            .map(|(producer, first, last)| {
                let owner = self.by_producer.get(&producer).map(|(id, _)| id.as_str());
                let owner = owner.map_or_else(|| format!("producer id {}", producer.0), str::to_owned);
                OpenView {
                    first,
                    last,
                    owner: Rc::from(owner),
                    end: self.end_of(producer, first, tp, cluster),
                }
            })
            .collect();
        open.sort_by_key(|open| open.first);
        open
    }

    fn end_of(&self, producer: ProducerId, first: Offset, tp: &TopicPartition, cluster: &Cluster<'_>) -> End {
        let Some(led) = cluster.led_log(tp) else { return End::Unknown };
        let at_leader = led.producers().get(producer).and_then(|producer| producer.transaction_start());
        if at_leader != Some(first) {
            return End::Decided;
        }
        match self.by_producer.get(&producer) {
            Some((id, state)) if self.by_id[id].partitions.contains(tp) => {
                if *state == TransactionState::Ongoing { End::Expected } else { End::Decided }
            }
            _ if self.is_complete => End::Nobody,
            _ => End::Unknown,
        }
    }
}

fn coordinated(
    now: Time,
    broker: BrokerId,
    id: &TransactionalId,
    transaction: &TransactionMetadata,
) -> CoordinatedView {
    let facts = transaction.facts();
    let is_open = !facts.state.is_idle() && facts.start_timestamp_ms >= 0;
    let open_ms = (now.wall_ms() - facts.start_timestamp_ms).max(0);
    CoordinatedView {
        id: Rc::from(id.as_str()),
        broker,
        state: facts.state.name(),
        pending: transaction.pending().map(TransactionState::name),
        producer: Rc::from(identity(facts.producer_id, facts.producer_epoch)),
        timeout: Rc::from(duration(i64::from(facts.timeout_ms))),
        open_for: is_open.then(|| Rc::from(format!("{} s", open_ms / 1000))),
        partitions: facts.partitions.iter().cloned().collect(),
    }
}

/// "producer id 4, epoch 2"
pub fn identity(producer: ProducerId, epoch: ProducerEpoch) -> String {
    format!("producer id {}, epoch {}", producer.0, epoch.0)
}

/// The transactional side of a producer; `None` without `transactional.id`.
pub fn transaction_view(producer: &Producer, transactions: &Transactions) -> Option<TransactionView> {
    let manager = producer.transaction_manager()?;
    Some(TransactionView {
        id: Rc::from(manager.id().as_str()),
        state: manager.state().name(),
        tone: match manager.state() {
            State::Uninitialized => Tone::Neutral,
            State::Initializing | State::InTransaction | State::Committing => Tone::Info,
            State::Ready => Tone::Good,
            State::Aborting | State::AbortableError => Tone::Warning,
            State::FatalError => Tone::Bad,
        },
        error: manager.last_error().map(|error| Rc::from(error.to_string())),
        calling: producer.is_calling().map(|call| Rc::from(call.to_string())),
        partitions: manager.partitions().iter().cloned().collect(),
        offers: offers(producer, manager.state()).into(),
        coordinated: transactions.get(manager.id()).cloned(),
    })
}

fn offers(producer: &Producer, state: State) -> Vec<(Rc<str>, &'static str)> {
    let Some(spec) = producer.spec().filter(|spec| spec.transactions.is_none()) else { return Vec::new() };
    let wishes: &[(Wish, &'static str)] = match state {
        State::Ready => &[(Wish::Begin, "begin")],
        State::InTransaction => &[(Wish::Commit, "commit"), (Wish::Abort, "abort")],
        State::AbortableError => &[(Wish::Abort, "abort")],
        _ => &[],
    };
    let offer = |(wish, label): &(Wish, &'static str)| {
        let command = Command::Transaction { client: spec.name.clone(), wish: *wish };
        (Rc::from(print(&command)), *label)
    };
    wishes.iter().map(offer).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::TRANSACTION_TOPIC;
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::model::{BrokerView, CellKind, ConsumerView, End, FlagKind, Model, ReplicaView, Role};
    use crate::view::sentences;

    const SCENARIO: &str = r#"
        format = 1
        network = { latency = "5ms..10ms" }
        [[broker]]
        id = 1
        [[broker]]
        id = 2
        [[broker]]
        id = 3
        [[topic]]
        name = "orders"
        partitions = 1
        replication-factor = 3
        [[topic]]
        name = "prices"
        partitions = 1
        replication-factor = 3
        [[producer]]
        name = "bank"
        topic = "prices"
        rate = "5/s"
        keys = "cart-{0..3}"
        config = { "transactional.id" = "bank-1" }
    "#;

    fn bank_began() -> Session {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(10_000), u64::MAX);
        go_on(&mut session, "begin transaction of bank", 1_500);
        session
    }

    fn go_on(session: &mut Session, text: &str, ms: i64) {
        session.command(text).expect(text);
        session.run_until(session.now().plus_ms(ms), u64::MAX);
    }

    fn led<'a>(model: &'a Model, tp: &str) -> &'a Rc<ReplicaView> {
        let mut replicas = model.brokers.iter().flat_map(|broker| broker.replicas.iter());
        let leads = |replica: &&Rc<ReplicaView>| replica.tp.to_string() == tp && replica.role == Role::Leader;
        replicas.find(leads).expect("it has a leader")
    }

    fn kinds(replica: &ReplicaView) -> Vec<CellKind> {
        let mut kinds: Vec<CellKind> = replica.cells.iter().map(|cell| cell.kind).collect();
        kinds.dedup();
        kinds
    }

    /// R-TXN-23, R-TXN-24: what is open holds the last stable offset up, what was aborted is passed over.
    #[test]
    fn a_transaction_is_shown_as_its_three_sides_have_it_r_txn_23_r_txn_24() {
        let mut session = bank_began();
        let shown = model(&session, None, None);
        let transaction = shown.producers[0].sending.transaction.clone().expect("it has a transactional.id");
        assert_eq!((&*transaction.id, transaction.state), ("bank-1", "IN_TRANSACTION"));
        let offers: Vec<&str> = transaction.offers.iter().map(|(command, _)| &**command).collect();
        assert_eq!(offers, ["commit transaction of bank", "abort transaction of bank"]);
        let coordinated = transaction.coordinated.as_ref().expect("its coordinator has it");
        assert_eq!((coordinated.state, coordinated.partitions.len()), ("Ongoing", 1));
        let prices = led(&shown, "prices-0");
        assert_eq!(
            (prices.open.len(), &*prices.open[0].owner, prices.open[0].end),
            (1, "bank-1", End::Expected)
        );
        assert_eq!(prices.last_stable, Some(prices.open[0].first));
        assert!(prices.high_watermark > prices.open[0].first, "{prices:?}");
        assert_eq!(kinds(prices), [CellKind::Open]);
        assert!(sentences::replica(prices).contains("; transaction of bank-1 from 0 to "), "{prices:?}");
        assert_eq!(led(&shown, "orders-0").last_stable, None, "nobody writes in transactions there");
        let replicas = |broker: &BrokerView| broker.replicas.len();
        assert!(shown.brokers.iter().all(|broker| replicas(broker) == 2), "coordinators' topics are folded");
        let broker = shown.brokers.iter().find(|broker| broker.id == coordinated.broker).expect("it lives");
        let topic = broker
            .internal
            .iter()
            .find(|topic| &*topic.name == TRANSACTION_TOPIC)
            .expect("it has part of it");
        assert_eq!((topic.partitions, topic.transactions.to_vec()), (50, vec![coordinated.clone()]));
        assert!(
            sentences::internal_topic(topic).starts_with("__transaction_state: coordinates bank-1; leads ")
        );

        go_on(&mut session, "abort transaction of bank", 2_000);
        let shown = model(&session, None, Some(&shown));
        let prices = led(&shown, "prices-0");
        assert_eq!(kinds(prices), [CellKind::Aborted, CellKind::Abort]);
        assert!(prices.open.is_empty());
        assert_eq!(prices.last_stable, Some(prices.high_watermark));
        let transaction = shown.producers[0].sending.transaction.clone().expect("as before");
        assert_eq!(transaction.state, "READY");
        assert_eq!(
            transaction.coordinated.as_ref().map(|coordinated| coordinated.state),
            Some("CompleteAbort")
        );

        go_on(&mut session, "begin transaction of bank", 1_000);
        go_on(&mut session, "commit transaction of bank", 2_000);
        let shown = model(&session, None, Some(&shown));
        let expected = [CellKind::Aborted, CellKind::Abort, CellKind::Record, CellKind::Commit];
        assert_eq!(kinds(led(&shown, "prices-0")), expected);
    }

    #[test]
    fn what_no_coordinator_is_going_to_end_is_said_to_hang_r_txn_25() {
        let mut session = bank_began();
        let coordinator = |model: &Model| {
            let transaction =
                model.producers.first().and_then(|producer| producer.sending.transaction.clone());
            transaction.and_then(|transaction| transaction.coordinated.clone()).map(|known| known.broker)
        };
        let broker = coordinator(&model(&session, None, None)).expect("somebody coordinates it");
        go_on(&mut session, &format!("kill broker {broker}"), 100);
        let end = |session: &Session| led(&model(session, None, None), "prices-0").open[0].end;
        if led(&model(&session, None, None), "prices-0").broker != broker {
            assert_eq!(end(&session), End::Unknown, "nobody has its place yet");
        }
        go_on(&mut session, &format!("start broker {broker}"), 20_000);
        assert_eq!(end(&session), End::Expected);
        go_on(&mut session, "crash bank", 100);
        go_on(&mut session, "delete topic __transaction_state", 5_000);
        assert_eq!(end(&session), End::Nobody);
        let shown = model(&session, None, None);
        assert!(sentences::replica(led(&shown, "prices-0")).contains("no coordinator is going to end it"));
    }

    const APPLICATION: &str = "add application pricing to pricing topics prices output orders program \"poll; begin; process 50ms; \
                               send results; send offsets; commit transaction\" transactional.id=pricing-1 \
                               auto.offset.reset=earliest isolation.level=read_committed";

    /// R-TXN-33: offsets sent to a transaction are pending until it is committed.
    #[test]
    fn an_application_is_one_member_with_two_clients_and_the_offsets_of_its_group_r_txn_33() {
        let mut session = bank_began();
        go_on(&mut session, APPLICATION, 8_000);
        go_on(&mut session, "commit transaction of bank", 10);
        let mut shown = model(&session, None, None);
        let mut pending = None;
        for _ in 0..600 {
            session.run_until(session.now().plus_ms(10), u64::MAX);
            shown = model(&session, None, Some(&shown));
            pending = pending.or_else(|| {
                let mut flags = led(&shown, "prices-0").flags.iter();
                flags.find(|flag| flag.kind == FlagKind::Pending).map(|flag| flag.offset)
            });
        }
        let member: &ConsumerView =
            &shown.groups.iter().find(|group| group.id.as_str() == "pricing").expect("a group").members[0];
        let producing = member.producing.as_ref().expect("it produces");
        assert_eq!((&*producing.output, &*member.name), ("orders", "pricing"));
        assert!(producing.sending.acknowledged > 0, "{producing:?}");
        assert!(producing.sending.transaction.is_some());
        let consumed = &member.partitions[0];
        assert_eq!(consumed.committed, pending, "what was pending is committed");
        assert!(consumed.committed.is_some(), "{member:?}");
        assert!(
            sentences::consumer(member).starts_with("Application pricing, "),
            "{}",
            sentences::consumer(member)
        );
    }
}
