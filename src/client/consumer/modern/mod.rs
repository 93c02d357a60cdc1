//! A member of a group of the newer protocol (`group.protocol=consumer`): one request, whose answers say what the member
//! is to own (section 7 of the reference; Kafka's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`).
//!
//! [`Member`](crate::client::member::Member) is the member itself and sends nothing; [`heartbeat`] is the background thread with the requests, and
//! [`reconcile`] the application's thread, which moves from what is owned to what is to be owned.
//!
//! **Invariant:** of what it owns a member gives up partitions in poll() only, after the commit, and says so at once; but
//! what it has lost, as the group does not know it any more, it gives up when it hears of that.

mod heartbeat;
mod reconcile;

pub(super) use heartbeat::HeartbeatKind;
