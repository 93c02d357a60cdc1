//! Where nodes listen: one listener each, on the same port everywhere.

use crate::kafka::types::{BrokerId, ControllerId};

/// The port of every broker's one listener.
pub const PORT: u16 = 9092;

/// The port of every controller's one listener.
pub const CONTROLLER_PORT: u16 = 9093;

/// The host name of a controller's one listener.
pub fn controller_host(controller: ControllerId) -> String {
    format!("controller-{controller}")
}

/// The host name of a broker's one listener.
pub fn host(broker: BrokerId) -> String {
    format!("broker-{broker}")
}
