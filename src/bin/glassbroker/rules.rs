//! `rules`: what the project holds of Kafka's rules, by group, or a rule in full.

use std::collections::BTreeMap;
use std::io::Write;

use glassbroker::kafka::rules::{ALL, Rule, Status, rules};

use crate::Failure;

/// A line for each group with its counts; or the rules whose id is `asked`, or begins so (`R-LOG`), in full.
pub fn run(asked: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let all: Vec<Rule<'_>> = rules(ALL).filter_map(Result::ok).collect();
    let Some(asked) = asked else { return counts(&all, out) };
    let asked = asked.to_ascii_uppercase();
    let group = format!("{asked}-");
    let found: Vec<&Rule<'_>> =
        all.iter().filter(|rule| rule.id == asked || rule.id.starts_with(&group)).collect();
    if found.is_empty() {
        return Err(Failure::NoRule(asked));
    }
    for rule in found {
        writeln!(out, "{}  {}", rule.id, rule.sentence)?;
        writeln!(out, "  source: {}", rule.source)?;
        match rule.status {
            Status::Modelled => writeln!(out, "  modelled")?,
            Status::Partly(missing) => writeln!(out, "  partly modelled: {missing}")?,
            Status::NotModelled => writeln!(out, "  not modelled")?,
        }
        for test in &rule.tests {
            writeln!(out, "  test: {} {}", test.file, test.name)?;
        }
    }
    Ok(())
}

fn counts(all: &[Rule<'_>], out: &mut impl Write) -> Result<(), Failure> {
    let mut groups: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    let mut sum = [0; 3];
    for rule in all {
        let column = match rule.status {
            Status::Modelled => 0,
            Status::Partly(_) => 1,
            Status::NotModelled => 2,
        };
        let group = rule.id.rsplit_once('-').map_or(rule.id, |(group, _)| group);
        groups.entry(group).or_default()[column] += 1;
        sum[column] += 1;
    }
    writeln!(out, "{:<8} {:>8} {:>8} {:>12}", "rules", "modelled", "partly", "not modelled")?;
    for (group, [modelled, partly, not]) in groups.into_iter().chain([("all", sum)]) {
        writeln!(out, "{group:<8} {modelled:>8} {partly:>8} {not:>12}")?;
    }
    Ok(())
}
