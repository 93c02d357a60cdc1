//! What the run is made of: seed, classroom settings, commands so far; and how long it can go on.

use yew::prelude::*;

use crate::ui::store::use_slice;

#[component]
pub fn Run() -> Html {
    let name = use_slice(|shown| shown.name.clone());
    let outlook = use_slice(|shown| shown.outlook.clone());
    let scenario = use_slice(|shown| shown.model.scenario.clone());
    html! {
        <div class="about-run">
            <dl key="seed" class="facts">
                <div><dt>{ "scenario" }</dt><dd>{ name.as_ref() }</dd></div>
                <div><dt>{ "seed" }</dt><dd>{ scenario.seed }</dd></div>
                <div><dt>{ "latency" }</dt><dd>{ scenario.latency.as_ref() }</dd></div>
            </dl>
            <p key="exact" class="dim">
                { "Scenario, seed and commands are the whole run: it can be repeated exactly." }
            </p>
            <p key="outlook" class="dim">{ outlook.as_ref() }</p>
            <h3 key="settings-head">{ "Classroom settings" }</h3>
            <p key="settings-lead" class="dim">
                { if scenario.settings.is_empty() { "None: everything has Kafka's own default." }
                  else { "Values that depart from Kafka's own defaults." } }
            </p>
            <ul key="settings" class="settings">
                { for scenario.settings.iter().map(|setting| html! {
                    <li key={format!("{} {}", setting.scope, setting.key)}>
                        <code>{ format!("{}={}", setting.key, setting.value) }</code>
                        <span class="dim">{ format!("{}; Kafka's default {}", setting.scope, setting.kafka_default) }</span>
                    </li>
                }) }
            </ul>
            <h3 key="journal-head">{ "Commands so far" }</h3>
            <ol key="journal" class="journal">
                { for scenario.journal.iter().enumerate().map(|(index, (time, text))| html! {
                    <li key={index}><time>{ time.to_string() }</time><code>{ text.as_ref() }</code></li>
                }) }
            </ol>
        </div>
    }
}
