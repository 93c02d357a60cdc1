//! Range on the server (R-CG8-22, `assignor.RangeAssignor`): not sticky, without racks.
//!
//! **Invariant:** per topic, members that subscribe get consecutive ranges, the first ones one longer.

use super::{Assigned, Building, GroupSpec};

/// Where the next range of a topic begins.
#[derive(Clone, Copy)]
struct Topic {
    partitions: i32,
    next: i32,
    quota: i32,
    extras: i32,
}

impl Topic {
    /// How much the next member gets.
    fn cut(&mut self) -> std::ops::Range<i32> {
        let size = self.quota + i32::from(self.extras > 0);
        self.extras -= i32::from(self.extras > 0);
        let begin = self.next;
        self.next = self.partitions.min(begin + size);
        begin..self.next
    }
}

pub(super) fn assign(spec: &GroupSpec<'_>) -> Vec<Assigned> {
    let mut topics = topics(spec);
    let mut order: Vec<u32> = (0..spec.members.len() as u32).collect();
    let key = |place: &u32| {
        let member = &spec.members[*place as usize];
        (member.instance_id.is_none(), member.instance_id, member.instance_id.is_none().then_some(member.id))
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut assigned = vec![Assigned::default(); spec.members.len()];
    // In a homogeneous group a member that gets nothing of any topic is the last that gets anything.
    let mut left: i64 = topics.iter().map(|topic| i64::from(topic.partitions)).sum();
    let mut building = Building::default();
    for place in order {
        if left == 0 {
            break;
        }
        for topic in spec.members[place as usize].topics {
            building.partitions.extend(topics[*topic as usize].cut());
            building.end_topic(spec.topics[*topic as usize].0);
        }
        left -= building.partitions.len() as i64;
        assigned[place as usize] = building.finish();
    }
    assigned
}

fn topics(spec: &GroupSpec<'_>) -> Vec<Topic> {
    let mut members = vec![0; spec.topics.len()];
    if spec.homogeneous {
        let all = spec.members.len() as i32;
        spec.members[0].topics.iter().for_each(|topic| members[*topic as usize] = all);
    } else {
        let subscribed = spec.members.iter().flat_map(|member| member.topics);
        subscribed.for_each(|topic| members[*topic as usize] += 1);
    }
    let topic = |((_, partitions), members): (&(_, i32), i32)| {
        // A topic without subscribers is never cut.
        let members = members.max(1);
        let (quota, extras) = (partitions / members, partitions % members);
        Topic { partitions: *partitions, next: 0, quota, extras }
    };
    spec.topics.iter().zip(members).map(topic).collect()
}
