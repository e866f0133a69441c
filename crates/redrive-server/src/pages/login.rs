//! Sign in and sign out, for browsers.

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

#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
}

pub(super) async fn show(Extension(caller): Extension<Caller>) -> Response {
    if caller.is_anonymous() { layout::login(false) } else { Redirect::to("/").into_response() }
}

/// Stores the token in a cookie that scripts cannot read and other sites cannot send.
pub(super) async fn sign_in(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<LoginForm>,
) -> Response {
    let (from, now) = (caller.from, app.ops.now());
    if !app.wrong_tokens.allows(from, now) {
        return app.too_many_wrong_tokens().into_response();
    }
    if app.access.role_of(&form.token).is_none() {
        app.wrong_tokens.count(from, now);
        return layout::login(true);
    }
    let token = utf8_percent_encode(&form.token, NON_ALPHANUMERIC);
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    let Ok(cookie) = HeaderValue::from_str(&cookie) else { return layout::login(true) };
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

pub(super) async fn sign_out() -> Response {
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    let cookie = HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""));
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
