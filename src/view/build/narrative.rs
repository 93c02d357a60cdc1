//! The newest sentences of the narrative, and the objects they lead to.

use std::rc::Rc;

use crate::kafka::types::TopicPartition;
use crate::lab::narrator::{self, Subject};
use crate::lab::session::Session;
use crate::view::model::{BrokerView, Focus, List, Model, Role, Sentence, Tone};

/// So many sentences are shown.
const SHOWN: usize = 200;

/// The newest sentences; those that were shown before keep their pointers.
pub fn tail(session: &Session, brokers: &List<BrokerView>, before: Option<&Model>) -> List<Sentence> {
    let narrative = session.narrative();
    let shown = before.map(|model| &model.sentences);
    let last = shown.and_then(|shown| shown.last()).map_or(0, |sentence| sentence.number);
    if let Some(shown) = shown
        && narrative.len_ever() == last
    {
        return shown.clone();
    }
    let new = narrative.since(last).map(|(number, sentence)| Rc::new(view(number, sentence, brokers)));
    let mut sentences: Vec<Rc<Sentence>> =
        shown.into_iter().flat_map(|shown| shown.iter().cloned()).collect();
    sentences.extend(new);
    let excess = sentences.len().saturating_sub(SHOWN);
    sentences.drain(..excess);
    sentences.into()
}

fn view(number: u64, sentence: &narrator::Sentence, brokers: &List<BrokerView>) -> Sentence {
    Sentence {
        number,
        time: sentence.time,
        title: plain(&sentence.title),
        detail: plain(&sentence.detail),
        rules: sentence.rules.iter().copied().map(Rc::from).collect(),
        tone: match sentence.tone {
            narrator::Tone::Info => Tone::Info,
            narrator::Tone::Good => Tone::Good,
            narrator::Tone::Warn => Tone::Warning,
            narrator::Tone::Bad => Tone::Bad,
        },
        about: match &sentence.about {
            Subject::Partition(tp) => leader_of(tp, brokers),
            Subject::Broker(id) => Some(Focus::Broker(*id)),
            Subject::Controller(id) => Some(Focus::Controller(*id)),
            Subject::Client(name) => Some(Focus::Client(name.clone())),
            _ => None,
        },
    }
}

/// A name's marks that turn the direction of writing would turn the rest of the sentence too; they are made visible.
fn plain(text: &str) -> Rc<str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    Rc::from(text.replace(turns, "\u{fffd}"))
}

/// The leader's replica, or any.
fn leader_of(tp: &TopicPartition, brokers: &List<BrokerView>) -> Option<Focus> {
    let replicas =
        || brokers.iter().flat_map(|broker| broker.replicas.iter()).filter(|replica| replica.tp == *tp);
    let replica = replicas().find(|replica| replica.role == Role::Leader).or_else(|| replicas().next())?;
    Some(Focus::Replica { broker: replica.broker, tp: tp.clone() })
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_name_cannot_turn_the_sentence_around_it() {
        assert_eq!(&*plain("\u{202e}gnp.exe started"), "\u{fffd}gnp.exe started");
        assert_eq!(&*plain("مرحبا 😀 started"), "مرحبا 😀 started");
    }
}
