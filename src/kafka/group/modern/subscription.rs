//! What a group subscribes to: each topic with how many members name it, and how many regular expressions do.
//!
//! Mirrors `SubscriptionCount` and `ConsumerGroup.subscriptionType`.
//!
//! **Invariant:** counts depend on the members and resolved expressions that are passed in and on nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::types::Topic;

/// What one member subscribes to.
#[derive(Clone, Copy, Debug)]
pub struct Subscribed<'a> {
    pub names: &'a BTreeSet<Topic>,
    /// Empty without one.
    pub regex: &'a str,
}

/// Whether all members subscribe to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionType {
    Homogeneous,
    Heterogeneous,
}

/// What the members subscribe to, taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions<'a> {
    members: i64,
    /// By how many members each topic is named, and by how many resolved expressions.
    topics: BTreeMap<&'a Topic, (i64, i64)>,
    /// Each expression with its members.
    regexes: BTreeMap<&'a str, i64>,
}

impl<'a> Subscriptions<'a> {
    /// `resolve` gives the topics of an expression, if that is known.
    pub fn of(
        members: impl IntoIterator<Item = Subscribed<'a>>,
        resolve: impl Fn(&str) -> Option<&'a BTreeSet<Topic>>,
    ) -> Subscriptions<'a> {
        let mut all = Subscriptions::default();
        for member in members {
            all.members += 1;
            member.names.iter().for_each(|name| all.topics.entry(name).or_default().0 += 1);
            if !member.regex.is_empty() {
                *all.regexes.entry(member.regex).or_default() += 1;
            }
        }
        for topic in all.regexes.keys().filter_map(|regex| resolve(regex)).flatten() {
            all.topics.entry(topic).or_default().1 += 1;
        }
        all
    }

    pub fn topics(&self) -> impl Iterator<Item = &'a Topic> {
        self.topics.keys().copied()
    }

    pub fn regexes(&self) -> impl Iterator<Item = &'a str> {
        self.regexes.keys().copied()
    }

    /// Without expressions: all members name all topics. With: all have the same one and name nothing.
    pub fn kind(&self) -> SubscriptionType {
        let same = match self.regexes.values().next() {
            None => self.topics.values().all(|(names, _)| *names == self.members),
            Some(count) if *count == self.members => {
                self.topics.values().all(|(names, regexes)| *names == 0 && *regexes == 1)
            }
            Some(_) => false,
        };
        if same { SubscriptionType::Homogeneous } else { SubscriptionType::Heterogeneous }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(members: &[(&[&str], &str)], expected: SubscriptionType) {
        let names: Vec<BTreeSet<Topic>> =
            members.iter().map(|(names, _)| names.iter().map(|name| Topic::new(name)).collect()).collect();
        let members = members.iter().zip(&names).map(|((_, regex), names)| Subscribed { names, regex });
        let resolved = BTreeSet::from([Topic::new("a"), Topic::new("b")]);
        let all = Subscriptions::of(members, |regex| (regex != "unresolved").then_some(&resolved));
        assert_eq!(all.kind(), expected);
    }

    #[test]
    fn members_that_subscribe_to_the_same_are_homogeneous() {
        use SubscriptionType::*;
        check(&[], Homogeneous);
        check(&[(&["a"], ""), (&["a"], "")], Homogeneous);
        check(&[(&["a", "b"], ""), (&["a"], "")], Heterogeneous);
        check(&[(&[], ".*"), (&[], ".*")], Homogeneous);
        check(&[(&[], ".*"), (&["a"], "")], Heterogeneous);
        check(&[(&["a"], ".*"), (&[], ".*")], Heterogeneous);
        check(&[(&[], ".*"), (&[], "a|b")], Heterogeneous);
        check(&[(&[], "unresolved"), (&[], "unresolved")], Homogeneous);
    }
}
