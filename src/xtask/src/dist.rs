//! The page as any static host can serve it, and what its index.html must and must not hold.

use std::process::Command;

use crate::repo::{Repo, run};
use crate::{size, tools};

/// Trunk with its pinned tools. It looks at some variables that would change its work.
pub fn trunk(repo: &Repo, args: &[&str]) -> Command {
    let mut command = repo.command("trunk", args);
    // It takes NO_COLOR=1 for a wrong value of its own option, and asks the network for newer versions.
    command.env_remove("NO_COLOR").env("TRUNK_SKIP_VERSION_CHECK", "true");
    command
}

/// Builds `dist/`, checks its page and reports its size.
pub fn dist(repo: &Repo) -> Result<(), String> {
    tools::for_page(repo)?;
    println!("Building dist/: a few minutes the first time.");
    run(trunk(repo, &["build", "--release"]))?;
    let html = repo.read("dist/index.html")?;
    let faults = page_faults(&html, &|file| repo.path("dist").join(file).is_file());
    if !faults.is_empty() {
        return Err(format!("dist/index.html:\n  {}", faults.join("\n  ")));
    }
    println!("\n{}", size::report(repo)?);
    println!("dist/ is ready: copy it to any folder of any static host.");
    Ok(())
}

/// What keeps `html` from working under its own policy in any folder; `exists` knows the files beside it.
fn page_faults(html: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut faults = inline_faults(html);
    let head = html.split_once("<head>").map_or("", |(_, rest)| rest.trim_start());
    if !head.starts_with("<meta http-equiv=\"Content-Security-Policy\"") {
        faults.push("the policy is not the first element of the head".to_string());
    }
    for tag in tags(html) {
        for name in ["src", "href", "data-js", "data-wasm"] {
            let Some(address) = attribute(tag, name) else { continue };
            if address.contains("//") || address.starts_with('/') {
                faults.push(format!("{address} is not relative"));
            } else if !exists(address.trim_start_matches("./")) {
                faults.push(format!("{address} is not in dist/"));
            }
        }
    }
    faults
}

/// Inline scripts and styles, which the page's policy makes dead text.
pub fn inline_faults(html: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for tag in tags(html) {
        if tag.starts_with("script") && attribute(tag, "src").is_none() {
            faults.push("a script without src: the policy forbids inline scripts".to_string());
        }
        if tag.starts_with("style") || attribute(tag, "style").is_some() {
            faults.push(format!("<{tag}>: the policy forbids inline styles"));
        }
    }
    faults
}

/// What stands between each `<` and `>`, of opening tags.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "<head><meta http-equiv=\"Content-Security-Policy\" content=\"x\">";

    fn check(body: &str, expected: &[&str]) {
        let html = format!("{POLICY}</head>{body}");
        assert_eq!(page_faults(&html, &|file| file == "here.js"), expected, "{body}");
    }

    #[test]
    fn a_page_of_relative_files_passes() {
        check(r#"<script type="module" src="./here.js" data-js="here.js"></script>"#, &[]);
    }

    #[test]
    fn a_page_that_would_break_in_a_folder_or_under_its_policy_fails() {
        check(r#"<script src="/here.js"></script>"#, &["/here.js is not relative"]);
        check(r#"<link href="https://host/here.js">"#, &["https://host/here.js is not relative"]);
        check(r#"<link href="./gone.css">"#, &["./gone.css is not in dist/"]);
        check("<script>x</script>", &["a script without src: the policy forbids inline scripts"]);
        check("<style>x</style>", &["<style>: the policy forbids inline styles"]);
        check(r#"<p style="x">"#, &["<p style=\"x\">: the policy forbids inline styles"]);
    }

    #[test]
    fn a_page_whose_policy_comes_late_fails() {
        let html = "<head><title>x</title><meta http-equiv=\"Content-Security-Policy\"></head>";
        assert_eq!(page_faults(html, &|_| true), ["the policy is not the first element of the head"]);
    }
}
