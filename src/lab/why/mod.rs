//! Why something is as it is: the chain of events that made it so, back to what a person did.
//!
//! A question about a state ([`state`]) finds the event that last made it so; from there on each event has a cause
//! ([`cause`]): the event that made its condition true, or the one whose step scheduled its own. A chain ends at a command, a
//! line of the scenario, or the begin of the run. Why nothing happens is asked of the present alone ([`idle`]).
//!
//! - [`past`]: the events of the run with the steps that led to them, lived again as far as needed
//! - [`chain`]: events from an effect to its first cause, as sentences
//! - [`plain`]: sentences for what the narrator passes over
//! - [`cause`]: what each kind of event came of
//! - [`state`]: what there is to ask of a state, and which event made it so
//! - [`idle`]: the first condition that somebody waits for
//!
//! **Invariant:** asking changes nothing, and the same run gives the same answer wherever it was lived again from.

pub mod chain;
pub mod past;

mod cause;
mod idle;
mod plain;
mod state;
#[cfg(test)]
mod tests;

pub use self::chain::{Chain, Link};
use self::past::Past;
use crate::lab::command::{CommandError, Why};

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// How things stand, in one or a few sentences.
    pub title: String,
    /// What made it so, the shortest first; none where nothing has happened or nothing is wrong.
    pub chains: Vec<Chain>,
}

impl Explanation {
    /// Of one event that made it so, if there is one.
    fn of(past: &Past, title: impl Into<String>, event: Option<u64>) -> Explanation {
        Explanation::of_all(past, title, event)
    }

    fn of_all(past: &Past, title: impl Into<String>, events: impl IntoIterator<Item = u64>) -> Explanation {
        let mut chains: Vec<Chain> = events.into_iter().map(|event| Chain::from(past, event)).collect();
        chains.sort_by_key(|chain| chain.short().count());
        Explanation { title: title.into(), chains }
    }

    /// Line by line, each event with its time; all steps of a chain, or those that changed something.
    pub fn text(&self, all: bool) -> Vec<String> {
        let mut lines = vec![self.title.clone()];
        for (index, chain) in self.chains.iter().enumerate() {
            if index > 0 {
                lines.push("and".to_owned());
            }
            lines.extend(chain.links.iter().filter(|link| all || !link.is_routine).map(Link::line));
        }
        lines
    }
}

/// Answers a question about the present of this past.
///
/// # Errors
///
/// It asks of something that there is not, which stands at `column`.
pub fn explain(past: &Past, why: &Why, column: i32) -> Result<Explanation, CommandError> {
    let answer = match why {
        Why::Idle(name) => idle::of_name(past, name),
        Why::IdleGroup(group) => idle::of_group(past, group),
        why => state::explain(past, why),
    };
    answer.map_err(|reason| CommandError::new(column, reason))
}
