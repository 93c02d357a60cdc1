//! Leaves of the file of rules what the page needs: those that hold at least in part, without their tests.

use std::path::Path;
use std::{env, fs};

#[path = "src/kafka/rules/reader.rs"]
#[allow(dead_code, reason = "tests are for tidy")]
mod reader;

const RULES: &str = "src/kafka/rules/rules.txt";

fn main() {
    println!("cargo::rerun-if-changed={RULES}");
    println!("cargo::rerun-if-changed=src/kafka/rules/reader.rs");
    let text = fs::read_to_string(RULES).unwrap_or_else(|error| panic!("{RULES}: {error}"));
    let mut kept = String::new();
    for rule in reader::rules(&text) {
        let rule = rule.unwrap_or_else(|fault| panic!("{RULES}:{}: {}", fault.line, fault.reason));
        let status = match rule.status {
            reader::Status::Modelled => "modelled",
            reader::Status::Partly(how) => &format!("partly: {how}"),
            reader::Status::NotModelled => continue,
        };
        kept.push_str(&format!("{} | {}\n{}\n{status}\n\n", rule.id, rule.source, rule.sentence));
    }
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("rules.txt"), kept).expect("a folder to write to");
}
