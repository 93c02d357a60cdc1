//! Reading the recording: a tool's command line, what it was given, and what it printed.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// The servers' configs and the situations.
pub fn recordings() -> (Vec<(String, String)>, Vec<Value>) {
    let file: Value = serde_json::from_str(include_str!("../../vectors/15_quorum.json")).expect("JSON");
    let servers = file["header"]["server_configs"].as_object().expect("configs");
    let servers = servers.iter().filter(|(key, _)| *key != "kraft.version");
    let servers = servers.map(|(key, value)| (key.clone(), value.to_string())).collect();
    (servers, file["scenarios"].as_array().expect("scenarios").clone())
}

pub fn node(value: &Value) -> i32 {
    value.as_str().and_then(|id| id.parse().ok()).expect("a node's id")
}

/// One run of a tool.
pub struct Recorded {
    pub tool: String,
    words: Vec<String>,
    note: String,
    /// Lines that it read.
    pub input: Vec<String>,
    pub exit: i64,
    stdout: String,
    stderr: String,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}): {:?}", self.tool, self.words.join(" "), self.note, self.stdout)
    }
}

impl Recorded {
    pub fn new(event: &Value) -> Recorded {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_string();
        let mut words: Vec<String> = text("command").split(' ').map(str::to_string).collect();
        Recorded {
            tool: words.remove(0),
            words,
            note: text("note"),
            input: text("stdin").lines().map(str::to_string).collect(),
            exit: event["exit"].as_i64().expect("an exit code"),
            stdout: text("stdout"),
            stderr: text("stderr"),
        }
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|each| each == word)
    }

    /// The word after an option.
    pub fn option(&self, name: &str) -> &str {
        let at = self.words.iter().position(|word| word == name);
        at.and_then(|at| self.words.get(at + 1)).unwrap_or_else(|| panic!("{self} has no {name}"))
    }

    /// Nobody answered in time.
    pub fn is_timed_out(&self) -> bool {
        let said = [&self.stdout, &self.stderr];
        self.exit != 0 && said.iter().any(|text| text.contains("timed out") || text.contains("Timed out"))
    }

    pub fn lines(&self) -> Vec<String> {
        self.stdout.lines().map(str::to_string).collect()
    }

    /// `key=value` of each config that is listed.
    pub fn listed_configs(&self) -> Vec<String> {
        let listed = self.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        listed.map(str::to_string).collect()
    }

    /// `1:2:3,2:3:1` as lists of brokers.
    pub fn assignment(&self) -> Vec<Vec<i32>> {
        let ids = |list: &str| list.split(':').map(|id| id.parse().expect("an id")).collect();
        self.option("--replica-assignment").split(',').map(ids).collect()
    }

    /// Leader and sorted in-sync set of each partition of a topic's description.
    pub fn leaders(&self) -> Vec<(i32, Vec<i32>)> {
        let value = |line: &str, name: &str| -> String {
            let field = line.split('\t').find_map(|field| field.strip_prefix(name));
            field.unwrap_or_default().trim().to_string()
        };
        let partition = |line: &str| {
            let mut isr: Vec<i32> =
                value(line, "Isr:").split(',').map(|id| id.parse().expect("an id")).collect();
            isr.sort();
            (value(line, "Leader:").parse().expect("an id"), isr)
        };
        self.stdout.lines().filter(|line| line.contains("Leader:")).map(partition).collect()
    }

    /// A number of the quorum's status.
    pub fn field(&self, name: &str) -> i32 {
        let value = self.text_of(name);
        value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}"))
    }

    fn text_of(&self, name: &str) -> &str {
        let line = self.stdout.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.map(str::trim).unwrap_or_else(|| panic!("{self} has no {name}"))
    }

    /// The ids of a list of the quorum's status.
    pub fn ids(&self, name: &str) -> Vec<i32> {
        let list: Vec<Value> = serde_json::from_str(self.text_of(name)).expect("a list");
        list.iter().map(|each| each["id"].as_i64().expect("an id") as i32).collect()
    }

    /// Id, status and what it lacks of each replica in the quorum's table.
    pub fn replicas(&self) -> Vec<(i32, String, String)> {
        let row = |line: &str| {
            let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
            let lacks = match (columns[2], columns[3]) {
                ("-1", _) => "all",
                (_, "0") => "nothing",
                _ => "something",
            };
            (columns[0].parse().expect("an id"), columns[6].to_string(), lacks.to_string())
        };
        self.stdout.lines().skip(1).map(row).collect()
    }

    /// Partitions that are listed with their end offsets, and the sum of these.
    pub fn offsets(&self) -> (Vec<i32>, i64) {
        let numbers = |line: &str| -> (i32, i64) {
            let mut fields = line.split(':').skip(1);
            let mut next = || fields.next().expect("topic:partition:offset");
            (next().parse().expect("a partition"), next().parse().expect("an offset"))
        };
        let rows: Vec<(i32, i64)> = self.stdout.lines().map(numbers).collect();
        (rows.iter().map(|row| row.0).collect(), rows.iter().map(|row| row.1).sum())
    }

    /// Finalized feature levels; kraft.version is the quorum's own and no feature of the image.
    pub fn features(&self) -> BTreeMap<String, i16> {
        let value = |line: &str, name: &str| -> String {
            let (_, rest) = line.split_once(name).expect("the column is there");
            rest.split_whitespace().next().expect("a value").to_string()
        };
        let level = |text: String| match text.as_str() {
            "4.3-IV0" => 30,
            number => number.parse().expect("a level"),
        };
        let all = self
            .stdout
            .lines()
            .map(|line| (value(line, "Feature:"), level(value(line, "FinalizedVersionLevel:"))));
        all.filter(|(name, _)| name != "kraft.version").collect()
    }
}
