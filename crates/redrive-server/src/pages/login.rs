//! Sign in and sign out, for browsers.

use axum::{
    Extension,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::layout::{self, LoginNotice};
use crate::{
    access::Role,
    app::AppState,
    extract::{Form, QueryParams},
    guard::{COOKIE, Caller, is_local},
    problem::ProblemDetails,
    sessions::SESSION_LIFETIME,
};

#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
pub(super) struct LoginQuery {
    #[serde(default)]
    next: String,
}

/// The page that was requested before the sign-in.
fn next_page(next: &str) -> &str {
    if is_local(next) { next } else { "/" }
}

pub(super) async fn show(
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<LoginQuery>,
) -> Response {
    let next = next_page(&query.next);
    match (caller.is_anonymous(), &caller.session) {
        (false, _) => Redirect::to(next).into_response(),
        (true, Some(_)) => layout::login(LoginNotice::SessionEnded, next),
        (true, None) => layout::login(LoginNotice::None, next),
    }
}

/// Starts a session, in a cookie that scripts cannot read and other sites cannot send.
pub(super) async fn sign_in(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<LoginForm>,
) -> Response {
    let next = next_page(&form.next);
    let Some(token) = app.access.find(&form.token) else {
        let problem = app.count_wrong_token(caller.client.ip);
        return problem.map_or_else(
            || layout::login(LoginNotice::WrongToken, next),
            IntoResponse::into_response,
        );
    };
    if token.role == Role::Submitter {
        return layout::login(LoginNotice::SubmitOnly, next);
    }
    let Ok(session) = app.sessions.start(&token.token, app.ops.now()) else {
        let what = "the operating system returned no random bytes; try again";
        return ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
    };
    with_cookie(&session, SESSION_LIFETIME.as_secs(), &caller, Redirect::to(next))
}

pub(super) async fn sign_out(app: AppState, Extension(caller): Extension<Caller>) -> Response {
    if let Some(session) = &caller.session {
        app.sessions.end(session);
    }
    with_cookie("", 0, &caller, Redirect::to("/login"))
}

fn with_cookie(value: &str, seconds: i64, caller: &Caller, to: Redirect) -> Response {
    // Over plain HTTP, on this machine, a browser would not send a `Secure` cookie.
    let secure = if caller.client.is_https { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    // Hexadecimal digits and fixed text are always valid.
    let cookie = HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""));
    ([(header::SET_COOKIE, cookie)], to).into_response()
}
