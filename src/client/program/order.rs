//! What a person has done to a running program.
//!
//! **Invariant:** an order that [`Program::check`] refuses changes nothing.

use super::{Activity, Line, Program, Stop, StopError};
use crate::kafka::effects::Effects;
use crate::kafka::event::{ApplicationEvent, Event};
use crate::kafka::time::Time;
use crate::kafka::types::ClientName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Stop(Stop),
    /// A thread that hangs goes on.
    Wake,
    /// Other lines, from the first one on.
    Exchange(Vec<Line>),
    /// How long each record takes in each `process`, from the next record on.
    Pace {
        us_per_record: i64,
    },
}

/// Why an order cannot be carried out, in words that go on after the client's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error(transparent)]
    Stop(#[from] StopError),
    #[error("does not hang")]
    NotHanging,
    #[error("has no line process")]
    NoProcess,
    #[error("cannot run that: {0}")]
    Program(String),
    #[error("is closing")]
    Closing,
}

impl Program {
    /// Whether an order can be carried out now; what a new program means to its client, the client judges.
    pub(in crate::client) fn check(&self, order: &Order) -> Result<(), OrderError> {
        if matches!(self.activity, Activity::Closing { .. }) {
            return Err(OrderError::Closing);
        }
        let hangs = matches!(self.activity, Activity::Hanging { .. });
        let processes = self.lines.iter().any(|line| matches!(line, Line::Process { .. }));
        match order {
            Order::Stop(stop) => Ok(stop.check(&self.lines)?),
            Order::Wake if !hangs => Err(OrderError::NotHanging),
            Order::Pace { .. } if !processes => Err(OrderError::NoProcess),
            Order::Wake | Order::Pace { .. } | Order::Exchange(_) => Ok(()),
        }
    }

    /// Carries an order out, but for waking the thread up, which its client does.
    pub(in crate::client) fn obey<T>(&mut self, order: Order, client: &ClientName, fx: &mut Effects<T>) {
        let client = client.clone();
        match order {
            Order::Stop(stop) => self.stops.push(stop),
            Order::Wake => {}
            Order::Exchange(lines) => {
                let program = text(&lines).into();
                fx.event(Event::Application(ApplicationEvent::ProgramChanged { client, program }));
                self.exchange = Some(lines.into());
            }
            Order::Pace { us_per_record } => {
                fx.event(Event::Application(ApplicationEvent::PaceSet { client, us_per_record }));
                self.set_pace(us_per_record);
            }
        }
    }

    fn set_pace(&mut self, us_per_record: i64) {
        let pace = |line: &Line| match line {
            Line::Process { .. } => Line::Process { us_per_record },
            line => *line,
        };
        self.lines = self.lines.iter().map(pace).collect();
        self.exchange = self.exchange.take().map(|lines| lines.iter().map(pace).collect());
    }

    /// Lets a thread that hangs go on, if its time is over or, without `now`, at once.
    pub(in crate::client) fn wakes<T>(
        &mut self,
        now: Option<Time>,
        client: &ClientName,
        fx: &mut Effects<T>,
    ) -> bool {
        let Activity::Hanging { until, .. } = self.activity else { return false };
        let wakes = now.is_none_or(|now| until.is_some_and(|until| until <= now));
        if wakes {
            fx.event(Event::Application(ApplicationEvent::Woken { client: client.clone() }));
        }
        wakes
    }
}

/// The lines as a person writes them.
pub fn text(lines: &[Line]) -> String {
    lines.iter().map(Line::to_string).collect::<Vec<_>>().join("; ")
}
