//! Who does the work: a program per unit, long-lived programs, or an HTTP endpoint.

use std::time::Duration;

use redrive_engine::DEFAULT_GRACE;

use super::{
    HttpConfig,
    reader::{Section, Value},
    value::{duration_in, list, set, shorten, text, whole},
};

/// The most programs one stream handler keeps running.
const MAX_PROCESSES: u32 = 1_024;

/// The most calls one program of a stream handler gets at once.
const MAX_IN_FLIGHT: u32 = 10_000;

/// The shortest time a program gets to end; anything shorter is a mistake in the unit.
const MIN_GRACE: Duration = Duration::from_millis(1);

/// The longest: a worker that stops does not wait for ever.
const MAX_GRACE: Duration = Duration::from_secs(3_600);

/// The keys that say how a program runs.
const PROGRAM_KEYS: [&str; 4] = ["env", "grace", "processes", "in-flight"];

/// A handler that is not written in Rust.
#[derive(Debug, Clone, PartialEq)]
pub enum HandlerConfig {
    /// A program started for each unit.
    Exec(ProgramConfig),
    /// Long-lived programs, one JSON call per line.
    Stream(StreamConfig),
    /// An HTTP request for each unit.
    Http(Box<HttpConfig>),
}

/// Programs that stay running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamConfig {
    /// What is started.
    pub program: ProgramConfig,
    /// How many of it.
    pub processes: u32,
    /// How many calls each gets at once.
    pub in_flight: u32,
}

/// A program and what it sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramConfig {
    /// The program and its arguments; no shell is involved. Never empty.
    pub argv: Vec<String>,
    /// The environment variables it gets besides the usual few.
    pub env: Vec<String>,
    /// How long it has to end after TERM, before KILL.
    pub grace: Duration,
}

/// What a handler works on: only samples have a place to put an answer, and only an extraction has
/// rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlerRole {
    Sample,
    Extraction,
    Other,
}

impl HandlerConfig {
    /// The word that chooses this kind in the file.
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
            match (exec, stream, http) {
                (Some(argv), None, None) => {
                    refuse_each(s, &["processes", "in-flight"], "only for stream handlers");
                    ProgramConfig::read(argv, s).map(Self::Exec)
                }
                (None, Some(argv), None) => Self::read_stream(argv, s),
                (None, None, Some(http)) => {
                    refuse_each(s, &PROGRAM_KEYS, "an http handler starts no program");
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
            }
        })
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

impl ProgramConfig {
    /// Reads a program and, from the section around it, the `env` it gets and its `grace`.
    pub(super) fn read(argv: Value<'_>, s: &mut Section<'_>) -> Option<Self> {
        let env = s.value("env").map_or(Some(Vec::new()), set(env_name));
        let grace = s.get("grace", duration_in(MIN_GRACE..=MAX_GRACE)).unwrap_or(DEFAULT_GRACE);
        let whole = argv.clone();
        let argv = list(argument)(argv)?;
        if argv.first().is_some_and(|program| program.is_empty()) {
            return whole.refuse("the program has no name", "the first element names it");
        }
        Some(Self { argv, env: env?, grace })
    }
}

/// The operating system ends an argument at a NUL.
fn argument(value: Value<'_>) -> Option<String> {
    let argument = text(value.clone())?;
    if argument.contains('\0') {
        return value.refuse("contains a NUL character", "leave it out");
    }
    Some(argument)
}

/// The name of an environment variable.
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

fn refuse_each(s: &mut Section<'_>, keys: &[&'static str], why: &str) {
    for key in keys {
        s.get(key, |value| value.refuse::<()>("does not belong here", why));
    }
}
