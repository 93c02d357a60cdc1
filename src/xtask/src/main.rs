//! Developer tasks: everything the README's commands do, from getting the tools to the last test.
//!
//! **Invariant:** uses the standard library only, so that it compiles in a second and never waits for the product.

mod chrome;
mod dist;
mod layers;
mod repo;
mod rules;
mod serve;
mod size;
mod source;
mod test;
mod text;
mod tools;

use std::env;
use std::process::ExitCode;

use repo::Repo;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  serve [--port N] [--release]  build the page, serve it on this machine, rebuild at every change of a file
  test [PART...]                everything that must hold, or only the parts named
  bench-web                     how fast the engine is in headless Chromium
  dist                          build dist/, the page as any static host can serve it
  tidy                          the parts of test that only read text: layers, text, rules

What is missing is fetched into target/tools; nothing is installed outside this folder, except
Chromium and its driver, by apt-get, when root runs the browser tests on a Debian-like system.";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = Repo::find().and_then(|repo| match words.as_slice() {
        ["serve", options @ ..] => serve::serve(&repo, options).map(|()| true),
        ["test", parts @ ..] => test::test(&repo, parts),
        ["bench-web"] => test::bench_web(&repo).map(|()| true),
        ["tidy"] => test::test(&repo, &["layers", "text", "rules"]),
        ["dist"] => dist::dist(&repo).map(|()| true),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}\n\nparts of test:\n{}", test::list());
            Ok(true)
        }
        _ => Err(USAGE.to_string()),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
