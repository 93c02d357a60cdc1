//! Questions for a reason, of all that there is.

use super::cluster::{leaders, partitions};
use crate::kafka::types::ClientName;
use crate::lab::command::Why;
use crate::view::model::Model;

/// The newest line of the narrative first, then partitions and their newest records, servers, clients and groups.
pub fn reasons(model: &Model) -> Vec<Why> {
    let newest = model.sentences.last().map(|sentence| Why::Event(sentence.number));
    let of_partitions = partitions(model).flat_map(|tp| {
        let idle = Why::Idle(tp.to_string());
        [
            Why::Isr(tp.clone()),
            Why::HighWatermark(tp.clone()),
            Why::Leader(tp.clone()),
            Why::LogStart(tp),
            idle,
        ]
    });
    let of_records = leaders(model).into_iter().filter_map(|leader| {
        let (of, number) = (leader.tp.to_string(), leader.cells.last()?.offset.0);
        Some([Why::ReadTwice { of: of.clone(), number }, Why::Lost { of, number }])
    });
    let brokers = model.brokers.iter().map(|broker| Why::Broker(broker.id));
    let controllers = model.controllers.iter().map(|controller| Why::Controller(controller.id));
    newest
        .into_iter()
        .chain(of_partitions)
        .chain(of_records.flatten())
        .chain(brokers)
        .chain(controllers)
        .chain(of_clients(model))
        .collect()
}

fn of_clients(model: &Model) -> Vec<Why> {
    let mut reasons = Vec::new();
    for producer in model.producers.iter() {
        reasons.push(Why::Idle(producer.name.to_string()));
        reasons.push(Why::Client(ClientName::new(&producer.name)));
    }
    for group in model.groups.iter() {
        for member in group.members.iter() {
            let client = ClientName::new(&member.name);
            reasons.push(Why::Idle(member.name.to_string()));
            reasons.push(Why::Client(client.clone()));
            reasons.push(Why::OwnsNothing(client));
        }
        if !group.is_group() {
            continue;
        }
        let id = &group.id;
        reasons.extend([Why::IdleGroup(id.clone()), Why::Group(id.clone())]);
        for consumed in group.members.iter().flat_map(|member| member.partitions.iter()) {
            let (group, tp) = (id.clone(), consumed.tp.clone());
            reasons.push(Why::Lag { group: group.clone(), tp: tp.clone() });
            reasons.push(Why::Committed { group, tp });
        }
    }
    reasons
}
