//! Arrows between the rooms of `src/` point down only: ui, api -> view -> lab -> sim -> client -> kafka.
//!
//! Every path between modules is resolved to the room it enters: `crate::`, chains of `super::`, groups, re-exports
//! of the crate root, `$crate` in macros, `glassbroker::` in programs.
//!
//! **Invariant:** what cannot be resolved (a renamed root, everything of the root at once, a file from elsewhere) is a
//! fault, so that no arrow can hide.

use std::collections::BTreeMap;

use crate::source::{Lexeme, Token, tokens};

/// The rooms with their height.
const ROOMS: [(&str, u8); 10] = [
    ("kafka", 0),
    ("client", 1),
    ("sim", 2),
    ("lab", 3),
    ("conformance", 3),
    ("swarm", 4),
    ("bench", 4),
    ("view", 4),
    ("ui", 5),
    ("api", 5),
];
/// Crates of the browser: only in the top rooms and the page's program.
const BROWSER: [&str; 7] =
    ["web_sys", "js_sys", "wasm_bindgen", "wasm_bindgen_futures", "serde_wasm_bindgen", "yew", "gloo"];
/// What would make a run differ from the same run elsewhere: not in the rooms that are simulated.
const UNSTEADY: [&str; 6] = ["Instant", "SystemTime", "HashMap", "HashSet", "f32", "f64"];
const SIM: u8 = 2;
const VIEW: u8 = 4;

/// The faults of `files`, given as (path from the root of the project, text).
pub fn faults(files: &[(String, String)]) -> Vec<String> {
    let product: Vec<(Place, Vec<Token>)> = files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !path.starts_with("src/xtask/"))
        .map(|(path, text)| (Place::of(path), tokens(text)))
        .collect();
    let mut faults = Vec::new();
    let mut names = BTreeMap::new();
    for (place, tokens) in product.iter().filter(|(place, _)| place.path == "src/lib.rs") {
        names = root_names(place, tokens, &mut faults);
    }
    for (place, tokens) in &product {
        Check { place, names: &names, faults: &mut faults }.file(tokens);
    }
    faults
}

/// Where a file stands.
struct Place<'a> {
    path: &'a str,
    /// Its module: `src/kafka/log/mod.rs` is `kafka`, `log`.
    module: Vec<String>,
    /// A program is a crate of its own and reaches the rooms by `glassbroker::`.
    program: bool,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Place<'a> {
        let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
        let program = inner.starts_with("bin/");
        let steps = inner.split('/').filter(|step| !program && *step != "mod" && *step != "lib");
        Place { path, module: steps.map(str::to_string).collect(), program }
    }

    fn room(&self) -> Option<&str> {
        self.module.first().map(String::as_str)
    }

    fn height(&self) -> Option<u8> {
        height(self.room()?)
    }

    /// The height up to which this file may look. The native tool stays below the browser.
    fn sight(&self) -> u8 {
        match self.path {
            "src/bin/app.rs" => u8::MAX,
            _ if self.program => VIEW,
            _ => self.height().unwrap_or(u8::MAX),
        }
    }

    fn fault(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

fn height(room: &str) -> Option<u8> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, height)| *height)
}

/// Names that `use` brings into the crate root, with the room each comes from.
fn root_names(lib: &Place, tokens: &[Token], faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut i = 0;
    while i < tokens.len() {
        if !tokens[i].is_word("use") {
            i += 1;
            continue;
        }
        let mut tree = Tree { tokens, at: i + 1, leaves: Vec::new() };
        tree.read(Vec::new());
        i = tree.at.max(i + 1);
        for leaf in tree.leaves {
            let path: Vec<&String> =
                leaf.path.iter().skip_while(|step| *step == "crate" || *step == "self").collect();
            let Some(room) = path.first().filter(|room| height(room).is_some()) else { continue };
            match (leaf.end, path.last()) {
                (End::All, _) => {
                    faults.push(lib.fault(leaf.line, "the root re-exports names one by one, not by *"))
                }
                (End::As(name), _) => drop(names.insert(name, room.to_string())),
                (End::Itself, Some(name)) => drop(names.insert(name.to_string(), room.to_string())),
                (End::Itself, None) => {}
            }
        }
    }
    names
}

/// One thing that a path or a `use` tree names.
struct Leaf {
    line: usize,
    path: Vec<String>,
    end: End,
}

enum End {
    Itself,
    As(String),
    All,
}

/// Reads one path with its groups: `crate::{a, b::{c as d, *}}`.
struct Tree<'a> {
    tokens: &'a [Token],
    at: usize,
    leaves: Vec<Leaf>,
}

impl Tree<'_> {
    /// Reads from the token `at`, which follows `path`.
    fn read(&mut self, mut path: Vec<String>) {
        let Some(token) = self.tokens.get(self.at) else { return };
        let line = token.line;
        match &token.lexeme {
            Lexeme::PathSep => {
                self.at += 1;
                self.read(path);
            }
            Lexeme::Sign('{') => self.group(path),
            Lexeme::Sign('*') => {
                self.at += 1;
                self.leaves.push(Leaf { line, path, end: End::All });
            }
            Lexeme::Word(word) => {
                path.push(word.clone());
                self.at += 1;
                let goes_on = self.tokens.get(self.at).is_some_and(|t| t.lexeme == Lexeme::PathSep)
                    && !self.tokens.get(self.at + 1).is_some_and(|t| t.is_sign('<'));
                if goes_on {
                    return self.read(path);
                }
                let end = self.alias();
                self.leaves.push(Leaf { line, path, end });
            }
            _ => {}
        }
    }

    fn group(&mut self, path: Vec<String>) {
        self.at += 1;
        while let Some(token) = self.tokens.get(self.at) {
            if token.is_sign('}') {
                self.at += 1;
                return;
            }
            let before = self.at;
            self.read(path.clone());
            // A comma, or something that no use tree holds: go past it.
            if self.at == before {
                self.at += 1;
            }
        }
    }

    fn alias(&mut self) -> End {
        let alias = match self.tokens.get(self.at..self.at + 2) {
            Some([word, Token { lexeme: Lexeme::Word(name), .. }]) if word.is_word("as") => name.clone(),
            _ => return End::Itself,
        };
        self.at += 2;
        End::As(alias)
    }
}

struct Check<'a> {
    place: &'a Place<'a>,
    names: &'a BTreeMap<String, String>,
    faults: &'a mut Vec<String>,
}

impl Check<'_> {
    fn file(&mut self, tokens: &[Token]) {
        if self.place.room().is_some_and(|room| height(room).is_none()) {
            self.fault(1, "this file is in no room");
            return;
        }
        self.words(tokens);
        let mut module = self.place.module.clone();
        // The depth of braces at which each inline module ends.
        let mut inline = Vec::new();
        let mut depth = 0;
        let mut i = 0;
        while i < tokens.len() {
            match (&tokens[i].lexeme, tokens.get(i + 1).map(|t| &t.lexeme), tokens.get(i + 2)) {
                (Lexeme::Word(word), Some(Lexeme::Word(name)), Some(brace))
                    if word == "mod" && brace.is_sign('{') =>
                {
                    module.push(name.clone());
                    inline.push(depth);
                    depth += 1;
                    i += 3;
                }
                (Lexeme::Word(word), _, _) if self.starts_path(word, tokens, i) => {
                    let mut tree = Tree { tokens, at: i, leaves: Vec::new() };
                    tree.read(Vec::new());
                    i = tree.at.max(i + 1);
                    for leaf in tree.leaves {
                        self.leaf(&module, leaf);
                    }
                }
                (lexeme, _, _) => {
                    match lexeme {
                        Lexeme::Sign('{') => depth += 1,
                        Lexeme::Sign('}') => {
                            depth -= 1;
                            if inline.last() == Some(&depth) {
                                inline.pop();
                                module.pop();
                            }
                        }
                        _ => {}
                    }
                    i += 1;
                }
            }
        }
    }

    /// Whether a path that names modules begins at `i`: `crate::x`, `use super as x`.
    fn starts_path(&self, word: &str, tokens: &[Token], i: usize) -> bool {
        let before = i.checked_sub(1).map(|i| &tokens[i]);
        let after = tokens.get(i + 1);
        let continues = before.is_some_and(|t| t.lexeme == Lexeme::PathSep);
        let leads = after.is_some_and(|t| t.lexeme == Lexeme::PathSep);
        let renamed = before.is_some_and(|t| t.is_word("use")) && after.is_some_and(|t| t.is_word("as"));
        match word {
            "crate" | "super" | "self" => !self.place.program && !continues && (leads || renamed),
            // `::glassbroker::x` too.
            "glassbroker" => leads || renamed,
            _ => false,
        }
    }

    fn leaf(&mut self, module: &[String], leaf: Leaf) {
        let mut place = Vec::new();
        for (i, step) in leaf.path.iter().enumerate() {
            match step.as_str() {
                "crate" | "glassbroker" if i == 0 => place.clear(),
                "self" if i == 0 => place = module.to_vec(),
                "self" => {}
                "super" => {
                    if i == 0 {
                        place = module.to_vec();
                    }
                    place.pop();
                }
                _ => place.push(step.clone()),
            }
        }
        match (place.first(), &leaf.end) {
            (None, End::All) => {
                self.fault(leaf.line, "takes everything of the crate root, so its arrows cannot be seen")
            }
            (None, _) => self.fault(leaf.line, "renames the crate root, so its arrows cannot be seen"),
            (Some(name), _) => self.arrow(leaf.line, name, &leaf.path),
        }
    }

    fn arrow(&mut self, line: usize, name: &str, path: &[String]) {
        // Only a file in a room or a program has a place to look from; the root itself sees all.
        if !self.place.program && self.place.room().is_none() {
            return;
        }
        let written = path.join("::");
        let room = self.names.get(name).map_or(name, String::as_str);
        let Some(target) = height(room) else {
            return self.fault(line, &format!("{written}: the root's {name} is in no room"));
        };
        let own = self.place.room() == Some(room);
        let sight = self.place.sight();
        let seen = if self.place.program { target <= sight } else { target < sight };
        if !own && !seen {
            let from = self.place.room().unwrap_or("this program");
            self.fault(line, &format!("{from} may not know {room}: {written}"));
        }
    }

    /// Words that a room may not hold, and ways to bring in a file unseen.
    fn words(&mut self, tokens: &[Token]) {
        let browser =
            self.place.path == "src/bin/app.rs" || self.place.height().is_some_and(|height| height > VIEW);
        let steady = self.place.height().is_some_and(|height| height <= SIM);
        for (i, token) in tokens.iter().enumerate() {
            let next = tokens.get(i + 1);
            match &token.lexeme {
                Lexeme::Word(word)
                    if !browser && (BROWSER.contains(&word.as_str()) || word.starts_with("gloo_")) =>
                {
                    self.fault(
                        token.line,
                        &format!("{word} belongs to the browser: only ui, api and bin/app.rs"),
                    );
                }
                Lexeme::Word(word) if steady && UNSTEADY.contains(&word.as_str()) => {
                    self.fault(token.line, &format!("{word} has no place in a deterministic room"));
                }
                Lexeme::Float if steady => {
                    self.fault(token.line, "a floating point number has no place in a deterministic room");
                }
                Lexeme::Word(word) if word == "include" && next.is_some_and(|t| t.is_sign('!')) => {
                    self.fault(token.line, "include! hides where code comes from");
                }
                Lexeme::Sign('[')
                    if next.is_some_and(|t| t.is_word("path"))
                        && tokens.get(i + 2).is_some_and(|t| t.is_sign('=')) =>
                {
                    self.fault(token.line, "#[path] hides where code comes from");
                }
                Lexeme::Word(word)
                    if word == "extern"
                        && next.is_some_and(|t| t.is_word("crate"))
                        && tokens.get(i + 2).is_some_and(|t| t.is_word("self")) =>
                {
                    self.fault(token.line, "renames the crate root, so its arrows cannot be seen");
                }
                _ => {}
            }
        }
    }

    fn fault(&mut self, line: usize, what: &str) {
        self.faults.push(self.place.fault(line, what));
    }
}

#[cfg(test)]
mod tests;
