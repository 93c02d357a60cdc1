//! The broker's state, its parts and what one's step means for the others.

use std::collections::BTreeSet;
use std::rc::Rc;

use uuid::Uuid;

use super::add_partitions::Question;
use super::admin::Forwarded;
use super::alter_partition::AlterPartitionManager;
use super::connections::ControllerQueues;
use super::disk::Disk;
use super::end_offsets::{EndOffsets, LeaderAsk};
use super::lifecycle::{BrokerState, Lifecycle};
use super::persister::{Operation, Persister};
use super::producer_ids::ProducerIds;
use super::share_offsets::ShareOffsets;
use super::timer::BrokerTimer;
use super::transactions::Transactions;
use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::controller::snapshots::SnapshotGenerator;
use crate::kafka::effects::{Channel, Effects, Input, Peer};
use crate::kafka::group::{ConsumerGroupConfig, GroupConfig, GroupCoordinator, ShareGroupConfig};
use crate::kafka::network_client::{NetworkClient, NetworkConfig};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::raft::{RaftClient, RaftSetup, RaftTimer};
use crate::kafka::random::Random;
use crate::kafka::replication::manager::{Notice, Step};
use crate::kafka::replication::{Lookup, ReplicaManager};
use crate::kafka::share::{ShareCoordinator, SharePartitionManager};
use crate::kafka::time::Time;
use crate::kafka::transaction::{MarkerEntry, TransactionCoordinator};
use crate::kafka::types::{BrokerId, ClientName, ControllerId, Topic};

/// What a request of the broker's own was for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    Register,
    Heartbeat,
    FetchReplicas { leader: BrokerId },
    LookUp { leader: BrokerId, lookup: Lookup },
    AlterPartition,
    CreateTopics(Vec<Topic>),
    Forward(Forwarded),
    AllocateProducerIds,
    ShareState(Vec<Operation>),
    EndOffsets(LeaderAsk),
    AddPartitions(Vec<Question>),
    Markers(Vec<MarkerEntry>),
}

/// What a broker process starts with.
pub struct BrokerSetup {
    pub id: BrokerId,
    pub rack: Option<String>,
    /// All controllers.
    pub voters: Rc<[ControllerId]>,
    pub config: Rc<BrokerConfig>,
    pub disk: Disk,
    pub random: Random,
}

#[derive(Clone, Debug)]
pub struct Broker {
    pub(super) id: BrokerId,
    pub(super) rack: Option<String>,
    pub(super) incarnation: Uuid,
    /// What the process was started with.
    pub(super) static_config: Rc<BrokerConfig>,
    /// That, with what the metadata log says over it.
    pub(super) config: Rc<BrokerConfig>,
    pub(super) image: Rc<ClusterImage>,
    /// This broker's replica of the metadata log.
    pub(super) raft: RaftClient,
    pub(super) snapshots: SnapshotGenerator,
    pub(super) network: NetworkClient<Purpose>,
    pub(super) to_controller: ControllerQueues,
    pub(super) lifecycle: Lifecycle,
    pub(super) replicas: ReplicaManager,
    pub(super) groups: GroupCoordinator,
    pub(super) share_states: ShareCoordinator,
    pub(super) shares: SharePartitionManager,
    pub(super) persister: Persister,
    pub(super) share_offsets: ShareOffsets,
    pub(super) end_offsets: EndOffsets,
    pub(super) transactions: Transactions,
    pub(super) alter_partition: AlterPartitionManager,
    pub(super) producer_ids: ProducerIds,
    /// Topics whose creation this broker has asked for.
    pub(super) creating: BTreeSet<Topic>,
}

impl Broker {
    pub fn new(setup: BrokerSetup) -> Broker {
        let BrokerSetup { id, rack, voters, config, disk, mut random } = setup;
        let incarnation = random.uuid();
        let group_config = GroupConfig {
            initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms: config.group_min_session_timeout_ms as i32,
            max_session_timeout_ms: config.group_max_session_timeout_ms as i32,
            max_size: config.group_max_size,
            offsets_topic_num_partitions: config.offsets_topic_num_partitions,
            offset_metadata_max_bytes: config.offset_metadata_max_bytes,
            offsets_commit_timeout_ms: config.offsets_commit_timeout_ms,
            offsets_retention_ms: config.offsets_retention_ms,
            offsets_retention_check_interval_ms: config.offsets_retention_check_interval_ms,
            consumer: ConsumerGroupConfig::of_broker(&config),
            share: ShareGroupConfig::of_broker(&config),
            ..GroupConfig::default()
        };
        // As NodeToControllerChannelManager: one request at a time.
        let network =
            NetworkConfig { max_in_flight: 1, reconnect_backoff_max_ms: 50, ..NetworkConfig::default() };
        let name = ClientName::new(&format!("broker-{id}"));
        let seed = random.next_u64();
        Broker {
            id,
            rack,
            incarnation,
            raft: RaftClient::new(RaftSetup {
                me: id.into(),
                voters,
                config: config.quorum,
                log_config: config.metadata_log,
                disk: disk.metadata,
                random: Random::stream(seed, "quorum"),
            }),
            image: Rc::new(ClusterImage::default()),
            snapshots: SnapshotGenerator::new(config.metadata_log),
            network: NetworkClient::new(name, network, Random::stream(seed, "network")),
            to_controller: ControllerQueues::default(),
            lifecycle: Lifecycle::new(disk.clean_shutdown),
            replicas: ReplicaManager::new(
                id,
                config.clone(),
                disk.replicas,
                Random::stream(seed, "fetch sessions"),
            ),
            groups: GroupCoordinator::new(id, group_config, Random::stream(seed, "member ids")),
            share_states: ShareCoordinator::new(config.share_coordinator),
            shares: SharePartitionManager::new(Random::stream(seed, "share fetches")),
            persister: Persister::new(Random::stream(seed, "persister")),
            share_offsets: ShareOffsets::default(),
            end_offsets: EndOffsets::new(Random::stream(seed, "end offsets")),
            transactions: Transactions::new(id, &config),
            alter_partition: AlterPartitionManager::default(),
            producer_ids: ProducerIds::default(),
            creating: BTreeSet::new(),
            static_config: config.clone(),
            config,
        }
    }

    pub fn id(&self) -> BrokerId {
        self.id
    }

    /// The id that this process drew for itself when it started.
    pub fn incarnation(&self) -> Uuid {
        self.incarnation
    }

    pub fn rack(&self) -> Option<&str> {
        self.rack.as_deref()
    }

    pub fn image(&self) -> &Rc<ClusterImage> {
        &self.image
    }

    /// This broker's replica of the metadata log.
    pub fn raft(&self) -> &RaftClient {
        &self.raft
    }

    pub fn replicas(&self) -> &ReplicaManager {
        &self.replicas
    }

    pub fn groups(&self) -> &GroupCoordinator {
        &self.groups
    }

    pub fn shares(&self) -> &SharePartitionManager {
        &self.shares
    }

    /// What this broker coordinates of transactions.
    pub fn transactions(&self) -> &TransactionCoordinator {
        &self.transactions.coordinator
    }

    pub fn share_states(&self) -> &ShareCoordinator {
        &self.share_states
    }

    pub fn state(&self) -> BrokerState {
        self.lifecycle.state()
    }

    /// A broker opens its port once it is unfenced (`BrokerServer.startup`).
    pub fn is_listening(&self) -> bool {
        self.lifecycle.state() == BrokerState::Running
    }

    /// What stays when the process is gone.
    pub fn into_disk(self) -> Disk {
        let clean_shutdown = self.lifecycle.clean_shutdown();
        Disk { replicas: self.replicas.into_disk(), metadata: self.raft.into_disk(), clean_shutdown }
    }

    pub fn handle(&mut self, now: Time, input: Input<BrokerTimer>, fx: &mut Effects<BrokerTimer>) {
        match input {
            Input::Start => self.start(now, fx),
            Input::Request { id, client, request } => self.on_request(now, id, &client, request, fx),
            Input::Timer(timer) => self.on_timer(now, timer, fx),
            Input::Gone(incoming) => self.on_gone(now, incoming, fx),
            Input::Connected(_) | Input::Disconnected(_) | Input::Response { .. } => {
                if !self.with_raft(now, fx, |raft, fx| raft.on_input(now, &input, fx))
                    && let Some(event) = self.network.on_input(now, &input, fx)
                {
                    self.on_network(now, event, fx);
                }
            }
        }
        self.settle(now, fx);
    }

    fn start(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        fx.set_timer(BrokerTimer::CheckIsr, now.plus_ms(self.isr_check_ms()));
        fx.set_timer(
            BrokerTimer::Checkpoint,
            now.plus_ms(self.config.replica_high_watermark_checkpoint_interval_ms),
        );
        self.transactions.start(now);
        self.start_log_tasks(now, fx);
        self.snapshots.reset(now);
        self.with_raft(now, fx, |raft, fx| raft.start(now, fx));
        self.communicate(now, fx);
    }

    /// R-REPL-21.
    fn isr_check_ms(&self) -> i64 {
        (self.config.replica_lag_time_max_ms / 2).max(1)
    }

    fn on_timer(&mut self, now: Time, timer: BrokerTimer, fx: &mut Effects<BrokerTimer>) {
        match timer {
            BrokerTimer::Network(timer) => {
                if let Some(event) = self.network.on_timer(now, timer, fx) {
                    self.on_network(now, event, fx);
                }
            }
            BrokerTimer::Communicate => self.communicate(now, fx),
            BrokerTimer::ShutDown => self.shut_down(now, fx),
            BrokerTimer::Raft(timer) => self.with_raft(now, fx, |raft, fx| raft.on_timer(now, timer, fx)),
            BrokerTimer::FindController => self.flush_all(now, fx),
            BrokerTimer::Purgatory => self.with_replicas(now, fx, ReplicaManager::expire),
            BrokerTimer::ExpireProducers => {
                self.with_replicas(now, fx, ReplicaManager::remove_expired_producers);
            }
            BrokerTimer::CheckIsr => {
                self.with_replicas(now, fx, ReplicaManager::check_isr);
                self.with_replicas(now, fx, ReplicaManager::watch_late_transactions);
                fx.set_timer(BrokerTimer::CheckIsr, now.plus_ms(self.isr_check_ms()));
            }
            BrokerTimer::Checkpoint => {
                self.replicas.checkpoint();
                let interval_ms = self.config.replica_high_watermark_checkpoint_interval_ms;
                fx.set_timer(BrokerTimer::Checkpoint, now.plus_ms(interval_ms));
            }
            timer @ (BrokerTimer::Retention
            | BrokerTimer::Flush
            | BrokerTimer::RecoveryPoints
            | BrokerTimer::LogStarts
            | BrokerTimer::Clean) => {
                self.run_log_task(now, timer, fx);
            }
            // The fetchers are looked after in `settle`.
            BrokerTimer::FetcherBackoff(_) => {}
            BrokerTimer::AlterPartition => self.alter_partition.wake(),
            BrokerTimer::OffsetsLoaded(partition) => self.finish_loading(now, partition, fx),
            BrokerTimer::Group(timer) => self.on_group_timer(now, &timer, fx),
            BrokerTimer::ShareStateLoaded(partition) => self.finish_loading_share_states(now, partition, fx),
            BrokerTimer::ShareSnapshots => self.write_share_snapshots(now, fx),
            BrokerTimer::PruneShareStates => self.prune_share_states(now, fx),
            BrokerTimer::Share(timer) => self.on_share_timer(now, &timer, fx),
            BrokerTimer::ShareFetch(timer) => self.on_share_fetch_timer(now, &timer, fx),
            BrokerTimer::Persist => self.flush_persister(now, fx),
            BrokerTimer::EndOffsets => self.flush_end_offsets(now, fx),
            BrokerTimer::TransactionsLoaded(partition) => {
                self.finish_loading_transactions(now, partition, fx)
            }
            BrokerTimer::AbortTransactions => self.abort_timed_out_transactions(now, fx),
            BrokerTimer::ExpireTransactionalIds => self.expire_transactional_ids(now, fx),
            BrokerTimer::Transaction(timer) => self.on_transaction_timer(now, &timer, fx),
            BrokerTimer::Markers => self.wake_markers(now, fx),
            BrokerTimer::AddPartitions(number) => {
                if let Some(produce) = self.transactions.take_postponed(number) {
                    self.ask_for_produce(now, produce, fx);
                }
            }
        }
    }

    /// Runs a step of the quorum's observer, and applies what it learned to be committed.
    fn with_raft<R>(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut RaftClient, &mut Effects<RaftTimer>) -> R,
    ) -> R {
        let (leader, mut part) = (self.raft.leader(), Effects::default());
        let result = run(&mut self.raft, &mut part);
        fx.absorb(part);
        self.replay_committed(now, fx);
        if self.raft.leader() != leader {
            self.flush_all(now, fx);
        }
        result
    }

    /// Runs one of the replica manager's steps with what it needs to know.
    pub(super) fn with_replicas<R>(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut ReplicaManager, &mut Step<'_>) -> R,
    ) -> R {
        let mut step = Step { now, image: &self.image, fx };
        run(&mut self.replicas, &mut step)
    }

    /// What one part's change means for the others, until nothing is left.
    pub(super) fn settle(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        loop {
            let notices = self.replicas.take_notices();
            if notices.is_empty() {
                break;
            }
            notices.into_iter().for_each(|notice| self.on_notice(now, notice, fx));
        }
        self.send_markers(now, fx);
        self.send_alter_partition(now, fx);
        for leader in self.replicas.idle_fetchers() {
            self.fetch_from(now, leader, fx);
        }
    }

    fn on_notice(&mut self, now: Time, notice: Notice, fx: &mut Effects<BrokerTimer>) {
        match notice {
            Notice::IsrWanted { tp } => {
                let Some(partition) = self.replicas.partition(&tp) else { return };
                if !self.alter_partition.submit(self.id, self.lifecycle.epoch(), partition, fx) {
                    self.replicas.isr_refused(&tp, ErrorCode::OperationNotAttempted);
                }
            }
            Notice::HighWatermark { tp, offset } => {
                self.on_offsets_committed(now, &tp, offset, fx);
                self.on_share_state_committed(now, &tp, offset, fx);
                self.on_transactions_committed(now, &tp, offset, fx);
                self.on_readable(now, &tp, fx);
            }
            Notice::Elected { tp, leader_epoch } => {
                self.on_offsets_elected(now, &tp, leader_epoch, fx);
                self.on_share_state_elected(now, &tp, leader_epoch, fx);
                self.on_transactions_elected(now, &tp, leader_epoch, fx);
            }
            Notice::Resigned { tp } => {
                self.on_offsets_resigned(now, &tp, fx);
                self.on_share_state_resigned(now, &tp, fx);
                self.on_transactions_resigned(now, &tp, fx);
                self.shares.on_resigned(&tp);
            }
        }
    }

    fn fetch_from(&mut self, now: Time, leader: BrokerId, fx: &mut Effects<BrokerTimer>) {
        let peer = Peer::new(leader, Channel::ReplicaFetcher);
        let epoch = self.lifecycle.epoch();
        if !self.network.is_connected(peer) {
            if self.with_replicas(now, fx, |replicas, step| replicas.wants_fetch(leader, step)) {
                self.network.ready(now, peer, fx);
            }
            return;
        }
        let timeout_ms = self.config.request_timeout_ms;
        if let Some((request, lookup)) = self.replicas.next_lookup(leader) {
            let purpose = Purpose::LookUp { leader, lookup };
            return self.network.send(now, peer, request, purpose, timeout_ms, fx);
        }
        let next = self.with_replicas(now, fx, |replicas, step| replicas.next_fetch(leader, epoch, step));
        if let Some(request) = next {
            let purpose = Purpose::FetchReplicas { leader };
            self.network.send(now, peer, request, purpose, timeout_ms, fx);
        }
    }
}
