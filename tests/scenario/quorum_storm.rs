//! Storms over a quorum of five whose elections collide often: at most one leader an epoch, committed records are never
//! lost or changed, and when all is healed there is one leader and one image.

use glassbroker::kafka::random::Random;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{BrokerId, ControllerId, NodeId, Topic};
use glassbroker::sim::{Command, Target, World, WorldConfig};

use crate::dsl::{Cluster, config, controller};
use crate::invariants::{QuorumWatch, unrest_of_quorum};

const STORM_MS: i64 = 40_000;

struct Storm {
    c: Cluster,
    watch: QuorumWatch,
    random: Random,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let pairs = [
            ("controller.quorum.election.timeout.ms", "150"),
            ("controller.quorum.fetch.timeout.ms", "400"),
            ("controller.quorum.election.backoff.max.ms", "100"),
        ];
        let mut world = World::new(WorldConfig {
            seed,
            strict: true,
            latency_us: 1_000..=60_000,
            controllers: (101..=105).map(ControllerId).collect(),
            broker_config: config(&pairs),
            ..WorldConfig::default()
        })
        .expect("valid configs");
        world.run_until(Time::from_ms(5_000));
        let mut c = Cluster { world };
        let topic = Topic::new("t");
        c.give(Command::CreateTopic { topic, partitions: 1, replication_factor: 3, config: config(&[]) });
        Storm { c, watch: QuorumWatch::default(), random: Random::stream(seed, "quorum storm") }
    }

    fn run_ms(&mut self, ms: i64) {
        let end = self.c.world.now().plus_ms(ms);
        while self.c.world.next_at().is_some_and(|at| at <= end) {
            self.c.world.step();
            if self.c.world.events_done().is_multiple_of(5)
                && let Some(fault) = self.watch.fault(&self.c)
            {
                panic!("{fault}\n{}", self.c.report());
            }
        }
        self.c.world.advance_to(end);
    }

    fn controller(&mut self) -> Target {
        controller(self.random.between(101, 105) as i32)
    }

    /// One act drawn at random; one that is not possible now is let be.
    fn act(&mut self) {
        let (a, b) = (self.controller(), self.controller());
        let command = match self.random.below(12) {
            0 | 1 => Command::Kill(a),
            2..=4 => Command::Start(a),
            5 => Command::Freeze(a),
            6 => Command::Thaw(a),
            7 | 8 => Command::Cut { a, b },
            9 | 10 => Command::Heal { a, b },
            _ => Command::Cut { a, b: Target::Broker(BrokerId(self.random.between(1, 3) as i32)) },
        };
        let _ = self.c.try_give(command);
        // Something for the log.
        let value = Some(self.random.between(1, 3).to_string());
        let key = "min.insync.replicas".to_string();
        self.c.give(Command::SetTopicConfig { topic: "t".into(), key, value });
    }

    fn heal(&mut self) {
        let target = |node: NodeId| match node {
            NodeId::Controller(id) => Some(Target::Controller(id)),
            NodeId::Broker(id) => Some(Target::Broker(id)),
            NodeId::Client(_) => None,
        };
        let cuts: Vec<_> = self.c.world.cuts().collect();
        for (a, b) in cuts {
            if let (Some(a), Some(b)) = (target(a), target(b)) {
                self.c.give(Command::Heal { a, b });
            }
        }
        for id in 101..=105 {
            let _ = self.c.try_give(Command::Thaw(controller(id)));
            let _ = self.c.try_give(Command::Start(controller(id)));
        }
    }
}

fn storm(seed: u64) {
    let mut storm = Storm::new(seed);
    let end = storm.c.now_ms() + STORM_MS;
    while storm.c.now_ms() < end {
        let pause_ms = storm.random.between(1, 600);
        storm.run_ms(pause_ms);
        storm.act();
    }
    storm.heal();
    // Until the last heartbeat that hangs is given up, and the broker it was from is unfenced again.
    for _ in 0..40 {
        storm.run_ms(1_000);
        let unrest = unrest_of_quorum(&storm.c);
        if unrest.is_none() && (1..=3).all(|id| storm.c.is_in_service(id)) {
            return;
        }
    }
    panic!("no rest: {:?}\n{}", unrest_of_quorum(&storm.c), storm.c.report());
}

#[test]
fn a_quorum_keeps_what_it_committed_through_any_storm_r_ctrl_2_5() {
    (0..25).for_each(storm);
}
