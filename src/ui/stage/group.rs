//! A consumer group: its state at the coordinator, and its members.

use yew::prelude::*;

use super::consumer::Consumer;
use super::shared::shared_table;
use crate::lab::command;
use crate::ui::panel::events::tone;
use crate::ui::panel::reason::Why;
use crate::ui::shared::Shared;
use crate::ui::store::use_store;
use crate::view::act;
use crate::view::model::GroupView;
use crate::view::sentences;

#[derive(PartialEq, Properties)]
pub struct GroupProps {
    pub view: Shared<GroupView>,
}

#[component]
pub fn Group(props: &GroupProps) -> Html {
    let view = &props.view;
    let store = use_store();
    let onclick = {
        let view = view.clone();
        Callback::from(move |_: MouseEvent| store.command(&act::add_consumer(&store.shown().model, &view)))
    };
    html! {
        <section class="group" aria-label={sentences::group(view)}>
            <div key="head" class="group-head">
                <h3>{ view.title() }</h3>
                <span class="dim">{ view.standing() }</span>
                <span class={classes!("pill", tone(view.tone))}>{ view.state.as_ref() }</span>
                <span class="waiting">{ view.waiting.as_deref().unwrap_or("").to_owned() }</span>
                if view.is_group() {
                    <Why question={command::Why::IdleGroup(view.id.clone()).to_string()}
                        name={format!("Why is nothing happening in {}?", view.title())} />
                }
                <button type="button" class="quiet" aria-label={act::adding_a_consumer(view)} {onclick}>
                    { "+ consumer" }
                </button>
            </div>
            if !view.shared.is_empty() {
                { shared_table(&view.id, &view.shared) }
            }
            <div key="members" class="members">
                { for view.members.iter().map(|member| html! {
                    <Consumer key={member.name.to_string()} view={Shared::new(member)}
                        group={view.is_group().then(|| view.id.clone())} />
                }) }
            </div>
        </section>
    }
}
