//! The words of a command: plain ones, and quoted ones for names that are not plain.
//!
//! A word may hold an equals sign between two parts (`linger.ms=20`), each of them plain or quoted. In quotes, `\"` is
//! a quote and `\\` a backslash. Control characters are in no command.
//!
//! **Invariant:** what [`quote`] writes is read back as the same text, and never as a keyword.

use super::CommandError;

/// One word with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Of its first character, counted from 1 in characters.
    pub column: i32,
    pub text: String,
    /// Some part of it stands in quotes, so it is no keyword.
    pub quoted: bool,
    /// The rest of the word after its first equals sign outside quotes.
    pub value: Option<String>,
}

/// Names that a command would read as the kind of a process, as what is cut, or as the kind of a subscription.
const RESERVED: [&str; 5] = ["broker", "controller", "power", "pattern", "re2j"];

/// Splits a command at its blanks.
pub fn tokens(text: &str) -> Result<Vec<Token>, CommandError> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut open: Option<Token> = None;
    let mut chars = (1..).zip(text.chars());
    while let Some((column, c)) = chars.next() {
        if c == ' ' {
            tokens.extend(open.take());
            continue;
        }
        check_char(column, c)?;
        let token =
            open.get_or_insert_with(|| Token { column, text: String::new(), quoted: false, value: None });
        match c {
            '=' if token.value.is_none() => token.value = Some(String::new()),
            '"' => {
                token.quoted = true;
                read_quoted(column, &mut chars, part(token))?;
            }
            c => part(token).push(c),
        }
    }
    tokens.extend(open);
    Ok(tokens)
}

/// Where the next character of a word belongs.
fn part(token: &mut Token) -> &mut String {
    token.value.as_mut().unwrap_or(&mut token.text)
}

fn read_quoted(
    start: i32,
    chars: &mut impl Iterator<Item = (i32, char)>,
    into: &mut String,
) -> Result<(), CommandError> {
    loop {
        match chars.next() {
            Some((_, '"')) => return Ok(()),
            Some((column, '\\')) => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => into.push(c),
                _ => return Err(CommandError::new(column, "after a backslash comes \\ or \"")),
            },
            Some((column, c)) => {
                check_char(column, c)?;
                into.push(c);
            }
            None => return Err(CommandError::new(start, "the quote that begins here has no end")),
        }
    }
}

fn check_char(column: i32, c: char) -> Result<(), CommandError> {
    if c.is_control() {
        return Err(CommandError::new(column, format!("a control character, U+{:04X}", u32::from(c))));
    }
    Ok(())
}

/// A text as one word, in quotes if it needs them.
pub fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:,+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !RESERVED.contains(&text) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words joined by a bar, values after an equals sign; or the error.
    fn check(text: &str, expected: &str) {
        let read = match tokens(text) {
            Ok(tokens) => {
                let words: Vec<String> = tokens
                    .iter()
                    .map(|t| match &t.value {
                        Some(value) => format!("{}={value}", t.text),
                        None => t.text.clone(),
                    })
                    .collect();
                words.join("|")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn words_are_split_at_blanks_outside_quotes() {
        check("kill broker 3", "kill|broker|3");
        check("  kill   broker 3  ", "kill|broker|3");
        check("", "");
        check(r#"pause "a \"b\" \\ c""#, r#"pause|a "b" \ c"#);
        check(r#"x "a b"=c=d "e=f""#, r"x|a b=c=d|e=f");
        check("a=\"\" =b", "a=|=b");
        check("pause 😀-مرحبا", "pause|😀-مرحبا");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_column() {
        check("pause \"a b", "column 7: the quote that begins here has no end");
        check(r#"pause "a\n""#, r#"column 9: after a backslash comes \ or ""#);
        check("pause a\0b", "column 8: a control character, U+0000");
        check("pause \"é\tb\"", "column 9: a control character, U+0009");
    }

    #[test]
    fn quotes_are_written_only_where_they_are_needed() {
        let written: Vec<String> =
            ["consumer-b", "cart-{0..7}", "a b", "", "broker", "a\"\\", "ü"].map(quote).into();
        assert_eq!(written.join(" "), r#"consumer-b "cart-{0..7}" "a b" "" "broker" "a\"\\" "ü""#);
    }
}
