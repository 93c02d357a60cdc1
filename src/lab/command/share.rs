//! `add share consumer s1 to payments`: reading it, writing it, and what is left open.

use super::CommandError;
use super::complete::{Clients, Written, merged, refusal};
use super::consumers::{list, topics};
use super::parse::{client, program};
use super::print::{client as client_text, configs};
use super::tokens::quote;
use super::words::{Words, check_filled};
use crate::client::program::Line;
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::types::{ClientName, GroupId, Topic};
use crate::sim::{Command, Refusal};
use std::collections::BTreeMap;

/// With implicit acknowledgement poll() accepts.
const DEFAULT_PROGRAM: [&str; 2] = ["poll", "process 20ms"];

/// What was said of a new share consumer.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareConsumerDraft {
    pub name: ClientName,
    pub group: GroupId,
    /// Empty: as the group's other members.
    pub topics: Vec<Topic>,
    pub program: Option<Vec<Line>>,
    pub config: BTreeMap<String, String>,
}

impl ShareConsumerDraft {
    pub fn new(name: ClientName, group: GroupId) -> ShareConsumerDraft {
        ShareConsumerDraft { name, group, topics: Vec::new(), program: None, config: BTreeMap::new() }
    }

    /// What is open is as the group's newest member has it. The first member of a group says at least its topics, unless
    /// there is only one.
    ///
    /// # Errors
    ///
    /// There is nobody to be like.
    pub(super) fn complete(&self, clients: &Clients) -> Result<ShareConsumerSpec, Refusal> {
        let like = clients.share_consumers.iter().rev().find(|other| other.group == self.group);
        let topics = match (&self.topics[..], like, &clients.topics[..]) {
            ([], Some(other), _) => other.topics.clone(),
            ([], None, [only]) => vec![only.clone()],
            ([], None, _) => {
                let reason = format!("share group {} has no member to be like; say its topics", self.group);
                return Err(refusal(reason));
            }
            (topics, _, _) => topics.to_vec(),
        };
        let program = self.program.clone().or_else(|| like.map(|other| other.program.clone()));
        Ok(ShareConsumerSpec {
            name: self.name.clone(),
            group: self.group.clone(),
            topics,
            program: program.unwrap_or_else(default_program),
            config: merged(like.map(|other| &other.config), &self.config),
        })
    }
}

/// `consumer s1 to payments topics orders program "poll; accept" ...`, after `add share`.
pub(super) fn add(words: &mut Words) -> Result<Written, CommandError> {
    words.expect("consumer")?;
    let name = client(words)?;
    words.expect("to")?;
    let group = words.plain("a group's name")?;
    check_filled(group, "a group's name")?;
    let mut draft = ShareConsumerDraft::new(name, GroupId::new(&group.text));
    if words.accept("topics").is_some() {
        draft.topics = topics(words)?;
    }
    if words.accept("program").is_some() {
        draft.program = Some(program(words)?);
    }
    draft.config = words.configs()?;
    let said_all = !draft.topics.is_empty() && draft.program.is_some();
    Ok(match draft.complete(&Clients::default()) {
        Ok(spec) if said_all => Written::Whole(Command::AddShareConsumer(spec)),
        _ => Written::ShareConsumer(draft),
    })
}

pub(super) fn print(spec: &ShareConsumerSpec) -> String {
    let program: Vec<String> = spec.program.iter().map(|line| line.to_string()).collect();
    format!(
        "add share consumer {} to {} topics {} program {}{}",
        client_text(&spec.name),
        quote(spec.group.as_str()),
        list(&spec.topics),
        quote(&program.join("; ")),
        configs(&spec.config)
    )
}

pub(in crate::lab) fn default_program() -> Vec<Line> {
    Line::parse_program(&DEFAULT_PROGRAM).expect("a program")
}
