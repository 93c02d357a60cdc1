//! When a broker looks after its logs.
//!
//! Mirrors the schedule of `LogManager.startup`, the cleaner's thread, and `ProducerStateManager`'s check.

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::Effects;
use crate::kafka::replication::ReplicaManager;
use crate::kafka::time::Time;

impl Broker {
    pub(super) fn start_log_tasks(&self, now: Time, fx: &mut Effects<BrokerTimer>) {
        fx.set_timer(BrokerTimer::Retention, now.plus_ms(self.config.log_initial_task_delay_ms));
        let expiry_ms = self.config.producer_id_expiration_check_interval_ms;
        fx.set_timer(BrokerTimer::ExpireProducers, now.plus_ms(expiry_ms));
        if self.config.log_cleaner_enable {
            fx.set_timer(BrokerTimer::Clean, now);
        }
    }

    pub(super) fn run_log_task(&mut self, now: Time, task: BrokerTimer, fx: &mut Effects<BrokerTimer>) {
        let next_ms = match task {
            BrokerTimer::Retention => {
                self.with_replicas(now, fx, ReplicaManager::check_retention);
                self.config.log_retention_check_interval_ms
            }
            BrokerTimer::ExpireProducers => {
                self.with_replicas(now, fx, ReplicaManager::remove_expired_producers);
                self.config.producer_id_expiration_check_interval_ms
            }
            // As long as there is a dirty log the thread does not rest.
            _ => match self.with_replicas(now, fx, ReplicaManager::clean_filthiest_log) {
                true => 0,
                false => self.config.log_cleaner_backoff_ms,
            },
        };
        fx.set_timer(task, now.plus_ms(next_ms));
    }
}
