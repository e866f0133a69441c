//! What a doctor found.

use serde::Serialize;

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckupView {
    /// What.
    pub check: &'static str,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Nothing is wrong, and somebody should know all the same.
    pub warning: bool,
    /// What was found.
    pub detail: String,
}

impl CheckupView {
    /// How it is, in a word.
    pub fn state(&self) -> &'static str {
        match (self.ok, self.warning) {
            (true, false) => "ok",
            (true, true) => "warning",
            (false, _) => "WRONG",
        }
    }
}
