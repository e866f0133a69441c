//! The middleware of every request: limits, host, token, origin and role; and the security headers of every response.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};

use percent_encoding::percent_decode_str;
use redrive_core::Message;

use crate::{access::Role, app::App, connections::MAX_HEAD_BYTES, pages, problem::ProblemDetails};

/// Holds the token of a browser.
pub(crate) const COOKIE: &str = "redrive_token";

/// Pages load only the styles and scripts of this server, and no other site may frame them.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names the person behind a shared token, for the journal.
const ACTOR: HeaderName = HeaderName::from_static("redrive-actor");

const MAX_ACTOR_CHARS: usize = 100;

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// `operator`, `viewer`, `local` or `anonymous`.
    name: &'static str,
    /// From the `Redrive-Actor` header.
    actor_name: Option<String>,
    is_browser: bool,
    pub(crate) from: IpAddr,
    /// The version of the overview when the request arrived. The response is no older.
    pub(crate) version: u64,
}

/// A caller without a token, on a route that needs none.
const ANONYMOUS: &str = "anonymous";

/// Any caller when no token is configured.
const LOCAL: &str = "local";

impl Caller {
    pub(crate) fn has_token(&self) -> bool {
        self.name != LOCAL && !self.is_anonymous()
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub(crate) fn role_name(&self) -> &'static str {
        self.name
    }

    /// The name in the journal.
    pub(crate) fn actor(&self) -> String {
        let channel = if self.is_browser { "dashboard" } else { "api" };
        let name = self.name;
        match &self.actor_name {
            Some(actor) => format!("{actor} ({channel}, {name})"),
            None => format!("{name} ({channel})"),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: Arc<App>,
    pub(crate) listening: SocketAddr,
}

pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let wants_html = wants_html(&request);
    let response = match guard.authorize(&request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(guard.app.limits);
            next.run(request).await
        }
        Err(refusal) => *refusal,
    };
    let mut response = if wants_html { problem_page(response) } else { response };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether a browser loads a page. Programs accept JSON or anything.
fn wants_html(request: &Request) -> bool {
    let accept = text(request.headers(), &header::ACCEPT).unwrap_or_default();
    accept.contains("text/html") && !request.uri().path().starts_with("/v1/")
}

/// Replaces a problem with an HTML page.
fn problem_page(mut response: Response) -> Response {
    let Some(problem) = response.extensions_mut().remove::<ProblemDetails>() else {
        return response;
    };
    let mut page = pages::problem_page(&problem);
    for (name, value) in response.headers() {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

impl Guard {
    /// Rejects every token of an address that sent too many wrong ones.
    fn role_of(&self, token: &str, from: IpAddr) -> Result<Option<Role>, Box<Response>> {
        let (now, wrong_tokens) = (self.app.ops.now(), &self.app.wrong_tokens);
        if !wrong_tokens.allows(from, now) {
            return Err(Box::new(self.app.too_many_wrong_tokens().into_response()));
        }
        let role = self.app.access.role_of(token);
        if role.is_none() {
            wrong_tokens.count(from, now);
        }
        Ok(role)
    }

    fn authorize(&self, request: &Request) -> Result<Caller, Box<Response>> {
        let headers = request.headers();
        let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        if headers.iter().map(line).sum::<usize>() > MAX_HEAD_BYTES {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let problem = ProblemDetails::new(status, "the headers are too large");
            return Err(Box::new(problem.allowed("up to 64 KiB").into_response()));
        }
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let from = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
        if !self.app.requests.count(from, self.app.ops.now()) {
            let what = "too many requests from this address; send fewer, or more units in each";
            let problem = ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, what).retry_after(1);
            return Err(Box::new(problem.into_response()));
        }
        let host = text(headers, &header::HOST).or(request.uri().host());
        let Some(host) = host.filter(|host| self.app.access.allows_host(host, self.listening))
        else {
            let what =
                "the Host header does not name this server; add the name to `hosts` in [server]";
            return Err(Box::new(
                ProblemDetails::new(StatusCode::MISDIRECTED_REQUEST, what).into_response(),
            ));
        };
        let path = request.uri().path();
        let open = matches!(path, "/healthz" | "/readyz")
            || path.starts_with("/assets/")
            || path == "/login";
        let (token, cookie) = token_of(headers);
        let is_browser = headers.contains_key(SEC_FETCH_SITE);
        let version = self.app.watch.version();
        let caller = |role, name| Caller {
            role,
            name,
            actor_name: actor_name(headers),
            is_browser,
            from,
            version,
        };
        let needed = token.as_deref().filter(|_| self.app.access.needs_token());
        let role = needed.map(|token| self.role_of(token, from)).transpose()?.flatten();
        let caller = match role {
            _ if !self.app.access.needs_token() => caller(Role::Operator, LOCAL),
            Some(Role::Operator) => caller(Role::Operator, "operator"),
            Some(Role::Viewer) => caller(Role::Viewer, "viewer"),
            None if open => caller(Role::Viewer, ANONYMOUS),
            _ => return Err(Box::new(unauthorized(path))),
        };
        let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if safe {
            return Ok(caller);
        }
        if (cookie || token.is_none()) && !is_same_origin(headers, host) {
            let what = "requests from pages of other sites may not change anything";
            let problem = ProblemDetails::new(StatusCode::FORBIDDEN, what).allowed(
                "pages of this server, or programs that send a Content-Type such as application/json",
            );
            return Err(Box::new(problem.into_response()));
        }
        if caller.role < Role::Operator && !matches!(path, "/login" | "/logout") {
            let what = "the viewer token may only read; actions need the operator token";
            return Err(Box::new(ProblemDetails::new(StatusCode::FORBIDDEN, what).into_response()));
        }
        Ok(caller)
    }
}

/// The token of a request, and whether it came from a cookie.
fn token_of(headers: &HeaderMap) -> (Option<String>, bool) {
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    if bearer.is_some() {
        return (bearer, false);
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';'));
    let cookie = pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    let cookie = cookie.and_then(|value| percent_decode_str(value).decode_utf8().ok());
    (cookie.as_deref().map(str::to_owned), cookie.is_some())
}

/// Whether a change comes from a page of this server or from a program. Browsers state the origin, and a form of
/// another site cannot send JSON without a preflight request.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = text(headers, &SEC_FETCH_SITE) {
        return matches!(site, "same-origin" | "none");
    }
    if let Some(origin) = text(headers, &header::ORIGIN) {
        let named = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        return named.is_some_and(|named| named.eq_ignore_ascii_case(host));
    }
    let kind = text(headers, &header::CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    !kind.starts_with("application/x-www-form-urlencoded")
        && !kind.starts_with("multipart/")
        && !kind.starts_with("text/plain")
}

/// The `Redrive-Actor` header, without control characters.
fn actor_name(headers: &HeaderMap) -> Option<String> {
    let name = Message::clean(text(headers, &ACTOR)?).to_string();
    let name: String = name.chars().take(MAX_ACTOR_CHARS).collect();
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A browser is redirected to the login page; a program gets a `401`.
fn unauthorized(path: &str) -> Response {
    if path.starts_with("/v1/") || path == "/metrics" || path == "/openapi.json" {
        let what = "a token is required: `Authorization: Bearer TOKEN`";
        let mut response = ProblemDetails::new(StatusCode::UNAUTHORIZED, what).into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    Redirect::to("/login").into_response()
}
