//! What is said of memory, against what an allocator counts.
#![cfg(not(target_arch = "wasm32"))]

use allocation_counter::measure;
use glassbroker::kafka::time::Time;
use glassbroker::lab::session::{Options, Session};
use glassbroker::sim::TraceEntry;

const DEFAULT: &str = include_str!("../static/scenarios/default.toml");

fn run(scenario: &str, seconds: i64) -> Session {
    let mut session = Session::open(scenario, Options::default()).expect("the scenario is right");
    assert!(session.run_until(Time::from_ms(seconds * 1000), u64::MAX));
    session
}

/// Bytes of the trace's entries, and of a copy of all of them as an allocator counts them.
fn trace_bytes(session: &Session) -> (u64, u64) {
    let trace = session.world().trace();
    let info = measure(|| {
        let mut copy: Vec<TraceEntry> = Vec::with_capacity((trace.len_ever() - trace.first_kept()) as usize);
        copy.extend(trace.entries().cloned());
        std::mem::forget(copy);
    });
    (trace.bytes() as u64, info.bytes_current as u64)
}

#[test]
fn a_trace_holds_no_more_than_it_says() {
    let many = DEFAULT.replace("partitions = 3", "partitions = 300");
    for scenario in [DEFAULT, &many] {
        let (said, counted) = trace_bytes(&run(scenario, 40));
        assert!(said >= counted && said <= 3 * counted, "{said} said, {counted} counted");
    }
}
