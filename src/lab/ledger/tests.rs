//! Logs, leaders and the bound, each by itself; whole runs are in the scenario tests.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::partition::{Change, Partition, Start, Taken};
use super::record::{Batch, GoneWhy, Moment};
use super::{Count, Ledger, MAX_BYTES, WEIGHED_EVERY};
use crate::kafka::event::{Act, Event, LogStartReason, OffsetRun, RequestMark, ShareEvent, TransactionEvent};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BatchId, BrokerId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, ProducerId, Topic, TopicId,
    TopicPartition,
};
use crate::sim::{Key, Trace, TraceEntry};

const A: BrokerId = BrokerId(1);
const B: BrokerId = BrokerId(2);

const MOMENT: Moment = Moment { time: Time::ZERO, event: 0 };

/// Of no transaction.
fn taken(batch: u64) -> Option<Taken> {
    Some(Taken { batch, copy: 0, transaction: None })
}

/// A leads in epoch 0 and has batches 0 to 2 at offsets 0 to 2, of which B has the first.
fn one_behind() -> Partition {
    let mut partition = Partition::default();
    partition.became_leader(A, (LeaderEpoch(0), Offset(0)), BTreeSet::new(), MOMENT);
    for number in 0..3 {
        let offset = Offset(number as i64);
        let changes = partition.appended(A, LeaderEpoch(0), (offset, offset), taken(number));
        assert!(changes.is_empty());
    }
    partition.replicated(B, (Offset(0), Offset(1)), &[(LeaderEpoch(0), Offset(0))]);
    partition
}

/// Which batches are gone, or `back`, by these changes.
fn told(changes: &[Change]) -> Vec<String> {
    let mut told: Vec<String> = changes
        .iter()
        .map(|change| match change.why {
            None => format!("{} back", change.batch),
            Some(GoneWhy::LeaderChange { leader, epoch }) => format!("{} by {leader} e{epoch}", change.batch),
            Some(GoneWhy::DiskLost { broker }) => format!("{} with {broker}", change.batch),
            Some(GoneWhy::TopicDeleted) => format!("{} deleted", change.batch),
        })
        .collect();
    told.sort();
    told
}

#[test]
fn what_the_new_leader_does_not_have_is_gone_and_comes_back_with_a_leader_that_has_it() {
    let mut partition = one_behind();
    assert_eq!(partition.holders(LeaderEpoch(0), Offset(0)), [A, B]);
    assert_eq!(partition.holders(LeaderEpoch(0), Offset(2)), [A]);
    assert_eq!(
        told(&partition.became_leader(B, (LeaderEpoch(1), Offset(1)), BTreeSet::new(), MOMENT)),
        ["1 by 2 e1", "2 by 2 e1"]
    );
    assert!(partition.appended(B, LeaderEpoch(1), (Offset(1), Offset(1)), taken(3)).is_empty());
    let at = |partition: &Partition, epoch| {
        partition.entries(Offset(1), Offset(2), epoch).map(|(_, entry)| entry.batch).collect::<Vec<_>>()
    };
    assert_eq!((at(&partition, None), at(&partition, Some(LeaderEpoch(0)))), (vec![3], vec![1]));
    // Nobody else is left: an unclean election of the old leader, which has not followed the new one.
    assert_eq!(
        told(&partition.became_leader(A, (LeaderEpoch(2), Offset(3)), BTreeSet::new(), MOMENT)),
        ["1 back", "2 back", "3 by 1 e2"]
    );
}

#[test]
fn what_a_deposed_leader_still_writes_is_gone_at_once() {
    let mut partition = one_behind();
    partition.became_leader(B, (LeaderEpoch(1), Offset(1)), BTreeSet::new(), MOMENT);
    let changes = partition.appended(A, LeaderEpoch(0), (Offset(3), Offset(3)), taken(4));
    assert_eq!(told(&changes), ["4 by 2 e1"]);
}

#[test]
fn what_the_last_disk_loses_is_gone_and_what_another_has_is_not() {
    let mut partition = one_behind();
    assert_eq!(told(&partition.disk_lost(A, Offset(0), MOMENT)), ["1 with 1", "2 with 1"]);
    assert!(
        partition.became_leader(A, (LeaderEpoch(0), Offset(0)), BTreeSet::new(), MOMENT).len() == 1,
        "batch 0 is on B alone"
    );
}

#[test]
fn a_leader_that_writes_over_what_it_lost_in_the_same_epoch_does_not_bring_it_back() {
    let mut partition = one_behind();
    partition.disk_lost(A, Offset(2), MOMENT);
    partition.became_leader(A, (LeaderEpoch(0), Offset(2)), BTreeSet::new(), MOMENT);
    assert!(partition.appended(A, LeaderEpoch(0), (Offset(2), Offset(2)), taken(5)).is_empty());
    assert!(partition.became_leader(A, (LeaderEpoch(1), Offset(3)), BTreeSet::new(), MOMENT).is_empty());
    let at: Vec<u64> = partition.entries(Offset(2), Offset(3), None).map(|(_, entry)| entry.batch).collect();
    assert_eq!(at, [5]);
}

#[test]
fn a_replica_that_begins_at_the_leaders_start_lacks_nothing_below_it() {
    let mut partition = one_behind();
    partition.replicated(BrokerId(3), (Offset(2), Offset(3)), &[(LeaderEpoch(0), Offset(2))]);
    assert!(
        partition.became_leader(BrokerId(3), (LeaderEpoch(1), Offset(3)), BTreeSet::new(), MOMENT).is_empty()
    );
    assert_eq!(partition.holders(LeaderEpoch(0), Offset(1)), [A]);
}

#[test]
fn a_large_batch_is_found_behind_many_small_ones_of_an_epoch_that_is_gone() {
    let mut partition = Partition::default();
    partition.became_leader(A, (LeaderEpoch(0), Offset(0)), BTreeSet::new(), MOMENT);
    for number in 0..20 {
        let offset = Offset(number as i64);
        partition.appended(A, LeaderEpoch(0), (offset, offset), taken(number));
    }
    partition.became_leader(B, (LeaderEpoch(1), Offset(0)), BTreeSet::new(), MOMENT);
    partition.appended(B, LeaderEpoch(1), (Offset(0), Offset(19)), taken(20));
    let at = partition.entries(Offset(19), Offset(20), Some(LeaderEpoch(1)));
    assert_eq!(at.map(|(base, entry)| (base, entry.batch)).collect::<Vec<_>>(), [(Offset(0), 20)]);
}

/// Retention cuts a log at any offset, also within what was a batch of another epoch.
#[test]
fn what_is_gone_does_not_come_back_since_it_lies_below_the_start_of_a_new_leaders_log() {
    let mut partition = one_behind();
    partition.appended(A, LeaderEpoch(0), (Offset(3), Offset(6)), taken(3));
    partition.became_leader(B, (LeaderEpoch(1), Offset(1)), BTreeSet::new(), MOMENT);
    partition.appended(B, LeaderEpoch(1), (Offset(1), Offset(3)), taken(4));
    partition.replicated(BrokerId(3), (Offset(0), Offset(1)), &[(LeaderEpoch(0), Offset(0))]);
    partition.replicated(BrokerId(3), (Offset(1), Offset(4)), &[(LeaderEpoch(1), Offset(1))]);
    let (at, reason) = (MOMENT, LogStartReason::Leader);
    partition.log_start_moved(BrokerId(3), false, Start { at, to: Offset(4), reason });
    assert!(
        partition.became_leader(BrokerId(3), (LeaderEpoch(2), Offset(4)), BTreeSet::new(), MOMENT).is_empty()
    );
}

/// A topic's number, as its id.
fn id(number: u128) -> TopicId {
    TopicId(uuid::Uuid::from_u128(number))
}

#[test]
fn who_has_not_heard_that_the_topic_is_deleted_writes_nothing_that_counts() {
    let mut partition = one_behind();
    partition.of_topic(A, id(1));
    assert_eq!(partition.clear().len(), 3);
    // B, which heard of it late, is elected of the old topic; A has never stopped to lead it.
    assert!(partition.of_topic(B, id(1)).is_empty());
    assert!(partition.became_leader(B, (LeaderEpoch(1), Offset(1)), BTreeSet::new(), MOMENT).is_empty());
    let late = partition.appended(B, LeaderEpoch(1), (Offset(1), Offset(1)), taken(3));
    assert_eq!(told(&late), ["3 deleted"]);
    let late = partition.appended(A, LeaderEpoch(0), (Offset(3), Offset(3)), taken(4));
    assert_eq!(told(&late), ["4 deleted"]);
    partition.replica_deleted(A);
    assert!(partition.of_topic(A, id(2)).is_empty());
    assert!(partition.became_leader(A, (LeaderEpoch(0), Offset(0)), BTreeSet::new(), MOMENT).is_empty());
    assert!(partition.appended(A, LeaderEpoch(0), (Offset(0), Offset(0)), taken(5)).is_empty());
    let at: Vec<u64> = partition.entries(Offset(0), Offset(9), None).map(|(_, entry)| entry.batch).collect();
    assert_eq!(at, [5]);
}

#[test]
fn with_its_topic_everything_goes() {
    let mut partition = one_behind();
    assert_eq!(told(&partition.clear()), ["0 deleted", "1 deleted", "2 deleted"]);
    assert_eq!(partition.entries(Offset(0), Offset(9), None).count(), 0);
}

/// A producer's records in transactions: each batch has one, and stands at the offset of its number.
struct Told(Trace);

impl Told {
    fn new() -> Told {
        let mut told = Told(Trace::default());
        told.tell(Event::Process { node: NodeId::Client(1), name: ClientName::new("p"), act: Act::Started });
        told
    }

    fn tell(&mut self, event: Event) {
        self.0.push(TraceEntry { key: Key::default(), cause: None, event }, 0);
    }

    fn tp() -> TopicPartition {
        TopicPartition::new(&Topic::new("t"), 0)
    }

    fn stored(&mut self, number: i32) {
        let (client, tp, batch) = (ClientName::new("p"), Told::tp(), BatchId(number.into()));
        self.tell(Event::RecordBatched { client: client.clone(), tp: tp.clone(), batch, key: None });
        self.tell(Event::BatchSent {
            client,
            tp: tp.clone(),
            batch,
            records: 1,
            base_sequence: number,
            attempt: 1,
            to: A,
            correlation: number,
        });
        let offset = Offset(number.into());
        self.tell(Event::Appended {
            broker: A,
            tp,
            leader_epoch: LeaderEpoch(0),
            base_offset: offset,
            last_offset: offset,
            producer: ProducerId(7),
            base_sequence: number,
            transactional: true,
            request: Some(RequestMark { from: NodeId::Client(1), correlation: number }),
        });
    }

    /// The end of the transaction, at this offset.
    fn marked(&mut self, committed: bool, offset: i64) {
        let (tp, producer, offset) = (Told::tp(), ProducerId(7), Offset(offset));
        self.tell(Event::Appended {
            broker: A,
            tp: tp.clone(),
            leader_epoch: LeaderEpoch(0),
            base_offset: offset,
            last_offset: offset,
            producer,
            base_sequence: -1,
            transactional: true,
            request: None,
        });
        let marked = TransactionEvent::Marked { broker: A, tp, producer, committed, offset };
        self.tell(Event::Transaction(marked));
    }

    /// How many are stored, open and aborted.
    fn counts(&self) -> [i64; 3] {
        let totals = Ledger::of(&self.0).totals();
        [Count::Stored, Count::Open, Count::Aborted].map(|count| totals.count(count))
    }
}

#[test]
fn a_transaction_is_open_until_its_marker_and_the_next_one_is_another() {
    let mut told = Told::new();
    told.stored(0);
    told.stored(1);
    assert_eq!(told.counts(), [2, 2, 0]);
    told.marked(false, 2);
    assert_eq!(told.counts(), [2, 0, 2]);
    told.stored(3);
    told.marked(true, 4);
    assert_eq!(told.counts(), [3, 0, 2]);
    let story = Ledger::of(&told.0).story_named("t-0", 1).expect("it is there");
    assert_eq!(
        story.lines.last().map(|line| line.text.as_str()),
        Some("a marker in t-0 aborts its transaction")
    );
}

/// Two transactions of one record, each with its marker; B has everything but the last one.
#[test]
fn a_leader_without_the_marker_makes_its_transaction_open_and_one_that_has_it_ended_again() {
    let mut told = Told::new();
    told.stored(0);
    told.marked(true, 1);
    told.stored(2);
    told.marked(false, 3);
    let (tp, epochs) = (Told::tp(), vec![(LeaderEpoch(0), Offset(0))]);
    told.tell(Event::Replicated { broker: B, tp: tp.clone(), from: Offset(0), to: Offset(3), epochs });
    assert_eq!(told.counts(), [2, 0, 1]);
    let leads = |broker, epoch, end| Event::BecameLeader {
        broker,
        tp: tp.clone(),
        topic_id: id(1),
        leader_epoch: LeaderEpoch(epoch),
        start_offset: Offset(end),
        open_below: Vec::new(),
    };
    told.tell(leads(B, 1, 3));
    assert_eq!(told.counts(), [2, 1, 0]);
    told.tell(leads(A, 2, 4));
    assert_eq!(told.counts(), [2, 0, 1]);
}

/// A transaction of one record, which retention takes while it is open (R-TXN-23, R-TXN-25).
#[test]
fn what_is_open_below_the_logs_start_withholds_as_long_as_whoever_leads_knows_of_it() {
    let ends = |leads_anew: Option<&[ProducerId]>, marked: bool| {
        let mut told = Told::new();
        let tp = Told::tp();
        told.stored(0);
        told.tell(Event::HighWatermarkAdvanced {
            broker: A,
            tp: tp.clone(),
            leader: true,
            from: Offset(0),
            to: Offset(1),
        });
        let reason = LogStartReason::Time { retention_ms: 1 };
        let (from, to) = (Offset(0), Offset(1));
        told.tell(Event::LogStartMoved { broker: A, tp: tp.clone(), leader: true, from, to, reason });
        if let Some(open) = leads_anew {
            told.tell(Event::BecameLeader {
                broker: A,
                tp: tp.clone(),
                topic_id: id(1),
                leader_epoch: LeaderEpoch(0),
                start_offset: Offset(1),
                open_below: open.to_vec(),
            });
        }
        if marked {
            told.marked(true, 1);
        }
        told.tell(Event::HighWatermarkAdvanced {
            broker: A,
            tp,
            leader: true,
            from: Offset(1),
            to: Offset(9),
        });
        let ends = Ledger::of(&told.0).ends(&Told::tp());
        (ends.high.0, ends.stable.0)
    };
    assert_eq!(ends(None, false), (9, 1), "it goes on to know it");
    assert_eq!(ends(None, true), (9, 9));
    assert_eq!(ends(Some(&[ProducerId(7)]), false), (9, 1), "a snapshot said so");
    assert_eq!(ends(Some(&[ProducerId(7)]), true), (9, 9));
    assert_eq!(ends(Some(&[]), false), (9, 9), "its process has read the log anew");
}

/// 500 transactions of one record and an open one of 20, as a ledger tells that keeps ten records.
#[test]
fn an_open_transaction_that_is_not_kept_still_withholds_and_markers_that_decide_on_nothing_go() {
    let mut told = Told::new();
    let advanced = |to| Event::HighWatermarkAdvanced {
        broker: A,
        tp: Told::tp(),
        leader: true,
        from: Offset(0),
        to: Offset(to),
    };
    for number in 0..500 {
        told.stored(2 * number);
        told.marked(true, i64::from(2 * number) + 1);
        told.tell(advanced(i64::from(2 * number) + 2));
    }
    (1_000..1_020).for_each(|number| told.stored(number));
    told.tell(advanced(1_020));
    let mut ledger = Ledger::new(10);
    ledger.follow(&told.0);
    let ends = ledger.ends(&Told::tp());
    assert_eq!((ends.high, ends.stable), (Offset(1_020), Offset(1_000)));
    let kept = ledger.partitions[&Told::tp()].markers().len();
    assert!(kept < 5, "{kept} markers");
}

/// A key is kept with its record, so records with long keys are fewer.
#[test]
fn records_with_long_keys_are_bounded_by_what_they_hold() {
    let mut told = Told::new();
    let key: Rc<[u8]> = Rc::from(vec![b'k'; 100_000]);
    let (client, tp) = (ClientName::new("p"), Told::tp());
    for batch in 0..2_000 {
        let (client, tp, batch) = (client.clone(), tp.clone(), BatchId(batch / 2));
        told.tell(Event::RecordBatched { client, tp, batch, key: Some(key.clone()) });
    }
    let ledger = Ledger::of(&told.0);
    assert!((MAX_BYTES - 400_000..=MAX_BYTES).contains(&ledger.bytes()), "{}", ledger.bytes());
    assert_eq!(ledger.bytes(), ledger.batches().map(Batch::bytes).sum::<usize>());
    assert!((600..700).contains(&ledger.records()), "{}", ledger.records());
    assert_eq!(ledger.totals().count(Count::Produced), 2_000, "those that were let go are counted");
    let mut whole = Ledger::whole();
    whole.follow(&told.0);
    assert_eq!(whole.records(), 2_000);
}

/// What is known of a record grows as it is read over and over.
#[test]
fn batches_are_weighed_anew() {
    let mut told = Told::new();
    (0..10).for_each(|number| told.stored(number));
    let mut ledger = Ledger::of(&told.0);
    let young = ledger.bytes();
    told.tell(Event::Process { node: NodeId::Client(2), name: ClientName::new("c"), act: Act::Started });
    for round in 0..WEIGHED_EVERY {
        let client = ClientName::new("c");
        told.tell(Event::Polled {
            group: GroupId::new(&format!("g-{}", round % 50)),
            client,
            tp: Told::tp(),
            from: Offset(0),
            to: Offset(10),
            records: 10,
            runs: OffsetRun::of((0..10).map(|offset| (LeaderEpoch(0), Offset(offset)))),
        });
        ledger.follow(&told.0);
    }
    assert!(ledger.bytes() > young + 10 * 50 * 50, "{young} then {}", ledger.bytes());
    assert_eq!(ledger.bytes(), ledger.batches().map(Batch::bytes).sum::<usize>());
}

/// What a share consumer has in hand is the record that it was given, though another stands at its offset by now.
#[test]
fn a_share_consumer_finishes_a_record_that_a_leader_change_took_away() {
    let mut told = Told::new();
    let (client, tp, group) = (ClientName::new("s"), Told::tp(), GroupId::new("g"));
    told.tell(Event::Process { node: NodeId::Client(2), name: client.clone(), act: Act::Started });
    told.stored(0);
    told.tell(Event::Share(ShareEvent::Delivered {
        client: client.clone(),
        group,
        tp: tp.clone(),
        records: vec![(Offset(0), 1)],
        runs: OffsetRun::of([(LeaderEpoch(0), Offset(0))].into_iter()),
    }));
    let (leader_epoch, start_offset) = (LeaderEpoch(1), Offset(0));
    let (topic_id, open_below, of) = (id(1), Vec::new(), tp.clone());
    told.tell(Event::BecameLeader { broker: B, tp: of, topic_id, leader_epoch, start_offset, open_below });
    told.tell(Event::Processed { client, tp, offset: Offset(0) });
    let ledger = Ledger::of(&told.0);
    let records = ledger.batches().flat_map(|batch| &batch.records);
    assert_eq!(records.map(|record| record.seen[0].processed).collect::<Vec<_>>(), [1]);
}
