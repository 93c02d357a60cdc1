//! Why something is so, as the page shows it.

use std::rc::Rc;

use crate::kafka::time::Time;
use crate::lab::command::{CommandError, Question, Written, parse};
use crate::lab::history::History;
use crate::lab::why::{Chain, Link, explain};
use crate::lab::words::count;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonView {
    /// Counts what was asked, so that each answer is another one.
    pub number: u64,
    /// "why isr orders-0"
    pub question: Rc<str>,
    pub asked_at: Time,
    /// How things stood then.
    pub title: Rc<str>,
    /// What made them so, the shortest first.
    pub chains: Rc<[Rc<ChainView>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainView {
    /// The effect first, the first cause last.
    pub links: Rc<[LinkView]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    pub time: Time,
    pub text: Rc<str>,
    /// May be empty.
    pub detail: Rc<str>,
    /// A step on the way that changed nothing for itself.
    pub is_routine: bool,
}

impl ChainView {
    /// "and 3 steps between"; `None` if all changed something.
    pub fn hidden(&self) -> Option<String> {
        let hidden = self.links.iter().filter(|link| link.is_routine).count();
        (hidden > 0).then(|| format!("and {} between", count(hidden as i64, "step")))
    }
}

/// The answer to a question for a reason, of the present; `None` if the text is none.
///
/// # Errors
///
/// It asks of something that there is not, with its place.
pub fn reason(history: &History, text: &str, number: u64) -> Option<Result<ReasonView, CommandError>> {
    let Ok(Written::Question(Question::Why { why, column, .. })) = parse(text) else { return None };
    let explained = explain(&history.past(), &why, column);
    Some(explained.map(|explanation| ReasonView {
        number,
        question: Rc::from(why.to_string()),
        asked_at: history.present().now(),
        title: Rc::from(explanation.title),
        chains: explanation.chains.iter().map(|chain| Rc::new(chain_view(chain))).collect(),
    }))
}

fn chain_view(chain: &Chain) -> ChainView {
    let view = |link: &Link| LinkView {
        time: link.time,
        text: Rc::from(link.text.as_str()),
        detail: Rc::from(link.detail.as_str()),
        is_routine: link.is_routine,
    };
    ChainView { links: chain.links.iter().map(view).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::history::History;
    use crate::lab::session::Options;

    const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");

    /// Back in time the run knows few events itself; the answer is that of the moment.
    #[test]
    fn a_reason_is_told_after_the_run_was_taken_back_too() {
        let mut history = History::open(SCENARIO, Options::default()).expect("it is right");
        history.seek(Time::from_ms(0));
        history.run(Time::from_ms(13_000), u64::MAX, crate::lab::pace::StopsAt::Nothing);
        history.command("kill broker 3").expect("it runs");
        history.run(Time::from_ms(26_000), u64::MAX, crate::lab::pace::StopsAt::Nothing);
        let ask = |history: &History| reason(history, "why isr orders-0", 1).expect("it is a question");
        let first = ask(&history).expect("there is orders-0");
        let told: Vec<&str> = first.chains[0].links.iter().map(|link| &*link.text).collect();
        assert_eq!(told.last(), Some(&"you gave the command: kill broker 3"), "{told:?}");
        assert_eq!(first.chains[0].links.last().map(|link| link.time), Some(Time::from_ms(13_000)));
        history.seek(Time::from_ms(14_000));
        history.seek(Time::from_ms(26_000));
        assert_eq!(ask(&history).expect("there is orders-0"), first);
        history.seek(Time::from_ms(12_000));
        let before = ask(&history).expect("there is orders-0");
        assert!(before.title.contains("every replica is in sync"), "{before:?}");
        assert!(reason(&history, "story orders-0 1", 2).is_none() && reason(&history, "why", 2).is_none());
    }
}
