//! What an action did, on the page to which it leads. The address has it, so a reload shows it again and repeats nothing.

use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::{
    parts::{encoded, number},
    resource::title_case,
};

/// The parameter, as `ACTION:DONE:REFUSED`.
pub(crate) const NOTICE: &str = "did";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    action: String,
    done: u64,
    refused: u64,
}

impl Notice {
    pub(super) fn new(action: &str, done: u64, refused: u64) -> Self {
        Self { action: action.to_owned(), done, refused }
    }

    /// Reads the value of the parameter. Nothing but names and numbers: anybody can write an address.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let action = parts.next().filter(|name| name.chars().all(|c| c.is_ascii_lowercase()))?;
        let mut count = || parts.next()?.parse().ok();
        Some(Self::new(action, count()?, count()?)).filter(|_| action.len() <= 20)
    }

    /// Leads to a page that shows the notice.
    pub(super) fn redirect(&self, page: &str) -> Response {
        let sign = if page.contains('?') { '&' } else { '?' };
        let Self { action, done, refused } = self;
        let value = encoded(&format!("{action}:{done}:{refused}"));
        Redirect::to(&format!("{page}{sign}{NOTICE}={value}")).into_response()
    }

    pub(super) fn show(&self) -> Markup {
        let Self { action, done, refused } = self;
        html! { p.notice role="status" {
            @if action == "send" { "Sending " (number(*done)) " items; the list shows the result of each." }
            @else {
                (title_case(action)) ": " (number(*done)) " done"
                @if *refused > 0 { ", " (number(*refused)) " refused" } "."
            }
        } }
    }
}
