//! Where the replicas of new topics go (EX-12).

use glassbroker::kafka::types::BrokerId;
use glassbroker::sim::{World, WorldConfig};

use crate::dsl::{Cluster, ids, tp};

/// Brokers with their racks, one way 2 ms between any two nodes.
fn cluster(brokers: &[(i32, Option<&str>)]) -> Cluster {
    let broker = |(id, rack): &(i32, Option<&str>)| (BrokerId(*id), rack.map(str::to_string));
    let brokers = brokers.iter().map(broker).collect();
    let config = WorldConfig { strict: true, latency_us: 2_000..=2_000, brokers, ..WorldConfig::default() };
    let mut c = Cluster { world: World::new(config).expect("valid configs") };
    c.run_ms(1_000);
    c
}

fn check(brokers: &[(i32, Option<&str>)], expected: &[[i32; 2]]) {
    let c = cluster(brokers).topic("t", expected.len() as i32, 2, &[]);
    let image = c.world.active_controller().expect("a controller").image();
    for (number, replicas) in expected.iter().enumerate() {
        let partition = image.partition(&tp(&format!("t-{number}"))).expect("it exists");
        assert_eq!(partition.replicas, ids(replicas), "partition {number} of {brokers:?} (R-PLACE-3, 4)");
        assert_eq!((partition.leader, &partition.isr), (BrokerId(replicas[0]), &ids(replicas)), "R-PLACE-6");
    }
}

/// R-PLACE-3, R-PLACE-4.
#[test]
fn ex_12_replicas_go_round_the_brokers_and_from_rack_to_rack() {
    let plain = [(1, None), (2, None), (3, None), (4, None)];
    check(&plain, &[[1, 2], [2, 3], [3, 4], [4, 1]]);
    let racks = [(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, Some("b"))];
    check(&racks, &[[1, 3], [4, 2], [1, 3], [4, 2]]);
}

#[test]
fn ex_12_a_fenced_broker_gets_replicas_behind_those_in_service_and_leads_nothing() {
    let mut c = cluster(&[(1, None), (2, None), (3, None)]);
    c.kill(3);
    c.until("broker 3 is fenced", 15_000, |c| !c.is_in_service(3));
    let c = c.topic("t", 2, 3, &[]);
    let image = c.world.active_controller().expect("a controller").image();
    for name in ["t-0", "t-1"] {
        let partition = image.partition(&tp(name)).expect("it exists");
        assert!(partition.replicas.contains(&BrokerId(3)), "R-PLACE-2");
        assert!(partition.leader != BrokerId(3) && !partition.isr.contains(&BrokerId(3)), "R-PLACE-6");
    }
}
