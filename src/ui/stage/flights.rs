//! Links and what flies on them: one canvas over the stage, painted at each frame.
//!
//! Links pass behind what stands in their way: they are never drawn over text.
//!
//! **Invariant:** a dot's place is a function of its flight's times and the virtual clock alone.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, Element, HtmlCanvasElement, Window};
use yew::prelude::*;

use super::anchor;
use super::paths::{Curve, Frame, between_cards, between_rows, through_margin};
use crate::kafka::time::Time;
use crate::kafka::types::NodeId;
use crate::lab::words;
use crate::ui::store::Shown;
use crate::view::links;
use crate::view::model::{Flight, FlightKind, Model};

const CANVAS_ID: &str = "flights";
/// A scene narrower than this has one column of cards.
const ONE_COLUMN: f64 = 745.0;
/// Cards, and what stands in a group beside them.
const TEXTS: &str = "[data-node], .group-head > *, .shared";
/// Of more links than these only the busy ones are drawn.
const MOST_LINKS: usize = 24;

#[component]
pub fn Flights() -> Html {
    html! { <canvas id={CANVAS_ID} class="flights" aria-hidden="true"></canvas> }
}

/// The theme's colours as the canvas needs them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Palette {
    theme: String,
    back: String,
    text: String,
    dim: String,
    accent: String,
    good: String,
    warning: String,
    keys: [String; 8],
}

impl Palette {
    fn read(window: &Window, root: &Element, theme: String) -> Option<Palette> {
        let style = window.get_computed_style(root).ok()??;
        let colour = |name: &str| style.get_property_value(name).unwrap_or_default().trim().to_owned();
        Some(Palette {
            theme,
            back: colour("--bg"),
            text: colour("--text"),
            dim: colour("--dim"),
            accent: colour("--accent"),
            good: colour("--good"),
            warning: colour("--warn"),
            keys: std::array::from_fn(|index| colour(&format!("--k{index}"))),
        })
    }

    fn key(&self, colour: Option<u8>) -> &str {
        colour.and_then(|colour| self.keys.get(usize::from(colour))).unwrap_or(&self.accent)
    }
}

/// Paints the canvas; keeps what is expensive to ask for.
#[derive(Default)]
pub struct Painter {
    palette: Palette,
}

impl Painter {
    pub fn paint(&mut self, shown: &Shown, now: Time) {
        // Without a window, a canvas or a context there is nothing to paint on.
        let _ = self.try_paint(shown, now);
    }

    fn try_paint(&mut self, shown: &Shown, now: Time) -> Option<()> {
        let window = web_sys::window()?;
        let document = window.document()?;
        let root = document.document_element()?;
        let theme = root.get_attribute("data-theme").unwrap_or_default();
        if self.palette.theme != theme || self.palette.back.is_empty() {
            self.palette = Palette::read(&window, &root, theme)?;
        }
        let canvas: HtmlCanvasElement = document.get_element_by_id(CANVAS_ID)?.dyn_into().ok()?;
        let scene = Scene::of(&canvas)?;
        let pen: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.dyn_into().ok()?;
        let ratio = window.device_pixel_ratio();
        let (width, height) = ((scene.width * ratio) as u32, (scene.height * ratio) as u32);
        if (canvas.width(), canvas.height()) != (width, height) {
            canvas.set_width(width);
            canvas.set_height(height);
        }
        // The matrix of a scale is always invertible.
        let _ = pen.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
        pen.clear_rect(0.0, 0.0, scene.width, scene.height);
        let still = window
            .match_media("(prefers-reduced-motion: reduce)")
            .ok()
            .flatten()
            .is_some_and(|query| query.matches());
        let easel = Easel { pen: &pen, palette: &self.palette, scene: &scene };
        easel.links(&shown.model);
        let moving = shown.shows_flights && !still;
        let flights = shown.model.flights.iter().filter(|_| moving);
        let (behind, before): (Vec<&Flight>, Vec<&Flight>) =
            flights.partition(|flight| scene.is_behind(flight));
        behind.into_iter().for_each(|flight| easel.dot(flight, now));
        easel.uncover();
        before.into_iter().for_each(|flight| easel.dot(flight, now));
        if still {
            easel.counts(&shown.model.flights);
        }
        Some(())
    }
}

/// The cards' places, asked for once a frame at most.
struct Scene {
    region: Element,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    frames: RefCell<BTreeMap<String, Option<Frame>>>,
}

impl Scene {
    fn of(canvas: &HtmlCanvasElement) -> Option<Scene> {
        let place = canvas.get_bounding_client_rect();
        Some(Scene {
            region: canvas.parent_element()?,
            left: place.left(),
            top: place.top(),
            width: place.width(),
            height: place.height(),
            frames: RefCell::default(),
        })
    }

    fn frame(&self, selector: String) -> Option<Frame> {
        if let Some(known) = self.frames.borrow().get(&selector) {
            return *known;
        }
        let element = self.region.query_selector(&selector).ok().flatten();
        let frame = element.map(|element| self.place(&element));
        self.frames.borrow_mut().insert(selector, frame);
        frame
    }

    fn place(&self, element: &Element) -> Frame {
        let place = element.get_bounding_client_rect();
        Frame {
            x: place.left() - self.left,
            y: place.top() - self.top,
            width: place.width(),
            height: place.height(),
        }
    }

    /// The frames of everything that links may not cover.
    fn texts(&self) -> Vec<Frame> {
        let Ok(found) = self.region.query_selector_all(TEXTS) else { return Vec::new() };
        let element = |index| found.item(index)?.dyn_into::<Element>().ok();
        (0..found.length()).filter_map(element).map(|element| self.place(&element)).collect()
    }

    fn card(&self, node: NodeId) -> Option<Frame> {
        self.frame(format!("[data-node=\"{}\"]", anchor(node)))
    }

    fn between(&self, from: NodeId, to: NodeId) -> Option<Curve> {
        let (from, to) = (self.card(from)?, self.card(to)?);
        Some(if self.width < ONE_COLUMN { through_margin(from, to) } else { between_cards(from, to) })
    }

    fn curve(&self, flight: &Flight) -> Option<Curve> {
        self.along_rows(flight).or_else(|| self.between(flight.from, flight.to))
    }

    /// The way from replica to replica, on brokers side by side.
    fn along_rows(&self, flight: &Flight) -> Option<Curve> {
        let (NodeId::Broker(from), NodeId::Broker(to), Some(tp)) = (flight.from, flight.to, &flight.tp)
        else {
            return None;
        };
        let row = |broker| self.frame(format!("[data-replica=\"{broker}/{tp}\"]"));
        let (from, to) = (row(from)?, row(to)?);
        (!from.above(to) && !to.above(from)).then(|| between_rows(from, to))
    }

    /// What is only routine passes behind the cards, as links do.
    fn is_behind(&self, flight: &Flight) -> bool {
        flight.kind == FlightKind::Background && self.along_rows(flight).is_none()
    }
}

struct Easel<'a> {
    pen: &'a CanvasRenderingContext2d,
    palette: &'a Palette,
    scene: &'a Scene,
}

impl Easel<'_> {
    /// A faint line for each pair that records pass between, a clear one while they do.
    fn links(&self, model: &Model) {
        let busy = |client: NodeId, broker: NodeId| {
            model.flights.iter().any(|flight| {
                flight.kind == FlightKind::Records
                    && [(flight.from, flight.to), (flight.to, flight.from)].contains(&(client, broker))
            })
        };
        let pairs = links::pairs(model);
        let crowded = pairs.len() > MOST_LINKS;
        for (client, broker) in pairs {
            let busy = busy(client, broker);
            if crowded && !busy {
                continue;
            }
            let Some(Curve([a, b, c, d])) = self.scene.between(client, broker) else { continue };
            self.pen.set_global_alpha(if busy && !crowded { 0.55 } else { 0.2 });
            self.pen.set_stroke_style_str(&self.palette.accent);
            self.pen.set_line_width(1.5);
            self.pen.begin_path();
            self.pen.move_to(a.x, a.y);
            self.pen.bezier_curve_to(b.x, b.y, c.x, c.y, d.x, d.y);
            self.pen.stroke();
        }
        self.pen.set_global_alpha(1.0);
    }

    /// Takes away what links have drawn over cards and heads of groups.
    fn uncover(&self) {
        for Frame { x, y, width, height } in self.scene.texts() {
            self.pen.clear_rect(x, y, width, height);
        }
    }

    fn dot(&self, flight: &Flight, now: Time) {
        let whole_us = (flight.arrives_at - flight.sent_at).max(1);
        let part = ((now - flight.sent_at) as f64 / whole_us as f64).clamp(0.0, 1.0);
        let Some(curve) = self.scene.curve(flight) else { return };
        let at = curve.at(part);
        let palette = self.palette;
        let (radius, colour, label) = match flight.kind {
            FlightKind::Records => {
                (5.0 + (flight.records.clamp(1, 9) - 1) as f64 * 0.4, palette.key(flight.colour), None)
            }
            FlightKind::Confirmation => (3.0, palette.good.as_str(), None),
            FlightKind::Commit => (3.5, palette.accent.as_str(), None),
            FlightKind::Group => (4.5, palette.accent.as_str(), Some(flight.label)),
            FlightKind::Control => (4.5, palette.warning.as_str(), Some(flight.label)),
            FlightKind::Background => (2.0, palette.dim.as_str(), None),
        };
        self.pen.set_global_alpha(if flight.kind == FlightKind::Background { 0.6 } else { 1.0 });
        self.pen.begin_path();
        // A radius is never negative here.
        let _ = self.pen.arc(at.x, at.y, radius, 0.0, std::f64::consts::TAU);
        self.pen.set_fill_style_str(colour);
        self.pen.fill();
        if radius > 2.5 {
            self.pen.set_line_width(2.0);
            self.pen.set_stroke_style_str(&palette.back);
            self.pen.stroke();
        }
        if let Some(label) = label {
            self.label(label, at.x + 9.0, at.y);
        }
        self.pen.set_global_alpha(1.0);
    }

    fn label(&self, text: &str, x: f64, y: f64) {
        self.pen.set_font("11px system-ui, sans-serif");
        self.pen.set_text_baseline("middle");
        self.pen.set_line_join("round");
        self.pen.set_line_width(4.0);
        self.pen.set_stroke_style_str(&self.palette.back);
        self.pen.set_fill_style_str(&self.palette.text);
        // Text fails to draw only at a place that is no number.
        let _ = self.pen.stroke_text(text, x, y);
        let _ = self.pen.fill_text(text, x, y);
    }

    /// Instead of dots: how many batches are on each link.
    fn counts(&self, flights: &[Flight]) {
        let mut batches: BTreeMap<(NodeId, NodeId), i64> = BTreeMap::new();
        for flight in flights.iter().filter(|flight| flight.kind == FlightKind::Records) {
            *batches.entry((flight.from, flight.to)).or_default() += 1;
        }
        for ((from, to), count) in batches {
            let Some(curve) = self.scene.between(from, to) else { continue };
            let at = curve.at(0.5);
            self.label(&words::count(count, "batch"), at.x + 6.0, at.y);
        }
    }
}
