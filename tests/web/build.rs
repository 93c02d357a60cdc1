//! The builder on the real page: fields are filled in, the file is there to read, and the cluster starts.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Element, HtmlElement};

use super::page::{document, find, until};
use super::time::{button, change, until_clock};

fn element(selector: &str) -> Element {
    let found = document().query_selector(selector).expect("a selector");
    found.unwrap_or_else(|| panic!("there is no {selector}"))
}

fn fill_in(name: &str, value: &str) {
    let field = element(&format!(".build-form [name={name}]"));
    js_sys::Reflect::set(&field, &"value".into(), &JsValue::from_str(value)).expect("a field");
    change(&field, "input");
}

async fn until_file(what: &str, fits: impl Fn(&str) -> bool) {
    let file = || {
        let area = document().query_selector(".build-file textarea").expect("a selector");
        let value = area.and_then(|area| js_sys::Reflect::get(&area, &"value".into()).ok());
        value.and_then(|value| value.as_string()).unwrap_or_default()
    };
    for _ in 0..100 {
        if fits(&file()) {
            return;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("{what}: the file is {}", file());
}

fn start() -> HtmlElement {
    element(".build-form [type=submit]").dyn_into().expect("a button")
}

pub async fn a_cluster_is_built_from_fields() {
    button("Open").click();
    TimeoutFuture::new(200).await;
    button("Build one").click();
    until_file("it begins with a cluster", |file| file.contains("orders")).await;
    fill_in("topic", "payments");
    fill_in("partitions", "2");
    fill_in("brokers", "4");
    fill_in("rate", "often");
    until_file("what cannot be read makes no file", str::is_empty).await;
    let refusal = element(".build-form [role=alert]").text_content().unwrap_or_default();
    assert!(refusal.contains("a rate such as 12/s") && refusal.contains("often"), "{refusal}");
    assert!(start().has_attribute("disabled"));
    fill_in("rate", "5/s");
    until_file("it says what was filled in", |file| {
        ["name = \"payments\"", "partitions = 2", "rate = \"5/s\"", "id = 4"]
            .iter()
            .all(|said| file.contains(said))
    })
    .await;
    start().click();
    until_clock("it opens when the cluster is up", |now| ("00:12.000".."00:30.000").contains(&now)).await;
    until("its topic is there", |name| name.starts_with("payments-1 on broker ")).await;
    until("all its brokers are", |name| name.starts_with("Broker 4")).await;
    assert!(find(|name| name.starts_with("payments-2 on broker ") || name.starts_with("orders-")).is_none());
    assert!(document().query_selector("dialog[open]").expect("a selector").is_none(), "the dialog is closed");
}
