//! Where in its file a scenario says what it has done.

use super::reader::{Read, Section};
use super::{Scenario, in_root, time};
use crate::sim::Command;

impl Scenario {
    /// The line of `text`, from which this scenario was read, that says the command; `None` if none does.
    pub fn line_of(&self, text: &str, command: &Command) -> Option<i32> {
        in_root(text, |root| self.line_in(root, command)).ok().flatten()
    }

    fn line_in(&self, root: Section, command: &Command) -> Read<Option<i32>> {
        let named = |kind, name: &str| line_of_name(root, kind, name);
        let written = match command {
            Command::CreateTopic { topic, .. } => named("topic", topic.as_str())?,
            Command::AddProducer(spec) => named("producer", spec.name.as_str())?,
            Command::AddConsumer(spec) => named("consumer", spec.name.as_str())?,
            Command::AddShareConsumer(spec) => named("share-consumer", spec.name.as_str())?,
            Command::AddApplication(spec) => named("application", spec.name.as_str())?,
            _ => None,
        };
        match written {
            None => self.line_of_timed(root, command),
            written => Ok(written),
        }
    }

    fn line_of_timed(&self, root: Section, command: &Command) -> Read<Option<i32>> {
        let index = self.at.iter().position(|(_, other)| other == command);
        let mut written = Vec::new();
        for section in root.sections("at", "[[at]]")? {
            written.push((time(section.field("time"), i64::MAX)?, section));
        }
        written.sort_by_key(|(at, _)| *at);
        let section = index.and_then(|index| written.get(index));
        let field = section.and_then(|(_, section)| section.field("do"));
        Ok(field.map(|field| field.line()))
    }
}

fn line_of_name(root: Section, kind: &'static str, name: &str) -> Read<Option<i32>> {
    for section in root.sections(kind, kind)? {
        let field = section.field("name");
        if let Some(field) = field
            && field.text()? == name
        {
            return Ok(Some(field.line()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use crate::lab::command::{Written, parse};
    use crate::lab::scenario::Scenario;

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    #[track_caller]
    fn check(command: &str, said: Option<&str>) {
        let text = format!(
            "{SCENARIO}\n[[at]]\ntime = \"40s\"\ndo = \"start broker 2\"\n[[at]]\ntime = \"30s\"\ndo = \"kill broker 2\"\n"
        );
        let scenario = Scenario::parse(&text).expect("it is right");
        let Ok(Written::Whole(command)) = parse(command) else { panic!("{command}") };
        let line = scenario.line_of(&text, &command);
        let line = line.and_then(|line| text.lines().nth(line as usize - 1));
        assert_eq!(line, said);
    }

    #[test]
    fn what_a_scenario_does_leads_to_the_line_that_says_so() {
        check("kill broker 2", Some("do = \"kill broker 2\""));
        check("start broker 2", Some("do = \"start broker 2\""));
        check("create topic orders partitions 3 replication-factor 3", Some("name = \"orders\""));
        check("kill broker 1", None);
    }
}
