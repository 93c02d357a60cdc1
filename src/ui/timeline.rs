//! The timeline: a slider over all that was ever run of this branch, its marks, its branches.

use std::fmt::Write;
use std::rc::Rc;

use web_sys::{HtmlInputElement, HtmlSelectElement};
use yew::prelude::*;

use super::store::{use_slice, use_store};
use super::widget::button::IconButton;
use super::widget::icon::Icon;
use crate::kafka::time::Time;
use crate::lab::history::{BranchId, MarkKind};
use crate::lab::words::count;
use crate::view::timeline::{self, Lane};

/// Height of a lane in the strip's own units; its width is the axis in milliseconds.
const LANE: usize = 10;

#[derive(PartialEq, Properties)]
pub struct TimelineProps {
    pub on_compare: Callback<()>,
}

#[component]
pub fn Timeline(props: &TimelineProps) -> Html {
    let store = use_store();
    let shown = use_slice(|shown| shown.timeline.clone());
    let oninput = use_callback(store.clone(), |event: InputEvent, store| {
        let input: HtmlInputElement = event.target_unchecked_into();
        store.seek(Time::from_ms(input.value_as_number() as i64));
    });
    let on_end = {
        let (store, end) = (store.clone(), shown.end);
        Callback::from(move |_: MouseEvent| store.seek(end))
    };
    html! {
        <section class="timeline" aria-label="Timeline">
            <Marks key="marks" />
            <div key="scrub" class="scrub">
                <Lanes key="lanes" lanes={shown.lanes.clone()} axis_ms={shown.axis_ms} />
                <input key="slider" type="range" min="0" max={shown.axis_ms.to_string()} step="1"
                    value={shown.now.ms().to_string()} aria-label="Moment of the run" aria-valuetext={shown.sentence()}
                    {oninput} />
                <p key="ends" class="ends">
                    <span>{ "0" }</span>
                    <span>{ shown.sentence() }</span>
                    <span>{ Time::from_ms(shown.axis_ms).to_string() }</span>
                </p>
            </div>
            <div key="branches" class="branches">
                <Branches key="list" />
                <button key="end" type="button" class="to-end" disabled={!shown.is_in_the_past()} onclick={on_end}>
                    { "To the end" }
                </button>
                <button key="compare" type="button" onclick={props.on_compare.reform(|_| ())}>{ "Compare" }</button>
            </div>
        </section>
    }
}

/// To the mark before and after, of all kinds or of one.
#[component]
fn Marks() -> Html {
    let store = use_store();
    let kind = use_state_eq(|| None::<MarkKind>);
    let onchange = use_callback(kind.setter(), |event: Event, kind| {
        let select: HtmlSelectElement = event.target_unchecked_into();
        kind.set(MarkKind::ALL.into_iter().find(|kind| timeline::name(*kind) == select.value()));
    });
    let go = |after: bool| {
        let (store, kind) = (store.clone(), *kind);
        Callback::from(move |()| store.go_to_mark(after, kind))
    };
    html! {
        <div class="marks" role="group" aria-label="Marks">
            <IconButton key="before" icon={Icon::MarkBefore} name="To the mark before ([)" onclick={go(false)} />
            <select key="kind" aria-label="Which marks" {onchange}>
                <option key="all" value="" selected={kind.is_none()}>{ "all marks" }</option>
                { for MarkKind::ALL.into_iter().map(|of| {
                    let name = timeline::name(of);
                    html! { <option key={name} value={name} selected={*kind == Some(of)}>{ name }</option> }
                }) }
            </select>
            <IconButton key="after" icon={Icon::MarkAfter} name="To the mark after (])" onclick={go(true)} />
        </div>
    }
}

#[derive(PartialEq, Properties)]
struct LanesProps {
    lanes: Rc<[Rc<Lane>]>,
    axis_ms: i64,
}

/// The marks, a lane for each kind.
#[component]
fn Lanes(props: &LanesProps) -> Html {
    html! {
        <ul class="lanes" aria-label="Marks so far">
            { for props.lanes.iter().map(|lane| html! {
                <li key={lane.name}>
                    <span class="lane-name">{ lane.name }</span>
                    <svg viewBox={format!("0 0 {} {LANE}", props.axis_ms)} preserveAspectRatio="none" role="img"
                        aria-label={format!("{} {}", lane.at_ms.len(), lane.name)}>
                        <path class={format!("mark mark-{}", lane.name)} d={path(&lane.at_ms)} vector-effect="non-scaling-stroke" />
                    </svg>
                </li>
            }) }
        </ul>
    }
}

fn path(at_ms: &[i64]) -> String {
    at_ms.iter().fold(String::new(), |mut path, ms| {
        // Writing to a string cannot fail.
        let _ = write!(path, "M{ms} 1v{}", LANE - 2);
        path
    })
}

/// Which branch is shown, and what it is called.
#[component]
fn Branches() -> Html {
    let store = use_store();
    let shown = use_slice(|shown| (shown.timeline.branches.clone(), shown.timeline.current));
    let (branches, current) = shown;
    let onchange = use_callback(store.clone(), |event: Event, store| {
        let select: HtmlSelectElement = event.target_unchecked_into();
        if let Ok(index) = usize::try_from(select.selected_index()) {
            store.switch(BranchId(index));
        }
    });
    let on_rename = use_callback(store, move |event: Event, store| {
        let input: HtmlInputElement = event.target_unchecked_into();
        if !input.value().trim().is_empty() {
            store.rename(BranchId(current), input.value().trim());
        }
    });
    if branches.len() == 1 {
        return html! { <p class="dim">{ "A command given in the past begins a branch; this future is kept." }</p> };
    }
    let name = branches.get(current).map_or(Rc::from(""), |branch| branch.name.clone());
    html! {
        <div class="branch">
            <label key="which">
                <span>{ count(branches.len() as i64, "branch") }</span>
                <select aria-label="Branch" {onchange}>
                    { for branches.iter().enumerate().map(|(index, branch)| html! {
                        <option key={index} selected={index == current}>
                            { match &branch.origin {
                                Some(origin) => format!("{}, {origin}, to {}", branch.name, branch.end),
                                None => format!("{}, to {}", branch.name, branch.end),
                            } }
                        </option>
                    }) }
                </select>
            </label>
            <label key="name"><span>{ "name" }</span>
                <input type="text" aria-label="Name of this branch" maxlength="80" value={name.to_string()} onchange={on_rename} />
            </label>
        </div>
    }
}
