//! What to request, checked before anything is sent.

use std::{net::IpAddr, time::Duration};

use http::{
    HeaderName, HeaderValue, Method, Uri,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};

use super::{addresses::is_private, pointer::JsonPointer, template::BodyTemplate};

/// How long the way to a server may take, unless it is set otherwise.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers that say where a message ends and how long its connection lives. They follow from the
/// body; a wrong one lets a server read something else than was sent.
const FRAMING: [HeaderName; 7] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// A request to send for each call.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSpec {
    /// The method. GET, HEAD and DELETE carry no body.
    pub method: Method,
    /// Where it goes: `http` or `https`, a host, and no user name or password.
    pub url: Uri,
    /// What is added to the query of the URL: names, and values as in a body. What is null is left out.
    pub query: Vec<(String, BodyTemplate)>,
    /// What it carries besides the body. Each replaces what would be sent otherwise.
    pub headers: Vec<(HeaderName, HeaderSource)>,
    /// The body; `None` is the whole call.
    pub body: Option<BodyTemplate>,
    /// The part of the answer that is the reply; `None` is explained at
    /// [`HttpHandler`](super::HttpHandler).
    pub reply: Option<JsonPointer>,
    /// Whether addresses of private networks, and of this machine, may be connected to.
    pub private_addresses: bool,
    /// How long the way to the server may take. [`DEFAULT_CONNECT_TIMEOUT`] is 10 seconds.
    pub connect_timeout: Duration,
}

/// Where the value of a header comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderSource {
    /// It is written out.
    Literal(HeaderValue),
    /// A secret in an environment variable, which is read once, when the handler is made.
    Env {
        /// The name of the variable.
        variable: String,
        /// What stands before its value, such as `Bearer `.
        prefix: String,
    },
}

/// A request that can never be sent as specified. No text of it holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHttp {
    /// The URL is none that can be requested.
    #[error("the URL must be http://HOST/PATH or https://HOST/PATH, without user and password")]
    Url,
    /// The URL has an address that the same specification refuses.
    #[error("the URL names the private address {0}, and private addresses are refused")]
    PrivateAddress(IpAddr),
    /// The header follows from the body and cannot be set.
    #[error("the header {0} cannot be set: it follows from the body and the connection")]
    FramingHeader(HeaderName),
    /// The environment variable of a header is not set, or is empty.
    #[error("the header {header} needs the environment variable {variable}, which is not set")]
    MissingVariable {
        /// The header.
        header: HeaderName,
        /// The variable.
        variable: String,
    },
    /// The environment variable of a header holds what no header can carry.
    #[error(
        "the environment variable {variable} cannot be sent as the header {header}: it holds a line \
         break or another character that no header can carry"
    )]
    InvalidVariable {
        /// The header.
        header: HeaderName,
        /// The variable.
        variable: String,
    },
    /// Encryption cannot be set up.
    #[error("encryption cannot be set up")]
    Encryption(#[source] rustls::Error),
    /// There is nobody to say whose certificate is good.
    #[error(
        "this machine trusts no certificate authority; install ca-certificates, or name a file in \
         the environment variable SSL_CERT_FILE"
    )]
    NoAuthorities,
}

impl HttpSpec {
    /// A request that sends the whole call, and nothing else of its own.
    pub fn new(method: Method, url: Uri) -> Self {
        Self {
            method,
            url,
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            reply: None,
            private_addresses: true,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }

    /// Whether the method carries a body.
    pub(super) fn has_body(&self) -> bool {
        ![Method::GET, Method::HEAD, Method::DELETE].contains(&self.method)
    }

    /// The host and port, for messages. The rest of a URL may hold what is not for a log.
    pub(crate) fn server(&self) -> String {
        self.url.authority().map(ToString::to_string).unwrap_or_default()
    }

    /// What a request says of where it goes: the path, and the query if there is one.
    pub(crate) fn target(&self) -> Uri {
        self.url.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
    }

    /// Checks what can be checked without looking around.
    pub(crate) fn check(&self) -> Result<(), InvalidHttp> {
        let (Some("http" | "https"), Some(authority)) =
            (self.url.scheme_str(), self.url.authority())
        else {
            return Err(InvalidHttp::Url);
        };
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(InvalidHttp::Url);
        }
        // A literal address is connected to without asking the resolver, which would refuse it.
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
