//! How fast virtual time runs for the person who watches.
//!
//! A batch flies for 20 to 60 ms and a session lasts 45 s; no fixed speed shows both. Automatic speed looks at what is
//! under way and asks what is *new*. Right after a change (the page opens, a broker dies, a leader is elected), while
//! group or cluster requests fly, and when traffic begins after a silence, a flight takes long enough for the eye.
//! Traffic that just goes on becomes background within half a second and runs four times slower than a real cluster.
//! While a rebalance only waits for its members time is twice as quick. While someone is missing and nobody
//! has noticed yet (a session that runs out) it is ten times as quick, and while nothing but timers and empty fetches
//! is left it is fast, slowing down again as the next thing worth seeing comes near. From a fault to the end of what
//! it leads to a person watches for about a quarter of a minute.
//!
//! The speed changes what a person sees of a run and never what happens in it, so it may count in floating point.
//!
//! **Invariant:** a present speed eases towards its target and never passes it.

use crate::kafka::event::{EndReason, Event, GroupEvent, ShareEvent, TransactionEvent};
use crate::kafka::time::Time;

/// Virtual milliseconds in a real millisecond at which a 40 ms flight takes half a second.
const FOR_THE_EYE: f64 = 1.0 / 12.0;
/// Traffic in which nothing is new.
const BACKGROUND: f64 = 1.0 / 4.0;
/// A gap in traffic.
const REAL_TIME: f64 = 1.0;
/// A rebalance that waits up to 3 s for its members' heartbeats.
const REBALANCE: f64 = 2.0;
/// A session of 9 or 45 s that runs out while other traffic goes on.
const SESSION: f64 = 10.0;
const FASTEST: f64 = 20.0;
/// Above this speed the eye does not follow a flight.
pub const FLIGHTS_UP_TO: f64 = 0.4;

/// A change is looked at for this long in virtual time, two flights, before anything else counts,
const NEW_FOR_MS: i64 = 120;
/// and this long after it, its traffic is background.
const BACKGROUND_AFTER_MS: i64 = 500;
/// Silence of this length ends traffic, so that the next batch is new.
const SILENCE_MS: i64 = 200;
/// While only timers wait, the rest of the wait takes at least this long in real time at any moment.
const APPROACH_REAL_MS: f64 = 100.0;
/// A frame after a pause of the page (a hidden tab) counts as this long.
pub const LONGEST_FRAME_MS: f64 = 100.0;
/// Real time in which most of a change of speed is done: brakes are quick, acceleration is gentle.
const BRAKE_MS: f64 = 120.0;
const ACCELERATE_MS: f64 = 500.0;

/// What is under way at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    pub now: Time,
    /// Produce requests, and answers to fetches that carry records, in flight.
    pub batches: i32,
    /// JoinGroup, SyncGroup and LeaveGroup requests and answers in flight.
    pub group_requests: i32,
    /// Registrations, in-sync changes and other requests to the controller but heartbeats and fetches, in flight.
    pub cluster_requests: i32,
    /// A group prepares or completes a rebalance.
    pub rebalancing: bool,
    /// A process is dead or frozen, and whoever counts on it has not noticed yet.
    pub missing: bool,
    /// When the newest change was told, or the run opened.
    pub changed_at: Time,
    /// When the next timed command is due.
    pub next_at: Option<Time>,
}

/// Why the automatic speed is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Fixed,
    JustChanged,
    GroupRequests,
    ClusterRequests,
    TrafficBegins,
    TrafficGoesOn,
    RebalanceWaits,
    SessionRunsOut,
    OnlyTimers,
}

impl Reason {
    /// To be shown beside the speed.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Fixed => "fixed speed",
            Reason::JustChanged => "something just changed",
            Reason::GroupRequests => "a rebalance is under way",
            Reason::ClusterRequests => "asking the controller",
            Reason::TrafficBegins => "batches are on their way",
            Reason::TrafficGoesOn => "steady traffic",
            Reason::RebalanceWaits => "rebalance waits for members",
            Reason::SessionRunsOut => "waiting for a timeout",
            Reason::OnlyTimers => "nothing but timers",
        }
    }
}

/// The steps of the speed slider: 1, 2 and 5 in each power of ten from 1/1000 to 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(i8);

impl Step {
    pub const SLOWEST: Step = Step(-9);
    pub const REAL_TIME: Step = Step(0);
    pub const FASTEST: Step = Step(9);

    /// `None` outside -9..=9.
    pub fn new(position: i8) -> Option<Step> {
        let step = Step(position);
        (Step::SLOWEST..=Step::FASTEST).contains(&step).then_some(step)
    }

    pub fn position(self) -> i8 {
        self.0
    }

    /// Virtual milliseconds in a real millisecond.
    pub fn speed(self) -> f64 {
        let steps = self.0.unsigned_abs();
        let factor = 10f64.powi(i32::from(steps / 3)) * [1.0, 2.0, 5.0][usize::from(steps % 3)];
        if self.0 < 0 { 1.0 / factor } else { factor }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Automatic,
    Fixed(Step),
}

/// What one frame may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Virtual time to run, in microseconds.
    pub virtual_us: i64,
    /// Virtual milliseconds in a real millisecond.
    pub speed: f64,
    pub reason: Reason,
}

impl Frame {
    /// Where a frame that is too fast for the eye should end, so that what comes is seen.
    pub fn stops_at(&self) -> StopsAt {
        match self.reason {
            Reason::Fixed => StopsAt::Nothing,
            _ if self.speed <= FLIGHTS_UP_TO => StopsAt::Nothing,
            Reason::SessionRunsOut => StopsAt::Change,
            _ => StopsAt::ChangeOrBatch,
        }
    }
}

/// What ends a fast stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopsAt {
    Nothing,
    /// A process, the cluster or a group changes.
    Change,
    /// That, or a producer sends.
    ChangeOrBatch,
}

/// Batches that follow each other without a silence between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Traffic {
    since: Time,
    /// One of them is in flight now.
    flies: bool,
}

/// The present speed and what it remembers of the traffic.
#[derive(Clone, Debug)]
pub struct Pace {
    pub mode: Mode,
    speed: f64,
    /// The last moment with a batch in flight, and the begin of the traffic it belongs to.
    busy: Option<(Time, Time)>,
    /// What was left of a microsecond at the last frame.
    remainder_us: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { mode: Mode::Automatic, speed: FOR_THE_EYE, busy: None, remainder_us: 0.0 }
    }
}

impl Pace {
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Takes a frame of `real_ms` and says how much virtual time it stands for.
    pub fn frame(&mut self, real_ms: f64, situation: &Situation) -> Frame {
        let real_ms = real_ms.clamp(0.0, LONGEST_FRAME_MS);
        let (target, reason) = match self.mode {
            Mode::Fixed(step) => (step.speed(), Reason::Fixed),
            Mode::Automatic => automatic(situation, self.traffic(situation)),
        };
        self.speed = match self.mode {
            Mode::Fixed(_) => target,
            Mode::Automatic => ease(self.speed, target, real_ms),
        };
        let virtual_us = real_ms * self.speed * 1000.0 + self.remainder_us;
        self.remainder_us = virtual_us.fract();
        Frame { virtual_us: virtual_us as i64, speed: self.speed, reason }
    }

    /// The traffic of this moment; a gap shorter than a silence belongs to it.
    fn traffic(&mut self, situation: &Situation) -> Option<Traffic> {
        let now = situation.now;
        let goes_on = self.busy.filter(|(last, _)| *last <= now && now.ms_since(*last) < SILENCE_MS);
        let since = goes_on.map(|(_, since)| since);
        if situation.batches == 0 {
            return since.map(|since| Traffic { since, flies: false });
        }
        let since = since.unwrap_or(now);
        self.busy = Some((now, since));
        Some(Traffic { since, flies: true })
    }
}

/// The policy: the speed that a situation deserves, and why.
fn automatic(situation: &Situation, traffic: Option<Traffic>) -> (f64, Reason) {
    let changed_ms = situation.now.ms_since(situation.changed_at);
    if situation.group_requests > 0 {
        return (FOR_THE_EYE, Reason::GroupRequests);
    }
    if situation.cluster_requests > 0 {
        return (FOR_THE_EYE, Reason::ClusterRequests);
    }
    if changed_ms < NEW_FOR_MS {
        return (FOR_THE_EYE, Reason::JustChanged);
    }
    // A wait that everything else hangs on comes before the traffic that goes on beside it.
    if situation.missing {
        return (SESSION, Reason::SessionRunsOut);
    }
    if situation.rebalancing {
        return (REBALANCE, Reason::RebalanceWaits);
    }
    if let Some(traffic) = traffic {
        let new_ms = changed_ms.min(situation.now.ms_since(traffic.since));
        let reason = if new_ms < BACKGROUND_AFTER_MS { Reason::TrafficBegins } else { Reason::TrafficGoesOn };
        return (if traffic.flies { flight(new_ms) } else { REAL_TIME }, reason);
    }
    let left_ms = situation.next_at.map_or(f64::MAX, |at| (at - situation.now) as f64 / 1000.0);
    ((left_ms / APPROACH_REAL_MS).clamp(REAL_TIME, FASTEST), Reason::OnlyTimers)
}

/// From a speed for the eye to the background's, as traffic goes on without anything new.
fn flight(new_ms: i64) -> f64 {
    let span = (BACKGROUND_AFTER_MS - NEW_FOR_MS) as f64;
    let part = ((new_ms - NEW_FOR_MS) as f64 / span).clamp(0.0, 1.0);
    FOR_THE_EYE * (BACKGROUND / FOR_THE_EYE).powf(part)
}

/// Moves a speed towards its target, evenly on a log scale; a fast stretch ends at once, or the flight that ends it
/// would be over before the eye finds it.
fn ease(present: f64, target: f64, real_ms: f64) -> f64 {
    let present = if target < BACKGROUND { present.min(BACKGROUND) } else { present };
    let time_ms = if target < present { BRAKE_MS } else { ACCELERATE_MS };
    let left = (-real_ms / time_ms).exp();
    target * (present / target).powf(left)
}

/// Whether an event ends a fast stretch, so that the frame that came upon it stops there and the next one is slow.
pub fn ends_a_wait(event: &Event, stops_at: StopsAt) -> bool {
    let change = matches!(
        event,
        Event::Process { .. }
            | Event::BrokerFenced { .. }
            | Event::BrokerUnfenced { .. }
            | Event::ShutdownBegun { .. }
            | Event::PartitionsAdded { .. }
            | Event::TopicDeleted { .. }
            | Event::ReplicasChanged { .. }
            | Event::LogStartMoved { leader: true, .. }
            | Event::LeaderElected { .. }
            | Event::IsrShrunk { .. }
            | Event::IsrExpanded { .. }
            | Event::JoinSent { .. }
            | Event::Group(GroupEvent::RebalanceStarted { .. })
            | Event::Group(GroupEvent::TargetAssigned { .. })
            | Event::Group(GroupEvent::RevocationAsked { .. })
            | Event::Group(GroupEvent::GroupConverted { .. })
            | Event::Group(GroupEvent::MemberRemoved { .. })
            | Event::Transaction(TransactionEvent::Decided {
                reason: EndReason::NewInstance | EndReason::Timeout,
                ..
            })
            | Event::Share(
                ShareEvent::Joins { .. } | ShareEvent::LocksEnded { .. } | ShareEvent::GivenBack { .. }
            )
    );
    match stops_at {
        StopsAt::Nothing => false,
        StopsAt::Change => change,
        StopsAt::ChangeOrBatch => change || matches!(event, Event::BatchSent { .. }),
    }
}

/// A speed as it is shown: `1/12x`, `1x`, `20x`.
pub fn label(speed: f64) -> String {
    if speed < 0.75 { format!("1/{:.0}x", 1.0 / speed) } else { format!("{speed:.0}x") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Situation = Situation {
        now: Time::from_ms(60_000),
        batches: 0,
        group_requests: 0,
        cluster_requests: 0,
        rebalancing: false,
        missing: false,
        changed_at: Time::ZERO,
        next_at: None,
    };

    /// The speed that a situation comes to when it lasts, traffic in it having begun `traffic_ms` ago.
    fn check(situation: Situation, traffic_ms: i64, speed: &str, reason: Reason) {
        let since = situation.now.plus_ms(-traffic_ms);
        let traffic = (situation.batches > 0).then_some(Traffic { since, flies: true });
        let (target, why) = automatic(&situation, traffic);
        assert_eq!((label(target).as_str(), why), (speed, reason));
    }

    #[test]
    fn change_is_slow_steady_traffic_is_background_and_waiting_is_fast() {
        let now = QUIET.now;
        check(QUIET, 0, "20x", Reason::OnlyTimers);
        check(Situation { batches: 9, ..QUIET }, 60_000, "1/4x", Reason::TrafficGoesOn);
        check(Situation { batches: 1, ..QUIET }, 0, "1/12x", Reason::TrafficBegins);
        check(Situation { batches: 1, ..QUIET }, 310, "1/7x", Reason::TrafficBegins);
        check(Situation { changed_at: now, ..QUIET }, 0, "1/12x", Reason::JustChanged);
        check(
            Situation { batches: 9, changed_at: now.plus_ms(-215), ..QUIET },
            60_000,
            "1/9x",
            Reason::TrafficBegins,
        );
        check(Situation { batches: 9, group_requests: 1, ..QUIET }, 60_000, "1/12x", Reason::GroupRequests);
        check(Situation { cluster_requests: 1, ..QUIET }, 0, "1/12x", Reason::ClusterRequests);
        check(Situation { rebalancing: true, ..QUIET }, 0, "2x", Reason::RebalanceWaits);
        check(Situation { rebalancing: true, batches: 9, ..QUIET }, 60_000, "2x", Reason::RebalanceWaits);
        check(Situation { missing: true, batches: 9, ..QUIET }, 60_000, "10x", Reason::SessionRunsOut);
        let just_died = Situation { missing: true, batches: 9, changed_at: now.plus_ms(-100), ..QUIET };
        check(just_died, 60_000, "1/12x", Reason::JustChanged);
    }

    #[test]
    fn a_wait_slows_down_as_its_end_comes_near() {
        let due_in = |ms| Situation { next_at: Some(QUIET.now.plus_ms(ms)), ..QUIET };
        check(due_in(5000), 0, "20x", Reason::OnlyTimers);
        check(due_in(1000), 0, "10x", Reason::OnlyTimers);
        check(due_in(50), 0, "1x", Reason::OnlyTimers);
        check(due_in(0), 0, "1x", Reason::OnlyTimers);
    }

    #[test]
    fn a_flight_of_40_ms_takes_between_450_and_750_ms_when_little_goes_on() {
        let mut pace = Pace::default();
        let (mut now, mut real_ms) = (QUIET.now, 0);
        while now < QUIET.now.plus_ms(40) {
            let frame = pace.frame(16.0, &Situation { now, batches: 1, ..QUIET });
            now = now.plus_us(frame.virtual_us);
            real_ms += 16;
        }
        assert!((450..=750).contains(&real_ms), "{real_ms} ms");
    }

    #[test]
    fn a_silence_makes_the_next_batch_new_and_a_gap_between_batches_does_not() {
        let mut pace = Pace::default();
        let mut at = |ms: i64, batches| {
            let situation = Situation { now: Time::from_ms(60_000 + ms), batches, ..QUIET };
            pace.frame(0.0, &situation).reason
        };
        assert_eq!(at(0, 1), Reason::TrafficBegins);
        assert_eq!(at(100, 0), Reason::TrafficBegins);
        assert_eq!(at(300, 0), Reason::OnlyTimers);
        for ms in (350..2000).step_by(50) {
            at(ms, 1);
        }
        assert_eq!(at(2000, 1), Reason::TrafficGoesOn);
        assert_eq!(at(2100, 0), Reason::TrafficGoesOn);
        assert_eq!(at(2250, 1), Reason::TrafficBegins);
    }

    /// The frames of 16 ms until a speed is within a tenth of where it goes, and the largest change in one of them.
    fn check_ease(from: f64, to: f64, most_frames: i32, most_change: f64) {
        let (mut speed, mut frames) = (from, 0);
        while (speed / to).ln().abs() > 0.1 {
            let next = ease(speed, to, 16.0);
            assert!((next - to).signum() == (speed - to).signum(), "{next} is past {to}");
            assert!((next / speed).ln().abs() < most_change.ln(), "{speed} to {next} in one frame");
            (speed, frames) = (next, frames + 1);
        }
        assert!(frames <= most_frames, "{frames} frames from {from} to {to}");
    }

    #[test]
    fn speeds_change_smoothly_and_brakes_are_quicker_than_acceleration() {
        check_ease(FOR_THE_EYE, FASTEST, 130, 1.21);
        check_ease(FOR_THE_EYE, BACKGROUND, 90, 1.05);
        check_ease(BACKGROUND, FOR_THE_EYE, 20, 1.2);
        check_ease(FASTEST, REAL_TIME, 30, 1.5);
    }

    #[test]
    fn a_fast_stretch_ends_at_once_when_something_is_to_be_seen() {
        assert!(ease(FASTEST, FOR_THE_EYE, 16.0) < BACKGROUND);
    }

    #[test]
    fn fixed_speeds_run_from_a_thousandth_to_a_thousand() {
        let labels: Vec<String> = (-9..=9).filter_map(Step::new).map(|step| label(step.speed())).collect();
        expect_test::expect![[
            "1/1000x 1/500x 1/200x 1/100x 1/50x 1/20x 1/10x 1/5x 1/2x 1x 2x 5x 10x 20x 50x 100x 200x 500x 1000x"
        ]]
        .assert_eq(&labels.join(" "));
        assert_eq!((Step::new(10), Step::new(-10)), (None, None));
    }

    #[test]
    fn slow_frames_add_up_to_whole_microseconds_and_a_long_pause_counts_as_one_frame() {
        let mut pace = Pace { mode: Mode::Fixed(Step::SLOWEST), ..Pace::default() };
        let run: i64 = (0..1000).map(|_| pace.frame(0.5, &QUIET).virtual_us).sum();
        assert!((499..=500).contains(&run), "{run} us in 500 ms at 1/1000");
        pace.mode = Mode::Fixed(Step::REAL_TIME);
        assert_eq!(pace.frame(60_000.0, &QUIET).virtual_us, 100_000);
    }
}
