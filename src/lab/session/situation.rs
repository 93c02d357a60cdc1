//! What is under way in a run, by which the automatic speed goes.

use super::Session;
use crate::kafka::protocol::{ApiKey, Response};
use crate::kafka::raft::{METADATA_TOPIC_ID, says_anything};
use crate::kafka::types::{BrokerId, ControllerId, NodeId};
use crate::lab::pace::Situation;
use crate::sim::{Flight, Packet, World};

impl Session {
    /// What the automatic speed looks at.
    pub fn situation(&self) -> Situation {
        let (mut batches, mut group_requests, mut cluster_requests) = (0, 0, 0);
        for flight in self.world.flights() {
            match kind(&flight) {
                FlightKind::Batch => batches += 1,
                FlightKind::Group => group_requests += 1,
                FlightKind::Cluster => cluster_requests += 1,
                FlightKind::Routine => {}
            }
        }
        Situation {
            now: self.now(),
            batches,
            group_requests,
            cluster_requests,
            rebalancing: !self.rebalancing.is_empty(),
            missing: someone_is_missing(&self.world),
            changed_at: self.changed_at,
            next_at: self.due.get(self.due.partition_point(|at| *at <= self.now())).copied(),
        }
    }
}

enum FlightKind {
    Batch,
    Group,
    Cluster,
    Routine,
}

fn kind(flight: &Flight) -> FlightKind {
    match (flight.api(), &flight.packet) {
        (Some(ApiKey::Produce), Packet::Request { .. }) => FlightKind::Batch,
        (Some(ApiKey::Fetch | ApiKey::ShareFetch), Packet::Response { response, .. })
            if carries_records(response) =>
        {
            FlightKind::Batch
        }
        (Some(ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::LeaveGroup), _) => FlightKind::Group,
        (
            Some(ApiKey::BrokerRegistration | ApiKey::AlterPartition | ApiKey::CreateTopics | ApiKey::Vote),
            _,
        ) => FlightKind::Cluster,
        _ => FlightKind::Routine,
    }
}

/// A broker or a member is dead or frozen, and the controller or the coordinator still counts on it; or the active
/// controller is, and the others will elect another.
fn someone_is_missing(world: &World) -> bool {
    let gone = |node: NodeId| world.process(node).is_some_and(|process| !process.is_running());
    let alive =
        |id: &BrokerId| world.active_controller().is_some_and(|controller| controller.image().is_alive(*id));
    let mut nodes = world.processes().map(|(node, _)| node);
    let broker = nodes.any(|node| matches!(node, NodeId::Broker(id) if gone(node) && alive(&id)));
    broker || lacks_controller(world) || {
        let running = world.processes().filter_map(|(node, process)| match (node, process.is_running()) {
            (NodeId::Broker(id), true) => world.broker(id),
            _ => None,
        });
        let mut members =
            running.flat_map(|broker| broker.groups().groups()).flat_map(|group| group.members.values());
        members.any(|member| world.node_of(&member.client).is_some_and(gone))
    }
}

/// No controller is active, though enough of them run to elect one.
fn lacks_controller(world: &World) -> bool {
    let voters = &world.config().controllers;
    let runs = |id: ControllerId| world.process(id).is_some_and(|process| process.is_running());
    let majority = voters.iter().filter(|id| runs(**id)).count() > voters.len() / 2;
    let active = world.active_controller().is_some_and(|controller| runs(controller.id()));
    majority && !active
}

fn carries_records(response: &Response) -> bool {
    let fetch = match response {
        Response::Fetch(fetch) => fetch,
        Response::ShareFetch(fetch) => {
            let mut partitions = fetch.responses.iter().flat_map(|topic| &topic.partitions);
            return partitions.any(|partition| !partition.records.is_empty());
        }
        _ => return false,
    };
    fetch.responses.iter().any(|topic| {
        let all = topic.partitions.iter().filter_map(|partition| partition.records.as_ref());
        let of_metadata = topic.topic_id == METADATA_TOPIC_ID.0;
        all.filter(|records| !records.is_empty()).any(|records| !of_metadata || says_anything(records))
    })
}
