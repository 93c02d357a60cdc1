//! A name that shows what is known of its object.

use yew::prelude::*;

use crate::ui::store::use_store;
use crate::view::model::Focus;

#[derive(PartialEq, Properties)]
pub struct ChooseProps {
    pub focus: Focus,
    pub name: AttrValue,
}

#[component]
pub fn Choose(props: &ChooseProps) -> Html {
    let store = use_store();
    let name = format!("inspect {}", props.name);
    let onclick = {
        let focus = props.focus.clone();
        move |_: MouseEvent| store.choose(Some(focus.clone()))
    };
    html! {
        <button type="button" class="plain" title={name.clone()} aria-label={name} {onclick}>{ &props.name }</button>
    }
}
