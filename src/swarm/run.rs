//! One seed: a plan, a storm of faults under watch, then everything heals and must come to rest.
//!
//! **Invariant:** the seed and the number of minutes determine the run.

use std::cell::Cell;

use super::acts::{self, Act};
use super::check::{Broken, Check, Verdict};
use super::counts::Counts;
use super::order;
use super::plan::Plan;
use super::rest;
use super::shares;
use super::transactions;
use super::watch::Watch;
use crate::client::admin::TransactionOperation;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::TransactionalId;
use crate::sim::{Command, Target, World};

/// Everything there is is looked at each time so many events have happened.
const EVERYTHING_EACH: u64 = 1_000;
/// A quorum of several elects within an election timeout or two.
const START_MS: i64 = 8_000;
/// Over slow links the topics are created one after the other within some seconds.
const CREATIONS_MS: i64 = 10_000;
/// Two rebalances, one after the other, that each wait for a member that does not come back or is busy with a commit that
/// cannot succeed (max.poll.interval.ms, 300 s), sessions of crashed members (45 s), requests that wait (30 s), lagging
/// followers, one after the other.
///
/// Kafka's classic consumer is held up like ours by a commit that names a deleted topic: `ConsumerCoordinator`'s
/// `OffsetCommitResponseHandler.handle` raises UNKNOWN_TOPIC_OR_PARTITION as it is ("just retry"), which is a
/// RetriableException, and `onJoinPrepare` commits again after retry.backoff.ms as long as `isRetriable()` and its
/// joinPrepareTimer of rebalanceTimeoutMs is not expired. Only the newer consumer goes on
/// (`CommitRequestManager.autoCommitSyncBeforeRebalanceWithRetries`).
const REST_MS: i64 = 780_000;
/// The longest delivery.timeout.ms there is, and some.
const DRAIN_MS: i64 = 130_000;
/// The longest transaction.timeout.ms there is, until the coordinator looks, and some.
const TIMEOUTS_MS: i64 = 90_000;
/// More than ever happens at one moment, if each thing that happens takes some time or is the last.
const STEPS_OF_A_MOMENT: u32 = 50_000;
/// How often somebody looks for what does not mend by itself.
const HELP_EACH_MS: i64 = 20_000;
/// A consumer's last commit, and that it leaves.
const CLOSE_MS: i64 = 5_000;
/// The followers' next fetches.
const LAST_FETCHES_MS: i64 = 1_500;
/// Events that a failure tells.
pub const LAST_EVENTS: usize = 40;

/// What came of a seed that failed nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calm {
    pub digest: u64,
    pub events: u64,
    /// How often something was held to a rule.
    pub checks: u64,
    /// What was compared, and what happened.
    pub counts: Counts,
    pub virtual_ms: i64,
}

/// An invariant that did not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub seed: u64,
    pub digest: u64,
    pub event: u64,
    pub at: Time,
    pub check: Check,
    pub what: String,
    /// The last events before it, a line each.
    pub before: Vec<String>,
}

/// Where a run is, for whoever has to say it after a panic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub seed: u64,
    pub digest: u64,
    pub event: u64,
}

thread_local! {
    /// Where the run of this thread is.
    static PLACE: Cell<Place> = const { Cell::new(Place { seed: 0, digest: 0, event: 0 }) };
}

/// Where the run of this thread is.
pub fn place() -> Place {
    PLACE.get()
}

/// Runs one seed.
pub fn run(seed: u64, virtual_minutes: i64) -> Result<Calm, Fault> {
    run_telling(seed, virtual_minutes, LAST_EVENTS)
}

/// Runs one seed; a failure tells the last `events`.
pub fn run_telling(seed: u64, virtual_minutes: i64, events: usize) -> Result<Calm, Fault> {
    PLACE.set(Place { seed, ..Place::default() });
    let plan = Plan::draw(seed);
    let world = World::new(plan.world.clone()).expect("a plan holds valid configs");
    let results = plan.transactions.work().map(|work| work.output.clone());
    let mut storm = Storm {
        watch: Watch::new(plan.acks_all(), results),
        random: Random::stream(seed, "swarm acts"),
        plan,
        world,
    };
    match storm.live(virtual_minutes) {
        Ok(()) => Ok(Calm {
            digest: storm.world.digest(),
            events: storm.world.events_done(),
            checks: storm.watch.checks(),
            counts: storm.watch.counts(),
            virtual_ms: storm.world.now().ms(),
        }),
        Err(broken) => Err(storm.fault(broken, events)),
    }
}

struct Storm {
    plan: Plan,
    world: World,
    watch: Watch,
    random: Random,
}

impl Storm {
    fn live(&mut self, virtual_minutes: i64) -> Verdict {
        self.run_ms(START_MS)?;
        let plan = self.plan.clone();
        plan.creations().try_for_each(|command| self.give(command))?;
        self.await_topics()?;
        plan.arrivals().try_for_each(|command| self.give(command))?;
        let end = Time::from_ms(virtual_minutes * 60_000);
        while self.world.now() < end {
            let pause_ms = acts::pause_ms(&mut self.random);
            self.run_ms(pause_ms)?;
            self.act()?;
        }
        self.heal()?;
        self.come_to_rest()?;
        self.drain()?;
        self.end_transactions()?;
        self.watch.everything(&self.world)?;
        self.watch.check_transactions(&self.world, self.plan.transactions.work())?;
        self.watch.check_ledger(&self.world)?;
        Check::Order.verdict(order::fault(&self.world, &self.plan, &self.watch))
    }

    /// Lets the planned topics come to be.
    fn await_topics(&mut self) -> Verdict {
        let mut waited_ms = 0;
        loop {
            self.run_ms(1_000)?;
            waited_ms += 1_000;
            match rest::fault_of_topics(&self.world, &self.plan) {
                None => return Ok(()),
                Some(fault) if waited_ms >= CREATIONS_MS => return Err(Check::SetUp.broken(fault)),
                Some(_) => {}
            }
        }
    }

    /// Moves on, watching every step.
    fn run_ms(&mut self, ms: i64) -> Verdict {
        self.run_until(ms, |_, _| None).map(|_| ())
    }

    /// Moves on for so long, or until there is something to do: `asks` is told of what has happened from event number on.
    fn run_until(
        &mut self,
        ms: i64,
        asks: impl Fn(&World, u64) -> Option<Command>,
    ) -> Result<Option<Command>, Broken> {
        let end = self.world.now().plus_ms(ms);
        let (mut moment, mut steps) = (self.world.now(), 0);
        while self.world.next_at().is_some_and(|at| at <= end) {
            let seen = self.world.trace().len_ever();
            self.world.step();
            self.look()?;
            let asked = asks(&self.world, seen);
            if asked.is_some() {
                return Ok(asked);
            }
            steps = if self.world.now() > moment { 0 } else { steps + 1 };
            moment = self.world.now();
            if steps > STEPS_OF_A_MOMENT {
                let busy = format!("{:?} has no end of work at {moment}", self.world.ran());
                return Err(Check::Standstill.broken(busy));
            }
        }
        self.world.advance_to(end);
        Ok(None)
    }

    fn look(&mut self) -> Verdict {
        let event = self.world.events_done();
        PLACE.set(Place { seed: self.world.seed(), digest: self.world.digest(), event });
        self.watch.after_step(&self.world)?;
        if event.is_multiple_of(EVERYTHING_EACH) {
            self.watch.everything(&self.world)?;
        }
        Ok(())
    }

    /// Gives a command, which is let be if it is not possible now.
    fn give(&mut self, command: Command) -> Verdict {
        let text = format!("{command:?}");
        if self.world.check(&command).is_ok() {
            self.world.schedule(self.world.now(), command, &text);
            self.run_ms(0)?;
        }
        Ok(())
    }

    fn act(&mut self) -> Verdict {
        match acts::draw(&mut self.random, &self.plan, &self.world) {
            Act::Give(commands) => commands.into_iter().try_for_each(|command| self.give(command)),
            Act::Restart { target, after_ms } => {
                self.give(Command::Kill(target.clone()))?;
                self.run_ms(after_ms)?;
                self.give(Command::Start(target))
            }
            Act::AtDecision { hit, within_ms } => {
                let asked = self.run_until(within_ms, |world, seen| {
                    let events = world.trace().since(seen).map(|entry| &entry.event);
                    transactions::hit(hit, world, events)
                })?;
                asked.map_or(Ok(()), |command| self.give(command))
            }
            Act::Heal => self.heal(),
        }
    }

    fn heal(&mut self) -> Verdict {
        acts::healing(&self.plan, &self.world).into_iter().try_for_each(|command| self.give(command))
    }

    fn come_to_rest(&mut self) -> Verdict {
        let mut waited_ms = 0;
        while let Some(unrest) = rest::unrest(&self.world, &self.plan) {
            if waited_ms > REST_MS {
                self.watch.check_decided(&self.world)?;
                let check = match rest::twins(&self.world, &self.plan) {
                    Some(_) => Check::Twins,
                    None => Check::Rest,
                };
                return Err(check.broken(format!("no rest after {waited_ms} ms: {unrest}")));
            }
            if waited_ms % HELP_EACH_MS == 0 {
                self.help()?;
            }
            // A broker that was told to stop may end only now.
            self.heal()?;
            self.run_ms(1_000)?;
            waited_ms += 1_000;
        }
        Ok(())
    }

    /// Does what only a person can: creates what was deleted, gives partitions that nobody may lead to anybody, cancels what
    /// never ends, takes away disks that no leader can bring up to date, lets groups be assigned whose last assignment is from
    /// a clock that was ahead, and share groups begin the states of an earlier life; restarts a member of a group that nobody
    /// rebalances, and a coordinator with a member that has left and stays one; gives an application another transactional.id if
    /// the one that it has will never be free.
    fn help(&mut self) -> Verdict {
        for creation in rest::missing_topics(&self.world, &self.plan) {
            self.give(creation)?;
        }
        for partition in rest::endless_reassignments(&self.world) {
            self.give(Command::CancelReassignment(partition))?;
        }
        for broker in rest::stuck_followers(&self.world) {
            self.give(Command::Kill(Target::Broker(broker)))?;
            self.give(Command::WipeDisk(broker))?;
        }
        for key in rest::intervals_of_the_future(&self.world, &self.plan) {
            let (key, value) = (key.to_string(), Some("0".to_string()));
            self.give(Command::SetBrokerConfig { broker: None, key, value })?;
        }
        for command in shares::comings_and_goings(&self.world, &self.plan.shares) {
            self.give(command)?;
        }
        for broker in rest::coordinators(&self.world, &self.watch.forsaken()) {
            self.give(Command::Kill(Target::Broker(broker)))?;
        }
        for spec in rest::to_come_anew(&self.world, &self.plan, self.watch.stranded()) {
            self.give(Command::Close(spec.name.clone()))?;
            self.run_ms(CLOSE_MS)?;
            self.give(Command::AddConsumer(spec))?;
        }
        let has_lost = |id: &TransactionalId| self.watch.has_lost_transactions(&self.world, id);
        for spec in self.plan.transactions.barred(&self.world, has_lost) {
            self.give(Command::Crash(spec.name.clone()))?;
            self.give(Command::AddApplication(spec))?;
        }
        match rest::has_orphans(&self.world) {
            true => self.give(Command::ElectLeader { kind: ElectionType::Unclean, partition: None }),
            false => Ok(()),
        }
    }

    /// The producers stop, and hear the outcome of all that they sent. A person adds partitions that they wait for.
    fn drain(&mut self) -> Verdict {
        for producer in self.plan.producers.clone() {
            self.give(Command::Pause(producer.spec.name))?;
        }
        for worker in self.plan.transactions.applications.clone() {
            self.give(Command::Close(worker.name))?;
        }
        let mut waited_ms = 0;
        while let Some(waiting) = rest::undrained(&self.world, &self.plan) {
            if waited_ms % HELP_EACH_MS == 0 {
                for addition in rest::awaited_partitions(&self.world, &self.plan) {
                    self.give(addition)?;
                }
            }
            if waited_ms > DRAIN_MS {
                return Err(Check::Outcome.broken(format!("after {waited_ms} ms {waiting}")));
            }
            self.run_ms(1_000)?;
            waited_ms += 1_000;
        }
        self.run_ms(LAST_FETCHES_MS)
    }

    /// What is open comes to its end by its timeout; what nobody is going to end, because something was lost, a person does.
    fn end_transactions(&mut self) -> Verdict {
        let mut waited_ms = 0;
        while waited_ms < TIMEOUTS_MS && self.watch.unsettled_transaction(&self.world).is_some() {
            self.run_ms(1_000)?;
            waited_ms += 1_000;
        }
        for (tp, start) in self.watch.hanging_transactions(&self.world) {
            self.give(Command::Transactions(TransactionOperation::Abort { tp, start }))?;
        }
        self.run_ms(LAST_FETCHES_MS)
    }

    fn fault(&self, Broken { check, what }: Broken, events: usize) -> Fault {
        let world = &self.world;
        let last: Vec<_> = world.trace().entries().rev().take(events).collect();
        Fault {
            seed: world.seed(),
            digest: world.digest(),
            event: world.events_done(),
            at: world.now(),
            check,
            what,
            before: last.iter().rev().map(|entry| format!("{} {:?}", entry.key.time, entry.event)).collect(),
        }
    }
}
