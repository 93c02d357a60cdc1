//! The rules of Kafka 4.3 that tests, narrative and page speak of by their ids: each with one sentence, the class or
//! KIP it was read in, and how far it holds here.
//!
//! `rules.txt` beside this file has them all, with the tests that pin them; `cargo xtask tidy` holds it against the
//! sources. The page carries only those that hold at least in part, without the tests: nothing else is ever cited.
//!
//! **Invariant:** every id that the narrative cites is found.

mod reader;

pub use reader::{Fault, Rule, Status, TestName, rules};

/// What build.rs leaves of the file.
const KEPT: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.txt"));

/// The whole file.
#[cfg(feature = "native")]
pub const ALL: &str = include_str!("rules.txt");

/// A rule that is modelled, at least in part.
pub fn find(id: &str) -> Option<Rule<'static>> {
    rules(KEPT).filter_map(Result::ok).find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_holds_is_found_by_its_id_and_no_other() {
        let rule = find("R-REPL-30").expect("it is modelled");
        assert!(rule.sentence.contains("NOT_ENOUGH_REPLICAS"), "{rule:?}");
        assert_eq!((rule.status, rule.source), (Status::Modelled, "Partition.appendRecordsToLeader"));
        assert!(matches!(find("R-LOG-6").map(|rule| rule.status), Some(Status::Partly(_))));
        assert_eq!(find("R-CLI-1"), None, "nothing cites what is not modelled");
        assert_eq!(find("R-REPL"), None);
    }

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, Status<'_>, usize), (usize, &str)>) {
        let read: Vec<_> = rules(text).collect();
        let [read] = &read[..] else { panic!("{read:?}") };
        let read = read.as_ref().map(|rule| (rule.id, rule.status, rule.tests.len()));
        assert_eq!(read.map_err(|fault| (fault.line, fault.reason)), expected, "{text:?}");
    }

    #[test]
    fn a_block_is_a_rule_or_a_fault_with_its_line() {
        let whole = "# all\n\nR-LOG-1 | Log\nIt is so.\nmodelled\ntest a/b.rs c\ntest a/b.rs d\n";
        check(whole, Ok(("R-LOG-1", Status::Modelled, 2)));
        check("R-CG8-1 | KIP-848\nIt is so.\nnot modelled\n", Ok(("R-CG8-1", Status::NotModelled, 0)));
        check("R-LOG-1 | Log\nIt is so.\npartly: half\n", Ok(("R-LOG-1", Status::Partly("half"), 0)));
        check("R-LOG-1\nIt is so.\nmodelled", Err((1, "a rule begins with its id, | and its source")));
        check("\nX-LOG-1 | Log\nIt is so.\nmodelled", Err((2, "an id is R-GROUP-NUMBER")));
        check("R-LOG-1 | \nIt is so.\nmodelled", Err((1, "the source is missing")));
        check("R-LOG-1 | Log\nIt is so.", Err((1, "a rule has a sentence and a status")));
        check("R-LOG-1 | Log\nIt is. So.\nmodelled", Err((2, "a rule is told in one sentence")));
        let status = "a rule is modelled, not modelled, or partly: and what is missing";
        check("R-LOG-1 | Log\nIt is so.\npartly: ", Err((3, status)));
        check("R-LOG-1 | Log\nIt is so.\nmodelled\ntest c", Err((4, "a test is told as: test FILE NAME")));
    }
}
