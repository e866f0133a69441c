//! Bulk actions, confirmed by the token of a dry run.
//!
//! A dry run returns the expected outcome for each unit, and a token: a digest of the action and the outcomes. The action
//! requires the token. When a matching unit has changed since the dry run, the tokens differ and nothing is done.

use axum::http::StatusCode;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{problem::ProblemDetails, problem_kind::ProblemKind};

/// The most units of one action. The command line, which works in pages, has no limit.
pub(crate) const MAX_UNITS: usize = 10_000;

/// Actions on at most this many explicit ids need no token.
const MAX_UNCONFIRMED: usize = 20;

/// How an action is confirmed.
#[derive(Debug)]
pub(crate) struct Confirmation {
    pub(crate) dry_run: bool,
    pub(crate) token: Option<String>,
    /// Whether the request lists the units.
    pub(crate) by_id: bool,
}

/// The outcome of a bulk action, or the expected outcome of a dry run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BulkOutcome<T> {
    /// True when nothing was changed.
    dry_run: bool,
    /// For a dry run: the token that confirms these changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// Number of changes.
    count: usize,
    /// The outcome of each unit.
    changes: Vec<T>,
}

/// Returns the response to a dry run, or `None` when the action is confirmed. `action` contains every parameter that
/// affects the outcome.
pub(crate) fn confirm<T: Serialize>(
    action: &str,
    expected: Vec<T>,
    confirmation: &Confirmation,
) -> Result<Option<BulkOutcome<T>>, ProblemDetails> {
    let count = expected.len();
    if count == 0 {
        return Err(nothing_matches());
    }
    if count > MAX_UNITS {
        let what = format!("more than {MAX_UNITS} units match; nothing was changed");
        return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
            .allowed("a narrower filter, or the command line, which has no limit"));
    }
    let digest = ConfirmationToken::of(action, &expected);
    if confirmation.dry_run {
        let token = Some(digest.token());
        return Ok(Some(BulkOutcome { dry_run: true, token, count, changes: expected }));
    }
    match &confirmation.token {
        None if confirmation.by_id && count <= MAX_UNCONFIRMED => {}
        token => digest.check(token.as_deref())?,
    }
    Ok(None)
}

pub(crate) fn nothing_matches() -> ProblemDetails {
    let what = "no unit matches; nothing was changed";
    ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
}

/// A digest of an action and its expected outcome.
pub(crate) struct ConfirmationToken(String);

impl ConfirmationToken {
    pub(crate) fn of<T: Serialize>(action: &str, expected: impl IntoIterator<Item = T>) -> Self {
        let mut digest = Sha256::new_with_prefix(action);
        for unit in expected {
            digest.update([0]);
            digest.update(serde_json::to_vec(&unit).unwrap_or_default());
        }
        let digest = digest.finalize();
        Self(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn token(&self) -> String {
        self.0.clone()
    }

    /// Rejects a missing token, and the token of another outcome.
    pub(crate) fn check(&self, token: Option<&str>) -> Result<(), ProblemDetails> {
        match token {
            Some(token) if token == self.0 => Ok(()),
            Some(_) => {
                let what = "the matching units have changed since the dry run; nothing was changed";
                Err(ProblemDetails::new(StatusCode::CONFLICT, what)
                    .kind(ProblemKind::SelectionChanged)
                    .allowed("the token of a new dry run"))
            }
            None => {
                let what = "the action requires the token of a dry run; nothing was changed";
                Err(ProblemDetails::new(StatusCode::PRECONDITION_REQUIRED, what)
                    .allowed("`dry_run: true` first, then the action with its `token`"))
            }
        }
    }
}

/// Identifies the data that a form shows, so that it cannot overwrite a newer edit.
pub(crate) fn data_token(data: &str) -> String {
    ConfirmationToken::of("edit", [data]).token()
}

impl<T> BulkOutcome<T> {
    pub(crate) fn changes(&self) -> &[T] {
        &self.changes
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(crate) fn done(changes: Vec<T>) -> Self {
        Self { dry_run: false, token: None, count: changes.len(), changes }
    }
}
