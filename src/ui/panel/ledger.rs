//! What became of all records, in numbers; a number leads to the story of a record that is counted in it.

use std::cell::RefCell;
use std::rc::Rc;

use gloo_timers::callback::Interval;
use yew::prelude::*;

use super::events::tone;
use crate::ui::shared::Shared;
use crate::ui::store::use_store;
use crate::view::ledger::{CountView, LedgerView, TableView};
use crate::view::model::Focus;

/// To count is to look at every record: not for each frame.
const EVERY_MS: u32 = 500;
/// Of more partitions than these the totals alone are shown.
const MOST_COLUMNS: usize = 4;

#[component]
pub fn Ledger() -> Html {
    let store = use_store();
    let shown = use_state_eq(|| Shared::new(&store.ledger(None)));
    use_effect_with(store, {
        let shown = shown.setter();
        move |store| {
            let store = store.clone();
            let before: RefCell<Option<Rc<LedgerView>>> = RefCell::default();
            let interval = Interval::new(EVERY_MS, move || {
                let view = store.ledger(before.borrow().as_ref());
                shown.set(Shared::new(&view));
                before.replace(Some(view));
            });
            move || drop(interval)
        }
    });
    html! {
        <div class="ledger">
            <p key="lead" class="dim">
                { "What became of every record, told from outside of the cluster. A name opens the story of the first record that it counts." }
            </p>
            { for shown.records.iter().chain(shown.groups.iter()).map(|table| html! {
                <Table key={table.title.to_string()} view={Shared::new(table)} />
            }) }
            { for shown.notes.iter().map(|note| html! { <p class="dim">{ note.as_ref() }</p> }) }
        </div>
    }
}

#[derive(PartialEq, Properties)]
struct TableProps {
    view: Shared<TableView>,
}

#[component]
fn Table(props: &TableProps) -> Html {
    let view = &props.view;
    let shows_each = (2..=MOST_COLUMNS).contains(&view.partitions.len());
    let (some, none): (Vec<&CountView>, Vec<&CountView>) = view.rows.iter().partition(|row| row.count > 0);
    let none: Vec<&str> = none.iter().map(|row| row.name).collect();
    html! {
        <>
            <table>
                <caption>{ view.title.as_ref() }</caption>
                <thead>
                    <tr>
                        <th scope="col"><span class="unseen">{ "count" }</span></th>
                        <th scope="col">{ "all" }</th>
                        if shows_each {
                            { for view.partitions.iter().map(|partition| html! {
                                <th scope="col" title={format!("partition {partition}")}>{ format!("-{partition}") }</th>
                            }) }
                        }
                    </tr>
                </thead>
                <tbody>
                    { for some.iter().map(|row| html! { <Row key={row.name} view={(*row).clone()} {shows_each} /> }) }
                </tbody>
            </table>
            if !none.is_empty() {
                <p class="none dim">{ format!("None {}.", none.join(", ")) }</p>
            }
        </>
    }
}

#[derive(PartialEq, Properties)]
struct RowProps {
    view: CountView,
    shows_each: bool,
}

#[component]
fn Row(props: &RowProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let name = match &view.first {
        None => html! { <span title={view.meaning}>{ view.name }</span> },
        Some(first) => {
            let focus = Focus::Story(first.question.clone());
            let onclick = move |_: MouseEvent| store.choose(Some(focus.clone()));
            let title = format!("{} First: {}", view.meaning, first.text);
            html! { <button type="button" class="plain" {title} {onclick}>{ view.name }</button> }
        }
    };
    html! {
        <tr class={tone(view.tone)}>
            <th scope="row">{ name }</th>
            <td><b>{ view.count }</b></td>
            if props.shows_each {
                { for view.each.iter().map(|count| html! { <td>{ *count }</td> }) }
            }
        </tr>
    }
}
