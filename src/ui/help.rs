//! The list of keys, the marks of the stage, and every form of command.

use yew::prelude::*;

use super::keys;
use crate::lab::command::FORMS;

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
                <div><dt><i class="sample lso"></i></dt><dd>{ "last stable offset (LSO): readers of committed data come up to here" }</dd></div>
                <div><dt><i class="sample open"></i></dt><dd>{ "an open transaction, from its first record to its newest" }</dd></div>
                <div><dt><i class="sample open hanging"></i></dt><dd>{ "one that hangs: no coordinator is going to end it" }</dd></div>
                <div><dt><i class="sample commit-marker"></i></dt><dd>{ "the control record that commits a transaction; A: the one that aborts it. They have offsets, and no consumer gets them" }</dd></div>
                <div><dt><i class="sample aborted"></i></dt><dd>{ "struck: a record of an aborted transaction, which readers of committed data pass over" }</dd></div>
                <div><dt><i class="sample pending-offset"></i></dt><dd>{ "dashed flag: an offset that becomes the group's when its transaction is committed" }</dd></div>
                <div><dt><i class="sample flag"></i></dt><dd>{ "filled flag: the offset a group has committed; hollow flag: a consumer's position" }</dd></div>
            </dl>
            <p>{ "e0 beside a role is the leader epoch: it grows by one with each new leader of the partition." }</p>
            <h3>{ "Commands" }</h3>
            <p>{ "A button gives one of these lines and shows it at the foot of the page, where you can type any of them." }</p>
            <ul class="commands">
                { for FORMS.iter().map(|form| html! {
                    <li key={form.example}><code>{ form.example }</code>{ format!(" {}", form.what) }</li>
                }) }
            </ul>
        </div>
    }
}
