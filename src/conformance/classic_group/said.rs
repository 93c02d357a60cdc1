//! Answers, and the group's state, in the shape in which they were recorded.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;

use super::Hex;
use crate::kafka::protocol::{ErrorCode, Response};

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(tag = "api", rename_all = "lowercase")]
pub(super) enum Said {
    Join(Joined),
    Sync(Synced),
    Heartbeat(Plain),
    Leave(Left),
    Commit(Plain),
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Joined {
    to: String,
    error: String,
    member_id: String,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: String,
    skip_assignment: bool,
    /// By member id.
    members: Vec<Subscribed>,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Subscribed {
    member_id: String,
    instance_id: Option<String>,
    metadata: Hex,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Synced {
    to: String,
    error: String,
    protocol_type: Option<String>,
    protocol: Option<String>,
    assignment: String,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Plain {
    to: String,
    error: String,
}

#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Left {
    to: String,
    error: String,
    member_errors: Option<Vec<String>>,
}

/// A group that does not exist has but a state, NO_GROUP.
#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) state: String,
    pub(super) generation: Option<i32>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) pending_join: Option<i64>,
    pub(super) pending_sync: Option<BTreeSet<String>>,
    pub(super) join_deadline: Option<i64>,
    pub(super) sync_deadline: Option<i64>,
    /// By member id.
    pub(super) members: Option<Vec<Member>>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) member_id: String,
    pub(super) instance_id: Option<String>,
    pub(super) awaiting_join: bool,
    pub(super) awaiting_sync: bool,
    pub(super) assignment: String,
    pub(super) session_expires_at: Option<i64>,
}

fn name(code: i16) -> String {
    ErrorCode::from_code(code).name().to_owned()
}

pub(super) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

impl Said {
    /// What was answered to the client `to`.
    pub(super) fn of(to: String, response: &Response) -> Option<Said> {
        Some(match response {
            Response::JoinGroup(body) => {
                let member =
                    |member: &kafka_protocol::messages::join_group_response::JoinGroupResponseMember| {
                        Subscribed {
                            member_id: member.member_id.to_string(),
                            instance_id: owned(member.group_instance_id.as_deref()),
                            metadata: Hex(member.metadata.clone()),
                        }
                    };
                let mut members: Vec<Subscribed> = body.members.iter().map(member).collect();
                members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
                Said::Join(Joined {
                    to,
                    error: name(body.error_code),
                    member_id: body.member_id.to_string(),
                    generation: body.generation_id,
                    protocol_type: owned(body.protocol_type.as_deref()),
                    protocol: owned(body.protocol_name.as_deref()),
                    leader: body.leader.to_string(),
                    skip_assignment: body.skip_assignment,
                    members,
                })
            }
            Response::SyncGroup(body) => Said::Sync(Synced {
                to,
                error: name(body.error_code),
                protocol_type: owned(body.protocol_type.as_deref()),
                protocol: owned(body.protocol_name.as_deref()),
                assignment: text(&body.assignment),
            }),
            Response::Heartbeat(body) => Said::Heartbeat(Plain { to, error: name(body.error_code) }),
            Response::LeaveGroup(body) => {
                let errors = body.members.iter().map(|member| name(member.error_code)).collect();
                Said::Leave(Left { to, error: name(body.error_code), member_errors: Some(errors) })
            }
            Response::OffsetCommit(body) => {
                let error = body.topics.first()?.partitions.first()?.error_code;
                Said::Commit(Plain { to, error: name(error) })
            }
            _ => return None,
        })
    }

    /// The scripts spoke to the state machine, which refuses to leave an unknown group as a whole; the layer above it
    /// then answers for each member.
    pub(super) fn as_answered(&self) -> Said {
        match self {
            Said::Leave(Left { to, error, member_errors: None }) => Said::Leave(Left {
                to: to.clone(),
                error: name(ErrorCode::None.code()),
                member_errors: Some(vec![error.clone()]),
            }),
            said => said.clone(),
        }
    }

    pub(super) fn member_id(&self) -> Option<&str> {
        match self {
            Said::Join(joined) => Some(&joined.member_id),
            _ => None,
        }
    }
}

impl Group {
    pub(super) fn absent() -> Group {
        Group {
            state: "NO_GROUP".to_owned(),
            generation: None,
            protocol: None,
            leader: None,
            pending_join: None,
            pending_sync: None,
            join_deadline: None,
            sync_deadline: None,
            members: None,
        }
    }

    pub(super) fn member_ids(&self) -> impl Iterator<Item = &str> {
        self.members.iter().flatten().map(|member| member.member_id.as_str())
    }
}
