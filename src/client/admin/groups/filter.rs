//! Which groups `--list` is to tell of (`ConsumerGroupCommand.listConsumerGroups`; R-CLI-4).
//!
//! **Invariant:** a filter names only kinds and states that there are.

/// What a group can be (`GroupType`).
pub const GROUP_TYPES: [&str; 3] = ["classic", "consumer", "share"];

/// Which state it can be in (`GroupState`, with Kafka's names).
pub const GROUP_STATES: [&str; 7] =
    ["Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead"];

/// `--type` and `--state`; what is empty lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    pub types: Vec<&'static str>,
    pub states: Vec<&'static str>,
}
