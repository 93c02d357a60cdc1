//! Two runs side by side, in place of the stage.
//!
//! - [`ask`]: what to compare with
//! - [`player`]: how the two go on

pub mod ask;
pub mod player;

use std::rc::Rc;

use yew::prelude::*;

use super::store::{use_slice, use_store};
use crate::view::compare::{CompareView, LETTERS, MemberLane, PartingView, RowView, SideView};

/// Height of a member's lane in pixels.
const LANE_PX: i32 = 20;
/// Colours of members, as many as there are of keys.
const COLOURS: usize = 8;

#[derive(PartialEq, Properties)]
pub struct CompareProps {
    pub view: Rc<CompareView>,
}

#[component]
pub fn Compare(props: &CompareProps) -> Html {
    let store = use_store();
    let view = &props.view;
    let on_close = Callback::from(move |_: MouseEvent| store.end_comparison());
    html! {
        <section class="compare" aria-label="Comparison">
            <div key="head" class="compare-head">
                <h2>{ view.what.as_ref() }</h2>
                <p>{ format!("counted from {} to {}", view.from, view.now) }</p>
                <button type="button" onclick={on_close}>{ "Back to the run" }</button>
            </div>
            <div key="sides" class="compare-sides">
                { for (0..).zip(&view.sides).map(|(index, side): (usize, _)| html! {
                    <Side key={index} letter={LETTERS[index]} side={side.clone()} />
                }) }
            </div>
            if !view.failures.is_empty() {
                <ul key="failures" class="refusal" aria-label="Commands that were not possible">
                    { for view.failures.iter().map(|text| html! { <li>{ format!("not possible in {text}") }</li> }) }
                </ul>
            }
            <Table key="table" rows={view.rows.clone()} parting={view.parting.clone()} />
        </section>
    }
}

#[derive(PartialEq, Properties)]
struct SideProps {
    letter: &'static str,
    side: SideView,
}

#[component]
fn Side(props: &SideProps) -> Html {
    let side = &props.side;
    let title = format!("{} · {}", props.letter, side.name);
    html! {
        <article class="compare-side" aria-label={title.clone()}>
            <h3 key="title">{ title.clone() }</h3>
            if side.members.is_empty() {
                <p key="lanes" class="dim">{ "No member of a group has owned a partition." }</p>
            } else {
                <ul key="lanes" class="owner-lanes">
                    { for side.members.iter().map(|lane| html! {
                        <li key={format!("{} {}", lane.group, lane.client)}>
                            <span class="owner" title={format!("{} of group {}", lane.client, lane.group)}>{ lane.client.to_string() }</span>
                            { bars(lane) }
                        </li>
                    }) }
                </ul>
            }
        </article>
    }
}

/// What a member owned over time. Nested pictures cut their texts off at their ends.
fn bars(lane: &MemberLane) -> Html {
    let said: Vec<&str> = lane.bars.iter().map(|bar| &*bar.sentence).collect();
    let said = if said.is_empty() { "nothing".to_owned() } else { said.join("; ") };
    html! {
        <svg class={format!("owner-lane k{}", lane.number % COLOURS)} height={LANE_PX.to_string()} role="img" aria-label={said}>
            { for lane.bars.iter().enumerate().map(|(index, bar)| {
                let (x, width) = (percent(bar.from), percent(bar.width));
                html! {
                    <svg key={index} {x} {width} height={LANE_PX.to_string()}>
                        <title>{ bar.sentence.as_ref() }</title>
                        <rect width="100%" height="100%" rx="3" />
                        <text x="6" y="14">{ bar.text.as_ref() }</text>
                    </svg>
                }
            }) }
        </svg>
    }
}

fn percent(thousandths: i64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

#[derive(PartialEq, Properties)]
struct TableProps {
    rows: Rc<[RowView]>,
    parting: Option<PartingView>,
}

/// What differs comes first, what does not is dim.
#[component]
fn Table(props: &TableProps) -> Html {
    let (differ, same): (Vec<&RowView>, Vec<&RowView>) =
        props.rows.iter().partition(|row| row.better.is_some());
    let class = |row: &RowView, side: usize| match row.better {
        None => "number",
        Some(better) if better == side => "number better",
        Some(_) => "number worse",
    };
    html! {
        <div class="compare-table">
            <table>
                <thead>
                    <tr><th scope="col">{ "what differs" }</th><th scope="col" class="number">{ "A" }</th><th scope="col" class="number">{ "B" }</th><th scope="col">{ "first, where they differ" }</th></tr>
                </thead>
                <tbody>
                    { for differ.into_iter().chain(same).map(|row| html! {
                        <tr key={row.name} class={row.better.is_none().then_some("dim")}>
                            <th scope="row">{ row.name }</th>
                            <td class={class(row, 0)}>{ row.texts[0].as_ref() }</td>
                            <td class={class(row, 1)}>{ row.texts[1].as_ref() }</td>
                            <td>{ row.since.as_ref() }</td>
                        </tr>
                    }) }
                    <tr key="parting" class="parting">
                        <th scope="row">{ "the stories part" }</th>
                        { parted(props.parting.as_ref()) }
                    </tr>
                </tbody>
            </table>
        </div>
    }
}

fn parted(parting: Option<&PartingView>) -> Html {
    let Some(parting) = parting else {
        return html! { <td colspan="3">{ "nowhere so far" }</td> };
    };
    let told = |side: usize| match &*parting.sentences[side] {
        "" => "nothing".to_owned(),
        sentence => sentence.to_owned(),
    };
    html! {
        <>
            <td key="time" colspan="2" class="number">{ parting.time.to_string() }</td>
            <td key="told">{ format!("A: {} · B: {}", told(0), told(1)) }</td>
        </>
    }
}

/// The comparison, if there is one.
#[hook]
pub fn use_comparison() -> Option<Rc<CompareView>> {
    use_slice(|shown| shown.compare.clone())
}
