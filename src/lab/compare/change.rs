//! What is otherwise in the second of two runs of one scenario.
//!
//! A change is made in the scenario and in the commands that add clients and create topics, whoever gave them.
//!
//! **Invariant:** a change reads as it prints.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::client::config::producer::PRODUCER_KEYS;
use crate::client::program::Line;
use crate::lab::scenario::Scenario;
use crate::sim::Command;

/// Whose config is otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    Producers,
    Consumers,
    ShareConsumers,
    Topics,
    Brokers,
}

impl Whose {
    pub const ALL: [Whose; 5] =
        [Whose::Producers, Whose::Consumers, Whose::ShareConsumers, Whose::Topics, Whose::Brokers];

    pub fn name(self) -> &'static str {
        match self {
            Whose::Producers => "producers",
            Whose::Consumers => "consumers",
            Whose::ShareConsumers => "share-consumers",
            Whose::Topics => "topics",
            Whose::Brokers => "brokers",
        }
    }
}

/// One thing that is otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// A config of all of them: `producers acks=1`.
    Config { whose: Whose, key: String, value: String },
    /// Where programs commit what they process: `programs commit before process`.
    CommitBeforeProcess,
    /// `programs commit after process`
    CommitAfterProcess,
}

/// Changes that are worth a look, each with what it shows.
pub const SUGGESTED: [(&str, &str); 8] = [
    ("producers acks=1", "a leader answers before others have the record"),
    ("producers acks=all", "a leader answers when every in-sync replica has the record"),
    ("consumers partition.assignment.strategy=cooperative-sticky", "only what must move stops"),
    ("consumers partition.assignment.strategy=roundrobin", "everything stops, everything is dealt anew"),
    ("consumers group.protocol=consumer", "the coordinator assigns, and members reconcile one by one"),
    ("topics unclean.leader.election.enable=true", "a replica may lead that lacks records"),
    ("programs commit before process", "a crash loses what was not processed"),
    ("programs commit after process", "a crash repeats what was not committed"),
];

/// Why a text is no change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no change; one reads \"producers acks=1\", \"topics min.insync.replicas=1\" or \"programs commit before process\", and begins with producers, consumers, share-consumers, topics, brokers or programs"
)]
pub struct ChangeError(pub String);

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Change, ChangeError> {
        let wrong = || ChangeError(text.to_owned());
        let (first, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let rest = rest.trim();
        if first == "programs" {
            let words: Vec<&str> = rest.split_whitespace().collect();
            return match words[..] {
                ["commit", "before", "process"] => Ok(Change::CommitBeforeProcess),
                ["commit", "after", "process"] => Ok(Change::CommitAfterProcess),
                _ => Err(wrong()),
            };
        }
        let whose = Whose::ALL.into_iter().find(|whose| whose.name() == first).ok_or_else(wrong)?;
        let (key, value) = rest.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || rest.chars().any(char::is_control) {
            return Err(wrong());
        }
        Ok(Change::Config { whose, key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Config { whose, key, value } => write!(f, "{} {key}={value}", whose.name()),
            Change::CommitBeforeProcess => f.write_str("programs commit before process"),
            Change::CommitAfterProcess => f.write_str("programs commit after process"),
        }
    }
}

impl Change {
    /// The scenario with the change.
    pub fn in_scenario(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        if let Change::Config { whose: Whose::Brokers, key, value } = self {
            scenario.broker_config.insert(key.clone(), value.clone());
        }
        scenario.topics.iter_mut().for_each(|topic| self.set(Whose::Topics, &mut topic.config));
        for (_, spec) in &mut scenario.producers {
            self.set(Whose::Producers, &mut spec.config);
        }
        for (_, spec) in &mut scenario.consumers {
            self.set(Whose::Consumers, &mut spec.config);
            self.reorder(&mut spec.program);
        }
        for (_, spec) in &mut scenario.share_consumers {
            self.set(Whose::ShareConsumers, &mut spec.config);
        }
        for (_, spec) in &mut scenario.applications {
            self.set_of_application(&mut spec.config);
            self.reorder(&mut spec.program);
        }
        scenario.at.iter_mut().for_each(|(_, command)| self.in_command(command));
        scenario
    }

    /// A command with the change.
    pub fn in_command(&self, command: &mut Command) {
        match command {
            Command::CreateTopic { config, .. } => self.set(Whose::Topics, config),
            Command::AddProducer(spec) => self.set(Whose::Producers, &mut spec.config),
            Command::AddConsumer(spec) => {
                self.set(Whose::Consumers, &mut spec.config);
                self.reorder(&mut spec.program);
            }
            Command::AddShareConsumer(spec) => self.set(Whose::ShareConsumers, &mut spec.config),
            Command::AddApplication(spec) => {
                self.set_of_application(&mut spec.config);
                self.reorder(&mut spec.program);
            }
            _ => {}
        }
    }

    fn set(&self, of: Whose, config: &mut BTreeMap<String, String>) {
        if let Change::Config { whose, key, value } = self
            && *whose == of
        {
            config.insert(key.clone(), value.clone());
        }
    }

    /// An application is a consumer and a producer, whose configs are in one list: of a producer's it has what a producer knows.
    fn set_of_application(&self, config: &mut BTreeMap<String, String>) {
        let Change::Config { key, .. } = self else { return };
        if PRODUCER_KEYS.iter().any(|known| known.name == key) {
            self.set(Whose::Producers, config);
        }
        self.set(Whose::Consumers, config);
    }

    /// Lines that commit go before or behind those that process, with everything else where it is.
    fn reorder(&self, program: &mut Vec<Line>) {
        let before = match self {
            Change::CommitBeforeProcess => true,
            Change::CommitAfterProcess => false,
            Change::Config { .. } => return,
        };
        let commits = |line: &Line| matches!(line, Line::Commit | Line::CommitAsync | Line::CommitRecord(_));
        let processes = |line: &Line| matches!(line, Line::Process { .. });
        if !program.iter().any(processes) {
            return;
        }
        let (moved, mut rest): (Vec<Line>, Vec<Line>) = program.iter().partition(|line| commits(line));
        let place = match before {
            true => rest.iter().position(processes),
            false => rest.iter().rposition(processes).map(|last| last + 1),
        };
        if let Some(place) = place {
            rest.splice(place..place, moved);
        }
        *program = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::command::{Clients, parse, print};

    #[test]
    fn changes_read_as_they_print() {
        for (text, _) in SUGGESTED {
            assert_eq!(text.parse::<Change>().map(|change| change.to_string()), Ok(text.to_owned()));
        }
        let spaced = " brokers  offsets.topic.num.partitions = 3 ".parse::<Change>();
        assert_eq!(
            spaced.map(|change| change.to_string()),
            Ok("brokers offsets.topic.num.partitions=3".to_owned())
        );
        for text in ["", "producers", "producers acks", "cats acks=1", "programs commit", "topics =1"] {
            assert_eq!(text.parse::<Change>(), Err(ChangeError(text.to_owned())));
        }
    }

    fn check(change: &str, command: &str, expected: &str) {
        let parsed = parse(command).map(|written| Clients::default().complete(written));
        let mut parsed = parsed.expect(command).expect(command);
        change.parse::<Change>().expect(change).in_command(&mut parsed);
        assert_eq!(print(&parsed), expected);
    }

    #[test]
    fn commands_that_add_somebody_have_the_change_too() {
        let topic = "create topic audit partitions 3 replication-factor 3";
        check("topics min.insync.replicas=2", topic, &format!("{topic} min.insync.replicas=2"));
        check("producers acks=1", topic, topic);
        let application = |rest: &str| {
            format!("add application pricing to billing topics orders output prices program \"{rest}")
        };
        let program = "poll; process 5ms; send results; flush; commit\"";
        check("producers acks=1", &application(program), &application(&format!("{program} acks=1")));
        check("producers max.poll.records=1", &application(program), &application(program));
        let before = application("poll; commit; process 5ms; send results; flush\"");
        check("programs commit before process", &application(program), &before);
    }
}
