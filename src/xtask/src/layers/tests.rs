use super::*;

/// The faults of one file, beside a root that re-exports one name of `view`.
fn faults_of(path: &str, text: &str) -> Vec<String> {
    let lib = "pub mod kafka;\npub mod view;\npub use view::{Model, model::Row as Line};";
    faults(&[("src/lib.rs".into(), lib.into()), (path.into(), text.into())])
}

#[track_caller]
fn allowed(path: &str, text: &str) {
    assert_eq!(faults_of(path, text), Vec::<String>::new(), "{text}");
}

#[track_caller]
fn refused(path: &str, text: &str, because: &str) {
    let faults = faults_of(path, text);
    assert!(faults.iter().any(|fault| fault.contains(because)), "{text}\n{faults:?}");
}

#[test]
fn each_room_sees_what_lies_below_and_nothing_above_or_beside() {
    for (from, height) in ROOMS {
        for (to, other) in ROOMS {
            let path = format!("src/{from}/x.rs");
            let text = format!("use crate::{to}::thing::Thing;");
            if from == to || other < height {
                allowed(&path, &text);
            } else {
                refused(&path, &text, &format!("{from} may not know {to}"));
            }
        }
    }
}

#[test]
fn every_way_to_write_a_path_is_seen() {
    let up = "kafka may not know";
    refused("src/kafka/log/mod.rs", "fn f() { crate::sim::world::step(); }", up);
    refused("src/kafka/log/mod.rs", "use super::super::view::Model;", up);
    refused("src/kafka.rs", "use super::view;", up);
    refused("src/kafka/log.rs", "mod inner { use super::super::super::ui::App; }", up);
    refused("src/kafka/log.rs", "mod a { fn f() {} } use super::super::ui::App;", up);
    refused("src/kafka/log.rs", "use crate::{kafka::time::Time, client::{self, Producer}};", up);
    refused("src/kafka/log.rs", "pub use crate::lab::*;", up);
    refused("src/kafka/log.rs", "use crate::sim as simulator;", up);
    refused("src/kafka/log.rs", "macro_rules! m { () => { $crate::api::Sandbox } }", up);
    refused("src/kafka/log.rs", "fn f(x: &self::super::super::view::X) {}", up);
    refused("src/kafka/log.rs", "fn f() -> Vec<crate :: view :: X> {}", up);
}

#[test]
fn a_name_that_the_root_re_exports_counts_as_its_room() {
    refused("src/lab/x.rs", "use crate::Model;", "lab may not know view");
    refused("src/lab/x.rs", "use crate::Line;", "lab may not know view");
    allowed("src/ui/x.rs", "use crate::Model;");
    refused("src/ui/x.rs", "use crate::Unknown;", "is in no room");
}

#[test]
fn what_would_hide_an_arrow_is_a_fault() {
    refused("src/kafka/mod.rs", "use super::*;", "everything of the crate root");
    refused("src/kafka/x.rs", "use crate::*;", "everything of the crate root");
    refused("src/kafka/x.rs", "use crate as root;", "renames the crate root");
    refused("src/kafka/x.rs", "use crate::{self as root};", "renames the crate root");
    refused("src/kafka/x.rs", "extern crate self as root;", "renames the crate root");
    refused("src/kafka/x.rs", "#[path = \"../view/x.rs\"] mod x;", "#[path]");
    refused("src/kafka/x.rs", "include!(\"../view/x.rs\");", "include!");
    refused("src/helpers/x.rs", "", "in no room");
    let glob = faults(&[("src/lib.rs".into(), "pub use view::*;".into())]);
    assert!(glob[0].contains("one by one"), "{glob:?}");
}

#[test]
fn paths_that_stay_in_the_room_pass() {
    allowed("src/kafka/log/mod.rs", "pub mod index; use self::index::Index; use super::time::Time;");
    allowed("src/kafka/log/mod.rs", "#[cfg(test)] mod tests { use super::*; use super::super::types::*; }");
    allowed("src/kafka/log/mod.rs", "pub(crate) fn f(&self) { self.view(); } pub(super) struct View;");
    allowed("src/kafka/client.rs", "use crate::kafka::client::view::X;");
}

#[test]
fn comments_and_strings_name_no_room() {
    allowed(
        "src/kafka/x.rs",
        "//! See crate::view.\n/* crate::ui::App */ fn f() -> &'static str { \"crate::view::X\" }",
    );
}

#[test]
fn programs_see_rooms_by_the_name_of_the_crate() {
    allowed(
        "src/bin/glassbroker/main.rs",
        "use glassbroker::{lab::Scenario, view::text}; mod own {} use crate::own;",
    );
    allowed("src/bin/app.rs", "use glassbroker::ui::App; use yew::Renderer;");
    refused("src/bin/glassbroker/main.rs", "use glassbroker::ui::App;", "this program may not know ui");
    refused("src/kafka/x.rs", "use ::glassbroker::view::X;", "kafka may not know view");
}

#[test]
fn the_browser_stays_in_the_top_rooms() {
    for name in ["web_sys", "js_sys", "wasm_bindgen", "yew", "gloo", "gloo_timers", "serde_wasm_bindgen"] {
        let text = format!("use {name}::thing;");
        refused("src/view/x.rs", &text, "belongs to the browser");
        refused("src/bin/glassbroker/main.rs", &text, "belongs to the browser");
        refused("src/lib.rs", &text, "belongs to the browser");
        allowed("src/ui/x.rs", &text);
        allowed("src/api/x.rs", &text);
        allowed("src/bin/app.rs", &text);
    }
}

#[test]
fn simulated_rooms_hold_nothing_that_differs_from_run_to_run() {
    let unsteady = [
        "use std::time::Instant;",
        "fn f() { SystemTime::now(); }",
        "let x: HashMap<u8, u8>;",
        "HashSet::new()",
    ];
    for text in unsteady.into_iter().chain(["x as f64", "let x: f32;", "let x = 0.5;", "1e3"]) {
        for room in ["kafka", "client", "sim"] {
            refused(&format!("src/{room}/x.rs"), text, "no place in a deterministic room");
        }
        allowed("src/lab/x.rs", text);
    }
}

#[test]
fn a_fault_names_file_and_line() {
    let found = faults_of("src/sim/world.rs", "//! World.\n\nuse crate::lab::Journal;\n");
    assert_eq!(found, ["src/sim/world.rs:3: sim may not know lab: crate::lab::Journal"]);
}
