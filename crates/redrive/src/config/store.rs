//! `[store]`: where state is kept.

use std::fmt;

use toml::de::DeValue;

use super::{
    handler::env_name,
    reader::{Section, Value},
    value::{text, word},
};
use crate::StoreUrl;

/// What the file says of the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreConfig {
    /// Which store, if the file says.
    pub url: Option<StoreLocation>,
    /// How hard SQLite tries to survive a power cut.
    pub synchronous: SynchronousMode,
}

/// A store, by its URL or by the environment variable that holds the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// The URL itself; a relative path counts from the folder of the file.
    Url(StoreUrl),
    /// The name of an environment variable.
    Env(String),
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Env(name) => write!(f, "${name}"),
        }
    }
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SynchronousMode {
    /// At every commit: nothing acknowledged is lost, whatever happens.
    #[default]
    Full,
    /// At checkpoints: a power cut may lose the last commits, a crash of the program none.
    Normal,
}

impl SynchronousMode {
    const WORDS: [(&str, Self); 2] = [("full", Self::Full), ("normal", Self::Normal)];

    /// The word used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

impl StoreConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let url = s.get("url", location);
        let synchronous = s.get("synchronous", word(&SynchronousMode::WORDS));
        Some(Self { url, synchronous: synchronous.unwrap_or_default() })
    }
}

/// Secrets have no place in the file, so a URL with a password comes from the environment.
fn location(value: Value<'_>) -> Option<StoreLocation> {
    if let DeValue::Table(_) = value.node {
        let env = value.table(|s| s.require("env", env_name))?;
        return Some(StoreLocation::Env(env));
    }
    match text(value.clone())?.parse::<StoreUrl>() {
        Ok(url) if url.has_password() => value.refuse_secret(
            "a password must not stand in the file",
            "take the URL from the environment",
            "write url = { env = \"DATABASE_URL\" }",
        ),
        Ok(url) => Some(StoreLocation::Url(url)),
        Err(error) => value.refuse(error.problem(), error.allowed()),
    }
}
