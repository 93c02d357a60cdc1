//! What a screen reader says of the narrative: one sentence at a time, and of a burst what matters most.
//!
//! **Invariant:** what is said follows the narrative's order, and never falls behind by more than a few sentences.

use std::rc::Rc;

use super::model::{Sentence, Tone};

/// So many sentences may wait to be said.
const WAITING: usize = 3;

#[derive(Clone, Debug, Default)]
pub struct Announcer {
    /// The newest sentence that was looked at.
    heard: u64,
    waiting: Vec<Rc<Sentence>>,
}

impl Announcer {
    /// Looks at the narrative, oldest first, and gives the next sentence to say.
    pub fn next(&mut self, sentences: &[Rc<Sentence>]) -> Option<Rc<str>> {
        let newest = sentences.last().map_or(0, |sentence| sentence.number);
        if newest < self.heard {
            *self = Announcer::default();
        }
        let heard = std::mem::replace(&mut self.heard, newest);
        let new = sentences.iter().filter(|sentence| sentence.number > heard);
        self.waiting.extend(new.cloned());
        while self.waiting.len() > WAITING {
            let weights = self.waiting.iter().enumerate();
            // The last of the least: what came first is the cause of what follows.
            let least =
                weights.rev().min_by_key(|(_, sentence)| weight(sentence)).map_or(0, |(index, _)| index);
            self.waiting.remove(least);
        }
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0).title.clone())
    }
}

/// Faults before warnings before recoveries; Kafka's own topics last.
fn weight(sentence: &Sentence) -> u8 {
    if sentence.title.starts_with("__") {
        return 0;
    }
    match sentence.tone {
        Tone::Neutral | Tone::Info => 1,
        Tone::Good => 2,
        Tone::Warning => 3,
        Tone::Bad => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;

    fn told(first: u64, sentences: &[(Tone, &str)]) -> Vec<Rc<Sentence>> {
        let numbered = (first..).zip(sentences);
        let sentence = |(number, (tone, title)): (u64, &(Tone, &str))| {
            Rc::new(Sentence {
                number,
                time: Time::ZERO,
                title: Rc::from(*title),
                detail: Rc::from(""),
                rules: Rc::from([]),
                tone: *tone,
                about: None,
            })
        };
        numbered.map(sentence).collect()
    }

    fn check(announcer: &mut Announcer, sentences: &[Rc<Sentence>], expected: &[&str]) {
        let said: Vec<Rc<str>> = std::iter::from_fn(|| announcer.next(sentences)).collect();
        assert_eq!(said.iter().map(|title| &**title).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_a_burst_the_worst_is_said_in_its_order() {
        let burst = told(
            1,
            &[
                (Tone::Bad, "broker 3 fenced"),
                (Tone::Warning, "orders-2: leader moved"),
                (Tone::Warning, "__consumer_offsets: 16 leaders moved"),
                (Tone::Warning, "orders-0: broker 3 left the ISR"),
                (Tone::Warning, "orders-1: broker 3 left the ISR"),
                (Tone::Good, "acknowledged"),
            ],
        );
        let said = ["broker 3 fenced", "orders-2: leader moved", "orders-0: broker 3 left the ISR"];
        check(&mut Announcer::default(), &burst, &said);
    }

    #[test]
    fn nothing_is_said_twice_and_a_new_run_begins_anew() {
        let mut announcer = Announcer::default();
        check(&mut announcer, &told(1, &[(Tone::Info, "a"), (Tone::Info, "b")]), &["a", "b"]);
        check(&mut announcer, &told(1, &[(Tone::Info, "a"), (Tone::Info, "b")]), &[]);
        check(&mut announcer, &told(3, &[(Tone::Info, "c")]), &["c"]);
        check(&mut announcer, &told(1, &[(Tone::Info, "other")]), &["other"]);
    }
}
