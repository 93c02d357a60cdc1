//! Where links run between the cards of the stage: plain geometry.
//!
//! **Invariant:** a link leaves and enters at a card's edge, in one bend; what stands between, it passes behind
//! ([`super::flights`]).

/// A card's place, in CSS pixels of the scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    /// Whether this stands wholly above the other.
    pub fn above(self, other: Frame) -> bool {
        self.bottom() <= other.y
    }

    fn centre(self) -> f64 {
        self.x + self.width / 2.0
    }

    fn bottom(self) -> f64 {
        self.y + self.height
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// A cubic Bézier curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve(pub [Point; 4]);

impl Curve {
    /// The point at `part` of the way, from 0 to 1.
    pub fn at(&self, part: f64) -> Point {
        let [a, b, c, d] = self.0;
        let rest = 1.0 - part;
        let weights =
            [rest * rest * rest, 3.0 * rest * rest * part, 3.0 * rest * part * part, part * part * part];
        let mix = |value: fn(Point) -> f64| {
            weights.iter().zip([a, b, c, d]).map(|(weight, point)| weight * value(point)).sum()
        };
        Point { x: mix(|point| point.x), y: mix(|point| point.y) }
    }
}

/// Between two cards: from edge to edge when one stands above the other, in an arc over both when they stand side by
/// side.
pub fn between_cards(from: Frame, to: Frame) -> Curve {
    let (x0, x1) = (from.centre(), to.centre());
    if from.above(to) {
        vertical(x0, from.bottom(), x1, to.y)
    } else if to.above(from) {
        vertical(x0, from.y, x1, to.bottom())
    } else {
        hanging(x0, from.y, x1, to.y, -22.0)
    }
}

/// Between two cards of a page with one column: through its left margin, past what stands between them.
pub fn through_margin(from: Frame, to: Frame) -> Curve {
    let head = |frame: Frame| frame.y + frame.height.min(40.0) / 2.0;
    let margin = from.x.min(to.x) - 18.0;
    curve((from.x, head(from)), (margin, head(from)), (margin, head(to)), (to.x, head(to)))
}

/// Between two replicas of a partition on brokers side by side: in the gap below their rows, from tail to tail.
pub fn between_rows(from: Frame, to: Frame) -> Curve {
    let tail = |frame: Frame| frame.x + frame.width * 0.66;
    hanging(tail(from), from.bottom(), tail(to), to.bottom(), 7.0)
}

fn vertical(x0: f64, y0: f64, x1: f64, y1: f64) -> Curve {
    let bend = (y1 - y0) * 0.55;
    curve((x0, y0), (x0, y0 + bend), (x1, y1 - bend), (x1, y1))
}

fn hanging(x0: f64, y0: f64, x1: f64, y1: f64, depth: f64) -> Curve {
    let inward = (x1 - x0) * 0.1;
    curve((x0, y0), (x0 + inward, y0 + depth), (x1 - inward, y1 + depth), (x1, y1))
}

fn curve(a: (f64, f64), b: (f64, f64), c: (f64, f64), d: (f64, f64)) -> Curve {
    Curve([a, b, c, d].map(|(x, y)| Point { x, y }))
}
