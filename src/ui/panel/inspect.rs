//! What is known of the chosen server, client, replica or record.

use yew::prelude::*;

use super::events::tone;
use super::reason::Why;
use crate::ui::shared::Shared;
use crate::ui::store::use_slice;
use crate::view::model::Fact;

fn facts(facts: &[Fact]) -> Html {
    html! {
        <dl class="facts">
            { for facts.iter().map(|fact| html! {
                <div class={tone(fact.tone)}>
                    <dt>{ fact.name.as_ref() }</dt>
                    <dd>
                        { fact.value.as_ref() }
                        if let Some(question) = &fact.why {
                            <Why question={question.to_string()}
                                name={format!("Why is {} {}?", fact.name, fact.value)} />
                        }
                    </dd>
                </div>
            }) }
        </dl>
    }
}

#[component]
pub fn Inspect() -> Html {
    let inspected = use_slice(|shown| shown.model.inspected.as_ref().map(Shared::new));
    let content = match &inspected {
        None => html! {
            <p key="none" class="dim">{ "Choose a broker, a controller, a client, a replica or one of its records on the stage." }</p>
        },
        Some(view) => html! {
            <div key="one">
                <h3 class="object">{ view.title.as_ref() }</h3>
                if let Some(question) = &view.idle {
                    <Why key="idle" question={question.to_string()}
                        name={format!("Why is nothing happening at {}?", view.title)} label="Why is nothing happening?" />
                }
                { facts(&view.facts) }
                { for view.sections.iter().map(|section| html! {
                    <section key={section.title}>
                        <h4>{ section.title }</h4>
                        { facts(&section.facts) }
                    </section>
                }) }
                if let Some(story) = &view.story {
                    <h4>{ "What became of it" }</h4>
                    if story.title != view.title {
                        <p>{ story.title.as_ref() }</p>
                    }
                    <ol class="story">
                        { for story.lines.iter().map(|(time, text)| html! {
                            <li><time>{ time.to_string() }</time><span>{ text.as_ref() }</span></li>
                        }) }
                    </ol>
                    { for story.now.iter().map(|sentence| html! { <p>{ sentence.as_ref() }</p> }) }
                }
                if let Some(bytes) = &view.bytes {
                    <h4>{ "The batch's bytes" }</h4>
                    <pre class="bytes" tabindex="0">{ bytes.as_ref() }</pre>
                }
            </div>
        },
    };
    html! { <div class="inspect">{ content }</div> }
}
