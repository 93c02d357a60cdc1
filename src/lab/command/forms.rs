//! Every form that a command has, with an example and what it does: the parser's verbs and the page's help.

/// One form of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub example: &'static str,
    /// Goes on after the example, without a full stop.
    pub what: &'static str,
}

const fn form(example: &'static str, what: &'static str) -> Form {
    Form { example, what }
}

/// All forms, in the order in which a person is shown them.
pub const FORMS: &[Form] = &[
    form("kill broker 2", "ends a process at once and resets its connections"),
    form("stop broker 2", "lets it give its leaderships away before it ends"),
    form("stop controller 101", "lets it give its place to another one before it ends"),
    form("start broker 2", "starts a dead one again with the data it had"),
    form("freeze broker 2", "lets it stand still, with its connections open"),
    form("thaw broker 2", "lets it go on where it stood"),
    form("cut power of broker 2", "ends it, tells nobody, and loses what it had not flushed"),
    form("wipe disk of broker 2", "leaves a dead broker without any data"),
    form("cut broker 2 from controller 101", "holds back, without a sign, all that the two send each other"),
    form("heal broker 2 from controller 101", "ends such a cut"),
    form("slow broker 2 to broker 3 by 200ms", "lets packets between the two take longer; 0ms ends it"),
    form(
        "set clock of broker 2 ahead by 5min",
        "puts the clock wrong that timestamps and retention go by; also behind by",
    ),
    form("set clock of broker 2 right", "puts it right again"),
    form("add broker 4 rack d", "lets a new broker join; the rack may be left out"),
    form(
        "add producer checkout to orders rate 12/s keys \"cart-{0..7}\" acks=all",
        "starts a producer; what is left out is as another producer has it",
    ),
    form(
        "add producer clicks to orders rate 100/s keys none value \"{n} {random 40}\" value-size 100",
        "starts one whose records have no key, some of them none with \"k-{0..7} or none\"; partition 2 behind the keys names the partition of all its records",
    ),
    form(
        "add consumer consumer-c to billing topics orders program \"poll; process 20ms; commit\"",
        "starts a member of a group; what is left out is as the other members have it",
    ),
    form(
        "add consumer reader to audit partitions orders-0,orders-1 program poll",
        "starts one that reads these partitions itself; without group instead of to audit it commits nothing",
    ),
    form(
        "add consumer pool to audit topics orders program \"poll; hand off 20ms to 4 workers; commit done\"",
        "starts one whose workers process while it polls; profile java-hand-off says so too, without the commit",
    ),
    form(
        "add consumer c-client to audit topics orders program \"poll; process 20ms\" client.library=librdkafka",
        "starts one that behaves as librdkafka does; profile librdkafka says so too",
    ),
    form(
        "add application pricing to billing topics orders output prices program \"poll; begin; process 5ms; send \
         results; send offsets; commit transaction\" transactional.id=pricing-1",
        "starts one that consumes, processes and produces, with two clients in one process",
    ),
    form(
        "add share consumer s-1 to payments topics orders program \"poll; process 20ms\"",
        "starts a member of a share group, whose members read the same partitions record by record",
    ),
    form(
        "add share consumer s-2 to payments topics orders program \"poll; process 20ms; release 10%; accept\" \
         share.acknowledgement.mode=explicit",
        "starts one that says of each record what became of it: accept, release, reject or renew",
    ),
    form(
        "add producer bank to orders rate 10/s keys \"cart-{0..7}\" transaction every 10 records abort 10% \
         transactional.id=bank-1",
        "starts one with transactions; with a transactional.id and no pace a person begins and ends them",
    ),
    form("begin transaction of bank", "has a producer begin a transaction"),
    form(
        "send offsets of group billing in transaction of bank orders-0=40",
        "has it commit offsets of a group with its transaction; also `as member m-1 generation 5` after the group, else nobody is asked whether it is one",
    ),
    form("commit transaction of bank", "has it commit its transaction"),
    form("abort transaction of bank", "has it abort its transaction"),
    form("pause checkout", "lets a producer send nothing more"),
    form("resume checkout", "lets it send again"),
    form("flush checkout", "has it send at once what lingers and wait for the outcome of all it has sent"),
    form("close checkout within 5s", "has it end in this time, and give up what has no outcome then"),
    form("subscribe consumer-c to orders,payments", "lets a consumer read these topics instead"),
    form(
        "subscribe consumer-c to pattern \"audit-.*\"",
        "lets it read whatever topics match; with re2j instead of pattern the coordinator looks for them",
    ),
    form("unsubscribe consumer-c", "lets it leave its group and read nothing"),
    form("assign consumer-c orders-0,orders-1", "lets it read these partitions, in no group"),
    form("pause consumer-c orders-0", "lets it keep a partition and read nothing of it"),
    form("resume consumer-c orders-0", "lets it read on"),
    form(
        "seek consumer-c orders-0 to 5",
        "moves its position; what is committed stays until the next commit",
    ),
    form("seek consumer-c orders-0 to beginning", "moves it to where the log begins; also to end"),
    form("look consumer-c for end of orders-0,orders-1", "has it call endOffsets(); also beginning"),
    form("look consumer-c for records of orders-0 since 10min", "has it call offsetsForTimes()"),
    form("look consumer-c for lag of orders-0", "has it call currentLag(); also position"),
    form("commit consumer-c", "has it commit its positions and wait for the answer"),
    form("commit consumer-c async", "has it commit without waiting, and without another try"),
    form("commit consumer-c orders-0=7", "has it commit an offset of your choice; also async"),
    form("close consumer-c", "lets a client say goodbye and end"),
    form("close consumer-c within 5s", "does so in at most this time"),
    form("close consumer-c leaving group", "lets a static member leave its group for good, as others do"),
    form("close consumer-c remaining in group", "lets it end without leaving its group"),
    form("crash consumer-c", "ends a client without a word"),
    form(
        "crash consumer-c at commit",
        "does so when its program comes to such a line; `after` for behind it",
    ),
    form(
        "crash consumer-c at line 2 passage 3",
        "does so at a line by its number, the third time it comes there",
    ),
    form("crash consumer-c at process record orders-0 offset 7", "does so with this record in hand"),
    form(
        "freeze consumer-c at commit",
        "lets the whole process stand still there until it is thawed, as a pause of its garbage collector does",
    ),
    form("hang consumer-c at process for 6min", "lets its program alone stick there; heartbeats go on"),
    form("wake consumer-c", "lets a program that hangs go on"),
    form(
        "set program of consumer-c to \"poll; commit; process 20ms\"",
        "gives it other lines, from its next loop on",
    ),
    form(
        "set program of consumer-c to \"poll; process 20ms; on revoked commit; on lost wait 2000ms\"",
        "says too what it does when partitions are taken from it, are lost or assigned (`on assigned`): commit, commit async, commit done, wait or throw, inside its poll()",
    ),
    form("set pace of consumer-c to 500ms", "makes it take so long for each record"),
    form(
        "create topic audit partitions 3 replication-factor 3 min.insync.replicas=2",
        "creates a topic, with as many configs as you like",
    ),
    form("add partitions to audit up to 6", "adds partitions to those there are"),
    form("delete topic audit", "deletes a topic with its records"),
    form("delete records of orders-0 before 40", "lets a partition's log begin there"),
    form("delete records of orders-0", "deletes all that is committed"),
    form(
        "elect preferred leader orders-0",
        "makes the first of a partition's replicas lead, if it is in sync",
    ),
    form("elect preferred leaders", "does so for every partition"),
    form("elect unclean leader orders-0", "makes a live replica lead that may lack records, if no other can"),
    form("elect unclean leaders", "does so for every partition"),
    form(
        "reassign orders-0 to 3,1,2",
        "moves a partition to these brokers, the first of them preferred as leader",
    ),
    form("cancel reassignment orders-0", "takes such a move back while it is under way"),
    form("set topic orders min.insync.replicas=1", "gives a topic a config"),
    form("set broker 2 message.max.bytes=100000", "gives a running broker a config"),
    form("set cluster min.insync.replicas=2", "gives all brokers a default"),
    form("set group payments share.auto.offset.reset=earliest", "gives a group a config"),
    form(
        "upgrade feature transaction.version=2",
        "raises the level of a feature in the whole cluster; who has a connection hears of it with the next one",
    ),
    form("downgrade feature transaction.version=1", "lowers it"),
    form(
        "unset topic orders min.insync.replicas",
        "takes a config away again; also of a broker, a group or the cluster",
    ),
    form("describe topic orders", "tells which configs a topic was given"),
    form("describe broker 2", "tells which configs a broker was given"),
    form("describe cluster", "tells which defaults all brokers were given"),
    form(
        "describe group billing",
        "tells who is in a group and what each reads, its state and its coordinator",
    ),
    form("describe offsets of group billing", "tells what a group has committed and how far it is behind"),
    form("describe all groups", "tells so of every group"),
    form("describe offsets of all groups", "tells so of every group"),
    form("describe configs of group billing", "tells which configs a group was given"),
    form("list groups", "tells which groups there are"),
    form("list groups type consumer state Empty,Stable", "tells of those; either may be left out"),
    form("delete group billing", "deletes a group without members, with its offsets"),
    form("delete all groups", "deletes every group that has no members"),
    form(
        "delete offsets of group billing topic orders",
        "lets a group forget its offsets of a topic nobody in it reads",
    ),
    form(
        "plan offsets of group billing topic orders to earliest",
        "tells where a reset would let a group begin; also `to latest`, `to current`, `to offset 40`",
    ),
    form(
        "reset offsets of group billing topic orders to earliest",
        "does so, while the group has no members",
    ),
    form(
        "reset offsets of group billing topic orders partitions 0,2 to latest",
        "does so for some partitions",
    ),
    form(
        "reset offsets of group billing all topics by -5",
        "moves all that the group has committed by so many",
    ),
    form("reset offsets of group billing topic orders to 10min ago", "begins at the first record since then"),
    form(
        "reset offsets of group billing topic orders to time 2026-01-01T00:00:30.000",
        "begins at the first record since that moment, in UTC",
    ),
    form(
        "reset offsets of group billing to orders-0=40 orders-1=7",
        "begins at an offset for each partition; also `from csv orders,0,40 orders,1,7`, as the tool writes a plan",
    ),
    form(
        "reset offsets of all groups all topics to current",
        "does such a thing for every group without members",
    ),
    form("list transactions", "tells of every transactional id in which state it is, and who coordinates it"),
    form(
        "list transactions longer than 10s matching \"bank-.*\"",
        "tells of those that began so long ago and have such a name; either may be left out",
    ),
    form("describe transaction bank-1", "tells how the transaction of such a transactional id stands"),
    form(
        "describe producers of orders-0",
        "tells who has written to a partition, and what is open there; also `on broker 2`, as its replica knows",
    ),
    form(
        "find hanging transactions of topic orders",
        "looks for open transactions that no coordinator is going to end; also `of orders-0`, `on broker 2`, `longer than 30min`",
    ),
    form(
        "find hanging transactions of broker 2",
        "looks for them in all partitions that the broker has replicas of, as those know",
    ),
    form(
        "abort transaction on orders-0 from offset 40",
        "ends the one that begins with this offset, in one partition and without its coordinator",
    ),
    form(
        "terminate transaction bank-1",
        "aborts what is open with such a transactional id and fences whoever used it, as a new instance would",
    ),
    form("ledger", "tells in numbers what became of all records"),
    form("ledger of orders", "tells so of a topic's records; `of partition orders-0` of a partition's"),
    form("story orders-0 17", "tells what became of the record at an offset, and which events made it so"),
    form("story checkout 40", "tells so of a producer's record by its number"),
    form("why isr orders-0", "tells why replicas are in sync or not, back to the command that made it so"),
    form("why high watermark orders-0", "tells why it stands where it does, and whom it waits for"),
    form("why leader orders-0", "tells why this broker leads a partition, or none"),
    form("why log start orders-0", "tells why a partition's log begins there"),
    form("why lag of billing orders-0", "tells why a group is as far behind as it is"),
    form("why committed of billing orders-0", "tells how a group came to have committed that"),
    form("why read twice orders-0 17", "tells why a record was read again; also a producer's by its number"),
    form("why lost orders-0 17", "tells why a record is not there any more, or was not read"),
    form("why owns nothing consumer-b", "tells why a member has no partitions"),
    form("why broker 2", "tells why a broker is in the state that it is in; also controller, client, group"),
    form("why event 12", "tells how a line of the narrative came about; `in full` tells every step"),
    form("why idle consumer-a", "tells what a client or a partition waits for, and for how long"),
    form("why idle group billing", "tells so of a group"),
    form(
        "describe features",
        "tells which levels of features are supported and which hold, as of which epoch",
    ),
    form("describe quorum", "tells how far each controller and broker is in the metadata log"),
];

/// The first words of all forms, some of them more than once.
pub(super) fn verbs() -> impl Iterator<Item = &'static str> {
    FORMS.iter().filter_map(|form| form.example.split(' ').next())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Written, parse, print};
    use super::*;

    #[test]
    fn each_example_is_a_command_in_its_one_form() {
        for form in FORMS {
            match parse(form.example) {
                Ok(Written::Whole(command)) => assert_eq!(print(&command), form.example),
                Ok(Written::Question(question)) => assert_eq!(question.to_string(), form.example),
                other => panic!("{} is read as {other:?}", form.example),
            }
        }
    }

    #[test]
    fn nothing_is_said_twice_and_each_sentence_goes_on_after_its_example() {
        let examples: BTreeSet<&str> = FORMS.iter().map(|form| form.example).collect();
        assert_eq!(examples.len(), FORMS.len());
        for Form { what, .. } in FORMS {
            assert!(what.starts_with(|first: char| first.is_lowercase()) && !what.ends_with('.'), "{what}");
        }
    }
}
