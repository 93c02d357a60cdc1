//! What a share consumer's application says of the records that it was given: a line of its program.
//!
//! **Invariant:** a saying reads as it prints.

use std::fmt;

use crate::kafka::random::Random;
use crate::kafka::share::AcknowledgeType;
use crate::kafka::types::Offset;

/// `accept`, `release 10%`, `reject offset 3`: one type for the chosen ones of the last poll's records, as far as nothing
/// was said of them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Saying {
    pub kind: AcknowledgeType,
    pub of: Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    All,
    /// Each record with this chance, at each delivery anew.
    Percent(u8),
    /// The record at this offset of whatever partition: one that cannot be processed.
    Offset(Offset),
}

impl Choice {
    pub fn takes(self, offset: Offset, random: &mut Random) -> bool {
        match self {
            Choice::All => true,
            Choice::Percent(percent) => random.below(100) < u64::from(percent),
            Choice::Offset(chosen) => offset == chosen,
        }
    }
}

impl Saying {
    /// The words of a line; nothing if they are no saying.
    pub fn parse(words: &[&str]) -> Option<Saying> {
        let (verb, choice) = words.split_first()?;
        let kind = *SAID.iter().find(|kind| name(**kind) == *verb)?;
        let of = match choice {
            [] => Choice::All,
            ["offset", offset] => Choice::Offset(Offset(offset.parse().ok().filter(|offset| *offset >= 0)?)),
            [percent] => {
                let percent = percent.strip_suffix('%')?.parse().ok();
                Choice::Percent(percent.filter(|percent| (1..=100).contains(percent))?)
            }
            _ => return None,
        };
        Some(Saying { kind, of })
    }

    /// Its first word.
    pub fn word(&self) -> &'static str {
        name(self.kind)
    }
}

impl fmt::Display for Saying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.kind))?;
        match self.of {
            Choice::All => Ok(()),
            Choice::Percent(percent) => write!(f, " {percent}%"),
            Choice::Offset(offset) => write!(f, " offset {offset}"),
        }
    }
}

/// What applications say; gaps are found by the client alone.
const SAID: [AcknowledgeType; 4] =
    [AcknowledgeType::Accept, AcknowledgeType::Release, AcknowledgeType::Reject, AcknowledgeType::Renew];

fn name(kind: AcknowledgeType) -> &'static str {
    match kind {
        AcknowledgeType::Gap => "gap",
        AcknowledgeType::Accept => "accept",
        AcknowledgeType::Release => "release",
        AcknowledgeType::Reject => "reject",
        AcknowledgeType::Renew => "renew",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sayings_read_as_they_print_r_share_6() {
        for text in ["accept", "release", "release 10%", "reject offset 3", "renew 100%", "accept 1%"] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(Saying::parse(&words).map(|saying| saying.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_no_saying_is_none() {
        for text in [
            "gap",
            "accept 0%",
            "accept 101%",
            "release 10",
            "reject offset -1",
            "renew offset",
            "reject all of it",
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(Saying::parse(&words), None, "{text}");
        }
    }

    #[test]
    fn a_choice_takes_what_it_says() {
        let mut random = Random::stream(1, "choice");
        let mut taken =
            |choice: Choice| (0..1000).filter(|at| choice.takes(Offset(*at), &mut random)).count();
        assert_eq!(
            (taken(Choice::All), taken(Choice::Offset(Offset(3))), taken(Choice::Percent(100))),
            (1000, 1, 1000)
        );
        let tenth = taken(Choice::Percent(10));
        assert!((60..150).contains(&tenth), "{tenth}");
    }
}
