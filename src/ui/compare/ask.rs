//! The dialog that asks what to compare the present run with.

use web_sys::{HtmlInputElement, HtmlSelectElement};
use yew::prelude::*;

use crate::lab::compare::change::SUGGESTED;
use crate::lab::history::BranchId;
use crate::ui::store::{use_slice, use_store};

#[derive(PartialEq, Properties)]
pub struct AskProps {
    pub on_done: Callback<()>,
}

/// **Invariant:** a comparison that cannot be made changes nothing but the sentence below the fields.
#[component]
pub fn AskCompare(props: &AskProps) -> Html {
    let store = use_store();
    let refusal = use_state(|| None::<String>);
    let (branches, current) = use_slice(|shown| (shown.timeline.branches.clone(), shown.timeline.current));
    let done = {
        let (refusal, on_done) = (refusal.setter(), props.on_done.clone());
        move |compared: Result<(), String>| match compared {
            Ok(()) => on_done.emit(()),
            Err(reason) => refusal.set(Some(reason)),
        }
    };
    let other = use_node_ref();
    let on_branch = {
        let (store, other, done) = (store.clone(), other.clone(), done.clone());
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            let select = other.cast::<HtmlSelectElement>();
            let chosen = select.and_then(|select| select.value().parse().ok()).map(BranchId);
            done(store.compare_with(chosen.unwrap_or(BranchId(current))));
        })
    };
    let change = use_node_ref();
    let on_suggested = use_callback(change.clone(), |event: Event, change| {
        let select: HtmlSelectElement = event.target_unchecked_into();
        if let Some(input) = change.cast::<HtmlInputElement>() {
            input.set_value(&select.value());
        }
    });
    let on_change = {
        let change = change.clone();
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            let text = change.cast::<HtmlInputElement>().map(|input| input.value()).unwrap_or_default();
            done(store.compare_change(&text));
        })
    };
    html! {
        <div class="ask-compare">
            <p key="lead">{ "Two runs on one clock, from the same seed: what is lost, repeated, and for how long nobody owns or leads a partition." }</p>
            if branches.len() > 1 {
                <form key="branch" class="fields" onsubmit={on_branch}>
                    <h3>{ "With another branch" }</h3>
                    <label><span>{ "branch" }</span>
                        <select ref={other}>
                            { for branches.iter().enumerate().filter(|(index, _)| *index != current).map(|(index, branch)| html! {
                                <option key={index} value={index.to_string()} selected={index == usize::from(current == 0)}>
                                    { branch.name.to_string() }
                                </option>
                            }) }
                        </select>
                    </label>
                    <div class="dialog-buttons"><button type="submit" class="primary">{ "Compare the two branches" }</button></div>
                </form>
            } else {
                <p key="branch" class="dim">{ "A command given in the past begins a branch, which can be compared with this one." }</p>
            }
            <form key="change" class="fields" onsubmit={on_change}>
                <h3>{ "With the same run and one thing otherwise" }</h3>
                <label key="suggested"><span>{ "suggestions" }</span>
                    <select onchange={on_suggested}>
                        <option value="" selected=true>{ "choose one, or write your own" }</option>
                        { for SUGGESTED.iter().map(|(change, what)| html! {
                            <option key={*change} value={*change}>{ format!("{change}: {what}") }</option>
                        }) }
                    </select>
                </label>
                <label key="text"><span>{ "what is otherwise" }</span>
                    <input ref={change} type="text" spellcheck="false" autocomplete="off" placeholder="producers acks=1" required=true />
                </label>
                <p key="refusal" class="refusal" role="alert">{ refusal.as_deref().unwrap_or("").to_owned() }</p>
                <div key="buttons" class="dialog-buttons"><button type="submit" class="primary">{ "Compare with the change" }</button></div>
            </form>
        </div>
    }
}
