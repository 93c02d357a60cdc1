//! Rules about the project's own text that need no compiler: length of files, leftovers, what the page's policy forbids.

use crate::dist::inline_faults;

/// Lines at which a file asks for a second noun, and at which it must be cut.
const NOTE_LINES: usize = 450;
const MOST_LINES: usize = 600;

/// Marks of unfinished work, written in halves so that this file does not find itself.
const LEFTOVERS: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("unimple", "mented!"),
    concat!("to", "do!"),
];

/// Faults and notes of `files`, given as (path from the root of the project, text).
pub fn check(files: &[(String, String)]) -> (Vec<String>, Vec<String>) {
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    for (path, text) in files {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            faults.push(format!("{path}: {lines} lines, more than {MOST_LINES}: look for a second noun"));
        } else if lines > NOTE_LINES {
            notes.push(format!("{path}: {lines} lines"));
        }
        if !path.starts_with("tests/") {
            faults.extend(leftovers(path, text));
        }
        if path.starts_with("src/ui/") && (text.contains("style=\"") || text.contains("style={")) {
            faults.push(format!("{path}: a style attribute, which the page's policy blocks: use a class"));
        }
        if path.ends_with(".html") {
            faults.extend(inline_faults(text).into_iter().map(|fault| format!("{path}: {fault}")));
        }
    }
    (faults, notes)
}

fn leftovers(path: &str, text: &str) -> Vec<String> {
    let marks = |line: &str| LEFTOVERS.into_iter().find(|mark| holds_word(line, mark));
    let lines = text.lines().enumerate();
    lines.filter_map(|(i, line)| Some(format!("{path}:{}: {}", i + 1, marks(line)?))).collect()
}

/// Whether `word` stands in `line` by itself.
fn holds_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        !part_of_word(line[..at].chars().next_back()) && (word.ends_with('!') || !part_of_word(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&[(path.to_string(), text.to_string())]).0
    }

    #[test]
    fn a_long_file_is_noted_and_a_very_long_one_refused() {
        let lines = |count| [("src/kafka/x.rs".to_string(), "x\n".repeat(count))];
        assert_eq!(check(&lines(NOTE_LINES)), (vec![], vec![]));
        assert_eq!(check(&lines(NOTE_LINES + 1)), (vec![], vec!["src/kafka/x.rs: 451 lines".to_string()]));
        assert_eq!(check(&lines(MOST_LINES + 1)).0.len(), 1);
    }

    #[test]
    fn unfinished_work_is_found_as_a_word_only() {
        for mark in LEFTOVERS {
            assert_eq!(
                faults("src/sim/x.rs", &format!("a\n// {mark} b")),
                [format!("src/sim/x.rs:2: {mark}")]
            );
            assert!(faults("tests/x.rs", mark).is_empty());
        }
        assert!(faults("static/app.css", concat!("METHO", "DOS XX", "XL")).is_empty());
    }

    #[test]
    fn what_the_policy_of_the_page_blocks_is_refused() {
        assert_eq!(faults("index.html", "<script>x()</script>").len(), 1);
        assert_eq!(faults("index.html", "<p style=\"x\">").len(), 1);
        assert!(faults("index.html", "<script src=\"x.js\"></script>").is_empty());
        assert_eq!(faults("src/ui/app.rs", "html! { <p style={css}/> }").len(), 1);
    }
}
