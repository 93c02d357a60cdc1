//! Two runs side by side on the real page: two branches, and one thing otherwise; and a run that the browser keeps.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::JsCast;
use web_sys::{HtmlElement, HtmlInputElement, HtmlSelectElement};

use super::page::{document, find};
use super::time::{button, change, clock, until_clock};

fn text_of(selector: &str) -> String {
    let element = document().query_selector(selector).expect("a selector");
    element.and_then(|element| element.text_content()).unwrap_or_default()
}

async fn until_text(selector: &str, fits: impl Fn(&str) -> bool) -> String {
    for _ in 0..1200 {
        let text = text_of(selector);
        if fits(&text) {
            return text;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("{selector}: {:?}", text_of(selector));
}

fn submit(form: u32) {
    let buttons = document().query_selector_all("dialog[open] form [type=submit]").expect("a selector");
    buttons.item(form).expect("a form").dyn_into::<HtmlElement>().expect("a button").click();
}

pub async fn two_branches_and_a_change_are_compared() {
    button("Compare").click();
    until_text("dialog[open] h2", |title| title == "Compare").await;
    let other: HtmlSelectElement = document()
        .query_selector("dialog[open] select")
        .expect("a selector")
        .expect("branches")
        .dyn_into()
        .expect("a list");
    assert_eq!(other.length(), 1, "the present branch is not compared with itself");
    submit(0);
    let what = until_text(".compare h2", |what| !what.is_empty()).await;
    assert!(what.starts_with("two futures from "), "{what}");
    until_text(".compare-table", |table| table.contains("partition time without a leader")).await;
    assert_eq!(document().query_selector_all(".compare-side").expect("a selector").length(), 2);
    assert!(find(|name| name == "Moment of the run").is_none(), "the one run stands still meanwhile");
    button("Back to the run").click();
    until_text(".timeline .ends", |ends| !ends.is_empty()).await;

    button("Compare").click();
    until_text("dialog[open] h2", |title| title == "Compare").await;
    let suggested = document().query_selector_all("dialog[open] select").expect("a selector");
    let suggested: HtmlSelectElement = suggested.item(1).expect("suggestions").dyn_into().expect("a list");
    // Whoever commits by a line of its own does so behind its work already.
    suggested.set_value("programs commit after process");
    change(&suggested, "change");
    submit(1);
    until_text("dialog[open] .refusal", |said| said.contains("nothing in this run is otherwise")).await;
    let field = document().query_selector("dialog[open] input").expect("a selector").expect("a field");
    field.dyn_into::<HtmlInputElement>().expect("a field").set_value("producers acks=1");
    submit(1);
    let side = until_text(".compare-side:nth-child(2) h3", |title| !title.is_empty()).await;
    assert_eq!(side, "B · producers acks=1");
    button("Back to the run").click();
    until_text(".timeline .ends", |ends| !ends.is_empty()).await;
}

/// What the browser keeps is there in the Open dialog, with its branches, and opens.
pub async fn a_run_is_kept() {
    let branches = || text_of(".branch label span");
    let before = until_text(".branch label span", |text| text.ends_with("branches")).await;
    let there = clock();
    let window = web_sys::window().expect("a browser");
    let event = web_sys::Event::new("pagehide").expect("an event");
    window.dispatch_event(&event).expect("delivered");
    button("Open").click();
    until_text("dialog[open] .kept-runs", |text| text.contains("kept")).await;
    let open =
        document().query_selector("dialog[open] .kept-runs button").expect("a selector").expect("a button");
    open.dyn_into::<HtmlElement>().expect("a button").click();
    until_clock("the run begins anew", |now| *now < *there).await;
    until_clock("it comes to the moment again", |now| now == there).await;
    TimeoutFuture::new(300).await;
    assert_eq!(clock(), there, "and stands there");
    assert_eq!(branches(), before, "the branches are there again");
    assert_eq!(text_of(".answer"), "", "no digest on the way was another");
}
