//! The validator, on real sinks and with real programs.

use std::{sync::Arc, time::Duration};

use redrive_core::{AttemptNumber, Cause, Class, Code, Failure, is_marked_terminal};
use redrive_engine::{
    CallLog, ExecHandler, ExtractionOutcome, Handler, MAX_ROW_BYTES, Outcome, RawSink, RowSchema,
    Stopper, ValidationHandler, ValidationOutcome, ValidationRequest, ValidationRules, Validator,
    handler_fn,
};
use redrive_store::{PartitionVerdict, Verdict};
use serde_json::json;

use crate::{
    program::Program,
    raw::{Sink, a_key, every_sink, run, seal},
};

fn judged() -> ValidationRequest {
    ValidationRequest {
        key: a_key(),
        run_id: run("r-1"),
        attempt: AttemptNumber(7),
        log: CallLog::default(),
    }
}

async fn verdict(
    sink: &RawSink,
    rules: ValidationRules,
    extraction: ExtractionOutcome,
) -> PartitionVerdict {
    let (_stopper, stop) = Stopper::new();
    match Validator::new(sink.clone(), rules).validate(&judged(), extraction, stop).await {
        ValidationOutcome::Verdict(verdict) => verdict,
        ValidationOutcome::Stopped => panic!("nobody told it to stop"),
    }
}

#[track_caller]
fn failure(verdict: PartitionVerdict) -> Failure {
    match verdict {
        PartitionVerdict::Rejected { failure } => failure,
        accepted => panic!("{accepted:?}"),
    }
}

/// Writes a payload to a sink of its own and has it judged.
async fn judge(payload: &[u8], rules: ValidationRules) -> PartitionVerdict {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), payload).await.unwrap();
    verdict(&sink, rules, ExtractionOutcome::Done).await
}

/// Has a payload judged, expects a rejection of that code whose message contains `why`.
async fn check(payload: &[u8], rules: ValidationRules, code: &str, why: &str) {
    let failure = failure(judge(payload, rules).await);
    assert_eq!(*failure.code(), Code::Name(code.to_owned()), "{failure:?}");
    assert_eq!(failure.cause(), Cause::Validator);
    assert_eq!(failure.class(), Class::Retryable);
    assert!(failure.message().as_str().contains(why), "{}", failure.message());
}

fn schema(text: &str) -> ValidationRules {
    ValidationRules {
        schema: Some(Arc::new(RowSchema::parse(text).unwrap())),
        ..ValidationRules::default()
    }
}

fn judged_by(handler: Arc<dyn Handler>) -> ValidationRules {
    ValidationRules { handler: Some(ValidationHandler::new(handler)), ..ValidationRules::default() }
}

// PAR-4
#[tokio::test]
async fn a_good_partition_is_accepted_wherever_it_is() {
    for Sink { sink, .. } in every_sink().await {
        seal(&sink, &a_key(), &run("r-1"), b"{\"a\":1}\n {\"a\":[2]} \r\n{}").await.unwrap();
        let accepted =
            PartitionVerdict::Accepted { record_count: 3, schema_version: Some("v3".to_owned()) };
        assert_eq!(
            verdict(&sink, ValidationRules::default(), ExtractionOutcome::Done).await,
            accepted
        );
    }
}

// PAR-4
#[tokio::test]
async fn every_line_must_be_a_json_object() {
    let deep = [b"{\"a\":".repeat(200), b"1".to_vec(), b"}".repeat(200)].concat();
    let hint = "(stdout is for rows, write messages to stderr)";
    let fetching = format!("line 2 is not a JSON object: \"fetching page 1 …\" {hint}");
    let long = format!("line 1 is not a JSON object: \"{}…\" {hint}", "x".repeat(200));
    let cases: [(&[u8], &str); 20] = [
        ("{}\nfetching page 1 …\n".as_bytes(), &fetching),
        (b"[INFO] fetching\n", "\"[INFO] fetching\" (stdout"),
        (b"2026-01-31 fetching\n", "\"2026-01-31 fetching\" (stdout"),
        (&b"x".repeat(1000), &long),
        (b"{}\n[1, 2]\n", "line 2 is not a JSON object: \"[1, 2]\" (stdout is for rows"),
        (b"42\n", "\"42\" (stdout"),
        (b"{'a': 1}\n", "\"{'a': 1}\" (stdout"),
        (b"{\"a\":1} trailing\n", ":1} trailing\" (stdout"),
        (b"{}\n{}\n7\n{}\n", "line 3 is not"),
        (b"null\n", "line 1 is not"),
        (b"\"{}\"\n", "line 1 is not"),
        (b"{\"a\":1\n", "line 1 is not a JSON object: EOF while parsing an object (column 6)"),
        (b"{} {}\n", "line 1 is not a JSON object: trailing characters (column 4)"),
        (b"{}\n\n{}\n", "line 2 is empty"),
        (b"{}\n \t\r\n", "line 2 is empty"),
        (b"{'a':1}\n", "line 1 is not"),
        (b"{\"a\":NaN}\n", "line 1 is not"),
        (b"{\"a\":\"\xff\"}\n", "line 1 is not"),
        (b"\xef\xbb\xbf{}\n", "line 1 is not"),
        (&deep, "recursion limit exceeded"),
    ];
    for (payload, why) in cases {
        check(payload, ValidationRules::default(), "bad_row", why).await;
        check(payload, schema("{}"), "bad_row", why).await;
    }
}

// PAR-4
#[tokio::test]
async fn a_row_has_a_limit() {
    let row = |bytes: usize| [b"{\"a\":\"", &b"x".repeat(bytes - 8)[..], b"\"}"].concat();
    for (payload, good) in [
        (row(MAX_ROW_BYTES), true),
        (row(MAX_ROW_BYTES + 1), false),
        (b"x".repeat(MAX_ROW_BYTES * 2), false),
    ] {
        let payload = [b"{}\n", &payload[..]].concat();
        if good {
            let verdict = judge(&payload, ValidationRules::default()).await;
            assert!(matches!(verdict, PartitionVerdict::Accepted { record_count: 2, .. }));
        } else {
            check(
                &payload,
                ValidationRules::default(),
                "bad_row",
                "line 2 is longer than 16777216",
            )
            .await;
        }
    }
}

// PAR-4
#[tokio::test]
async fn a_source_may_ask_for_a_number_of_rows() {
    let between =
        || ValidationRules { min_rows: Some(2), max_rows: Some(3), ..ValidationRules::default() };
    check(b"", between(), "too_few_rows", "0 rows, the minimum is 2").await;
    check(b"{}\n", between(), "too_few_rows", "1 rows").await;
    check(&b"{}\n".repeat(4), between(), "too_many_rows", "4 rows, the maximum is 3").await;
    for rows in [2, 3] {
        let verdict = judge(&b"{}\n".repeat(rows), between()).await;
        assert!(matches!(verdict, PartitionVerdict::Accepted { .. }), "{verdict:?}");
    }
    let empty = judge(b"", ValidationRules::default()).await;
    assert!(matches!(empty, PartitionVerdict::Accepted { record_count: 0, .. }), "{empty:?}");
}

// PAR-4
#[tokio::test]
async fn a_source_may_ask_for_a_schema() {
    let rules = || {
        schema(
            r#"{"required": ["clicks"], "properties": {"clicks": {"type": "integer", "minimum": 0}}}"#,
        )
    };
    let good = judge(b"{\"clicks\":1}\n{\"clicks\":2,\"more\":true}\n", rules()).await;
    assert!(matches!(good, PartitionVerdict::Accepted { record_count: 2, .. }), "{good:?}");
    check(b"{\"clicks\":1}\n{}\n", rules(), "schema", "line 2: the row: \"clicks\" is a required")
        .await;
    let secret = b"{\"clicks\":\"my secret\"}\n{}\n";
    check(secret, rules(), "schema", "line 1: /clicks: value is not of type \"integer\"").await;
    let message = failure(judge(secret, rules()).await).message().to_string();
    assert!(!message.contains("secret"), "rows are not for logs: {message}");
}

// PAR-4
#[tokio::test]
async fn a_schema_may_ask_for_a_format() {
    let rules =
        |format: &str| schema(&format!(r#"{{"properties": {{"a": {{"format": "{format}"}}}}}}"#));
    for (format, good, bad) in [
        ("date", "2026-01-31", "2026-02-31"),
        ("date-time", "2026-01-31T00:00:00Z", "yesterday"),
        ("email", "ada@example.com", "ada"),
        ("uuid", "0195a1b2-0000-7000-8000-000000000000", "7"),
    ] {
        let row = |value: &str| format!("{{\"a\":\"{value}\"}}\n").into_bytes();
        let verdict = judge(&row(good), rules(format)).await;
        assert!(matches!(verdict, PartitionVerdict::Accepted { .. }), "{format}: {verdict:?}");
        check(&row(bad), rules(format), "schema", &format!("/a: value is not a \"{format}\""))
            .await;
    }
    let numbers = schema(
        r#"{"properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": "number", "multipleOf": 0.5}}}"#,
    );
    let verdict = judge(b"{\"a\":100000000000000000001,\"b\":1e300}\n", numbers).await;
    assert!(matches!(verdict, PartitionVerdict::Accepted { .. }), "{verdict:?}");
    let verdict = judge(b"{\"a\":7}\n", rules("int64")).await;
    assert!(
        matches!(verdict, PartitionVerdict::Accepted { .. }),
        "no standard format: {verdict:?}"
    );
}

/// The order of the rules: what a partition is comes before what is asked of it.
// PAR-4
#[tokio::test]
async fn the_first_rule_that_is_broken_is_told() {
    let strict = || ValidationRules { min_rows: Some(9), ..schema(r#"{"required": ["a"]}"#) };
    check(b"{}\n[]\n", strict(), "bad_row", "line 2").await;
    check(b"{}\n{}\n", strict(), "too_few_rows", "2 rows").await;
    check(&b"{}\n".repeat(9), strict(), "schema", "line 1").await;

    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), b"{\"a\":1}\n").await.unwrap();
    let payload = sink.location(&a_key(), &run("r-1")).payload;
    std::fs::write(payload, b"[]\n[]\n").unwrap();
    let failure = failure(verdict(&sink, strict(), ExtractionOutcome::Done).await);
    assert_eq!(*failure.code(), Code::Name("hash_mismatch".to_owned()));
}

#[test]
fn a_schema_that_cannot_be_used_is_refused() {
    for (text, why) in [
        ("{", "EOF"),
        (r#"{"type": "objekt"}"#, "/type"),
        (r#"{"$ref": "https://example.com/row.json"}"#, "https://example.com/row.json"),
        (r#"{"$ref": "file:///etc/passwd"}"#, "file:///etc/passwd"),
        (r#"{"properties": {"a": {"pattern": "("}}}"#, "/properties/a/pattern"),
        ("7", "7"),
    ] {
        let refused = RowSchema::parse(text).unwrap_err().to_string();
        assert!(refused.contains("not a JSON Schema") && refused.contains(why), "{refused}");
    }
}

// PAR-4
#[tokio::test]
async fn an_extraction_that_left_nothing_is_judged_too() {
    for Sink { sink, name, .. } in every_sink().await {
        let none =
            failure(verdict(&sink, ValidationRules::default(), ExtractionOutcome::Done).await);
        assert_eq!(*none.code(), Code::Name("no_raw_partition".to_owned()), "{name}");
        assert!(none.message().as_str().starts_with("no raw partition"), "{name}: {none:?}");

        let quota = Failure::exit(65, "[terminal] the quota is spent");
        let failed = failure(
            verdict(&sink, ValidationRules::default(), ExtractionOutcome::Failed(quota)).await,
        );
        assert_eq!(failed.message().as_str(), "no raw partition: (terminal) the quota is spent");
        assert_eq!((failed.class(), failed.code()), (Class::Final, &Code::Number(65)));
        assert_eq!(failed.cause(), Cause::Handler);

        let silent = Failure::exit(1, "");
        let failed = failure(
            verdict(&sink, ValidationRules::default(), ExtractionOutcome::Failed(silent)).await,
        );
        assert_eq!(failed.message().as_str(), "no raw partition: 1");
    }
}

/// Also one that sealed before it failed: an extractor that fails has nothing to offer.
// PAR-4
#[tokio::test]
async fn what_a_failed_extraction_wrote_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    let failed = ExtractionOutcome::Failed(Failure::exit(1, "half of it"));
    failure(verdict(&sink, ValidationRules::default(), failed).await);
}

// PAR-4
#[tokio::test]
async fn a_lost_worker_is_judged_by_what_it_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    let lost = || ExtractionOutcome::Unknown(Failure::lost_worker("no word since 04:00"));
    let none = failure(verdict(&sink, ValidationRules::default(), lost()).await);
    assert_eq!(none.message().as_str(), "no raw partition: no word since 04:00");
    assert_eq!(none.cause(), Cause::LostWorker);

    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    let whole = verdict(&sink, ValidationRules::default(), lost()).await;
    assert!(matches!(whole, PartitionVerdict::Accepted { record_count: 1, .. }), "{whole:?}");
    let short = ValidationRules { min_rows: Some(2), ..ValidationRules::default() };
    let short = failure(verdict(&sink, short, lost()).await);
    assert_eq!(*short.code(), Code::Name("too_few_rows".to_owned()));
}

// PAR-11
#[tokio::test]
async fn damaged_raw_partitions_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    let location = sink.location(&a_key(), &run("r-1"));
    let metadata = std::fs::read_to_string(&location.metadata).unwrap();
    let code = async || {
        let failure =
            failure(verdict(&sink, ValidationRules::default(), ExtractionOutcome::Done).await);
        failure.code().to_string()
    };

    let counted = metadata.replace("\"record_count\": 1", "\"record_count\": 2");
    std::fs::write(&location.metadata, counted).unwrap();
    assert_eq!(code().await, "count_mismatch");
    std::fs::write(&location.metadata, "{}").unwrap();
    assert_eq!(code().await, "bad_metadata");
    std::fs::write(&location.metadata, metadata).unwrap();
    std::fs::write(&location.payload, "").unwrap();
    assert_eq!(code().await, "hash_mismatch");
    std::fs::remove_file(&location.payload).unwrap();
    assert_eq!(code().await, "no_raw_partition");
    std::fs::create_dir(&location.payload).unwrap();
    assert_eq!(code().await, "raw_unreadable");
}

/// A program reads the rows where they lie, and has the last word.
// PAR-4
#[tokio::test]
async fn a_users_program_has_the_last_word() {
    let judge_by = async |payload: &[u8]| {
        let script = r#"
            cat > call.json
            test -r "$REDRIVE_RAW_METADATA" || exit 66
            echo "$REDRIVE_SOURCE $REDRIVE_RUN_ID $REDRIVE_ATTEMPT $REDRIVE_RECORD_COUNT" > seen
            if grep -q bad "$REDRIVE_RAW_PAYLOAD"; then
                echo '{"error": {"code": "drift", "message": "[terminal] clicks fell by half"}}'
            fi"#;
        let program = Program::sh(script);
        let handler = ExecHandler::new(program.spec.clone()).unwrap();
        let verdict = judge(payload, judged_by(Arc::new(handler))).await;
        let read = |name: &str| std::fs::read_to_string(program.path(name)).unwrap();
        let call: serde_json::Value = serde_json::from_str(&read("call.json")).unwrap();
        assert_eq!(call["kind"], "partition");
        assert_eq!(call["unit"], "partition:ads/1234/daily/2026-01-31");
        assert_eq!(call["schema_version"], "v3");
        (verdict, read("seen"))
    };
    let (good, seen) = judge_by(b"{}\n{}\n").await;
    assert!(matches!(good, PartitionVerdict::Accepted { record_count: 2, .. }), "{good:?}");
    assert_eq!(seen, "ads r-1 7 2\n");

    let failure = failure(judge_by(b"{\"bad\":1}\n").await.0);
    assert_eq!(*failure.code(), Code::Name("drift".to_owned()));
    assert_eq!(failure.cause(), Cause::Validator);
    assert_eq!(failure.message().as_str(), "(terminal) clicks fell by half");
    assert!(!is_marked_terminal(Some(failure.message().as_str())));
}

// PAR-4
#[tokio::test]
async fn a_users_handler_is_asked_only_about_what_is_sound() {
    let never = handler_fn(|_| async { panic!("it must not be asked") });
    check(b"[]\n", judged_by(never), "bad_row", "line 1").await;
}

// PAR-4
#[tokio::test]
async fn other_verdicts_than_passed_reject() {
    for (given, accepted) in [
        (None, true),
        (Some(Verdict::Passed), true),
        (Some(Verdict::NeedsReview), false),
        (Some(Verdict::Failed), false),
    ] {
        let handler = handler_fn(move |_| async move {
            Outcome::Answered { value: Some(json!("why")), verdict: given }
        });
        match judge(b"{}\n", judged_by(handler)).await {
            PartitionVerdict::Accepted { .. } => assert!(accepted, "{given:?}"),
            PartitionVerdict::Rejected { failure } => {
                assert!(!accepted, "{given:?}");
                assert_eq!(*failure.code(), Code::Name("rejected".to_owned()));
                assert!(failure.message().as_str().contains("why"), "{}", failure.message());
            }
        }
    }
    let skip = handler_fn(|_| async { Outcome::Skipped("not mine".to_owned()) });
    check(b"{}\n", judged_by(skip), "bad_reply", "not mine").await;
}

// PAR-6
#[tokio::test]
async fn a_judge_that_is_stopped_gives_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    let (stopper, stop) = Stopper::new();
    let stopper = Arc::new(stopper);
    let asked = handler_fn(move |_| {
        stopper.stop();
        std::future::pending()
    });
    let validator = Validator::new(sink, judged_by(asked));
    let judgement = validator.validate(&judged(), ExtractionOutcome::Done, stop).await;
    assert_eq!(judgement, ValidationOutcome::Stopped);
}

#[tokio::test]
async fn a_judge_that_takes_too_long_is_a_timeout() {
    let slow = handler_fn(|_| std::future::pending());
    let judge_soon = ValidationHandler { handler: slow, time_limit: Duration::from_millis(1) };
    let rules = ValidationRules { handler: Some(judge_soon), ..ValidationRules::default() };
    let failure = failure(judge(b"{}\n", rules).await);
    assert_eq!(failure.cause(), Cause::Timeout);
}

/// Lines and chunks end where they like.
// PAR-4
#[tokio::test]
async fn rows_that_go_across_chunks_are_whole() {
    let row = format!("{{\"text\":\"{}\"}}\n", "x".repeat(3 << 20));
    let payload = [row.repeat(3), "{}\n".to_owned(), row].concat();
    let good = judge(payload.as_bytes(), schema(r#"{"properties": {"text": {"type": "string"}}}"#));
    let good = good.await;
    assert!(matches!(good, PartitionVerdict::Accepted { record_count: 5, .. }), "{good:?}");
    check(format!("{payload}[").as_bytes(), ValidationRules::default(), "bad_row", "line 6").await;
}
