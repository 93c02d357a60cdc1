//! When a broker looks after its logs.
//!
//! Mirrors the schedule of `LogManager.startup` and the cleaner's thread. The check for silent producers is each log's own,
//! as in `UnifiedLog`.

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::Effects;
use crate::kafka::replication::ReplicaManager;
use crate::kafka::time::Time;

impl Broker {
    pub(super) fn start_log_tasks(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let clean = self.lifecycle.was_shut_down_cleanly();
        self.with_replicas(now, fx, |replicas, step| replicas.load_logs(clean, step));
        let first = now.plus_ms(self.config.log_initial_task_delay_ms);
        for task in
            [BrokerTimer::Retention, BrokerTimer::Flush, BrokerTimer::RecoveryPoints, BrokerTimer::LogStarts]
        {
            fx.set_timer(task, first);
        }
        if self.config.log_cleaner_enable {
            fx.set_timer(BrokerTimer::Clean, now);
        }
    }

    pub(super) fn run_log_task(&mut self, now: Time, task: BrokerTimer, fx: &mut Effects<BrokerTimer>) {
        let config = self.config.clone();
        let next_ms = match task {
            BrokerTimer::Retention => {
                self.with_replicas(now, fx, ReplicaManager::check_retention);
                config.log_retention_check_interval_ms
            }
            BrokerTimer::Flush => {
                self.with_replicas(now, fx, ReplicaManager::flush_old_logs);
                config.log_flush_scheduler_interval_ms
            }
            BrokerTimer::RecoveryPoints => {
                self.replicas.checkpoint_recovery_points();
                config.log_flush_offset_checkpoint_interval_ms
            }
            BrokerTimer::LogStarts => {
                self.replicas.checkpoint_log_starts();
                config.log_flush_start_offset_checkpoint_interval_ms
            }
            // As long as there is a dirty log the thread does not rest.
            BrokerTimer::Clean => match self.with_replicas(now, fx, ReplicaManager::clean_filthiest_log) {
                true => 0,
                false => config.log_cleaner_backoff_ms,
            },
            other => unreachable!("{other:?} is no task of the logs"),
        };
        // By default the flusher comes once and never again.
        let next = now.plus_ms(next_ms);
        if next < Time::MAX {
            fx.set_timer(task, next);
        }
    }
}
