//! Who of a topic's subscribers gets or gives the next partition.
//!
//! Two ranges of the members, sorted by load: the least loaded one grows from the front, the most loaded one from the back.
//! Within a range all had the same load when the current lap over it began.
//!
//! **Invariant:** members at or after `most_end` have nothing to give.

pub(super) struct Balancer {
    /// By load, then by number.
    members: Vec<u32>,
    least_end: usize,
    least_load: i64,
    next_least: usize,
    most_begin: usize,
    most_end: usize,
    most_load: i64,
    /// One after the place of the next one that gives, counted from the front; 0 is nobody.
    next_most: usize,
}

impl Balancer {
    /// `sizes` is the load of each member; there is at least one subscriber.
    pub(super) fn new(subscribers: &[u32], sizes: &[u32]) -> Balancer {
        let mut members = subscribers.to_vec();
        members.sort_unstable_by_key(|member| (sizes[*member as usize], *member));
        let load = |place: usize| i64::from(sizes[members[place] as usize]);
        let (least_load, most_load, count) = (load(0) - 1, load(members.len() - 1) + 1, members.len());
        Balancer {
            least_end: 0,
            least_load,
            next_least: 0,
            most_begin: count,
            most_end: count,
            most_load,
            next_most: count,
            members,
        }
    }

    fn load(&self, place: usize, sizes: &[u32]) -> i64 {
        i64::from(sizes[self.members[place] as usize])
    }

    pub(super) fn next_least_loaded(&mut self, sizes: &[u32]) -> u32 {
        if self.next_least >= self.least_end {
            self.least_load += 1;
            while self.least_end < self.members.len() && self.load(self.least_end, sizes) == self.least_load {
                self.least_end += 1;
            }
            self.next_least = 0;
        }
        self.next_least += 1;
        self.members[self.next_least - 1]
    }

    pub(super) fn next_most_loaded(&mut self, sizes: &[u32]) -> Option<u32> {
        if self.next_most <= self.most_begin {
            if self.most_end <= self.most_begin && self.most_begin > 0 {
                // All of the range were excluded: it begins anew where the others end.
                self.most_load = self.load(self.most_begin - 1, sizes);
            } else {
                self.most_load -= 1;
            }
            while self.most_begin > 0 && self.load(self.most_begin - 1, sizes) == self.most_load {
                self.most_begin -= 1;
            }
            self.next_most = self.most_end;
        }
        self.next_most = self.next_most.checked_sub(1)?;
        Some(self.members[self.next_most])
    }

    /// The member that came last has nothing to give.
    pub(super) fn exclude_most_loaded(&mut self) {
        self.members.swap(self.next_most, self.most_end - 1);
        self.most_end -= 1;
    }

    /// Whether a move between the two ranges would not help.
    pub(super) fn is_balanced(&self) -> bool {
        self.most_load - self.least_load <= 1
    }
}
