//! The application that a client is embedded in: where its thread was stopped, and what its program is made of.

use super::client::about;
use super::{Sentence, Tone};
use crate::kafka::event::{ApplicationEvent, Halt};
use crate::kafka::time::Time;
use crate::lab::words::{duration, list};

pub(super) fn tell(time: Time, event: &ApplicationEvent) -> Option<Sentence> {
    Some(match event {
        ApplicationEvent::Halted { client, how, line, text, after, record } => {
            let what = match how {
                Halt::Crash => "is killed",
                Halt::Freeze => "stands still",
                Halt::Hang => "hangs",
            };
            let side = if *after { "behind" } else { "before" };
            let title = format!("{client} {what} {side} line {line}, {text}");
            let tone = if *how == Halt::Crash { Tone::Bad } else { Tone::Warn };
            let in_hand = match record {
                Some((tp, offset)) => format!("It has the record at offset {offset} of {tp} in hand. "),
                None => String::new(),
            };
            let detail = match how {
                Halt::Crash if *after => "What the line does has been done; nothing behind it was.",
                Halt::Crash => "The line has had no effect; all above it has.",
                Halt::Freeze => "All threads of the process stop, the one that sends heartbeats too.",
                Halt::Hang => "The thread that sends heartbeats goes on: only max.poll.interval.ms notices.",
            };
            about(time, tone, client, title).detail(format!("{in_hand}{detail}")).rules(match how {
                Halt::Crash => &["R-CONS-18", "R-CONS-26"],
                Halt::Freeze => &["R-CONS-26"],
                Halt::Hang => &["R-CONS-24", "R-CONS-25"],
            })
        }
        ApplicationEvent::LookedUp { client, call, told } => {
            let each = told.iter().map(|(tp, offset)| match offset {
                Some(offset) => format!("{tp}: {offset}"),
                None => format!("{tp}: nothing"),
            });
            about(time, Tone::Info, client, format!("{client}: {call} returns {}", list(each)))
        }
        ApplicationEvent::LetGo { .. } | ApplicationEvent::ResultSent { .. } => return None,
        ApplicationEvent::CallThrew { client, call, exception, then } => {
            about(time, Tone::Bad, client, format!("{client}: {call} threw {exception}: it {then}"))
                .detail("After an error that can be aborted it begins again with what is committed; after any other it closes its clients.")
                .rules(&["R-TXN-31"])
        }
        ApplicationEvent::CalledBack { threw: false, took_ms: 0, .. } => return None,
        ApplicationEvent::CalledBack { client, method, took_ms, threw: false } => {
            about(time, Tone::Info, client, format!("{client}: {method} returns after {}", duration(*took_ms)))
                .detail("It ran inside poll() or close(): no record was handed over meanwhile, and only heartbeats went on.")
                .rules(&["R-CONS-7"])
        }
        ApplicationEvent::CalledBack { client, method, .. } => {
            about(time, Tone::Bad, client, format!("{client}: {method} throws"))
                .detail("The classic consumer does what it was about to do, and then the call throws; the newer one does not tell its coordinator that it has what it was given.")
                .rules(&["R-CONS-7"])
        }
        ApplicationEvent::ListenerThrew { client, method } => {
            let title = format!("{client}: poll() throws KafkaException: User rebalance callback throws an error ({method})");
            about(time, Tone::Bad, client, title).detail("Its application does not catch that: it closes the consumer.")
        }
        ApplicationEvent::Woken { client } => {
            about(time, Tone::Info, client, format!("{client}: its program goes on"))
        }
        ApplicationEvent::ProgramChanged { client, program } => {
            about(time, Tone::Info, client, format!("{client} is given another program: {program}"))
                .detail("It begins with it when it comes to its first line.")
        }
        ApplicationEvent::PaceSet { client, us_per_record } => {
            let pace = match us_per_record % 1000 {
                0 => duration(us_per_record / 1000),
                _ => format!("{us_per_record} us"),
            };
            about(time, Tone::Info, client, format!("{client} takes {pace} for each record from now on"))
        }
    })
}
