//! Fields that several kinds of rows have: handlers, limits, policies, schedules.

use std::fmt;

use jiff::civil::Time;
use redrive::{
    BodyTemplate, JsonPointer,
    config::{
        HandlerConfig, HttpConfig, LimitsConfig, PolicyChoice, ProgramConfig, ScheduleConfig,
        ScheduleInterval, ValidationConfig,
    },
    place_policy,
};
use redrive_ops::{views::PolicyView, words::seconds};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A handler, printed as a JSON object or as a few words.
#[derive(Debug)]
pub(crate) struct HandlerView<'a>(pub(crate) &'a HandlerConfig);

impl Serialize for HandlerView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let handler = match self.0 {
            HandlerConfig::Exec(exec) => program(exec),
            HandlerConfig::Stream(stream) => json!({
                "stream": stream.program.argv,
                "env": stream.program.env,
                "grace_s": seconds(stream.program.grace),
                "processes": stream.processes,
                "in_flight": stream.in_flight,
            }),
            HandlerConfig::Http(http) => json!({ "http": request(http) }),
        };
        handler.serialize(serializer)
    }
}

impl fmt::Display for HandlerView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            HandlerConfig::Exec(exec) => write!(f, "exec {}", exec.argv.join(" ")),
            HandlerConfig::Stream(stream) => {
                write!(f, "stream {} × {}", stream.program.argv.join(" "), stream.processes)?;
                match stream.in_flight {
                    1 => Ok(()),
                    calls => write!(f, ", {calls} in flight"),
                }
            }
            HandlerConfig::Http(http) => write!(f, "{} {}", http.request.method, http.request.url),
        }
    }
}

pub(crate) fn program(program: &ProgramConfig) -> Value {
    json!({ "exec": program.argv, "env": program.env, "grace_s": seconds(program.grace) })
}

/// Prints the names of headers without their values, which may be secrets.
fn request(http: &HttpConfig) -> Value {
    let request = &http.request;
    let query = request.query.iter();
    let query = query.map(|(name, value)| (name.clone(), value.as_json().clone()));
    let headers: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    json!({
        "method": request.method.as_str(),
        "url": request.url.to_string(),
        "query": Value::Object(query.collect()),
        "headers": headers,
        "body": request.body.as_ref().map(BodyTemplate::as_json),
        "reply": request.reply.as_ref().map(JsonPointer::as_str),
        "rows": http.paging.as_ref().map(|paging| paging.rows.as_str()),
        "next": http.paging.as_ref().and_then(|paging| Some(paging.next.as_ref()?.as_str())),
        "into": http.into.as_ref().map(JsonPointer::as_str),
        "private_addresses": request.private_addresses,
    })
}

/// Flattened into the object of the queue, source or stage.
#[derive(Debug, Serialize)]
pub(crate) struct LimitFields {
    concurrency: u32,
    timeout_s: Value,
    lease_s: Value,
}

impl From<LimitsConfig> for LimitFields {
    fn from(limits: LimitsConfig) -> Self {
        Self {
            concurrency: limits.concurrency,
            timeout_s: seconds(limits.timeout),
            lease_s: seconds(limits.lease),
        }
    }
}

/// The policy of a place, with the origin of each setting.
pub(crate) fn view(kind: &str, name: &str, choice: &PolicyChoice) -> PolicyView {
    PolicyView::new(&place_policy(kind, name, choice, None))
}

pub(crate) fn validate(validate: &ValidationConfig) -> Value {
    json!({
        "min_rows": validate.min_rows,
        "max_rows": validate.max_rows,
        "schema": validate.schema,
        "handler": validate.handler.as_ref().map(HandlerView),
    })
}

pub(crate) fn schedule(schedule: &ScheduleConfig) -> Value {
    let every = match schedule.every {
        ScheduleInterval::Day => "day",
    };
    json!({
        "every": every,
        "at": clock_time(schedule.at),
        "lag_days": schedule.lag_days,
        "start": schedule.start.to_string(),
    })
}

/// Hours and minutes; a schedule has no seconds.
pub(crate) fn clock_time(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}
