//! The kinds of problems, which programs tell apart by `type`.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($($variant:ident => $name:literal,)*) => {
        /// What went wrong, as a URN in the `type` of a problem. `docs/api.md` lists all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ProblemKind { $($variant),* }

        impl ProblemKind {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            pub(crate) fn urn(self) -> &'static str {
                match self { $(Self::$variant => concat!("urn:redrive:problem:", $name)),* }
            }
        }
    };
}

kinds! {
    InvalidRequest => "invalid-request",
    UndeclaredName => "undeclared-name",
    Unauthorized => "unauthorized",
    Forbidden => "forbidden",
    NotFound => "not-found",
    MethodNotAllowed => "method-not-allowed",
    RequestTimeout => "request-timeout",
    Conflict => "conflict",
    KeyConflict => "idempotency-key-conflict",
    NotReadable => "partition-not-readable",
    TooLarge => "too-large",
    UnsupportedMediaType => "unsupported-media-type",
    WrongHost => "wrong-host",
    NotPossible => "not-possible",
    ConfirmationRequired => "confirmation-required",
    TooManyRequests => "too-many-requests",
    TooManyWrongTokens => "too-many-wrong-tokens",
    TooManyConnections => "too-many-connections",
    StoreUnavailable => "store-unavailable",
    StoreFailed => "store-failed",
    Unavailable => "unavailable",
}

impl ProblemKind {
    /// The kind of a problem that has only its status.
    pub(crate) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            408 => Self::RequestTimeout,
            409 | 410 => Self::Conflict,
            413 | 431 => Self::TooLarge,
            415 => Self::UnsupportedMediaType,
            421 => Self::WrongHost,
            422 => Self::NotPossible,
            428 => Self::ConfirmationRequired,
            429 => Self::TooManyRequests,
            500 => Self::StoreFailed,
            503 => Self::Unavailable,
            _ => Self::InvalidRequest,
        }
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.urn())
    }
}

#[cfg(test)]
mod tests {
    use super::ProblemKind;

    #[test]
    fn every_kind_is_documented() {
        let page = include_str!("../../../docs/api.md");
        for kind in ProblemKind::ALL {
            let name = kind.urn().trim_start_matches("urn:redrive:problem:");
            assert!(page.contains(&format!("| `{name}` |")), "docs/api.md lacks {name}");
        }
    }
}
