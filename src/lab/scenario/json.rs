//! A scenario as JSON, for programs.
//!
//! TOML's inline tables and lists are JSON but for the sign between a name and its value, and a few escapes: JSON is written
//! over as such a table, everything at its own place, so that complaints name the places of the JSON text.
//!
//! **Invariant:** what is written over has as many bytes as the JSON text, and lines and characters stay where they are
//! outside of texts with rare escapes.

use super::reader::{Read, ScenarioError};

/// Whether a text is JSON and not TOML, which never begins with a brace.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The text as a TOML value; what JSON does not have is refused.
pub(super) fn to_inline_table(text: &str) -> Read<String> {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let len = match c {
            '"' => {
                let len = string_len(rest).ok_or_else(|| wrong(text, at, "this text has no end"))?;
                let string = unescaped(&rest[..len])
                    .ok_or_else(|| wrong(text, at, "an escape of this text is none"))?;
                let padding = len - string.len();
                written.push_str(&string);
                written.extend(std::iter::repeat_n(' ', padding));
                len
            }
            ':' => {
                written.push('=');
                1
            }
            '{' | '}' | '[' | ']' | ',' | ' ' | '\t' | '\r' | '\n' => {
                written.push(c);
                1
            }
            _ => {
                let len = rest
                    .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
                    .unwrap_or(rest.len());
                let word = &rest[..len];
                let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                if !(is_number || matches!(word, "true" | "false")) {
                    return Err(wrong(
                        text,
                        at,
                        "a scenario's JSON has objects, lists, texts, numbers, true and false",
                    ));
                }
                written.push_str(word);
                len
            }
        };
        rest = &rest[len..];
    }
    // A TOML value begins at once: what stands before the brace goes behind it, where it is space too.
    let blank = written.len() - written.trim_start().len();
    written.replace_range(..=blank, &format!("{{{}", &text[..blank]));
    written.truncate(written.trim_end().len());
    Ok(written)
}

fn wrong(text: &str, at: usize, reason: &str) -> ScenarioError {
    ScenarioError::at(text, at, reason)
}

/// Bytes of the text in quotes that begins here, its quotes too.
fn string_len(rest: &str) -> Option<usize> {
    let mut escaped = false;
    let end = rest.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map(|end| end + 2)
}

/// The text in quotes without the escapes that TOML does not have: `\/`, and characters as two surrogates.
fn unescaped(string: &str) -> Option<String> {
    let mut plain = String::with_capacity(string.len());
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = |text: &str| {
            text.strip_prefix("\\u")
                .and_then(|text| text.get(..4))
                .and_then(|hex| u16::from_str_radix(hex, 16).ok())
        };
        let len = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(high @ 0xD800..=0xDBFF), low) => {
                let pair = char::decode_utf16([high, low?]).next()?.ok()?;
                plain.push(pair);
                12
            }
            _ if rest.starts_with("\\/") => {
                plain.push('/');
                2
            }
            _ => {
                plain.push_str(rest.get(..2)?);
                2
            }
        };
        rest = rest.get(len..)?;
    }
    plain.push_str(rest);
    Some(plain)
}
