//! A replica as a row: who it is, the tail of its log, and its offsets.

use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent};
use yew::prelude::*;

use crate::kafka::types::Offset;
use crate::ui::shared::Shared;
use crate::ui::store::{use_slice, use_store};
use crate::view::model::{Flag, FlagKind, Focus, ReplicaView, Role, Standing};
use crate::view::sentences;

/// From one cell to the next, in CSS pixels.
const STEP: i64 = 17;
const CELL_WIDTH: i64 = 15;
const CELL_TOP: i64 = 15;
const CELL_HEIGHT: i64 = 18;
/// The axis moves by this many cells at a time, so that cells mostly stand still.
const BLOCK: i64 = 4;
/// Room before the first cell for its marker, and beyond the last one for its marker and flag.
const LEFT: i64 = 2;
const RIGHT: i64 = 16;
/// Width of a letter on a flag.
const LETTER: i64 = 6;

/// How many cells fit into `width` CSS pixels.
pub fn slots(width: i32) -> u16 {
    let slots = (i64::from(width) - LEFT - RIGHT) / STEP;
    u16::try_from(slots.clamp(BLOCK + 1, 200)).unwrap_or(u16::MAX)
}

/// The part of the offset axis that a row shows.
#[derive(Clone, Copy)]
struct Axis {
    start: i64,
    slots: i64,
}

impl Axis {
    /// All replicas of a partition have the same axis, so equal offsets stand below each other.
    fn of(view: &ReplicaView, slots: u16) -> Axis {
        let slots = i64::from(slots);
        let over = view.axis_end.0 - slots;
        let start = if over <= 0 { 0 } else { (over + BLOCK - 1) / BLOCK * BLOCK };
        Axis { start, slots }
    }

    /// The left edge of an offset's cell; offsets before the axis stand at its edge.
    fn x(self, offset: Offset) -> i64 {
        LEFT + (offset.0 - self.start).clamp(0, self.slots) * STEP
    }

    fn shows(self, offset: Offset) -> bool {
        (self.start..self.start + self.slots).contains(&offset.0)
    }

    fn width(self) -> i64 {
        LEFT + self.slots * STEP + RIGHT
    }
}

#[derive(PartialEq, Properties)]
pub struct ReplicaProps {
    pub view: Shared<ReplicaView>,
    pub slots: u16,
}

#[component]
pub fn Replica(props: &ReplicaProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let chosen = {
        let (broker, tp) = (view.broker, view.tp.clone());
        use_slice(move |shown| match &shown.focus {
            Some(Focus::Replica { broker: b, tp: t }) if *b == broker && *t == tp => Some(None),
            Some(Focus::Record { broker: b, tp: t, offset }) if *b == broker && *t == tp => {
                Some(Some(*offset))
            }
            _ => None,
        })
    };
    let choose = {
        let (broker, tp) = (view.broker, view.tp.clone());
        move |target: Option<Element>| {
            let offset = target.and_then(|target| target.get_attribute("data-offset"));
            let tp = tp.clone();
            store.choose(Some(match offset.and_then(|offset| offset.parse().ok()) {
                Some(offset) => Focus::Record { broker, tp, offset: Offset(offset) },
                None => Focus::Replica { broker, tp },
            }));
        }
    };
    let onclick = {
        let choose = choose.clone();
        Callback::from(move |event: MouseEvent| {
            choose(event.target().and_then(|target| target.dyn_into().ok()));
        })
    };
    let onkeydown = Callback::from(move |event: KeyboardEvent| {
        if event.key() == "Enter" {
            choose(None);
        }
    });
    let (role, role_text) = match view.role {
        Role::Leader => ("leader", "leader"),
        Role::Follower => ("follower", "follower"),
    };
    let standing_class = match view.standing {
        Standing::InSync => "in-sync",
        Standing::OutOfSync => "out-of-sync",
        Standing::Offline => "offline",
    };
    html! {
        <div class={classes!("replica", role, standing_class, chosen.map(|_| "chosen"))} role="button" tabindex="0"
            data-replica={format!("{}/{}", view.broker, view.tp)} aria-label={sentences::replica(view)}
            aria-pressed={chosen.is_some().to_string()} {onclick} {onkeydown}>
            <div key="who" class="who">
                <b>{ view.tp.to_string() }</b>
                <span class="role">{ format!("{role_text} · e{}", view.leader_epoch) }</span>
                <span class="why">{ standing(view) }</span>
            </div>
            <div key="tail" class="tail">
                { tail(view, Axis::of(view, props.slots), chosen.flatten()) }
                <p class="offsets">
                    <span>{ format!("start {}", view.log_start) }</span>
                    <span class="hw">{ format!("HW {}", view.high_watermark) }</span>
                    <span>{ format!("LEO {}", view.log_end) }</span>
                </p>
            </div>
        </div>
    }
}

/// The in-sync set on the leader; why not in sync on a follower.
fn standing(view: &ReplicaView) -> String {
    match (&view.why_out, view.role) {
        (Some(why), _) => why.to_string(),
        (None, Role::Leader) => {
            let ids: Vec<String> = view.in_sync.iter().map(ToString::to_string).collect();
            format!("in sync {}", ids.join(", "))
        }
        (None, Role::Follower) => String::new(),
    }
}

fn tail(view: &ReplicaView, axis: Axis, chosen: Option<Offset>) -> Html {
    let (hw, leo, start) =
        (axis.x(view.high_watermark) - 1, axis.x(view.log_end) - 1, axis.x(view.log_start) - 1);
    let mark = |class: &'static str, x: i64| {
        html! { <line key={class} {class} x1={x.to_string()} x2={x.to_string()} y1={(CELL_TOP - 3).to_string()} y2={(CELL_TOP + CELL_HEIGHT + 3).to_string()} /> }
    };
    html! {
        <svg class="log" width={axis.width().to_string()} height="37" aria-hidden="true">
            <g key="cells">
                { for view.cells.iter().filter(|cell| axis.shows(cell.offset)).map(|cell| {
                    let committed = view.committed(cell.offset);
                    html! {
                        // One node an offset, so an append adds one and moves none.
                        <rect key={cell.offset.0 as u64}
                            class={classes!("cell", format!("k{}", cell.colour), (!committed).then_some("pending"),
                                (chosen == Some(cell.offset)).then_some("chosen"))}
                            x={axis.x(cell.offset).to_string()} y={CELL_TOP.to_string()} width={CELL_WIDTH.to_string()}
                            height={CELL_HEIGHT.to_string()} rx="3" data-offset={cell.offset.to_string()} />
                    }
                }) }
            </g>
            <g key="marks">
                if view.log_end.0 < axis.start {
                    <text class="far" y={(CELL_TOP + 13).to_string()}>{ format!("‹ ends {} before", axis.start - view.log_end.0) }</text>
                }
                if view.log_start.0 > axis.start {
                    { mark("log-start", start) }
                }
                if view.log_end.0 >= axis.start {
                    { mark("leo", leo) }
                    { mark("hw", hw) }
                }
            </g>
            <g key="flags">
                { for view.flags.iter().map(|each| flag(each, axis)) }
            </g>
        </svg>
    }
}

fn flag(flag: &Flag, axis: Axis) -> Html {
    let text = match flag.offset.0 < axis.start {
        true => format!("‹{}", short(&flag.owner)),
        false => short(&flag.owner),
    };
    let width = text.chars().count() as i64 * LETTER + 8;
    let x = axis.x(flag.offset) - 1;
    // A position is never before what is committed: pointing away from each other, the two never overlap.
    let (class, wants_left) = match flag.kind {
        FlagKind::Committed => ("committed", true),
        FlagKind::Position => ("position", false),
    };
    let left = if wants_left && x >= width || x + width > axis.width() { x - width } else { x };
    html! {
        <g key={format!("{class} {}", flag.owner)} class={classes!("flag", class)}>
            <line x1={x.to_string()} x2={x.to_string()} y1="1" y2={(CELL_TOP + CELL_HEIGHT).to_string()} />
            <rect x={left.to_string()} y="1" width={width.to_string()} height="11" rx="2" />
            <text x={(left + width / 2).to_string()} y="9.5">{ text }</text>
        </g>
    }
}

/// A name that fits on a flag: "consumer-a" becomes "a", "billing" becomes "bill".
fn short(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((_, last)) if (1..=3).contains(&last.chars().count()) => last.to_owned(),
        _ => name.chars().take(4).collect(),
    }
}
