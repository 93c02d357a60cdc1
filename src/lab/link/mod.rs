//! A run as a link: what must be known to live it again, and how to tell whether it is the same.
//!
//! - [`text`]: as the address bar holds it
//! - [`replay`]: how it is lived again
//!
//! **Invariant:** a link's text is read whole or refused with the reason, and costs no more memory than [`text::MOST_BYTES`]
//! allow.

pub mod replay;
pub mod text;

use serde::{Deserialize, Serialize};

pub use self::text::LinkError;
use super::history::{History, Milestone};
use super::journal::{Entry, Journal};
use super::scenario::without_comments;
use super::session::Position;
use crate::kafka::time::Time;
use crate::sim::Key;

/// Digests that a link carries at most.
const MOST_MILESTONES: usize = 16;

/// What is written. The order of fields is the format; a change of it is another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What the run is called.
    pub name: String,
    /// The scenario as it was written.
    pub scenario: String,
    /// Of the run, which may not be the scenario's.
    pub seed: u64,
    /// Each command with its place: microseconds, sequence.
    commands: Vec<(i64, u64, String)>,
    /// The last of them is the moment that is linked to.
    pub milestones: Vec<Milestone>,
}

impl Link {
    /// A link to the present of a run.
    pub fn to(name: &str, history: &History) -> Link {
        let present = history.present();
        let command = |entry: &Entry| (entry.place.time.us(), entry.place.sequence, entry.text.clone());
        let mut milestones: Vec<Milestone> = history.milestones().collect();
        milestones.sort_by_key(Milestone::position);
        let now = present.position();
        milestones.retain(|milestone| milestone.position() < now);
        thin_out(&mut milestones, MOST_MILESTONES - 1);
        milestones.push(Milestone { events: now.events, us: now.time.us(), digest: present.digest() });
        Link {
            name: name.to_owned(),
            scenario: present.text().to_owned(),
            seed: present.seed(),
            commands: present.journal().entries().iter().map(command).collect(),
            milestones,
        }
    }

    /// The same without the scenario's comments, which make up most of an address.
    pub fn without_comments(self) -> Link {
        Link { scenario: without_comments(&self.scenario), ..self }
    }

    /// The commands; `None` if their places are out of order.
    pub fn journal(&self) -> Option<Journal> {
        let entry = |(us, sequence, text): &(i64, u64, String)| Entry {
            place: Key { time: Time::from_us(*us), sequence: *sequence },
            text: text.clone(),
        };
        Journal::of(self.commands.iter().map(entry).collect())
    }

    /// The moment that is linked to.
    pub fn position(&self) -> Position {
        self.milestones.last().map_or(Position::default(), Milestone::position)
    }
}

/// Leaves so many of them, evenly.
fn thin_out(milestones: &mut Vec<Milestone>, most: usize) {
    let len = milestones.len();
    if len > most {
        let mut index = 0;
        milestones.retain(|_| {
            let stays = (index + 1) * most / len > index * most / len;
            index += 1;
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::replay::{Progress, Replay};
    use super::text::{MOST_CHARACTERS, decode, encode};
    use super::*;
    use crate::lab::pace::StopsAt;
    use crate::lab::session::Options;

    const DEFAULT: &str = include_str!("../../../static/scenarios/default.toml");

    fn history() -> History {
        let options = Options { seed: Some(7), ..Options::default() };
        let mut history = History::open(DEFAULT, options).expect("the scenario is right");
        history.run(Time::from_ms(13_000), u64::MAX, StopsAt::Nothing);
        history.command("kill broker 3").expect("it runs");
        history.run(Time::from_ms(30_000), u64::MAX, StopsAt::Nothing);
        history
    }

    #[test]
    fn a_link_leads_to_the_same_moment_of_the_same_run() {
        let history = history();
        let text = encode(&Link::to("Default cluster", &history).without_comments());
        assert!(text.len() < 900, "{} characters", text.len());
        let link = decode(&text).expect("it was written just now");
        assert_eq!(link.name, "Default cluster");
        let (mut again, mut replay) = Replay::open(&link).expect("its scenario was right");
        assert_eq!(arrive(&mut again, &mut replay), Progress::Arrived);
        assert_eq!(again.present().position(), history.present().position());
        assert_eq!(again.present().journal(), history.present().journal());
    }

    fn arrive(history: &mut History, replay: &mut Replay) -> Progress {
        loop {
            match replay.go_on(history, 700) {
                Progress::UnderWay => {}
                end => return end,
            }
        }
    }

    #[test]
    fn a_run_that_goes_otherwise_is_told_with_the_stretch_in_which_it_does() {
        let link = Link::to("", &history());
        let check = |change: &dyn Fn(&mut Link), expected: &str| {
            let mut link = link.clone();
            change(&mut link);
            let (mut history, mut replay) = Replay::open(&link).expect("its scenario is right");
            let said = format!("{:?}", arrive(&mut history, &mut replay));
            assert!(said.contains(expected), "{said} and not {expected}");
        };
        let last = link.milestones.len() - 1;
        check(&|link| link.milestones[last].digest += 1, "Parted");
        check(&|link| link.milestones[0].digest += 1, "same_until: Time { us: 0,");
        check(&|link| link.milestones[last].events += 1, "refused: None");
        check(&|link| link.commands[0].2 = "kill broker 9".to_owned(), "there is no broker 9");
        let mut link = link.clone();
        link.milestones.reverse();
        assert_eq!(Replay::open(&link).err(), Some(LinkError::Content.into()));
        link.scenario.push('[');
        link.milestones.reverse();
        let error = Replay::open(&link).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("the link's scenario, line "), "{error}");
    }

    #[test]
    fn what_a_link_does_not_carry_whole_is_refused_with_the_reason() {
        let text = encode(&Link::to("Default cluster", &history()));
        let check = |text: &str, reason: &str| {
            let error = decode(text).expect_err(reason);
            assert!(error.to_string().contains(reason), "{error}");
        };
        check("", "no link");
        check("x1234", "no link");
        check(&text.replacen('1', "7", 1), "format 7");
        check(&text[..text.len() - 5], "cut off or changed");
        check(&format!("{}!{}", &text[..40], &text[41..]), "character 41");
        let mut changed = text.clone().into_bytes();
        changed[60] = if changed[60] == b'A' { b'B' } else { b'A' };
        check(&String::from_utf8(changed).expect("it is ASCII"), "cut off or changed");
        check(&"1".repeat(MOST_CHARACTERS + 1), "longer than");
    }

    #[test]
    fn milestones_are_thinned_out_evenly() {
        let mut milestones: Vec<Milestone> =
            (0..100).map(|events| Milestone { events, us: 0, digest: 0 }).collect();
        thin_out(&mut milestones, 4);
        assert_eq!(milestones.iter().map(|left| left.events).collect::<Vec<_>>(), [24, 49, 74, 99]);
    }

    fn link() -> impl Strategy<Value = Link> {
        let command = (any::<i64>(), any::<u64>(), any::<String>());
        let milestone = (any::<u64>(), any::<i64>(), any::<u64>())
            .prop_map(|(events, us, digest)| Milestone { events, us, digest });
        let parts = (
            any::<String>(),
            any::<String>(),
            any::<u64>(),
            prop::collection::vec(command, 0..20),
            prop::collection::vec(milestone, 1..5),
        );
        parts.prop_map(|(name, scenario, seed, commands, milestones)| Link {
            name,
            scenario,
            seed,
            commands,
            milestones,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(link in link()) {
            prop_assert_eq!(decode(&encode(&link)), Ok(link));
        }

        #[test]
        fn whatever_is_read_never_fails_otherwise_than_with_a_reason(text in "1?[A-Za-z0-9_-]{0,400}") {
            prop_assert!(decode(&text).is_err());
        }

        #[test]
        fn a_changed_character_is_noticed(link in link(), at in any::<prop::sample::Index>(), by in 1..64_u8) {
            let mut text = encode(&link).into_bytes();
            let index = 1 + at.index(text.len() - 1);
            let characters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let was = characters.iter().position(|character| *character == text[index]).expect("one of them");
            text[index] = characters[(was + usize::from(by)) % 64];
            prop_assert!(decode(&String::from_utf8(text).expect("it is ASCII")).is_err());
        }
    }
}
