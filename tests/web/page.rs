//! The real page, driven and read by role and name as a person would.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::JsCast;
use wasm_bindgen_test::wasm_bindgen_test;
use web_sys::{Document, Element, HtmlElement, HtmlInputElement};

use super::build;
use super::compare;
use super::time;
use super::why;

pub(super) fn document() -> Document {
    web_sys::window().and_then(|window| window.document()).expect("a browser")
}

/// The accessible names on the page.
fn names() -> Vec<(String, Element)> {
    let nodes = document().query_selector_all("[aria-label]").expect("a selector");
    let elements = (0..nodes.length()).filter_map(|index| nodes.item(index)?.dyn_into::<Element>().ok());
    elements.filter_map(|element| Some((element.get_attribute("aria-label")?, element))).collect()
}

pub(super) fn named(name: &str) -> HtmlElement {
    let found = names().into_iter().find(|(label, _)| label == name);
    let element = found.unwrap_or_else(|| panic!("nothing is named {name:?} among {:?}", all_names())).1;
    element.dyn_into().expect("an HTML element")
}

fn all_names() -> Vec<String> {
    names().into_iter().map(|(name, _)| name).collect()
}

pub(super) fn find(fits: impl Fn(&str) -> bool) -> Option<String> {
    all_names().into_iter().find(|name| fits(name))
}

/// Waits for a sentence on the page, at most a minute of the reader's time.
pub(super) async fn until(what: &str, fits: impl Fn(&str) -> bool) -> String {
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
    named("Play (space)").click();
    a_transaction_is_shown_on_its_three_sides().await;
    an_application_is_one_card().await;
    commands_are_suggested_while_the_field_is_in_use().await;
    the_ledger_counts_and_its_numbers_lead_to_stories().await;
    named("Pause (space)").click();
    why::a_reason_is_asked_for_and_its_steps_lead_to_their_moments(old).await;
    faults_are_told_on_the_cards().await;
    a_server_is_inspected_and_stopped(new).await;
    time::goes_back_and_begins_a_branch().await;
    compare::two_branches_and_a_change_are_compared().await;
    compare::a_run_is_kept().await;
    time::a_link_leads_back().await;
    build::a_cluster_is_built_from_fields().await;
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

pub(super) fn command(text: &str) {
    let field = document().get_element_by_id("command").expect("the field");
    let field: HtmlInputElement = field.dyn_into().expect("an input");
    field.set_value(text);
    let form = document().query_selector("form.command").expect("a selector").expect("its form");
    let submit = js_sys::Reflect::get(&form, &"requestSubmit".into()).expect("a form has it");
    submit.unchecked_into::<js_sys::Function>().call0(&form).expect("submitted");
}

/// The client's state, the coordinator's, the open transaction in the log; then the markers and what they end.
async fn a_transaction_is_shown_on_its_three_sides() {
    command("create topic prices partitions 1 replication-factor 3");
    command("add producer bank to prices rate 20/s keys none transactional.id=bank-1");
    let says = |what: &'static str| {
        move |name: &str| name.starts_with("transactional id bank-1 ") && name.contains(what)
    };
    until("it has its id", says("READY, at its coordinator broker ")).await;
    command("begin transaction of bank");
    until("both know that it is open", says("IN_TRANSACTION, at its coordinator broker ")).await;
    let lane = |what: &'static str| {
        move |name: &str| {
            name.starts_with("prices-0 on broker ") && name.contains(", leader,") && name.contains(what)
        }
    };
    until("the log has it open", lane("last stable offset 0; ")).await;
    until("and says whose it is", lane("; transaction of bank-1 from 0 to ")).await;
    assert!(is_drawn(".log path.open") && is_drawn(".marks .sample.lso"));
    command("abort transaction of bank");
    until("nothing is open any more", |name| {
        lane("last stable offset ")(name) && !name.contains("; transaction of")
    })
    .await;
    assert!(is_drawn(".log .strike") && is_drawn(".log .letter"), "aborted records and a marker");
    named("inspect bank").click();
    for what in ["Its transaction", "CompleteAbort", "buffer.memory", "idempotence", "sticks to prices-0"] {
        until_inspected(what).await;
    }
}

pub(super) fn is_drawn(selector: &str) -> bool {
    document().query_selector(selector).expect("a selector").is_some()
}

async fn an_application_is_one_card() {
    command(
        "add application pricing to pricing topics orders output prices program \"poll; begin; process 5ms; send results; \
         send offsets; commit transaction\" transactional.id=pricing-1",
    );
    let says = |what: &'static str| {
        move |name: &str| name.starts_with("Application pricing, ") && name.contains(what)
    };
    until("it reads", says("owns orders-0, orders-1 and orders-2")).await;
    until("it has its own producer", says("; its producer to prices: ")).await;
    until("that has committed", says("at its coordinator broker ")).await;
    named("inspect pricing").click();
    until_inspected("Its consumer").await;
    until_inspected("Its producer").await;
}

/// They are many, so they are there only while somebody types.
async fn commands_are_suggested_while_the_field_is_in_use() {
    let suggested = || {
        let options = document().query_selector_all("#commands option").expect("a selector");
        (0..options.length())
            .filter_map(|index| options.item(index)?.dyn_into::<Element>().ok())
            .collect::<Vec<_>>()
    };
    assert_eq!(suggested().len(), 0);
    let field = document().get_element_by_id("command").expect("the field");
    let field: HtmlInputElement = field.dyn_into().expect("an input");
    field.focus().expect("a key can reach it");
    for _ in 0..100 {
        if !suggested().is_empty() {
            break;
        }
        TimeoutFuture::new(50).await;
    }
    let value = |option: &Element| option.get_attribute("value").unwrap_or_default();
    assert!(suggested().iter().map(value).any(|line| line == "describe transaction bank-1"));
    field.blur().expect("it has the focus");
    TimeoutFuture::new(200).await;
    assert_eq!(suggested().len(), 0);
}

async fn the_ledger_counts_and_its_numbers_lead_to_stories() {
    let button = |selector: &str, text: &str| {
        let buttons = document().query_selector_all(selector).expect("a selector");
        let buttons =
            (0..buttons.length()).filter_map(|index| buttons.item(index)?.dyn_into::<HtmlElement>().ok());
        buttons.into_iter().find(|button| button.text_content().as_deref() == Some(text))
    };
    button("[role=tab]", "Ledger").expect("a tab").click();
    for _ in 0..100 {
        if button(".ledger button", "produced").is_some() {
            break;
        }
        TimeoutFuture::new(50).await;
    }
    let captions = document().query_selector_all(".ledger caption").expect("a selector");
    let captions = (0..captions.length()).filter_map(|index| captions.item(index)?.text_content());
    let captions: Vec<String> = captions.collect();
    for title in ["records of orders", "records of prices", "group billing and the records of orders"] {
        assert!(captions.iter().any(|caption| caption == title), "{title}: {captions:?}");
    }
    button(".ledger button", "produced").expect("a count with an example").click();
    until_inspected("What became of it").await;
    until_inspected("hands it to send()").await;
}

async fn until_inspected(what: &str) {
    for _ in 0..200 {
        if inspected().contains(what) {
            return;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("{what:?} is not in {:?}", inspected());
}

/// What the region says of the chosen object.
fn inspected() -> String {
    let facts = document().query_selector(".inspect").expect("a selector");
    facts.and_then(|facts| facts.text_content()).unwrap_or_default()
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
    until_inspected("last snapshot").await;
    until_inspected(&format!("broker {broker}")).await;
    named("stop controller 101").click();
    named("Play (space)").click();
    until("the controller has ended", |name| name.starts_with("Controller 101, dead")).await;
    named("start controller 101");
}
