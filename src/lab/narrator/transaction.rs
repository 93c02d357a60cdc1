//! Transactions: who begins, what is decided and why, what is over.
//!
//! That partitions are added and get their markers is routine.

use super::{Sentence, Subject, Tone};
use crate::kafka::event::{EndReason, TransactionEvent};
use crate::kafka::time::Time;
use crate::lab::words::{count as counted, list};

pub(super) fn tell(time: Time, event: &TransactionEvent) -> Option<Sentence> {
    let at = |broker, tone, title: String| Sentence::new(time, tone, Subject::Broker(broker), title);
    match event {
        TransactionEvent::Initialized { broker, id, producer, epoch } => {
            let title =
                format!("{id} begins as producer {producer} in epoch {epoch}, at coordinator {broker}");
            let sentence = at(*broker, Tone::Info, title);
            Some(match epoch.0 {
                0 => sentence.rules(&["R-TXN-1", "R-TXN-6"]),
                _ => {
                    let detail = "Whoever used the id before is fenced: its epoch is an earlier one.";
                    sentence.detail(detail).rules(&["R-TXN-7"])
                }
            })
        }
        TransactionEvent::Decided { broker, id, committed, partitions, reason } => {
            let what = if *committed { "committed" } else { "aborted" };
            let title = match partitions.is_empty() {
                true => format!("{id}: an empty transaction is {what}"),
                false => format!("{id}: the transaction in {} is {what}", list(partitions)),
            };
            let (tone, detail, rules): (_, _, &'static [&'static str]) = match reason {
                EndReason::Client => {
                    let detail = "That is decided now, whatever fails; readers see it in each partition once its \
                                  marker is there.";
                    (Tone::Info, detail, &["R-TXN-18"])
                }
                EndReason::NewInstance => {
                    let detail = "Another instance began with the same transactional id while it was open.";
                    (Tone::Warn, detail, &["R-TXN-8"])
                }
                EndReason::Timeout => {
                    let detail = "It was open for longer than transaction.timeout.ms, and readers of committed data \
                                  waited for it.";
                    (Tone::Bad, detail, &["R-TXN-26"])
                }
            };
            Some(at(*broker, tone, title).detail(detail).rules(rules))
        }
        TransactionEvent::Completed { broker, id, committed } => {
            let what = if *committed { "commit" } else { "abort" };
            let title = format!("{id}: the {what} is in all partitions");
            Some(at(*broker, Tone::Good, title).rules(&["R-TXN-19"]))
        }
        TransactionEvent::Forgotten { broker, id } => {
            let title = format!("{id} is forgotten: it was not used for transactional.id.expiration.ms");
            Some(at(*broker, Tone::Info, title).rules(&["R-TXN-27"]))
        }
        TransactionEvent::Late { broker, tp, count } => {
            let title = format!(
                "{tp} has a late transaction: broker {broker} counts {}",
                counted(*count, "partition")
            );
            let detail = "Nobody has written to it for transaction.max.timeout.ms and five minutes more, so its coordinator \
                          does not know of it or cannot end it. Readers of committed data wait; find hanging transactions \
                          tells where it begins.";
            Some(at(*broker, Tone::Bad, title).detail(detail).rules(&["R-TXN-25"]))
        }
        TransactionEvent::Added { .. } | TransactionEvent::Marked { .. } => None,
    }
}
