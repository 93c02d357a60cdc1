//! What the ledger keeps of a record, and of the batch it travels in.
//!
//! **Invariant:** a record is in one batch, whatever becomes of that; its number counts what its producer's process has
//! handed to send() and is given once.

use std::rc::Rc;

use crate::kafka::event::RequestMark;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BatchId, BrokerId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, ProducerId, TopicPartition,
};

/// Where in the run something happened: the number of the event in the trace leads to all there is to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    pub time: Time,
    pub event: u64,
}

/// A batch of a producer, with its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub client: ClientName,
    pub node: NodeId,
    /// `None` for a record that never came into one.
    pub(super) id: Option<BatchId>,
    /// The partition is -1 if none was chosen.
    pub tp: TopicPartition,
    pub records: Vec<Record>,
    /// The first times that it went on its way and the last one, at most [`KEPT_SENDS`].
    pub sends: Vec<Sent>,
    /// How often it did so between these.
    pub unkept_sends: i64,
    pub told: Told,
    /// Each time that a leader took it into its log.
    pub copies: Vec<Copy>,
    /// A record that was made later stood in the partition already when this batch was first stored there: how the two follow
    /// each other now depends on what is left of them.
    pub(super) overtaken_by: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From 1, of its producer's process.
    pub number: i64,
    pub key: Option<Rc<[u8]>>,
    /// When send() put it into the batch.
    pub made: Moment,
    /// The groups that have met it.
    pub seen: Vec<Seen>,
    /// Where the cleaner of a leader has dropped it, because its key has a newer one or its transaction was aborted.
    pub cleaned: Vec<(Offset, Moment)>,
    /// What an application has made it of.
    pub result_of: Option<Rc<Input>>,
}

/// A record that an application has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub tp: TopicPartition,
    pub offset: Offset,
    /// In which it was written, if that is known.
    pub epoch: Option<LeaderEpoch>,
    /// The application's group.
    pub group: GroupId,
}

/// A record that an application has made of another one: its batch in the ledger, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub at: Moment,
    pub batch: u64,
    pub number: i64,
}

/// What became of the transaction that a batch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    Open,
    Ended { at: Moment, committed: bool },
}

/// A batch went on its way to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at: Moment,
    pub to: BrokerId,
    pub attempt: i32,
    pub request: RequestMark,
    pub answer: Answer,
}

/// What the leader did with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is known of it.
    Unknown,
    Stored(Moment),
    /// It was there already, at this offset (R-PROD-25).
    Known(Moment, Offset),
    Refused(Moment, ErrorCode),
    /// The connection was lost, which is all that one hears of a request with acks=0.
    ConnectionLost(Moment),
}

/// What the application was told of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// No word yet.
    Nothing,
    /// It is written, and where it begins.
    Offset {
        at: Moment,
        base: Offset,
    },
    /// It is on its way and that shall do: acks=0.
    Sent {
        at: Moment,
    },
    Error {
        at: Moment,
        error: ErrorCode,
    },
}

impl Told {
    /// Whether the application takes it for written.
    pub fn is_success(&self) -> bool {
        matches!(self, Told::Offset { .. } | Told::Sent { .. })
    }
}

/// A place in a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub at: Moment,
    pub broker: BrokerId,
    pub epoch: LeaderEpoch,
    /// Of the batch's first record.
    pub base: Offset,
    pub producer: ProducerId,
    pub is_transactional: bool,
    /// When the high watermark passed it: from then on readers could see it, but for open and aborted transactions.
    pub committed: Option<Moment>,
    /// It is in the log of whoever leads no more.
    pub gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub at: Moment,
    pub why: GoneWhy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneWhy {
    /// Somebody leads in a newer epoch whose log does not have it: the others throw it away.
    LeaderChange {
        leader: BrokerId,
        epoch: LeaderEpoch,
    },
    /// The last disk that had it lost it.
    DiskLost {
        broker: BrokerId,
    },
    TopicDeleted,
}

/// What a group has to do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub group: GroupId,
    /// How often poll() returned it to a member.
    pub delivered: i32,
    pub delivered_at: Option<(Moment, ClientName)>,
    /// Who had it last and is not done with it.
    pub(super) in_hand: Option<NodeId>,
    /// How often a member's application has finished it.
    pub processed: i32,
    /// The first times, at most [`KEPT_PROCESSINGS`].
    pub processings: Vec<Processing>,
    /// A commit went past it before it was processed.
    pub passed: Option<(Moment, ClientName)>,
    /// A later record of the partition had been processed before.
    pub out_of_order: bool,
    /// The first records that an application has made of it, at most [`KEPT_PROCESSINGS`].
    pub(super) results: Vec<Outcome>,
}

impl Seen {
    fn bytes(&self) -> usize {
        size_of::<Seen>()
            + self.processings.len() * size_of::<Processing>()
            + self.results.len() * size_of::<Outcome>()
    }
}

pub(super) const KEPT_PROCESSINGS: usize = 4;
pub(super) const KEPT_SENDS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processing {
    pub at: Moment,
    pub by: ClientName,
    pub offset: Offset,
    /// From where the member had set out.
    pub since: Option<Moment>,
}

impl Batch {
    /// What it has in memory, with its places in the logs.
    pub(super) fn bytes(&self) -> usize {
        /// A copy's entry in its partition, and the places of pages that it takes up.
        const PER_COPY: usize = 120;
        let records: usize = self.records.iter().map(Record::bytes).sum();
        size_of::<Batch>()
            + records
            + self.sends.len() * size_of::<Sent>()
            + self.copies.len() * (size_of::<Copy>() + PER_COPY)
    }

    /// The places at which its records are.
    pub fn in_place(&self) -> impl DoubleEndedIterator<Item = &Copy> {
        self.copies.iter().filter(|copy| copy.gone.is_none())
    }

    /// Which of its records that is.
    pub(super) fn index_of(&self, record: &Record) -> i64 {
        self.records.iter().take_while(|other| other.number != record.number).count() as i64
    }
}

/// Most of what is kept for a record there is once.
pub(super) fn push_one<T>(list: &mut Vec<T>, item: T) {
    list.reserve_exact(1);
    list.push(item);
}

impl Record {
    /// What it has in memory, with its key.
    pub(super) fn bytes(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.len());
        let seen: usize = self.seen.iter().map(Seen::bytes).sum();
        let result_of = self.result_of.as_ref().map_or(0, |_| size_of::<Input>());
        size_of::<Record>() + key + seen + self.cleaned.len() * size_of::<(Offset, Moment)>() + result_of
    }
    pub(super) fn seen_by(&mut self, group: &GroupId) -> &mut Seen {
        let index = self.seen.iter().position(|seen| seen.group == *group);
        let index = index.unwrap_or_else(|| {
            push_one(
                &mut self.seen,
                Seen {
                    group: group.clone(),
                    delivered: 0,
                    delivered_at: None,
                    in_hand: None,
                    processed: 0,
                    processings: Vec::new(),
                    passed: None,
                    out_of_order: false,
                    results: Vec::new(),
                },
            );
            self.seen.len() - 1
        });
        &mut self.seen[index]
    }
}
