//! Changing many at once: look first, then say yes to exactly what was seen.
//!
//! A dry run answers with what would become of each unit and with a token that names the action and all of
//! that. The action itself needs the token: if anything that matches has changed meanwhile, the tokens
//! differ, and nothing is done.

use axum::http::StatusCode;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::problem::ProblemDetails;

/// The most units of one action. More is a job for the command line, which goes through them page by page.
pub(crate) const MAX_UNITS: usize = 10_000;

/// So many units that are named one by one need no token.
const UNASKED: usize = 20;

/// How an action is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct BulkOptions {
    /// Only say what would become of each, and how to say yes to it.
    pub(crate) dry_run: bool,
    /// What the dry run answered. Up to 20 units that are named one by one need none.
    pub(crate) token: Option<String>,
    /// Why, for the journal.
    pub(crate) reason: Option<String>,
}

/// What became of each unit, or would.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BulkOutcome<T> {
    /// Whether nothing was done yet.
    dry_run: bool,
    /// Of a dry run: what to send to have exactly this done.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// How many there are.
    count: usize,
    /// Each of them.
    changes: Vec<T>,
}

/// The answer to a dry run, or none if the action may be done: it is named with all that bears on it, beside what would
/// become of each unit. `named` says that units are named one by one.
pub(crate) fn seen<T: Serialize>(
    action: &str,
    foreseen: Vec<T>,
    how: &BulkOptions,
    named: bool,
) -> Result<Option<BulkOutcome<T>>, ProblemDetails> {
    let count = foreseen.len();
    if count == 0 {
        return Err(nothing_matches());
    }
    if count > MAX_UNITS {
        let what = format!("more than {MAX_UNITS} match; nothing was changed");
        return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
            .allowed("a narrower filter, or the command line, which takes any number"));
    }
    let sight = ConfirmationToken::of(action, &foreseen);
    if how.dry_run {
        let token = Some(sight.token());
        return Ok(Some(BulkOutcome { dry_run: true, token, count, changes: foreseen }));
    }
    match &how.token {
        None if named && count <= UNASKED => {}
        token => sight.confirm(token.as_deref())?,
    }
    Ok(None)
}

/// What is said where there is nothing to do.
pub(crate) fn nothing_matches() -> ProblemDetails {
    let what = "nothing matches; nothing was changed";
    ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
}

/// What was seen, in so few characters that it can be sent back.
pub(crate) struct ConfirmationToken(String);

impl ConfirmationToken {
    /// From the name of an action with all that bears on it, and all that was seen.
    pub(crate) fn of<T: Serialize>(action: &str, seen: impl IntoIterator<Item = T>) -> Self {
        let mut digest = Sha256::new_with_prefix(action);
        for unit in seen {
            digest.update([0]);
            digest.update(serde_json::to_vec(&unit).unwrap_or_default());
        }
        let digest = digest.finalize();
        Self(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// What to send to have exactly this done.
    pub(crate) fn token(&self) -> String {
        self.0.clone()
    }

    /// Goes on if whoever asks has seen the same.
    pub(crate) fn confirm(&self, token: Option<&str>) -> Result<(), ProblemDetails> {
        match token {
            Some(token) if token == self.0 => Ok(()),
            Some(_) => {
                let what = "what matches is not what the dry run saw; nothing was changed";
                Err(ProblemDetails::new(StatusCode::CONFLICT, what)
                    .allowed("another dry run, and its token"))
            }
            None => {
                let what = "this takes the token of a dry run; nothing was changed";
                Err(ProblemDetails::new(StatusCode::PRECONDITION_REQUIRED, what)
                    .allowed("`dry_run: true` first, then `token` with what it answers"))
            }
        }
    }
}

impl<T> BulkOutcome<T> {
    /// Each of them.
    pub(crate) fn changes(&self) -> &[T] {
        &self.changes
    }

    /// Of a dry run: what to send to have exactly this done.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// What was done.
    pub(crate) fn done(changes: Vec<T>) -> Self {
        Self { dry_run: false, token: None, count: changes.len(), changes }
    }
}
