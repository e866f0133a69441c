//! The view of one check of `redrive doctor`.

use serde::Serialize;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckupView {
    /// The name of the check.
    pub check: &'static str,
    /// False when the check found an error.
    pub ok: bool,
    /// The check passed, with a warning in `detail`.
    pub warning: bool,
    pub detail: String,
}

impl CheckupView {
    pub fn state(&self) -> &'static str {
        match (self.ok, self.warning) {
            (true, false) => "ok",
            (true, true) => "warning",
            (false, _) => "WRONG",
        }
    }
}
