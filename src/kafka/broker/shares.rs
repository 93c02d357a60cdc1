//! The ground of the share partition manager: its broker's replicas, metadata and way to the share coordinators
//! (R-SHARE-3, 14).

use kafka_protocol::messages as m;
use kafka_protocol::messages::share_group_describe_response::DescribedGroup;

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, Incoming, RequestId};
use crate::kafka::protocol::share::{
    DescribeShareGroupOffsetsResponse, OffsetsGroup, ShareAcknowledgeRequest, ShareAcknowledgeResponse,
    ShareFetchRequest, ShareFetchResponse,
};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::share::SharePartitionManager;
use crate::kafka::share::manager::{Ground, ManagerEffects, ShareFetchTimer};
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

impl Broker {
    pub(super) fn on_share_fetch(
        &mut self,
        now: Time,
        id: RequestId,
        request: &ShareFetchRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.fetch(id, request, ground, part));
    }

    pub(super) fn on_share_acknowledge(
        &mut self,
        now: Time,
        id: RequestId,
        request: &ShareAcknowledgeRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.acknowledge(id, request, ground, part));
    }

    pub(super) fn on_share_fetch_timer(
        &mut self,
        now: Time,
        timer: &ShareFetchTimer,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_shares(now, fx, |shares, ground, part| shares.on_timer(timer, ground, part));
    }

    /// A client is gone, or has closed its connection.
    pub(super) fn on_gone(&mut self, now: Time, incoming: Incoming, fx: &mut Effects<BrokerTimer>) {
        if self.shares.sessions().knows(incoming) {
            self.at_shares(now, fx, |shares, ground, part| shares.on_disconnected(incoming, ground, part));
        }
    }

    pub(super) fn on_readable(&mut self, now: Time, tp: &TopicPartition, fx: &mut Effects<BrokerTimer>) {
        if self.shares.is_waited_for() {
            self.at_shares(now, fx, |shares, ground, part| shares.on_high_watermark(tp, ground, part));
        }
    }

    /// Runs one of the manager's steps, and passes on what it wants persisted.
    pub(super) fn at_shares(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut SharePartitionManager, &Ground<'_>, &mut ManagerEffects),
    ) {
        let image = self.image.clone();
        let ground =
            Ground { broker: self.id, now, image: &image, replicas: &self.replicas, config: &self.config };
        let mut part = ManagerEffects::default();
        run(&mut self.shares, &ground, &mut part);
        fx.absorb(part.effects);
        if !part.persist.is_empty() {
            self.persister.submit(now, part.persist);
            self.flush_persister(now, fx);
        }
    }
}

/// What a request about share groups is answered with where `share.version` says that there are none
/// (`isShareGroupProtocolEnabled`). The share coordinators are not asked then.
pub(super) fn refused_without_share_groups(request: &Request) -> Option<Response> {
    let error_code = ErrorCode::UnsupportedVersion.code();
    Some(match request {
        Request::ShareGroupHeartbeat(_) => {
            m::ShareGroupHeartbeatResponse::default().with_error_code(error_code).into()
        }
        Request::ShareGroupDescribe(request) => {
            let refused = |group: &m::GroupId| {
                DescribedGroup::default().with_group_id(group.clone()).with_error_code(error_code)
            };
            let groups = request.group_ids.iter().map(refused).collect();
            m::ShareGroupDescribeResponse::default().with_groups(groups).into()
        }
        Request::ShareFetch(_) => ShareFetchResponse { error_code, ..ShareFetchResponse::default() }.into(),
        Request::ShareAcknowledge(_) => {
            ShareAcknowledgeResponse { error_code, ..ShareAcknowledgeResponse::default() }.into()
        }
        Request::DescribeShareGroupOffsets(request) => {
            let refused = |group_id: String| OffsetsGroup { group_id, error_code, ..OffsetsGroup::default() };
            let groups = request.0.groups.iter().map(|group| refused(group.group_id.to_string())).collect();
            DescribeShareGroupOffsetsResponse { throttle_time_ms: 0, groups }.into()
        }
        Request::AlterShareGroupOffsets(_) => {
            m::AlterShareGroupOffsetsResponse::default().with_error_code(error_code).into()
        }
        Request::DeleteShareGroupOffsets(_) => {
            m::DeleteShareGroupOffsetsResponse::default().with_error_code(error_code).into()
        }
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests;
