//! `add application pricing to billing topics orders output prices program "..."`: reading it and writing it.

use super::CommandError;
use super::consumers::{list, topics};
use super::parse::{client, program};
use super::print::{client as client_text, configs};
use super::tokens::quote;
use super::words::{Words, check_filled};
use crate::client::application::ApplicationSpec;
use crate::client::program::text;
use crate::kafka::types::{GroupId, Topic};
use crate::sim::Command;

/// `pricing to billing topics orders output prices program "poll; ..." ...`, after `add application`.
pub(super) fn add(words: &mut Words) -> Result<Command, CommandError> {
    let name = client(words)?;
    words.expect("to")?;
    let group = words.plain("a group's name")?;
    check_filled(group, "a group's name")?;
    words.expect("topics")?;
    let topics = topics(words)?;
    words.expect("output")?;
    let output = Topic::new(&words.plain("a topic's name")?.text);
    words.expect("program")?;
    let program = program(words)?;
    let group = GroupId::new(&group.text);
    Ok(Command::AddApplication(ApplicationSpec {
        name,
        group,
        topics,
        output,
        program,
        config: words.configs()?,
    }))
}

pub(super) fn print(spec: &ApplicationSpec) -> String {
    format!(
        "add application {} to {} topics {} output {} program {}{}",
        client_text(&spec.name),
        quote(spec.group.as_str()),
        list(&spec.topics),
        quote(spec.output.as_str()),
        quote(&text(&spec.program)),
        configs(&spec.config)
    )
}
