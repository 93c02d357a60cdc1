//! Faults, drawn one after the other.
//!
//! **Invariant:** an act depends on the seed and on what the world was when it was drawn, so that a seed is one run.

use super::plan::{Plan, chance, pick};
use super::{errands, producers, programs, transactions};
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, ClientName, NodeId, TopicPartition};
use crate::sim::{ADMIN, Command, Target, World};

/// What happens next. Each command is given if it is possible then, and let be if it is not.
pub enum Act {
    Give(Vec<Command>),
    /// A server is killed and comes back so much later.
    Restart {
        target: Target,
        after_ms: i64,
    },
    /// Somebody is killed as soon as a coordinator acts upon a transaction's end, if that is within this time.
    AtDecision {
        hit: Hit,
        within_ms: i64,
    },
    /// All faults end.
    Heal,
}

/// Who is hit when a transaction's end is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    Coordinator,
    /// Who leads a partition that is to be marked, as the controller has it.
    Leader,
}

const MINUTE_MS: i64 = 60_000;
/// On a seed with errands, so many acts of a hundred are one.
const ERRANDS: u64 = 25;
/// So many acts of a hundred are done to clients, which keep running.
const CLIENTS: u64 = 15;

/// The longest pause before the next act, in milliseconds.
pub fn pause_ms(random: &mut Random) -> i64 {
    let longest_ms = *pick(random, &[300, 3_000, 12_000, 30_000]);
    random.between(1, longest_ms)
}

/// Draws what happens to the world as it is.
pub fn draw(random: &mut Random, plan: &Plan, world: &World) -> Act {
    if !plan.errands.is_empty() && chance(random, ERRANDS) {
        return Act::Give(errands::draw(random, plan, world));
    }
    if chance(random, CLIENTS) {
        return Act::Give(vec![of_client(random, plan, world)]);
    }
    if let Some(act) = transactions::draw(random, plan, world) {
        return act;
    }
    let command = match random.below(100) {
        0..9 => return restart(random, plan),
        9..15 => return Act::Heal,
        15..21 => Command::Kill(server(random, plan)),
        21..24 => Command::CutPower(server(random, plan)),
        24 => return Act::Give(wipe(random, plan)),
        25..38 => Command::Start(server(random, plan)),
        38..43 => Command::Stop(broker(random, plan)),
        43..50 => Command::Freeze(anybody(random, plan)),
        50..59 => Command::Thaw(anybody(random, plan)),
        59..67 => Command::Cut { a: anybody(random, plan), b: server(random, plan) },
        67..75 => Command::Heal { a: anybody(random, plan), b: server(random, plan) },
        75..78 => return Act::Give(isolation(random, plan, world)),
        78..82 => slow(random, plan),
        82..86 => set_clock(random, plan),
        86..91 => come_or_go(random, plan),
        91..94 => set_min_isr(random, plan),
        94..97 => reassign(random, plan, world),
        _ => elect(random, plan, world),
    };
    Act::Give(vec![command])
}

/// Everything that ends all faults in this world.
pub fn healing(plan: &Plan, world: &World) -> Vec<Command> {
    let mut commands = Vec::new();
    let ends = |a: NodeId, b: NodeId| Some((target(world, a)?, target(world, b)?));
    for (a, b) in world.cuts().filter_map(|(a, b)| ends(a, b)) {
        commands.push(Command::Heal { a, b });
    }
    for (a, b) in world.delays_us().filter_map(|((a, b), _)| ends(a, b)) {
        commands.push(Command::Slow { a, b, by_us: 0 });
    }
    for (node, process) in world.processes() {
        let Some(target) = target(world, node) else { continue };
        if process.clock_ahead_ms != 0 {
            commands.push(Command::SetClock { target: target.clone(), ahead_ms: 0 });
        }
        if process.is_frozen() {
            commands.push(Command::Thaw(target));
        } else if process.is_dead() && !matches!(node, NodeId::Client(_)) {
            commands.push(Command::Start(target));
        }
    }
    commands.extend(plan.producers.iter().map(|producer| Command::Resume(producer.spec.name.clone())));
    commands.extend(programs::wake_ups(plan.consumers.iter(), world));
    commands
}

/// What a command calls a process; `None` for the administrator, whom nothing happens to.
fn target(world: &World, node: NodeId) -> Option<Target> {
    match node {
        NodeId::Broker(id) => Some(Target::Broker(id)),
        NodeId::Controller(id) => Some(Target::Controller(id)),
        NodeId::Client(_) => {
            let name = &world.process(node)?.name;
            (name.as_str() != ADMIN).then(|| Target::Client(name.clone()))
        }
    }
}

fn broker(random: &mut Random, plan: &Plan) -> BrokerId {
    pick(random, &plan.world.brokers).0
}

/// The more controllers there are, the more often one of them is hit.
fn server(random: &mut Random, plan: &Plan) -> Target {
    let controllers = &plan.world.controllers;
    let percent = if controllers.len() > 1 { 40 } else { 10 };
    match chance(random, percent) {
        true => Target::Controller(*pick(random, controllers)),
        false => Target::Broker(broker(random, plan)),
    }
}

fn client(random: &mut Random, plan: &Plan) -> Target {
    let producers = plan.producers.iter().map(|producer| &producer.spec.name);
    let names = producers.chain(plan.consumers.iter().map(|consumer| &consumer.name));
    let names = names.chain(plan.shares.consumers.iter().map(|consumer| &consumer.name));
    let workers = plan.transactions.applications.iter().map(|worker| &worker.name);
    let names: Vec<_> = names.chain(workers).collect();
    Target::Client((*pick(random, &names)).clone())
}

fn anybody(random: &mut Random, plan: &Plan) -> Target {
    if chance(random, 25) { client(random, plan) } else { server(random, plan) }
}

fn restart(random: &mut Random, plan: &Plan) -> Act {
    Act::Restart { target: server(random, plan), after_ms: random.between(0, 500) }
}

/// A broker dies, and everything on its disk is gone.
fn wipe(random: &mut Random, plan: &Plan) -> Vec<Command> {
    let broker = broker(random, plan);
    vec![Command::Kill(Target::Broker(broker)), Command::WipeDisk(broker)]
}

/// A server that no other server hears any more; or a leader that only the controllers do not hear, which leads on for its
/// followers and clients until they hear of the next one.
fn isolation(random: &mut Random, plan: &Plan, world: &World) -> Vec<Command> {
    if chance(random, 50)
        && let Some(leader) = leader(random, plan, world)
    {
        let controllers = plan.world.controllers.iter().map(|id| Target::Controller(*id));
        return controllers.map(|b| Command::Cut { a: Target::Broker(leader), b }).collect();
    }
    let a = server(random, plan);
    let servers = world.processes().filter(|(node, _)| !matches!(node, NodeId::Client(_)));
    let others = servers.filter_map(|(node, _)| target(world, node)).filter(|b| *b != a);
    others.map(|b| Command::Cut { a: a.clone(), b }).collect()
}

/// Who leads some partition now.
fn leader(random: &mut Random, plan: &Plan, world: &World) -> Option<BrokerId> {
    let partition = partition(random, plan, world);
    let registration = world.active_controller()?.image().partition(&partition)?;
    registration.leader.is_some().then_some(registration.leader)
}

fn slow(random: &mut Random, plan: &Plan) -> Command {
    let by_us = *pick(random, &[0, 0, 50_000, 200_000, 1_000_000, 5_000_000]);
    Command::Slow { a: anybody(random, plan), b: server(random, plan), by_us }
}

fn set_clock(random: &mut Random, plan: &Plan) -> Command {
    let ahead_ms =
        *pick(random, &[0, 0, -10 * MINUTE_MS, -MINUTE_MS, 500, MINUTE_MS, 10 * MINUTE_MS, 90 * MINUTE_MS]);
    Command::SetClock { target: anybody(random, plan), ahead_ms }
}

/// What a person does to a client that runs, or that has ended.
fn of_client(random: &mut Random, plan: &Plan, world: &World) -> Command {
    let Target::Client(name) = client(random, plan) else { unreachable!("a client was drawn") };
    match plan.producers.iter().find(|producer| producer.spec.name == name) {
        Some(producer) => producers::draw(random, producer, world),
        None if world.consumer(&name).is_some() => programs::draw(random, name),
        None => comes(plan, name),
    }
}

fn come_or_go(random: &mut Random, plan: &Plan) -> Command {
    let Target::Client(name) = client(random, plan) else { unreachable!("a client was drawn") };
    let produces = plan.producers.iter().any(|producer| producer.spec.name == name);
    match random.below(5) {
        0 if produces => Command::Pause(name),
        _ if produces => Command::Resume(name),
        0 => Command::Crash(name),
        1 => Command::Close(name),
        _ => comes(plan, name),
    }
}

/// The command that brings in a client that consumes.
fn comes(plan: &Plan, name: ClientName) -> Command {
    if let Some(spec) = plan.shares.find(&name) {
        return Command::AddShareConsumer(spec.clone());
    }
    if let Some(spec) = plan.transactions.find(&name) {
        return Command::AddApplication(spec.clone());
    }
    let spec = plan.consumers.iter().find(|consumer| consumer.name == name);
    Command::AddConsumer(spec.expect("who does not produce consumes").clone())
}

fn set_min_isr(random: &mut Random, plan: &Plan) -> Command {
    let topic = pick(random, &plan.topics).name.clone();
    let value = Some(random.between(1, 3).to_string());
    Command::SetTopicConfig { topic, key: "min.insync.replicas".to_string(), value }
}

fn partition(random: &mut Random, plan: &Plan, world: &World) -> TopicPartition {
    let planned = pick(random, &plan.topics);
    let topic = world.active_controller().and_then(|controller| controller.image().topic(&planned.name));
    let count = topic.map_or(planned.partitions as u64, |topic| topic.partitions.len() as u64);
    TopicPartition::new(&planned.name, random.below(count) as i32)
}

fn reassign(random: &mut Random, plan: &Plan, world: &World) -> Command {
    let partition = partition(random, plan, world);
    if chance(random, 25) {
        return Command::CancelReassignment(partition);
    }
    let mut brokers: Vec<BrokerId> = plan.world.brokers.iter().map(|(id, _)| *id).collect();
    let count = 1 + random.below(brokers.len().min(4) as u64) as usize;
    let replicas = (0..count).map(|_| brokers.remove(random.below(brokers.len() as u64) as usize)).collect();
    Command::Reassign { partition, replicas }
}

fn elect(random: &mut Random, plan: &Plan, world: &World) -> Command {
    let kind = if chance(random, 80) { ElectionType::Preferred } else { ElectionType::Unclean };
    let partition = chance(random, 50).then(|| partition(random, plan, world));
    Command::ElectLeader { kind, partition }
}
