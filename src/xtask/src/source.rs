//! Rust source as a row of words and signs, without comments, strings and characters.
//!
//! **Invariant:** a word in a comment or a literal never becomes a token, and lines are counted as an editor does.

/// Everything the layer check can tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// An identifier or keyword; `r#` is dropped.
    Word(String),
    /// `::`
    PathSep,
    /// A floating point number.
    Float,
    /// Any other sign.
    Sign(char),
}

#[derive(Clone, Debug)]
pub struct Token {
    pub line: usize,
    pub lexeme: Lexeme,
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.lexeme, Lexeme::Word(w) if w == word)
    }

    pub fn is_sign(&self, sign: char) -> bool {
        self.lexeme == Lexeme::Sign(sign)
    }
}

/// Reads `text`. Source that does not compile gives some tokens, never a panic.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut reader = Reader { chars: text.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while reader.at < reader.chars.len() {
        reader.step();
    }
    reader.tokens
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Reader {
    fn step(&mut self) {
        let c = self.chars[self.at];
        match c {
            '/' if self.peek(1) == Some('/') => self.skip_while(|c| c != '\n'),
            '/' if self.peek(1) == Some('*') => self.block_comment(),
            '"' => self.string(),
            '\'' => self.character_or_lifetime(),
            ':' if self.peek(1) == Some(':') => {
                self.push(Lexeme::PathSep);
                self.skip(2);
            }
            c if c.is_ascii_digit() => self.number(),
            c if is_word(c) => self.word(),
            c => {
                if !c.is_whitespace() {
                    self.push(Lexeme::Sign(c));
                }
                self.skip(1);
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn push(&mut self, lexeme: Lexeme) {
        self.tokens.push(Token { line: self.line, lexeme });
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek(0) == Some('\n') {
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn skip_while(&mut self, holds: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&holds) {
            self.skip(1);
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.skip(1);
                    continue;
                }
            }
            self.skip(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.skip(1);
        while let Some(c) = self.peek(0) {
            self.skip(if c == '\\' { 2 } else { 1 });
            if c == '"' {
                return;
            }
        }
    }

    /// `r"..."` with any number of `#`, the reader standing behind the `r`. False when it is `r#word`.
    fn raw_string(&mut self) -> bool {
        let marks = self.chars[self.at..].iter().take_while(|c| **c == '#').count();
        if self.peek(marks) != Some('"') {
            return false;
        }
        self.skip(marks + 1);
        while let Some(c) = self.peek(0) {
            let closes = c == '"' && (1..=marks).all(|i| self.peek(i) == Some('#'));
            self.skip(if closes { marks + 1 } else { 1 });
            if closes {
                break;
            }
        }
        true
    }

    fn character_or_lifetime(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                self.skip(3);
                self.skip_while(|c| c != '\'');
                self.skip(1);
            }
            (Some(_), Some('\'')) => self.skip(3),
            _ => {
                self.skip(1);
                self.skip_while(is_word);
            }
        }
    }

    /// A number. In `x.0.1` and `0..1` the point belongs to something else.
    fn number(&mut self) {
        let is_field = self.tokens.last().is_some_and(|token| token.is_sign('.'));
        let start = self.at;
        self.skip_while(is_word);
        let mut float = false;
        if !is_field
            && self.peek(0) == Some('.')
            && !self.peek(1).is_some_and(|c| c == '.' || c.is_alphabetic() || c == '_')
        {
            float = true;
            self.skip(1);
            self.skip_while(is_word);
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let decimal = !(text.starts_with("0x") || text.starts_with("0b") || text.starts_with("0o"));
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
        let exponent = decimal && unit.starts_with(['e', 'E']);
        if float || exponent || (decimal && (unit == "f32" || unit == "f64")) {
            self.push(Lexeme::Float);
        }
    }

    fn word(&mut self) {
        let start = self.at;
        self.skip_while(is_word);
        let word: String = self.chars[start..self.at].iter().collect();
        let literal = match (word.as_str(), self.peek(0)) {
            ("r" | "br" | "cr", Some('"' | '#')) => self.raw_string(),
            ("b" | "c", Some('"')) => {
                self.string();
                true
            }
            ("b", Some('\'')) => {
                self.character_or_lifetime();
                true
            }
            _ => false,
        };
        if literal {
            return;
        }
        if word == "r" && self.peek(0) == Some('#') {
            self.skip(1);
            return self.word();
        }
        self.push(Lexeme::Word(word));
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of `text`, with `F` for a floating point number.
    fn check(text: &str, expected: &str) {
        let words: Vec<String> = tokens(text)
            .into_iter()
            .filter_map(|token| match token.lexeme {
                Lexeme::Word(word) => Some(word),
                Lexeme::Float => Some("F".to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn comments_and_literals_are_no_words() {
        check("a // b\nc /* d /* e */ f */ g /// h", "a c g");
        check(r#"a "b \" c" d b"e" f r"g" h"#, "a d f h");
        check(r###"a r#"b "c" d"# e br##"f"# g"## h"###, "a e h");
        check(r"a 'b' c '\'' d b'e' f '\u{41}' g", "a c d f g");
        check("fn f<'a>(x: &'a str) -> r#type", "fn f x str type");
    }

    #[test]
    fn floating_point_numbers_are_told_from_ranges_fields_and_methods() {
        check("1.5 2. 1e3 1f64 2_f32", "F F F F F");
        check("1 1_000 0..9 x.0.1 1.max(2) 0xfe32 0b1 7usize 0x1f64", "x max");
    }

    #[test]
    fn lines_are_counted_through_literals() {
        let text = "a\n\"b\nc\"\n/* d\n*/ e";
        let lines: Vec<usize> = tokens(text).iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 5]);
    }
}
