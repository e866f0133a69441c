//! `[store]`: the database.

use std::fmt;

use toml::de::DeValue;

use super::{
    handler::env_name,
    reader::{Section, Value},
    value::{text, word},
};
use crate::StoreUrl;
pub use crate::stores::SynchronousMode;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreConfig {
    pub url: Option<StoreLocation>,
    pub synchronous: SynchronousMode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// A relative path is resolved from the folder of the file.
    Url(StoreUrl),
    /// The environment variable that holds the URL.
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

impl SynchronousMode {
    const WORDS: [(&str, Self); 2] = [("full", Self::Full), ("normal", Self::Normal)];

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

/// A URL with a password must come from the environment.
fn location(value: Value<'_>) -> Option<StoreLocation> {
    if let DeValue::Table(_) = value.node {
        let env = value.table(|s| s.require("env", env_name))?;
        return Some(StoreLocation::Env(env));
    }
    match text(value.clone())?.parse::<StoreUrl>() {
        Ok(url) if url.has_password() => value.refuse_secret(
            "a password must not be in the file",
            "take the URL from the environment",
            "write url = { env = \"DATABASE_URL\" }",
        ),
        Ok(url) => Some(StoreLocation::Url(url)),
        Err(error) => value.refuse(error.problem(), error.allowed()),
    }
}
