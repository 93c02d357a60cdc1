//! A replica as a row: who it is, the tail of its log, and its offsets.

use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent};
use yew::prelude::*;

use crate::kafka::types::Offset;
use crate::lab::words;
use crate::ui::shared::Shared;
use crate::ui::store::{use_slice, use_store};
use crate::view::model::{Cell, CellKind, End, FlagKind, Focus, OpenView, ReplicaView, Role, Standing};
use crate::view::row::{Axis, PlacedFlag, place};
use crate::view::sentences;

const CELL_WIDTH: i64 = 15;
const CELL_TOP: i64 = 15;
const CELL_HEIGHT: i64 = 18;

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
    let whole = Focus::Replica { broker: view.broker, tp: view.tp.clone() };
    let onclick = {
        let (whole, store) = (whole.clone(), store.clone());
        let (broker, tp) = (view.broker, view.tp.clone());
        Callback::from(move |event: MouseEvent| {
            let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            let offset = target.and_then(|target| target.get_attribute("data-offset"));
            store.choose(Some(match offset.and_then(|offset| offset.parse().ok()) {
                Some(offset) => Focus::Record { broker, tp: tp.clone(), offset: Offset(offset) },
                None => whole.clone(),
            }));
        })
    };
    let onkeydown = {
        let (view, store) = (view.clone(), store.clone());
        Callback::from(move |event: KeyboardEvent| {
            let focus = match (event.key().as_str(), event.shift_key()) {
                ("Enter" | " ", _) => Some(whole.clone()),
                ("ArrowLeft", true) => record_beside(&view, chosen.flatten(), |a, b| a < b),
                ("ArrowRight", true) => record_beside(&view, chosen.flatten(), |a, b| a > b),
                _ => None,
            };
            if let Some(focus) = focus {
                event.prevent_default();
                store.choose(Some(focus));
            }
        })
    };
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
                <b title={view.tp.to_string()}>{ view.tp.to_string() }</b>
                <span class="role">{ format!("{role_text} · e{}", view.leader_epoch) }</span>
                <span class="why">{ standing(view) }</span>
                if let Some(open) = view.open.iter().find(|open| open.end == End::Nobody) {
                    <span class="hangs" title={open.standing()}>{ format!("hangs from {}", open.first) }</span>
                }
            </div>
            <div key="tail" class="tail">
                { tail(view, Axis::of(view, props.slots), chosen.flatten()) }
                <p class="offsets">
                    <span>{ format!("start {}", view.log_start) }</span>
                    if let Some(last_stable) = view.last_stable {
                        <span class="lso">{ format!("LSO {last_stable}") }</span>
                    }
                    <span class="hw">{ format!("HW {}", view.high_watermark) }</span>
                    <span>{ format!("LEO {}", view.log_end) }</span>
                </p>
            </div>
        </div>
    }
}

/// The record next to the chosen one on a side, from the newest on when none is chosen.
fn record_beside(
    view: &ReplicaView,
    chosen: Option<Offset>,
    side: fn(Offset, Offset) -> bool,
) -> Option<Focus> {
    let mut offsets = view.cells.iter().map(|cell| cell.offset);
    let offset = match chosen {
        None => offsets.next_back(),
        Some(chosen) => {
            offsets.filter(|offset| side(*offset, chosen)).min_by_key(|offset| (*offset - chosen).abs())
        }
    }?;
    Some(Focus::Record { broker: view.broker, tp: view.tp.clone(), offset })
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
                { for view.cells.iter().filter(|cell| axis.shows(cell.offset)).map(|one| {
                    cell(one, axis, view.committed(one.offset), chosen == Some(one.offset))
                }) }
            </g>
            <g key="open">
                { for view.open.iter().filter(|open| open.last.0 >= axis.start).map(|open| self::open(open, axis)) }
            </g>
            <g key="marks">
                if axis.is_beyond(view.log_end) {
                    <text class="far" y={(CELL_TOP + 13).to_string()}>{ format!("‹ {} behind", words::count(view.axis_end - view.log_end, "record")) }</text>
                }
                if view.log_start.0 > axis.start {
                    { mark("log-start", start) }
                }
                if let Some(last_stable) = view.last_stable.filter(|lso| *lso < view.high_watermark) {
                    <path key="lso" class="lso" d={format!("M{} {}v{CELL_HEIGHT}h5", axis.x(last_stable), CELL_TOP - 2)} />
                }
                if !axis.is_beyond(view.log_end) {
                    { mark("leo", leo) }
                    { mark("hw", hw) }
                }
            </g>
            <g key="flags">
                { for place(&view.flags, axis).iter().map(flag) }
            </g>
        </svg>
    }
}

/// One node an offset, so an append adds one and moves none. Those of transactions have another shape.
fn cell(view: &Cell, axis: Axis, committed: bool, chosen: bool) -> Html {
    let x = axis.x(view.offset);
    let (class, letter) = match view.kind {
        CellKind::Record | CellKind::Open => (None, None),
        CellKind::Aborted => (Some("aborted"), None),
        CellKind::Commit => (Some("control"), Some("C")),
        CellKind::Abort => (Some("control"), Some("A")),
        CellKind::Control => (Some("control"), Some("·")),
    };
    let key = view.offset.0 as u64;
    let rect = html! {
        <rect {key}
            class={classes!("cell", format!("k{}", view.colour), (!committed).then_some("pending"), chosen.then_some("chosen"), class)}
            x={x.to_string()} y={CELL_TOP.to_string()} width={CELL_WIDTH.to_string()}
            height={CELL_HEIGHT.to_string()} rx="3" data-offset={view.offset.to_string()} />
    };
    if class.is_none() {
        return rect;
    }
    let middle = CELL_TOP + CELL_HEIGHT / 2;
    html! {
        <g {key}>
            { rect }
            if let Some(letter) = letter {
                <text class="letter" x={(x + CELL_WIDTH / 2).to_string()} y={(middle + 4).to_string()}>{ letter }</text>
            } else {
                <path class="strike" d={format!("M{} {}h{}", x - 1, middle, CELL_WIDTH + 2)} />
            }
        </g>
    }
}

/// How far an open transaction reaches, below the cells.
fn open(view: &OpenView, axis: Axis) -> Html {
    let (from, to) = (axis.x(view.first), axis.x(view.last) + CELL_WIDTH);
    let class = match view.end {
        End::Expected => "open",
        End::Decided => "open decided",
        End::Unknown => "open unknown",
        End::Nobody => "open hanging",
    };
    let y = CELL_TOP + CELL_HEIGHT + 3;
    html! {
        <path key={view.first.0 as u64} {class} d={format!("M{from} {y}H{to}")} />
    }
}

fn flag(placed: &PlacedFlag<'_>) -> Html {
    let (x, left, width) = (placed.x, placed.left, placed.width);
    let class = match placed.flag.kind {
        FlagKind::Committed => "committed",
        FlagKind::Pending => "pending",
        FlagKind::Position => "position",
    };
    html! {
        <g key={format!("{class} {}", placed.flag.owner)} class={classes!("flag", class)}>
            <line x1={x.to_string()} x2={x.to_string()} y1="1" y2={(CELL_TOP + CELL_HEIGHT).to_string()} />
            <rect x={left.to_string()} y="1" width={width.to_string()} height="11" rx="2" />
            <text x={(left + width / 2).to_string()} y="9.5">{ placed.text.clone() }</text>
        </g>
    }
}
