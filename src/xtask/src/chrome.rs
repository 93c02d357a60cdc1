//! The browser of the tests and its driver: where they are, how they are got, how the runner hears of them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repo::{Repo, output, run};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVERS: [&str; 4] = [
    "chromedriver",
    "chromium.chromedriver",
    "/usr/lib/chromium/chromedriver",
    "/usr/lib/chromium-browser/chromedriver",
];
const REMEDY: &str = "\
Remedy: on Debian, `sudo apt-get install chromium chromium-driver`; elsewhere install Chrome or Chromium and the
ChromeDriver of the same version, and name them in CHROME and CHROMEDRIVER where they are not on PATH.";

pub struct Chrome {
    driver: PathBuf,
    /// Named by the person; otherwise the driver finds its browser itself.
    browser: Option<PathBuf>,
}

impl Chrome {
    /// The browser and driver that are named or installed; installs them where that is possible.
    pub fn get(repo: &Repo) -> Result<Chrome, String> {
        let (browser, driver) = (named("CHROME")?, named("CHROMEDRIVER")?);
        let missing = match Chrome::find(&browser, &driver) {
            Ok(chrome) => return Ok(chrome),
            Err(missing) => missing,
        };
        if !can_install(repo) {
            return Err(format!("{missing}\n{REMEDY}"));
        }
        println!("{missing} Installing chromium and chromium-driver by apt-get: about a minute.");
        // Lists that cannot be refreshed may still be good enough.
        if let Err(reason) = run(apt_get(repo, &["update"])) {
            println!("{reason}");
        }
        run(apt_get(repo, &["install", "-y", "--no-install-recommends", "chromium", "chromium-driver"]))
            .map_err(|e| format!("{e}\n{REMEDY}"))?;
        Chrome::find(&browser, &driver).map_err(|missing| format!("{missing}\n{REMEDY}"))
    }

    fn find(browser: &Option<PathBuf>, driver: &Option<PathBuf>) -> Result<Chrome, &'static str> {
        if browser.is_none() && first_of(&BROWSERS).is_none() {
            return Err("Chromium is missing.");
        }
        let driver = driver.clone().or_else(|| first_of(&DRIVERS)).ok_or("Chromium's driver is missing.")?;
        Ok(Chrome { driver, browser: browser.clone() })
    }

    /// Tells the runner of wasm-bindgen-test about browser, driver and patience (seconds).
    pub fn prepare(&self, repo: &Repo, tests: &mut Command) -> Result<(), String> {
        tests.env("CHROMEDRIVER", &self.driver);
        tests.env("WASM_BINDGEN_TEST_TIMEOUT", "300").env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "30");
        if let Some(browser) = &self.browser {
            let ours = repo.path("target/webdriver.json");
            let capabilities = with_binary(&repo.read("webdriver.json")?, browser);
            fs::create_dir_all(repo.path("target"))
                .and_then(|()| fs::write(&ours, capabilities))
                .map_err(|e| format!("{}: {e}", ours.display()))?;
            tests.env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", ours);
        }
        Ok(())
    }
}

/// The capabilities with the browser's path in them.
fn with_binary(capabilities: &str, browser: &Path) -> String {
    let path = browser.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    capabilities.replacen("\"args\":", &format!("\"binary\": \"{path}\",\n    \"args\":"), 1)
}

/// The program that an environment variable names.
fn named(variable: &str) -> Result<Option<PathBuf>, String> {
    let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if path.is_file() {
        Ok(Some(path))
    } else {
        Err(format!("{variable} names {}, which is no file.", path.display()))
    }
}

/// The first of `programs` that exists, on PATH or where its path says.
fn first_of(programs: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    // Joining an absolute path gives that path itself.
    programs
        .iter()
        .find_map(|program| folders.iter().map(|folder| folder.join(program)).find(|file| file.is_file()))
}

fn can_install(repo: &Repo) -> bool {
    let root = output(repo.command("id", &["-u"])).is_some_and(|user| user.trim_ascii() == b"0");
    root && first_of(&["apt-get"]).is_some()
}

fn apt_get(repo: &Repo, args: &[&str]) -> Command {
    let mut command = repo.command("apt-get", &["-o", "DPkg::Lock::Timeout=300"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_was_named_enters_the_capabilities() {
        let given = r#"{"goog:chromeOptions": {"args": ["--headless=new"]}}"#;
        let text = with_binary(given, Path::new("/opt/chrome"));
        assert!(text.contains(r#""goog:chromeOptions": {"binary": "/opt/chrome","#), "{text}");
        assert!(text.contains(r#""args": ["--headless=new"]"#), "{text}");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(first_of(&["no-such-program"]).is_none());
        let this = env::current_exe().expect("the test has a file");
        assert_eq!(first_of(&["no-such-program", &this.to_string_lossy()]), Some(this));
    }
}
