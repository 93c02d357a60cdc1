//! Regular expressions that members subscribe to, resolved by the coordinator.
//!
//! Mirrors `maybeUpdateRegularExpressions`, `handleRegularExpressionsResult` and `TopicRegexResolver`. Kafka uses RE2J, whose
//! syntax this one's is but for classes of Unicode.
//!
//! **Invariant:** an expression that no member subscribes to has no resolution, and one that is not resolved matches nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConsumerGroup, ConsumerMember, Outcome, ResolvedRegex};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::group::modern::subscription::Subscriptions;
use crate::kafka::group::modern::{Freshness, ModernMember, Refusal, Surroundings};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, GroupEpochValue};
use crate::kafka::types::Topic;

/// REGEX_BATCH_REFRESH_MIN_INTERVAL_MS
const REFRESH_MIN_INTERVAL_MS: i64 = 10_000;

/// How a member's expression changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegexChange {
    None,
    /// The group's epoch rises when it is resolved.
    Unresolved,
    /// To one that is resolved already, or to none.
    Resolved,
}

impl ConsumerGroup {
    /// How the member's expression changed, and the expressions that are to be resolved now.
    pub(super) fn update_regexes(
        &self,
        member: &ConsumerMember,
        updated: &ConsumerMember,
        config: &ConsumerGroupConfig,
        around: &Surroundings<'_>,
        records: &mut Vec<ConsumerRecord>,
    ) -> Result<(RegexChange, Option<BTreeSet<String>>), Refusal> {
        let (old, new) = (member.topic_regex.as_str(), updated.topic_regex.as_str());
        let mut change = RegexChange::None;
        let mut is_new = false;
        if old != new {
            change = RegexChange::Unresolved;
            if !old.is_empty() && self.subscribers(old) == 1 {
                records.push(ConsumerRecord::RegularExpression(old.to_string(), None));
            }
            is_new = !new.is_empty() && self.subscribers(new) == 0;
            if is_new {
                compile(new)?;
            } else if new.is_empty() || self.regexes.contains_key(new) {
                change = RegexChange::Resolved;
            }
        }
        let resolve = self.regexes_to_resolve(updated, is_new, config, around);
        Ok((change, resolve))
    }

    fn subscribers(&self, regex: &str) -> i64 {
        self.base.members.values().filter(|member| member.topic_regex == regex).count() as i64
    }

    /// All of them, if one is not resolved, topics were created since the last time, or that is long ago; but not more often
    /// than every ten seconds.
    fn regexes_to_resolve(
        &self,
        updated: &ConsumerMember,
        is_new: bool,
        config: &ConsumerGroupConfig,
        around: &Surroundings<'_>,
    ) -> Option<BTreeSet<String>> {
        let unused = !is_new && self.base.members.values().all(|member| member.topic_regex.is_empty());
        if unused || self.resolving.is_some() {
            return None;
        }
        let last = self.regexes.values().next();
        let since_ms = |last: &ResolvedRegex| around.now.wall_ms() - last.timestamp_ms;
        if last.is_some_and(|last| since_ms(last) <= REFRESH_MIN_INTERVAL_MS) {
            return None;
        }
        let members = self.members_with(updated).map(|member| member.topic_regex.clone());
        let regexes: BTreeSet<String> = members.filter(|regex| !regex.is_empty()).collect();
        let refresh = is_new
            || regexes.len() != self.regexes.len()
            || last.map_or(0, |last| last.version) < around.topics_created_at.0
            || last.is_none_or(|last| since_ms(last) > config.regex_refresh_interval_ms);
        (refresh && !regexes.is_empty()).then_some(regexes)
    }

    /// The expressions are resolved: the group's epoch rises if they match other topics than before.
    pub fn regexes_resolved(
        &self,
        resolved: BTreeMap<String, ResolvedRegex>,
        around: &Surroundings<'_>,
    ) -> Outcome<()> {
        let mut records = Vec::new();
        let mut bump = false;
        let mut regexes = self.regexes.clone();
        for (regex, new) in resolved {
            if self.subscribers(&regex) == 0 {
                continue;
            }
            records.push(ConsumerRecord::RegularExpression(regex.clone(), Some(new.to_record())));
            let topics = new.topics.clone();
            let old = regexes.insert(regex, new);
            bump |= old.map(|old| old.topics).unwrap_or_default() != topics;
        }
        let members = self.base.members.values().map(|member| member.subscribed());
        let subscriptions = Subscriptions::of(members, |regex| regexes.get(regex).map(|known| &known.topics));
        let metadata_hash = subscriptions.metadata_hash(around.image);
        let mut outcome = Outcome::new(records, ());
        if bump || metadata_hash != self.base.metadata_hash {
            let epoch = self.base.epoch.next();
            outcome.records.push(ConsumerRecord::GroupEpoch(Some(GroupEpochValue { epoch, metadata_hash })));
            outcome.fresh = Some(Freshness::from(around.now, epoch));
        }
        outcome
    }
}

/// What each expression matches, from the first letter of a topic to the last.
pub fn resolve(
    regexes: &BTreeSet<String>,
    image: &ClusterImage,
    timestamp_ms: i64,
) -> BTreeMap<String, ResolvedRegex> {
    let version = image.next_offset.0 - 1;
    let resolved = |regex: &String| {
        // Checked when a member brought it.
        let topics = compile(regex).map(|compiled| {
            let names = image.topics().map(|topic| &topic.name);
            names.filter(|name| compiled.is_match(name.as_str())).cloned().collect::<BTreeSet<Topic>>()
        });
        (regex.clone(), ResolvedRegex { topics: topics.unwrap_or_default(), version, timestamp_ms })
    };
    regexes.iter().map(resolved).collect()
}

/// INVALID_REGULAR_EXPRESSION for what is none.
fn compile(regex: &str) -> Result<regex_lite::Regex, Refusal> {
    let refused = |reason: regex_lite::Error| {
        let text = format!("SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.");
        Refusal::new(ErrorCode::InvalidRegularExpression, text)
    };
    // By itself first, so that nothing in it can close the group around it.
    regex_lite::Regex::new(regex).map_err(refused)?;
    regex_lite::Regex::new(&format!("^(?:{regex})$")).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_matches_whole_names_and_what_is_none_is_refused() {
        let matches = |regex: &str, name: &str| compile(regex).map(|regex| regex.is_match(name));
        assert_eq!(matches("orders", "orders"), Ok(true));
        assert_eq!(matches("orders", "orders-2"), Ok(false));
        assert_eq!(matches("a|orders.*", "orders-2"), Ok(true));
        assert_eq!(matches("a|orders.*", "ab"), Ok(false));
        assert_eq!(
            compile("[").map_err(|refusal| refusal.error).err(),
            Some(ErrorCode::InvalidRegularExpression)
        );
        assert_eq!(
            compile("a)|(b").map_err(|refusal| refusal.error).err(),
            Some(ErrorCode::InvalidRegularExpression)
        );
    }
}
