//! Java's hashes, and the order in which Java walks a `HashMap`: Kafka settles some of its choices by them.
//!
//! **Invariant:** an order depends on the keys, on when each came, and on how many there were at most.

use std::cmp::Reverse;

/// The slots of a map that was made without a size.
pub const SLOTS: u32 = 16;

/// Java's `String.hashCode`: 31-polynomial over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The slots of a map that had `slots` and now holds `count` keys: more than before if it is three quarters full. It
/// never shrinks.
pub fn grown(slots: u32, count: usize) -> u32 {
    if count * 4 > slots as usize * 3 { slots * 2 } else { slots }
}

/// Where a key stands among `slots`, a power of two. Within a slot the oldest comes first.
pub fn slot(hash: i32, slots: u32) -> u32 {
    (hash as u32 ^ hash as u32 >> 16) & (slots - 1)
}

/// The items in the order in which a map would be walked that was made without a size and got them one by one.
pub fn in_order<T>(mut items: Vec<T>, key: impl Fn(&T) -> &str) -> Vec<T> {
    let slots = (1..=items.len()).fold(SLOTS, grown);
    items.sort_by_key(|item| slot(java_hash(key(item)), slots));
    items
}

/// The name with the most votes; of several, the one that a new map of the names has first.
pub fn most_voted<'a>(votes: impl Iterator<Item = (&'a str, i64)>) -> Option<&'a str> {
    votes.min_by_key(|(name, count)| (Reverse(*count), slot(java_hash(name), SLOTS))).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_walked_by_their_slots_which_grow_with_them() {
        let names = ["range", "cooperative-sticky", "roundrobin", "sticky"];
        let walked = in_order(names.to_vec(), |name| name);
        assert_eq!(walked, ["sticky", "range", "roundrobin", "cooperative-sticky"]);
        // One letter each: with 13 the map has 32 slots and walks them by their codes modulo 32, not 16.
        let letters: Vec<String> = ('J'..='V').map(String::from).collect();
        let walked = in_order(letters, |letter| letter).concat();
        assert_eq!(walked, "JKLMNOPQRSTUV");
        let walked = in_order(["P", "O", "Q"].to_vec(), |letter| letter).concat();
        assert_eq!(walked, "PQO");
    }

    /// R-GRP-16.
    #[test]
    fn a_tie_of_votes_goes_to_the_name_that_java_walks_first() {
        let check = |votes: &[(&str, i64)], most| assert_eq!(most_voted(votes.iter().copied()), most);
        check(&[], None);
        check(&[("sticky", 1), ("range", 2)], Some("range"));
        // The four of Kafka's clients, as a map of them is walked.
        for pair in ["sticky", "range", "roundrobin", "cooperative-sticky"].windows(2) {
            check(&[(pair[1], 3), (pair[0], 3)], Some(pair[0]));
        }
    }
}
