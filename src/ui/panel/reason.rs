//! Why: the chain of events that made something so, each a way to its moment.

use web_sys::HtmlElement;
use yew::prelude::*;

use crate::kafka::types::{GroupId, TopicPartition};
use crate::lab::command;
use crate::ui::shared::Shared;
use crate::ui::store::{use_slice, use_store};
use crate::ui::widget::button::IconButton;
use crate::ui::widget::icon::Icon;
use crate::view::reason::{ChainView, LinkView, ReasonView};

/// A small button that asks why something is so.
#[derive(PartialEq, Properties)]
pub struct WhyProps {
    /// As it is typed: "why isr orders-0".
    pub question: AttrValue,
    /// What it asks, for everyone who does not see where it stands.
    pub name: AttrValue,
    #[prop_or(AttrValue::Static("Why?"))]
    pub label: AttrValue,
    /// It stands for a value, in whose place it is.
    #[prop_or_default]
    pub is_value: bool,
}

/// How far a group is behind in a partition, as [`asked`].
pub fn lag(lag: i64, group: Option<&GroupId>, tp: &TopicPartition) -> Html {
    asked(lag.to_string(), group, |group| {
        let what = format!("why is {group} so far behind in {tp}?");
        (command::Why::Lag { group: group.clone(), tp: tp.clone() }, what)
    })
}

/// A value that says why it is so when it is pressed: by the question and, behind the value, how that is read out. Without a
/// group, which is asked for, the value alone.
pub fn asked(
    value: String,
    group: Option<&GroupId>,
    question: impl Fn(&GroupId) -> (command::Why, String),
) -> Html {
    let Some(group) = group else { return html! { value } };
    let (question, what) = question(group);
    let name = format!("{value}, {what}");
    html! { <Why question={question.to_string()} {name} label={value} is_value=true /> }
}

#[component]
pub fn Why(props: &WhyProps) -> Html {
    let store = use_store();
    let onclick = {
        let question = props.question.clone();
        Callback::from(move |_: MouseEvent| store.ask(&question))
    };
    html! {
        <button type="button" class={classes!("why", props.is_value.then_some("value"))} title={&props.question} aria-label={&props.name} {onclick}>
            { &props.label }
        </button>
    }
}

/// The answer to the last such question, until it is closed.
#[component]
pub fn Reason() -> Html {
    let reason = use_slice(|shown| shown.reason.as_ref().map(Shared::new));
    match reason {
        None => html! {},
        Some(view) => html! { <Open key={view.number} view={view.clone()} /> },
    }
}

#[derive(PartialEq, Properties)]
struct OpenProps {
    view: Shared<ReasonView>,
}

#[component]
fn Open(props: &OpenProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let head = use_node_ref();
    // Who asked by a key reads on here.
    use_effect_with(head.clone(), |head| {
        if let Some(head) = head.cast::<HtmlElement>() {
            // A heading that cannot take the focus is read all the same.
            let _ = head.focus();
        }
    });
    let onclose = use_callback(store, |(), store| store.close_reason());
    html! {
        <section class="reason" aria-label="Why">
            <div key="head" class="reason-head">
                <h3 ref={head} tabindex="-1">{ view.question.as_ref() }</h3>
                <span class="dim">{ format!("asked at {}", view.asked_at) }</span>
                <IconButton icon={Icon::Close} name="Close the answer" onclick={onclose} />
            </div>
            <p key="title">{ view.title.as_ref() }</p>
            { for view.chains.iter().enumerate().map(|(index, chain)| html! {
                <Chain key={index} view={Shared::new(chain)} />
            }) }
            if view.chains.is_empty() {
                <p key="nothing" class="dim">{ "No event led to it." }</p>
            }
        </section>
    }
}

#[derive(PartialEq, Properties)]
struct ChainProps {
    view: Shared<ChainView>,
}

/// From what is asked back to what a person did.
#[component]
fn Chain(props: &ChainProps) -> Html {
    let all = use_state_eq(|| false);
    let view = &props.view;
    let shown = view.links.iter().filter(|link| *all || !link.is_routine);
    let onclick = {
        let all = all.clone();
        move |_: MouseEvent| all.set(!*all)
    };
    html! {
        <>
            <ol key="links" class="chain">
                { for shown.enumerate().map(|(index, link)| html! {
                    <Step key={format!("{index} {}", link.text)} view={link.clone()} />
                }) }
            </ol>
            if let Some(hidden) = view.hidden() {
                <button key="more" type="button" class="why" aria-expanded={all.to_string()} {onclick}>
                    { if *all { "Only what changed something".to_owned() } else { hidden } }
                </button>
            }
        </>
    }
}

#[derive(PartialEq, Properties)]
struct StepProps {
    view: LinkView,
}

#[component]
fn Step(props: &StepProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let onclick = {
        let time = view.time;
        Callback::from(move |_: MouseEvent| store.seek(time))
    };
    let name = format!("{}, go to {}", view.text, view.time);
    html! {
        <li class={if view.is_routine { "routine" } else { "" }}>
            <button type="button" class="plain" aria-label={name} title="Go to this moment" {onclick}>
                <time>{ view.time.to_string() }</time>
                <span>{ view.text.as_ref() }</span>
            </button>
            if !view.detail.is_empty() {
                <p class="detail">{ view.detail.as_ref() }</p>
            }
        </li>
    }
}
