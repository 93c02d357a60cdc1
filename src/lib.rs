//! Glassbroker: a Kafka cluster you can see through.
pub mod kafka;
pub mod lab;
