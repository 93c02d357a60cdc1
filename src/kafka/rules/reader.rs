//! How the file of rules is read, by the program, by its build and by `cargo xtask tidy`. The standard library only.
//!
//! Blocks are separated by empty lines, and lines that begin with `#` are left out. A block is
//!
//! ```text
//! R-REPL-30 | Partition.appendRecordsToLeader
//! One sentence.
//! modelled                      or `not modelled`, or `partly: what is missing`
//! test tests/scenario/replication.rs name_of_the_test
//! ```
//!
//! with as many lines of tests as there are.
//!
//! **Invariant:** a block is a whole rule or a fault with its line; nothing in the file is passed over.

/// How far a rule holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status<'a> {
    Modelled,
    /// What is missing.
    Partly(&'a str),
    NotModelled,
}

/// A test that fails without the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestName<'a> {
    pub line: usize,
    /// From the root of the project.
    pub file: &'a str,
    pub name: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// Where it begins in the file, from 1.
    pub line: usize,
    /// Such as `R-REPL-30`.
    pub id: &'a str,
    /// The class of Kafka or the KIP that it was read in, or `follows from` other rules.
    pub source: &'a str,
    pub sentence: &'a str,
    pub status: Status<'a>,
    pub tests: Vec<TestName<'a>>,
}

/// A block that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub reason: &'static str,
}

type Line<'a> = (usize, &'a str);

/// The rules of a file, in its order.
pub fn rules(text: &str) -> impl Iterator<Item = Result<Rule<'_>, Fault>> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
    std::iter::from_fn(move || {
        let skipped = |line: &Line<'_>| line.1.is_empty() || line.1.starts_with('#');
        while lines.next_if(skipped).is_some() {}
        let mut block = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.1.is_empty()) {
            block.push(line);
        }
        (!block.is_empty()).then(|| rule(&block))
    })
}

fn rule<'a>(block: &[Line<'a>]) -> Result<Rule<'a>, Fault> {
    let [(line, head), rest @ ..] = block else { return Err(fault(0, "an empty block")) };
    let (id, source) =
        head.split_once(" | ").ok_or(fault(*line, "a rule begins with its id, | and its source"))?;
    if !is_id(id) {
        return Err(fault(*line, "an id is R-GROUP-NUMBER"));
    }
    if source.trim() != source || source.is_empty() {
        return Err(fault(*line, "the source is missing"));
    }
    let [(second, sentence), (third, status), tests @ ..] = rest else {
        return Err(fault(*line, "a rule has a sentence and a status"));
    };
    if !sentence.ends_with('.') || sentence.contains(". ") {
        return Err(fault(*second, "a rule is told in one sentence"));
    }
    let status = match (*status, status.strip_prefix("partly: ")) {
        ("modelled", _) => Status::Modelled,
        ("not modelled", _) => Status::NotModelled,
        (_, Some(how)) if !how.is_empty() => Status::Partly(how),
        _ => return Err(fault(*third, "a rule is modelled, not modelled, or partly: and what is missing")),
    };
    let tests = tests.iter().map(test).collect::<Result<Vec<_>, Fault>>()?;
    Ok(Rule { line: *line, id, source, sentence, status, tests })
}

fn test<'a>(&(line, text): &Line<'a>) -> Result<TestName<'a>, Fault> {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["test", file, name] if file.ends_with(".rs") => Ok(TestName { line, file, name }),
        _ => Err(fault(line, "a test is told as: test FILE NAME")),
    }
}

fn is_id(id: &str) -> bool {
    let parts: Vec<&str> = id.split('-').collect();
    let upper = |text: &str| text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    matches!(parts[..], ["R", group, number] if group.starts_with(|c: char| c.is_ascii_uppercase())
        && upper(group) && number.parse::<u16>().is_ok())
}

fn fault(line: usize, reason: &'static str) -> Fault {
    Fault { line, reason }
}
