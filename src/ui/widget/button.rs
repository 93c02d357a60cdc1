//! Buttons: with an icon only, and those that give one command.

use yew::prelude::*;

use super::icon::{Glyph, Icon};
use crate::ui::store::use_store;

#[derive(PartialEq, Properties)]
pub struct IconButtonProps {
    pub icon: Icon,
    /// What it does, for everyone who does not see the icon.
    pub name: AttrValue,
    #[prop_or_default]
    pub class: Classes,
    /// For a button that stays pressed.
    #[prop_or_default]
    pub pressed: Option<bool>,
    #[prop_or_default]
    pub disabled: bool,
    pub onclick: Callback<()>,
}

#[component]
pub fn IconButton(props: &IconButtonProps) -> Html {
    let onclick = props.onclick.reform(|_: MouseEvent| ());
    let pressed = props.pressed.map(|pressed| if pressed { "true" } else { "false" });
    html! {
        <button type="button" class={classes!("icon", props.class.clone())} title={&props.name}
            aria-label={&props.name} aria-pressed={pressed} disabled={props.disabled} {onclick}>
            <Glyph icon={props.icon} />
        </button>
    }
}

#[derive(PartialEq, Properties)]
pub struct CommandButtonProps {
    /// The command's text; it is the button's name and tooltip too.
    pub command: AttrValue,
    pub label: AttrValue,
    #[prop_or_default]
    pub class: Classes,
}

/// Gives its command when pressed.
#[component]
pub fn CommandButton(props: &CommandButtonProps) -> Html {
    let store = use_store();
    let onclick = {
        let command = props.command.clone();
        Callback::from(move |_: MouseEvent| store.command(&command))
    };
    html! {
        <button type="button" class={props.class.clone()} title={&props.command} aria-label={&props.command} {onclick}>
            { &props.label }
        </button>
    }
}
