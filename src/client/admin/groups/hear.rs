//! What an errand takes from answers, and what it does about errors (`CoordinatorStrategy` and the handlers beside it).

use std::fmt::Display;

use kafka_protocol::messages as m;
use kafka_protocol::messages::consumer_group_describe_response as consumer;
use kafka_protocol::messages::describe_groups_response as described;

use super::{Asked, Described, Errand, Heard, Kind};
use crate::kafka::event::{DescribedGroup, DescribedMember, ListedGroup};
use crate::kafka::group::consumer_protocol::assigned_partitions;
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::types::{BrokerId, GroupEpoch, GroupId, MemberId, Offset, Topic, TopicPartition};

impl Errand {
    /// Takes the answer of `from` to what was asked last.
    pub(in crate::client::admin) fn hear(&mut self, from: BrokerId, response: &Response) -> Heard {
        match (self.asked.take(), response) {
            (Some(Asked::List(node)), Response::ListGroups(answer)) => self.hear_list(node, answer),
            (Some(Asked::Mark(mark)), Response::ListOffsets(answer)) => self.hear_marks(mark, answer),
            (_, Response::ConsumerGroupDescribe(answer)) => self.hear_consumer_description(from, answer),
            (_, Response::DescribeGroups(answer)) => self.hear_description(from, answer),
            (_, Response::ShareGroupDescribe(answer)) => self.hear_share_description(from, answer),
            (_, Response::OffsetFetch(answer)) => self.hear_committed(answer),
            (_, Response::DescribeShareGroupOffsets(answer)) => self.hear_share_offsets(answer),
            (_, Response::DeleteGroups(answer)) => {
                let result =
                    answer.results.first().map_or(ErrorCode::UnknownServerError.code(), |r| r.error_code);
                self.finish([(None::<Topic>, result)].into_iter())
            }
            // It may be one of those that have no commits.
            (_, Response::OffsetDelete(answer))
                if answer.error_code == ErrorCode::GroupIdNotFound.code() && self.kind != Kind::Share =>
            {
                self.kind = Kind::Share;
                Heard::Taken
            }
            (_, Response::OffsetDelete(answer)) if answer.error_code != 0 => {
                self.finish([(None::<Topic>, answer.error_code)].into_iter())
            }
            (_, Response::OffsetDelete(answer)) => self.finish(answer.topics.iter().flat_map(|topic| {
                let name = Topic::new(&topic.name);
                let partitions = topic.partitions.iter();
                partitions.map(move |p| (Some(TopicPartition::new(&name, p.partition_index)), p.error_code))
            })),
            (_, Response::OffsetCommit(answer)) => self.finish(answer.topics.iter().flat_map(|topic| {
                let name = Topic::new(&topic.name);
                let partitions = topic.partitions.iter();
                partitions.map(move |p| (Some(TopicPartition::new(&name, p.partition_index)), p.error_code))
            })),
            (_, Response::DeleteShareGroupOffsets(answer)) if answer.error_code != 0 => {
                self.finish([(None::<Topic>, answer.error_code)].into_iter())
            }
            (_, Response::DeleteShareGroupOffsets(answer)) => self.finish(
                answer.responses.iter().map(|topic| (Some(Topic::new(&topic.topic_name)), topic.error_code)),
            ),
            (_, Response::AlterShareGroupOffsets(answer)) if answer.error_code != 0 => {
                self.finish([(None::<Topic>, answer.error_code)].into_iter())
            }
            (_, Response::AlterShareGroupOffsets(answer)) => {
                self.finish(answer.responses.iter().flat_map(|topic| {
                    let name = Topic::new(&topic.topic_name);
                    let partitions = topic.partitions.iter();
                    partitions
                        .map(move |p| (Some(TopicPartition::new(&name, p.partition_index)), p.error_code))
                }))
            }
            (asked, response) => panic!("{:?} answers {asked:?}", response.api()),
        }
    }

    /// The last answer: it is done, or the first error decides.
    fn finish<T: Display>(&mut self, results: impl Iterator<Item = (Option<T>, i16)>) -> Heard {
        for (of, code) in results {
            match from_coordinator(ErrorCode::from_code(code)) {
                Heard::Taken => {}
                Heard::Refused(error, text) => {
                    return Heard::Refused(error, of.map_or(text.clone(), |of| format!("{of}: {text}")));
                }
                heard => return heard,
            }
        }
        self.done = true;
        Heard::Taken
    }

    fn hear_list(&mut self, node: BrokerId, answer: &m::ListGroupsResponse) -> Heard {
        let heard = from_coordinator(ErrorCode::from_code(answer.error_code));
        if heard == Heard::Taken {
            let listed = |group: &m::list_groups_response::ListedGroup| ListedGroup {
                group: GroupId::new(&group.group_id),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                kind: group.group_type.to_string(),
            };
            self.listed.insert(node, answer.groups.iter().map(listed).collect());
        }
        heard
    }

    fn hear_description(&mut self, from: BrokerId, answer: &m::DescribeGroupsResponse) -> Heard {
        let Some(group) = answer.groups.first() else {
            return refused(ErrorCode::UnknownServerError);
        };
        match ErrorCode::from_code(group.error_code) {
            ErrorCode::None => self.described = Some(Described::Known(description(from, group))),
            ErrorCode::GroupIdNotFound => self.kind = Kind::Share,
            error => return from_coordinator(error),
        }
        Heard::Taken
    }

    fn hear_consumer_description(
        &mut self,
        from: BrokerId,
        answer: &m::ConsumerGroupDescribeResponse,
    ) -> Heard {
        let Some(group) = answer.groups.first() else { return refused(ErrorCode::UnknownServerError) };
        match ErrorCode::from_code(group.error_code) {
            ErrorCode::None => self.described = Some(Described::Known(consumer_description(from, group))),
            ErrorCode::GroupIdNotFound => self.kind = Kind::Classic,
            error => return from_coordinator(error),
        }
        Heard::Taken
    }

    fn hear_committed(&mut self, answer: &m::OffsetFetchResponse) -> Heard {
        let Some(group) = answer.groups.first() else { return refused(ErrorCode::UnknownServerError) };
        let heard = from_coordinator(ErrorCode::from_code(group.error_code));
        if heard == Heard::Taken {
            let offsets = group.topics.iter().flat_map(|topic| {
                let name = Topic::new(&topic.name);
                let known = topic.partitions.iter().filter(|p| p.error_code == 0 && p.committed_offset >= 0);
                known
                    .map(move |p| (TopicPartition::new(&name, p.partition_index), Offset(p.committed_offset)))
            });
            self.committed = Some(offsets.collect());
        }
        heard
    }

    /// What one leader knows; what another one leads by now is asked for again.
    fn hear_marks(&mut self, mark: super::Mark, answer: &m::ListOffsetsResponse) -> Heard {
        let mut heard = Heard::Taken;
        for topic in &answer.topics {
            let name = Topic::new(&topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                match ErrorCode::from_code(partition.error_code) {
                    ErrorCode::None => drop(self.marks.insert((mark, tp), Offset(partition.offset))),
                    error if error.refreshes_metadata() || error.is_retriable() => heard = Heard::Elsewhere,
                    error => return Heard::Refused(error, format!("{tp}: {}", error.name())),
                }
            }
        }
        heard
    }
}

pub(super) fn refused(error: ErrorCode) -> Heard {
    Heard::Refused(error, error.name().to_owned())
}

pub(super) fn from_coordinator(error: ErrorCode) -> Heard {
    match error {
        ErrorCode::None => Heard::Taken,
        ErrorCode::CoordinatorLoadInProgress | ErrorCode::RebalanceInProgress => Heard::Again,
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => Heard::Elsewhere,
        error => refused(error),
    }
}

fn description(coordinator: BrokerId, group: &described::DescribedGroup) -> DescribedGroup {
    let member = |member: &described::DescribedGroupMember| DescribedMember {
        member: MemberId::new(&member.member_id),
        instance_id: member.group_instance_id.as_ref().map(|id| id.to_string()),
        client: member.client_id.to_string(),
        host: member.client_host.to_string(),
        owned: assigned_partitions(&member.member_assignment),
        target: None,
    };
    DescribedGroup {
        group: GroupId::new(&group.group_id),
        coordinator,
        state: group.group_state.to_string(),
        protocol: group.protocol_data.to_string(),
        epochs: None,
        members: group.members.iter().map(member).collect(),
    }
}

fn consumer_description(coordinator: BrokerId, group: &consumer::DescribedGroup) -> DescribedGroup {
    let partitions = |assignment: &consumer::Assignment| -> Vec<TopicPartition> {
        let of_topic = |topic: &consumer::TopicPartitions| {
            let name = Topic::new(&topic.topic_name);
            topic.partitions.iter().map(move |number| TopicPartition::new(&name, *number)).collect::<Vec<_>>()
        };
        assignment.topic_partitions.iter().flat_map(of_topic).collect()
    };
    let member = |member: &consumer::Member| DescribedMember {
        member: MemberId::new(&member.member_id),
        instance_id: member.instance_id.as_ref().map(|id| id.to_string()),
        client: member.client_id.to_string(),
        host: member.client_host.to_string(),
        owned: partitions(&member.assignment),
        target: Some((GroupEpoch(member.member_epoch), partitions(&member.target_assignment))),
    };
    DescribedGroup {
        group: GroupId::new(&group.group_id),
        coordinator,
        state: group.group_state.to_string(),
        protocol: group.assignor_name.to_string(),
        epochs: Some((GroupEpoch(group.group_epoch), GroupEpoch(group.assignment_epoch))),
        members: group.members.iter().map(member).collect(),
    }
}
