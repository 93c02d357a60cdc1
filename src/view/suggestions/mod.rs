//! Whole lines that would be understood now, offered while a person types a command.
//!
//! A few verbs have a line for each config, partition or line of a program. These lists are long, so they are there only once
//! their verb is begun.
//!
//! - this file: the table of all there is
//! - [`cluster`]: servers, links, topics, groups; [`clients`]: clients, their programs and transactions
//! - [`reasons`]: what can be asked for its reason
//!
//! **Invariant:** each line is a command in its one form, and each form of command has a line.

mod clients;
mod cluster;
mod reasons;

use self::clients::{asks, choices, of_owned};
use super::act;
use super::model::Model;
use crate::client::consumer::{Ask, Choice};
use crate::client::producer::Wish;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::event::Halt;
use crate::lab::command::{Question, Why, print};
use crate::lab::ledger::Within;
use crate::sim::Command;

type Lines = fn(&Model) -> Vec<Command>;

/// What is offered from the first letter on.
const AT_ONCE: [Lines; 4] =
    [cluster::servers, clients::clients, cluster::of_cluster, clients::of_transactions];

/// What is offered once its verb is begun.
const AT_LENGTH: [(&str, Lines); 32] = [
    ("set", |model| cluster::configs(model, |key| Some(key.default.to_owned()))),
    ("set", clients::programs),
    ("unset", |model| cluster::configs(model, |_| None)),
    ("reassign", cluster::reassignments),
    ("cancel", |model| cluster::partitions(model).map(Command::CancelReassignment).collect()),
    ("delete", |model| [cluster::deletions_of_records(model), cluster::deletions_of_offsets(model)].concat()),
    ("plan", |model| cluster::resets(model, false)),
    ("reset", |model| cluster::resets(model, true)),
    ("elect", cluster::elections),
    ("upgrade", |_| cluster::levels(UpgradeType::Upgrade)),
    ("downgrade", |_| cluster::levels(UpgradeType::SafeDowngrade)),
    ("terminate", clients::terminations),
    ("send", clients::sent_offsets),
    ("add", cluster::more_partitions),
    ("subscribe", |model| asks(model, |_| choices(cluster::topics(model), Choice::Topics))),
    ("subscribe", |model| asks(model, |_| clients::patterns(model))),
    ("assign", |model| asks(model, |_| choices(cluster::partitions(model), Choice::Partitions))),
    ("unsubscribe", |model| asks(model, |_| vec![Ask::Unsubscribe])),
    ("pause", |model| asks(model, |view| of_owned(view, |tp| vec![Ask::Pause(vec![tp])]))),
    ("resume", |model| asks(model, |view| of_owned(view, |tp| vec![Ask::Resume(vec![tp])]))),
    ("seek", |model| asks(model, |view| of_owned(view, clients::seeks))),
    ("look", |model| asks(model, |view| of_owned(view, clients::lookups))),
    ("commit", |model| {
        asks(model, |_| [true, false].map(|waits| Ask::Commit { offsets: None, waits }).to_vec())
    }),
    ("commit", |model| clients::wishes(model, Wish::Commit)),
    ("close", clients::closings),
    ("begin", |model| clients::wishes(model, Wish::Begin)),
    ("abort", |model| [clients::wishes(model, Wish::Abort), clients::aborts(model)].concat()),
    ("crash", |model| clients::stops(model, Halt::Crash)),
    ("freeze", |model| clients::stops(model, Halt::Freeze)),
    ("hang", |model| clients::stops(model, Halt::Hang)),
    ("wake", clients::wakes),
    ("describe", clients::writers),
];

/// The verb that a text begins with, whole or in part.
pub fn verb(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Lines that would be understood now; `verb` is what was typed of the first word.
pub fn suggestions(model: &Model, verb: &str) -> Vec<String> {
    let begun = AT_LENGTH.iter().filter(|(name, _)| !verb.is_empty() && name.starts_with(verb));
    let lines = AT_ONCE.iter().chain(begun.map(|(_, lines)| lines));
    let mut lines: Vec<String> =
        lines.flat_map(|lines| lines(model)).map(|command| print(&command)).collect();
    lines.extend(act::additions(model));
    lines.extend(questions(model).iter().map(Question::to_string));
    if !verb.is_empty() && "why".starts_with(verb) {
        lines.extend(reasons::reasons(model).iter().map(Why::to_string));
    }
    lines
}

/// The ledger, of each topic too, and the story of each partition's newest record.
fn questions(model: &Model) -> Vec<Question> {
    let of_topics = cluster::topics(model).map(|topic| Question::Ledger(Within::Topic(topic)));
    let newest = cluster::leaders(model).into_iter().filter_map(|leader| {
        let number = leader.cells.last()?.offset.0;
        Some(Question::Story { of: leader.tp.to_string(), number, column: 0 })
    });
    std::iter::once(Question::Ledger(Within::All)).chain(of_topics).chain(newest).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::cluster::leaders;
    use super::*;
    use crate::client::admin::GroupOperation;
    use crate::client::program::Order;
    use crate::kafka::time::Time;
    use crate::lab::command::{FORMS, Written, parse};
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    /// Beside the default: a person's own transactional producer, an application, a share group.
    const MORE: [&str; 4] = [
        "create topic prices partitions 2 replication-factor 3",
        "add producer bank to prices rate 2/s keys none transactional.id=bank-1",
        "add application pricing to pricing topics orders output prices program \"poll; begin; process 5ms; send \
         results; send offsets; commit transaction\" transactional.id=pricing-1",
        "add share consumer worker-a to payments topics orders program \"poll; process 20ms\"",
    ];

    fn running() -> Model {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(10_000), u64::MAX);
        model(&session, None, None)
    }

    /// With an open transaction.
    fn running_with_more() -> Model {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(10_000), u64::MAX);
        for text in MORE {
            session.command(text).expect(text);
            session.run_until(session.now().plus_ms(3_000), u64::MAX);
        }
        session.command("begin transaction of bank").expect("it is ready");
        session.run_until(session.now().plus_ms(4_000), u64::MAX);
        model(&session, None, None)
    }

    fn offered(model: &Model, verb: &str) -> Vec<String> {
        suggestions(model, verb)
    }

    fn verbs() -> BTreeSet<&'static str> {
        AT_LENGTH.iter().map(|(verb, _)| *verb).chain(["", "why"]).collect()
    }

    #[test]
    fn each_line_is_a_command_in_its_one_form() {
        let model = running_with_more();
        for line in verbs().into_iter().flat_map(|verb| offered(&model, verb)).collect::<BTreeSet<_>>() {
            match parse(&line) {
                Ok(Written::Whole(command)) => assert_eq!(print(&command), line),
                Ok(Written::Question(question)) => assert_eq!(question.to_string(), line),
                Ok(Written::Producer(_) | Written::Consumer(_) | Written::ShareConsumer(_)) => {}
                other => panic!("{line} is read as {other:?}"),
            }
        }
    }

    /// What a command does, whomever it does it to.
    fn kind(text: &str) -> String {
        let command = match parse(text) {
            Ok(Written::Whole(command)) => command,
            Ok(Written::Producer(_)) => return "AddProducer ProducerSpec".to_owned(),
            Ok(Written::Consumer(_)) => return "AddConsumer ConsumerSpec".to_owned(),
            Ok(Written::ShareConsumer(_)) => return "AddShareConsumer ShareConsumerSpec".to_owned(),
            Ok(Written::Question(Question::Ledger(_))) => return "Ledger".to_owned(),
            Ok(Written::Question(Question::Story { .. })) => return "Story".to_owned(),
            Ok(Written::Question(Question::Why { why, .. })) => {
                let said = format!("Why {why:?}");
                return said.split(['(', '{']).next().unwrap_or_default().trim().to_owned();
            }
            Err(error) => panic!("{text}: {error}"),
        };
        let said = match &command {
            Command::Ask { ask: Ask::Choose(choice), .. } => format!("Ask {choice:?}"),
            Command::Ask { ask, .. } => format!("Ask {ask:?}"),
            Command::Program { order: Order::Stop(stop), .. } => format!("Stop {:?}", stop.how),
            Command::Program { order, .. } => format!("Order {order:?}"),
            Command::Transaction { wish, .. } => format!("Transaction {wish:?}"),
            Command::Describe(resource) => format!("Describe {resource:?}"),
            Command::Groups(GroupOperation::OfEach(each)) => format!("OfEach {each:?}"),
            Command::Groups(operation) => format!("Groups {operation:?}"),
            Command::Transactions(operation) => format!("Transactions {operation:?}"),
            command => format!("{command:?}"),
        };
        let is_name = |word: &&str| word.starts_with(char::is_uppercase);
        let words = said.split(|letter: char| !letter.is_alphanumeric()).take_while(is_name);
        words.take(2).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_form_of_command_is_offered() {
        let model = running_with_more();
        let lines = verbs().into_iter().flat_map(|verb| offered(&model, verb));
        let offered: BTreeSet<String> = lines.map(|line| kind(&line)).collect();
        let missing = FORMS.iter().filter(|form| !offered.contains(&kind(form.example)));
        let missing: Vec<&str> = missing.map(|form| form.example).collect();
        assert!(missing.is_empty(), "nothing like {missing:#?} is offered; offered are {offered:#?}");
    }

    #[test]
    fn what_a_person_does_to_programs_and_transactions_is_offered() {
        let model = running_with_more();
        let has = |verb: &str, line: &str| offered(&model, verb).iter().any(|offered| offered == line);
        for (verb, line) in [
            ("begin", "begin transaction of bank"),
            ("commit", "commit transaction of bank"),
            ("abort", "abort transaction of bank"),
            ("list", "list transactions"),
            ("describe", "describe transaction pricing-1"),
            ("describe", "describe producers of prices-1"),
            ("find", "find hanging transactions of topic prices"),
            ("crash", "crash consumer-a at line 2"),
            ("freeze", "freeze pricing after line 4"),
            ("hang", "hang pricing for 6min"),
            ("wake", "wake pricing"),
            ("set", "set program of consumer-b to \"poll; commit; process 20ms\""),
            ("set", "set program of consumer-a to \"poll; process 20ms; on revoked commit\""),
            ("set", "set pace of pricing to 500ms"),
            ("add", "add consumer consumer-c to billing profile librdkafka"),
        ] {
            assert!(has(verb, line), "{line}");
        }
        let open = leaders(&model).into_iter().flat_map(|leader| {
            leader.open.iter().map(|open| (leader.tp.clone(), open.first)).collect::<Vec<_>>()
        });
        let open: Vec<_> = open.collect();
        assert!(!open.is_empty(), "bank's transaction is open");
        for (tp, first) in open {
            assert!(has("abort", &format!("abort transaction on {tp} from offset {first}")), "{tp} {first}");
        }
    }

    #[test]
    fn configs_are_offered_under_their_own_names_once_their_verb_is_begun() {
        let model = running();
        let has = |verb: &str, line: &str| offered(&model, verb).iter().any(|offered| offered == line);
        for line in [
            "set topic orders min.insync.replicas=1",
            "set broker 2 message.max.bytes=1048588",
            "set cluster min.insync.replicas=1",
        ] {
            assert!(has("set", line) && has("s", line), "{line}");
            let unset = format!("un{}", line.split('=').next().expect("a key"));
            assert!(has("unset", &unset), "{unset}");
            assert!(!has("", line) && !has("kill", line), "{line} waits for its verb");
        }
        let lines = offered(&model, "set");
        assert!(!lines.iter().any(|line| line.contains("broker.rack")), "it changes with a restart only");
        assert!(!lines.iter().any(|line| line.contains("segment.jitter.ms")), "it has no effect here");
    }

    #[test]
    fn a_partition_can_be_moved_emptied_and_led_anew() {
        let model = running();
        let has = |verb: &str, line: &str| offered(&model, verb).iter().any(|offered| offered == line);
        assert!(has("cancel", "cancel reassignment orders-0"));
        assert!(has("delete", "delete records of orders-0"));
        assert!(has("elect", "elect preferred leader orders-0"));
        assert!(has("elect", "elect unclean leader orders-2"));
        assert!(has("add", "add partitions to orders up to 4"));
        let leader = leaders(&model).into_iter().find(|leader| leader.tp.to_string() == "orders-1");
        let leader = leader.expect("there is orders-1");
        let lines = offered(&model, "reassign");
        let moves: Vec<&String> =
            lines.iter().filter(|line| line.starts_with("reassign orders-1 to ")).collect();
        assert_eq!(moves.len(), 1, "all three brokers have it: {moves:?}");
        assert!(moves[0].ends_with(&format!(",{}", leader.broker)), "{moves:?}");
    }
}
