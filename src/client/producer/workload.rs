//! The application around a producer: what it sends, and when.
//!
//! Records are evenly spaced; which of the keys comes next is drawn from the producer's random stream.
//!
//! **Invariant:** record `n` after a start is sent `n` divided by the rate later, to the microsecond.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::TransactionPace;
use crate::client::config::ConfigError;
use crate::client::config::producer::ProducerConfig;
use crate::kafka::random::Random;
use crate::kafka::record::NewRecord;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, Topic};

/// A producer as a person writes it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerSpec {
    /// `client.id` too.
    pub name: ClientName,
    pub topic: Topic,
    pub rate: Rate,
    pub keys: KeyPattern,
    /// The partition that every record names; `None` leaves the choice to the partitioner (R-PROD-9).
    pub partition: Option<i32>,
    /// The value's text, with `{n}` for the record's number from 1, `{key}` for its key and `{random 100}` for so many
    /// letters that nothing compresses.
    pub value: ValuePattern,
    /// Values are cut or filled up with spaces to this many bytes.
    pub value_size: Option<i32>,
    /// How the application divides its records into transactions; with `transactional.id` and without this a person does.
    pub transactions: Option<TransactionPace>,
    /// Producer configs under Kafka's names.
    pub config: BTreeMap<String, String>,
}

impl ProducerSpec {
    /// Reads the configs and refuses what cannot run.
    pub fn check(&self) -> Result<ProducerConfig, ConfigError> {
        let config = ProducerConfig::read(&self.config)?;
        match self.transactions {
            Some(_) if config.transactional_id.is_none() => {
                let sentence = "Cannot have transactions without a transactional.id.";
                Err(ConfigError::conflict("transactional.id", sentence))
            }
            _ => Ok(config),
        }
    }
}

/// A text that a spec does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct SpecError {
    pub text: String,
    pub what: &'static str,
}

/// Records in a period: `12/s`, `1/5s`, `300/min`, `1/250ms`; at most one in a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    records: i64,
    period_us: i64,
}

/// Units of time and their microseconds, the largest first.
const UNITS: [(&str, i64); 4] = [("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];
const MAX_PERIOD: i64 = 100_000;

impl Rate {
    /// Microseconds from the start to record `n`, counted from 1.
    fn due_us(self, n: i64) -> i64 {
        multiply_divide(n, self.period_us, self.records).unwrap_or(i64::MAX)
    }

    /// When the first record after `elapsed_us` is due, from the start.
    fn next_us(self, elapsed_us: i64) -> i64 {
        let passed = multiply_divide(elapsed_us, self.records, self.period_us).unwrap_or(i64::MAX - 2);
        match self.due_us(passed + 1) {
            due_us if due_us > elapsed_us => due_us,
            _ => self.due_us(passed + 2),
        }
    }
}

/// `a * b / divisor`, however large the product is; `None` if the quotient is too large. WebAssembly has no wide division, so
/// that small numbers go another way.
fn multiply_divide(a: i64, b: i64, divisor: i64) -> Option<i64> {
    match a.checked_mul(b) {
        Some(product) => Some(product / divisor),
        None => i64::try_from(i128::from(a) * i128::from(b) / i128::from(divisor)).ok(),
    }
}

impl FromStr for Rate {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Rate, SpecError> {
        let parse = || {
            let (records, period) = text.split_once('/')?;
            let digits = period.bytes().take_while(u8::is_ascii_digit).count();
            let (period, unit) = period.split_at(digits);
            let (_, unit_us) = UNITS.iter().find(|(name, _)| *name == unit)?;
            let period: i64 = if period.is_empty() { 1 } else { period.parse().ok()? };
            let period_us = (1..=MAX_PERIOD).contains(&period).then_some(period * unit_us)?;
            let records: i64 = records.parse().ok()?;
            (1..=period_us).contains(&records).then_some(Rate { records, period_us })
        };
        parse().ok_or(SpecError { text: text.to_owned(), what: "rate such as 12/s, 1/5s or 300/min" })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, us): &&(&str, i64)| self.period_us % us == 0;
        let (unit, unit_us) = UNITS.iter().find(fits).expect("a period is whole milliseconds");
        match self.period_us / unit_us {
            1 => write!(f, "{}/{unit}", self.records),
            period => write!(f, "{}/{period}{unit}", self.records),
        }
    }
}

/// The keys of a producer: `cart-{0..7}`, a single one, or `none`; behind `or none` every other record, as it is drawn, has
/// none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    /// Written with `or none`.
    or_none: bool,
    /// `none` alone stands for records without a key.
    prefix: String,
    /// First and last number.
    range: Option<(i64, i64)>,
    suffix: String,
}

const MAX_KEYS: i64 = 1_000_000;
const NO_KEYS: &str = "none";
const OR_NO_KEYS: &str = " or none";

impl KeyPattern {
    /// Whether the records have keys, or some of them.
    pub fn has_keys(&self) -> bool {
        self.range.is_some() || self.prefix != NO_KEYS
    }

    fn draw(&self, random: &mut Random) -> Option<Vec<u8>> {
        if self.or_none && random.between(0, 1) == 0 {
            return None;
        }
        let mut key = self.prefix.clone().into_bytes();
        if let Some((first, last)) = self.range {
            push_number(&mut key, random.between(first, last));
            key.extend_from_slice(self.suffix.as_bytes());
        }
        self.has_keys().then_some(key)
    }

    /// What a key names: `cart` of `cart-{0..7}`.
    fn noun(&self) -> &str {
        let noun = self.prefix.trim_end_matches(|c: char| !c.is_alphanumeric());
        if noun.is_empty() || self.range.is_none() { "key" } else { noun }
    }
}

/// Appends the digits of a number that is not negative: records are made often, and `format!` takes longer.
fn push_number(text: &mut Vec<u8>, number: i64) {
    let (at, mut left) = (text.len(), number.unsigned_abs());
    loop {
        text.push(b'0' + (left % 10) as u8);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    text[at..].reverse();
}

impl FromStr for KeyPattern {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<KeyPattern, SpecError> {
        let refuse = || SpecError { text: text.to_owned(), what: "key pattern such as cart-{0..7}, or none" };
        let (keys, or_none) = match text.strip_suffix(OR_NO_KEYS) {
            Some(keys) if keys != NO_KEYS => (keys, true),
            Some(_) => return Err(refuse()),
            None => (text, false),
        };
        let Some((prefix, rest)) = keys.split_once('{') else {
            let plain = !keys.is_empty() && !keys.contains('}');
            let single = KeyPattern { or_none, prefix: keys.to_owned(), range: None, suffix: String::new() };
            return plain.then_some(single).ok_or_else(refuse);
        };
        let parse = || {
            let (range, suffix) = rest.split_once('}')?;
            let (first, last) = range.split_once("..")?;
            let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
            let in_range =
                0 <= first && first <= last && last - first < MAX_KEYS && !suffix.contains(['{', '}']);
            let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
            in_range.then_some(KeyPattern { or_none, prefix, range: Some((first, last)), suffix })
        };
        parse().ok_or_else(refuse)
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        if let Some((first, last)) = self.range {
            write!(f, "{{{first}..{last}}}")?;
        }
        f.write_str(&self.suffix)?;
        f.write_str(if self.or_none { OR_NO_KEYS } else { "" })
    }
}

/// The text of a value before it is cut or filled up; `{tombstone}` is no value at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePattern {
    text: String,
    parts: Vec<ValuePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValuePart {
    Text(String),
    Number,
    Key,
    /// So many letters.
    Random(usize),
}

const TOMBSTONE: &str = "{tombstone}";
const MAX_RANDOM: usize = 1_000_000;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl ValuePart {
    /// What stands between two braces; `None` if it stands for itself.
    fn of_word(word: &str) -> Option<ValuePart> {
        match word {
            "n" => Some(ValuePart::Number),
            "key" => Some(ValuePart::Key),
            _ => {
                let count = word.strip_prefix("random ")?.parse().ok()?;
                (count <= MAX_RANDOM).then_some(ValuePart::Random(count))
            }
        }
    }

    /// Takes the text apart at its braces.
    fn parse(text: &str) -> Vec<ValuePart> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            plain.push_str(before);
            let word =
                behind.split_once('}').and_then(|(word, after)| Some((ValuePart::of_word(word)?, after)));
            if let Some((part, after)) = word {
                parts.push(ValuePart::Text(std::mem::take(&mut plain)));
                parts.push(part);
                rest = after;
            } else {
                plain.push('{');
                rest = behind;
            }
        }
        parts.push(ValuePart::Text(plain + rest));
        parts
    }
}

impl ValuePattern {
    pub fn new(text: &str) -> ValuePattern {
        ValuePattern { text: text.to_owned(), parts: ValuePart::parse(text) }
    }

    /// `{"n":17,"cart":"cart-3"}`: the record's number and its key, if it has one, under the noun of the key pattern.
    pub fn for_keys(keys: &KeyPattern) -> ValuePattern {
        if !keys.has_keys() {
            return ValuePattern::new("{\"n\":{n}}");
        }
        ValuePattern::new(&format!("{{\"n\":{{n}},\"{}\":\"{{key}}\"}}", keys.noun()))
    }

    fn fill(&self, n: i64, key: &[u8], size: Option<i32>, random: &mut Random) -> Option<Vec<u8>> {
        if self.text == TOMBSTONE {
            return None;
        }
        let mut value = Vec::with_capacity(self.text.len() + key.len());
        for part in &self.parts {
            match part {
                ValuePart::Text(text) => value.extend_from_slice(text.as_bytes()),
                ValuePart::Number => push_number(&mut value, n),
                ValuePart::Key => value.extend_from_slice(key),
                ValuePart::Random(count) => {
                    value.extend((0..*count).map(|_| LETTERS[random.below(64) as usize]));
                }
            }
        }
        if let Some(size) = size.and_then(|size| usize::try_from(size).ok()) {
            value.resize(size, b' ');
        }
        Some(value)
    }
}

impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A record on its way into `send()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub topic: Topic,
    pub key: Option<Vec<u8>>,
    /// `None` for a tombstone: a compacted topic forgets the key.
    pub value: Option<Vec<u8>>,
    pub partition: Option<i32>,
}

impl Message {
    pub fn record(&self, timestamp_ms: i64) -> NewRecord<'_> {
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        NewRecord { timestamp_ms, key, value, ..NewRecord::default() }
    }
}

/// Turns a spec into messages.
#[derive(Clone, Debug)]
pub struct Workload {
    random: Random,
    /// Messages made so far.
    made: i64,
    /// The moment from which the records of this run are counted.
    origin: Time,
}

impl Workload {
    pub fn new(random: Random) -> Workload {
        Workload { random, made: 0, origin: Time::ZERO }
    }

    /// Starts a run: the first record is due one period from now.
    pub fn start(&mut self, now: Time) {
        self.origin = now;
    }

    /// When the next record is due. Records that fell due before `now` while `send()` blocked are not made up for.
    pub fn next_at(&self, now: Time, rate: Rate) -> Time {
        self.origin.plus_us(rate.next_us(now - self.origin))
    }

    pub fn make(&mut self, spec: &ProducerSpec) -> Message {
        self.made += 1;
        let key = spec.keys.draw(&mut self.random);
        let text = key.as_deref().unwrap_or_default();
        let value = spec.value.fill(self.made, text, spec.value_size, &mut self.random);
        Message { topic: spec.topic.clone(), key, value, partition: spec.partition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(rate: &str, keys: &str, value_size: Option<i32>) -> ProducerSpec {
        let keys: KeyPattern = keys.parse().unwrap();
        ProducerSpec {
            name: "checkout-api".into(),
            topic: "orders".into(),
            rate: rate.parse().unwrap(),
            value: ValuePattern::for_keys(&keys),
            keys,
            partition: None,
            value_size,
            transactions: None,
            config: BTreeMap::new(),
        }
    }

    fn check_due(rate: &str, n: i64, us: i64) {
        let parsed: Rate = rate.parse().unwrap();
        assert_eq!(parsed.due_us(n), us, "record {n} at {rate}");
        assert_eq!(parsed.to_string(), rate);
    }

    #[test]
    fn a_rate_is_an_exact_fraction() {
        check_due("12/s", 1, 83_333);
        check_due("12/s", 12, 1_000_000);
        check_due("12/s", 36_000_000_000, 3_000_000_000_000_000);
        check_due("1/5s", 3, 15_000_000);
        check_due("7/min", 7, 60_000_000);
        check_due("3/250ms", 2, 166_666);
        check_due("1/h", 2, 7_200_000_000);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "",
            "12",
            "0/s",
            "-1/s",
            "12/",
            "12/0s",
            "12/s ",
            "1/d",
            "x/s",
            "1000001/s",
            "1001/ms",
            "99999999999999999999/s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn keys_stay_in_their_range_and_print_as_written() {
        let keys: KeyPattern = "cart-{0..7}".parse().unwrap();
        let mut random = Random::stream(1, "keys");
        let drawn: std::collections::BTreeSet<Vec<u8>> =
            (0..200).filter_map(|_| keys.draw(&mut random)).collect();
        assert_eq!(drawn, (0..=7).map(|n| format!("cart-{n}").into_bytes()).collect());
        assert_eq!(keys.to_string(), "cart-{0..7}");
        assert_eq!("one".parse::<KeyPattern>().unwrap().draw(&mut random).as_deref(), Some(&b"one"[..]));
        let keys: KeyPattern = "cart-{0..1} or none".parse().unwrap();
        let drawn: std::collections::BTreeSet<Option<Vec<u8>>> =
            (0..200).map(|_| keys.draw(&mut random)).collect();
        assert_eq!(drawn, [None, Some(b"cart-0".to_vec()), Some(b"cart-1".to_vec())].into());
        assert_eq!((keys.to_string().as_str(), keys.noun()), ("cart-{0..1} or none", "cart"));
        for text in [
            "",
            " or none",
            "none or none",
            "a{",
            "a}",
            "a{1}",
            "a{2..1}",
            "a{0..x}",
            "a{0..1}{0..1}",
            "a{0..1000000}",
        ] {
            assert!(text.parse::<KeyPattern>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_have_their_digits_and_large_products_their_quotient() {
        for number in [0, 7, 10, 909, 1_234_567_890, i64::MAX] {
            let mut text = b"n".to_vec();
            push_number(&mut text, number);
            assert_eq!(text, format!("n{number}").into_bytes());
        }
        assert_eq!(multiply_divide(7, 10, 4), Some(17));
        assert_eq!(multiply_divide(i64::MAX, 6, 3), None);
        assert_eq!(multiply_divide(i64::MAX, 6, 12), Some(i64::MAX / 2));
    }

    #[test]
    fn values_name_the_record_and_have_the_size_asked_for() {
        let value = |spec: &ProducerSpec| {
            let message = Workload::new(Random::stream(1, "w")).make(spec);
            String::from_utf8(message.value.unwrap()).unwrap()
        };
        assert_eq!(value(&spec("1/s", "cart-{3..3}", None)), "{\"n\":1,\"cart\":\"cart-3\"}");
        assert_eq!(value(&spec("1/s", "cart-{3..3}", Some(26))), "{\"n\":1,\"cart\":\"cart-3\"}   ");
        assert_eq!(value(&spec("1/s", "cart-{3..3}", Some(4))), "{\"n\"");
        assert_eq!(value(&spec("1/s", "fixed", None)), "{\"n\":1,\"key\":\"fixed\"}");
        let tombstones =
            ProducerSpec { value: ValuePattern::new("{tombstone}"), ..spec("1/s", "k", Some(9)) };
        assert_eq!(Workload::new(Random::stream(1, "w")).make(&tombstones).value, None, "R-LOG-4");
    }

    #[test]
    fn braces_that_mean_nothing_stand_for_themselves() {
        let value = |pattern: &str| {
            let spec = ProducerSpec { value: ValuePattern::new(pattern), ..spec("1/s", "k", None) };
            assert_eq!(spec.value.to_string(), pattern);
            let message = Workload::new(Random::stream(1, "w")).make(&spec);
            String::from_utf8(message.value.unwrap()).unwrap()
        };
        assert_eq!(value(""), "");
        assert_eq!(value("{{n}} of {key}{key}"), "{1} of kk");
        assert_eq!(value("{m} {random x} {random 2000000} {n"), "{m} {random x} {random 2000000} {n");
        assert_eq!(value("{random 30}|{random 0}|").len(), 32);
    }

    #[test]
    fn what_fell_due_while_blocked_is_not_made_up_for() {
        let rate: Rate = "10/s".parse().unwrap();
        let mut workload = Workload::new(Random::stream(1, "w"));
        workload.start(Time::from_ms(1000));
        assert_eq!(workload.next_at(Time::from_ms(1000), rate), Time::from_ms(1100));
        assert_eq!(workload.next_at(Time::from_ms(1100), rate), Time::from_ms(1200));
        assert_eq!(workload.next_at(Time::from_ms(1750), rate), Time::from_ms(1800));
    }

    #[test]
    fn following_the_next_moments_meets_every_record() {
        let rate: Rate = "7/10ms".parse().unwrap();
        let mut elapsed_us = 0;
        for n in 1..=1000 {
            elapsed_us = rate.next_us(elapsed_us);
            assert_eq!(elapsed_us, rate.due_us(n));
        }
    }
}
