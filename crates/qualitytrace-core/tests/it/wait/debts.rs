//! Each debt by itself: what is owed, what pays it, and how long the wait for it takes.

use super::script::play_all;

/// Checks how the run ends as the test's first one.
#[track_caller]
fn first(run: &str, expected: &str) {
    check(&[run], expected);
}

/// Checks how the last of these runs ends.
#[track_caller]
fn check(runs: &[&str], expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(play_all(runs), expected.join("\n"));
}

/// A gateway that calls a shop over HTTP; all spans arrive within 20 ms.
const SHOP: &str = "
    20 3<2 gateway/client/GET http.request.method=GET
    20 4<3 shop/server/GET
    20 2<1 gateway/server/GET";

#[test]
fn nothing_at_all_is_waited_for_until_the_time_is_up() {
    first(
        "",
        "60000 ms: gave up, no span has come in time; NoTrace
         no span below the trigger span 0000000000000001 has arrived: check that the system under test exports to this server (an exporter that ran before the server pauses for up to 2 min) and takes over the trace context of the request
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn a_final_verdict_waits_for_a_trace_one_settle_window_only() {
    first(
        "final",
        "5850 ms: ready, no further span can change the verdict; Judge
         no span below the trigger span 0000000000000001 has arrived: check that the system under test exports to this server (an exporter that ran before the server pauses for up to 2 min) and takes over the trace context of the request
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn a_first_run_settles() {
    first(
        SHOP,
        "5870 ms: ready, nothing more came for a settle window; Judge
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn a_known_run_is_complete_after_a_quiet_window() {
    check(&[SHOP, SHOP], "170 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn a_copy_of_a_span_prolongs_nothing() {
    check(
        &[SHOP, &format!("{SHOP}\n 100 2<1 gateway/server/GET")],
        "170 ms: ready, the trace owes nothing more; Judge",
    );
}

#[test]
fn a_final_verdict_needs_no_first_look() {
    first(
        &format!("{SHOP}\n final"),
        "170 ms: ready, no further span can change the verdict; Judge
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn a_missing_parent_makes_the_verdict_inconclusive() {
    check(
        &[SHOP, "10 2<1 gateway/server/GET\n 20 4<3 shop/server/GET"],
        "24000 ms: gave up, parents are missing and nothing more came for two settle windows; Inconclusive
         the parent 0000000000000003 of span `GET` (shop) has not arrived
         the client span `GET` (gateway) below `GET` of earlier runs has not arrived",
    );
}

#[test]
fn a_span_that_arrived_without_its_parent_is_not_called_missing() {
    let loops = |steps: &str| format!("20 3<2 gateway/internal/loop\n{steps}\n 20 2<1 gateway/server/GET");
    let (first, second) = ("20 4<3 gateway/internal/step", "20 6<5 gateway/internal/step");
    let two = loops(&format!("{first}\n 20 5<2 gateway/internal/loop\n{second}"));
    check(
        &[&two, &loops(""), &two, &loops(&format!("{first}\n{second}"))],
        "24000 ms: gave up, parents are missing and nothing more came for two settle windows; Inconclusive
         the parent 0000000000000005 of span `step` (gateway) has not arrived
         the internal span `loop` (gateway) below `GET` has arrived 1 times, and 2 times in earlier runs",
    );
}

#[test]
fn a_missing_parent_does_not_matter_to_a_final_verdict() {
    first(
        "10 2<1 gateway/server/GET\n 20 4<3 shop/server/GET\n final",
        "11720 ms: gave up, parents are missing and nothing more came for two settle windows; Judge
         the parent 0000000000000003 of span `GET` (shop) has not arrived
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn spans_that_hang_in_the_air_are_a_question_of_parents_and_not_of_the_time_out() {
    first(
        "20 4<3 shop/server/GET",
        "24000 ms: gave up, parents are missing and nothing more came for two settle windows; Inconclusive
         no span of the service that answered the request has arrived, only spans of shop that were called by it: check that it exports to this server, too, and that its exporter is not slower than the others
         the parent 0000000000000003 of span `GET` (shop) has not arrived
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn children_may_come_before_their_parents() {
    check(
        &[
            SHOP,
            "10 4<3 shop/server/GET\n 500 3<2 gateway/client/GET http.method=GET\n 3000 2<1 gateway/server/GET",
        ],
        "3150 ms: ready, the trace owes nothing more; Judge",
    );
}

#[test]
fn an_unanswered_call_settles_and_is_then_taken_as_a_leaf() {
    let outside = "10 3<2 gateway/client/GET http.url=http://bank/\n 20 2<1 gateway/server/GET";
    first(
        outside,
        "5870 ms: ready, nothing more came for a settle window; Inconclusive
         the call `GET` (gateway, span 0000000000000003) to http://bank/ has no answering span
         this test has no complete run yet that says which spans to expect",
    );
    check(
        &[outside, outside],
        "6020 ms: ready, nothing more came for a settle window; Inconclusive
         the call `GET` (gateway, span 0000000000000003) to http://bank/ has no answering span",
    );
    // Only a test that names a service that never sent anything cannot be decided.
    check(&[outside, outside, outside], "170 ms: ready, the trace owes nothing more; Inconclusive");
}

#[test]
fn a_call_that_used_to_be_answered_owes_an_answer() {
    check(
        &[SHOP, "20 3<2 gateway/client/GET http.request.method=GET\n 20 2<1 gateway/server/GET"],
        "60000 ms: gave up, the time is up; Inconclusive
         the call `GET` (gateway, span 0000000000000003) has no answering span
         the server span `GET` (shop) below `GET` of earlier runs has not arrived",
    );
}

#[test]
fn a_span_inside_the_caller_answers_nothing() {
    first(
        "10 3<2 gateway/client/GET http.request.method=GET
         10 5<3 gateway/internal/dns
         20 2<1 gateway/server/GET",
        "5870 ms: ready, nothing more came for a settle window; Inconclusive
         the call `GET` (gateway, span 0000000000000003) has no answering span
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn a_link_answers_a_message() {
    let linked = "10 3<2 gateway/producer/orders messaging.system=kafka
                  10 2<1 gateway/server/POST
                  30 4<1 worker/consumer/orders >3";
    first(
        linked,
        "5880 ms: ready, nothing more came for a settle window; Inconclusive
         this test has no complete run yet that says which spans to expect",
    );
}

#[test]
fn every_subscriber_of_a_message_is_waited_for() {
    let two = "10 3<2 gateway/producer/orders messaging.system=kafka
               10 2<1 gateway/server/POST
               30 4<3 worker/consumer/orders
               2000 5<3 mailer/consumer/orders";
    check(&[two, two], "2150 ms: ready, the trace owes nothing more; Judge");
}

/// Whether a call with these attributes owes an answer.
#[track_caller]
fn owes(kind: &str, attributes: &str, owes: bool) {
    let run = format!("10 3<2 gateway/{kind}/call {attributes}\n 10 2<1 gateway/server/GET");
    assert_eq!(play_all(&[&run]).contains("has no answering span"), owes, "{kind} {attributes}");
}

#[test]
fn calls_owe_an_answer_unless_they_go_to_storage() {
    for attributes in [
        "http.method=GET",
        "http.request.method=GET url.full=http://shop",
        "rpc.system=grpc",
        "rpc.system.name=grpc",
        "messaging.system=rabbitmq messaging.operation=publish",
        "messaging.system=kafka messaging.operation.type=send",
        "rpc.system=aws-api messaging.system=aws_sqs",
        "faas.invoked_name=f rpc.system=aws-api",
        "peer.service=shop",
        "http.request.method=GET cache.hit=false",
        "http.method=GET file.name=invoice.pdf db.tenant=a",
        "rpc.system=grpc cache.hit=false",
        "mcp.method.name=tools/call gen_ai.tool.name=pay",
        "mcp.method.name=tools/call gen_ai.tool.name=search gen_ai.operation.name=execute_tool",
        "rpc.system=jsonrpc gen_ai.tool.name=search",
        "",
    ] {
        owes("client", attributes, true);
    }
    for attributes in [
        "db.system=postgresql",
        "db.system.name=postgresql",
        "db.system=elasticsearch http.request.method=GET",
        "db.system=redis net.peer.name=cache",
        "rpc.system=aws-api aws.s3.bucket=b",
        "rpc.system=aws-api",
        "file.path=/tmp/x",
        "cache.key=a",
        "db.statement=SELECT",
        "gen_ai.system=openai",
        "messaging.system=kafka messaging.operation=receive",
        "messaging.system=kafka messaging.operation.type=settle",
    ] {
        owes("client", attributes, false);
    }
    owes("producer", "", true);
    owes("internal", "http.method=GET", false);
    owes("server", "http.method=GET", false);
}

#[test]
fn an_undecided_spec_settles() {
    check(
        &[SHOP, &format!("{SHOP}\n undecided payment")],
        "6020 ms: ready, nothing more came for a settle window; Judge
         spec `payment` cannot be decided with the spans that are here",
    );
}

#[test]
fn a_span_after_the_answer_is_waited_for_once_it_is_known() {
    let tail = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    check(&[&tail, &tail], "3150 ms: ready, the trace owes nothing more; Judge");
    check(
        &[&tail, SHOP],
        "8245 ms: ready, nothing more came for a settle window; Judge
         the internal span `mail` (gateway) below `GET` of earlier runs has not arrived",
    );
}

#[test]
fn a_final_failure_is_not_held_up_by_what_earlier_runs_had() {
    let tail = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    check(
        &[&tail, &tail, &format!("{SHOP}\n final")],
        "170 ms: ready, no further span can change the verdict; Judge
         the internal span `mail` (gateway) below `GET` of earlier runs has not arrived",
    );
    // Its late spans are expected: the quiet window of the next run is not longer.
    let late = format!("{tail}\n final");
    check(&[&tail, &tail, &late, &tail], "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn a_span_that_two_runs_lack_is_no_longer_expected() {
    let tail = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    check(&[&tail, SHOP, SHOP, SHOP], "170 ms: ready, the trace owes nothing more; Judge");
    check(&[&tail, SHOP, &tail, &tail, &tail], "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn runs_that_failed_teach_nothing() {
    let error = "20 2<1 gateway/server/GET\n failed";
    check(
        &[error, SHOP],
        "5870 ms: ready, nothing more came for a settle window; Judge
         this test has no complete run yet that says which spans to expect",
    );
    let tail = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    check(&[&tail, error, error, error, &tail], "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn a_late_span_is_expected_from_then_on_and_doubles_the_quiet_window() {
    let late = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    check(&[SHOP, &late], "170 ms: ready, the trace owes nothing more; Judge");
    check(&[SHOP, &late, &late], "3300 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn the_quiet_window_is_forgiven_after_twenty_clean_runs() {
    let late = format!("{SHOP}\n 3000 5<2 gateway/internal/mail");
    let mut runs = vec![SHOP, &late];
    runs.extend([late.as_str(); 20]);
    check(&runs, "3300 ms: ready, the trace owes nothing more; Judge");
    runs.push(&late);
    check(&runs, "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn names_with_numbers_are_one_kind() {
    let run = |number: u32| format!("{SHOP}\n 3000 5<2 gateway/internal/mail-{number}");
    check(&[&run(1), &run(2)], "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn more_calls_than_usual_owe_more_tails() {
    let calls = |tails: &str| {
        format!(
            "20 3<2 gateway/client/GET http.method=GET
             20 4<3 shop/server/GET
             20 5<2 gateway/client/GET http.method=GET
             20 6<5 shop/server/GET
             20 2<1 gateway/server/GET
             {tails}"
        )
    };
    let one = format!("{SHOP}\n 500 9<4 shop/internal/audit");
    let two = calls("500 9<4 shop/internal/audit\n 3000 10<6 shop/internal/audit");
    check(&[&one, &two], "3150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn spans_that_never_stop_coming_are_inconclusive() {
    let trickle: Vec<String> =
        (0..700).map(|at| format!("{} {}<2 gateway/internal/tick", 20 + at * 100, 10 + at)).collect();
    check(
        &[SHOP, &format!("{SHOP}\n{}", trickle.join("\n"))],
        "60000 ms: gave up, the time is up; Inconclusive
         spans are still arriving",
    );
}

#[test]
fn a_trace_that_was_there_before_is_complete_by_its_root() {
    let trace = "attached\n 0 3<2 shop/server/GET\n 0 2<0 browser/client/click http.method=GET";
    check(&[trace, trace], "150 ms: ready, the trace owes nothing more; Judge");
}

#[test]
fn a_caller_without_spans_is_accepted_when_it_is_the_only_parent_missing() {
    let trace =
        "attached\n 0 3<2 shop/server/GET\n 0 4<3 shop/client/GET http.method=GET\n 0 5<4 bank/server/GET";
    first(
        trace,
        "11700 ms: ready, nothing more came for a settle window; Judge
         the caller's own span 0000000000000002 has not arrived
         this test has no complete run yet that says which spans to expect",
    );
    let later = "attached\n 10 5<4 bank/server/GET\n 400 3<2 shop/server/GET\n 400 4<3 shop/client/GET http.method=GET";
    check(&[trace, later], "550 ms: ready, the trace owes nothing more; Judge");
}
