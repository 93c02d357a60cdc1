//! Requests that wait for a condition or their deadline (`DelayedOperationPurgatory`, R-REPL-16, 29, 32).
//!
//! **Invariant:** an operation is in the purgatory exactly as long as it is unanswered; each partition it depends on
//! lists it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;

use kafka_protocol::messages::{DeleteRecordsResponse, FetchRequest, ProduceResponse, TopicName};

use super::context::FetchContext;
use super::fetch::Read;
use super::session::PartitionKey;
use crate::kafka::effects::RequestId;
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::protocol::Request;
use crate::kafka::protocol::markers::WriteTxnMarkersResponse;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, ProducerId, TopicId, TopicPartition};

/// Operations are numbered in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// One partition of an acks=all write.
#[derive(Clone, Debug)]
pub struct PendingAcks {
    pub tp: TopicPartition,
    /// As the answer names the topic: by its id or its name.
    pub asked_for: (TopicId, TopicName),
    /// The high watermark that completes it: the write's last offset + 1.
    pub required: Offset,
}

#[derive(Clone, Debug)]
pub struct DelayedProduce {
    pub request: RequestId,
    /// The answer so far; a partition that waits has REQUEST_TIMED_OUT in it, so that expiry only has to send it.
    pub response: ProduceResponse,
    pub pending: Vec<PendingAcks>,
}

/// One partition of a DeleteRecords request.
#[derive(Clone, Debug)]
pub struct PendingDelete {
    pub tp: TopicPartition,
    /// The low watermark that completes it.
    pub required: Offset,
}

#[derive(Clone, Debug)]
pub struct DelayedDeleteRecords {
    pub request: RequestId,
    /// The answer so far; a partition that waits has REQUEST_TIMED_OUT in it.
    pub response: DeleteRecordsResponse,
    pub pending: Vec<PendingDelete>,
}

/// The end of one transaction in one partition.
#[derive(Clone, Debug)]
pub struct PendingMarker {
    pub producer: ProducerId,
    pub tp: TopicPartition,
    /// The high watermark that completes it.
    pub required: Offset,
}

#[derive(Clone, Debug)]
pub struct DelayedMarkers {
    pub request: RequestId,
    /// The answer so far; a marker that waits has REQUEST_TIMED_OUT in it.
    pub response: WriteTxnMarkersResponse,
    pub pending: Vec<PendingMarker>,
}

#[derive(Clone, Debug)]
pub struct DelayedFetch {
    pub request: RequestId,
    pub fetch: SharedFetch,
    pub context: FetchContext,
    /// The answers about partitions that nobody knew when the request came.
    pub(super) unknown: Vec<Read>,
    /// Of each partition that has something to come, the segment in which its offset was when the request came.
    pub(super) segments: BTreeMap<PartitionKey, Offset>,
    /// When it came.
    pub since: Time,
}

impl DelayedFetch {
    /// Whether it has its answer about a partition already, and does not wait for it.
    pub fn has_answer(&self, key: &PartitionKey) -> bool {
        self.unknown.iter().any(|unknown| unknown.asked.key == *key)
    }
}

/// A Fetch request as it came, shared with whoever still holds it.
#[derive(Clone, Debug)]
pub struct SharedFetch(Rc<Request>);

impl SharedFetch {
    /// `None` for any other request.
    pub fn new(request: Rc<Request>) -> Option<SharedFetch> {
        matches!(*request, Request::Fetch(_)).then_some(SharedFetch(request))
    }
}

impl Deref for SharedFetch {
    type Target = FetchRequest;

    fn deref(&self) -> &FetchRequest {
        match &*self.0 {
            Request::Fetch(fetch) => fetch,
            _ => unreachable!("checked when it was made"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Operation {
    Produce(DelayedProduce),
    Fetch(DelayedFetch),
    DeleteRecords(DelayedDeleteRecords),
    Markers(DelayedMarkers),
}

#[derive(Clone, Debug, Default)]
pub struct Purgatory {
    next: u64,
    operations: BTreeMap<OperationId, Waiting>,
    /// Oldest first.
    watchers: PartitionMap<TopicPartition, Vec<OperationId>>,
    deadlines: BTreeSet<(Time, OperationId)>,
    /// For when the timer is set; the operation that it was set for may be answered already.
    armed: Option<Time>,
}

#[derive(Clone, Debug)]
pub struct Waiting {
    pub operation: Operation,
    pub deadline: Time,
    watched: Vec<TopicPartition>,
}

impl Purgatory {
    /// Parks an operation until one of `watched` changes, or `deadline`.
    pub fn park(
        &mut self,
        operation: Operation,
        watched: Vec<TopicPartition>,
        deadline: Time,
    ) -> OperationId {
        let id = OperationId(self.next);
        self.next += 1;
        for tp in &watched {
            add_watcher(&mut self.watchers, id, tp);
        }
        self.deadlines.insert((deadline, id));
        self.operations.insert(id, Waiting { operation, deadline, watched });
        id
    }

    /// When the timer is to be set for, if that is earlier than it is.
    pub fn alarm(&mut self) -> Option<Time> {
        let (next, _) = *self.deadlines.first()?;
        let earlier = self.armed.is_none_or(|armed| next < armed);
        earlier.then(|| *self.armed.insert(next))
    }

    /// The timer has run out: the operations that have waited until their deadline, in its order.
    pub fn due(&mut self, now: Time) -> Vec<OperationId> {
        self.armed = None;
        self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }

    /// A fetch that waits depends on this partition too, of which it wants what follows in the segment at `segment`.
    pub(super) fn watch(&mut self, id: OperationId, tp: &TopicPartition, key: PartitionKey, segment: Offset) {
        let Some(waiting) = self.operations.get_mut(&id) else { return };
        if let Operation::Fetch(fetch) = &mut waiting.operation {
            fetch.segments.entry(key).or_insert(segment);
        }
        if add_watcher(&mut self.watchers, id, tp) {
            waiting.watched.push(tp.clone());
        }
    }

    /// Takes an operation out to answer it.
    pub fn remove(&mut self, id: OperationId) -> Option<Operation> {
        let waiting = self.operations.remove(&id)?;
        self.deadlines.remove(&(waiting.deadline, id));
        for tp in &waiting.watched {
            if let Some(watchers) = self.watchers.get_mut(tp) {
                watchers.retain(|watcher| *watcher != id);
                if watchers.is_empty() {
                    self.watchers.remove(tp);
                }
            }
        }
        Some(waiting.operation)
    }

    /// The operations that depend on a partition, oldest first.
    pub fn watching(&self, tp: &TopicPartition) -> Vec<OperationId> {
        self.watchers.get(tp).cloned().unwrap_or_default()
    }

    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.operations.get(&id).map(|waiting| &waiting.operation)
    }

    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.operations.get_mut(&id).map(|waiting| &mut waiting.operation)
    }

    pub fn iter(&self) -> impl Iterator<Item = (OperationId, &Waiting)> {
        self.operations.iter().map(|(id, waiting)| (*id, waiting))
    }
}

/// Whether it did not watch the partition already.
fn add_watcher(
    watchers: &mut PartitionMap<TopicPartition, Vec<OperationId>>,
    id: OperationId,
    tp: &TopicPartition,
) -> bool {
    let watchers = watchers.get_or_insert_with(tp, Vec::new);
    let place = watchers.binary_search(&id);
    if let Err(place) = place {
        watchers.insert(place, id);
    }
    place.is_err()
}
