//! Where the cells and flags of a replica's row stand: plain geometry, in CSS pixels.
//!
//! **Invariant:** all replicas of a partition have the same axis, so equal offsets stand below each other.

use crate::kafka::types::Offset;
use crate::view::model::{Flag, FlagKind, ReplicaView};

/// From one cell to the next.
pub const STEP: i64 = 17;
/// The axis moves by this many cells at a time, so that cells mostly stand still.
const BLOCK: i64 = 4;
/// Room before the first cell for its marker, and beyond the last one for its marker and flag.
const LEFT: i64 = 2;
const RIGHT: i64 = 16;
/// Width of a letter on a flag.
const LETTER: i64 = 6;

/// How many cells fit into `width`.
pub fn slots(width: i32) -> u16 {
    let slots = (i64::from(width) - LEFT - RIGHT) / STEP;
    u16::try_from(slots.clamp(BLOCK + 1, 200)).unwrap_or(u16::MAX)
}

/// The part of the offset axis that a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub start: i64,
    slots: i64,
}

impl Axis {
    pub fn of(view: &ReplicaView, slots: u16) -> Axis {
        let slots = i64::from(slots);
        let over = view.axis_end.0 - slots;
        let start = if over <= 0 { 0 } else { (over + BLOCK - 1) / BLOCK * BLOCK };
        Axis { start, slots }
    }

    /// The left edge of an offset's cell; offsets before the axis stand at its edge.
    pub fn x(self, offset: Offset) -> i64 {
        LEFT + (offset.0 - self.start).clamp(0, self.slots) * STEP
    }

    /// Whether a log that ends there has nothing on the axis although others have.
    pub fn is_beyond(self, log_end: Offset) -> bool {
        self.start > 0 && log_end.0 <= self.start
    }

    pub fn shows(self, offset: Offset) -> bool {
        (self.start..self.start + self.slots).contains(&offset.0)
    }

    pub fn width(self) -> i64 {
        LEFT + self.slots * STEP + RIGHT
    }
}

/// A flag's pole at `x`, and its cloth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFlag<'a> {
    pub flag: &'a Flag,
    pub x: i64,
    pub left: i64,
    pub width: i64,
    pub text: String,
}

/// Committed offsets point to the left where there is room and positions to the right: a position is never before what
/// is committed. A cloth that would cover the one before it stands beside it.
pub fn place(flags: &[Flag], axis: Axis) -> Vec<PlacedFlag<'_>> {
    let mut sorted: Vec<&Flag> = flags.iter().collect();
    sorted.sort_by_key(|flag| (flag.offset, flag.kind));
    let mut free_from = 0;
    let place = |flag| {
        let mut placed = cloth(flag, axis);
        let wants_left = flag.kind == FlagKind::Committed && placed.x - placed.width >= free_from;
        placed.left = if wants_left { placed.x - placed.width } else { placed.x.max(free_from) };
        free_from = placed.left + placed.width;
        placed
    };
    let mut placed: Vec<PlacedFlag<'_>> = sorted.into_iter().map(place).collect();
    // What reaches beyond the right end moves back, and pushes what stands before it.
    let mut free_to = axis.width();
    for flag in placed.iter_mut().rev() {
        flag.left = flag.left.min(free_to - flag.width).max(0);
        free_to = flag.left;
    }
    placed
}

fn cloth(flag: &Flag, axis: Axis) -> PlacedFlag<'_> {
    let before = if flag.offset.0 < axis.start { "‹" } else { "" };
    let text = format!("{before}{}", short(&flag.owner));
    let width = text.chars().count() as i64 * LETTER + 8;
    let x = axis.x(flag.offset) - 1;
    PlacedFlag { flag, x, left: x, width, text }
}

/// A name that fits on a flag: "consumer-a" becomes "a", "billing" becomes "bill".
fn short(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((_, last)) if (1..=3).contains(&last.chars().count()) => last.to_owned(),
        _ => name.chars().take(4).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    const AXIS: Axis = Axis { start: 40, slots: 8 };

    fn committed(owner: &str, offset: i64) -> Flag {
        Flag { kind: FlagKind::Committed, offset: Offset(offset), owner: Rc::from(owner) }
    }

    fn position(owner: &str, offset: i64) -> Flag {
        Flag { kind: FlagKind::Position, ..committed(owner, offset) }
    }

    /// Each flag's text with the left and right edge of its cloth.
    fn check(flags: &[Flag], expected: &str) {
        let placed = place(flags, AXIS);
        let text: Vec<String> = placed
            .iter()
            .map(|each| format!("{} {}..{}", each.text, each.left, each.left + each.width))
            .collect();
        assert_eq!(text.join(", "), expected);
        assert!(placed.windows(2).all(|pair| pair[0].left + pair[0].width <= pair[1].left), "they overlap");
        assert!(
            placed.iter().all(|each| (0..=AXIS.width() - each.width).contains(&each.left)),
            "one is outside"
        );
    }

    #[test]
    fn a_commit_points_left_and_a_position_right() {
        check(&[position("consumer-a", 44), committed("billing", 44)], "bill 37..69, a 69..83");
    }

    #[test]
    fn flags_before_the_axis_stand_side_by_side_at_its_edge() {
        check(&[committed("billing", 2), position("consumer-a", 9)], "‹bill 1..39, ‹a 39..59");
    }

    #[test]
    fn many_groups_on_one_offset_do_not_cover_each_other() {
        let flags =
            [committed("billing", 46), committed("audit", 46), position("consumer-a", 46), position("b", 48)];
        check(&flags, "bill 62..94, audi 94..126, a 126..140, b 140..154");
    }

    #[test]
    fn a_flag_at_the_right_end_stays_inside() {
        check(&[position("fraud", 48)], "frau 122..154");
    }

    #[test]
    fn a_log_that_ends_before_the_axis_has_nothing_on_it() {
        assert_eq!([39, 40, 41].map(|end| AXIS.is_beyond(Offset(end))), [true, true, false]);
        assert!(!Axis { start: 0, ..AXIS }.is_beyond(Offset::ZERO), "an empty log is not behind");
    }

    #[test]
    fn a_narrow_row_still_has_its_smallest_axis() {
        assert_eq!([0, 153, 154, 10_000].map(slots), [5, 7, 8, 200]);
    }
}
