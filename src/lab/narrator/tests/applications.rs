//! The application that a client is embedded in.

use super::*;

fn halted(how: Halt, after: bool, record: Option<(TopicPartition, Offset)>) -> Event {
    let client = name("consumer-a");
    let (line, text) = if record.is_some() { (2, "process 20ms") } else { (3, "commit") };
    Event::Application(ApplicationEvent::Halted { client, how, line, text: text.into(), after, record })
}

#[test]
fn a_thread_that_was_stopped_is_told_with_its_line_and_its_record() {
    let client = || name("consumer-a");
    let program = "poll; commit; process 20ms".into();
    let told = vec![(tp(0), Some(Offset(40))), (tp(1), None)];
    let looked_up = ApplicationEvent::LookedUp { client: client(), call: "endOffsets()".into(), told };
    let looked_up = Event::Application(looked_up);
    check(
        &[
            (1, halted(Halt::Crash, false, Some((tp(0), Offset(7))))),
            (2, halted(Halt::Crash, true, None)),
            (3, halted(Halt::Freeze, false, None)),
            (4, halted(Halt::Hang, false, None)),
            (5, Event::Application(ApplicationEvent::Woken { client: client() })),
            (
                5,
                Event::Application(ApplicationEvent::CallThrew {
                    client: client(),
                    call: "send offsets".into(),
                    exception: "CommitFailedException".into(),
                    then: "aborts".into(),
                }),
            ),
            (6, Event::Application(ApplicationEvent::ProgramChanged { client: client(), program })),
            (7, Event::Application(ApplicationEvent::PaceSet { client: client(), us_per_record: 2_500_000 })),
            (8, looked_up),
        ],
        expect![[r#"
            00:00.001  consumer-a is killed before line 2, process 20ms (R-CONS-18, R-CONS-26)
                Bad: It has the record at offset 7 of orders-0 in hand. The line has had no effect; all above it has.
            00:00.002  consumer-a is killed behind line 3, commit (R-CONS-18, R-CONS-26)
                Bad: What the line does has been done; nothing behind it was.
            00:00.003  consumer-a stands still before line 3, commit (R-CONS-26)
                Warn: All threads of the process stop, the one that sends heartbeats too.
            00:00.004  consumer-a hangs before line 3, commit (R-CONS-24, R-CONS-25)
                Warn: The thread that sends heartbeats goes on: only max.poll.interval.ms notices.
            00:00.005  consumer-a: its program goes on
                Info
            00:00.005  consumer-a: send offsets threw CommitFailedException: it aborts (R-TXN-31)
                Bad: After an error that can be aborted it begins again with what is committed; after any other it closes its clients.
            00:00.006  consumer-a is given another program: poll; commit; process 20ms
                Info: It begins with it when it comes to its first line.
            00:00.007  consumer-a takes 2.5 s for each record from now on
                Info
            00:00.008  consumer-a: endOffsets() returns orders-0: 40, orders-1: nothing
                Info
        "#]],
    );
}

#[test]
fn a_callback_is_told_when_it_takes_time_or_throws() {
    let called = |method, took_ms, threw| {
        Event::Application(ApplicationEvent::CalledBack {
            client: name("consumer-a"),
            method,
            took_ms,
            threw,
        })
    };
    let thrown =
        ApplicationEvent::ListenerThrew { client: name("consumer-a"), method: "onPartitionsRevoked" };
    check(
        &[
            (1, called("onPartitionsRevoked", 0, false)),
            (2, called("onPartitionsAssigned", 2_500, false)),
            (3, called("onPartitionsRevoked", 0, true)),
            (3, Event::Application(thrown)),
        ],
        expect![[r#"
            00:00.002  consumer-a: onPartitionsAssigned returns after 2.5 s (R-CONS-7)
                Info: It ran inside poll() or close(): no record was handed over meanwhile, and only heartbeats went on.
            00:00.003  consumer-a: onPartitionsRevoked throws (R-CONS-7)
                Bad: The classic consumer does what it was about to do, and then the call throws; the newer one does not tell its coordinator that it has what it was given.
            00:00.003  consumer-a: poll() throws KafkaException: User rebalance callback throws an error (onPartitionsRevoked)
                Bad: Its application does not catch that: it closes the consumer.
        "#]],
    );
}
