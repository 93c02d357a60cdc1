//! Producer ids for idempotent producers, from blocks that the controller hands out.
//!
//! Mirrors `RPCProducerIdManager` and the non-transactional half of InitProducerId (R-PROD-23).
//!
//! **Invariant:** an id is given once.

use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, InitProducerIdResponse,
};

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::ProducerId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    next: i64,
    end: i64,
    len: i64,
}

#[derive(Clone, Debug, Default)]
pub struct ProducerIds {
    current: Option<Block>,
    following: Option<Block>,
    asked: bool,
}

impl ProducerIds {
    /// The next id; `None` while a block is on its way.
    pub(super) fn take(&mut self) -> Option<ProducerId> {
        if self.current.is_none_or(|block| block.next == block.end) {
            self.current = self.following.take();
        }
        let block = self.current.as_mut()?;
        block.next += 1;
        Some(ProducerId(block.next - 1))
    }

    /// A new block is asked for when nine tenths of the present one are used.
    fn should_ask(&self) -> bool {
        let nearly_used = |block: &Block| (block.end - block.next) * 10 <= block.len;
        !self.asked && self.following.is_none() && self.current.as_ref().is_none_or(nearly_used)
    }

    /// Nobody gave a block.
    pub fn refused(&mut self) {
        self.asked = false;
    }

    pub fn allocated(&mut self, response: &AllocateProducerIdsResponse) {
        self.asked = false;
        if response.error_code == 0 {
            let (start, len) = (response.producer_id_start.0, i64::from(response.producer_id_len));
            self.following = Some(Block { next: start, end: start + len, len });
        }
    }
}

impl Broker {
    pub(super) fn init_producer_id(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
    ) -> InitProducerIdResponse {
        let refused = |error: ErrorCode| {
            InitProducerIdResponse::default().with_error_code(error.code()).with_producer_id((-1).into())
        };
        let taken = self.producer_ids.take();
        self.refill_producer_ids(now, fx);
        match taken {
            Some(id) => {
                InitProducerIdResponse::default().with_producer_id(id.0.into()).with_producer_epoch(0)
            }
            None => refused(ErrorCode::CoordinatorLoadInProgress).with_producer_epoch(-1),
        }
    }

    /// Asks for another block when the present one is nearly used.
    pub(super) fn refill_producer_ids(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        if self.producer_ids.should_ask() {
            self.producer_ids.asked = true;
            let request = AllocateProducerIdsRequest::default()
                .with_broker_id(self.id.0.into())
                .with_broker_epoch(self.lifecycle.epoch().0);
            self.ask_controller(now, Channel::Forwarding, request, Purpose::AllocateProducerIds, fx);
        }
    }
}
