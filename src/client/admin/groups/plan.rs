//! Which offsets a reset comes to (R-CLI-10, `OffsetsUtils`).

use std::collections::BTreeMap;

use super::{Goal, Mark, Next, Scope, Target};
use crate::client::metadata::Metadata;
use crate::kafka::event::{OffsetReset, ResetNote};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{Offset, TopicPartition};

/// The partitions of a scope that metadata knows. A topic that does not exist is refused.
pub(super) fn partitions(scope: &Scope, metadata: &Metadata) -> Result<Vec<TopicPartition>, Next> {
    match scope {
        Scope::Partitions(topic, numbers) => {
            Ok(numbers.iter().map(|number| TopicPartition::new(topic, *number)).collect())
        }
        Scope::Topic(topic) => match metadata.topic(topic) {
            None => Err(Next::Metadata),
            Some(known) if known.error == ErrorCode::UnknownTopicOrPartition => {
                Err(Next::Refused(known.error, format!("topic {topic} does not exist")))
            }
            Some(known) if !known.error.is_ok() => Err(Next::Metadata),
            Some(known) => {
                Ok(known.partitions.keys().map(|number| TopicPartition::new(topic, *number)).collect())
            }
        },
        Scope::AllTopics => Ok(Vec::new()),
    }
}

/// Those of them that have a leader.
pub(super) fn with_leaders(
    partitions: &[TopicPartition],
    metadata: &Metadata,
) -> Result<Vec<TopicPartition>, Next> {
    if partitions.iter().any(|tp| metadata.topic(&tp.topic).is_none()) {
        return Err(Next::Metadata);
    }
    Ok(partitions.iter().filter(|tp| metadata.leader(tp).is_some()).cloned().collect())
}

/// All exist and have a leader.
pub(super) fn check_leaders(partitions: &[TopicPartition], metadata: &Metadata) -> Result<(), Next> {
    for tp in partitions {
        let Some(topic) = metadata.topic(&tp.topic) else { return Err(Next::Metadata) };
        let exists = topic.error.is_ok() && topic.partitions.contains_key(&tp.partition);
        if !exists {
            let error = ErrorCode::UnknownTopicOrPartition;
            return Err(Next::Refused(error, format!("partition {tp} does not exist")));
        }
        if metadata.leader(tp).is_none() {
            let error = ErrorCode::LeaderNotAvailable;
            return Err(Next::Refused(error, format!("partition {tp} has no leader")));
        }
    }
    Ok(())
}

/// What has to be known of each partition.
pub(super) fn marks(goal: &Goal) -> &'static [Mark] {
    match goal {
        Goal::All(_, Target::Earliest) => &[Mark::Start],
        Goal::All(_, Target::Latest | Target::Current) => &[Mark::End],
        Goal::All(_, Target::Ago { .. } | Target::Since { .. }) => &[Mark::Since, Mark::End],
        Goal::All(_, Target::Offset(_) | Target::Shift(_)) | Goal::Each(_) => &[Mark::Start, Mark::End],
    }
}

/// Where the partition is to be read from; all marks are known.
pub(super) fn reset(
    tp: TopicPartition,
    goal: &Goal,
    committed: &BTreeMap<TopicPartition, Offset>,
    known: &BTreeMap<(Mark, TopicPartition), Offset>,
) -> Result<OffsetReset, Next> {
    let mark = |mark| known.get(&(mark, tp.clone())).copied().unwrap_or(Offset::UNKNOWN);
    let within = |asked: Offset| {
        let to = asked.min(mark(Mark::End)).max(mark(Mark::Start));
        (to, if to == asked { ResetNote::AsAsked } else { ResetNote::Clamped(asked) })
    };
    let (to, note) = match goal {
        Goal::Each(offsets) => within(Offset(offsets[&tp])),
        Goal::All(_, Target::Offset(asked)) => within(Offset(*asked)),
        Goal::All(_, Target::Shift(by)) => match committed.get(&tp) {
            Some(Offset(from)) => within(Offset(from.saturating_add(*by))),
            None => {
                let why = format!("nothing is committed for {tp} that could be shifted");
                return Err(Next::Refused(ErrorCode::InvalidRequest, why));
            }
        },
        Goal::All(_, Target::Earliest) => (mark(Mark::Start), ResetNote::AsAsked),
        Goal::All(_, Target::Latest) => (mark(Mark::End), ResetNote::AsAsked),
        Goal::All(_, Target::Current) => match committed.get(&tp) {
            Some(offset) => (*offset, ResetNote::AsAsked),
            None => (mark(Mark::End), ResetNote::End),
        },
        Goal::All(_, Target::Ago { .. } | Target::Since { .. }) => match mark(Mark::Since) {
            Offset::UNKNOWN => (mark(Mark::End), ResetNote::End),
            first => (first, ResetNote::AsAsked),
        },
    };
    Ok(OffsetReset { tp, to, note })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::Topic;

    fn tp() -> TopicPartition {
        TopicPartition::new(&Topic::new("orders"), 0)
    }

    /// A log of the offsets 10 to 49, of which 20 is the first that is new enough; 30 is committed, or nothing.
    fn planned(goal: Goal, committed: bool) -> Result<(i64, ResetNote), String> {
        let marks = [(Mark::Start, 10), (Mark::End, 50), (Mark::Since, 20)];
        let known = marks.map(|(mark, offset)| ((mark, tp()), Offset(offset))).into();
        let committed = committed.then(|| (tp(), Offset(30))).into_iter().collect();
        match reset(tp(), &goal, &committed, &known) {
            Ok(reset) => Ok((reset.to.0, reset.note)),
            Err(Next::Refused(_, why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn offsets_are_kept_within_the_log_and_the_rest_is_as_asked_r_cli_10() {
        let all = |target| Goal::All(Scope::AllTopics, target);
        let check = |target, committed, expected| {
            assert_eq!(planned(all(target), committed), Ok(expected), "{target:?}");
        };
        check(Target::Earliest, true, (10, ResetNote::AsAsked));
        check(Target::Latest, true, (50, ResetNote::AsAsked));
        check(Target::Current, true, (30, ResetNote::AsAsked));
        check(Target::Current, false, (50, ResetNote::End));
        check(Target::Offset(40), true, (40, ResetNote::AsAsked));
        check(Target::Offset(51), true, (50, ResetNote::Clamped(Offset(51))));
        check(Target::Offset(-1), true, (10, ResetNote::Clamped(Offset(-1))));
        check(Target::Shift(5), true, (35, ResetNote::AsAsked));
        check(Target::Shift(21), true, (50, ResetNote::Clamped(Offset(51))));
        check(Target::Shift(-21), true, (10, ResetNote::Clamped(Offset(9))));
        check(Target::Shift(i64::MAX), true, (50, ResetNote::Clamped(Offset(i64::MAX))));
        check(Target::Ago { ms: 1 }, true, (20, ResetNote::AsAsked));
        let each = Goal::Each([(tp(), 70)].into());
        assert_eq!(planned(each, true), Ok((50, ResetNote::Clamped(Offset(70)))));
        let shifted = planned(all(Target::Shift(1)), false);
        assert_eq!(shifted, Err("nothing is committed for orders-0 that could be shifted".to_owned()));
    }

    #[test]
    fn without_a_record_that_is_new_enough_the_end_is_taken_r_cli_10() {
        let known = [((Mark::Since, tp()), Offset::UNKNOWN), ((Mark::End, tp()), Offset(50))].into();
        let goal = Goal::All(Scope::AllTopics, Target::Since { wall_ms: 0 });
        let planned = reset(tp(), &goal, &BTreeMap::new(), &known).map_err(|_| ()).expect("planned");
        assert_eq!((planned.to, planned.note), (Offset(50), ResetNote::End));
    }
}
