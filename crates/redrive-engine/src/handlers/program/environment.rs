//! The environment of a program: the listed variables and no others, so that no secret of the worker leaks
//! into a program that is not meant to have it.

use std::{env, ffi::OsString};

use serde_json::Value;

use crate::{Call, traces::TRACEPARENT};

/// Passed to every program, if set.
const ALWAYS: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// A variable with a shorter name, such as `_`, may be mentioned by chance.
const MIN_HINT_BYTES: usize = 3;

/// Details that are documents. A program reads them from its input.
const DOCUMENTS: [&str; 2] = ["payload", "data"];

/// The variable in which OpenTelemetry passes the current span to programs.
const TRACEPARENT_VARIABLE: &str = "TRACEPARENT";

/// The variables that a program inherits from this process.
pub(super) fn inherited(named: &[String]) -> Vec<(String, OsString)> {
    let names = ALWAYS.into_iter().chain(named.iter().map(String::as_str));
    names.filter_map(|name| Some((name.to_owned(), env::var_os(name)?))).collect()
}

/// A hint for the failure of a program that lacked a variable: its message names one that `env` could have
/// passed, or names in vain. The error of a crash is the first line of the message or the last.
pub(super) fn hint(named: &[String], message: &str) -> Option<String> {
    let lines = [message.lines().next()?, message.lines().next_back()?];
    let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
    let mentioned =
        |name: &String| lines.iter().any(|line| line.split(is_separator).any(|word| word == name));
    if let Some(name) = named.iter().find(|name| env::var_os(name).is_none() && mentioned(name)) {
        return Some(format!(
            "the handler's env names {name}, but the worker has no such variable"
        ));
    }
    let withheld = env::vars_os().filter_map(|(name, _)| name.into_string().ok()).find(|name| {
        let passed = ALWAYS.contains(&name.as_str()) || named.contains(name);
        name.len() >= MIN_HINT_BYTES && !passed && mentioned(name)
    })?;
    Some(format!(
        "the worker has the variable {withheld}, but a program gets only what `env` names: add \
         env = [\"{withheld}\"] to the handler"
    ))
}

/// The variables of a call. A value with a NUL cannot be in a variable; the JSON of the call has it.
pub(crate) fn of_call(call: &Call) -> Vec<(String, String)> {
    let details = call
        .details
        .iter()
        .filter(|(name, _)| !DOCUMENTS.contains(&name.as_str()) && *name != TRACEPARENT)
        .filter_map(|(name, value)| Some((variable(name)?, scalar(value)?)));
    // Last, because no detail may replace them.
    let own = [
        ("REDRIVE_KIND", Some(call.kind().to_owned())),
        ("REDRIVE_UNIT", Some(call.unit.to_string())),
        ("REDRIVE_ATTEMPT", Some(call.attempt.to_string())),
        ("REDRIVE_RUN_ID", call.run_id.clone()),
        (TRACEPARENT_VARIABLE, call.traceparent().map(str::to_owned)),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    details.chain(own).filter(|(_, value)| !value.contains('\0')).collect()
}

/// `customer_id` becomes `REDRIVE_CUSTOMER_ID`. Names that a shell cannot use have no variable.
fn variable(detail: &str) -> Option<String> {
    let fits = detail.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (fits && !detail.is_empty()).then(|| format!("REDRIVE_{}", detail.to_ascii_uppercase()))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
