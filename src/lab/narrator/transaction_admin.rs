//! Transactions as an administrator asks of them.

use super::{Sentence, Subject, Tone};
use crate::kafka::event::{
    ActiveProducer, DescribedTransaction, HangingTransaction, ListedTransaction, TransactionsTold,
};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ProducerEpoch, ProducerId, TopicPartition, TransactionalId};
use crate::lab::words::{count, duration, list};

/// What an administrator asked for.
pub(super) fn tell(time: Time, told: &TransactionsTold) -> Sentence {
    match told {
        TransactionsTold::List(transactions) => listed(time, transactions),
        TransactionsTold::Transaction(described) => transaction(time, described),
        TransactionsTold::Producers { tp, broker, producers } => producers_of(time, (tp, *broker), producers),
        TransactionsTold::Terminated { id, producer, epoch } => terminated(time, id, (*producer, *epoch)),
        TransactionsTold::Hanging(all) => hanging(time, all),
        TransactionsTold::Aborted(transaction) => aborted(time, transaction),
    }
}

fn listed(time: Time, transactions: &[ListedTransaction]) -> Sentence {
    let one = |listed: &ListedTransaction| {
        let ListedTransaction { id, coordinator, producer, state } = listed;
        format!("{id} ({state}, producer {producer}, coordinated by broker {coordinator})")
    };
    let title = match transactions {
        [] => "no transactional id is listed".to_owned(),
        all => {
            let each: Vec<String> = all.iter().map(one).collect();
            format!("{}: {}", count(all.len() as i64, "transactional id"), each.join("; "))
        }
    };
    Sentence::new(time, Tone::Info, Subject::Cluster, title)
        .detail("Each broker tells of those that it coordinates.")
        .rules(&["R-CLI-20"])
}

fn transaction(time: Time, described: &DescribedTransaction) -> Sentence {
    let DescribedTransaction {
        id,
        coordinator,
        producer,
        epoch,
        state,
        timeout_ms,
        began_ms_ago,
        partitions,
    } = described;
    let within = match partitions.is_empty() {
        true => String::new(),
        false => format!(" in {}", list(partitions)),
    };
    let began = match began_ms_ago {
        Some(ms) => format!("Its last transaction began {} ago.", duration(*ms)),
        None => "It has had no transaction.".to_owned(),
    };
    let detail = format!(
        "Broker {coordinator} coordinates it, as producer {producer} in epoch {epoch}. {began} It may take {}.",
        duration((*timeout_ms).into())
    );
    Sentence::new(time, Tone::Info, Subject::Broker(*coordinator), format!("{id}: {state}{within}"))
        .detail(detail)
        .rules(&["R-CLI-20"])
}

fn terminated(time: Time, id: &TransactionalId, (producer, epoch): (ProducerId, ProducerEpoch)) -> Sentence {
    let title = format!("{id}: what was open is aborted by hand, and whoever used it is fenced");
    let detail = format!(
        "An administrator asked for the producer's next epoch, as a new instance would: producer {producer} is in epoch \
         {epoch}."
    );
    Sentence::new(time, Tone::Warn, Subject::Cluster, title).detail(detail).rules(&["R-CLI-20", "R-TXN-8"])
}

fn producers_of(
    time: Time,
    (tp, broker): (&TopicPartition, Option<BrokerId>),
    producers: &[ActiveProducer],
) -> Sentence {
    let place = match broker {
        Some(broker) => format!("{tp} on broker {broker}"),
        None => tp.to_string(),
    };
    let open = producers.iter().filter(|producer| producer.open_since.is_some()).count() as i64;
    let title = match producers.len() as i64 {
        0 => format!("{place}: no producer with an id is known"),
        number => format!("{place}: {}, {} open", count(number, "producer"), count(open, "transaction")),
    };
    let one = |active: &ActiveProducer| {
        let ActiveProducer { producer, epoch, coordinator_epoch, last_sequence, wrote_ms_ago, open_since } =
            active;
        let marked = coordinator_epoch.map(|epoch| format!(", last marker in coordinator epoch {epoch}"));
        let open = open_since.map(|offset| format!(", transaction open from offset {offset} on"));
        format!(
            "{producer} in epoch {epoch}: sequence {last_sequence} {} ago{}{}",
            duration(*wrote_ms_ago),
            marked.unwrap_or_default(),
            open.unwrap_or_default()
        )
    };
    let each: Vec<String> = producers.iter().map(one).collect();
    let detail = if each.is_empty() { String::new() } else { each.join("; ") + "." };
    Sentence::new(time, Tone::Info, Subject::Partition(tp.clone()), title).detail(detail).rules(&["R-CLI-20"])
}

fn hanging(time: Time, all: &[HangingTransaction]) -> Sentence {
    if all.is_empty() {
        return Sentence::new(
            time,
            Tone::Info,
            Subject::Cluster,
            "no hanging transaction is found".to_owned(),
        )
        .detail("Whatever has been open for so long is still to be ended by its coordinator.")
        .rules(&["R-CLI-20"]);
    }
    let one = |hanging: &HangingTransaction| {
        let HangingTransaction { tp, producer, epoch, start, wrote_ms_ago } = hanging;
        let ago = duration(*wrote_ms_ago);
        format!("{tp} from offset {start} on (producer {producer} in epoch {epoch}, silent for {ago})")
    };
    let each: Vec<String> = all.iter().map(one).collect();
    let title = format!("{} found: {}", count(all.len() as i64, "hanging transaction"), each.join("; "));
    Sentence::new(time, Tone::Bad, Subject::Cluster, title)
        .detail(
            "No coordinator is going to end what is open there, and readers of committed data wait for it.",
        )
        .rules(&["R-CLI-20", "R-TXN-25"])
}

fn aborted(time: Time, transaction: &HangingTransaction) -> Sentence {
    let HangingTransaction { tp, producer, start, .. } = transaction;
    let title =
        format!("{tp}: the transaction of producer {producer} from offset {start} on is aborted by hand");
    Sentence::new(time, Tone::Good, Subject::Partition(tp.clone()), title)
        .detail(
            "The marker is in this partition alone; readers of committed data no longer wait for it here.",
        )
        .rules(&["R-CLI-20", "R-TXN-25"])
}
