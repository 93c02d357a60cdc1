//! What was done to a node: a line on its card for a wrong clock and for each slow or cut link.

use std::rc::Rc;

use yew::prelude::*;

#[derive(PartialEq, Properties)]
pub struct FaultsProps {
    pub faults: Rc<[Rc<str>]>,
}

/// The card's own name tells of them too, so nobody needs the picture or its colour.
#[component]
pub fn Faults(props: &FaultsProps) -> Html {
    html! {
        <ul class="faults">
            { for props.faults.iter().map(|fault| html! {
                <li key={&**fault} title={fault.to_string()}>{ fault.as_ref() }</li>
            }) }
        </ul>
    }
}
