//! The sentences told so far, numbered from 1; the oldest are let go.
//!
//! **Invariant:** a sentence keeps its number, and numbers have no gaps.

use std::collections::VecDeque;
use std::rc::Rc;

use super::narrator::Sentence;

/// So many sentences are kept.
const KEPT: usize = 2000;

#[derive(Clone, Debug, Default)]
pub struct Narrative {
    sentences: VecDeque<Rc<Sentence>>,
    /// Sentences told before the oldest that is kept.
    let_go: u64,
}

impl Narrative {
    pub fn push(&mut self, sentence: Sentence) {
        if self.sentences.len() == KEPT {
            self.sentences.pop_front();
            self.let_go += 1;
        }
        self.sentences.push_back(Rc::new(sentence));
    }

    /// The number of the newest sentence, which is how many were ever told.
    pub fn len_ever(&self) -> u64 {
        self.let_go + self.sentences.len() as u64
    }

    pub fn last(&self) -> Option<&Rc<Sentence>> {
        self.sentences.back()
    }

    /// The kept sentences with their numbers, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Rc<Sentence>)> {
        let oldest = self.let_go + 1;
        self.sentences.iter().enumerate().map(move |(index, sentence)| (oldest + index as u64, sentence))
    }

    /// The kept sentences after the `number`-th.
    pub fn since(&self, number: u64) -> impl Iterator<Item = (u64, &Rc<Sentence>)> {
        let known = usize::try_from(number.saturating_sub(self.let_go)).unwrap_or(usize::MAX);
        self.iter().skip(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;
    use crate::lab::narrator::{Subject, Tone};

    fn told(count: usize) -> Narrative {
        let mut narrative = Narrative::default();
        for n in 1..=count {
            narrative.push(Sentence {
                time: Time::ZERO,
                event: 0,
                tone: Tone::Info,
                about: Subject::Cluster,
                title: n.to_string(),
                detail: String::new(),
                rules: &[],
            });
        }
        narrative
    }

    fn check(told: &Narrative, since: u64, expected: &[u64]) {
        let numbers: Vec<u64> = told.since(since).map(|(number, _)| number).collect();
        assert_eq!(numbers, expected);
        assert!(told.since(since).all(|(number, sentence)| sentence.title == number.to_string()));
    }

    #[test]
    fn sentences_keep_their_numbers_when_the_oldest_are_let_go() {
        check(&told(0), 0, &[]);
        check(&told(3), 0, &[1, 2, 3]);
        check(&told(3), 2, &[3]);
        check(&told(3), 9, &[]);
        let long = told(KEPT + 5);
        assert_eq!((long.len_ever(), long.iter().count()), (KEPT as u64 + 5, KEPT));
        check(&long, KEPT as u64 + 3, &[KEPT as u64 + 4, KEPT as u64 + 5]);
        assert_eq!(long.iter().next().map(|(number, _)| number), Some(6));
        assert_eq!(long.since(2).next().map(|(number, _)| number), Some(6));
    }
}
