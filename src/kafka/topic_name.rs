//! What a topic may be called (R-LOG-52, Kafka's `Topic.validate`).

/// The longest name.
const MAX_LENGTH: usize = 249;

/// # Errors
///
/// Why it is no topic's name, in Kafka's words.
pub fn check(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        Err("the empty string is not allowed".to_owned())
    } else if name == "." || name == ".." {
        Err(format!("'{name}' is not allowed"))
    } else if name.chars().count() > MAX_LENGTH {
        Err(format!("the length of it is longer than the max allowed length {MAX_LENGTH}"))
    } else if !name.chars().all(is_legal) {
        Err("it contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'".to_owned())
    } else {
        Ok(())
    }
}

/// Two names that differ only in '.' and '_' would share their metrics.
pub fn collide(name: &str, other: &str) -> bool {
    let folded = |text: &str| text.replace('.', "_");
    name != other && folded(name) == folded(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_249_plain_characters_r_log_52() {
        let longest = "a".repeat(249);
        for name in ["a", "Orders.v1_x-2", "__consumer_offsets", "...", &longest] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a b", "ä", "a/b", &"a".repeat(250)] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_collide_that_differ_only_in_dots_and_underscores_r_log_52() {
        assert!(collide("a.b", "a_b"));
        assert!(!collide("a.b", "a.b"));
        assert!(!collide("a.b", "a-b"));
    }
}
