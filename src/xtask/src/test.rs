//! Everything that must hold, part by part. A failed part does not stop the others, so one run shows all.

use std::time::Instant;

use crate::chrome::Chrome;
use crate::repo::{Repo, run, run_and_read};
use crate::{dist, layers, rules, text, tools};

/// What a part found: itself, or the tests in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    passed: u64,
    failed: u64,
}

const PASSED: Count = Count { passed: 1, failed: 0 };
const FAILED: Count = Count { passed: 0, failed: 1 };

struct Part {
    name: &'static str,
    what: &'static str,
    /// The error says why it could not be done or did not hold.
    run: fn(&Repo) -> Result<Count, String>,
}

/// In the order of their cost.
const PARTS: [Part; 11] = [
    Part { name: "format", what: "rustfmt changes nothing", run: format },
    Part { name: "layers", what: "arrows between rooms point down only", run: layers },
    Part { name: "text", what: "length of files, leftovers, the page's policy", run: text },
    Part { name: "rules", what: "rules, what cites them and the tests that pin them", run: rules },
    Part { name: "xtask", what: "tests of these tasks", run: xtask },
    Part { name: "lint", what: "clippy, native, warnings as errors", run: lint },
    Part { name: "native", what: "native tests", run: native },
    Part { name: "swarm", what: "seeds that must be calm, and faults that must be found", run: swarm },
    Part { name: "lint-web", what: "clippy, wasm, warnings as errors", run: lint_web },
    Part { name: "browser", what: "tests in headless Chromium", run: browser },
    Part { name: "site", what: "release build of the page, with its size", run: site },
];

/// Runs the parts named, or all, and gives whether all held. The last line is `N passed, N failed`.
pub fn test(repo: &Repo, names: &[&str]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        return Err(format!("there is no part {unknown}; the parts are:\n{}", list()));
    }
    let start = Instant::now();
    let mut total = Count::default();
    let mut lines = Vec::new();
    for part in PARTS.iter().filter(|part| names.is_empty() || names.contains(&part.name)) {
        println!("\n== {}: {}", part.name, part.what);
        let start = Instant::now();
        let count = (part.run)(repo).unwrap_or_else(|reason| {
            println!("{reason}");
            FAILED
        });
        let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
        let line = format!("{:<9}{verdict:<7}{:>7}", part.name, seconds(start));
        println!("== {line}");
        lines.push(line);
        total = total + count;
    }
    println!("\n{}\n{:<16}{:>7}\n", lines.join("\n"), "all", seconds(start));
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

/// The parts with what each shows.
pub fn list() -> String {
    PARTS.iter().map(|part| format!("  {:<9}{}", part.name, part.what)).collect::<Vec<_>>().join("\n")
}

fn seconds(start: Instant) -> String {
    let tenths = start.elapsed().as_millis() / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

impl std::ops::Add for Count {
    type Output = Count;
    fn add(self, other: Count) -> Count {
        Count { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

fn format(repo: &Repo) -> Result<Count, String> {
    tools::component(repo, "rustfmt", "fmt")?;
    run(repo.cargo(&["fmt", "--all", "--check"])).map(|()| PASSED)
}

fn layers(repo: &Repo) -> Result<Count, String> {
    verdict(layers::faults(&repo.texts("src", &[".rs"])?))
}

fn text(repo: &Repo) -> Result<Count, String> {
    let mut files = Vec::new();
    for folder in ["src", "static", "tests"] {
        files.extend(repo.texts(folder, &[".rs", ".js", ".css", ".toml"])?);
    }
    files.push(("index.html".to_string(), repo.read("index.html")?));
    let (faults, notes) = text::check(&files);
    for note in notes {
        println!("note: {note}");
    }
    verdict(faults)
}

fn rules(repo: &Repo) -> Result<Count, String> {
    let mut sources = repo.texts("tests", &[".rs"])?;
    // These tasks only tell how rules are cited.
    sources
        .extend(repo.texts("src", &[".rs"])?.into_iter().filter(|(path, _)| !path.starts_with("src/xtask/")));
    verdict(rules::faults(&repo.read(rules::FILE)?, &sources))
}

fn verdict(faults: Vec<String>) -> Result<Count, String> {
    if faults.is_empty() { Ok(PASSED) } else { Err(faults.join("\n")) }
}

fn xtask(repo: &Repo) -> Result<Count, String> {
    counted(run_and_read(repo.cargo(&["test", "--package", "xtask"]))?)
}

fn lint(repo: &Repo) -> Result<Count, String> {
    tools::component(repo, "clippy", "clippy")?;
    run(repo.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])).map(|()| PASSED)
}

fn native(repo: &Repo) -> Result<Count, String> {
    counted(run_and_read(repo.cargo(&["test", "--no-fail-fast"]))?)
}

/// The profile that compiles fast, and the feature that lets faults be planted.
const SWARM: [&str; 7] = ["run", "--quiet", "--profile", "swarm", "--features", "plant", "--"];
/// About two minutes of one processor.
const CALM: [&str; 5] = ["swarm", "--seeds", "150", "--virtual-minutes", "10"];
/// Seeds with transactions.
const CALM_TRANSACTIONS: [&str; 7] =
    ["swarm", "--from", "1000000", "--seeds", "12", "--virtual-minutes", "10"];
/// Seeds within which each planted fault must be found.
const PLANTED: [&str; 4] = ["--seeds", "60", "--virtual-minutes", "5"];

/// Sound seeds are calm; each fault that can be planted is found.
fn swarm(repo: &Repo) -> Result<Count, String> {
    let tool = |arguments: &[&str]| {
        let mut command = repo.cargo(&SWARM);
        command.args(arguments);
        command
    };
    let (listed, plants) = run_and_read(tool(&["swarm", "--plants"]))?;
    if !listed {
        return Err("the swarm's tool does not run".to_string());
    }
    let mut count = Count::default();
    for seeds in [&CALM[..], &CALM_TRANSACTIONS] {
        count = count + if run(tool(seeds)).is_ok() { PASSED } else { FAILED };
    }
    for plant in plants.lines().filter_map(|line| line.split_whitespace().next()) {
        let arguments = [&["swarm", "--plant", plant], &PLANTED[..]].concat();
        let (_, said) = run_and_read(tool(&arguments))?;
        let found = said.lines().any(|line| line.starts_with(&format!("{plant} is found by ")));
        if !found {
            println!("{plant} was not found");
        }
        count = count + if found { PASSED } else { FAILED };
    }
    Ok(count)
}

/// What the page and its tests are compiled with.
const WEB: [&str; 5] = ["--target", "wasm32-unknown-unknown", "--no-default-features", "--features", "web"];

fn lint_web(repo: &Repo) -> Result<Count, String> {
    tools::component(repo, "clippy", "clippy")?;
    tools::wasm_target(repo)?;
    let mut clippy = repo.cargo(&["clippy"]);
    clippy.args(WEB).args(["--features", "bench", "--lib", "--bins", "--test", "web", "--bench", "web"]);
    clippy.args(["--", "-D", "warnings"]);
    run(clippy).map(|()| PASSED)
}

fn browser(repo: &Repo) -> Result<Count, String> {
    let chrome = Chrome::get(repo)?;
    tools::for_browser_tests(repo)?;
    let mut tests = repo.cargo(&["test"]);
    tests.args(WEB).args(["--test", "web"]);
    chrome.prepare(repo, &mut tests)?;
    counted(run_and_read(tests)?)
}

/// Prints what the engine does in a browser, as the page is compiled.
pub fn bench_web(repo: &Repo) -> Result<(), String> {
    let chrome = Chrome::get(repo)?;
    tools::for_browser_tests(repo)?;
    let mut bench = repo.cargo(&["test", "--profile", "web"]);
    bench.args(WEB).args(["--features", "bench", "--bench", "web", "--", "--nocapture"]);
    chrome.prepare(repo, &mut bench)?;
    bench.env("WASM_BINDGEN_TEST_TIMEOUT", "900");
    run(bench)
}

fn site(repo: &Repo) -> Result<Count, String> {
    dist::dist(repo).map(|()| PASSED)
}

/// The tests in what a test run printed. A run that failed without a failed test, or ran none, failed as a whole.
fn counted((success, output): (bool, String)) -> Result<Count, String> {
    let count = output.lines().filter_map(test_result).fold(Count::default(), |sum, count| sum + count);
    match count {
        Count { failed: 0, .. } if !success => Ok(count + FAILED),
        Count { passed: 0, failed: 0 } => Err("no test ran".to_string()),
        _ => Ok(count),
    }
}

/// Reads `test result: ok. 3 passed; 1 failed; ...`.
fn test_result(line: &str) -> Option<Count> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number =
        |unit| rest.split(';').find_map(|field| field.trim().strip_suffix(unit)?.trim().parse().ok());
    Some(Count { passed: number("passed")?, failed: number("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(success: bool, output: &str, expected: Option<(u64, u64)>) {
        let count = counted((success, output.to_string())).ok().map(|count| (count.passed, count.failed));
        assert_eq!(count, expected, "{output}");
    }

    #[test]
    fn tests_are_counted_over_all_results_of_a_run() {
        let two = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.05s\nx\n\
                   test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured\n";
        check(false, two, Some((7, 2)));
        check(true, "test result: ok. 3 passed; 0 failed; 0 ignored", Some((3, 0)));
    }

    #[test]
    fn a_run_that_broke_or_tested_nothing_is_no_success() {
        check(false, "error: could not compile", Some((0, 1)));
        check(false, "test result: ok. 3 passed; 0 failed; 0 ignored", Some((3, 1)));
        check(true, "test result: ok. 0 passed; 0 failed; 0 ignored", None);
    }

    #[test]
    fn a_wrong_name_of_a_part_lists_the_right_ones() {
        let repo = Repo::find().expect("cargo runs the tests");
        let refusal = test(&repo, &["natve"]).expect_err("there is no such part");
        assert!(refusal.contains("natve") && refusal.contains("native tests"), "{refusal}");
    }
}
