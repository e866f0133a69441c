//! Signing in with a token, for browsers.

use axum::{
    Extension,
    extract::Form,
    http::{HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::layout;
use crate::{
    app::Shared,
    guard::{COOKIE, Visitor},
    problem::Problem,
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
pub(super) async fn sign_in(app: Shared, Form(entered): Form<Entered>) -> Response {
    if !app.guesses.allow(app.desk.now()) {
        return layout::failed(&Problem::too_many("too many tokens were tried; wait a minute"));
    }
    if app.access.role_of(&entered.token).is_none() {
        app.guesses.count(app.desk.now());
        return layout::login(true);
    }
    let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", entered.token);
    let Ok(cookie) = HeaderValue::from_str(&cookie) else { return layout::login(true) };
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// Forgets the token.
pub(super) async fn sign_out() -> Response {
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    let cookie = HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static(""));
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
