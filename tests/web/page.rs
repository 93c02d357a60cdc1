//! The real page, driven and read by role and name as a person would.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::JsCast;
use wasm_bindgen_test::wasm_bindgen_test;
use web_sys::{Document, Element, HtmlElement, HtmlInputElement};

fn document() -> Document {
    web_sys::window().and_then(|window| window.document()).expect("a browser")
}

/// The accessible names on the page.
fn names() -> Vec<(String, Element)> {
    let nodes = document().query_selector_all("[aria-label]").expect("a selector");
    let elements = (0..nodes.length()).filter_map(|index| nodes.item(index)?.dyn_into::<Element>().ok());
    elements.filter_map(|element| Some((element.get_attribute("aria-label")?, element))).collect()
}

fn named(name: &str) -> HtmlElement {
    let found = names().into_iter().find(|(label, _)| label == name);
    let element = found.unwrap_or_else(|| panic!("nothing is named {name:?} among {:?}", all_names())).1;
    element.dyn_into().expect("an HTML element")
}

fn all_names() -> Vec<String> {
    names().into_iter().map(|(name, _)| name).collect()
}

fn find(fits: impl Fn(&str) -> bool) -> Option<String> {
    all_names().into_iter().find(|name| fits(name))
}

/// Waits for a sentence on the page, at most a minute of the reader's time.
async fn until(what: &str, fits: impl Fn(&str) -> bool) -> String {
    for _ in 0..1200 {
        if let Some(name) = find(&fits) {
            return name;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("did not come: {what}; the page says {:?}", all_names());
}

/// Virtual time as the page shows it, in whole seconds.
fn clock_s() -> u64 {
    let text = named("Virtual time").text_content().unwrap_or_default();
    let parts: Vec<u64> = text.trim().split([':', '.']).filter_map(|part| part.parse().ok()).collect();
    match parts[..] {
        [minutes, seconds, _] => minutes * 60 + seconds,
        _ => panic!("no clock: {text:?}"),
    }
}

async fn until_clock(at_s: u64) {
    for _ in 0..1200 {
        if clock_s() >= at_s {
            return;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("the clock stands at {} s", clock_s());
}

/// "orders-0 on broker 1, leader, epoch 0, ..." -> 1
fn broker_in(sentence: &str) -> u64 {
    let number = sentence.split(" on broker ").nth(1).and_then(|rest| rest.split(',').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no broker in {sentence:?}"))
}

fn choose_fixed_speed(position: &str) {
    let slider: HtmlInputElement = named("Speed").dyn_into().expect("a slider");
    slider.set_value(position);
    let init = web_sys::EventInit::new();
    init.set_bubbles(true);
    let event = web_sys::Event::new_with_event_init_dict("input", &init).expect("an event");
    slider.dispatch_event(&event).expect("delivered");
}

#[wasm_bindgen_test]
async fn the_page_runs_loses_a_leader_and_takes_another_consumer() {
    let root = document().create_element("div").expect("an element");
    root.set_id("app");
    document().body().expect("a body").append_child(&root).expect("attached");
    glassbroker::ui::app::mount();
    until("the page is drawn", |name| name == "Virtual time").await;

    until_clock(10).await;
    choose_fixed_speed("3");
    until_clock(20).await;

    let leads = |name: &str| name.starts_with("orders-0 on broker ") && name.contains(", leader, epoch 0,");
    let old = broker_in(&until("orders-0 has a leader", leads).await);
    named(&format!("kill broker {old}")).click();
    let leads = |name: &str| name.starts_with("orders-0 on broker ") && name.contains(", leader, epoch 1,");
    let new = broker_in(&until("orders-0 has another leader", leads).await);
    assert_ne!(new, old);
    assert!(
        find(|name| name.starts_with(&format!("Broker {old} in rack ")) && name.contains(", dead,"))
            .is_some()
    );

    named("add a consumer to billing").click();
    let owns = |who: &'static str, what: &'static str| {
        move |name: &str| {
            name.starts_with(&format!("Consumer {who}, ")) && name.contains(&format!("owns {what},"))
        }
    };
    until("consumer-a owns one partition", owns("consumer-a", "orders-0")).await;
    until("consumer-b owns one partition", owns("consumer-b", "orders-1")).await;
    until("the new one owns the third", owns("consumer-c", "orders-2")).await;
    root.remove();
}
