//! A pattern of topic names that a client matches itself (`java.util.regex.Pattern`).
//!
//! It is read by an engine that works in linear time: what Java has beyond that (looking around, back references,
//! possessive quantifiers) is refused.
//!
//! **Invariant:** a name matches as a whole or not at all.

use std::rc::Rc;

use regex_lite::Regex;

use crate::kafka::types::Topic;

#[derive(Clone, Debug)]
pub struct TopicPattern {
    text: Rc<str>,
    whole: Rc<Regex>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("Topic pattern to subscribe to cannot be empty")]
    Empty,
    #[error("no pattern that is understood here: {0}")]
    Syntax(String),
}

impl TopicPattern {
    pub fn new(text: &str) -> Result<TopicPattern, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        let syntax = |error: regex_lite::Error| PatternError::Syntax(error.to_string());
        // By itself first, so that no parenthesis of it closes the one around it.
        Regex::new(text).map_err(syntax)?;
        let whole = Regex::new(&format!("^(?:{text})$")).map_err(syntax)?;
        Ok(TopicPattern { text: text.into(), whole: Rc::new(whole) })
    }

    /// That all topics match.
    pub fn everything() -> TopicPattern {
        TopicPattern::new(".*").expect("it is an expression")
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, topic: &Topic) -> bool {
        self.whole.is_match(topic.as_str())
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &TopicPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for TopicPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_as_a_whole() {
        let check = |pattern: &str, topic: &str, matches: bool| {
            let pattern = TopicPattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(&Topic::new(topic)), matches, "{pattern:?} {topic}");
        };
        check("orders", "orders", true);
        check("orders", "orders-eu", false);
        check("orders.*", "orders-eu", true);
        check("a|b", "ab", false);
        check("a|b", "b", true);
        check("[a-c]+", "cab", true);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        assert_eq!(TopicPattern::new(""), Err(PatternError::Empty));
        for text in ["(", "a)(b", "(?=a)b", "[z-a]"] {
            assert!(matches!(TopicPattern::new(text), Err(PatternError::Syntax(_))), "{text}");
        }
    }
}
