//! The partitions of a share group: from where on, and who has which records for how long.

use yew::prelude::*;

use crate::kafka::types::GroupId;
use crate::ui::panel::reason::lag;
use crate::view::model::{RunView, SharedView};
use crate::view::sentences;

/// The roles are told since a narrow page lays the rows out as grids, of which browsers would not say that they are rows.
pub fn shared_table(group: &GroupId, partitions: &[SharedView]) -> Html {
    html! {
        <div class="consumed shared">
            <table role="table">
                <thead role="rowgroup">
                    <tr role="row">
                        <th role="columnheader" scope="col"><span class="unseen">{ "partition" }</span></th>
                        <th role="columnheader" scope="col" title="share-partition start offset: everything below is done">{ "SPSO" }</th>
                        <th role="columnheader" scope="col" title="share-partition end offset: nobody has had what lies from here on">{ "SPEO" }</th>
                        <th role="columnheader" scope="col">{ "lag" }</th>
                        <th role="columnheader" scope="col" class="runs">{ "in flight" }</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">{ for partitions.iter().map(|of| partition(group, of)) }</tbody>
            </table>
        </div>
    }
}

fn partition(group: &GroupId, view: &SharedView) -> Html {
    html! {
        <tr role="row" key={view.tp.to_string()}>
            <th role="rowheader" scope="row">{ view.tp.to_string() }</th>
            <td role="cell">{ view.start.to_string() }</td>
            <td role="cell">{ view.end.to_string() }</td>
            <td role="cell">{ lag(view.lag, Some(group), &view.tp) }</td>
            <td role="cell" class="runs">{ for view.runs.iter().map(run) }</td>
        </tr>
    }
}

fn run(view: &RunView) -> Html {
    html! {
        <span key={view.first.0} class={classes!("chip", "held", view.state)} title={sentences::run(view)}>
            { sentences::run_in_short(view) }
        </span>
    }
}
