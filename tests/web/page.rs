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

    a_rule_opens_and_closes().await;
    faults_are_told_on_the_cards().await;
    a_server_is_inspected_and_stopped(new).await;
    root.remove();
}

/// The button of the newest rule shows the rule's sentence with its source, and takes it away again.
async fn a_rule_opens_and_closes() {
    named("Pause (space)").click();
    let name = until("an event cites a rule", |name| name.starts_with("rule R-")).await;
    let rule = glassbroker::view::rules::rule(name.trim_start_matches("rule ")).expect("a rule there is");
    let button = named(&name);
    let place = button.get_attribute("aria-controls").expect("what it opens");
    assert_eq!(button.get_attribute("aria-expanded").as_deref(), Some("false"));
    assert!(document().get_element_by_id(&place).is_none());
    button.focus().expect("a key can reach it");
    assert_eq!(document().active_element().as_ref(), Some(button.as_ref()));
    button.click();
    TimeoutFuture::new(100).await;
    assert_eq!(button.get_attribute("aria-expanded").as_deref(), Some("true"));
    let said = document().get_element_by_id(&place).and_then(|said| said.text_content());
    let said = said.unwrap_or_default();
    assert!(said.contains(rule.sentence) && said.contains(&*rule.source), "{said:?}");
    button.click();
    TimeoutFuture::new(100).await;
    assert_eq!(button.get_attribute("aria-expanded").as_deref(), Some("false"));
    assert!(document().get_element_by_id(&place).is_none());
}

fn command(text: &str) {
    let field = document().get_element_by_id("command").expect("the field");
    let field: HtmlInputElement = field.dyn_into().expect("an input");
    field.set_value(text);
    let form = document().query_selector("form.command").expect("a selector").expect("its form");
    let submit = js_sys::Reflect::get(&form, &"requestSubmit".into()).expect("a form has it");
    submit.unchecked_into::<js_sys::Function>().call0(&form).expect("submitted");
}

async fn faults_are_told_on_the_cards() {
    command("set clock of controller 101 ahead by 5min");
    command("slow broker 1 to broker 2 by 200ms");
    let has = |who: &'static str, what: &'static str| {
        move |name: &str| name.starts_with(who) && name.contains(what)
    };
    until("the clock is wrong", has("Controller 101, ", "; clock 5 min ahead")).await;
    until("one end tells", has("Broker 1 ", "; 200 ms slower to broker 2")).await;
    until("the other end tells", has("Broker 2 ", "; 200 ms slower to broker 1")).await;
    let card =
        names().into_iter().find(|(name, _)| has("Controller 101, ", "clock")(name)).expect("a card").1;
    let text = card.text_content().unwrap_or_default();
    assert!(text.contains("clock 5 min ahead"), "{text:?}");
}

async fn a_server_is_inspected_and_stopped(broker: u64) {
    named(&format!("inspect broker {broker}")).click();
    let facts = || {
        let facts = document().query_selector(".inspect").expect("a selector");
        facts.and_then(|facts| facts.text_content()).unwrap_or_default()
    };
    for _ in 0..100 {
        if facts().contains("last snapshot") {
            break;
        }
        TimeoutFuture::new(50).await;
    }
    assert!(
        facts().contains(&format!("broker {broker}")) && facts().contains("last snapshot"),
        "{}",
        facts()
    );
    named("stop controller 101").click();
    named("Play (space)").click();
    until("the controller has ended", |name| name.starts_with("Controller 101, dead")).await;
    named("start controller 101");
}
