//! The folder of the project, and programs that run in it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that holds the workspace's Cargo.toml.
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// The project whose xtask is running; `cargo run` names the package's folder, `src/xtask`.
    pub fn find() -> Result<Repo, String> {
        let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("start this as `cargo xtask`")?;
        let root = Path::new(&package).ancestors().nth(2).ok_or("xtask lies outside of the project")?;
        Ok(Repo { root: root.to_path_buf() })
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// A program that runs in the project's folder and finds the fetched tools before any others.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).env("PATH", self.search_path());
        command
    }

    pub fn cargo(&self, args: &[&str]) -> Command {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
        self.command(&cargo, args)
    }

    fn search_path(&self) -> OsString {
        let old = env::var_os("PATH").unwrap_or_default();
        let places = std::iter::once(self.path("target/tools/bin")).chain(env::split_paths(&old));
        // Only a folder with the separator in its name cannot be joined; then PATH stays as it was.
        env::join_paths(places).unwrap_or(old)
    }

    pub fn read(&self, inside: &str) -> Result<String, String> {
        fs::read_to_string(self.path(inside)).map_err(|e| format!("{inside}: {e}"))
    }

    /// Text files under `folder` that end in one of `endings`, as (path from the root, text), in order of path.
    pub fn texts(&self, folder: &str, endings: &[&str]) -> Result<Vec<(String, String)>, String> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_string()];
        while let Some(folder) = folders.pop() {
            let place = self.path(&folder);
            if !place.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&place).map_err(|e| format!("{folder}: {e}"))? {
                let entry = entry.map_err(|e| format!("{folder}: {e}"))?;
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if entry.path().is_dir() {
                    folders.push(path);
                } else if endings.iter().any(|ending| path.ends_with(ending)) {
                    let text = self.read(&path)?;
                    found.push((path, text));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Runs to the end with its output on the screen. The error names the program.
pub fn run(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|e| cannot_start(&command, &e))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", name(&command))) }
}

/// Runs to the end with its output on the screen, and gives whether it succeeded and what it printed.
pub fn run_and_read(mut command: Command) -> Result<(bool, String), String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| cannot_start(&command, &e))?;
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n') {
        let line = line.map_err(|e| format!("{}: {e}", name(&command)))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(|e| format!("{}: {e}", name(&command)))?;
    Ok((status.success(), text))
}

/// What a program prints, unseen; `None` when it is not there or fails.
pub fn output(mut command: Command) -> Option<Vec<u8>> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", name(command))
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
