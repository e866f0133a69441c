//! The specification of a request, checked before anything is sent.

use std::{net::IpAddr, time::Duration};

use http::{
    HeaderName, HeaderValue, Method, Uri,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};

use redrive_core::Class;

use super::{addresses::is_private, template::BodyTemplate};
use crate::handlers::json_pointer::JsonPointer;

/// The default of [`HttpSpec::connect_timeout`].
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers that define where a message ends and how long its connection lives. The client derives them
/// from the body; a wrong one would make the server read something else than was sent.
const FRAMING: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The request that is sent for each call.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSpec {
    /// GET, HEAD and DELETE have no body.
    pub method: Method,
    /// `http` or `https`, a host, and no user name or password.
    pub url: Uri,
    /// Added to the query of the URL: names, and templates of values. Null values are left out.
    pub query: Vec<(String, BodyTemplate)>,
    /// Each replaces the default header of the same name.
    pub headers: Vec<(HeaderName, HeaderSource)>,
    /// `None` sends the whole call.
    pub body: Option<BodyTemplate>,
    /// The part of the response that is the answer. [`HttpHandler`](super::HttpHandler) explains `None`.
    pub reply: Option<JsonPointer>,
    pub conventions: ServiceConventions,
    /// Whether requests to private networks and to this machine are allowed.
    pub private_addresses: bool,
    /// How long the TCP connection may take. [`DEFAULT_CONNECT_TIMEOUT`] is 10 seconds.
    pub connect_timeout: Duration,
}

/// What a service means by its failed responses (CLS-7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceConventions {
    /// The classes of statuses that mean something else here than usual. A declared class binds like one that a
    /// handler states.
    pub classes: Vec<(u16, Class)>,
    /// Where the body of a failed response has its error code.
    pub error_code: Option<JsonPointer>,
}

/// Where the value of a header comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderSource {
    Literal(HeaderValue),
    /// A secret in an environment variable, which is read once, when the handler is created.
    Env {
        variable: String,
        /// Text before the value, such as `Bearer `.
        prefix: String,
    },
}

/// Why a request can never be sent as specified. No message contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHttp {
    #[error("the URL must be http://HOST/PATH or https://HOST/PATH, without user and password")]
    Url,
    #[error("the URL names the private address {0}, and private addresses are refused")]
    PrivateAddress(IpAddr),
    #[error(
        "the header {0} cannot be set: the HTTP client derives it from the body and the connection"
    )]
    FramingHeader(HeaderName),
    /// The variable is not set, or empty.
    #[error("the header {header} needs the environment variable {variable}, which is not set")]
    MissingVariable { header: HeaderName, variable: String },
    #[error(
        "the environment variable {variable} cannot be sent as the header {header}: its value has \
         a line break or another character that headers do not allow"
    )]
    InvalidVariable { header: HeaderName, variable: String },
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
    #[error(
        "this machine trusts no certificate authority; install ca-certificates, or name a file in \
         the environment variable SSL_CERT_FILE"
    )]
    NoAuthorities,
}

impl HttpSpec {
    /// A request that sends the whole call as its body, with the default headers.
    pub fn new(method: Method, url: Uri) -> Self {
        Self {
            method,
            url,
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            reply: None,
            conventions: ServiceConventions::default(),
            private_addresses: true,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }

    pub(super) fn has_body(&self) -> bool {
        ![Method::GET, Method::HEAD, Method::DELETE].contains(&self.method)
    }

    /// The host and port, for messages. The rest of a URL may contain secrets.
    pub(crate) fn server(&self) -> String {
        self.url.authority().map(ToString::to_string).unwrap_or_default()
    }

    /// The path and query.
    pub(crate) fn target(&self) -> Uri {
        self.url.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
    }

    /// Checks everything that does not depend on the environment.
    pub(crate) fn check(&self) -> Result<(), InvalidHttp> {
        let (Some("http" | "https"), Some(authority)) =
            (self.url.scheme_str(), self.url.authority())
        else {
            return Err(InvalidHttp::Url);
        };
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(InvalidHttp::Url);
        }
        // A private address in the URL can never be reached, so it is refused before the first attempt.
        let literal = authority.host().trim_start_matches('[').trim_end_matches(']').parse();
        match literal {
            Ok(address) if !self.private_addresses && is_private(address) => {
                return Err(InvalidHttp::PrivateAddress(address));
            }
            _ => {}
        }
        match self.headers.iter().find(|(name, _)| FRAMING.contains(name)) {
            Some((name, _)) => Err(InvalidHttp::FramingHeader(name.clone())),
            None => Ok(()),
        }
    }
}

/// The `host` header of a request: the host, and its port unless the scheme implies it.
pub(crate) fn host_header(url: &Uri) -> HeaderValue {
    let implied = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host().unwrap_or_default();
    let host = match url.port_u16().filter(|port| *port != implied) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    // The host of a parsed URL has no character that a header cannot carry.
    HeaderValue::from_str(&host).unwrap_or_else(|_| HeaderValue::from_static(""))
}
