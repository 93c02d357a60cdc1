//! Consumer groups as an administrator asks of them.

use super::group::about;
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{
    DescribedGroup, DescribedMember, Event, GroupPosition, GroupsTold, ListedGroup, OffsetReset, ResetNote,
    SharePosition,
};
use crate::kafka::time::Time;
use crate::kafka::types::{GroupId, Offset};
use crate::lab::words::{count, list};

/// What an administrator asked for.
pub(super) fn tell(time: Time, event: &Event) -> Option<Sentence> {
    let Event::GroupsTold { told } = event else { return None };
    Some(match told {
        GroupsTold::List(groups) => {
            let title = match groups.len() {
                0 => "there is no group".to_owned(),
                number => format!("{}:", count(number as i64, "group")),
            };
            let lines: Vec<String> = groups.iter().map(listed).collect();
            let title = format!("{title} {}", lines.join("; "));
            let sentence = Sentence::new(time, Tone::Info, Subject::Cluster, title.trim_end().to_owned());
            sentence.detail("Each broker tells of the groups that it coordinates.").rules(&["R-CLI-4"])
        }
        GroupsTold::Group(described) => described_group(time, described),
        GroupsTold::Offsets { group, positions } => positions_of(time, group, positions),
        GroupsTold::ShareOffsets { group, positions } => share_positions_of(time, group, positions),
        GroupsTold::ShareOffsetsForgotten { group, topics } => {
            let title = format!("{group}: what is done of {} is forgotten", list(topics));
            about(time, Tone::Warn, group, title)
                .detail("Who joins the group begins where share.auto.offset.reset says.")
                .rules(&["R-SHARE-4", "R-SHARE-15"])
        }
        GroupsTold::Reset { group, offsets, executed, is_shared } => {
            reset(time, group, offsets, (*executed, *is_shared))
        }
    })
}

fn listed(group: &ListedGroup) -> String {
    let ListedGroup { group, state, kind, protocol_type } = group;
    let of = if protocol_type.is_empty() { ", for offsets only" } else { "" };
    format!("{group} ({kind}, {state}{of})")
}

fn described_group(time: Time, described: &DescribedGroup) -> Sentence {
    let DescribedGroup { group, coordinator, state, protocol, epochs, members } = described;
    let with = if protocol.is_empty() { String::new() } else { format!(" with {protocol}") };
    let title = format!(
        "{group}: {state}{with}, {}, coordinated by broker {coordinator}",
        count(members.len() as i64, "member")
    );
    let member = |member: &DescribedMember| {
        let DescribedMember { member, instance_id, client, host, owned, target } = member;
        let instance = instance_id.as_ref().map(|id| format!(" (static, {id})")).unwrap_or_default();
        let owns = match target {
            None => format!("owns {}", list(owned)),
            Some((epoch, target)) if target == owned => format!("owns {} in epoch {epoch}", list(owned)),
            Some((epoch, target)) => {
                format!("owns {} in epoch {epoch}, while its target is {}", list(owned), list(target))
            }
        };
        format!("{client}{instance} at {host} is {member} and {owns}")
    };
    let who = match members.is_empty() {
        true => "Nobody is in it.".to_owned(),
        false => members.iter().map(member).collect::<Vec<_>>().join("; ") + ".",
    };
    let detail = match epochs {
        None => who,
        Some((group, target)) => {
            format!("The group is in epoch {group}, its target assignment of epoch {target}. {who}")
        }
    };
    about(time, Tone::Info, group, title).detail(detail).rules(&["R-CLI-6", "R-CLI-7"])
}

fn positions_of(time: Time, group: &GroupId, positions: &[GroupPosition]) -> Sentence {
    if positions.is_empty() {
        let title = format!("{group}: it has committed nothing and reads nothing");
        return about(time, Tone::Info, group, title).rules(&["R-CLI-5"]);
    }
    let lag: i64 = positions.iter().filter_map(GroupPosition::lag).sum();
    let title =
        format!("{group}: {} behind in {}", count(lag, "offset"), count(positions.len() as i64, "partition"));
    let known = |offset: Option<Offset>| offset.map_or("-".to_owned(), |offset| offset.to_string());
    let one = |position: &GroupPosition| {
        let GroupPosition { tp, committed, end, client } = position;
        let by = client.as_ref().map(|client| format!(", read by {client}")).unwrap_or_default();
        format!("{tp}: {} of {}{by}", known(*committed), known(*end))
    };
    let each: Vec<String> = positions.iter().map(one).collect();
    about(time, Tone::Info, group, title)
        .detail(format!("Committed, of what the partition's high watermark is. {}.", each.join("; ")))
        .rules(&["R-CLI-5", "R-OBS-4"])
}

fn share_positions_of(time: Time, group: &GroupId, positions: &[SharePosition]) -> Sentence {
    if positions.is_empty() {
        let title = format!("{group}: it shares no partition");
        return about(time, Tone::Info, group, title).rules(&["R-SHARE-3"]);
    }
    let lag: i64 = positions.iter().filter_map(|position| position.lag).sum();
    let title = format!(
        "{group}: {} to be done in {}",
        count(lag, "record"),
        count(positions.len() as i64, "partition")
    );
    let one = |position: &SharePosition| {
        let SharePosition { tp, start, lag } = position;
        match (start, lag) {
            (None, _) => format!("{tp}: nobody has read it yet"),
            (Some(start), None) => format!("{tp}: from {start} on"),
            (Some(start), Some(lag)) => format!("{tp}: {lag} from {start} on"),
        }
    };
    let each: Vec<String> = positions.iter().map(one).collect();
    about(time, Tone::Info, group, title)
        .detail(format!("As it was persisted last, up to the high watermark. {}.", each.join("; ")))
        .rules(&["R-SHARE-3", "R-SHARE-11"])
}

fn reset(
    time: Time,
    group: &GroupId,
    offsets: &[OffsetReset],
    (executed, is_shared): (bool, bool),
) -> Sentence {
    let one = |reset: &OffsetReset| match reset.note {
        ResetNote::AsAsked => format!("{} {}", reset.tp, reset.to),
        ResetNote::Clamped(asked) => format!("{} {} ({asked} lies outside its log)", reset.tp, reset.to),
        ResetNote::End => format!("{} {} (its end)", reset.tp, reset.to),
    };
    let offsets = list(offsets.iter().map(one));
    if executed {
        let what = if is_shared { "starts anew" } else { "committed offsets reset" };
        let title = format!("{group}: {what}: {offsets}");
        return about(time, Tone::Warn, group, title)
            .detail("Who joins the group begins there.")
            .rules(&["R-CLI-9", "R-CLI-10"]);
    }
    let what = if is_shared { "start it at" } else { "commit" };
    let title = format!("{group}: a reset would {what}: {offsets}");
    about(time, Tone::Info, group, title)
        .detail("Nothing is changed by the plan.")
        .rules(&["R-CLI-9", "R-CLI-10"])
}
