//! Groups that nobody rebalances.
//!
//! When the last member of the newer protocol has gone, a coordinator turns its group into a classic one and writes that
//! down; the rebalance that is to share out what the member had it only prepares in memory
//! (`GroupMetadataManager.convertToClassicGroup`, `prepareRebalance`). A coordinator that takes over before finds a stable
//! group without that member, and rebalances only a group that has become too large (`onLoaded`). Kafka, too, waits for
//! somebody who comes or goes.
//!
//! **Invariant:** a group is among them only until its members have a plan again.

use std::collections::BTreeSet;

use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::types::GroupId;

#[derive(Default)]
pub struct Stranded {
    /// They have been turned into classic ones, and no plan came since.
    awaited: BTreeSet<GroupId>,
    /// Those of which another coordinator has taken over.
    groups: BTreeSet<GroupId>,
}

impl Stranded {
    pub fn groups(&self) -> &BTreeSet<GroupId> {
        &self.groups
    }

    pub fn hear(&mut self, event: &Event) {
        let Event::Group(event) = event else { return };
        match event {
            GroupEvent::GroupConverted { group, classic: true } => drop(self.awaited.insert(group.clone())),
            GroupEvent::CoordinatorLoaded { groups, .. } => {
                self.groups.extend(groups.iter().filter(|group| self.awaited.contains(group)).cloned());
            }
            GroupEvent::AssignmentStored { group, .. } | GroupEvent::GroupConverted { group, .. } => {
                self.awaited.remove(group);
                self.groups.remove(group);
            }
            _ => {}
        }
    }
}
