//! PostgreSQL URLs, with libpq's meaning of `sslmode`.
//!
//! | `sslmode` | encrypted | certificate checked |
//! | --- | --- | --- |
//! | `disable` | no | no |
//! | `prefer` (default), `allow` | if the server can | no |
//! | `require` | yes | only with `sslrootcert` |
//! | `verify-ca`, `verify-full` | yes | authority and host name |
//!
//! `verify-ca` checks the host name too, because a certificate for another host proves nothing about this one.
//! `sslrootcert=FILE` names the trusted authorities; `sslrootcert=system` and no `sslrootcert` mean those of the
//! machine.

use std::{fmt, path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use redrive_store::{Error, Result};
use tokio_postgres::config::{Config, Host, SslMode};

/// Idle time after which a connection is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// The parameters that a URL may have, except those that have a place in the URL itself.
const KNOWN: [&str; 10] = [
    "sslmode",
    "sslrootcert",
    "hostaddr",
    "application_name",
    "connect_timeout",
    "options",
    "channel_binding",
    "load_balance_hosts",
    "target_session_attrs",
    "sslnegotiation",
];

/// Which certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Every certificate: the connection is encrypted, but the server is not authenticated.
    AnyCertificate,
    /// Those signed by an authority that the machine trusts.
    System,
    /// Those signed by an authority in this file.
    File(PathBuf),
}

#[derive(Clone)]
pub(crate) struct ConnectionTarget {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    address: String,
}

impl ConnectionTarget {
    /// Parses a URL. No error message repeats a part of the URL that could be a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (base, parameters) = split(url)?;
        let mut mode = None;
        let mut root = None;
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter
                .split_once('=')
                .ok_or_else(|| refused("every parameter needs a value, as in ?sslmode=require"))?;
            match name {
                "sslmode" => mode = Some(decoded(value)?),
                "sslrootcert" => root = Some(decoded(value)?),
                _ if KNOWN.contains(&name) => others.push(parameter),
                _ => {
                    let known = KNOWN.join(", ");
                    return Err(refused(format!(
                        "the parameter {name:?} is unknown; the known ones are {known}"
                    )));
                }
            }
        }
        let (ssl_mode, trust) = encryption(mode.as_deref(), root)?;
        let mut config: Config =
            format!("{base}?{}", others.join("&")).parse().map_err(|_| refused(SHAPE))?;
        if config.get_hosts().is_empty() {
            return Err(refused(SHAPE));
        }
        config.ssl_mode(ssl_mode).keepalives_idle(KEEPALIVE_IDLE);
        if config.get_application_name().is_none() {
            config.application_name("redrive");
        }
        let address = address_of(&config);
        Ok(Self { config, trust, address })
    }

    /// Host, port and database, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// Leaves out the configuration, which holds the password.
impl fmt::Debug for ConnectionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionTarget")
            .field("address", &self.address)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

const SHAPE: &str = "it cannot be read; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with @ : \
                     / ? # % in user and password percent-encoded, such as %40 for @";

/// The URL without its parameters, and the parameters.
fn split(url: &str) -> Result<(&str, &str)> {
    let rest = ["postgres://", "postgresql://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .ok_or_else(|| refused("it is not a PostgreSQL URL; it begins with postgres://"))?;
    // Text after an unescaped @ in a password would be taken for the host and be shown in messages.
    if rest.matches('@').count() > 1 {
        return Err(refused("it has more than one @; write %40 for an @ in user or password"));
    }
    // A ? before the @ is part of the password.
    let after_credentials = url.find('@').unwrap_or_default();
    let parameters = url
        .get(after_credentials..)
        .and_then(|tail| tail.find('?'))
        .map(|at| after_credentials + at);
    Ok(match parameters.and_then(|at| url.split_at_checked(at)) {
        Some((base, parameters)) => (base, parameters.trim_start_matches('?')),
        None => (url, ""),
    })
}

fn encryption(mode: Option<&str>, root: Option<String>) -> Result<(SslMode, Trust)> {
    let authorities = || match root.as_deref() {
        None | Some("system") => Trust::System,
        Some(file) => Trust::File(file.into()),
    };
    Ok(match mode {
        Some("verify-full" | "verify-ca") => (SslMode::Require, authorities()),
        Some("require") if root.is_some() => (SslMode::Require, authorities()),
        Some("require") => (SslMode::Require, Trust::AnyCertificate),
        None | Some("disable" | "allow" | "prefer") if root.is_some() => {
            return Err(refused("sslrootcert checks nothing without sslmode=verify-full"));
        }
        Some("disable") => (SslMode::Disable, Trust::AnyCertificate),
        None | Some("prefer" | "allow") => (SslMode::Prefer, Trust::AnyCertificate),
        Some(other) => {
            return Err(refused(format!(
                "sslmode is {other:?}; it can be disable, allow, prefer, require, verify-ca or \
                 verify-full"
            )));
        }
    })
}

fn decoded(value: &str) -> Result<String> {
    percent_decode_str(value)
        .decode_utf8()
        .map(|text| text.into_owned())
        .map_err(|_| refused(SHAPE))
}

fn address_of(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| {
        let port = ports.get(n).or_else(|| ports.first()).unwrap_or(&5432);
        match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    // As on the server: without a name, the database is named after the user.
    let database = config.get_dbname().or(config.get_user());
    format!("{}/{}", hosts.join(","), database.unwrap_or_default())
}

fn refused(problem: impl Into<String>) -> Error {
    Error::Refused {
        doing: "reading the URL of the store".to_owned(),
        problem: problem.into(),
        source: None,
    }
}
