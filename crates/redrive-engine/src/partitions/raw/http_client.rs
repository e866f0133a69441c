//! HTTP for object stores, on the same client and TLS that the rest of Redrive uses.
//!
//! `object_store` signs requests, retries them and reads the answers; it leaves open how they are sent.
//! Bringing a second HTTP client for that would cost more crates than it has itself.

use std::{
    error::Error,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector as TcpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Sleep, sleep, timeout};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long an answer may take to begin, its request being sent meanwhile.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// How long a body may say nothing.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Below the five seconds after which common servers close theirs.
const IDLE_LIMIT: Duration = Duration::from_secs(4);

/// Makes clients for object stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hyper;

#[derive(Debug)]
struct Service(Client<HttpsConnector<TcpConnector>, HttpRequestBody>);

impl HttpConnector for Hyper {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_LIMIT));
        tcp.set_nodelay(true);
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls_settings()?);
        let plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let plain_allowed = plain.is_some_and(|allowed| allowed == "true");
        let connector = if plain_allowed { tls.https_or_http() } else { tls.https_only() };
        let connector = connector.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(HttpClient::new(Service(client)))
    }
}

/// The machine's authorities. Having none matters only once a certificate is to be checked.
fn tls_settings() -> object_store::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let settings = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|error| object_store::Error::Generic { store: "TLS", source: error.into() })?;
    Ok(settings.with_root_certificates(roots).with_no_client_auth())
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = timeout(ANSWER_LIMIT, self.0.request(request)).await;
        let answer = answer.map_err(|late| HttpError::new(HttpErrorKind::Timeout, late))?;
        let answer = answer.map_err(|error| {
            let connect = error.is_connect().then_some(HttpErrorKind::Connect);
            HttpError::new(connect.unwrap_or_else(|| kind_of(&error)), error)
        })?;
        Ok(answer.map(|body| HttpResponseBody::new(Timely::new(body))))
    }
}

/// A body that must not fall silent.
struct Timely {
    body: Incoming,
    silence: Pin<Box<Sleep>>,
}

impl Timely {
    fn new(body: Incoming) -> Self {
        Self { body, silence: Box::pin(sleep(SILENCE_LIMIT)) }
    }
}

impl Body for Timely {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.silence.set(sleep(SILENCE_LIMIT));
            let told = |error: hyper::Error| HttpError::new(kind_of(&error), error);
            return Poll::Ready(frame.map(|frame| frame.map_err(told)));
        }
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "the body fell silent");
        let late = self.silence.as_mut().poll(context);
        late.map(|()| Some(Err(HttpError::new(HttpErrorKind::Timeout, silent()))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What `object_store` may make of an error: which of them it tries again.
fn kind_of(error: &(dyn Error + 'static)) -> HttpErrorKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_timeout() {
                return HttpErrorKind::Timeout;
            }
            if error.is_canceled() || error.is_incomplete_message() || error.is_closed() {
                return HttpErrorKind::Request;
            }
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
            match error.kind() {
                TimedOut => return HttpErrorKind::Timeout,
                BrokenPipe | ConnectionAborted | ConnectionReset | io::ErrorKind::UnexpectedEof => {
                    return HttpErrorKind::Interrupted;
                }
                _ => {}
            }
        }
        cause = error.source();
    }
    HttpErrorKind::Unknown
}
