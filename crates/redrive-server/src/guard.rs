//! What every request passes before anything else sees it, and what every answer carries.

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

/// The cookie that holds a token, for browsers.
pub(crate) const COOKIE: &str = "redrive_token";

/// Nothing is loaded but our own styles and script; nothing may frame us or be sent elsewhere.
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

/// Where a browser says that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How people who share a token say who they are.
const ACTOR: HeaderName = HeaderName::from_static("redrive-actor");

/// The longest name of anyone, in characters.
const MAX_ACTOR_CHARS: usize = 100;

/// Who asks, and what they may do.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    /// By what they were let in.
    name: &'static str,
    /// Who they say they are.
    says: Option<String>,
    /// Whether a browser asks.
    is_browser: bool,
    /// From where.
    pub(crate) from: IpAddr,
    /// The version of the figures when they came: what they are shown is no older.
    pub(crate) version: u64,
}

/// Who came in without being asked for a token.
const ANONYMOUS: &str = "anonymous";

/// Who needs no token, because nobody does.
const LOCAL: &str = "local";

impl Caller {
    /// Whether they were let in by a token.
    pub(crate) fn has_token(&self) -> bool {
        self.name != LOCAL && !self.is_anonymous()
    }

    /// Whether they may only sign in.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// What they are called on a page.
    pub(crate) fn role_name(&self) -> &'static str {
        self.name
    }

    /// How the journal calls them.
    pub(crate) fn actor(&self) -> String {
        let way = if self.is_browser { "dashboard" } else { "api" };
        let name = self.name;
        match &self.says {
            Some(says) => format!("{says} ({way}, {name})"),
            None => format!("{name} ({way})"),
        }
    }
}

/// What the guard goes by.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: Arc<App>,
    pub(crate) listening: SocketAddr,
}

/// Lets a request in, or says why not.
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_person = is_person(&request);
    let response = match guard.admit(&request) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(guard.app.limits);
            next.run(request).await
        }
        Err(refusal) => *refusal,
    };
    let mut response = if is_person { for_people(response) } else { response };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether somebody looks at pages with a browser: a program asks for JSON, or for nothing in particular.
fn is_person(request: &Request) -> bool {
    let wants = text(request.headers(), &header::ACCEPT).unwrap_or_default();
    wants.contains("text/html") && !request.uri().path().starts_with("/v1/")
}

/// A problem as a page.
fn for_people(mut response: Response) -> Response {
    let Some(problem) = response.extensions_mut().remove::<ProblemDetails>() else {
        return response;
    };
    let mut page = pages::failed(&problem);
    for (name, value) in response.headers() {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

impl Guard {
    /// What a token allows. Whoever tried too many wrong ones is not told.
    fn role_of(&self, token: &str, from: IpAddr) -> Result<Option<Role>, Box<Response>> {
        let (now, guesses) = (self.app.ops.now(), &self.app.guesses);
        if !guesses.allows(from, now) {
            return Err(Box::new(self.app.too_many_guesses().into_response()));
        }
        let role = self.app.access.role_of(token);
        if role.is_none() {
            guesses.count(from, now);
        }
        Ok(role)
    }

    fn admit(&self, request: &Request) -> Result<Caller, Box<Response>> {
        let headers = request.headers();
        let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        if headers.iter().map(line).sum::<usize>() > MAX_HEAD_BYTES {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let problem = ProblemDetails::new(status, "the headers are too long");
            return Err(Box::new(problem.allowed("64 KiB").into_response()));
        }
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let from = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
        if !self.app.requests.count(from, self.app.ops.now()) {
            let what = "too many requests came from there; send less often, or more in one";
            let problem = ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, what).retry_after(1);
            return Err(Box::new(problem.into_response()));
        }
        let host = text(headers, &header::HOST).or(request.uri().host());
        let Some(host) = host.filter(|host| self.app.access.allows_host(host, self.listening))
        else {
            let what = "this server is not asked under that name; `hosts` in [server] allows more";
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
        let caller =
            |role, name| Caller { role, name, says: says(headers), is_browser, from, version };
        let needed = token.as_deref().filter(|_| self.app.access.needs_token());
        let role = needed.map(|token| self.role_of(token, from)).transpose()?.flatten();
        let caller = match role {
            _ if !self.app.access.needs_token() => caller(Role::Operator, LOCAL),
            Some(Role::Operator) => caller(Role::Operator, "operator"),
            Some(Role::Viewer) => caller(Role::Viewer, "viewer"),
            None if open => caller(Role::Viewer, ANONYMOUS),
            _ => return Err(Box::new(unknown(path))),
        };
        let safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if safe {
            return Ok(caller);
        }
        if (cookie || token.is_none()) && !is_from_here(headers, host) {
            let what = "a page of another site may not change anything here";
            let problem = ProblemDetails::new(StatusCode::FORBIDDEN, what).allowed(
                "a page of this server, or a program: with a Content-Type that no form has, as application/json",
            );
            return Err(Box::new(problem.into_response()));
        }
        if caller.role < Role::Operator && !matches!(path, "/login" | "/logout") {
            let what = "this token lets you look; changing something takes the operator's";
            return Err(Box::new(ProblemDetails::new(StatusCode::FORBIDDEN, what).into_response()));
        }
        Ok(caller)
    }
}

/// The token of a request, and whether a browser sent it by itself.
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

/// Whether a change comes from a page of ours, or from no page at all. Browsers say where a request
/// comes from; a form of another site cannot send JSON without asking first.
fn is_from_here(headers: &HeaderMap, host: &str) -> bool {
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

/// Who someone says they are, without anything that a terminal or a page obeys.
fn says(headers: &HeaderMap) -> Option<String> {
    let says = Message::clean(text(headers, &ACTOR)?).to_string();
    let says: String = says.chars().take(MAX_ACTOR_CHARS).collect();
    Some(says.trim().to_owned()).filter(|says| !says.is_empty())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A person is shown where to enter a token; a program is told that it needs one.
fn unknown(path: &str) -> Response {
    if path.starts_with("/v1/") || path == "/metrics" || path == "/openapi.json" {
        let what = "a token is needed: `Authorization: Bearer TOKEN`";
        let mut response = ProblemDetails::new(StatusCode::UNAUTHORIZED, what).into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    Redirect::to("/login").into_response()
}
