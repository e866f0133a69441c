//! Handlers: a program per unit (`exec`), long-lived programs (`stream`), or an HTTP endpoint (`http`).

use std::time::Duration;

use redrive_core::Code;
use redrive_engine::DEFAULT_GRACE;

use super::{
    HttpConfig,
    reader::{Section, Value},
    value::{duration_in, list, parsed, set, shorten, text, whole},
};

const MAX_PROCESSES: u32 = 1_024;

const MAX_IN_FLIGHT: u32 = 10_000;

/// A shorter grace period is a mistake in the unit of time.
const MIN_GRACE: Duration = Duration::from_millis(1);

/// Bounds how long a stopping worker waits for a program.
const MAX_GRACE: Duration = Duration::from_secs(3_600);

/// The keys that configure a program.
const PROGRAM_KEYS: [&str; 4] = ["env", "grace", "processes", "in-flight"];

#[derive(Debug, Clone, PartialEq)]
pub enum HandlerConfig {
    /// Starts a program for each unit.
    Exec(ProgramConfig),
    /// Keeps programs running and sends them one JSON call per line.
    Stream(StreamConfig),
    /// Sends an HTTP request for each unit.
    Http(Box<HttpConfig>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamConfig {
    pub program: ProgramConfig,
    /// Default 1.
    pub processes: u32,
    /// Concurrent calls per process; default 1.
    pub in_flight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramConfig {
    /// The program and its arguments, started without a shell. Never empty.
    pub argv: Vec<String>,
    /// Names of environment variables to pass, in addition to `PATH` and the like.
    pub env: Vec<String>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Names that the handler states as codes of its failures.
    pub codes: Vec<String>,
}

/// What a handler processes. Only samples have a place for a reply (`into`), and only extractions
/// have rows (`rows`, `next`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlerRole {
    Sample,
    Extraction,
    Other,
}

impl HandlerConfig {
    /// The key that selects this kind in the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Stream(_) => "stream",
            Self::Http(_) => "http",
        }
    }

    pub(super) fn read(value: Value<'_>, role: HandlerRole) -> Option<Self> {
        value.table(|s| {
            let exec = s.value("exec");
            let stream = s.value("stream");
            let http = s.value("http");
            let codes = s.get("codes", set(code_name)).unwrap_or_default();
            let mut handler = match (exec, stream, http) {
                (Some(argv), None, None) => {
                    refuse_each(s, &["processes", "in-flight"], "only for stream handlers");
                    ProgramConfig::read(argv, s).map(Self::Exec)
                }
                (None, Some(argv), None) => Self::read_stream(argv, s),
                (None, None, Some(http)) => {
                    refuse_each(s, &PROGRAM_KEYS, "an http handler does not start a program");
                    let http = http.table(|s| HttpConfig::read(s, role))?;
                    Some(Self::Http(Box::new(http)))
                }
                (exec, stream, http) => {
                    PROGRAM_KEYS.iter().for_each(|key| _ = s.value(key));
                    let message = match exec.or(stream).or(http) {
                        Some(_) => "has several kinds of handler at once",
                        None => "has no kind of handler",
                    };
                    let allowed = "give one of `exec`, `stream`, `http`";
                    s.whole().refuse(message, allowed)
                }
            };
            match &mut handler {
                Some(Self::Exec(program) | Self::Stream(StreamConfig { program, .. })) => {
                    program.codes = codes;
                }
                Some(Self::Http(http)) => http.codes = codes,
                None => {}
            }
            handler
        })
    }

    /// The names that the handler states as codes of its failures.
    pub fn codes(&self) -> &[String] {
        match self {
            Self::Exec(program) | Self::Stream(StreamConfig { program, .. }) => &program.codes,
            Self::Http(http) => &http.codes,
        }
    }

    fn read_stream(argv: Value<'_>, s: &mut Section<'_>) -> Option<Self> {
        let processes = s.get("processes", whole(1..=MAX_PROCESSES));
        let in_flight = s.get("in-flight", whole(1..=MAX_IN_FLIGHT));
        Some(Self::Stream(StreamConfig {
            program: ProgramConfig::read(argv, s)?,
            processes: processes.unwrap_or(1),
            in_flight: in_flight.unwrap_or(1),
        }))
    }
}

/// The declared codes of a handler, if it could be read.
pub(super) fn codes_of(handler: Option<&HandlerConfig>) -> &[String] {
    handler.map(HandlerConfig::codes).unwrap_or_default()
}

impl ProgramConfig {
    /// Reads a program, and its `env` and `grace` from the surrounding section.
    pub(super) fn read(argv: Value<'_>, s: &mut Section<'_>) -> Option<Self> {
        let env = s.value("env").map_or(Some(Vec::new()), set(env_name));
        let grace = s.get("grace", duration_in(MIN_GRACE..=MAX_GRACE)).unwrap_or(DEFAULT_GRACE);
        let whole = argv.clone();
        let argv = list(argument)(argv)?;
        if argv.first().is_some_and(|program| program.is_empty()) {
            return whole.refuse("the program has no name", "the first element is the program");
        }
        Some(Self { argv, env: env?, grace, codes: Vec::new() })
    }
}

/// Rejects NUL characters, at which the operating system would cut the argument off.
fn argument(value: Value<'_>) -> Option<String> {
    let argument = text(value.clone())?;
    if argument.contains('\0') {
        return value.refuse("contains a NUL character", "leave it out");
    }
    Some(argument)
}

pub(super) fn env_name(value: Value<'_>) -> Option<String> {
    let name = text(value.clone())?;
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Some(name);
    }
    value.refuse(
        format!("{:?} is not the name of an environment variable", shorten(&name)),
        "letters, digits and _; the value stays in the environment",
    )
}

/// The name of a code that a handler states.
fn code_name(value: Value<'_>) -> Option<String> {
    match parsed(value.clone())? {
        Code::Name(name) => Some(name),
        Code::Number(number) => {
            value.refuse(format!("{number} is a number"), "numbers need no declaration; remove it")
        }
    }
}

fn refuse_each(s: &mut Section<'_>, keys: &[&'static str], why: &str) {
    for key in keys {
        s.get(key, |value| value.refuse::<()>("does not belong here", why));
    }
}
