//! A modal dialog on the browser's own element, which keeps the focus inside and gives it back.

use web_sys::HtmlDialogElement;
use yew::prelude::*;

use super::button::IconButton;
use super::icon::Icon;

#[derive(PartialEq, Properties)]
pub struct DialogProps {
    pub open: bool,
    pub title: AttrValue,
    /// Escape, the cross and the browser end here.
    pub on_close: Callback<()>,
    pub children: Html,
}

/// **Invariant:** its children exist only while it is open, so each opening starts afresh.
#[component]
pub fn Dialog(props: &DialogProps) -> Html {
    let node = use_node_ref();
    use_effect_with((props.open, node.clone()), |(open, node)| {
        if let Some(dialog) = node.cast::<HtmlDialogElement>() {
            match (*open, dialog.open()) {
                // It is not open, so it can be.
                (true, false) => drop(dialog.show_modal()),
                (false, true) => dialog.close(),
                _ => {}
            }
        }
    });
    let onclose = {
        let (open, on_close) = (props.open, props.on_close.clone());
        // What is closed already has given way to another dialog, or to none.
        Callback::from(move |_: Event| {
            if open {
                on_close.emit(());
            }
        })
    };
    html! {
        <dialog ref={node} aria-label={&props.title} {onclose}>
            <div class="dialog-head" key="head">
                <h2>{ &props.title }</h2>
                <IconButton icon={Icon::Close} name="Close" onclick={props.on_close.clone()} />
            </div>
            <div class="dialog-body" key="body">
                if props.open {
                    { props.children.clone() }
                }
            </div>
        </dialog>
    }
}
