//! The field at the foot of the page: any command as text, and what came of the last one.

use std::rc::Rc;

use web_sys::HtmlInputElement;
use yew::prelude::*;

use super::act;
use super::store::{Answer, use_slice, use_store};

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
    let lines = use_slice(|shown| Rc::new(act::suggestions(&shown.model)));
    let onsubmit = {
        let input = props.input.clone();
        Callback::from(move |event: SubmitEvent| {
            event.prevent_default();
            if let Some(input) = input.cast::<HtmlInputElement>() {
                let text = input.value();
                if !text.trim().is_empty() {
                    store.command(text.trim());
                    input.set_value("");
                }
            }
        })
    };
    let (class, text) = match answer.as_deref() {
        None => ("answer", String::new()),
        Some(Answer::Given(text)) => ("answer", format!("Given: {text}")),
        Some(Answer::Refused { text, reason }) => ("answer refused", format!("Refused: {text}. {reason}")),
        Some(Answer::Measured(sentence)) => ("answer", sentence.to_string()),
    };
    html! {
        <footer>
            <form key="form" class="command" {onsubmit}>
                <label for="command">{ "Command" }</label>
                <input ref={props.input.clone()} id="command" list="commands" autocomplete="off" spellcheck="false"
                    placeholder="kill broker 3" />
                <kbd aria-hidden="true">{ "Ctrl K" }</kbd>
                <datalist id="commands">
                    { for lines.iter().map(|line| html! { <option key={line.as_str()} value={line.clone()} /> }) }
                </datalist>
            </form>
            <p key="answer" {class} role="status">{ text }</p>
        </footer>
    }
}
