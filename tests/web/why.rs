//! Why on the real page: asked by the command line and by a button, read by role and name, and a way to each moment.

use gloo_timers::future::TimeoutFuture;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement};

use super::page::{command, document, find, named, until};
use super::time::{button, clock, until_clock};

fn answer() -> Option<Element> {
    document().query_selector("section[aria-label=Why]").expect("a selector")
}

/// The answer to that question.
async fn until_answered(question: &str) -> Element {
    let heading = |answer: &Element| {
        let heading = answer.query_selector("h3").expect("a selector");
        heading.and_then(|heading| heading.text_content()).unwrap_or_default()
    };
    for _ in 0..200 {
        if let Some(answer) = answer().filter(|answer| heading(answer) == question) {
            return answer;
        }
        TimeoutFuture::new(50).await;
    }
    panic!("{question}: the page answers {:?}", answer().and_then(|answer| answer.text_content()));
}

/// The steps of its chains as they are read out, the effect first.
fn steps(answer: &Element) -> Vec<(String, HtmlElement)> {
    let buttons = answer.query_selector_all("ol li button").expect("a selector");
    let buttons =
        (0..buttons.length()).filter_map(|index| buttons.item(index)?.dyn_into::<HtmlElement>().ok());
    buttons.map(|button| (button.get_attribute("aria-label").unwrap_or_default(), button)).collect()
}

/// The broker was killed by hand, and led orders-0. The run stands still.
pub async fn a_reason_is_asked_for_and_its_steps_lead_to_their_moments(killed: u64) {
    TimeoutFuture::new(200).await;
    let end = clock();
    command("why isr orders-0");
    let answered = until_answered("why isr orders-0").await;
    let focused = document().active_element().and_then(|element| element.text_content());
    assert_eq!(focused.as_deref(), Some("why isr orders-0"), "who asked reads on there");
    assert!(answered.text_content().unwrap_or_default().contains(&format!("not in sync: {killed}")));
    let told = steps(&answered);
    let (last, to_moment) = told.last().expect("a chain");
    assert!(last.starts_with(&format!("you gave the command: kill broker {killed}, go to ")), "{last}");
    assert!(told.iter().any(|(step, _)| step.starts_with(&format!("broker {killed} fenced: "))), "{told:?}");
    let moment = last.rsplit(' ').next().unwrap_or_default().to_owned();
    to_moment.click();
    until_clock("to the moment of the command", |now| now == moment).await;
    assert!(answer().is_some(), "the answer stays there");
    button("To the end").click();
    until_clock("the end is where it was", |now| now == end).await;

    let name =
        until("lag has its reason", |name| name.contains(", why is billing so far behind in orders-0?"))
            .await;
    let lag = named(&name);
    assert_eq!(lag.text_content().as_deref(), name.split(',').next(), "it is the value");
    lag.click();
    let answered = until_answered("why lag of billing orders-0").await;
    assert!(answered.text_content().unwrap_or_default().contains("high watermark"));
    named(
        &until("so has a commit", |name| name.contains(", why has billing committed that of orders-0?"))
            .await,
    )
    .click();
    until_answered("why committed of billing orders-0").await;
    named("Close the answer").click();
    TimeoutFuture::new(200).await;
    assert!(answer().is_none() && find(|name| name == "Close the answer").is_none());
}
