//! What a visitor downloads, by part: raw, gzip, brotli.

use std::fs;
use std::path::Path;

use crate::repo::{Repo, output};

/// The parts of the page and how their files are known.
const PARTS: [(&str, &str); 5] = [
    ("wasm", "_bg.wasm"),
    ("js glue", ".js"),
    ("css", ".css"),
    ("boot.js", "boot.js"),
    ("html", "index.html"),
];

/// Programs that compress a file to their output. The first one that runs is used.
const GZIP: [&[&str]; 2] = [
    &["gzip", "-9", "-c"],
    &[
        "python3",
        "-c",
        "import gzip,sys; sys.stdout.buffer.write(gzip.compress(open(sys.argv[1],'rb').read()))",
    ],
];
const BROTLI: [&[&str]; 2] = [
    &["brotli", "-q", "11", "-c"],
    &["node", "-e", "process.stdout.write(zlib.brotliCompressSync(fs.readFileSync(process.argv[1])))"],
];

/// A table of `dist/`, in kB (1,000 bytes).
pub fn report(repo: &Repo) -> Result<String, String> {
    let dist = repo.path("dist");
    let mut names: Vec<String> = fs::read_dir(&dist)
        .map_err(|e| format!("{}: {e}", dist.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut rows = Vec::new();
    for (part, _) in PARTS {
        let mut sizes = [Some(0); 3];
        for name in names.iter().filter(|name| part_of(name) == Some(part)) {
            sizes = add(sizes, measure(repo, &dist.join(name))?);
        }
        rows.push((part, sizes));
    }
    let all = rows.iter().fold([Some(0); 3], |sum, (_, sizes)| add(sum, *sizes));
    rows.push(("all", all));
    Ok(table(&rows))
}

/// Raw, gzip, brotli in bytes; `None` where no program was there to measure it.
type Sizes = [Option<usize>; 3];

/// The last part that fits: `boot.js` is not glue.
fn part_of(name: &str) -> Option<&'static str> {
    PARTS.iter().rev().find(|(_, ending)| name.ends_with(ending)).map(|(part, _)| *part)
}

fn measure(repo: &Repo, file: &Path) -> Result<Sizes, String> {
    let raw = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?.len();
    Ok([Some(raw as usize), compressed(repo, &GZIP, file), compressed(repo, &BROTLI, file)])
}

fn compressed(repo: &Repo, ways: &[&[&str]], file: &Path) -> Option<usize> {
    ways.iter().find_map(|way| {
        let mut command = repo.command(way[0], &way[1..]);
        command.arg(file);
        output(command).map(|bytes| bytes.len())
    })
}

fn add(a: Sizes, b: Sizes) -> Sizes {
    std::array::from_fn(|i| Some(a[i]? + b[i]?))
}

fn table(rows: &[(&str, Sizes)]) -> String {
    let mut text = format!("{:<10}{:>10}{:>10}{:>10}   kB\n", "size", "raw", "gzip", "brotli");
    for (part, sizes) in rows {
        let cells = sizes.map(|size| size.map_or("-".to_string(), kilobytes));
        text += &format!("{part:<10}{:>10}{:>10}{:>10}\n", cells[0], cells[1], cells[2]);
    }
    for (name, column) in [("gzip", 1), ("brotli", 2)] {
        if rows.iter().any(|(_, sizes)| sizes[column].is_none()) {
            text += &format!("{name} not measured: no {name} program\n");
        }
    }
    text
}

fn kilobytes(bytes: usize) -> String {
    format!("{}.{}", bytes / 1000, bytes % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_the_page_counts_once() {
        assert_eq!(part_of("app-5f3a_bg.wasm"), Some("wasm"));
        assert_eq!(part_of("app-5f3a.js"), Some("js glue"));
        assert_eq!(part_of("boot.js"), Some("boot.js"));
        assert_eq!(part_of("app-77.css"), Some("css"));
        assert_eq!(part_of("icon-1.svg"), None);
    }

    #[test]
    fn a_size_that_nobody_measured_is_said_not_guessed() {
        let text = table(&[("wasm", [Some(123_456), Some(45_000), None])]);
        assert!(text.contains("wasm           123.4      45.0         -\n"), "{text}");
        assert!(text.ends_with("\nbrotli not measured: no brotli program\n"), "{text}");
    }
}
