//! Checks the environment variables that a configuration takes secrets from.

use std::env;

use redrive_engine::{HeaderSource, HttpSpec};

use crate::{
    config::{Config, HandlerConfig, TokenDigest},
    named_files::handlers,
};

/// An environment variable that the configuration needs and that is not set, or empty. A worker or server that needs
/// the variable does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingVariable {
    pub variable: String,
    /// What names the variable, such as `queue notify`.
    pub place: String,
    /// What needs its value, such as `header authorization`.
    pub used_for: String,
}

/// The variables that are missing in this process. Another process may have another environment.
pub fn missing_variables(config: &Config) -> Vec<MissingVariable> {
    let mut used = Vec::new();
    for (place, handler) in handlers(config) {
        if let HandlerConfig::Http(http) = handler {
            used.extend(of_headers(&place, &http.request));
        }
    }
    for upload in &config.uploads {
        used.extend(of_headers(&format!("upload {}", upload.name), &upload.request));
    }
    let server = &config.server;
    for (key, variable) in
        [("operator-token", &server.operator_token), ("viewer-token", &server.viewer_token)]
    {
        used.extend(variable.as_deref().map(|variable| of_server(key.to_owned(), variable)));
    }
    for token in &server.tokens {
        if let TokenDigest::Env(variable) = &token.digest {
            used.push(of_server(format!("token {}", token.name), variable));
        }
    }
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    used.retain(|used| !is_set(&used.variable));
    used
}

fn of_headers(place: &str, request: &HttpSpec) -> Vec<MissingVariable> {
    let headers = request.headers.iter().filter_map(|(name, source)| match source {
        HeaderSource::Env { variable, .. } => Some(MissingVariable {
            variable: variable.clone(),
            place: place.to_owned(),
            used_for: format!("header {name}"),
        }),
        HeaderSource::Literal(_) => None,
    });
    headers.collect()
}

fn of_server(used_for: String, variable: &str) -> MissingVariable {
    MissingVariable { variable: variable.to_owned(), place: "server".to_owned(), used_for }
}
