//! The programs at the cluster's edge: producers, consumers, share consumers and the administrator, as Kafka's Java clients
//! behave, and in part librdkafka's.
//!
//! Each client is a state machine like a broker: `handle(now, input, effects)`. They share their typed configs
//! ([`config`]), what they know of the cluster ([`metadata`]) and whom they ask ([`requests`], [`coordinator`]);
//! [`consumer`] and [`share_consumer`] also the application's program ([`program`]) and how a member speaks to a group that
//! its coordinator plans for ([`member`]). An [`application`] is one program over a consumer and a producer, which tells the
//! transaction of the consumer's membership by its [`group_metadata`]. Which library a client is and how it is used is its
//! [`profile`]; which partition a record goes to, a [`partitioner`] says.
//!
//! **Invariant:** a client learns about the cluster from answers to its own requests and from nothing else.

pub mod admin;
pub mod application;
pub mod config;
pub mod coordinator;
pub mod consumer;
pub mod group_metadata;
pub mod member;
pub mod metadata;
pub mod partitioner;
pub mod pattern;
pub mod producer;
pub mod profile;
pub mod program;
pub mod requests;
pub mod saying;
pub mod share_consumer;
