//! The file of rules held against the sources: what cites a rule, and which tests pin one.
//!
//! A test or a comment cites a rule as `R-REPL-30`, several of a group as `R-REPL-9, 12 and 15` or `R-LOG-14 to R-LOG-22`;
//! a function's name does so as `..._r_repl_30_33`.
//!
//! **Invariant:** a rule that is modelled has a test that is there and names the rule, and nothing cites a rule that is
//! not in the file.

use std::collections::{BTreeMap, BTreeSet};

#[path = "../../kafka/rules/reader.rs"]
mod reader;

use reader::{Rule, Status, TestName};

pub const FILE: &str = "src/kafka/rules/rules.txt";
/// A test that fails for more rules than this says little about each.
const MOST_RULES: usize = 5;
/// Where people are told of a rule: it must be one that holds.
const TOLD: [&str; 2] = ["src/lab/", "src/view/"];

/// The faults of the file's `text` beside `sources`, given as (path from the root of the project, text).
pub fn faults(text: &str, sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rules: BTreeMap<&str, Rule<'_>> = BTreeMap::new();
    for rule in reader::rules(text) {
        match rule {
            Err(fault) => faults.push(format!("{FILE}:{}: {}", fault.line, fault.reason)),
            Ok(rule) => {
                let (line, id) = (rule.line, rule.id);
                if rules.insert(id, rule).is_some() {
                    faults.push(format!("{FILE}:{line}: {id} is there twice"));
                }
            }
        }
    }
    faults.extend(citations(&rules, sources));
    faults.extend(tests(&rules, sources));
    faults
}

/// Citations of what is not there, or is told of and does not hold.
fn citations(rules: &BTreeMap<&str, Rule<'_>>, sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources {
        let told = TOLD.iter().any(|room| path.starts_with(room));
        for (index, line) in text.lines().enumerate() {
            for id in cited(line) {
                let place = format!("{path}:{}", index + 1);
                match rules.get(&*id).map(|rule| rule.status) {
                    None => faults.push(format!("{place}: {id} is not in {FILE}")),
                    Some(Status::NotModelled) if told => {
                        faults.push(format!("{place}: {id} is told of and not modelled"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    faults
}

/// Rules without a test, tests that are not there or do not name their rule, and tests with too many rules.
fn tests(rules: &BTreeMap<&str, Rule<'_>>, sources: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut pinned: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for rule in rules.values() {
        if rule.status == Status::Modelled && rule.tests.is_empty() {
            faults.push(format!("{FILE}:{}: {} is modelled and no test pins it", rule.line, rule.id));
        }
        for test in &rule.tests {
            pinned.entry((test.file, test.name)).or_default().push(rule.id);
            if let Some(fault) = test_fault(rule, test, sources) {
                faults.push(format!("{FILE}:{}: {fault}", test.line));
            }
        }
    }
    for ((file, name), ids) in pinned.iter().filter(|(_, ids)| ids.len() > MOST_RULES) {
        faults.push(format!("{file}: {name} pins more than {MOST_RULES} rules: {}", ids.join(", ")));
    }
    faults
}

fn test_fault(rule: &Rule<'_>, test: &TestName<'_>, sources: &[(String, String)]) -> Option<String> {
    let Some((_, text)) = sources.iter().find(|(path, _)| path == test.file) else {
        return Some(format!("there is no {}", test.file));
    };
    let Some(source) = test_source(text, test.name) else {
        return Some(format!("{} has no test {}", test.file, test.name));
    };
    let names = source.lines().any(|line| cited(line).contains(rule.id));
    (!names).then(|| format!("{} does not cite {}", test.name, rule.id))
}

/// A test with its attributes and docs, as rustfmt sets it.
fn test_source(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins =
        |line: &&str| line.trim_start().strip_prefix("fn ").is_some_and(|rest| is_called(rest, name));
    let at = lines.iter().position(begins)?;
    let is_head = |line: &&&str| ["///", "#["].iter().any(|mark| line.trim_start().starts_with(mark));
    let above = lines[..at].iter().rev().take_while(is_head).count();
    let head = &lines[at - above..at];
    let is_test =
        |line: &&str| ["#[test]", "#[wasm_bindgen_test"].iter().any(|mark| line.trim().starts_with(mark));
    if !head.iter().any(is_test) {
        return None;
    }
    let indent = lines[at].len() - lines[at].trim_start().len();
    let close = format!("{}}}", " ".repeat(indent));
    let length = lines[at..].iter().position(|line| *line == close || line.ends_with("{}"))?;
    Some(lines[at - above..=at + length].join("\n"))
}

fn is_called(rest: &str, name: &str) -> bool {
    rest.strip_prefix(name).is_some_and(|after| after.starts_with(['(', '<']))
}

/// The ids that a line cites.
fn cited(line: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (at, _) in line.match_indices("R-") {
        if !line[..at].ends_with(is_word) {
            written(&line[at + 2..], &mut ids);
        }
    }
    for (at, _) in line.match_indices("_r_") {
        named(&line[at + 3..], &mut ids);
    }
    ids
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Reads `REPL-9, 12 and 15`.
fn written(text: &str, ids: &mut BTreeSet<String>) {
    let Some((group, mut rest)) = text.split_once('-').filter(|(group, _)| is_group(group)) else { return };
    let Some((mut last, after)) = number(rest) else { return };
    ids.insert(id(group, last));
    rest = after;
    while let Some((joint, after)) =
        [", ", " and ", " to "].iter().find_map(|joint| Some((joint, rest.strip_prefix(*joint)?)))
    {
        let same = format!("R-{group}-");
        let Some((next, after)) = number(after.strip_prefix(&same).unwrap_or(after)) else { return };
        if has_unit(after) {
            return;
        }
        add(ids, group, last, next, *joint == " to ");
        (last, rest) = (next, after);
    }
}

/// A number with a unit is no rule: "R-REPL-16, 500 ms".
fn has_unit(after: &str) -> bool {
    let word = after.strip_prefix(' ').and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    word.starts_with(|c: char| c.is_ascii_lowercase()) && !["and", "to"].contains(&word)
}

/// Reads `repl_9_12_to_15` of a function's name.
fn named(text: &str, ids: &mut BTreeSet<String>) {
    let mut words =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().split('_');
    let group = words.next().unwrap_or_default().to_ascii_uppercase();
    if !is_group(&group) {
        return;
    }
    let (mut last, mut to) = (None, false);
    for word in words {
        match (word, word.parse::<u16>()) {
            ("to", _) if last.is_some() => to = true,
            (_, Ok(next)) => {
                add(ids, &group, last.unwrap_or(next), next, to);
                (last, to) = (Some(next), false);
            }
            _ => return,
        }
    }
}

fn add(ids: &mut BTreeSet<String>, group: &str, last: u16, next: u16, all: bool) {
    let first = if all { last.min(next) } else { next };
    ids.extend((first..=next).map(|number| id(group, number)));
}

fn id(group: &str, number: u16) -> String {
    format!("R-{group}-{number}")
}

fn is_group(text: &str) -> bool {
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(upper)
}

/// The number at the beginning, and what follows it.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, after) = text.split_at(end);
    let whole = !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    Some((digits.parse().ok()?, after)).filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_cited(line: &str, expected: &str) {
        let numbers: Vec<String> = cited(line).into_iter().collect();
        assert_eq!(numbers.join(" "), expected, "{line}");
    }

    #[test]
    fn ids_are_read_in_comments_and_names() {
        check_cited("/// R-LOG-1.", "R-LOG-1");
        check_cited("(R-REPL-9, 12 and 15; R-CG8-2)", "R-CG8-2 R-REPL-12 R-REPL-15 R-REPL-9");
        check_cited("R-LOG-8 to R-LOG-10, R-PROD-3 to 4", "R-LOG-10 R-LOG-8 R-LOG-9 R-PROD-3 R-PROD-4");
        check_cited("after R-REPL-16, 500 ms", "R-REPL-16");
        check_cited("fn a_b_r_repl_30_33() {", "R-REPL-30 R-REPL-33");
        check_cited("fn a_r_grp_6_to_8_r_log_2_ex_4() {", "R-GRP-6 R-GRP-7 R-GRP-8 R-LOG-2");
        check_cited("fn a_r_grp_23_r_grp_36() {", "R-GRP-23 R-GRP-36");
        check_cited("OR-LOG-1 XR-LOG-2 R-log-3 R-LOG-x a_r_b_c_1", "");
    }

    const TEST: &str =
        "/// R-A-1, 2.\n#[test]\nfn pins() {\n    x(\"R-A-3\");\n}\n\nfn helper_r_a_1() {\n}\n";

    #[track_caller]
    fn check(rules: &str, source: &str, expected: &[&str]) {
        let sources =
            [("tests/x.rs".to_string(), TEST.to_string()), ("src/lab/y.rs".to_string(), source.to_string())];
        let all = "R-A-1 | K\nIt is.\nmodelled\ntest tests/x.rs pins\n\nR-A-2 | K\nIt is.\nnot modelled\n\nR-A-3 | K\nIt is.\npartly: half\n";
        assert_eq!(faults(&format!("{all}\n{rules}"), &sources), expected);
    }

    #[test]
    fn a_file_that_fits_its_sources_has_no_fault() {
        check("", "// R-A-1 and 3", &[]);
    }

    #[test]
    fn a_citation_of_what_is_not_there_or_does_not_hold_is_a_fault_with_its_place() {
        check("", "\n// R-A-9", &["src/lab/y.rs:2: R-A-9 is not in src/kafka/rules/rules.txt"]);
        check("", ".rules(&[\"R-A-2\"])", &["src/lab/y.rs:1: R-A-2 is told of and not modelled"]);
    }

    #[test]
    fn a_rule_that_is_there_twice_or_cannot_be_read_is_a_fault() {
        check(
            "R-A-3 | K\nIt is.\nnot modelled\n",
            "",
            &["src/kafka/rules/rules.txt:14: R-A-3 is there twice"],
        );
        check(
            "R-A-4 | K\nIt is\nmodelled\n",
            "",
            &["src/kafka/rules/rules.txt:15: a rule is told in one sentence"],
        );
    }

    #[test]
    fn a_modelled_rule_has_a_test_that_is_there_and_cites_it() {
        let rule = |tests: &str| format!("R-A-4 | K\nIt is.\nmodelled\n{tests}");
        check(&rule(""), "", &["src/kafka/rules/rules.txt:14: R-A-4 is modelled and no test pins it"]);
        check(&rule("test tests/z.rs pins"), "", &["src/kafka/rules/rules.txt:17: there is no tests/z.rs"]);
        let none = "src/kafka/rules/rules.txt:17: tests/x.rs has no test";
        check(&rule("test tests/x.rs pin"), "", &[&format!("{none} pin")]);
        check(&rule("test tests/x.rs helper_r_a_1"), "", &[&format!("{none} helper_r_a_1")]);
        check(&rule("test tests/x.rs pins"), "", &["src/kafka/rules/rules.txt:17: pins does not cite R-A-4"]);
    }

    #[test]
    fn a_test_pins_five_rules_at_most() {
        let rules: Vec<String> =
            (1..=6).map(|n| format!("R-B-{n} | K\nIt is.\nmodelled\ntest tests/x.rs pins\n")).collect();
        let source = TEST.replace("R-A-3", "R-B-1 to 6");
        let faults = faults(
            &rules.join("\n"),
            &[("tests/x.rs".to_string(), source.replace("R-A-1, 2", "R-B-1").replace("r_a_1", "x"))],
        );
        let expected = "tests/x.rs: pins pins more than 5 rules: R-B-1, R-B-2, R-B-3, R-B-4, R-B-5, R-B-6";
        assert_eq!(faults, [expected]);
    }
}
