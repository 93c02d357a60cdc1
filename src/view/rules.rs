//! What a rule's id stands for, for whoever meets it in a sentence.

use crate::kafka::rules::{Status, find};

/// A rule as it is told on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    pub sentence: &'static str,
    /// "Kafka: Partition.appendRecordsToLeader", and what is missing here if something is.
    pub source: String,
}

/// `None` for an id that no sentence cites.
pub fn rule(id: &str) -> Option<RuleView> {
    let rule = find(id)?;
    // What was derived says so itself: "follows from R-REPL-22".
    let mut source = if rule.source.starts_with("follows") {
        rule.source.to_owned()
    } else {
        format!("Kafka: {}", rule.source)
    };
    if let Status::Partly(missing) = rule.status {
        source.push_str("; here in part: ");
        source.push_str(missing);
    }
    Some(RuleView { sentence: rule.sentence, source })
}

#[cfg(test)]
mod tests {
    use super::rule;

    #[test]
    fn a_rule_is_told_with_its_source_and_with_what_is_missing() {
        let said = |id: &str| rule(id).expect("it is modelled");
        assert!(said("R-REPL-12").sentence.starts_with("The high watermark is the least log end"));
        assert_eq!(said("R-REPL-12").source, "Kafka: Partition.maybeIncrementLeaderHW");
        assert_eq!(said("R-CTRL-11").source, "Kafka: KIP-853; here in part: the set of voters is fixed");
        assert_eq!(said("R-REPL-53").source, "follows from R-REPL-22 and R-REPL-29");
        assert_eq!(rule("R-CLI"), None);
    }
}
