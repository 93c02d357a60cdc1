//! Producers, as their applications see them.

use super::{Sentence, Subject, Tone};
use crate::kafka::event::ProducerEvent;
use crate::kafka::time::Time;
use crate::kafka::types::ClientName;
use crate::lab::words::{count, duration};

pub(super) fn tell(time: Time, event: &ProducerEvent) -> Sentence {
    match event {
        ProducerEvent::Thrown { client, call, exception } => {
            about(time, Tone::Bad, client, format!("{client}: {call} throws {exception}"))
                .detail("What can be aborted its application aborts; after a fatal error it ends.")
                .rules(&["R-TXN-30", "R-TXN-31"])
        }
        ProducerEvent::Abandoned { client, tp, records, exception, .. } => about(
            time,
            Tone::Warn,
            client,
            format!("{client}: {} of {tp} given up", count(*records, "record")),
        )
        .detail(format!("Their transaction is not committed. The application sees {exception}."))
        .rules(&["R-TXN-31"]),
        ProducerEvent::StickyPartitionChosen { client, tp } => {
            let detail = "One partition gets about batch.size bytes in a row, then another drawn at random, rather one with \
                          a short queue.";
            about(time, Tone::Info, client, format!("{client}: records without key go to {tp} now"))
                .detail(detail)
                .rules(&["R-PROD-11", "R-PROD-12"])
        }
        ProducerEvent::Flushed { client, took_ms } => {
            let title = format!("{client}: flush() returned after {}", duration(*took_ms));
            about(time, Tone::Info, client, title)
                .detail("What lingered was sent at once, and all that was sent before has its outcome.")
                .rules(&["R-PROD-8"])
        }
        ProducerEvent::Forced { client, records } => {
            let title = format!("{client} closed without waiting for {}", count(*records, "record"));
            about(time, Tone::Bad, client, title)
                .detail("The time given to close() is over; they fail, whether a broker has them or not.")
                .rules(&["R-PROD-8"])
        }
    }
}

fn about(time: Time, tone: Tone, client: &ClientName, text: String) -> Sentence {
    Sentence::new(time, tone, Subject::Client(client.clone()), text)
}
