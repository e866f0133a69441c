//! Values that nobody may read in what programs and servers say.

use std::{borrow::Cow, fmt};

/// Shorter values are not redacted: they would match in half of all texts.
const MIN_SECRET_BYTES: usize = 4;

/// What the name of a variable with a secret contains.
const SECRET_NAMES: [&str; 8] =
    ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "DSN"];

/// Secrets, each with the environment variable that holds it.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Secret>);

struct Secret {
    variable: String,
    value: String,
}

impl Secrets {
    pub(crate) fn add(&mut self, variable: &str, value: &str) {
        if value.len() >= MIN_SECRET_BYTES {
            let (variable, value) = (variable.to_owned(), value.to_owned());
            self.0.push(Secret { variable, value });
        }
    }

    /// Those of the variables that hold a secret by their name, or a URL with a password.
    pub(crate) fn among<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut secrets = Self::default();
        for (variable, value) in variables {
            let name = variable.to_ascii_uppercase();
            let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part))
                || value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
            if is_secret {
                secrets.add(variable, value);
            }
        }
        secrets
    }

    /// Replaces every secret by the name of its variable.
    pub(crate) fn redact<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(&secret.value) {
                text.replace(&secret.value, &format!("[${}]", secret.variable)).into()
            } else {
                text
            }
        })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|secret| &secret.variable)).finish()
    }
}
