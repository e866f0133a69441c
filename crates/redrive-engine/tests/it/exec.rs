//! A program gets the call and its answer is the outcome.

use redrive_core::{Cause, Class, Code};
use redrive_engine::{ExecHandler, ExecSpec, Handler, InvalidProgram, Outcome, Stopper};
use redrive_store::Verdict;
use serde_json::{Value, json};

use crate::program::{
    LONG, Program, TRACEBACK, answered, failure, in_short, run, run_with, sample,
};

const SILENT: Outcome = Outcome::Answered { value: None, verdict: None };

// HANDLERS-2
#[tokio::test]
async fn the_call_is_one_line_of_json_on_stdin() {
    let program = Program::sh("cat > seen");
    for call in [run(), sample(), run_with(json!({"payload": "two\nlines\0\u{1b}"}))] {
        program.handle(&call).await;
        let seen = std::fs::read_to_string(program.path("seen")).unwrap();
        let (line, rest) = seen.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(line).unwrap(), call.to_json());
        assert_eq!(rest, "");
    }
}

// HANDLERS-2
#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    let arguments = ["a b", "$HOME", "*", "`id`", "", "; exit 3", "\n"];
    let script = "printf '[%s]' \"$@\" > seen";
    let program = Program::new(&[&["sh", "-c", script, "sh"], &arguments[..]].concat());
    assert_eq!(program.handle(&run()).await, SILENT);
    let seen = std::fs::read_to_string(program.path("seen")).unwrap();
    assert_eq!(seen, "[a b][$HOME][*][`id`][][; exit 3][\n]");
}

// HANDLERS-2
#[tokio::test]
async fn a_program_runs_in_its_folder_and_counts_from_it() {
    let program = Program::new(&["./bin/shell", "-c", "pwd -P > seen"]);
    std::fs::create_dir(program.path("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", program.path("bin/shell")).unwrap();
    assert_eq!(program.handle(&run()).await, SILENT);
    let seen = std::fs::read_to_string(program.path("seen")).unwrap();
    assert_eq!(seen.trim_end(), program.folder.path().canonicalize().unwrap().to_str().unwrap());
}

// HANDLERS-2
#[tokio::test]
async fn a_program_hears_the_name_it_was_called_by() {
    for name in ["sh", "/bin/sh"] {
        let program = Program::new(&[name, "-c", "tr '\\0' '\\n' < /proc/$$/cmdline > seen"]);
        assert_eq!(program.handle(&run()).await, SILENT);
        let seen = std::fs::read_to_string(program.path("seen")).unwrap();
        assert_eq!(seen.lines().next(), Some(name));
    }
}

// HANDLERS-2
#[tokio::test]
async fn a_program_need_not_read_its_input() {
    let large = run_with(json!({"payload": "x".repeat(1024 * 1024)}));
    let scripts = [
        r#"echo '{"ok": 1}'"#,
        r#"exec <&-; echo '{"ok": 1}'"#,
        r#"head -c 10 >/dev/null; echo '{"ok": 1}'"#,
    ];
    for script in scripts {
        assert_eq!(Program::sh(script).handle(&large).await, answered(json!(1)), "{script}");
    }
}

// HANDLERS-2
#[tokio::test]
async fn a_large_call_is_read_and_answered_at_once() {
    let payload = "x".repeat(700 * 1024);
    let script = r#"printf '{"ok": '; tr -d '\n'; printf '}'"#;
    let call = run_with(json!({"payload": payload}));
    assert_eq!(Program::sh(script).handle(&call).await, answered(call.to_json()));
}

// HANDLERS-2, HANDLERS-5
#[tokio::test]
async fn the_last_line_is_the_reply_if_it_is_one() {
    let judged = |verdict| Outcome::Answered { value: Some(json!(1)), verdict: Some(verdict) };
    let cases = [
        ("true", SILENT),
        ("echo done", SILENT),
        (r#"echo '{"level": "info"}'"#, SILENT),
        (r#"echo '{"ok": 1}'; echo bye"#, SILENT),
        (r#"echo '{"ok": 1}'"#, answered(json!(1))),
        (r#"printf 'log\n{"ok": 1}'"#, answered(json!(1))),
        (r#"printf '{"ok": 2}\n  {"ok": 1}  \r\n\n \n'"#, answered(json!(1))),
        (r#"echo '{"ok": 1, "verdict": "failed"}'"#, judged(Verdict::Failed)),
        (r#"echo '{"ok": 1, "verdict": "needs_review"}'"#, judged(Verdict::NeedsReview)),
    ];
    for (script, outcome) in cases {
        assert_eq!(Program::sh(script).handle(&run()).await, outcome, "{script}");
    }
}

// HANDLERS-5
#[tokio::test]
async fn a_reply_that_fits_nothing_is_a_failure() {
    let skip = r#"echo '{"skip": "empty"}'"#;
    assert_eq!(Program::sh(skip).handle(&sample()).await, Outcome::Skipped("empty".to_owned()));
    let cases = [
        (skip, run(), "cannot be skipped"),
        ("echo done", sample(), "a sample needs a reply"),
        (r#"echo '{"ok": 1, "verdict": "good"}'"#, run(), "verdict must be"),
        (r#"echo '{"error": "boom"}'"#, run(), "error must be an object"),
        (r#"echo '{"verdict": "failed"}'; echo "see log" >&2"#, run(), "stderr: see log"),
    ];
    for (script, call, problem) in cases {
        let failure = failure(Program::sh(script).handle(&call).await);
        let expected = (Class::Retryable, false, Code::name("bad_reply"));
        assert_eq!(in_short(&failure), expected, "{script}");
        assert!(failure.message().as_str().contains(problem), "{script}: {}", failure.message());
    }
}

// HANDLERS-2, CLS-4, CLS-5
#[tokio::test]
async fn exit_codes_and_reported_errors_are_classified() {
    let number = Code::Number;
    let cases = [
        ("exit 75", (Class::Retryable, false, number(75))),
        ("exit 1", (Class::Retryable, false, number(1))),
        ("exit 255", (Class::Retryable, false, number(255))),
        ("exit 64", (Class::Final, false, number(64))),
        ("exit 78", (Class::Final, false, number(78))),
        // A non-zero exit beats an ok, a skip and what fits nothing.
        (r#"echo '{"ok": 1}'; exit 3"#, (Class::Retryable, false, number(3))),
        (r#"echo '{"skip": "x"}'; exit 65"#, (Class::Final, false, number(65))),
        (r#"echo '{"error": "boom"}'; exit 65"#, (Class::Final, false, number(65))),
        // An error says more than the exit code.
        (r#"echo '{"error": {"class": "final"}}'; exit 3"#, (Class::Final, true, number(3))),
        (r#"echo '{"error": {"code": 404}}'; exit 3"#, (Class::Final, false, number(404))),
        (
            r#"echo '{"error": {"class": "final", "code": "gone"}}'"#,
            (Class::Final, true, Code::name("gone")),
        ),
        (r#"echo '{"error": {}}'"#, (Class::Retryable, false, Code::name("error"))),
        // A signal.
        ("kill -KILL $$", (Class::Retryable, false, Code::name("signal_9"))),
        (r#"echo '{"ok": 1}'; kill -TERM $$"#, (Class::Retryable, false, Code::name("signal_15"))),
        (
            r#"echo '{"error": {"class": "final"}}'; kill -KILL $$"#,
            (Class::Final, true, Code::name("signal_9")),
        ),
    ];
    for (script, expected) in cases {
        let failure = Program::sh(script).failure().await;
        assert_eq!(in_short(&failure), expected, "{script}");
        assert_eq!(failure.cause(), Cause::Handler, "{script}");
    }
}

// HANDLERS-2
#[tokio::test]
async fn the_message_says_what_happened_and_holds_the_end_of_stderr() {
    let cases = [
        ("exit 3", "the program ended with exit status: 3"),
        ("echo first >&2; echo last >&2; exit 3", "first\nlast"),
        (r#"echo '{"error": {"message": "no row"}}'; exit 3"#, "no row"),
        (r#"echo '{"error": {"message": "no row"}}'; echo log >&2"#, "no row\nstderr: log"),
        (r#"echo '{"error": {"message": ""}}'; echo log >&2"#, "log"),
        (r#"echo '{"error": {}}'"#, "the program reported an error without a message"),
        ("kill -KILL $$", "the program ended with signal: 9 (SIGKILL)"),
        ("echo log >&2; kill -KILL $$", "the program ended with signal: 9 (SIGKILL)\nstderr: log"),
    ];
    for (script, message) in cases {
        assert_eq!(Program::sh(script).failure().await.message().as_str(), message, "{script}");
    }
}

// HANDLERS-2, CLS-4
#[tokio::test]
async fn the_error_of_a_traceback_comes_first() {
    for (end, head) in [
        ("exit 1", "ValueError: bad day (work.py:12 in fetch)\nstderr: Traceback"),
        (
            "kill -ABRT $$",
            "ValueError: bad day (work.py:12 in fetch); the program ended with signal: 6 (SIGABRT)",
        ),
    ] {
        let message = Program::sh(&format!("{TRACEBACK}; {end}")).failure().await;
        let message = message.message().as_str();
        assert!(message.starts_with(head), "{message}");
    }
    let reported = format!(r#"{TRACEBACK}; echo '{{"error": {{"message": "no row"}}}}'; exit 1"#);
    let message = Program::sh(&reported).failure().await.message().to_string();
    assert!(message.starts_with("no row\nstderr: Traceback"), "{message}");
}

/// Written by another process: while this one writes, a test beside it may start a program that
/// then holds the file open, and what is open for writing cannot be started.
fn write_executable(program: &Program, script: &str) {
    let write = "printf %s \"$1\" > work.sh && chmod +x work.sh";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", write, "sh", script]).current_dir(program.folder.path());
    assert!(command.status().unwrap().success());
}

// CLS-4
#[tokio::test]
async fn a_program_that_cannot_be_started_is_a_failed_attempt_with_a_reason() {
    let mut nowhere = Program::new(&["true"]);
    nowhere.spec.folder = nowhere.path("missing");
    let not_executable = Program::new(&["./work.sh"]);
    std::fs::write(not_executable.path("work.sh"), "#!/bin/sh\n").unwrap();
    let no_first_line = Program::new(&["./work.sh"]);
    write_executable(&no_first_line, "echo hello\n");
    let no_interpreter = Program::new(&["./work.sh"]);
    write_executable(&no_interpreter, "#!/no/such/interpreter\n");
    let missing = Program::new(&["./missing.sh"]);
    let expected =
        format!("cannot start {}: the file does not exist", missing.path("missing.sh").display());
    let long = "x".repeat(4 * 1024 * 1024);
    let cases = [
        (Program::new(&["no-such-program-anywhere"]), "not in PATH"),
        (missing, &expected),
        (nowhere, "missing does not exist"),
        (not_executable, "is not executable"),
        (no_first_line, "#!/bin/sh"),
        (no_interpreter, "interpreter"),
        (Program::new(&["."]), "cannot start"),
        (Program::new(&["true", &long]), "too long"),
    ];
    for (program, why) in cases {
        let failure = program.failure().await;
        let what = failure.message().as_str();
        assert_eq!(in_short(&failure), (Class::Retryable, false, Code::name("spawn")), "{what}");
        assert_eq!(failure.cause(), Cause::Spawn, "{what}");
        assert!(what.contains(why), "{what}");
    }
}

// HANDLERS-2
#[test]
fn what_can_never_be_started_is_refused_at_once() {
    let spec = |argv: &[&str]| {
        ExecSpec::new(argv.iter().map(|argument| (*argument).to_owned()).collect(), "/")
    };
    let refusal = |spec| ExecHandler::new(spec).expect_err("it must be refused");
    assert!(matches!(refusal(spec(&[])), InvalidProgram::NoProgram));
    assert!(matches!(refusal(spec(&[""])), InvalidProgram::NoProgram));
    assert!(matches!(refusal(spec(&["true", "a\0b"])), InvalidProgram::Nul(_)));
    for name in ["", "A=B", "A\0"] {
        let spec = ExecSpec { env: vec![name.to_owned()], ..spec(&["true"]) };
        assert!(matches!(refusal(spec), InvalidProgram::VariableName(_)), "{name:?}");
    }
}

// HANDLERS-2
#[tokio::test]
async fn many_programs_at_once_each_get_their_own_answer() {
    let program = Program::sh(r#"read -r call; echo "{\"ok\": $REDRIVE_NUMBER}""#);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64 {
        let handler = program.handler();
        calls.spawn(async move {
            let (_stopper, stop) = Stopper::new();
            let call = run_with(json!({"number": number}));
            (number, handler.handle(&call, LONG, stop).await)
        });
    }
    while let Some(ended) = calls.join_next().await {
        let (number, outcome) = ended.unwrap();
        assert_eq!(outcome, answered(json!(number)));
    }
}
