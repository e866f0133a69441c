//! A program sees what it was given, and nothing else.

use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt};

use redrive_core::{PartitionKey, Unit};
use redrive_engine::Call;
use serde_json::{Value, json};

use crate::program::{Program, call, run, run_with, sample};

type Variables = BTreeMap<String, String>;

/// Cargo sets it for every test: a variable that is there and that nobody may see unasked.
const SECRET: &str = "CARGO_MANIFEST_DIR";

/// What a program saw. No shell, which would add variables of its own.
async fn seen(call: &Call, env: &[&str]) -> Variables {
    let mut program = Program::new(&["cp", "/proc/self/environ", "seen"]);
    program.spec.env = env.iter().map(|name| (*name).to_owned()).collect();
    program.handle(call).await;
    let seen = std::fs::read(program.path("seen")).unwrap();
    let text = |bytes| OsStr::from_bytes(bytes).to_str().unwrap().to_owned();
    seen.split(|byte| *byte == 0)
        .filter(|variable| !variable.is_empty())
        .map(|variable| {
            let equals = variable.iter().position(|byte| *byte == b'=').unwrap();
            (text(&variable[..equals]), text(&variable[equals + 1..]))
        })
        .collect()
}

/// What is passed on, and these.
fn expected(env: &[&str], own: Value) -> Variables {
    let inherited = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"].iter().chain(env);
    let inherited =
        inherited.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let own = own.as_object().unwrap().clone().into_iter();
    let own =
        own.map(|(name, value)| (format!("REDRIVE_{name}"), value.as_str().unwrap().to_owned()));
    inherited.chain(own).collect()
}

fn run_variables() -> Value {
    json!({"KIND": "run", "UNIT": "run:7", "ATTEMPT": "3", "QUEUE": "verify", "CATEGORY": "fast"})
}

// HANDLERS-2
#[tokio::test]
async fn a_program_sees_exactly_the_named_variables_and_those_of_the_call() {
    assert!(std::env::var_os(SECRET).is_some() && std::env::var_os("PATH").is_some());
    let seen = seen(&run(), &[]).await;
    assert_eq!(seen, expected(&[], run_variables()));
    assert!(!seen.contains_key(SECRET));
}

// HANDLERS-2
#[tokio::test]
async fn a_variable_that_is_named_is_passed_on_where_it_is_set() {
    let env = [SECRET, "REDRIVE_TEST_NEVER_SET"];
    let seen = seen(&run(), &env).await;
    assert_eq!(seen, expected(&env, run_variables()));
    assert!(seen.contains_key(SECRET) && !seen.contains_key("REDRIVE_TEST_NEVER_SET"));
}

// HANDLERS-2
#[tokio::test]
async fn a_program_that_dies_for_want_of_a_variable_is_told_about_env() {
    let withheld = format!("add env = [\"{SECRET}\"] to the handler");
    let keyerror = format!(
        "printf '%s\n' 'Traceback' '  File \"a.py\", line 3, in f' \"KeyError: '{SECRET}'\" >&2; exit 1"
    );
    let unset = "REDRIVE_TEST_NEVER_SET";
    for (script, env, hint) in [
        (format!(": ${{{SECRET}:?}}"), &[][..], Some(withheld.as_str())),
        (keyerror, &[], Some(&withheld)),
        (format!("echo MY_{SECRET} >&2; exit 1"), &[], None),
        (format!("echo {SECRET} >&2; exit 1"), &[SECRET], None),
        (format!(": ${{{unset}:?}}"), &[], None),
        (format!(": ${{{unset}:?}}"), &[unset], Some("the worker has no such variable")),
    ] {
        let mut program = Program::sh(&script);
        program.spec.env = env.iter().map(|name| (*name).to_owned()).collect();
        let message = program.failure().await.message().to_string();
        assert_eq!(message.contains("env"), hint.is_some(), "{script}: {message}");
        assert!(message.contains(hint.unwrap_or_default()), "{script}: {message}");
    }
}

// HANDLERS-2
#[tokio::test]
async fn each_kind_of_work_has_its_own_variables() {
    let own = json!({
        "KIND": "sample", "UNIT": "sample:9/llm_call", "ATTEMPT": "3",
        "PIPELINE": "score", "STAGE": "llm_call", "SAMPLE": "9",
    });
    assert_eq!(seen(&sample(), &[]).await, expected(&[], own));

    let key = PartitionKey::new("ads", "12/34", "daily", "2026-02-28".parse().unwrap()).unwrap();
    let details = json!({
        "source": "ads", "customer_id": "12/34", "query_name": "daily", "logical_date": "2026-02-28",
    });
    let mut partition = call(Unit::Partition(key), details);
    partition.run_id = Some("0195-run".to_owned());
    let own = json!({
        "KIND": "partition", "UNIT": "partition:ads/12%2F34/daily/2026-02-28", "ATTEMPT": "3",
        "RUN_ID": "0195-run", "SOURCE": "ads", "CUSTOMER_ID": "12/34", "QUERY_NAME": "daily",
        "LOGICAL_DATE": "2026-02-28",
    });
    assert_eq!(seen(&partition, &[]).await, expected(&[], own));
}

// HANDLERS-2
#[tokio::test]
async fn only_scalars_that_a_variable_can_hold_become_variables() {
    let details = json!({
        "flag": true, "number": 1.5, "text": "a=b\nc", "empty": "", "umlaut": "ü",
        "nul": "a\0b", "none": null, "list": [1], "object": {"a": 1},
        "payload": "text", "data": 3, "": "x", "a=b": "x", "a-b": "x", "kind": "forged",
    });
    let own = json!({
        "KIND": "run", "UNIT": "run:7", "ATTEMPT": "3",
        "FLAG": "true", "NUMBER": "1.5", "TEXT": "a=b\nc", "EMPTY": "", "UMLAUT": "ü",
    });
    assert_eq!(seen(&run_with(details), &[]).await, expected(&[], own));
}
