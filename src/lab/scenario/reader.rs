//! TOML with places: every value knows its line and column, and every complaint carries them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::kafka::time::parse_us;
use crate::lab::words::suggestion;

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ScenarioError {
    /// Counted from 1.
    pub line: i32,
    /// Counted from 1, in characters.
    pub column: i32,
    pub reason: String,
}

impl ScenarioError {
    pub(super) fn at(source: &str, offset: usize, reason: impl Into<String>) -> ScenarioError {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        ScenarioError {
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
            reason: reason.into(),
        }
    }
}

pub(super) type Read<T> = Result<T, ScenarioError>;

/// A table of the file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    source: &'a str,
    /// As a person would write its head: `[[broker]]`.
    name: &'static str,
    at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    pub fn root(source: &'a str, table: &'a DeTable<'a>) -> Section<'a> {
        Section { source, name: "the file", at: 0, table }
    }

    pub fn error(&self, reason: impl Into<String>) -> ScenarioError {
        ScenarioError::at(self.source, self.at, reason)
    }

    /// Refuses keys that are not among these.
    pub fn only(&self, known: &[&str]) -> Read<()> {
        for (key, _) in self.table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let near = suggestion(name, known.iter().copied());
                let reason = format!("{} has no {name:?}{near}; it has {}", self.name, known.join(", "));
                return Err(ScenarioError::at(self.source, key.span().start, reason));
            }
        }
        Ok(())
    }

    pub fn field(&self, key: &'static str) -> Option<Field<'a>> {
        let (_, value) = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some(Field { source: self.source, key, value })
    }

    pub fn required(&self, key: &'static str, example: &str) -> Read<Field<'a>> {
        self.field(key)
            .ok_or_else(|| self.error(format!("{} needs {key}, as in {key} = {example}", self.name)))
    }

    /// The tables of a list, `[[key]]`; none if there is no such list.
    pub fn sections(&self, key: &'static str, name: &'static str) -> Read<Vec<Section<'a>>> {
        let Some(field) = self.field(key) else { return Ok(Vec::new()) };
        let DeValue::Array(values) = field.value.get_ref() else {
            return Err(field.wrong(&format!("tables, each with the head {name}")));
        };
        values.iter().map(|value| Section::of(self.source, name, value)).collect()
    }

    /// A table, `[key]` or `key = { .. }`.
    pub fn section(&self, key: &'static str, name: &'static str) -> Read<Option<Section<'a>>> {
        self.field(key).map(|field| Section::of(self.source, name, field.value)).transpose()
    }

    fn of(source: &'a str, name: &'static str, value: &'a Spanned<DeValue<'a>>) -> Read<Section<'a>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(Section { source, name, at: value.span().start, table }),
            other => {
                let reason = format!("expected a table {name}, not {}", kind(other));
                Err(ScenarioError::at(source, value.span().start, reason))
            }
        }
    }

    /// Configs of a table that says none.
    pub fn no_configs(&self) -> Configs<'a> {
        Configs { source: self.source, values: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// All of the table as configs under their real names; values may be texts, integers or booleans.
    pub fn configs(&self) -> Read<Configs<'a>> {
        let mut configs = Configs { source: self.source, values: BTreeMap::new(), places: BTreeMap::new() };
        for (key, value) in self.table {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                DeValue::Boolean(truth) => truth.to_string(),
                other => {
                    let reason = format!(
                        "expected a config's value, not {}; quote its name: \"a.b\" = 1",
                        kind(other)
                    );
                    return Err(ScenarioError::at(self.source, value.span().start, reason));
                }
            };
            if key.get_ref().chars().chain(text.chars()).any(char::is_control) {
                let reason = "a config has no control characters";
                return Err(ScenarioError::at(self.source, key.span().start, reason));
            }
            configs.values.insert(key.get_ref().to_string(), text);
            configs.places.insert(key.get_ref().to_string(), key.span().start);
        }
        Ok(configs)
    }
}

/// Configs and where they stand.
pub(super) struct Configs<'a> {
    source: &'a str,
    pub values: BTreeMap<String, String>,
    places: BTreeMap<String, usize>,
}

impl Configs<'_> {
    /// The complaint about a key, at its place.
    pub fn error(&self, key: &str, reason: impl Into<String>) -> ScenarioError {
        let any = self.places.values().next().copied().unwrap_or(0);
        ScenarioError::at(self.source, self.places.get(key).copied().unwrap_or(any), reason)
    }
}

/// A value of the file.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    source: &'a str,
    pub key: &'static str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Field<'a> {
    /// Where it stands in the file, from 1.
    pub fn line(&self) -> i32 {
        self.error(String::new()).line
    }

    pub fn error(&self, reason: impl Into<String>) -> ScenarioError {
        ScenarioError::at(self.source, self.value.span().start, reason)
    }

    fn wrong(&self, expected: &str) -> ScenarioError {
        self.error(format!("{} is {expected}, not {}", self.key, kind(self.value.get_ref())))
    }

    /// A text that a command can say too.
    pub fn text(&self) -> Read<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => match text.chars().find(|c| c.is_control()) {
                Some(c) => {
                    Err(self.error(format!("{} has a control character, U+{:04X}", self.key, u32::from(c))))
                }
                None => Ok(text),
            },
            _ => Err(self.wrong("a text in quotes")),
        }
    }

    /// The complaint about a place in the text, counted in characters from 1.
    pub fn error_in_text(&self, column: i32, reason: impl Into<String>) -> ScenarioError {
        let mut error = self.error(reason);
        let raw = self.source.get(self.value.span()).unwrap_or_default();
        let is_verbatim = self.text().is_ok_and(|text| raw.get(1..raw.len() - 1) == Some(text));
        if is_verbatim {
            error.column += column;
        }
        error
    }

    pub fn parsed<T: FromStr>(&self, what: &str) -> Read<T> {
        let text = self.text()?;
        text.parse().map_err(|_| self.error(format!("expected {what}, not {text:?}")))
    }

    pub fn integer(&self, range: RangeInclusive<i64>) -> Read<i64> {
        let DeValue::Integer(number) = self.value.get_ref() else { return Err(self.wrong("a whole number")) };
        let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok();
        parsed.filter(|number| range.contains(number)).ok_or_else(|| {
            let range = match range.into_inner() {
                (first, i64::MAX) => format!("at least {first}"),
                (first, last) => format!("between {first} and {last}"),
            };
            self.error(format!("{} is {range}, not {number}", self.key))
        })
    }

    /// Microseconds of a text such as `8s`, at most `limit_us`.
    pub fn duration_us(&self, limit_us: i64) -> Read<i64> {
        self.duration_of(self.text()?, limit_us)
    }

    /// Microseconds of `20ms..60ms`, or of `20ms` alone.
    pub fn duration_range_us(&self, limit_us: i64) -> Read<RangeInclusive<i64>> {
        let text = self.text()?;
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (self.duration_of(low.trim(), limit_us)?, self.duration_of(high.trim(), limit_us)?);
        match low <= high {
            true => Ok(low..=high),
            false => Err(self.error(format!("{} goes from the shorter to the longer time", self.key))),
        }
    }

    fn duration_of(&self, text: &str, limit_us: i64) -> Read<i64> {
        let expected = "a time such as 500us, 20ms, 8s, 2min or 1h";
        let us =
            parse_us(text).ok_or_else(|| self.error(format!("{} is {expected}, not {text:?}", self.key)))?;
        match us <= limit_us {
            true => Ok(us),
            false => {
                Err(self.error(format!("{} is at most {}h, not {text}", self.key, limit_us / 3_600_000_000)))
            }
        }
    }

    /// A list of texts, each with its place.
    pub fn texts(&self) -> Read<Vec<Field<'a>>> {
        let DeValue::Array(values) = self.value.get_ref() else { return Err(self.wrong("a list of texts")) };
        let fields: Vec<Field<'a>> = values.iter().map(|value| Field { value, ..*self }).collect();
        fields.iter().try_for_each(|field| field.text().map(|_| ()))?;
        Ok(fields)
    }
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
