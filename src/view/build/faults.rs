//! What a person did to a node that its state does not show: a wrong clock, slow and cut links.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::kafka::types::NodeId;
use crate::lab::words::duration;
use crate::sim::World;

/// The faults of each node that has any, in words.
#[derive(Debug, Default)]
pub struct Faults(BTreeMap<NodeId, Vec<Rc<str>>>);

impl Faults {
    pub fn of(world: &World) -> Faults {
        let mut faults = Faults::default();
        for (node, process) in world.processes() {
            let ahead_ms = process.clock_ahead_ms;
            if ahead_ms != 0 {
                let way = if ahead_ms > 0 { "ahead" } else { "behind" };
                faults.add(node, format!("clock {} {way}", duration(ahead_ms.saturating_abs())));
            }
        }
        for ((a, b), by_us) in world.delays_us() {
            faults.add(a, format!("{} slower to {}", delay(by_us), name(world, b)));
            faults.add(b, format!("{} slower to {}", delay(by_us), name(world, a)));
        }
        for (a, b) in world.cuts() {
            faults.add(a, format!("cut off from {}", name(world, b)));
            faults.add(b, format!("cut off from {}", name(world, a)));
        }
        faults
    }

    pub fn of_node(&self, node: impl Into<NodeId>) -> Rc<[Rc<str>]> {
        self.0.get(&node.into()).cloned().unwrap_or_default().into()
    }

    fn add(&mut self, node: NodeId, fault: String) {
        self.0.entry(node).or_default().push(fault.into());
    }
}

fn delay(us: i64) -> String {
    if us < 1000 { format!("{us} us") } else { duration(us / 1000) }
}

fn name(world: &World, node: NodeId) -> String {
    match (node, world.process(node)) {
        (NodeId::Client(_), Some(process)) => process.name.to_string(),
        (node, _) => node.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::sentences;

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    fn words(faults: &[Rc<str>]) -> String {
        faults.join("; ")
    }

    #[test]
    fn both_ends_of_a_link_tell_of_it_and_a_node_tells_of_its_clock() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(15_000), u64::MAX);
        let give = |session: &mut Session, text: &str| session.command(text).expect(text);
        give(&mut session, "slow broker 2 to broker 3 by 200ms");
        give(&mut session, "cut broker 1 from consumer-a");
        give(&mut session, "set clock of broker 2 ahead by 5min");
        give(&mut session, "set clock of controller 101 behind by 1500ms");
        let shown = model(&session, None, None);
        let broker = |id: i32| shown.brokers.iter().find(|broker| broker.id.0 == id).expect("it is there");
        assert_eq!(words(&broker(2).faults), "clock 5 min ahead; 200 ms slower to broker 3");
        assert_eq!(words(&broker(3).faults), "200 ms slower to broker 2");
        assert_eq!(words(&broker(1).faults), "cut off from consumer-a");
        assert_eq!(words(&shown.controllers[0].faults), "clock 1.5 s behind");
        let member = shown.groups.iter().flat_map(|group| group.members.iter()).next().expect("a consumer");
        assert_eq!(words(&member.faults), "cut off from broker 1");
        assert!(sentences::broker(broker(2)).ends_with("; clock 5 min ahead; 200 ms slower to broker 3."));
        give(&mut session, "slow broker 2 to broker 3 by 0ms");
        give(&mut session, "set clock of broker 2 right");
        let shown = model(&session, None, Some(&shown));
        assert!(
            shown.brokers.iter().filter(|broker| broker.id.0 != 1).all(|broker| broker.faults.is_empty())
        );
    }
}
