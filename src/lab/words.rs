//! Numbers and lists as a person reads them. Words only: what is said is said by the callers.
//!
//! **Invariant:** a number never stands without its unit.

use std::fmt::Display;

use crate::kafka::types::{Topic, TopicPartition};

/// `300 ms`, `9 s`, `9.3 s`, `2 min 5 s`.
pub fn duration(ms: i64) -> String {
    let (seconds, tenths) = (ms / 1000, ms % 1000 / 100);
    match seconds {
        0 => format!("{ms} ms"),
        1..60 if tenths == 0 => format!("{seconds} s"),
        1..60 => format!("{seconds}.{tenths} s"),
        _ if seconds % 60 == 0 => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// `1 record`, `2 records`.
pub fn count(number: impl Into<i64>, noun: &str) -> String {
    let number = number.into();
    let plural = match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        _ if noun.ends_with("ch") => format!("{noun}es"),
        Some(stem) if !noun.ends_with("ey") => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

/// `12,345`: to be followed by its unit.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `orders-0`: a topic and the number of one of its partitions.
pub fn partition_of(text: &str) -> Option<TopicPartition> {
    let (topic, number) = text.rsplit_once('-')?;
    let number = number.parse::<i32>().ok().filter(|number| *number >= 0)?;
    (!topic.is_empty()).then(|| TopicPartition::new(&Topic::new(topic), number))
}

/// `1, 2, 3`; `none` when there is nothing.
pub fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// The one of `known` that a person may have meant: about a third of its letters are wrong at most.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    known
        .into_iter()
        .map(|name| (distance(&word, name), name))
        .min()
        .filter(|&(wrong, name)| wrong <= name.chars().count().div_ceil(3))
        .map(|(_, name)| name)
}

/// ` (did you mean NAME?)`, or nothing.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

/// Letters to insert, drop or replace to get from one to the other (Levenshtein).
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 7, 999, 1_000, 65_432, -1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1,000", "65,432", "-1,234,567"]);
    }

    #[test]
    fn durations_carry_the_unit_that_fits() {
        let said: Vec<String> = [0, 999, 1000, 9_040, 9_300, 60_000, 125_900].map(duration).into();
        assert_eq!(said, ["0 ms", "999 ms", "1 s", "9 s", "9.3 s", "1 min", "2 min 5 s"]);
    }

    #[test]
    fn one_is_singular_and_the_rest_are_plural() {
        assert_eq!(
            [count(1, "record"), count(0, "record"), count(2, "key")],
            ["1 record", "0 records", "2 keys"]
        );
        assert_eq!([count(3, "entry"), count(2, "batch")], ["3 entries", "2 batches"]);
    }

    #[test]
    fn a_slip_of_the_finger_is_suggested_and_another_word_is_not() {
        let known = ["replication-factor", "partitions", "name"];
        assert_eq!(nearest("replicaton-factor", known), Some("replication-factor"));
        assert_eq!(nearest("nam", known), Some("name"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(suggestion("partition", known), " (did you mean partitions?)");
    }
}
