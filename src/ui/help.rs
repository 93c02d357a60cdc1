//! The list of keys and the marks of the stage.

use yew::prelude::*;

use super::keys;

/// Commands that are only typed, and what each does.
const COMMANDS: [(&str, &str); 3] = [
    ("cut power of broker 2", "ends it, tells nobody, and loses what it had not flushed"),
    ("wipe disk of broker 2", "leaves a dead broker without any data"),
    ("delete records of orders-0 before 40", "lets a partition's log begin there"),
];

#[component]
pub fn Help() -> Html {
    html! {
        <div class="help">
            <h3>{ "Keys" }</h3>
            <dl class="keys">
                { for keys::LIST.iter().map(|(key, what)| html! {
                    <div key={*key}><dt><kbd>{ *key }</kbd></dt><dd>{ *what }</dd></div>
                }) }
            </dl>
            <h3>{ "What the marks mean" }</h3>
            <dl class="legend">
                <div><dt><i class="sample filled"></i></dt><dd>{ "a committed record, coloured by its key: below the high watermark, so consumers can read it" }</dd></div>
                <div><dt><i class="sample outlined"></i></dt><dd>{ "a record above the high watermark: not all in-sync replicas have it yet" }</dd></div>
                <div><dt><i class="sample gold"></i></dt><dd>{ "gold outline: the partition's leader" }</dd></div>
                <div><dt><i class="sample lagging"></i></dt><dd>{ "dashed: a replica that is not in the in-sync set, with the reason" }</dd></div>
                <div><dt><i class="sample offline"></i></dt><dd>{ "hatched: its broker is down" }</dd></div>
                <div><dt><i class="sample hw"></i></dt><dd>{ "high watermark (HW)" }</dd></div>
                <div><dt><i class="sample leo"></i></dt><dd>{ "log end offset (LEO)" }</dd></div>
                <div><dt><i class="sample start"></i></dt><dd>{ "log start: records before it are deleted" }</dd></div>
                <div><dt><i class="sample flag"></i></dt><dd>{ "filled flag: the offset a group has committed; hollow flag: a consumer's position" }</dd></div>
            </dl>
            <p>{ "e0 beside a role is the leader epoch: it grows by one with each new leader of the partition." }</p>
            <h3>{ "Commands" }</h3>
            <p>{ "Every button gives one line of text, shown at the foot of the page. You can type the same lines there." }</p>
            <p>{ "These have no button:" }</p>
            <ul class="commands">
                { for COMMANDS.iter().map(|(line, what)| html! {
                    <li key={*line}><code>{ *line }</code>{ format!(" {what}") }</li>
                }) }
            </ul>
        </div>
    }
}
