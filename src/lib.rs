//! Glassbroker: a Kafka cluster you can see through.
pub mod client;
pub mod kafka;
pub mod lab;
