//! The middleware of every request: limits, host, token, origin and role; and the security headers of every response.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};

use percent_encoding::percent_decode_str;
use redrive_core::Message;

use crate::{
    access::{NamedToken, Role},
    app::App,
    client_address::ClientAddress,
    connections::MAX_HEAD_BYTES,
    pages::{self, NOTICE, Notice},
    problem::ProblemDetails,
    problem_kind::ProblemKind,
};

/// Holds the session of a browser.
pub(crate) const COOKIE: &str = "redrive_session";

/// Pages load only the styles and scripts of this server, and no other site may frame them.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names the person behind a shared token, for the journal.
const ACTOR: HeaderName = HeaderName::from_static("redrive-actor");

const MAX_ACTOR_CHARS: usize = 100;

/// Slows down an address that sends many wrong tokens.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    identity: Identity,
    /// From the `Redrive-Actor` header.
    actor_name: Option<String>,
    is_browser: bool,
    /// The session that the browser sent, also one that has ended.
    pub(crate) session: Option<String>,
    pub(crate) client: ClientAddress,
    /// What the action did that led here.
    pub(crate) notice: Option<Notice>,
    /// The version of the overview when the request arrived. The response is no older.
    pub(crate) version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// Without a token, on a route that needs none.
    Anonymous,
    /// Any caller when no token is configured.
    Local,
    /// The name of a token.
    Token(String),
}

impl Caller {
    pub(crate) fn has_token(&self) -> bool {
        matches!(self.identity, Identity::Token(_))
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.identity == Identity::Anonymous
    }

    pub(crate) fn name(&self) -> &str {
        match &self.identity {
            Identity::Anonymous => "anonymous",
            Identity::Local => "local",
            Identity::Token(name) => name,
        }
    }

    /// The name in the journal.
    pub(crate) fn actor(&self) -> String {
        let channel = if self.is_browser { "dashboard" } else { "api" };
        let name = self.name();
        match &self.actor_name {
            Some(actor) => format!("{actor} ({channel}, {name})"),
            None => format!("{name} ({channel})"),
        }
    }

    /// Why the role of the caller does not suffice for a request.
    fn forbidden(&self, method: &Method, path: &str) -> Option<String> {
        let name = self.name();
        match self.role {
            Role::Operator => None,
            _ if is_open(path) || path == "/logout" => None,
            Role::Viewer if is_safe(method) => None,
            Role::Viewer => {
                Some(format!("token {name:?} may only read; actions need an operator token"))
            }
            Role::Submitter if method == Method::POST && path == "/v1/runs" => None,
            Role::Submitter => Some(format!("token {name:?} may only submit: POST /v1/runs")),
        }
    }
}

/// Whether a path needs no token.
fn is_open(path: &str) -> bool {
    is_health_check(path) || path.starts_with("/assets/") || path == "/login"
}

pub(crate) fn is_health_check(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
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
    let back = wants_html(&request).then(|| page_before(&request));
    let response = match guard.authorize(&request) {
        Ok(caller) => {
            if caller.notice.is_some() {
                *request.uri_mut() = without_notice(request.uri());
            }
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(guard.app.limits);
            next.run(request).await
        }
        Err(refusal) => *refusal,
    };
    let problem = response.extensions().get::<ProblemDetails>();
    if problem.is_some_and(|problem| problem.has_kind(ProblemKind::TooManyWrongTokens)) {
        tokio::time::sleep(WRONG_TOKEN_DELAY).await;
    }
    let mut response = match back {
        Some(back) => problem_page(response, &back),
        None => response,
    };
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

/// The page of this server from which a browser comes, or else the list to which the path belongs.
fn page_before(request: &Request) -> String {
    let headers = request.headers();
    let host = text(headers, &header::HOST).unwrap_or_default();
    let referer = text(headers, &header::REFERER).and_then(|from| from.split_once("://"));
    let page = referer.and_then(|(_, rest)| rest.strip_prefix(host));
    let asked = request.uri().path_and_query().map_or("", |asked| asked.as_str());
    let is_other = |page: &&str| is_local(page) && *page != asked;
    page.filter(is_other).unwrap_or(pages::list_of(request.uri().path())).to_owned()
}

/// Whether an address is a path of this server: a browser is sent to no other.
pub(crate) fn is_local(page: &str) -> bool {
    page.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && page.chars().all(|c| c.is_ascii_graphic())
}

fn notice(request: &Request) -> Option<Notice> {
    let value = request.uri().query()?.split('&').find_map(notice_value)?;
    Notice::read(&percent_decode_str(value).decode_utf8().ok()?)
}

fn notice_value(pair: &str) -> Option<&str> {
    pair.strip_prefix(NOTICE)?.strip_prefix('=')
}

/// The address of the page itself, which refuses parameters that it does not know.
fn without_notice(uri: &Uri) -> Uri {
    let pairs = uri.query().unwrap_or_default().split('&');
    let pairs: Vec<&str> = pairs.filter(|pair| notice_value(pair).is_none()).collect();
    let sign = if pairs.is_empty() { "" } else { "?" };
    let page = format!("{}{sign}{}", uri.path(), pairs.join("&"));
    page.parse().unwrap_or_else(|_| uri.clone())
}

/// Replaces a problem with an HTML page.
fn problem_page(mut response: Response, back: &str) -> Response {
    let Some(problem) = response.extensions_mut().remove::<ProblemDetails>() else {
        return response;
    };
    let mut page = pages::problem_page(&problem, back);
    for (name, value) in response.headers() {
        if ![header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

type Authorized<T> = Result<T, Box<Response>>;

fn refuse<T>(problem: ProblemDetails) -> Authorized<T> {
    Err(Box::new(problem.into_response()))
}

impl Guard {
    fn authorize(&self, request: &Request) -> Authorized<Caller> {
        let (headers, path) = (request.headers(), request.uri().path());
        check_size(headers)?;
        let client = self.client(request);
        if !self.app.requests.count(client.ip, self.app.ops.now()) {
            let what = "too many requests from this address; send fewer, or more units in each";
            return refuse(ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, what).retry_after(1));
        }
        let credentials = Credentials::of(headers);
        let token = self.token_of(&credentials);
        let host = self.check_host(request, path, token.is_some())?;
        let caller = |role, identity| Caller {
            role,
            identity,
            actor_name: actor_name(headers),
            is_browser: headers.contains_key(SEC_FETCH_SITE),
            session: credentials.session().map(str::to_owned),
            client,
            notice: notice(request),
            version: self.app.watch.version(),
        };
        let caller = match token {
            _ if !self.app.access.needs_token() => caller(Role::Operator, Identity::Local),
            Some(token) => caller(token.role, Identity::Token(token.name.clone())),
            None => {
                // A session that ended is no guess.
                if !is_health_check(path)
                    && matches!(credentials, Credentials::Bearer(_))
                    && let Some(problem) = self.app.count_wrong_token(client.ip)
                {
                    return refuse(problem);
                }
                if !is_open(path) {
                    return Err(Box::new(unauthorized(request, &credentials)));
                }
                caller(Role::Viewer, Identity::Anonymous)
            }
        };
        check_origin(request, &credentials, host)?;
        match caller.forbidden(request.method(), path) {
            Some(what) => refuse(ProblemDetails::new(StatusCode::FORBIDDEN, what)),
            None => Ok(caller),
        }
    }

    fn client(&self, request: &Request) -> ClientAddress {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
        ClientAddress::of(request.headers(), peer, &self.app.access)
    }

    /// The token of a request. A session ends with its token.
    fn token_of(&self, credentials: &Credentials) -> Option<&NamedToken> {
        let access = &self.app.access;
        match credentials {
            Credentials::Bearer(token) => access.find(token),
            Credentials::Session(id) => {
                access.entry_of(&self.app.sessions.token(id, self.app.ops.now())?)
            }
            Credentials::None => None,
        }
    }

    /// Orchestrators send health checks, and Prometheus its token, to the address of a container.
    fn check_host<'a>(
        &self,
        request: &'a Request,
        path: &str,
        has_token: bool,
    ) -> Authorized<&'a str> {
        let headers = request.headers();
        if headers.get_all(header::HOST).iter().count() > 1 {
            return refuse(ProblemDetails::bad_request("the request has several Host headers"));
        }
        let host = text(headers, &header::HOST).or(request.uri().host()).unwrap_or_default();
        let any_host = is_health_check(path) || path == "/metrics" && has_token;
        if any_host || self.app.access.allows_host(host, self.listening) {
            return Ok(host);
        }
        let what = "the Host header does not name this server; add the name to `hosts` in [server]";
        refuse(ProblemDetails::new(StatusCode::MISDIRECTED_REQUEST, what))
    }
}

fn check_size(headers: &HeaderMap) -> Authorized<()> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if headers.iter().map(line).sum::<usize>() <= MAX_HEAD_BYTES {
        return Ok(());
    }
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    refuse(ProblemDetails::new(status, "the headers are too large").allowed("up to 64 KiB"))
}

/// A browser sends its session also for pages of other sites; it never adds a token by itself.
fn check_origin(request: &Request, credentials: &Credentials, host: &str) -> Authorized<()> {
    let by_program = matches!(credentials, Credentials::Bearer(_));
    if is_safe(request.method()) || by_program || is_same_origin(request.headers(), host) {
        return Ok(());
    }
    let what = "requests from pages of other sites may not change anything";
    refuse(ProblemDetails::new(StatusCode::FORBIDDEN, what).allowed(
        "pages of this server, or programs that send a Content-Type such as application/json",
    ))
}

#[derive(Debug)]
enum Credentials {
    None,
    /// A token, from a program.
    Bearer(String),
    /// The id of a session, from a browser.
    Session(String),
}

impl Credentials {
    fn of(headers: &HeaderMap) -> Self {
        let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        if let Some(token) = bearer {
            return Self::Bearer(token);
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs =
            cookies.filter_map(|value| value.to_str().ok()).flat_map(|line| line.split(';'));
        let id = pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        id.map_or(Self::None, |id| Self::Session(id.to_owned()))
    }

    fn session(&self) -> Option<&str> {
        match self {
            Self::Session(id) => Some(id),
            _ => None,
        }
    }
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

/// A browser is redirected to the login page, which leads to the page that was requested; a program gets a `401`.
fn unauthorized(request: &Request, credentials: &Credentials) -> Response {
    let path = request.uri().path();
    if path.starts_with("/v1/") || path == "/metrics" || path == "/openapi.json" {
        let what = match credentials {
            Credentials::None => "a token is required: `Authorization: Bearer TOKEN`",
            Credentials::Bearer(_) => "the token is wrong; it may have been changed or revoked",
            Credentials::Session(_) => "the session has ended; sign in again at /login",
        };
        let mut response = ProblemDetails::new(StatusCode::UNAUTHORIZED, what).into_response();
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    let page = request.uri().path_and_query().map_or(path, |page| page.as_str());
    let page = if is_safe(request.method()) { page } else { pages::list_of(path) };
    Redirect::to(&pages::login_address(page)).into_response()
}
