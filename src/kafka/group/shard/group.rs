//! A group of any protocol.
//!
//! **Invariant:** an id is that of one group, whichever protocol it speaks.

use std::rc::Rc;

use kafka_protocol::protocol::StrBytes;

use crate::kafka::event::GroupState;
use crate::kafka::group::classic::ClassicGroup;
use crate::kafka::group::modern::consumer::ConsumerGroup;
use crate::kafka::group::modern::share::ShareGroup;
use crate::kafka::types::Topic;

#[derive(Clone, Debug)]
pub enum Group {
    Classic(Rc<ClassicGroup>),
    Consumer(Rc<ConsumerGroup>),
    Share(Rc<ShareGroup>),
}

impl Group {
    pub fn classic(&self) -> Option<&Rc<ClassicGroup>> {
        match self {
            Group::Classic(group) => Some(group),
            Group::Consumer(_) | Group::Share(_) => None,
        }
    }

    pub fn consumer(&self) -> Option<&Rc<ConsumerGroup>> {
        match self {
            Group::Consumer(group) => Some(group),
            Group::Classic(_) | Group::Share(_) => None,
        }
    }

    pub fn share(&self) -> Option<&Rc<ShareGroup>> {
        match self {
            Group::Share(group) => Some(group),
            Group::Classic(_) | Group::Consumer(_) => None,
        }
    }

    /// `GroupType`
    pub fn type_name(&self) -> &'static str {
        match self {
            Group::Classic(_) => "classic",
            Group::Consumer(_) => "consumer",
            Group::Share(_) => "share",
        }
    }

    pub fn state_name(&self) -> &'static str {
        match self {
            Group::Classic(group) => group.state.name(),
            Group::Consumer(group) => group.state().name(),
            Group::Share(group) => group.state().name(),
        }
    }

    pub fn protocol_type(&self) -> StrBytes {
        match self {
            Group::Classic(group) => group.protocol_type.clone().unwrap_or_default(),
            Group::Consumer(_) => StrBytes::from_static_str("consumer"),
            Group::Share(_) => StrBytes::from_static_str("share"),
        }
    }

    /// Its members are consumers, and not, say, Connect workers.
    pub fn is_of_consumers(&self) -> bool {
        match self {
            Group::Classic(group) => group.is_of_consumers(),
            Group::Consumer(_) => true,
            Group::Share(_) => false,
        }
    }

    /// Whether a member reads the topic, as far as that can be known.
    pub fn is_subscribed_to(&self, topic: &Topic) -> bool {
        match self {
            Group::Classic(group) => group.is_subscribed_to(topic),
            Group::Consumer(group) => group.subscribed_topics().contains(topic),
            Group::Share(group) => group.subscribed_topics().contains(topic),
        }
    }

    /// Nobody is a member.
    pub fn is_empty(&self) -> bool {
        match self {
            Group::Classic(group) => group.is(GroupState::Empty),
            Group::Consumer(group) => group.base.members.is_empty(),
            Group::Share(group) => group.base.members.is_empty(),
        }
    }
}
