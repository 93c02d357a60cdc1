//! Tools that cargo does not bring: which are needed, whether they are there, how they are got.
//!
//! **Invariant:** a tool counts as there when it runs and names the pinned version, not when a file exists.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::repo::{Repo, output, run};

const WASM: &str = "wasm32-unknown-unknown";

/// A program from crates.io. Its version belongs to the versions in Cargo.toml and is raised together with them.
struct Tool {
    package: &'static str,
    program: &'static str,
    version: &'static str,
    minutes: u32,
}

const TRUNK: Tool = Tool { package: "trunk", program: "trunk", version: "0.21.14", minutes: 4 };
/// The runner stands for the whole package, since it is the last program that cargo installs.
const WASM_BINDGEN: Tool =
    Tool { package: "wasm-bindgen-cli", program: "wasm-bindgen-test-runner", version: "0.2.126", minutes: 2 };

/// Gets what a build of the page needs.
pub fn for_page(repo: &Repo) -> Result<(), String> {
    wasm_target(repo)?;
    fetch(repo, &[&TRUNK, &WASM_BINDGEN])
}

/// Gets what the browser tests need, beside the browser.
pub fn for_browser_tests(repo: &Repo) -> Result<(), String> {
    wasm_target(repo)?;
    fetch(repo, &[&WASM_BINDGEN])
}

/// Gets the compiler's target for the browser.
pub fn wasm_target(repo: &Repo) -> Result<(), String> {
    let sysroot = output(repo.command("rustc", &["--print", "sysroot"])).ok_or("rustc does not run")?;
    let sysroot = String::from_utf8_lossy(&sysroot).trim().to_string();
    if Path::new(&sysroot).join("lib/rustlib").join(WASM).is_dir() {
        return Ok(());
    }
    println!("Getting the target {WASM}: a few seconds.");
    run(repo.command("rustup", &["target", "add", WASM]))
        .map_err(|e| format!("{e}\nRemedy: install the compiler by rustup (https://rustup.rs)."))
}

/// Gets a component of the toolchain, `rustfmt` or `clippy`, whose cargo command is `command`.
pub fn component(repo: &Repo, component: &str, command: &str) -> Result<(), String> {
    if output(repo.cargo(&[command, "--version"])).is_some() {
        return Ok(());
    }
    println!("Getting {component}: a few seconds.");
    run(repo.command("rustup", &["component", "add", component]))
}

/// Builds the missing ones of `tools` into `target/tools`.
fn fetch(repo: &Repo, tools: &[&Tool]) -> Result<(), String> {
    let missing: Vec<&&Tool> = tools.iter().filter(|tool| !tool.is_there(repo)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let minutes: u32 = missing.iter().map(|tool| tool.minutes).sum();
    println!(
        "Some tools are missing. They are built into target/tools once, in about {minutes} minutes on two cores."
    );
    for tool in &missing {
        tool.install(repo)?;
    }
    let build = repo.path(BUILD);
    fs::remove_dir_all(&build).map_err(|e| format!("{}: {e}", build.display()))
}

/// One build folder for all tools, so that what they share is compiled once; removed when they are there.
const BUILD: &str = "target/tools/build";

impl Tool {
    fn is_there(&self, repo: &Repo) -> bool {
        output(repo.command(self.program, &["--version"])).is_some_and(|text| self.is_named_by(&text))
    }

    /// Whether `text`, the answer to `--version`, names the pinned version.
    fn is_named_by(&self, text: &[u8]) -> bool {
        String::from_utf8_lossy(text).split_whitespace().any(|word| word == self.version)
    }

    fn install(&self, repo: &Repo) -> Result<(), String> {
        let Tool { package, version, minutes, .. } = self;
        println!("Getting {package} {version}: about {minutes} minutes.");
        let start = Instant::now();
        let pinned = format!("{package}@{version}");
        // Unoptimised without debug information: built in a quarter of the time, and no slower in use.
        let mut cargo = repo.cargo(&["install", "--debug", "--locked", "--force", "--root", "target/tools"]);
        cargo.args(["--target-dir", BUILD, &pinned]).env("CARGO_PROFILE_DEV_DEBUG", "0");
        run(cargo).map_err(|e| format!("{package} could not be built: {e}"))?;
        println!("{package} {version} is there after {} s.", start.elapsed().as_secs());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_the_version_it_names() {
        assert!(TRUNK.is_named_by(b"trunk 0.21.14\n"));
        assert!(!TRUNK.is_named_by(b"trunk 0.21.1\n"));
        assert!(!TRUNK.is_named_by(b"trunk 0.21.140\n"));
    }
}
