//! URLs of stores: `sqlite:PATH`, `sqlite::memory:` or `postgres://…`.
//!
//! A URL may contain a password, and URLs appear in messages and logs. So a [`StoreUrl`] displays
//! without its password, and only [`PostgresUrl::with_password`] returns the complete text.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use percent_encoding::percent_decode_str;

use crate::nearest::nearest;

/// The URL of a store.
///
/// ```
/// use redrive::StoreUrl;
///
/// let url: StoreUrl = "postgres://ann:secret@db.example/redrive".parse().unwrap();
/// assert_eq!(url.to_string(), "postgres://ann:****@db.example/redrive");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A SQLite database in memory, lost when the program ends.
    SqliteMemory,
    SqliteFile(PathBuf),
    Postgres(PostgresUrl),
}

/// The URL of a PostgreSQL database. It displays without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

/// An invalid store URL. The message never repeats a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}: {allowed}")]
pub struct InvalidStoreUrl {
    problem: String,
    allowed: String,
}

impl InvalidStoreUrl {
    fn new(text: &str, allowed: impl Into<String>) -> Self {
        Self { problem: format!("{:?} is not a store URL", masked(text)), allowed: allowed.into() }
    }

    pub fn problem(&self) -> &str {
        &self.problem
    }

    pub fn allowed(&self) -> &str {
        &self.allowed
    }
}

impl Default for StoreUrl {
    /// `sqlite:redrive.db`.
    fn default() -> Self {
        Self::SqliteFile(PathBuf::from("redrive.db"))
    }
}

impl StoreUrl {
    /// Resolves a relative path of a SQLite file from `folder`.
    pub fn in_folder(self, folder: &Path) -> Self {
        match self {
            Self::SqliteFile(path) => Self::SqliteFile(folder.join(path)),
            other => other,
        }
    }

    pub fn is_sqlite(&self) -> bool {
        !matches!(self, Self::Postgres(_))
    }

    pub fn has_password(&self) -> bool {
        match self {
            Self::Postgres(url) => masked(&url.0) != url.0,
            Self::SqliteMemory | Self::SqliteFile(_) => false,
        }
    }
}

const SHAPES: &str = "write sqlite:PATH, sqlite::memory: or postgres://USER@HOST/DATABASE";

impl FromStr for StoreUrl {
    type Err = InvalidStoreUrl;

    fn from_str(text: &str) -> Result<Self, InvalidStoreUrl> {
        let refuse = |allowed: &str| Err(InvalidStoreUrl::new(text, allowed));
        if text.is_empty() {
            return refuse(SHAPES);
        }
        if text.chars().any(char::is_control) {
            return refuse("a URL must not contain control characters");
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return refuse(&format!("to use a file, write sqlite:{}", masked(text)));
        };
        match scheme {
            "sqlite" => sqlite(text, rest),
            "postgres" | "postgresql" => postgres(text, rest),
            _ if scheme.contains(['/', '\\', '.']) => {
                refuse(&format!("to use a file, write sqlite:{}", masked(text)))
            }
            _ => match nearest(scheme, ["sqlite", "postgres", "postgresql"]) {
                Some(known) => refuse(&format!("did you mean {known}:? {SHAPES}")),
                None => refuse(SHAPES),
            },
        }
    }
}

fn sqlite(text: &str, path: &str) -> Result<StoreUrl, InvalidStoreUrl> {
    let allowed = if path == ":memory:" {
        return Ok(StoreUrl::SqliteMemory);
    } else if path.is_empty() {
        "the path is missing; write sqlite:PATH"
    } else if path.starts_with("//") {
        "write sqlite:PATH, without //"
    } else if path.starts_with('~') {
        "~ is not expanded; write the complete path"
    } else if path.starts_with(':') {
        "did you mean sqlite::memory:?"
    } else if path.contains('?') {
        "options belong in [store] of redrive.toml, not in the URL"
    } else if path.ends_with('/') {
        "the path is a folder; add a file name"
    } else {
        return Ok(StoreUrl::SqliteFile(PathBuf::from(path)));
    };
    Err(InvalidStoreUrl::new(text, allowed))
}

/// Checks the outline only; the driver checks the rest. An `@` anywhere except before the host is
/// rejected, because the end of the password would be uncertain.
fn postgres(text: &str, rest: &str) -> Result<StoreUrl, InvalidStoreUrl> {
    let refuse = |allowed: &str| Err(InvalidStoreUrl::new(text, allowed));
    let Some(rest) = rest.strip_prefix("//") else {
        return refuse("write postgres://USER@HOST/DATABASE, with //");
    };
    let place = rest.split(['?', '#']).next().unwrap_or(rest);
    let authority = place.split('/').next().unwrap_or(place);
    if rest.matches('@').count() != authority.matches('@').count().min(1) {
        return refuse("in a password write %40 for @, %2F for / and %3F for ?");
    }
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    if hosts.is_empty() && !rest.contains("host=") {
        return refuse("the host is missing; write postgres://USER@HOST/DATABASE");
    }
    for host in hosts.split(',') {
        let after_name = host.rsplit_once(']').map_or(host, |(_, after)| after);
        let port = after_name.rsplit_once(':').map(|(_, port)| port);
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return refuse("the port must be from 1 to 65535");
        }
    }
    Ok(StoreUrl::Postgres(PostgresUrl(text.to_owned())))
}

impl PostgresUrl {
    /// The complete URL with its password. For the driver, never for a message.
    pub fn with_password(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SqliteMemory => f.write_str("sqlite::memory:"),
            Self::SqliteFile(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

const MASK: &str = "****";

/// Masks the passwords of a URL. If the end of a password is uncertain, everything up to the last
/// `@` is masked.
fn masked(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let rest = match rest.rsplit_once('@') {
        Some((userinfo, hosts)) => match userinfo.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{hosts}"),
            None => rest.to_owned(),
        },
        None if scheme.is_empty() => rest.to_owned(),
        None => masked_authority(rest),
    };
    let Some((place, query)) = rest.split_once('?') else {
        return scheme + &rest;
    };
    let parameters: Vec<String> = query.split('&').map(masked_parameter).collect();
    format!("{scheme}{place}?{}", parameters.join("&"))
}

/// In a URL without a host, the password is where the port would be.
fn masked_authority(rest: &str) -> String {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, place) = rest.split_at(end);
    match authority.split_once(':') {
        Some((name, port)) if !is_hosts_and_ports(authority) && !port.is_empty() => {
            format!("{name}:{MASK}{place}")
        }
        _ => rest.to_owned(),
    }
}

fn is_hosts_and_ports(authority: &str) -> bool {
    authority.split(',').all(|host| {
        let after_name = host.rsplit_once(']').map_or(host, |(_, after)| after);
        let port = after_name.rsplit_once(':').map_or("", |(_, port)| port);
        port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Parameter names may be percent-encoded.
fn masked_parameter(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((key, _)) if names_a_password(key) => format!("{key}={MASK}"),
        _ => parameter.to_owned(),
    }
}

fn names_a_password(key: &str) -> bool {
    percent_decode_str(key).decode_utf8_lossy().to_ascii_lowercase().contains("password")
}
