//! The rules that a sentence rests on: a button each, which opens the rule's own sentence below.

use std::rc::Rc;

use yew::prelude::*;

use crate::view::rules::rule;

#[derive(PartialEq, Properties)]
pub struct RulesProps {
    pub ids: Rc<[Rc<str>]>,
    /// The sentence's number: what opens needs an id of its own.
    pub sentence: u64,
}

#[component]
pub fn Rules(props: &RulesProps) -> Html {
    let open = use_state(|| None::<Rc<str>>);
    if props.ids.is_empty() {
        return html! {};
    }
    let place = format!("rule-of-{}", props.sentence);
    let button = |id: &Rc<str>| {
        let is_open = open.as_ref() == Some(id);
        let onclick = {
            let (open, id) = (open.clone(), id.clone());
            move |_: MouseEvent| open.set((!is_open).then(|| id.clone()))
        };
        html! {
            <button key={&**id} type="button" aria-expanded={is_open.to_string()}
                aria-controls={place.clone()}
                aria-label={format!("rule {id}")} {onclick}>{ id.as_ref() }</button>
        }
    };
    let said = open.as_ref().and_then(|id| rule(id)).map(|rule| {
        html! {
            <p key="said" class="said" id={place.clone()}>
                { rule.sentence }
                <span class="source">{ rule.source }</span>
            </p>
        }
    });
    html! {
        <div class="rules">
            { for props.ids.iter().map(button) }
            { for said }
        </div>
    }
}
