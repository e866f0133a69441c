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
    app::Shared,
    extract::Form,
    guard::{COOKIE, Visitor},
};

/// What is entered.
#[derive(Deserialize)]
pub(super) struct Entered {
    token: String,
}

/// Asks for a token.
pub(super) async fn ask(Extension(visitor): Extension<Visitor>) -> Response {
    if visitor.is_stranger() { layout::login(false) } else { Redirect::to("/").into_response() }
}

/// Lets someone in. The token is kept where no script sees it and no other site sends it.
pub(super) async fn sign_in(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Form(entered): Form<Entered>,
) -> Response {
    let (from, now) = (visitor.from, app.ops.now());
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
