//! Going back in time on the real page: by one event, by the slider, to a mark, by a link.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event, EventInit, HtmlElement, HtmlInputElement, HtmlSelectElement};

use super::page::{command, document, named, until};

/// Virtual time as the page shows it.
pub fn clock() -> String {
    named("Virtual time").text_content().unwrap_or_default().trim().to_owned()
}

pub async fn until_clock(what: &str, fits: impl Fn(&str) -> bool) {
    for _ in 0..1200 {
        if fits(&clock()) {
            return;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("{what}: the clock stands at {}", clock());
}

pub fn change(element: &Element, event: &str) {
    let init = EventInit::new();
    init.set_bubbles(true);
    let event = Event::new_with_event_init_dict(event, &init).expect("an event");
    element.dispatch_event(&event).expect("delivered");
}

fn slider() -> HtmlInputElement {
    named("Moment of the run").dyn_into().expect("a slider")
}

/// The timeline goes as far as this.
async fn until_said(end: &str) {
    for _ in 0..200 {
        let said = slider().get_attribute("aria-valuetext").unwrap_or_default();
        if said.ends_with(&format!("of {end}")) {
            return;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("the timeline says {:?}", slider().get_attribute("aria-valuetext"));
}

fn branches() -> HtmlSelectElement {
    named("Branch").dyn_into().expect("a list")
}

pub fn button(text: &str) -> HtmlElement {
    let buttons = document().query_selector_all("button").expect("a selector");
    let mut buttons =
        (0..buttons.length()).filter_map(|index| buttons.item(index)?.dyn_into::<HtmlElement>().ok());
    let says = |button: &HtmlElement| button.text_content().is_some_and(|said| said.trim() == text);
    buttons.find(says).unwrap_or_else(|| panic!("no button says {text:?}"))
}

fn pause() {
    if let Some(button) = super::page::find(|name| name == "Pause (space)") {
        named(&button).click();
    }
}

pub async fn goes_back_and_begins_a_branch() {
    pause();
    TimeoutFuture::new(200).await;
    let end = clock();
    for _ in 0..20 {
        named("Step one event back (,)").click();
    }
    until_clock("20 events back", |now| *now < *end).await;
    slider().set_value("15000");
    change(&slider(), "input");
    until_clock("to the moment of the slider", |now| now == "00:15.000").await;
    until("it says where it stands", |name| name == "Moment of the run").await;
    let said = slider().get_attribute("aria-valuetext").unwrap_or_default();
    assert_eq!(said, format!("00:15.000 of {end}"));
    assert!(document().query_selector("[aria-label=Branch]").expect("a selector").is_none());

    command("freeze broker 2");
    until("a branch has begun", |name| name == "Branch").await;
    assert_eq!((branches().length(), branches().selected_index()), (2, 1));
    named("Step one event (.)").click();
    branches().set_selected_index(0);
    change(&branches(), "change");
    until_said(&end).await;
    button("To the end").click();
    until_clock("the old future is there", |now| now == end).await;
    named("To the mark before ([)").click();
    until_clock("the mark before the end", |now| *now < *end).await;
}

pub async fn a_link_leads_back() {
    let there = clock();
    button("Share").click();
    TimeoutFuture::new(200).await;
    let field = document().query_selector(".share input").expect("a selector").expect("the link is short");
    let address = field.dyn_into::<HtmlInputElement>().expect("a field").value();
    let link = address.split_once('#').expect("a link").1.to_owned();
    let close = document().query_selector("dialog[open] [aria-label=Close]").expect("a selector");
    close.expect("a cross").dyn_into::<HtmlElement>().expect("a button").click();

    let location = web_sys::window().expect("a browser").location();
    location.set_hash(&link[..link.len() - 3]).expect("an address");
    let answer = || {
        let answer = document().query_selector(".answer").expect("a selector");
        answer.and_then(|answer| answer.text_content()).unwrap_or_default()
    };
    for _ in 0..100 {
        if answer().contains("cut off or changed") {
            break;
        }
        TimeoutFuture::new(50).await;
    }
    assert!(answer().contains("cut off or changed"), "{:?}", answer());
    assert_eq!(clock(), there, "what was on the page stays");

    location.set_hash(&link).expect("an address");
    until_clock("the run begins anew", |now| *now < *there).await;
    until_clock("it comes to the moment again", |now| now == there).await;
    TimeoutFuture::new(300).await;
    assert_eq!((clock(), answer()), (there, String::new()), "no digest on the way was another");
    location.set_hash("").expect("an address");
}
