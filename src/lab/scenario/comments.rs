//! A scenario without the words that are only for its readers.

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::json::is_json;

/// The same scenario without comments and empty lines.
///
/// JSON has none and stays as it is.
pub fn without_comments(text: &str) -> String {
    if is_json(text) {
        return text.to_owned();
    }
    let (mut kept, mut line) = (String::new(), String::new());
    for token in Source::new(text).lex() {
        let span = token.span();
        match token.kind() {
            TokenKind::Comment => {}
            TokenKind::Newline | TokenKind::Eof => {
                let content = line.trim_end_matches([' ', '\t']);
                if !content.is_empty() {
                    kept.push_str(content);
                    kept.push('\n');
                }
                line.clear();
            }
            _ => line.push_str(text.get(span.start()..span.end()).unwrap_or_default()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::scenario::Scenario;

    #[test]
    fn comments_and_empty_lines_go_and_everything_else_stays() {
        let text = "# what it is\n\na = \"#1 # not one\"   # one\r\n\t\nb = \"\"\"x # no\n\n # no\n\"\"\"\n  c = '#' # yes";
        let expected = "a = \"#1 # not one\"\nb = \"\"\"x # no\n\n # no\n\"\"\"\n  c = '#'\n";
        assert_eq!(without_comments(text), expected);
        assert_eq!(without_comments(expected), expected);
    }

    #[test]
    fn the_default_scenario_says_the_same_without_its_comments() {
        let text = include_str!("../../../static/scenarios/default.toml");
        let short = without_comments(text);
        assert!(short.len() * 3 < text.len(), "{} of {} bytes", short.len(), text.len());
        assert_eq!(Scenario::parse(&short), Scenario::parse(text));
    }
}
