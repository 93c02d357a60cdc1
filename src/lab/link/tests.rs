use proptest::prelude::*;

use super::replay::{OpenError, Progress, Replay};
use super::saved::{Saved, SavedBranch};
use super::text::{Content, MOST_CHARACTERS, decode, encode, encode_saved};
use super::*;
use crate::lab::history::BranchId;
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
    let content = decode(&text).expect("it was written just now");
    assert_eq!(content.name(), "Default cluster");
    let (mut again, mut replay) = Replay::open(&content).expect("its scenario was right");
    assert_eq!(arrive(&mut again, &mut replay), Progress::Arrived);
    assert_eq!(again.present().position(), history.present().position());
    assert_eq!(again.present().journal(), history.present().journal());
}

fn open(link: Link) -> Result<(History, Replay), OpenError> {
    Replay::open(&Content::Link(link))
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
        let (mut history, mut replay) = open(link).expect("its scenario is right");
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
    assert_eq!(open(link.clone()).err(), Some(LinkError::Content.into()));
    link.scenario.push('[');
    link.milestones.reverse();
    let error = open(link).err().map(|error| error.to_string()).unwrap_or_default();
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

/// Three branches, the second of the first and the third of the second.
fn branched() -> History {
    let mut history = history();
    history.seek(Time::from_ms(20_000));
    history.command("crash consumer-a").expect("it runs");
    history.run(Time::from_ms(26_000), u64::MAX, StopsAt::Nothing);
    history.command("start broker 3").expect("it runs");
    history.run(Time::from_ms(28_000), u64::MAX, StopsAt::Nothing);
    history.seek(Time::from_ms(24_000));
    history.command("kill broker 1").expect("it runs");
    history.command("pause checkout-api").expect("it runs");
    history.run(Time::from_ms(25_000), u64::MAX, StopsAt::Nothing);
    history.rename(BranchId(1), "without consumer-a");
    history.switch(BranchId(1));
    history.seek(Time::from_ms(27_000));
    history
}

#[test]
fn a_saved_run_comes_back_with_its_branches_marks_and_place() {
    let mut history = branched();
    let text = encode_saved(&Saved::of("Default cluster", &history));
    let content = decode(&text).expect("it was written just now");
    let (mut again, mut replay) = Replay::open(&content).expect("its scenario was right");
    assert_eq!(arrive(&mut again, &mut replay), Progress::Arrived);
    assert_eq!(again.current(), history.current());
    assert_eq!(again.present().position(), history.present().position());
    assert_eq!(again.present().digest(), history.present().digest());
    let branches = |history: &History| -> Vec<_> {
        let of = history.branches();
        of.map(|(_, branch)| (branch.clone(), branch.journal().rewound())).collect()
    };
    for ((restored, commands), (saved, theirs)) in branches(&again).into_iter().zip(branches(&history)) {
        assert_eq!((&restored.name, restored.parent, restored.end), (&saved.name, saved.parent, saved.end));
        assert_eq!((restored.marks(), commands), (saved.marks(), theirs), "{}", saved.name);
    }
    for index in 0..3 {
        for history in [&mut history, &mut again] {
            history.switch(BranchId(index));
            history.go_to(history.end());
        }
        assert_eq!(again.present().digest(), history.present().digest(), "branch {index}");
        assert_eq!(again.present().narrative().len_ever(), history.present().narrative().len_ever());
    }
}

#[test]
fn a_saved_run_that_contradicts_itself_is_refused_or_parts() {
    let saved = Saved::of("", &branched());
    let open = |change: &dyn Fn(&mut Saved)| {
        let mut saved = saved.clone();
        change(&mut saved);
        Replay::open(&Content::Saved(saved))
            .map(|(mut history, mut replay)| arrive(&mut history, &mut replay))
    };
    let refused = Err(OpenError::Link(LinkError::Content));
    assert_eq!(open(&|saved| saved.current = 3), refused);
    assert_eq!(open(&|saved| saved.branches.clear()), refused);
    assert_eq!(open(&|saved| saved.branches[1].parent = None), refused);
    assert_eq!(open(&|saved| saved.branches[1].parent = Some((1, 0, 0))), refused);
    assert_eq!(open(&|saved| saved.branches[2].parent = Some((1, u64::MAX, 0))), refused);
    assert_eq!(open(&|saved| saved.branches[2].commands.reverse()), refused);
    assert_eq!(open(&|saved| saved.present.events = u64::MAX), refused);
    let parted = |said: Result<Progress, OpenError>| matches!(said, Ok(Progress::Parted { .. }));
    assert!(parted(open(&|saved| saved.present.digest += 1)));
    assert!(parted(open(&|saved| saved.branches[1].commands[0].2 = "kill broker 9".to_owned())));
    // A command before the moment at which the branch parted.
    assert!(parted(open(&|saved| saved.branches[2].commands[0].0 = 1)));
}

#[test]
fn milestones_are_thinned_out_evenly() {
    let mut milestones: Vec<Milestone> =
        (0..100).map(|events| Milestone { events, us: 0, digest: 0 }).collect();
    thin_out(&mut milestones, 4);
    assert_eq!(milestones.iter().map(|left| left.events).collect::<Vec<_>>(), [24, 49, 74, 99]);
}

fn milestone() -> impl Strategy<Value = Milestone> {
    let parts = (any::<u64>(), any::<i64>(), any::<u64>());
    parts.prop_map(|(events, us, digest)| Milestone { events, us, digest })
}

fn saved() -> impl Strategy<Value = Saved> {
    let command = (any::<i64>(), any::<u64>(), any::<String>());
    let branch = (
        any::<String>(),
        any::<Option<(u32, u64, i64)>>(),
        prop::collection::vec(command, 0..5),
        prop::collection::vec(milestone(), 0..5),
        any::<(u64, i64)>(),
    );
    let branch = branch.prop_map(|(name, parent, commands, milestones, end)| SavedBranch {
        name,
        parent,
        commands,
        milestones,
        end,
    });
    let branches = prop::collection::vec(branch, 0..5);
    let parts = (any::<String>(), any::<String>(), any::<u64>(), branches, any::<u32>(), milestone());
    parts.prop_map(|(name, scenario, seed, branches, current, present)| Saved {
        name,
        scenario,
        seed,
        branches,
        current,
        present,
    })
}

fn link() -> impl Strategy<Value = Link> {
    let command = (any::<i64>(), any::<u64>(), any::<String>());
    let parts = (
        any::<String>(),
        any::<String>(),
        any::<u64>(),
        prop::collection::vec(command, 0..20),
        prop::collection::vec(milestone(), 1..5),
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
        prop_assert_eq!(decode(&encode(&link)), Ok(Content::Link(link)));
    }

    #[test]
    fn what_is_saved_is_read(saved in saved()) {
        prop_assert_eq!(decode(&encode_saved(&saved)), Ok(Content::Saved(saved)));
    }

    #[test]
    fn whatever_is_read_never_fails_otherwise_than_with_a_reason(text in "[12]?[A-Za-z0-9_-]{0,400}") {
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

/// Links that were made by the first version of each format. They open for ever, whatever the format that is written now.
const FIRST_LINK: &str = include_str!("fixtures/format-1.txt");
const FIRST_SAVED: &str = include_str!("fixtures/format-2.txt");

#[test]
fn the_first_link_of_each_format_opens() {
    let Ok(Content::Link(link)) = decode(FIRST_LINK.trim()) else { panic!("format 1") };
    assert_eq!((link.name.as_str(), link.seed, link.commands.len()), ("Default cluster", 7, 1));
    assert_eq!(link.commands[0].2, "kill broker 3");
    assert_eq!(link.position().time, Time::from_ms(30_000));
    assert!(open(link).is_ok());
    let Ok(Content::Saved(saved)) = decode(FIRST_SAVED.trim()) else { panic!("format 2") };
    let names: Vec<&str> = saved.branches.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!(names, ["main", "without consumer-a", "kill broker 1 at 00:24.000"]);
    assert_eq!(saved.branches.iter().map(|branch| branch.commands.len()).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!((saved.current, saved.present.us), (1, 27_000_000));
    assert!(Replay::open(&Content::Saved(saved)).is_ok());
}

/// What comes from outside is read whole or refused, whatever it is: `cargo test --release -- --ignored ten_million`.
#[test]
#[ignore = "takes minutes"]
fn ten_million_texts_are_read_or_refused() {
    use rand_core::{RngCore, SeedableRng};
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let valid = [FIRST_LINK.trim(), FIRST_SAVED.trim()];
    let fields = valid.map(|text| super::text::fields(&text[1..]).expect("it is valid"));
    let (mut read, mut opened, mut refused) = (0_u64, 0_u64, 0_u64);
    for number in 0..10_000_000_u64 {
        let which = (number % 2) as usize;
        let text = match number % 3 {
            // Changed characters: the checksum is wrong.
            0 => {
                let mut text = valid[which].as_bytes().to_vec();
                for _ in 0..=random.next_u32() % 4 {
                    let index = random.next_u32() as usize % text.len();
                    text[index] = (random.next_u32() % 128) as u8;
                }
                String::from_utf8(text).expect("it is ASCII")
            }
            // Changed, cut or repeated fields under a right checksum.
            1 => {
                let mut fields = fields[which].clone();
                for _ in 0..=random.next_u32() % 6 {
                    let index = random.next_u32() as usize % fields.len();
                    match random.next_u32() % 4 {
                        0 => fields.truncate(index + 1),
                        1 => fields.insert(index, random.next_u32() as u8),
                        _ => fields[index] = random.next_u32() as u8,
                    }
                }
                super::text::seal_fields(which as u32 + 1, &fields)
            }
            // Anything under a right checksum, deflated or not.
            _ => {
                let mut bytes = vec![0; random.next_u32() as usize % 200];
                random.fill_bytes(&mut bytes);
                match random.next_u32() % 2 {
                    0 => super::text::seal_fields(which as u32 + 1, &bytes),
                    _ => super::text::seal_packed(which as u32 + 1, &bytes),
                }
            }
        };
        match decode(&text) {
            Ok(content) => {
                read += 1;
                // Opening reads the scenario, which is most of the work: of some.
                opened += u64::from(number % 64 == 1 && Replay::open(&content).is_ok());
            }
            Err(_) => refused += 1,
        }
    }
    println!("{read} read, {opened} of some of them opened, {refused} refused");
    assert!(read > 10_000 && refused > 1_000_000);
}
