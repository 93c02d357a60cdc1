//! A consumer inside an application whose program has lines of another client too.
//!
//! **Invariant:** the thread stays in such a line until the application says that it is done.

use super::{Activity, Consumer, ConsumerSpec, ConsumerTimer, SpecError};
use crate::client::group_metadata::GroupMetadata;
use crate::client::program::{Line, RunsProgram};
use crate::kafka::effects::Effects;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::BrokerId;

impl Consumer {
    /// A consumer of an application, which carries out lines that are none of the consumer's.
    ///
    /// # Errors
    /// Those of [`ConsumerSpec::check_embedded`].
    pub fn for_application(
        spec: ConsumerSpec,
        bootstrap: &[BrokerId],
        random: Random,
    ) -> Result<Consumer, SpecError> {
        let config = spec.check_embedded()?;
        Ok(Consumer { is_embedded: true, ..Consumer::of(spec, config, bootstrap, random) })
    }

    /// The line that the application is to carry out.
    pub(in crate::client) fn calling(&self) -> Option<Line> {
        matches!(self.program.activity, Activity::Calling { .. }).then(|| self.program.line())
    }

    /// That line is done.
    pub(in crate::client) fn finish_call(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.calling().is_some() {
            self.finish_line(now, fx);
            self.run(now, fx);
        }
    }

    /// The application gives up what the last polls returned: it reads on from what is committed, with its first line.
    pub(in crate::client) fn begin_again(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.calling().is_some() {
            self.subscription.forget_positions();
            self.fetcher.retain(|_| false);
            self.committed_lookup.restart();
            self.program.let_go(&self.spec.name, fx);
            self.program.begin_again();
            self.come_to_line(now, fx);
            self.run(now, fx);
        }
    }

    /// The application ends: the consumer is closed, whatever line the thread is in.
    pub(in crate::client) fn end(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        self.begin_close(now, Default::default());
        self.run(now, fx);
    }

    /// groupMetadata()
    pub fn group_metadata(&self) -> GroupMetadata {
        let identity = &self.membership.identity;
        GroupMetadata {
            group: self.spec.group.clone(),
            generation: identity.generation,
            member: identity.member.clone(),
            instance: self.config.group_instance_id.clone(),
        }
    }
}
