//! The layout of every page.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};
use redrive_core::Message;

use super::parts::address;
use crate::{access::Role, app::App, guard::Caller, problem::ProblemDetails};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NavSection {
    Overview,
    Causes,
    Partitions,
    Runs,
    Uploads,
    Pipelines,
    DeadLetters,
    Plans,
    Gates,
    Workers,
    Journal,
}

impl NavSection {
    const ALL: [(Self, &'static str, &'static str); 11] = [
        (Self::Overview, "/", "Overview"),
        (Self::Causes, "/causes", "Causes"),
        (Self::Partitions, "/partitions", "Partitions"),
        (Self::Runs, "/runs", "Runs"),
        (Self::Uploads, "/uploads", "Uploads"),
        (Self::Pipelines, "/pipelines", "Pipelines"),
        (Self::DeadLetters, "/dead-letters", "Dead letters"),
        (Self::Plans, "/plans", "Plans"),
        (Self::Gates, "/gates", "Gates"),
        (Self::Workers, "/workers", "Workers"),
        (Self::Journal, "/journal", "Journal"),
    ];
}

pub(super) struct DashboardPage {
    pub(super) section: NavSection,
    pub(super) title: String,
    pub(super) body: Markup,
    /// Whether the script keeps the page up to date.
    pub(super) live: bool,
    /// Whether the page has rows, to which a link leads at its start.
    has_rows: bool,
    /// The version of the overview on the page.
    overview_version: Option<u64>,
}

impl DashboardPage {
    pub(super) fn new(section: NavSection, title: impl Into<String>, body: Markup) -> Self {
        Self {
            section,
            title: title.into(),
            body,
            live: true,
            has_rows: false,
            overview_version: None,
        }
    }

    /// For a page that renders a cached overview, which may be older than the rest of the page.
    pub(super) fn with_overview_version(self, version: u64) -> Self {
        Self { overview_version: Some(version), ..self }
    }

    /// For a list: the element `rows` has them.
    pub(super) fn with_rows(self) -> Self {
        Self { has_rows: true, ..self }
    }

    /// For the result of an action, which does not change.
    pub(super) fn not_live(self) -> Self {
        Self { live: false, ..self }
    }

    pub(super) fn render(self, app: &App, caller: &Caller) -> Response {
        // An older version at worst causes one refresh without changes.
        let version = self.overview_version.unwrap_or(caller.version);
        let version = self.live.then(|| version.to_string());
        let Self { section, title, body, has_rows, .. } = self;
        let nav = html! {
            @for (at, path, name) in NavSection::ALL {
                a href=(path) aria-current=[(at == section).then_some("page")] { (name) }
            }
        };
        let account = html! {
            @if version.is_some() { span id="live" role="status" { "as of now" } }
            @if caller.has_token() {
                span { (caller.name()) }
                form.inline method="post" action="/logout" { button type="submit" { "Sign out" } }
            }
        };
        let main = html! {
            main id="main" data-live=[version.as_deref()] {
                @if let Some(notice) = &caller.notice { (notice.show()) }
                (body)
            }
        };
        let parts = DocumentParts { nav, account, main, has_rows };
        document(&title, parts, &app.ops.store().describe())
    }
}

/// What differs between pages.
#[derive(Default)]
struct DocumentParts {
    nav: Markup,
    account: Markup,
    main: Markup,
    has_rows: bool,
}

fn document(title: &str, parts: DocumentParts, store: &str) -> Response {
    let DocumentParts { nav, account, main, has_rows } = parts;
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
                script src="/assets/keys.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                @if has_rows { a.skip href="#rows" { "Skip to the rows" } }
                header { div.bar {
                    a.name href="/" { "Redrive" }
                    nav aria-label="Sections" { (nav) }
                    div.who { (account) }
                } }
                (main)
                footer { "Redrive " (env!("CARGO_PKG_VERSION")) @if !store.is_empty() { " · " (store) } " · " a href="/openapi.json" { "API" } }
            }
        }
    };
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, html)], escape_invisible(&page.into_string())).into_response()
}

/// Makes control and bidirectional characters of names visible, as `Message` does for messages: they could make a page
/// say something else. Attributes stay as they are, because forms send them back.
fn escape_invisible(page: &str) -> String {
    let mut escaped = String::with_capacity(page.len());
    let mut in_tag = false;
    for c in page.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            // A form field of JSON reads this escape as the same character.
            c if !in_tag && Message::must_escape(c) => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
                continue;
            }
            _ => {}
        }
        escaped.push(c);
    }
    escaped
}

/// The list to which a path belongs, or else the overview.
pub(crate) fn list_of(path: &str) -> &'static str {
    let lists = NavSection::ALL.iter().map(|(_, list, _)| *list).filter(|list| *list != "/");
    lists.into_iter().find(|list| path.starts_with(list)).unwrap_or("/")
}

/// What a person can do about a problem.
fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::FORBIDDEN => {
            "Sign in with a token that allows this; `redrive token` makes one."
        }
        StatusCode::NOT_FOUND => "Check the id. A unit that was pruned is only in the journal.",
        StatusCode::CONFLICT => {
            "Go back, reload the page, and repeat the change on what is there now."
        }
        StatusCode::UNPROCESSABLE_ENTITY => {
            "Go back and change the filters so that they match something."
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            "Reload the page in a few seconds. `redrive doctor` says whether the store is well."
        }
        status if status.is_server_error() => {
            "The log of the server has the cause; `redrive doctor` checks the store."
        }
        _ => "Go back and correct the value.",
    }
}

pub(crate) fn problem_page(problem: &ProblemDetails, back: &str) -> Response {
    let main = html! {
        main id="main" {
            section.problem {
                h1 { (problem.title()) }
                p { (problem.detail()) }
                @if let Some(allowed) = problem.allowed_values() { p.lead { "Allowed: " (allowed) } }
                p { (advice(problem.status())) }
                p { a href=(back) { "Go back" } " · " a href="/" { "Go to the overview" } }
            }
        }
    };
    let nav = html! { @for (_, path, name) in NavSection::ALL { a href=(path) { (name) } } };
    let parts = DocumentParts { nav, main, ..DocumentParts::default() };
    let mut response = document(problem.title(), parts, "");
    *response.status_mut() = problem.status();
    response
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginNotice {
    None,
    WrongToken,
    /// The session is over, or its token was changed or revoked.
    SessionEnded,
    SubmitOnly,
}

/// The login page that leads to a page.
pub(crate) fn login_address(page: &str) -> String {
    let next = (page != "/").then_some(("next", page));
    address("/login", next)
}

pub(super) fn login(notice: LoginNotice, next: &str) -> Response {
    let (status, notice) = match notice {
        LoginNotice::None => (StatusCode::OK, None),
        LoginNotice::WrongToken => (StatusCode::UNAUTHORIZED, Some("✗ wrong token")),
        LoginNotice::SessionEnded => {
            (StatusCode::OK, Some("Your session has ended: sign in again"))
        }
        LoginNotice::SubmitOnly => {
            (StatusCode::FORBIDDEN, Some("✗ this token may only submit runs"))
        }
    };
    let main = html! {
        main id="main" {
            section.login {
                h1 { "Sign in" }
                p.lead { "Enter a token of an operator or a viewer." }
                @if let Some(notice) = notice { p role="alert" { span.pill.bad { (notice) } } }
                form method="post" action="/login" {
                    input type="hidden" name="next" value=(next);
                    div.actions {
                        label { "Token" input type="password" name="token" required autocomplete="current-password" autofocus; }
                        button.primary type="submit" { "Sign in" }
                    }
                }
            }
        }
    };
    let parts = DocumentParts { main, ..DocumentParts::default() };
    let mut response = document("Sign in", parts, "");
    *response.status_mut() = status;
    response
}

pub(super) fn may_act(caller: &Caller) -> bool {
    caller.role == Role::Operator
}
