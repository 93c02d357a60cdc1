//! The words of a command that is being read, one after the other.
//!
//! **Invariant:** an error names the column of the word that is wrong, or the end where one is missing.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::CommandError;
use super::tokens::Token;
use crate::kafka::time::parse_us;
use crate::lab::words::suggestion;

/// The words that are still to be read.
pub(super) struct Words<'a> {
    tokens: &'a [Token],
    next: usize,
    /// The column behind the last character.
    end: i32,
}

impl<'a> Words<'a> {
    /// All words of `text`.
    pub(super) fn of(text: &str, tokens: &'a [Token]) -> Words<'a> {
        let end = i32::try_from(text.chars().count()).unwrap_or(i32::MAX - 1) + 1;
        Words { tokens, next: 0, end }
    }

    /// The column of the next word.
    pub(super) fn column(&self) -> i32 {
        self.peek().map_or(self.end, |token| token.column)
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next)
    }

    pub(super) fn take(&mut self, what: &str) -> Result<&'a Token, CommandError> {
        let token = self.peek().ok_or_else(|| CommandError::new(self.end, format!("expected {what}")))?;
        self.next += 1;
        Ok(token)
    }

    /// A word that is no `key=value`.
    pub(super) fn plain(&mut self, what: &str) -> Result<&'a Token, CommandError> {
        let token = self.take(what)?;
        match token.value {
            Some(_) => {
                Err(CommandError::new(token.column, format!("expected {what}; quote a name that has an =")))
            }
            None => Ok(token),
        }
    }

    pub(super) fn keyword(&mut self, what: &str) -> Result<&'a Token, CommandError> {
        let token = self.plain(what)?;
        if token.quoted {
            return Err(CommandError::new(token.column, format!("expected {what}, without quotes")));
        }
        Ok(token)
    }

    /// Whether these keywords come next.
    pub(super) fn starts_with(&self, keywords: &[&str]) -> bool {
        let next = self.tokens.get(self.next..).unwrap_or_default();
        next.len() >= keywords.len()
            && next.iter().zip(keywords).all(|(token, keyword)| is_keyword(token, keyword))
    }

    /// Takes the next word if it is this keyword.
    pub(super) fn accept(&mut self, keyword: &str) -> Option<&'a Token> {
        let token = self.peek().filter(|token| is_keyword(token, keyword))?;
        self.next += 1;
        Some(token)
    }

    pub(super) fn expect(&mut self, keyword: &str) -> Result<(), CommandError> {
        let column = self.column();
        self.accept(keyword)
            .map(|_| ())
            .ok_or_else(|| CommandError::new(column, format!("expected {keyword}")))
    }

    pub(super) fn parsed<T: FromStr>(&mut self, what: &str) -> Result<T, CommandError> {
        let token = self.plain(what)?;
        let wrong = |_| CommandError::new(token.column, format!("expected {what}, not {:?}", token.text));
        token.text.parse().map_err(wrong)
    }

    /// An id, which is never negative.
    pub(super) fn id(&mut self, what: &str) -> Result<i32, CommandError> {
        let column = self.column();
        let id: i32 = self.parsed(what)?;
        if id < 0 {
            return Err(CommandError::new(column, format!("expected {what}, which is never negative")));
        }
        Ok(id)
    }

    /// All that follows, as configs.
    pub(super) fn configs(&mut self) -> Result<BTreeMap<String, String>, CommandError> {
        let mut configs = BTreeMap::new();
        while let Some(token) = self.peek() {
            let Some(value) = &token.value else {
                let reason = format!("expected a config such as acks=1, not {:?}", token.text);
                return Err(CommandError::new(token.column, reason));
            };
            if token.text.is_empty() {
                return Err(CommandError::new(token.column, "a config has a name before its ="));
            }
            if configs.insert(token.text.clone(), value.clone()).is_some() {
                return Err(CommandError::new(token.column, format!("{} is given twice", token.text)));
            }
            self.next += 1;
        }
        Ok(configs)
    }

    pub(super) fn finish(&self) -> Result<(), CommandError> {
        match self.peek() {
            Some(token) => Err(CommandError::new(
                token.column,
                format!("nothing can follow here, but {:?} does", token.text),
            )),
            None => Ok(()),
        }
    }
}

fn is_keyword(token: &Token, keyword: &str) -> bool {
    !token.quoted && token.value.is_none() && token.text == keyword
}

pub(super) fn one_of<'a>(
    words: &mut Words<'a>,
    kinds: &[&'static str],
) -> Result<&'static str, CommandError> {
    let what = kinds.join(", ");
    let token = words.keyword(&what)?;
    let wrong = || {
        let near = suggestion(&token.text, kinds.iter().copied());
        CommandError::new(token.column, format!("expected one of {what}, not {:?}{near}", token.text))
    };
    kinds.iter().find(|kind| **kind == token.text).copied().ok_or_else(wrong)
}

pub(super) fn check_filled(token: &Token, what: &str) -> Result<(), CommandError> {
    match token.text.trim().is_empty() {
        true => Err(CommandError::new(token.column, format!("expected {what}, not an empty one"))),
        false => Ok(()),
    }
}

pub(super) fn duration_us(words: &mut Words) -> Result<i64, CommandError> {
    const WHAT: &str = "a time such as 200ms, 30s or 5min";
    let token = words.plain(WHAT)?;
    let wrong = || CommandError::new(token.column, format!("expected {WHAT}, not {:?}", token.text));
    parse_us(&token.text).ok_or_else(wrong)
}
