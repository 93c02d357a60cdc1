//! The cluster itself: brokers and controllers as pure state machines that speak Kafka's own requests.
//!
//! **Invariant:** nothing here knows the simulator, a clock, a socket or a browser; a handler gets `now` and an input
//! and pushes effects.

pub mod effects;
pub mod network_client;
pub mod event;
pub mod log;
pub mod protocol;
pub mod random;
pub mod record;
pub mod time;
pub mod types;
