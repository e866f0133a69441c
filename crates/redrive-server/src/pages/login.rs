//! Signing in with a token, for browsers.

use axum::{
    Extension,
    http::{HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::layout;
use crate::{
    app::AppState,
    extract::Form,
    guard::{COOKIE, Caller},
};

/// What is entered.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
}

/// Asks for a token.
pub(super) async fn ask(Extension(caller): Extension<Caller>) -> Response {
    if caller.is_anonymous() { layout::login(false) } else { Redirect::to("/").into_response() }
}

/// Lets someone in. The token is kept where no script sees it and no other site sends it.
pub(super) async fn sign_in(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(entered): Form<LoginForm>,
) -> Response {
    let (from, now) = (caller.from, app.ops.now());
    if !app.guesses.allows(from, now) {
        return app.too_many_guesses().into_response();
    }
    if app.access.role_of(&entered.token).is_none() {
        app.guesses.count(from, now);
        return layout::login(true);
    }
    let token = utf8_percent_encode(&entered.token, NON_ALPHANUMERIC);
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    let Ok(cookie) = HeaderValue::from_str(&cookie) else { return layout::login(true) };
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// Forgets the token.
pub(super) async fn sign_out() -> Response {
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    let cookie = HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""));
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
