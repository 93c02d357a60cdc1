//! What the page says of the last thing that was asked of it.

use std::rc::Rc;

use super::keep::KeepError;

/// What came of the last thing that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A command was given.
    Given(Rc<str>),
    /// A command was refused, for a reason in one sentence.
    Refused { text: Rc<str>, reason: Rc<str> },
    /// What was asked, as lines.
    Told { question: Rc<str>, lines: Rc<[Rc<str>]> },
    /// How quick this browser is, as a sentence.
    Measured(Rc<str>),
    /// A link cannot be opened, and why.
    BadLink(Rc<str>),
    /// A linked run goes otherwise here.
    Parted(Rc<str>),
    /// The page holds as much as it may.
    Full(Rc<str>),
    /// There is no mark to go to.
    NoMark { after: bool },
    /// The browser does not keep the run, and why.
    NotKept(KeepError),
}

impl Answer {
    pub fn of_command(text: &str, refusal: Option<Rc<str>>) -> Rc<Answer> {
        let text = Rc::from(text);
        Rc::new(match refusal {
            None => Answer::Given(text),
            Some(reason) => Answer::Refused { text, reason },
        })
    }

    /// The command that it is about.
    pub fn command(&self) -> Option<&str> {
        match self {
            Answer::Given(text) | Answer::Refused { text, .. } => Some(text),
            _ => None,
        }
    }

    pub fn refusal(&self) -> Option<&Rc<str>> {
        match self {
            Answer::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }
}
