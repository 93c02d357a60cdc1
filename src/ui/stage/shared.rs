//! The partitions of a share group: from where on, and who has which records for how long.

use yew::prelude::*;

use crate::view::model::{RunView, SharedView};
use crate::view::sentences;

pub fn shared_table(partitions: &[SharedView]) -> Html {
    html! {
        <div class="consumed shared">
            <table>
                <thead>
                    <tr>
                        <th scope="col"><span class="unseen">{ "partition" }</span></th>
                        <th scope="col">{ "start" }</th><th scope="col">{ "lag" }</th>
                        <th scope="col">{ "in flight" }</th>
                    </tr>
                </thead>
                <tbody>{ for partitions.iter().map(partition) }</tbody>
            </table>
        </div>
    }
}

fn partition(view: &SharedView) -> Html {
    html! {
        <tr key={view.tp.to_string()}>
            <th scope="row">{ view.tp.to_string() }</th>
            <td>{ view.start.to_string() }</td>
            <td>{ view.lag }</td>
            <td class="runs">{ for view.runs.iter().map(run) }</td>
        </tr>
    }
}

fn run(view: &RunView) -> Html {
    html! {
        <span key={view.first.0} class={classes!("chip", "run", view.state)} title={sentences::run(view)}>
            { sentences::run_in_short(view) }
        </span>
    }
}
