//! Producers with transactions, as their applications see them.

use super::{Sentence, Subject, Tone};
use crate::kafka::event::ProducerEvent;
use crate::kafka::time::Time;
use crate::kafka::types::ClientName;
use crate::lab::words::count;

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
    }
}

fn about(time: Time, tone: Tone, client: &ClientName, text: String) -> Sentence {
    Sentence::new(time, tone, Subject::Client(client.clone()), text)
}
