//! What every page has around it.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

use crate::{access::Role, app::App, guard::Caller, problem::ProblemDetails};

/// A part of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NavSection {
    Overview,
    Partitions,
    Runs,
    Uploads,
    Pipelines,
    DeadLetters,
    Journal,
}

impl NavSection {
    const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::Overview, "/", "Overview"),
        (Self::Partitions, "/partitions", "Partitions"),
        (Self::Runs, "/runs", "Runs"),
        (Self::Uploads, "/uploads", "Uploads"),
        (Self::Pipelines, "/pipelines", "Pipelines"),
        (Self::DeadLetters, "/dead-letters", "Dead letters"),
        (Self::Journal, "/journal", "Journal"),
    ];
}

/// A page of the dashboard.
pub(super) struct DashboardPage {
    pub(super) place: NavSection,
    pub(super) title: String,
    pub(super) body: Markup,
    /// Whether it is kept up to date.
    pub(super) live: bool,
    /// The version of the figures on it.
    figures_of: Option<u64>,
}

impl DashboardPage {
    pub(super) fn new(place: NavSection, title: impl Into<String>, body: Markup) -> Self {
        Self { place, title: title.into(), body, live: true, figures_of: None }
    }

    /// One with figures on it, which may be older than the rest of it.
    pub(super) fn with_figures_of(self, version: u64) -> Self {
        Self { figures_of: Some(version), ..self }
    }

    /// One that shows what was asked for once.
    pub(super) fn still(self) -> Self {
        Self { live: false, ..self }
    }

    pub(super) fn render(self, app: &App, caller: &Caller) -> Response {
        // Nobody looks for it: at worst a page is told of what it shows already.
        let version = self.figures_of.unwrap_or(caller.version);
        let version = self.live.then(|| version.to_string());
        let Self { place, title, body, .. } = self;
        let nav = html! {
            @for (at, path, name) in NavSection::ALL {
                a href=(path) aria-current=[(at == place).then_some("page")] { (name) }
            }
        };
        let who = html! {
            @if version.is_some() { span id="live" role="status" { "as of now" } }
            @if caller.has_token() {
                span { (caller.role_name()) }
                form.inline method="post" action="/logout" { button type="submit" { "Sign out" } }
            }
        };
        let main = html! {
            main id="main" data-live=[version.as_deref()] { (body) }
        };
        document(&title, nav, who, main, &app.ops.store().describe())
    }
}

fn document(title: &str, nav: Markup, who: Markup, main: Markup, store: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Redrive" }
                link rel="stylesheet" href="/assets/style.css";
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                script src="/assets/live.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { div.bar {
                    a.name href="/" { "Redrive" }
                    nav aria-label="Parts" { (nav) }
                    div.who { (who) }
                } }
                (main)
                footer { "Redrive " (env!("CARGO_PKG_VERSION")) @if !store.is_empty() { " · " (store) } " · " a href="/openapi.json" { "API" } }
            }
        }
    };
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, html)], page.into_string()).into_response()
}

/// A page that says what went wrong.
pub(crate) fn failed(problem: &ProblemDetails) -> Response {
    let main = html! {
        main id="main" {
            section.problem {
                h1 { (problem.title()) }
                p { (problem.detail()) }
                @if let Some(allowed) = problem.what_is_allowed() { p.lead { "Allowed: " (allowed) } }
                p { a href="/" { "To the overview" } }
            }
        }
    };
    let nav = html! { @for (_, path, name) in NavSection::ALL { a href=(path) { (name) } } };
    let mut response = document(problem.title(), nav, html! {}, main, "");
    *response.status_mut() = problem.status();
    response
}

/// The page on which a token is entered.
pub(super) fn login(wrong: bool) -> Response {
    let main = html! {
        main id="main" {
            section.login {
                h1 { "Sign in" }
                p.lead { "This server asks for a token: that of the operator, or that of a viewer." }
                @if wrong { p role="alert" { span.pill.bad { "✗ that is not it" } } }
                form method="post" action="/login" {
                    div.actions {
                        label { "Token" input type="password" name="token" required autocomplete="current-password" autofocus; }
                        button.primary type="submit" { "Sign in" }
                    }
                }
            }
        }
    };
    let mut response = document("Sign in", html! {}, html! {}, main, "");
    if wrong {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    response
}

/// Whether someone may press buttons.
pub(super) fn may_act(caller: &Caller) -> bool {
    caller.role >= Role::Operator
}
