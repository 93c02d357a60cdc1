//! The field at the foot of the page: any command as text, and what came of the last one.

use std::rc::Rc;

use web_sys::HtmlInputElement;
use yew::prelude::*;

use super::answer::Answer;
use super::store::{use_slice, use_store};
use crate::view::suggestions;

#[derive(PartialEq, Properties)]
pub struct CommandBarProps {
    /// The input, so that a shortcut can focus it.
    pub input: NodeRef,
}

/// Words of the last answer; a command that a button gave is shown here too, so that its text is learned in passing.
#[component]
pub fn CommandBar(props: &CommandBarProps) -> Html {
    let store = use_store();
    let answer = use_slice(|shown| shown.answer.clone());
    let verb = use_state_eq(|| AttrValue::from(""));
    // Hundreds of lines, at every publication: only while somebody may read them.
    let in_use = use_state_eq(|| false);
    let turn = |to: bool| {
        let in_use = in_use.setter();
        Callback::from(move |_: FocusEvent| in_use.set(to))
    };
    let (onfocus, onblur) = (turn(true), turn(false));
    let oninput = {
        let verb = verb.clone();
        Callback::from(move |event: InputEvent| {
            let input: HtmlInputElement = event.target_unchecked_into();
            verb.set(suggestions::verb(&input.value()).to_owned().into());
        })
    };
    let onsubmit = {
        let (input, verb) = (props.input.clone(), verb.clone());
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            if let Some(input) = input.cast::<HtmlInputElement>() {
                let text = input.value();
                if !text.trim().is_empty() {
                    store.command(text.trim());
                    input.set_value("");
                    verb.set(AttrValue::from(""));
                }
            }
        })
    };
    let (class, text) = match answer.as_deref() {
        None => ("answer", String::new()),
        Some(Answer::Given(text)) => ("answer", format!("Given: {text}")),
        Some(Answer::Refused { text, reason }) => ("answer refused", format!("Refused: {text}. {reason}")),
        Some(Answer::Told { question, lines }) => {
            ("answer told", format!("{question}\n{}", lines.join("\n")))
        }
        Some(Answer::Measured(sentence)) => ("answer", sentence.to_string()),
        Some(Answer::BadLink(reason)) => ("answer refused", format!("The link was not opened: {reason}.")),
        Some(Answer::Parted(sentence) | Answer::Full(sentence)) => ("answer refused", sentence.to_string()),
        Some(Answer::NotKept(error)) => ("answer refused", format!("{error}.")),
        Some(Answer::NoMark { after: true }) => ("answer", "No mark comes after this moment.".to_owned()),
        Some(Answer::NoMark { after: false }) => ("answer", "No mark comes before this moment.".to_owned()),
    };
    html! {
        <footer>
            <form key="form" class="command" {onsubmit}>
                <label for="command">{ "Command" }</label>
                <input ref={props.input.clone()} id="command" list="commands" autocomplete="off" spellcheck="false"
                    placeholder="kill broker 3" {oninput} {onfocus} {onblur} />
                <kbd aria-hidden="true">{ "Ctrl K" }</kbd>
                <datalist id="commands">
                    if *in_use {
                        <Suggestions key={verb.to_string()} verb={(*verb).clone()} />
                    }
                </datalist>
            </form>
            <p key="answer" {class} role="status">{ text }</p>
        </footer>
    }
}

#[derive(PartialEq, Properties)]
struct SuggestionsProps {
    /// What was typed of the first word; the component is another one for each.
    verb: AttrValue,
}

#[component]
fn Suggestions(props: &SuggestionsProps) -> Html {
    let verb = props.verb.clone();
    let lines = use_slice(move |shown| Rc::new(suggestions::suggestions(&shown.model, &verb)));
    html! {
        { for lines.iter().map(|line| html! { <option key={line.as_str()} value={line.clone()} /> }) }
    }
}
