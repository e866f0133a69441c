//! What handlers answer.

use redrive::{Class, Code, Failure, serde_json, store::Verdict};
use redrive_engine::reply::{MAX_REPLY_BYTES, Reply, ReportedError};
use serde_json::{Map, Value, json};

/// A reply means the same when it is written again; what means to be one is never taken for none.
pub fn check(bytes: &[u8]) {
    let spoken = ["ok", "skip", "error", "verdict"];
    match Reply::parse(bytes) {
        Ok(Some(reply)) => {
            let written = written(&reply).to_string();
            if written.len() <= MAX_REPLY_BYTES {
                assert_eq!(Reply::parse(written.as_bytes()), Ok(Some(reply.clone())), "{written}");
            }
            if let Reply::Error(error) = &reply {
                decided(error);
            }
            let sample = Reply::allowed_for("sample", Some(reply.clone()));
            assert_eq!(sample, Ok(Some(reply.clone())), "a sample may have any reply");
            let run = Reply::allowed_for("run", Some(reply.clone()));
            assert_eq!(run.is_err(), matches!(reply, Reply::Skip(_)), "{reply:?}");
        }
        Ok(None) => {
            if let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(bytes) {
                assert!(!spoken.iter().any(|key| object.contains_key(*key)), "{object:?}");
            }
        }
        Err(bad) => {
            let message = bad.to_string();
            assert!(message.starts_with("invalid reply: "), "{message}");
            assert!(message.chars().count() <= 600, "{message}");
        }
    }
}

fn written(reply: &Reply) -> Value {
    match reply {
        Reply::Ok { value, verdict: None } => json!({ "ok": value }),
        Reply::Ok { value, verdict: Some(verdict) } => {
            let verdict = match verdict {
                Verdict::Passed => "passed",
                Verdict::NeedsReview => "needs_review",
                Verdict::Failed => "failed",
            };
            json!({ "ok": value, "verdict": verdict })
        }
        Reply::Skip(why) => json!({ "skip": why }),
        Reply::Error(error) => json!({ "error": reported(error) }),
    }
}

fn reported(error: &ReportedError) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    add("class", error.class.map(|class| class.name().into()));
    add("message", error.message.clone().map(Value::from));
    add(
        "retry_after",
        error.retry_after.map(|wait| redrive::HumanDuration::from(wait).to_string().into()),
    );
    add(
        "code",
        error.code.as_ref().map(|code| match code {
            Code::Number(number) => (*number).into(),
            name => name.to_string().into(),
        }),
    );
    Value::Object(fields)
}

/// Whatever was reported, it is a failure that can be decided about, with what was stated.
fn decided(error: &ReportedError) {
    let failure = error.failure(|message| Failure::exit(1, message), "x");
    if let Some(class) = error.class {
        assert_eq!(failure.class(), class, "a stated class stands");
    }
    if let Some(hint) = failure.class().hint() {
        assert_eq!(error.retry_after, Some(hint), "no wait is made up");
    }
    let limited = matches!(failure.class(), Class::RateLimited { .. });
    let numbers = [Some(Code::Number(429)), Some(Code::Number(503))];
    let known =
        error.retry_after.is_some() || error.class.is_some() || numbers.contains(&error.code);
    assert!(!limited || known, "{error:?} is no rate limit");
}
