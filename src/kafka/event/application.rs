//! What befalls the application that a client is embedded in: the thread that runs its program.

use std::rc::Rc;

use crate::kafka::event::Halt;
use crate::kafka::types::{ClientName, Offset, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ApplicationEvent {
    /// The thread was stopped at a line, as a person wanted.
    Halted {
        client: ClientName,
        how: Halt,
        /// Counted from 1.
        line: i32,
        text: Rc<str>,
        /// Behind the line, else before it.
        after: bool,
        /// The record in hand.
        record: Option<(TopicPartition, Offset)>,
    },
    /// The thread takes other records, or gives up its work on these, and has not finished `[from, to)` of what it had.
    LetGo { client: ClientName, tp: TopicPartition, offsets: Vec<(Offset, Offset)> },
    /// A call that looked offsets up has returned: `None` where there is nothing to tell.
    LookedUp { client: ClientName, call: Rc<str>, told: Vec<(TopicPartition, Option<Offset>)> },
    /// What its producer is handed next is what it has made of this record.
    ResultSent { client: ClientName, of: TopicPartition, offset: Offset },
    /// A call of its producer threw, and what it does about that.
    CallThrew { client: ClientName, call: Rc<str>, exception: Rc<str>, then: Rc<str> },
    /// A callback about partitions has returned, or has thrown; the method's name.
    CalledBack { client: ClientName, method: &'static str, took_ms: i64, threw: bool },
    /// A call of the consumer throws, because a callback has thrown.
    ListenerThrew { client: ClientName, method: &'static str },
    /// A thread that hung goes on.
    Woken { client: ClientName },
    /// From its first line on, the thread will run another program.
    ProgramChanged { client: ClientName, program: Rc<str> },
    /// From the next record on, processing takes so long.
    PaceSet { client: ClientName, us_per_record: i64 },
}
