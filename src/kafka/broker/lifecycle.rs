//! Registration and heartbeats: how a broker comes to be part of the cluster, and stays it.
//!
//! Mirrors `BrokerLifecycleManager` (R-REPL-51, 52, 54 to 57).

use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
};
use uuid::Uuid;

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects};
use crate::kafka::protocol::listener::{PORT, host};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, CLUSTER_ID};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BrokerState {
    /// Registers and catches up with the metadata log.
    #[default]
    Starting,
    /// Caught up; waits to be unfenced.
    Recovery,
    Running,
    /// Wants to stop, and waits for the controller to give its leaderships away (R-REPL-55).
    PendingControlledShutdown,
    ShuttingDown,
}

#[derive(Clone, Debug)]
pub struct Lifecycle {
    state: BrokerState,
    /// -1 until registered.
    epoch: BrokerEpoch,
    /// The epoch of this broker's earlier life, if that ended in order; else -1 (R-REPL-56).
    previous_epoch: BrokerEpoch,
    clean_start: bool,
    /// The controller has answered a heartbeat that asked for a shutdown.
    shutdown_answered: bool,
}

impl Lifecycle {
    pub fn new(clean_shutdown: Option<BrokerEpoch>) -> Lifecycle {
        Lifecycle {
            state: BrokerState::Starting,
            epoch: BrokerEpoch(-1),
            previous_epoch: clean_shutdown.unwrap_or(BrokerEpoch(-1)),
            clean_start: clean_shutdown.is_some(),
            shutdown_answered: false,
        }
    }

    /// Whether the clean-shutdown file was there when the process started.
    pub fn was_shut_down_cleanly(&self) -> bool {
        self.clean_start
    }

    /// What the clean-shutdown file says when the process is gone.
    pub fn clean_shutdown(&self) -> Option<BrokerEpoch> {
        (self.state == BrokerState::ShuttingDown).then_some(self.epoch)
    }

    pub fn state(&self) -> BrokerState {
        self.state
    }

    pub fn epoch(&self) -> BrokerEpoch {
        self.epoch
    }

    fn is_registered(&self) -> bool {
        self.epoch.0 >= 0
    }
}

/// Heartbeats follow faster while a broker starts.
const STARTING_HEARTBEAT_MS: i64 = 10;
/// The second heartbeat of a broker that wants to stop comes soon, as most shutdowns are granted quickly.
const SHUTDOWN_HEARTBEAT_MS: i64 = 50;
/// How long a broker waits for the controller before it stops all the same.
const SHUTDOWN_TIMEOUT_MS: i64 = 5 * 60 * 1000;

/// A broker's one log directory.
fn log_directory(incarnation_of: i32) -> Uuid {
    Uuid::from_u128(0x6469_7265_6374_6f72_7900_0000_0000_0000 | incarnation_of as u128)
}

impl Broker {
    /// Registers, or sends the next heartbeat.
    pub(super) fn communicate(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        if self.lifecycle.is_registered() {
            let request = BrokerHeartbeatRequest::default()
                .with_broker_id(self.id.0.into())
                .with_broker_epoch(self.lifecycle.epoch.0)
                .with_current_metadata_offset(self.image.next_offset.0 - 1)
                .with_want_fence(self.lifecycle.state == BrokerState::Starting)
                .with_want_shut_down(self.lifecycle.state == BrokerState::PendingControlledShutdown);
            self.ask_controller(now, Channel::Lifecycle, request, Purpose::Heartbeat, fx);
        } else {
            let request = self.registration();
            self.ask_controller(now, Channel::Lifecycle, request, Purpose::Register, fx);
        }
    }

    fn registration(&self) -> BrokerRegistrationRequest {
        let listener =
            Listener::default().with_name("PLAINTEXT".into()).with_host(host(self.id).into()).with_port(PORT);
        let metadata_version = Feature::default()
            .with_name("metadata.version".into())
            .with_min_supported_version(7)
            .with_max_supported_version(30);
        BrokerRegistrationRequest::default()
            .with_broker_id(self.id.0.into())
            .with_cluster_id(CLUSTER_ID.into())
            .with_incarnation_id(self.incarnation)
            .with_listeners(vec![listener])
            .with_features(vec![metadata_version])
            .with_rack(self.rack.clone().map(Into::into))
            .with_log_dirs(vec![log_directory(self.id.0)])
            .with_previous_broker_epoch(self.lifecycle.previous_epoch.0)
    }

    pub(super) fn registered(
        &mut self,
        now: Time,
        response: &BrokerRegistrationResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if response.error_code == 0 {
            self.lifecycle.epoch = BrokerEpoch(response.broker_epoch);
            self.communicate(now, fx);
        } else {
            self.communicate_in(now, self.config.heartbeat_interval_ms, fx);
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        now: Time,
        response: &BrokerHeartbeatResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut wait_ms = self.config.heartbeat_interval_ms;
        if response.error_code == 0 {
            match self.lifecycle.state {
                BrokerState::Starting => {
                    if response.is_caught_up {
                        self.lifecycle.state = BrokerState::Recovery;
                    }
                    wait_ms = STARTING_HEARTBEAT_MS;
                }
                BrokerState::Recovery if !response.is_fenced => self.lifecycle.state = BrokerState::Running,
                BrokerState::PendingControlledShutdown if response.should_shut_down => {
                    return self.shut_down(now, fx);
                }
                BrokerState::PendingControlledShutdown if !self.lifecycle.shutdown_answered => {
                    self.lifecycle.shutdown_answered = true;
                    wait_ms = SHUTDOWN_HEARTBEAT_MS;
                }
                BrokerState::Recovery
                | BrokerState::Running
                | BrokerState::PendingControlledShutdown
                | BrokerState::ShuttingDown => {}
            }
        }
        self.communicate_in(now, wait_ms, fx);
    }

    /// SIGTERM: gives the leaderships away first, if the broker is in service (R-REPL-55).
    pub fn stop(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        match self.lifecycle.state {
            BrokerState::Running if self.config.controlled_shutdown => {
                self.lifecycle.state = BrokerState::PendingControlledShutdown;
                self.replicas.begin_controlled_shutdown();
                fx.set_timer(BrokerTimer::ShutDown, now.plus_ms(SHUTDOWN_TIMEOUT_MS));
                self.communicate(now, fx);
            }
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {}
            BrokerState::Starting | BrokerState::Recovery | BrokerState::Running => self.shut_down(now, fx),
        }
    }

    /// Everything is written to disk, and then the file that says so.
    pub(super) fn shut_down(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        self.replicas.close_logs(now);
        self.raft.close_log(now);
        self.lifecycle.state = BrokerState::ShuttingDown;
        fx.exit();
    }

    pub(super) fn communicate_in(&self, now: Time, wait_ms: i64, fx: &mut Effects<BrokerTimer>) {
        fx.set_timer(BrokerTimer::Communicate, now.plus_ms(wait_ms));
    }
}
