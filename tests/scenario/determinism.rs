//! Same seed, same commands: the same run. And a copy of the world goes its own way.

use glassbroker::kafka::time::Time;
use glassbroker::sim::{Command, WorldConfig};

use crate::dsl::{Cluster, cluster_with};

fn busy(seed: u64) -> Cluster {
    let mut c = cluster_with(3, WorldConfig { seed, ..WorldConfig::default() }).topic("t", 3, 3, &[]);
    c.producer("p", "t", "30/s", &[]);
    c.give(Command::Resume("p".into()));
    for name in ["a", "b"] {
        c.consumer(name, "g", &["t"], &["poll", "process 5ms", "commit"], &[]);
    }
    c.run_ms(8_000);
    c
}

fn storm(c: &mut Cluster) {
    c.kill(1);
    c.run_ms(14_000);
    c.start(1);
    c.run_ms(14_000);
}

#[test]
fn the_same_seed_and_commands_give_the_same_digest_and_another_seed_another() {
    let run = |seed| {
        let mut c = busy(seed);
        storm(&mut c);
        (c.world.digest(), c.world.events_done())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn a_copy_of_the_world_replays_to_the_same_digest_and_leaves_the_original_alone() {
    let mut c = busy(3);
    let mut copy = Cluster { world: c.world.clone() };
    let at_fork = c.world.digest();
    storm(&mut copy);
    assert_eq!(c.world.digest(), at_fork);
    storm(&mut c);
    assert_eq!(c.world.digest(), copy.world.digest());
}

#[test]
fn running_in_small_pieces_is_running_in_one() {
    let mut whole = busy(5);
    let mut pieces = Cluster { world: whole.world.clone() };
    let end = whole.world.now().plus_ms(3_000);
    whole.world.run_until(end);
    while pieces.world.now() < end {
        let next = Time::from_us((pieces.world.now().us() + 777).min(end.us()));
        pieces.world.run_until(next);
    }
    assert_eq!(whole.world.digest(), pieces.world.digest());
}
