//! The world's processes, sorted by what they are.

use std::collections::BTreeMap;

use super::broker::{BrokerProcess, BrokerSource};
use super::client::ClientSource;
use super::group::GroupAt;
use super::share::ShareGroupSource;
use crate::client::application::Application;
use crate::client::consumer::Consumer;
use crate::client::producer::Producer;
use crate::client::share_consumer::ShareConsumer;
use crate::kafka::controller::Controller;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::types::{BrokerId, ControllerId, GroupId, NodeId};
use crate::sim::{Machine, Process, ProcessState, Remains, World};
use crate::view::model::Health;

pub struct Sources<'a> {
    pub controllers: Vec<(ControllerId, Option<&'a Controller>, Health)>,
    /// The newest that is known of the cluster: a controller's, or while all are down a broker's.
    pub image: &'a ClusterImage,
    pub brokers: Vec<BrokerSource<'a>>,
    pub producers: Vec<ClientSource<'a, Producer>>,
    /// With those of applications.
    pub consumers: Vec<ClientSource<'a, Consumer>>,
    pub applications: BTreeMap<NodeId, &'a Application>,
    pub share_consumers: Vec<ClientSource<'a, ShareConsumer>>,
}

/// A group, where it is coordinated, and its living consumers.
pub type GroupSource<'s, 'a> =
    (GroupId, Option<(BrokerId, GroupAt<'a>)>, Vec<&'s ClientSource<'a, Consumer>>);

impl<'a> Sources<'a> {
    /// `nothing` stands for the image while nobody has one.
    pub fn of(world: &'a World, nothing: &'a ClusterImage) -> Sources<'a> {
        let mut sources = Sources {
            controllers: Vec::new(),
            image: world.newest_image().unwrap_or(nothing),
            brokers: Vec::new(),
            producers: Vec::new(),
            consumers: Vec::new(),
            applications: BTreeMap::new(),
            share_consumers: Vec::new(),
        };
        for (node, process) in world.processes() {
            sources.add(world, node, process);
        }
        sources
    }

    fn add(&mut self, world: &'a World, node: NodeId, process: &'a Process) {
        let health = health(process);
        match (node, &process.state, process.machine()) {
            (NodeId::Controller(id), _, Some(Machine::Controller(controller))) => {
                self.controllers.push((id, Some(controller), health));
            }
            (NodeId::Controller(id), ..) => self.controllers.push((id, None, health)),
            (NodeId::Broker(id), _, Some(Machine::Broker(broker))) => {
                let process = BrokerProcess::Alive { broker, frozen: process.is_frozen() };
                self.brokers.push(BrokerSource { id, rack: world.rack(id), process });
            }
            (NodeId::Broker(id), ProcessState::Dead(Remains::Broker(disk)), _) => {
                self.brokers.push(BrokerSource {
                    id,
                    rack: world.rack(id),
                    process: BrokerProcess::Dead(disk),
                });
            }
            (_, _, Some(Machine::Producer(client))) => {
                self.producers.push(ClientSource { node, health, client })
            }
            (_, _, Some(Machine::Consumer(client))) => {
                self.consumers.push(ClientSource { node, health, client })
            }
            (_, _, Some(Machine::Application(application))) => {
                self.consumers.push(ClientSource { node, health, client: application.consumer() });
                self.applications.insert(node, application);
            }
            (_, _, Some(Machine::ShareConsumer(client))) => {
                self.share_consumers.push(ClientSource { node, health, client })
            }
            _ => {}
        }
    }

    /// Likewise share groups.
    pub fn share_groups(&self) -> Vec<ShareGroupSource<'_, 'a>> {
        let mut groups: BTreeMap<GroupId, ShareGroupSource<'_, 'a>> = BTreeMap::new();
        let entry = |id: &GroupId| (id.clone(), None, Vec::new());
        for source in &self.share_consumers {
            let id = &source.client.spec().group;
            groups.entry(id.clone()).or_insert_with(|| entry(id)).2.push(source);
        }
        for broker in self.brokers.iter().filter_map(BrokerSource::alive) {
            for group in broker.groups().share_groups() {
                let id = &group.base.id;
                groups.entry(id.clone()).or_insert_with(|| entry(id)).1 = Some((broker.id(), &**group));
            }
        }
        groups.into_values().collect()
    }

    /// Groups that have a living consumer or are known to a coordinator, by name.
    pub fn groups(&self) -> Vec<GroupSource<'_, 'a>> {
        let mut groups: BTreeMap<GroupId, GroupSource<'_, 'a>> = BTreeMap::new();
        for source in &self.consumers {
            let id = &source.client.spec().group;
            let group = groups.entry(id.clone()).or_insert_with(|| (id.clone(), None, Vec::new()));
            group.2.push(source);
        }
        for broker in self.brokers.iter().filter_map(BrokerSource::alive) {
            let classic = broker.groups().groups().map(|group| (&group.id, GroupAt::Classic(group)));
            let modern = broker.groups().consumer_groups();
            let modern = modern.map(|group| {
                let assignor = broker.groups().assignor_of(group);
                (&group.base.id, GroupAt::Modern { group, image: self.image, assignor })
            });
            for (id, group) in classic.chain(modern) {
                let entry = groups.entry(id.clone()).or_insert_with(|| (id.clone(), None, Vec::new()));
                entry.1 = Some((broker.id(), group));
            }
        }
        groups.into_values().collect()
    }
}

fn health(process: &Process) -> Health {
    match process.state {
        ProcessState::Running(_) => Health::Running,
        ProcessState::Frozen { .. } => Health::Frozen,
        ProcessState::Dead(_) => Health::Dead,
    }
}
